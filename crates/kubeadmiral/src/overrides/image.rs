//! `image` overriders.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::api::{ImageOperation, ImageOverrider};
use super::pods::WorkloadPods;
use super::{OverriderFailure, Patch};
use federate_kubernetes::image::{Image, is_digest, is_tag};
use federate_kubernetes::{ObjectRef, work};

/// The patches of image overriders, by path. Changes of one image accumulate.
pub(super) fn image_patches(
    overriders: &[ImageOverrider],
    id: &ObjectRef,
    body: &Value,
) -> Result<Vec<Patch>, OverriderFailure> {
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    let pods = OnceCell::new();
    for (number, overrider) in overriders.iter().enumerate() {
        let pointer = format!("/overriders/image/{number}");
        let selected = selected_images(overrider, id, body, &pods)
            .map_err(|message| OverriderFailure::new(&pointer, message))?;
        for (path, written) in selected {
            let there = images.entry(path).or_insert(written);
            *there = change_image(there, &overrider.operations)
                .map_err(|message| OverriderFailure::new(&pointer, message))?;
        }
    }
    Ok(images.into_iter().map(|(path, image)| Patch::replace_at(path, image.into())).collect())
}

/// The images of an overrider, by path. The pod spec is read when the first overrider needs it.
fn selected_images(
    overrider: &ImageOverrider,
    id: &ObjectRef,
    body: &Value,
    pods: &OnceCell<Result<WorkloadPods, String>>,
) -> Result<Vec<(String, String)>, String> {
    if !overrider.image_path.is_empty() {
        let path = &overrider.image_path;
        let image = at_path(body, path).ok_or_else(|| format!("there is no image at `{path}`"))?;
        return Ok(vec![(path.clone(), image.to_owned())]);
    }
    let pods = pods.get_or_init(|| WorkloadPods::from_body(id, body)).as_ref().map_err(Clone::clone)?;
    let names: BTreeSet<&str> = overrider.container_names.iter().map(String::as_str).collect();
    work::charge_steps(pods.count_containers());
    if work::is_exceeded() {
        return Ok(Vec::new());
    }
    let meant = pods.containers().filter(|(_, c)| names.is_empty() || names.contains(&*c.name));
    let images = meant.map(|(place, container)| {
        (pods.field_pointer(place, "image"), container.image.clone().unwrap_or_default())
    });
    Ok(images.collect())
}

/// The text at a path of plain segments.
fn at_path<'v>(body: &'v Value, path: &str) -> Option<&'v str> {
    let segments = path.strip_prefix('/')?.split('/');
    let found = segments.into_iter().try_fold(body, |value, segment| match value {
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        other => other.get(segment),
    });
    found?.as_str()
}

fn change_image(image: &str, operations: &[ImageOperation]) -> Result<String, String> {
    let mut parts = Image::parse(image).ok_or_else(|| format!("`{image}` is not an image reference"))?;
    for operation in operations {
        let component = operation.image_component.as_str();
        let part = match component {
            "Registry" => &mut parts.host,
            "Repository" => &mut parts.repository,
            "Tag" => &mut parts.tag,
            "Digest" => &mut parts.digest,
            other => return Err(format!("`{other}` is not one of Registry, Repository, Tag, Digest")),
        };
        match operation.operator.as_str() {
            "" | "overwrite" => part.clone_from(&operation.value),
            "addIfAbsent" if operation.value.is_empty() => {
                return Err(format!("the {component} to add is empty"));
            }
            "addIfAbsent" if !part.is_empty() => return Err(format!("`{image}` already has a {component}")),
            "addIfAbsent" => part.clone_from(&operation.value),
            "delete" => part.clear(),
            other => return Err(format!("`{other}` is not one of overwrite, addIfAbsent, delete")),
        }
        let fits = match component {
            "Tag" => part.is_empty() || is_tag(part),
            "Digest" => part.is_empty() || is_digest(part),
            _ => true,
        };
        if !fits {
            return Err(format!("`{part}` is not a valid {}", component.to_lowercase()));
        }
    }
    Ok(parts.to_string())
}
