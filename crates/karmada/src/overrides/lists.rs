//! `commandOverrider` and `argsOverrider`: change the words of a container's command.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::api::ListOverrider;
use federate_kubernetes::pods::containers_pointer;
use federate_kubernetes::work;

/// The steps of comparing the name of a container.
const STEPS_PER_CONTAINER: u64 = 4;

/// Changes `field` of every container of that name. A missing field is created, empty unless words
/// are added; `replace` leaves an existing one as it is.
pub(super) fn override_list(overrider: &ListOverrider, field: &str, manifest: &mut Value) {
    let Some(path) = containers_pointer(manifest) else { return };
    let removed: BTreeSet<&str> = overrider.value.iter().map(String::as_str).collect();
    let containers = manifest.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten();
    for container in containers.filter_map(Value::as_object_mut) {
        work::charge_steps(STEPS_PER_CONTAINER);
        if work::is_exceeded() {
            return;
        }
        if container.get("name").and_then(Value::as_str) != Some(&overrider.container_name) {
            continue;
        }
        let words = overrider.value.iter().map(|word| Value::from(word.as_str()));
        match (container.get_mut(field).and_then(Value::as_array_mut), overrider.operator.as_str()) {
            (Some(list), "add") => {
                work::charge_steps(overrider.value.len() as u64);
                list.extend(words);
            }
            (Some(list), "remove") => list.retain(|word| !removed.contains(&*format_word(word))),
            (Some(_), _) => {}
            (None, "add") => drop(container.insert(field.to_owned(), words.collect())),
            (None, _) => drop(container.insert(field.to_owned(), Value::Array(Vec::new()))),
        }
    }
}

fn format_word(word: &Value) -> String {
    word.as_str().map_or_else(|| word.to_string(), str::to_owned)
}
