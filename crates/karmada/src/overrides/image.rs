//! `imageOverrider`: changes a part of image references.

use serde_json::Value;

use super::super::api::KarmadaImageOverrider;
use federate_kubernetes::image::Image;
use federate_kubernetes::{patch, work};

/// The steps of changing an image.
const STEPS_PER_IMAGE: u64 = 120;

/// Changes the images that the overrider selects: the one at the predicate's path, or those of all containers
/// of the kinds that have containers.
pub(in super::super) fn override_images(
    overrider: &KarmadaImageOverrider,
    manifest: &mut Value,
) -> Result<(), String> {
    if work::is_exceeded() {
        return Ok(());
    }
    let paths = match &overrider.predicate {
        Some(predicate) => vec![predicate.path.clone()],
        None => super::lists::containers_path(manifest)
            .map(|path| container_images(manifest, path))
            .unwrap_or_default(),
    };
    for path in paths {
        work::charge_steps(STEPS_PER_IMAGE);
        if work::is_exceeded() {
            return Ok(());
        }
        let tokens = patch::parse_pointer(&path).map_err(|error| error.to_string())?;
        let current = patch::find_value(manifest, &tokens)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("there is no text at `{path}`, where an image should be"))?;
        work::charge_steps(current.len() as u64 / 16);
        let mut image = Image::parse(current)
            .ok_or_else(|| format!("`{current}` at `{path}` is not an image reference"))?;
        if !image.tag.is_empty() {
            image.digest.clear();
        }
        change_image(overrider, &mut image);
        let value = Value::from(image.to_string());
        let operation = patch::JsonPatchOperation { name: "replace", path: &path, value: Some(&value) };
        patch::apply_operation(manifest, operation).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn container_images(manifest: &Value, path: &str) -> Vec<String> {
    let containers = manifest.pointer(path).and_then(Value::as_array).map_or(0, Vec::len);
    (0..containers).map(|index| format!("{path}/{index}/image")).collect()
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
