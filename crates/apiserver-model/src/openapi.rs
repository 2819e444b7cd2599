//! Types of kinds by the `OpenAPI` documents that an API server publishes.
//!
//! Facts: `/openapi/v3/apis/GROUP/VERSION` has the types of one version below `components/schemas`, `/openapi/v2`
//! those of all versions below `definitions`. `x-kubernetes-group-version-kind` names the kinds of a type; `$ref`,
//! alone or in `allOf`, names another type; `x-kubernetes-list-type`, `-list-map-keys`, `-map-type` and
//! `-int-or-string` say how values are merged.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ResourceKind;
use super::schema::{ListType, Struct, StructField, Type, WhenWritten};
use super::values::{has_flag, list_at, text_below};

impl ResourceKind {
    /// The kind with its types from an `OpenAPI` document, if the document has them. Defaults that the API server sets stay
    /// unknown.
    #[must_use]
    pub fn with_openapi(self, document: &Value) -> Self {
        let schemas = document.pointer("/components/schemas").or_else(|| document.get("definitions"));
        let schemas = schemas.and_then(Value::as_object);
        let schema = schemas.and_then(|schemas| {
            let own = schemas.values().find(|schema| describes_kind(schema, &self))?;
            Some(Schemas(schemas).read_root(own))
        });
        Self { schema: schema.unwrap_or(self.schema), ..self }
    }
}

/// Whether a schema describes the objects of a kind.
fn describes_kind(schema: &Value, kind: &ResourceKind) -> bool {
    list_at(schema, "/x-kubernetes-group-version-kind").iter().any(|named| {
        [("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)]
            .iter()
            .all(|(key, value)| named.get(*key).is_some_and(|named| named == value.as_str()))
    })
}

/// The types of a document, by name.
struct Schemas<'d>(&'d Map<String, Value>);

impl<'d> Schemas<'d> {
    /// The type of whole objects.
    fn read_root(&self, schema: &'d Value) -> Type {
        let mut root = self.read_type(schema, &mut Vec::new());
        if let Type::Struct(root) = &mut root {
            for (name, ty) in
                [("apiVersion", Type::Text), ("kind", Type::Text), ("metadata", Type::Named("ObjectMeta"))]
            {
                root.fields
                    .insert(name.to_owned(), StructField { ty, written: WhenWritten::Given, default: None });
            }
        }
        root
    }

    /// A type. `open` are the names of the types that contain it: a type that contains itself is not followed.
    fn read_type(&self, schema: &'d Value, open: &mut Vec<&'d str>) -> Type {
        if let Some(name) = referenced_name(schema) {
            if name.ends_with("api.resource.Quantity") {
                return Type::Quantity;
            }
            let Some(named) = self.0.get(name).filter(|_| !open.contains(&name)) else { return Type::Any };
            open.push(name);
            let ty = self.read_type(named, open);
            open.pop();
            return ty;
        }
        if has_flag(schema, "x-kubernetes-int-or-string") || text_below(schema, "format") == "int-or-string" {
            return Type::IntOrString;
        }
        match text_below(schema, "type") {
            "string" => Type::Text,
            "integer" | "number" => Type::Number,
            "boolean" => Type::Boolean,
            "array" => {
                let item = schema.get("items").map_or(Type::Any, |items| self.read_type(items, open));
                Type::List { item: Box::new(item), list_type: ListType::from_schema(schema) }
            }
            "object" => self.read_map(schema, text_below(schema, "x-kubernetes-map-type") == "atomic", open),
            _ => Type::Any,
        }
    }

    fn read_map(&self, schema: &'d Value, atomic: bool, open: &mut Vec<&'d str>) -> Type {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let mut fields = BTreeMap::new();
            for (name, property) in properties {
                let field = StructField {
                    ty: self.read_type(property, open),
                    written: WhenWritten::Given,
                    default: property.get("default").cloned(),
                };
                fields.insert(name.clone(), field);
            }
            // Whether other fields are pruned is up to the server.
            return Type::Struct(Struct { fields, rest: Some(Box::new(Type::Any)), atomic });
        }
        match schema.get("additionalProperties") {
            Some(value) if value.is_object() => {
                Type::Map { value: Box::new(self.read_type(value, open)), atomic }
            }
            _ if atomic => Type::Atomic,
            _ => Type::Any,
        }
    }
}

/// The name of the type that a schema refers to.
fn referenced_name(schema: &Value) -> Option<&str> {
    let reference = match schema.get("$ref") {
        Some(reference) => reference,
        None => schema.get("allOf")?.as_array()?.iter().find_map(|schema| schema.get("$ref"))?,
    };
    reference.as_str()?.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schemas() -> Value {
        json!({
            "example.Gauge": {"type": "object", "x-kubernetes-group-version-kind":
                [{"group": "example.com", "version": "v1", "kind": "Gauge"}],
                "properties": {"metadata": {"type": "object"}, "spec": {"allOf": [{"$ref": "#/components/schemas/example.Spec"}]}}},
            "example.Spec": {"type": "object", "properties": {
                "probes": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}}}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "args": {"type": "array", "items": {"type": "string"}},
                "limit": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "below": {"$ref": "#/components/schemas/example.Spec"}}},
        })
    }

    #[test]
    fn lists_are_merged_as_the_document_says() {
        let kind = ResourceKind::without_schema("example.com/v1", "Gauge", true);
        for document in [json!({"components": {"schemas": schemas()}}), json!({"definitions": schemas()})] {
            let kind = kind.clone().with_openapi(&document);
            let at = |field: &str| kind.schema.at_path(&["spec", field]).cloned();
            let Some(Type::List { item, list_type }) = at("probes") else { panic!("a list") };
            assert_eq!(list_type, ListType::Keys(vec!["name".to_owned(), "port".to_owned()]));
            assert_eq!(item.parts().unwrap().find_field("port").unwrap().default, Some(80.into()));
            assert!(matches!(at("tags"), Some(Type::List { list_type: ListType::Set, .. })));
            assert!(matches!(at("args"), Some(Type::List { list_type: ListType::Atomic, .. })));
            assert_eq!(at("limit"), Some(Type::Quantity));
            assert_eq!(at("selector"), Some(Type::Map { value: Box::new(Type::Text), atomic: true }));
            assert_eq!(kind.schema.at_path(&["metadata"]), Some(&Type::Named("ObjectMeta")));
            assert_eq!(kind.schema.at_path(&["spec", "below"]), Some(&Type::Any), "it ends");
            assert!(!kind.is_known(), "nothing is known of its defaults");
        }
        assert_eq!(kind.clone().with_openapi(&json!({})).schema, Type::Any);
    }
}
