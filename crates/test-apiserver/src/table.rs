//! The form of a response: whole objects, metadata only, or rows of a table.

use federate_apiserver::Kind;
use serde_json::{Value, json};

use super::http::Request;

fn wanted(request: &Request, form: &str) -> bool {
    request.accept().split(';').any(|part| part == format!("as={form}"))
}

/// An object in the requested form.
pub fn one(request: &Request, kind: &Kind, object: &Value) -> Value {
    if wanted(request, "PartialObjectMetadata") || wanted(request, "PartialObjectMetadataList") {
        return partial(object);
    }
    if wanted(request, "Table") {
        return rows(kind, &json!({}), std::slice::from_ref(object));
    }
    object.clone()
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// A list in the requested form.
pub fn many(request: &Request, kind: &Kind, metadata: &Value, items: &[Value]) -> Value {
    if wanted(request, "PartialObjectMetadataList") {
        let items: Vec<Value> = items.iter().map(partial).collect();
        return json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
        });
    }
    if wanted(request, "Table") {
        return rows(kind, metadata, items);
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

fn rows(_kind: &Kind, metadata: &Value, items: &[Value]) -> Value {
    let rows: Vec<Value> = items
        .iter()
        .map(|item| json!({"cells": [item["metadata"]["name"], "0s"], "object": partial(item)}))
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Age", "type": "string", "format": "", "description": "", "priority": 0},
        ],
        "rows": rows,
    })
}
