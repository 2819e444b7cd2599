//! `templatePatch`: a strategic merge patch of an Application, whose lists have no keys.
//!
//! Facts: the text is filled by the engine of the set, and read as JSON if it begins with `{`, else as YAML. It must be an Application by its
//! types; fields that an Application does not have are ignored. Maps are merged, lists replaced, and `null` removes. `$patch: replace`
//! and `delete` are known. The project stays.

use serde_json::{Map, Value};

use super::repo_paths::read_first_document;
use super::template::TemplateFiller;
use crate::argocd::application_type::{APPLICATION, FieldType};
use crate::description::DescriptionError;

/// Where the patch of the Applications of a set is.
pub(super) const PATCH_POINTER: &str = "/spec/templatePatch";

/// What says how a map of a patch is merged.
const DIRECTIVE: &str = "$patch";

/// The text with which each Application of a set is patched, if there is one.
pub(super) fn read_patch(spec: &Value) -> Result<Option<&str>, DescriptionError> {
    match spec.get("templatePatch") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(patch)) => Ok(Some(patch)),
        Some(_) => Err(refuse("it is not a text")),
    }
}

/// Patches an Application. The fields of the patch that an Application does not have are added to `unknown`.
pub(super) fn patch_application(
    application: &mut Value,
    patch: &str,
    filler: &TemplateFiller<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), DescriptionError> {
    let text = filler.fill_text(patch, PATCH_POINTER)?;
    let patch = read_filled_patch(&text)?;
    let patch = match patch {
        Value::Null => return Ok(()),
        Value::Object(map) => map,
        _ => return Err(refuse("it is not a map")),
    };
    let patch = Value::Object(patch);
    APPLICATION.check(&patch, "", unknown).map_err(|mismatch| {
        refuse(format!("it does not fit an Application: {}: {}", mismatch.pointer, mismatch.why))
    })?;
    unknown.retain(|pointer| !pointer.rsplit('/').next().is_some_and(|key| key.starts_with('$')));
    let project = application.pointer("/spec/project").cloned();
    let Value::Object(patch) = patch else { return Ok(()) };
    let original = std::mem::take(application);
    *application = merge_map(original, patch, Some(&APPLICATION))?;
    let Some(spec) = application.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    match project {
        Some(project) => drop(spec.insert("project".to_owned(), project)),
        None => drop(spec.remove("project")),
    }
    Ok(())
}

fn read_filled_patch(text: &str) -> Result<Value, DescriptionError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| refuse(format!("it is not JSON: {error}")));
    }
    read_first_document(text.as_bytes()).map_err(|error| refuse(format!("it is not YAML: {error}")))
}

/// Merges a map of a patch. `field` is the type of the map; `None` in one whose keys have no types.
fn merge_map(
    original: Value,
    mut patch: Map<String, Value>,
    field: Option<&FieldType>,
) -> Result<Value, DescriptionError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(Value::Object(patch)),
            Some("delete") => Ok(Value::Object(Map::new())),
            _ => Err(refuse(format!("`{DIRECTIVE}` is `replace` or `delete`"))),
        };
    }
    let Value::Object(mut map) = original else { return Ok(drop_directives(Value::Object(patch))) };
    for (key, value) in patch {
        if key.starts_with('$') {
            return Err(refuse(format!("Argo CD does not carry out `{key}` for an Application")));
        }
        let known = field.and_then(|field| field.field(&key));
        if known.is_none() && matches!(field, Some(FieldType::Struct(_))) {
            continue;
        }
        match (map.get_mut(&key), value) {
            (_, Value::Null) => drop(map.shift_remove(&key)),
            (Some(own @ Value::Object(_)), Value::Object(patch)) => {
                if matches!(field, Some(FieldType::AnyMap)) {
                    return Err(refuse_any_map(&key));
                }
                *own = merge_map(std::mem::take(own), patch, known)?;
            }
            (Some(Value::Array(_)), Value::Array(_)) if matches!(field, Some(FieldType::AnyMap)) => {
                return Err(refuse_any_map(&key));
            }
            (_, value) => drop(map.insert(key, drop_directives(value))),
        }
    }
    Ok(Value::Object(map))
}

/// What is new in an Application has nothing to remove.
fn drop_directives(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, drop_directives(value))).collect())
        }
        value => value,
    }
}

fn refuse(why: impl Into<String>) -> DescriptionError {
    DescriptionError::new(PATCH_POINTER, why)
}

/// Strategic merge patches know no types of what is in `valuesObject`.
fn refuse_any_map(key: &str) -> DescriptionError {
    refuse(format!("Argo CD does not merge `{key}` of a `valuesObject` that the template has, too"))
        .with_help("write the whole `valuesObject` in the patch, and none in the template")
}
