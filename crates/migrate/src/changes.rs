//! What the changes of override rules do to the manifest of an object, whatever its cluster.
//!
//! Rules that touch different values of an object do the same in any order and in any cluster, so that what each does can be
//! found from the object alone.

use std::collections::BTreeSet;

use federate_kubernetes::image::Image;
use federate_kubernetes::patch::{self, JsonPatchOperation};
use federate_kubernetes::pods::containers_pointer;
use federate_kubernetes::pointer::escape;
use serde_json::{Map, Value};

use crate::difference;
use crate::intent::{
    EntriesAction, EntriesChange, ImageChange, ImageComponent, ManifestChange, ManifestOperation,
    OwnOverrideRule, PatchAction, WordsChange,
};

/// The pointers to a field of all containers, or of those with a name.
pub(crate) fn container_fields(body: &Value, name: Option<&str>, field: &str) -> Vec<String> {
    let Some(pointer) = containers_pointer(body) else { return Vec::new() };
    let containers = body.pointer(pointer).and_then(Value::as_array);
    let named = containers.into_iter().flatten().enumerate().filter(|(_, container)| {
        name.is_none_or(|name| container.get("name").and_then(Value::as_str) == Some(name))
    });
    named.map(|(index, _)| format!("{pointer}/{index}/{field}")).collect()
}

/// Changes as operations of a JSON patch: what other changes do comes before the operations. `None` if one of them fails.
pub(crate) fn lower_changes(changes: &[ManifestChange], body: &Value) -> Option<Vec<ManifestOperation>> {
    let mut changed = body.clone();
    for change in changes {
        match change {
            ManifestChange::Operation(_) => {}
            ManifestChange::Image(change) => change_images(change, &mut changed)?,
            ManifestChange::Command(change) => change_words(change, "command", &mut changed)?,
            ManifestChange::Args(change) => change_words(change, "args", &mut changed)?,
            ManifestChange::Labels(change) => change_entries(change, "labels", &mut changed)?,
            ManifestChange::Annotations(change) => change_entries(change, "annotations", &mut changed)?,
        }
    }
    let mut operations = difference::compute_exact_patch(body, &changed);
    for change in changes {
        if let ManifestChange::Operation(operation) = change {
            apply_operation(operation, &mut changed)?;
            operations.push(operation.clone());
        }
    }
    Some(operations)
}

/// Applies an operation; `None` if it fails.
fn apply_operation(operation: &ManifestOperation, body: &mut Value) -> Option<()> {
    let ManifestOperation { action, pointer } = operation;
    patch::apply_operation(
        body,
        JsonPatchOperation { name: action.name(), path: pointer, value: action.value() },
    )
    .ok()
}

/// The pointers to the images that a change is about.
pub(crate) fn find_images(change: &ImageChange, body: &Value) -> Vec<String> {
    if change.pointers.is_empty() { container_fields(body, None, "image") } else { change.pointers.clone() }
}

fn change_images(change: &ImageChange, body: &mut Value) -> Option<()> {
    for pointer in find_images(change, body) {
        let image = body.pointer_mut(&pointer)?;
        *image = change_image(change, image.as_str()?)?.into();
    }
    Some(())
}

/// An image reference after a change.
fn change_image(change: &ImageChange, text: &str) -> Option<String> {
    let mut image = Image::parse(text)?;
    if !image.tag.is_empty() {
        image.digest.clear();
    }
    match (change.component, &change.value) {
        (ImageComponent::Registry, value) => image.host = value.clone().unwrap_or_default(),
        (ImageComponent::Repository, value) => image.repository = value.clone().unwrap_or_default(),
        (ImageComponent::Tag, Some(value)) => image.set_tag_or_digest(value),
        (ImageComponent::Tag, None) => image.remove_tag_or_digest(),
    }
    Some(image.to_string())
}

