//! Custom resources: the schema of a `CustomResourceDefinition`.
//!
//! Facts: structural schemas of Kubernetes; `x-kubernetes-list-type`, `-list-map-keys`, `-map-type`,
//! `-preserve-unknown-fields`, `-int-or-string`, `-embedded-resource`; defaults and nullable fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use federate_kubernetes::work;

use super::normalization::normalize_object;
use super::schema::{ListType, Struct, StructField, Type, WhenWritten};
use super::values::{has_flag, text_below};

/// The steps of a field with a default value.
const STEPS_PER_DEFAULT: u64 = 20;

/// The CRD of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomResource {
    /// The JSON schema of its objects.
    pub schema: Value,
    /// The path of the desired replicas, for the subresource `scale`.
    pub replicas: Option<String>,
    /// The path of the actual replicas.
    pub status_replicas: Option<String>,
    /// The path of the label selector of its pods.
    pub selector: Option<String>,
    /// The fields by which objects can be selected, such as `.spec.mode`.
    pub selectable: Vec<String>,
}

impl CustomResource {
    /// The object as it is stored: pruned, with defaults, without nulls that are not nullable.
    pub(super) fn apply_schema(&self, mut object: Value) -> Value {
        let Some(map) = object.as_object_mut() else { return object };
        // The schema does not describe the fields that all objects have.
        let mut stored = Map::new();
        for key in ["apiVersion", "kind", "metadata"] {
            stored.extend(map.shift_remove_entry(key));
        }
        if let Some(metadata) = stored.get_mut("metadata") {
            normalize_object(&Type::Named("ObjectMeta"), metadata);
        }
        fill_value(&self.schema, &mut object);
        for (key, value) in object.as_object_mut().into_iter().flat_map(std::mem::take) {
            stored.entry(key).or_insert(value);
        }
        Value::Object(stored)
    }
}

fn fill_value(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => fill_map(schema, map),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    fill_value(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn fill_map(schema: &Value, map: &mut Map<String, Value>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let additional = schema.get("additionalProperties").filter(|a| a.is_object());
    let open =
        has_flag(schema, "x-kubernetes-preserve-unknown-fields") || has_flag(schema, "additionalProperties");
    let is_embedded = has_flag(schema, "x-kubernetes-embedded-resource");
    map.retain(|key, value| {
        let known = properties.is_some_and(|p| p.contains_key(key))
            || (is_embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
        let below = properties.and_then(|p| p.get(key)).or(additional);
        // A null that is not nullable is replaced by the default, or else dropped.
        let void = value.is_null() && below.is_some_and(|below| !has_flag(below, "nullable"));
        (known || additional.is_some() || open) && !void
    });
    work::charge_items(properties.map_or(0, Map::len));
    for (key, below) in properties.into_iter().flatten().take_while(|_| !work::is_exceeded()) {
        if let (Some(default), false) = (below.get("default"), map.contains_key(key)) {
            work::charge_steps(STEPS_PER_DEFAULT);
            work::charge_copy(default);
            map.insert(key.clone(), default.clone());
        }
    }
    for (key, value) in map.iter_mut() {
        if let Some(below) = properties.and_then(|p| p.get(key)).or(additional) {
            fill_value(below, value);
        }
    }
}

/// The type of whole objects.
pub(super) fn root_type(schema: &Value) -> Type {
    let mut ty = match type_of(schema) {
        Type::Struct(s) => s,
        _ => Struct { rest: Some(Box::new(Type::Any)), ..Struct::default() },
    };
    for key in ["apiVersion", "kind"] {
        ty.fields.remove(key);
    }
    let metadata = StructField { ty: Type::Named("ObjectMeta"), written: WhenWritten::Given, default: None };
    ty.fields.insert("metadata".to_owned(), metadata);
    Type::Struct(ty)
}

fn type_of(schema: &Value) -> Type {
    if has_flag(schema, "x-kubernetes-int-or-string") {
        return Type::IntOrString;
    }
    match text_below(schema, "type") {
        "object" => object_type(schema, text_below(schema, "x-kubernetes-map-type") == "atomic"),
        "array" => {
            let item = schema.get("items").map_or(Type::Any, type_of);
            Type::List { item: Box::new(item), list_type: ListType::from_schema(schema) }
        }
        "string" => Type::Text,
        "integer" | "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Any,
    }
}

fn object_type(schema: &Value, atomic: bool) -> Type {
    let open = has_flag(schema, "x-kubernetes-preserve-unknown-fields");
    if let Some(value) = schema.get("additionalProperties") {
        let value = if value.is_object() { type_of(value) } else { Type::Any };
        return Type::Map { value: Box::new(value), atomic };
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    if properties.is_none() && open {
        return if atomic { Type::Atomic } else { Type::Any };
    }
    let mut fields: BTreeMap<String, StructField> = properties
        .into_iter()
        .flatten()
        .map(|(name, below)| {
            let field = StructField {
                ty: type_of(below),
                written: WhenWritten::Given,
                default: below.get("default").cloned(),
            };
            (name.clone(), field)
        })
        .collect();
    if has_flag(schema, "x-kubernetes-embedded-resource") {
        for (name, ty) in
            [("apiVersion", Type::Text), ("kind", Type::Text), ("metadata", Type::Named("ObjectMeta"))]
        {
            fields.insert(name.to_owned(), StructField { ty, written: WhenWritten::Given, default: None });
        }
    }
    Type::Struct(Struct { fields, rest: open.then(|| Box::new(Type::Any)), atomic })
}
