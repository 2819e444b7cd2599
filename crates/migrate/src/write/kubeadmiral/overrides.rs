//! Writes override rules of `KubeAdmiral`.
//!
//! Facts: the parts of a rule apply in the order image, command, args, annotations, labels, JSON patch. Adding an entry that is
//! there is an error, and overwriting one that is not does nothing.

use std::collections::BTreeMap;

use federate_kubernetes::image::{Image, is_tag};
use federate_kubernetes::{Labels, ObjectRef};
use serde_json::{Value, json};

use super::{can_override, write_affinity};
use crate::changes::{container_fields, find_images, lower_changes};
use crate::intent::{
    EntriesAction, EntriesChange, ImageChange, ImageComponent, ManifestChange, ManifestOperation,
    OverrideRuleIntent, OwnOverrideRule, WordsChange, labels_to_json,
};
use crate::rendering::build_mapping;

/// The kinds with containers whose overriders it has, with their group.
const WORKLOADS: [(&str, &str); 5] =
    [("Pod", ""), ("Deployment", "apps"), ("StatefulSet", "apps"), ("DaemonSet", "apps"), ("Job", "batch")];

/// Override rules as its overriders have them, or else as operations of JSON patches; `None` if they cannot be that.
pub(super) fn fit_rules(rules: &[OwnOverrideRule], body: &Value) -> Option<Vec<OwnOverrideRule>> {
    let mut fitted = Vec::new();
    for rule in rules {
        let operations = lower_changes(&rule.changes, body)?;
        if !rule.clusters.fields.is_empty() || !operations.iter().all(can_override) {
            return None;
        }
        let changes: Option<Vec<ManifestChange>> =
            rule.changes.iter().map(|change| fit_change(change, body)).collect::<Option<Vec<_>>>().map(join);
        let changes = changes
            .unwrap_or_else(|| operations.into_iter().map(ManifestChange::Operation).collect::<Vec<_>>());
        if !changes.is_empty() {
            fitted.push(OwnOverrideRule { clusters: rule.clusters.clone(), changes });
        }
    }
    Some(fitted)
}

fn join(changes: Vec<Vec<ManifestChange>>) -> Vec<ManifestChange> {
    changes.into_iter().flatten().collect()
}

/// A change as overriders make it; `None` if none of them does.
fn fit_change(change: &ManifestChange, body: &Value) -> Option<Vec<ManifestChange>> {
    let fits = match change {
        ManifestChange::Operation(_) => true,
        ManifestChange::Image(change) => has_image_overrider(change, body),
        ManifestChange::Command(change) => has_words_overrider(change, "command", body),
        ManifestChange::Args(change) => has_words_overrider(change, "args", body),
        // Every object with an override has labels: they name its policies.
        ManifestChange::Labels(change) => {
            return Some(fit_entries(change, "labels", body).map(ManifestChange::Labels).collect());
        }
        ManifestChange::Annotations(change) => {
            let has_any = body.pointer("/metadata/annotations").is_some_and(Value::is_object);
            let fitted = fit_entries(change, "annotations", body).map(ManifestChange::Annotations);
            return has_any.then(|| fitted.collect());
        }
    };
    fits.then(|| vec![change.clone()])
}

/// Whether an object is of a kind with overriders of containers.
fn is_workload(body: &Value) -> bool {
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
    let id = ObjectRef { api_version, kind, namespace: None, name: String::new() };
    WORKLOADS.contains(&(id.kind.as_str(), id.group()))
}

/// Whether the overrider of images changes these as they should be: those with digests change in another way.
fn has_image_overrider(change: &ImageChange, body: &Value) -> bool {
    let is_known = change.component != ImageComponent::Tag || change.value.as_deref().is_none_or(is_tag);
    let has_plain_image = |pointer: &String| {
        let image = body.pointer(pointer).and_then(Value::as_str).and_then(Image::parse);
        !pointer.contains('~') && image.is_some_and(|image| image.digest.is_empty())
    };
    is_known
        && (!change.pointers.is_empty() || is_workload(body))
        && find_images(change, body).iter().all(has_plain_image)
}