fn change_words(change: &WordsChange, field: &str, body: &mut Value) -> Option<()> {
    for pointer in container_fields(body, Some(&change.container), field) {
        let (container, _) = pointer.rsplit_once('/')?;
        let container = body.pointer_mut(container)?.as_object_mut()?;
        let words = container.entry(field).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
        if change.adds {
            words.extend(change.words.iter().map(|word| Value::from(word.as_str())));
        } else {
            let removed: BTreeSet<&str> = change.words.iter().map(String::as_str).collect();
            words.retain(|word| word.as_str().is_none_or(|word| !removed.contains(word)));
        }
    }
    Some(())
}

fn change_entries(change: &EntriesChange, field: &str, body: &mut Value) -> Option<()> {
    let metadata = body.get_mut("metadata")?.as_object_mut()?;
    let is_missing = !metadata.contains_key(field);
    let map = metadata.entry(field).or_insert_with(|| Value::Object(Map::new())).as_object_mut()?;
    for (key, value) in &change.entries {
        match change.action {
            EntriesAction::Replace if !map.contains_key(key) => {}
            EntriesAction::Add | EntriesAction::Replace => {
                map.insert(key.clone(), value.as_str().into());
            }
            EntriesAction::Remove => drop(map.shift_remove(key)),
        }
    }
    if is_missing && map.is_empty() {
        metadata.shift_remove(field);
    }
    Some(())
}

/// Whether each value of a manifest is touched by one change at most, apart from the operations of one rule.
pub(crate) fn are_independent(rules: &[OwnOverrideRule], body: &Value) -> bool {
    let mut touched: Vec<TouchedValue> = Vec::new();
    let mut unit = 0;
    for rule in rules {
        unit += 1;
        let patch = unit;
        for change in &rule.changes {
            if !matches!(change, ManifestChange::Operation(_)) {
                unit += 1;
            }
            let unit = if matches!(change, ManifestChange::Operation(_)) { patch } else { unit };
            let pointers = find_touched(change, body).into_iter();
            // With a slash behind it, a pointer is a prefix of those within the value only.
            touched.extend(pointers.map(|pointer| TouchedValue { pointer: format!("{pointer}/"), unit }));
        }
    }
    touched.sort();
    let mut around: Vec<&TouchedValue> = Vec::new();
    for value in &touched {
        while around.last().is_some_and(|outer| !value.pointer.starts_with(&outer.pointer)) {
            around.pop();
        }
        if around.last().is_some_and(|outer| outer.unit != value.unit) {
            return false;
        }
        around.push(value);
    }
    true
}

/// A value that a change touches. The changes of a unit are made together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TouchedValue {
    pointer: String,
    unit: usize,
}

/// The values that a change touches, as JSON pointers.
fn find_touched(change: &ManifestChange, body: &Value) -> Vec<String> {
    match change {
        ManifestChange::Operation(operation) => vec![find_touched_value(operation, body).to_owned()],
        ManifestChange::Image(change) => find_images(change, body),
        ManifestChange::Command(change) => container_fields(body, Some(&change.container), "command"),
        ManifestChange::Args(change) => container_fields(body, Some(&change.container), "args"),
        ManifestChange::Labels(change) => find_touched_entries(change, "labels", body),
        ManifestChange::Annotations(change) => find_touched_entries(change, "annotations", body),
    }
}

/// The value that an operation touches: the list, where it adds an item or removes one.
fn find_touched_value<'o>(operation: &'o ManifestOperation, body: &Value) -> &'o str {
    let pointer = operation.pointer.as_str();
    let around = pointer.rsplit_once('/').map_or("", |(around, _)| around);
    let is_item = body.pointer(around).is_some_and(Value::is_array);
    if is_item && !matches!(operation.action, PatchAction::Replace(_)) { around } else { pointer }
}

