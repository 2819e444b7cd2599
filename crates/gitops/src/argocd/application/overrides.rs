//! Files in the folder of a source that change its settings: `.argocd-source.yaml`, and `.argocd-source-NAME.yaml` for an Application.
//!
//! Facts: Argo CD's documentation of these files. They are merged over the source (RFC 7386), first the one for all Applications, but
//! say nothing of its repository, revision, path and chart.

use serde_json::Value;

use federate_file_tree::{CachedTree, EntryKind, FileTree as _, find_entry, join_path};
use federate_kubernetes::object::field_text;

use crate::description::DescriptionError;

/// The fields of a source that the files do not change.
const FIXED_FIELDS: [&str; 4] = ["chart", "path", "repoURL", "targetRevision"];

/// The largest such file.
const MAX_BYTES: usize = 1 << 20;

/// The source with what files in its folder change.
pub(super) fn merge_overrides(
    tree: &CachedTree<'_>,
    folder: &str,
    name: &str,
    source: &Value,
) -> Result<Value, DescriptionError> {
    let mut merged = source.clone();
    let names = [Some(".argocd-source.yaml".to_owned()), file_of(name)];
    for path in names.into_iter().flatten().map(|name| join_path(folder, &name)) {
        if !matches!(find_entry(tree, &path), Some(EntryKind::File)) {
            continue;
        }
        let refuse = |why: String| DescriptionError::new("", format!("`{path}` cannot be read: {why}"));
        let bytes = tree.read_file(&path).map_err(|why| refuse(why.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
        if text.len() > MAX_BYTES {
            return Err(refuse(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
        }
        let patch = federate_yaml::read_as_go(&text).map_err(|error| refuse(error.to_string()))?;
        if !patch.is_object() {
            return Err(refuse("it is not a map".to_owned()));
        }
        merge_patch(&mut merged, patch);
    }
    for field in FIXED_FIELDS {
        if let (Value::Object(merged), Some(value)) = (&mut merged, source.get(field)) {
            merged.insert(field.to_owned(), value.clone());
        } else if let Value::Object(merged) = &mut merged {
            merged.shift_remove(field);
        }
    }
    Ok(merged)
}

/// The name of the file for one Application; `None` if it is no name of a file.
fn file_of(name: &str) -> Option<String> {
    (!name.contains('/')).then(|| format!(".argocd-source-{name}.yaml"))
}

/// Merges a patch over a value: null takes a field away, maps are merged, and other values replace.
fn merge_patch(value: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *value = patch;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (key, patch) in patch {
        if patch.is_null() {
            fields.shift_remove(&key);
        } else {
            merge_patch(fields.entry(key).or_insert(Value::Null), patch);
        }
    }
}

/// Whether a setting of a source is there, and not without content, which Argo CD takes for missing.
pub(super) fn is_set(source: &Value, tool: &str) -> bool {
    let Some(settings) = source.get(tool).and_then(Value::as_object) else { return false };
    let counted: &[&str] = match tool {
        "kustomize" => &[
            "namePrefix",
            "nameSuffix",
            "version",
            "namespace",
            "images",
            "commonLabels",
            "commonAnnotations",
            "patches",
            "components",
            "replicas",
            "kubeVersion",
            "apiVersions",
            "ignoreMissingComponents",
        ],
        "plugin" => &["name", "env", "parameters"],
        _ => {
            return settings
                .iter()
                .any(|(key, value)| !is_empty(value) || key == "valuesObject" && value.is_object());
        }
    };
    counted.iter().any(|key| settings.get(*key).is_some_and(|value| !is_empty(value)))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        _ => false,
    }
}

/// Refuses settings that are not known.
pub(super) fn refuse_unknown(
    source: &Value,
    tool: &str,
    known: &[&str],
    at: &str,
) -> Result<(), DescriptionError> {
    let settings = source.get(tool).and_then(Value::as_object).into_iter().flatten();
    let mut unknown = settings.filter(|(key, value)| !known.contains(&key.as_str()) && !is_empty(value));
    match unknown.next() {
        Some((key, _)) => Err(DescriptionError::new(
            &format!("{at}/{tool}/{key}"),
            format!("federate does not carry out `{tool}.{key}`"),
        )),
        None => Ok(()),
    }
}

/// The release of an Application, whose name may have that of a namespace in front.
pub(super) fn release_name(application: &str) -> &str {
    application.split_once('_').map_or(application, |(_, name)| name)
}

/// The name by which other sources refer to a source; empty for none.
pub(super) fn reference_name(source: &Value) -> &str {
    field_text(source, "ref")
}
