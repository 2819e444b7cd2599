//! The kinds that a `CustomResourceDefinition` defines.
//!
//! Facts: `spec.versions`: each that is served is a kind of its own, with its schema and subresources.

use serde_json::Value;

use super::custom::{CustomResource, root_type};
use super::kinds::ResourceKind;
use super::values::{has_flag, list_at, text_at, texts_at};

impl ResourceKind {
    /// The kinds that a definition defines, one per served version.
    pub fn from_definition(definition: &Value) -> Vec<Self> {
        let served =
            list_at(definition, "/spec/versions").iter().filter(|version| has_flag(version, "served"));
        served.map(|version| Self::from_version(definition, version)).collect()
    }

    /// The kind that a version of a definition defines.
    fn from_version(definition: &Value, version: &Value) -> Self {
        let schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
        let [replicas, status_replicas, selector] =
            ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"].map(|key| {
                Some(version.pointer(&format!("/subresources/scale/{key}"))?.as_str()?.to_owned())
            });
        let selectable = list_at(version, "/selectableFields").iter();
        Self {
            group: text_at(definition, "/spec/group").to_owned(),
            version: text_at(version, "/name").to_owned(),
            kind: text_at(definition, "/spec/names/kind").to_owned(),
            plural: text_at(definition, "/spec/names/plural").to_owned(),
            singular: text_at(definition, "/spec/names/singular").to_owned(),
            short: texts_at(definition, "/spec/names/shortNames"),
            categories: texts_at(definition, "/spec/names/categories"),
            namespaced: text_at(definition, "/spec/scope") == "Namespaced",
            generation: true,
            status: version.pointer("/subresources/status").is_some(),
            scale: version.pointer("/subresources/scale").is_some(),
            schema: root_type(&schema),
            custom: Some(CustomResource {
                schema,
                replicas,
                status_replicas,
                selector,
                selectable: selectable
                    .filter_map(|field| field.get("jsonPath")?.as_str().map(str::to_owned))
                    .collect(),
            }),
        }
    }
}