/// The entries that a change touches; the map, if it is not there.
fn find_touched_entries(change: &EntriesChange, field: &str, body: &Value) -> Vec<String> {
    let map = format!("/metadata/{field}");
    if body.pointer(&map).is_none_or(|map| !map.is_object()) {
        return vec![map];
    }
    change.entries.keys().map(|key| format!("{map}/{}", escape(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::ClusterRule;
    use serde_json::json;

    fn rule(changes: Vec<ManifestChange>) -> OwnOverrideRule {
        OwnOverrideRule { clusters: ClusterRule::every_cluster(), changes }
    }

    fn label(action: EntriesAction, key: &str, value: &str) -> ManifestChange {
        let entries = [(key.to_owned(), value.to_owned())].into_iter().collect();
        ManifestChange::Labels(EntriesChange { action, entries })
    }

    fn operation(name: &str, pointer: &str, value: &Value) -> ManifestChange {
        ManifestChange::Operation(ManifestOperation::from_parts(name, pointer, Some(value)).unwrap())
    }

    fn deployment() -> Value {
        json!({"kind": "Deployment", "metadata": {"labels": {"app": "web"}}, "spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": "nginx:1.19", "args": ["-v", "-q"]}, {"name": "side", "image": "busybox"},
        ]}}}})
    }

    #[test]
    fn changes_become_operations_of_what_they_do_to_an_object() {
        let words = |adds: bool, words: &[&str]| WordsChange {
            container: "web".to_owned(),
            adds,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let changes = [
            ManifestChange::Image(ImageChange {
                pointers: Vec::new(),
                component: ImageComponent::Registry,
                value: Some("registry.example.com".to_owned()),
            }),
            ManifestChange::Command(words(true, &["serve"])),
            ManifestChange::Args(words(false, &["-q"])),
            label(EntriesAction::Replace, "none", "x"),
            label(EntriesAction::Add, "tier", "front"),
            operation("replace", "/metadata/labels/tier", &json!("back")),
        ];
        let operations = lower_changes(&changes, &deployment()).unwrap();
        let shown: Vec<String> = operations
            .iter()
            .map(|one| format!("{} {} {}", one.action.name(), one.pointer, one.action.value().unwrap()))
            .collect();
        let expected = [
            "add /metadata/labels/tier \"front\"",
            "replace /spec/template/spec/containers/0/image \"registry.example.com/nginx:1.19\"",
            "replace /spec/template/spec/containers/0/args [\"-v\"]",
            "add /spec/template/spec/containers/0/command [\"serve\"]",
            "replace /spec/template/spec/containers/1/image \"registry.example.com/busybox\"",
            "replace /metadata/labels/tier \"back\"",
        ];
        assert_eq!(shown, expected);
        assert_eq!(lower_changes(&[operation("remove", "/spec/none", &Value::Null)], &deployment()), None);
    }

    #[test]
    fn rules_are_independent_if_no_value_is_touched_twice() {
        let body = deployment();
        let tier = || label(EntriesAction::Add, "tier", "front");
        let free = [rule(vec![tier()]), rule(vec![label(EntriesAction::Add, "zone", "a")])];
        assert!(are_independent(&free, &body));
        assert!(!are_independent(&[rule(vec![tier()]), rule(vec![tier()])], &body));
        let map = operation("replace", "/metadata/labels", &json!({}));
        assert!(!are_independent(&[rule(vec![tier()]), rule(vec![map.clone()])], &body));
        let twice = operation("add", "/metadata/labels/a", &json!("b"));
        assert!(are_independent(&[rule(vec![map, twice])], &body), "a patch is applied in its order");
        let annotate = |key: &str| {
            let entries = [(key.to_owned(), String::new())].into_iter().collect();
            ManifestChange::Annotations(EntriesChange { action: EntriesAction::Add, entries })
        };
        let annotated = [rule(vec![annotate("a")]), rule(vec![annotate("b")])];
        assert!(!are_independent(&annotated, &body), "the first one makes the map");
        let image = operation("replace", "/spec/template/spec/containers/1/image", &json!("x"));
        let removed = operation("remove", "/spec/template/spec/containers/0", &Value::Null);
        assert!(!are_independent(&[rule(vec![image]), rule(vec![removed])], &body), "items move up");
    }
}
