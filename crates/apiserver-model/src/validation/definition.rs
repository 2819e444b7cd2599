//! `CustomResourceDefinition`s: their schemas must be structural.

use serde_json::Value;

use super::super::failure::StatusCause;
use super::{has_flag, list_at, text_below};

/// The errors of a definition.
pub(super) fn find_causes(object: &Value) -> Vec<StatusCause> {
    let versions = list_at(object, "/spec/versions");
    let mut causes = Vec::new();
    for (place, version) in versions.iter().enumerate() {
        // A schema that all versions share is checked as that of the definition.
        let path = if versions.len() == 1 {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{place}].schema.openAPIV3Schema")
        };
        if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
            collect_schema_causes(schema, &path, &mut causes);
        } else {
            let why = "schemas are required";
            causes.push(StatusCause::required(format!("spec.versions[{place}].schema.openAPIV3Schema"), why));
        }
    }
    causes
}

fn collect_schema_causes(schema: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let open = has_flag(schema, "x-kubernetes-int-or-string")
        || has_flag(schema, "x-kubernetes-preserve-unknown-fields");
    if text_below(schema, "type").is_empty() && !open {
        let why = if path.rsplit('.').next() == Some("items") {
            "must not be empty for specified array items"
        } else if path.ends_with("openAPIV3Schema") {
            "must not be empty at the root"
        } else {
            "must not be empty for specified object fields"
        };
        causes.push(StatusCause::required(format!("{path}.type"), why));
    }
    for (name, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        collect_schema_causes(below, &format!("{path}.properties[{name}]"), causes);
    }
    if let Some(items) = schema.get("items") {
        collect_schema_causes(items, &format!("{path}.items"), causes);
    }
    if let Some(below) = schema.get("additionalProperties").filter(|a| a.is_object()) {
        collect_schema_causes(below, &format!("{path}.additionalProperties"), causes);
    }
}
