//! The kinds that a `CustomResourceDefinition` defines, and those whose definition is not known.
//!
//! Facts: `spec.versions`: each that is served is a kind of its own, with its schema and subresources.

use serde_json::{Value, json};

use super::custom::{CustomResource, root_type};
use super::kinds::ResourceKind;

impl ResourceKind {
    /// The kinds that a definition defines, one per served version.
    pub fn from_definition(definition: &Value) -> Vec<Self> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let texts = |pointer: &str| -> Vec<String> {
            let list = definition.pointer(pointer).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let served = versions.into_iter().flatten().filter(|v| v.get("served") == Some(&Value::Bool(true)));
        served
            .map(|version| {
                let at = |pointer: &str| version.pointer(pointer);
                let path = |p: &str| at(p).and_then(Value::as_str).map(str::to_owned);
                let schema = at("/schema/openAPIV3Schema").cloned().unwrap_or_default();
                let selectable = at("/selectableFields").and_then(Value::as_array).into_iter().flatten();
                Self {
                    group: text("/spec/group").to_owned(),
                    version: path("/name").unwrap_or_default(),
                    kind: text("/spec/names/kind").to_owned(),
                    plural: text("/spec/names/plural").to_owned(),
                    singular: text("/spec/names/singular").to_owned(),
                    short: texts("/spec/names/shortNames"),
                    categories: texts("/spec/names/categories"),
                    namespaced: text("/spec/scope") == "Namespaced",
                    generation: true,
                    status: at("/subresources/status").is_some(),
                    scale: at("/subresources/scale").is_some(),
                    schema: root_type(&schema),
                    custom: Some(CustomResource {
                        schema,
                        replicas: path("/subresources/scale/specReplicasPath"),
                        status_replicas: path("/subresources/scale/statusReplicasPath"),
                        selector: path("/subresources/scale/labelSelectorPath"),
                        selectable: selectable
                            .filter_map(|field| field.get("jsonPath")?.as_str().map(str::to_owned))
                            .collect(),
                    }),
                }
            })
            .collect()
    }

    /// A custom resource whose definition is not known: mappings are merged key by key, lists are atomic.
    pub fn custom_without_schema(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Self {
            plural: plural.to_owned(),
            generation: true,
            status: true,
            schema: root_type(&schema),
            custom: Some(CustomResource {
                schema,
                replicas: None,
                status_replicas: None,
                selector: None,
                selectable: Vec::new(),
            }),
            ..Self::without_schema(api_version, kind, namespaced)
        }
    }
}
