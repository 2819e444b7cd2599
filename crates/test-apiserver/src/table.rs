//! The form of a response: whole objects, metadata only, or rows of a table.

use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::values::{integer_at, list_at};
use serde_json::{Value, json};

use super::http::ApiRequest;

fn is_form_requested(request: &ApiRequest, form: &str) -> bool {
    request.accept_header().split(';').any(|part| part == format!("as={form}"))
}

/// An object in the requested form.
pub fn format_object(request: &ApiRequest, kind: &ResourceKind, object: &Value) -> Value {
    if is_form_requested(request, "PartialObjectMetadata")
        || is_form_requested(request, "PartialObjectMetadataList")
    {
        return partial_metadata(object);
    }
    if is_form_requested(request, "Table") {
        return build_table(kind, &json!({}), std::slice::from_ref(object));
    }
    object.clone()
}

fn partial_metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// A list in the requested form.
pub fn format_list(request: &ApiRequest, kind: &ResourceKind, metadata: &Value, items: &[Value]) -> Value {
    if is_form_requested(request, "PartialObjectMetadataList") {
        let items: Vec<Value> = items.iter().map(partial_metadata).collect();
        return json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
        });
    }
    if is_form_requested(request, "Table") {
        return build_table(kind, metadata, items);
    }
    let items: Vec<Value> = items
        .iter()
        .map(|item| {
            let mut item = item.clone();
            if let (None, Some(map)) = (&kind.custom, item.as_object_mut()) {
                map.shift_remove("kind");
                map.shift_remove("apiVersion");
            }
            item
        })
        .collect();
    json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata, "items": items})
}

/// A column: its name, and whether it is only shown on demand.
type Column = (&'static str, bool);

fn build_table(kind: &ResourceKind, metadata: &Value, items: &[Value]) -> Value {
    let columns: &[Column] = if kind.is_builtin("Deployment") {
        &[
            ("Name", false),
            ("Ready", false),
            ("Up-to-date", false),
            ("Available", false),
            ("Age", false),
            ("Containers", true),
            ("Images", true),
            ("Selector", true),
        ]
    } else {
        &[("Name", false), ("Age", false)]
    };
    let mut definitions = Vec::new();
    for (name, wide) in columns {
        let format = if *name == "Name" { "name" } else { "" };
        definitions.push(json!({
            "name": name, "type": "string", "format": format, "description": "", "priority": i32::from(*wide),
        }));
    }
    let mut rows = Vec::new();
    for item in items {
        let cells: Vec<Value> = columns.iter().map(|(name, _)| format_cell(item, name)).collect();
        rows.push(json!({"cells": cells, "object": partial_metadata(item)}));
    }
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn format_cell(item: &Value, column: &str) -> Value {
    match column {
        "Name" => item["metadata"]["name"].clone(),
        "Ready" => {
            let ready = integer_at(item, "/status/readyReplicas").unwrap_or(0);
            json!(format!("{ready}/{}", integer_at(item, "/spec/replicas").unwrap_or(0)))
        }
        "Up-to-date" => json!(integer_at(item, "/status/updatedReplicas").unwrap_or(0)),
        "Available" => json!(integer_at(item, "/status/availableReplicas").unwrap_or(0)),
        "Containers" | "Images" => {
            let key = if column == "Images" { "image" } else { "name" };
            let containers = list_at(item, "/spec/template/spec/containers").iter();
            json!(containers.filter_map(|container| container[key].as_str()).collect::<Vec<_>>().join(","))
        }
        "Selector" => {
            let labels = item.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
            let labels = labels.into_iter().flatten();
            let pairs = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            json!(pairs.collect::<Vec<_>>().join(","))
        }
        _ => json!("0s"),
    }
}
