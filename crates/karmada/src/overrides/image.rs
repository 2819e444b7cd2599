//! `imageOverrider`: changes a part of image references.

use std::fmt::Display;

use serde_json::Value;

use super::super::api::KarmadaImageOverrider;
use federate_kubernetes::image::Image;
use federate_kubernetes::pods::containers_pointer;
use federate_kubernetes::{patch, work};

/// The steps of changing an image.
const STEPS_PER_IMAGE: u64 = 130;

/// Changes the images that the overrider selects: the one at the predicate's path, or those of all containers
/// of the kinds that have containers.
pub(in super::super) fn override_images(
    overrider: &KarmadaImageOverrider,
    manifest: &mut Value,
) -> Result<(), String> {
    if work::is_exceeded() {
        return Ok(());
    }
    if let Some(predicate) = &overrider.predicate {
        let path = &predicate.path;
        let tokens = patch::parse_pointer(path).map_err(|error| error.to_string())?;
        return override_image(overrider, patch::find_value_mut(manifest, &tokens), path);
    }
    let Some(path) = containers_pointer(manifest) else { return Ok(()) };
    let containers = manifest.pointer_mut(path).and_then(Value::as_array_mut);
    for (index, container) in containers.into_iter().flatten().enumerate() {
        override_image(overrider, container.get_mut("image"), &format_args!("{path}/{index}/image"))?;
    }
    Ok(())
}

/// Changes one image; `path` is where it is, for messages.
fn override_image(
    overrider: &KarmadaImageOverrider,
    image: Option<&mut Value>,
    path: &dyn Display,
) -> Result<(), String> {
    work::charge_steps(STEPS_PER_IMAGE);
    if work::is_exceeded() {
        return Ok(());
    }
    let text = image.and_then(|image| if let Value::String(text) = image { Some(text) } else { None });
    let Some(text) = text else {
        return Err(format!("there is no text at `{path}`, where an image should be"));
    };
    work::charge_steps(text.len() as u64 / 16);
    let mut image =
        Image::parse(text).ok_or_else(|| format!("`{text}` at `{path}` is not an image reference"))?;
    if !image.tag.is_empty() {
        image.digest.clear();
    }
    change_image(overrider, &mut image);
    *text = image.to_string();
    Ok(())
}

fn change_image(overrider: &KarmadaImageOverrider, image: &mut Image) {
    let value = overrider.value.as_str();
    match (overrider.component.as_str(), overrider.operator.as_str()) {
        ("Registry", "add") => image.host.push_str(value),
        ("Registry", "replace") => value.clone_into(&mut image.host),
        ("Registry", "remove") => image.host.clear(),
        ("Repository", "add") => image.repository.push_str(value),
        ("Repository", "replace") => value.clone_into(&mut image.repository),
        ("Repository", "remove") => image.repository.clear(),
        ("Tag", "add") => {
            let text = format!("{}{value}", image.tag_or_digest());
            image.set_tag_or_digest(&text);
        }
        ("Tag", "replace") => image.set_tag_or_digest(value),
        ("Tag", "remove") => image.remove_tag_or_digest(),
        _ => {}
    }
}