/// Whether the overrider of words changes these as they should be: a list that is empty before or afterwards is left out.
fn has_words_overrider(change: &WordsChange, field: &str, body: &Value) -> bool {
    let fields = container_fields(body, Some(&change.container), field);
    let keeps_words = |pointer: &String| {
        let words = body.pointer(pointer).and_then(Value::as_array);
        let is_kept =
            |word: &Value| word.as_str().is_some_and(|word| !change.words.iter().any(|one| one == word));
        words.is_some_and(|words| change.adds || words.iter().any(is_kept))
    };
    is_workload(body) && fields.len() == 1 && fields.iter().all(keeps_words)
}

/// Entries that are there are overwritten, others are added.
fn fit_entries(change: &EntriesChange, field: &str, body: &Value) -> impl Iterator<Item = EntriesChange> {
    let there = body.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
    let (present, absent): (Labels, Labels) = change
        .entries
        .clone()
        .into_iter()
        .partition(|(key, _)| there.is_some_and(|map| map.contains_key(key)));
    let parts = match change.action {
        EntriesAction::Add => vec![(EntriesAction::Replace, present), (EntriesAction::Add, absent)],
        action => vec![(action, present)],
    };
    let parts = parts.into_iter().filter(|(_, entries)| !entries.is_empty());
    parts.map(|(action, entries)| EntriesChange { action, entries })
}

/// A rule of an override policy.
pub(super) fn write_own_rule(rule: &OwnOverrideRule) -> Value {
    let mut overriders: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for change in &rule.changes {
        let (name, value) = match change {
            ManifestChange::Operation(operation) => ("jsonpatch", vec![write_patch(operation)]),
            ManifestChange::Image(change) => ("image", write_images(change)),
            ManifestChange::Command(change) => ("command", vec![write_words(change)]),
            ManifestChange::Args(change) => ("args", vec![write_words(change)]),
            ManifestChange::Labels(change) => ("labels", vec![write_entries(change)]),
            ManifestChange::Annotations(change) => ("annotations", vec![write_entries(change)]),
        };
        overriders.entry(name).or_default().extend(value);
    }
    let order = ["image", "command", "args", "annotations", "labels", "jsonpatch"];
    let overriders =
        build_mapping(order.map(|name| (name, overriders.remove(name).unwrap_or_default().into())));
    let targets = build_mapping([
        ("clusters", json!(rule.clusters.names)),
        ("clusterSelector", labels_to_json(&rule.clusters.labels.match_labels)),
        ("clusterAffinity", write_affinity(&rule.clusters)),
    ]);
    build_mapping([("targetClusters", targets), ("overriders", overriders)])
}

/// The overriders of images: one, or one for each place.
fn write_images(change: &ImageChange) -> Vec<Value> {
    let component = match change.component {
        ImageComponent::Registry => "Registry",
        ImageComponent::Repository => "Repository",
        ImageComponent::Tag => "Tag",
    };
    let operator = if change.value.is_some() { "overwrite" } else { "delete" };
    let operation = build_mapping([
        ("imageComponent", json!(component)),
        ("operator", json!(operator)),
        ("value", json!(change.value)),
    ]);
    if change.pointers.is_empty() {
        return vec![json!({"operations": [operation]})];
    }
    change.pointers.iter().map(|path| json!({"imagePath": path, "operations": [operation]})).collect()
}

fn write_words(change: &WordsChange) -> Value {
    let operator = if change.adds { "append" } else { "delete" };
    json!({"containerName": change.container, "operator": operator, "value": change.words})
}

fn write_entries(change: &EntriesChange) -> Value {
    let operator = match change.action {
        EntriesAction::Add => "addIfAbsent",
        EntriesAction::Replace => "overwrite",
        EntriesAction::Remove => "delete",
    };
    json!({"operator": operator, "value": labels_to_json(&change.entries)})
}

/// The changes of some clusters.
pub(super) fn write_rule(rule: &OverrideRuleIntent) -> Value {
    let patches: Vec<Value> = rule.operations.iter().map(write_patch).collect();
    json!({"targetClusters": {"clusters": rule.clusters}, "overriders": {"jsonpatch": patches}})
}

fn write_patch(operation: &ManifestOperation) -> Value {
    let mut patch = json!({"operator": operation.action.name(), "path": operation.pointer});
    if let Some(value) = operation.action.value() {
        patch["value"] = value.clone();
    }
    patch
}
