//! `annotations` and `labels` overriders.

use serde_json::Value;

use super::api::MapOverrider;
use super::{OverriderFailure, Patch};
use federate_kubernetes::object::{string_map, value_at};
use federate_kubernetes::{Labels, work};

/// One patch of the whole map with all changes.
pub(super) fn map_patches(
    overriders: &[MapOverrider],
    field: &str,
    body: &Value,
) -> Result<Vec<Patch>, OverriderFailure> {
    let mut patches = Vec::new();
    let mut map = read_strings(value_at(body, &["metadata", field]));
    for (number, overrider) in overriders.iter().enumerate() {
        work::charge_items(if overrider.operator == "delete" { map.len() } else { overrider.value.len() });
        if work::is_exceeded() {
            break;
        }
        let pointer = format!("/overriders/{field}/{number}");
        match overrider.operator.as_str() {
            "" | "overwrite" => {
                for (key, value) in &overrider.value {
                    if let Some(there) = map.get_mut(key) {
                        value.clone_into(there);
                    }
                }
            }
            "addIfAbsent" => {
                if overrider.value.is_empty() {
                    let message = format!("the {field} to add are empty");
                    return Err(OverriderFailure::new(pointer, message));
                }
                if let Some(key) = overrider.value.keys().find(|key| map.contains_key(*key)) {
                    return Err(OverriderFailure::new(pointer, format!("`{key}` already exists")));
                }
                map.extend(overrider.value.clone());
            }
            "delete" => map.retain(|key, _| !overrider.value.contains_key(key)),
            _ => {}
        }
    }
    if !overriders.is_empty() {
        let value = map.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        patches.push(Patch::replace_at(format!("/metadata/{field}"), Value::Object(value)));
    }
    Ok(patches)
}

/// A map with a value that is not a string counts as empty.
fn read_strings(map: Option<&Value>) -> Labels {
    let all = map.and_then(Value::as_object).is_some_and(|map| map.values().all(Value::is_string));
    if all { string_map(map) } else { Labels::new() }
}
