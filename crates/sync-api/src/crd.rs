//! The definitions for an API server: of `Sync`, made from the Rust type, with a structural schema and the columns that
//! `kubectl get` prints, and of `SyncRecord`, in which the loop keeps what it remembers of a Sync.
//!
//! Facts: "Specifying a structural schema" and "Additional printer columns" of the Kubernetes documentation.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::SyncSpec;
use crate::status::SyncStatus;

/// The `CustomResourceDefinition`s.
pub fn build_crds() -> [Value; 2] {
    [build_sync_crd(), build_record_crd()]
}

fn build_record_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "syncrecords.federate.dev"},
        "spec": {
            "group": "federate.dev",
            "scope": "Namespaced",
            "names": {"kind": "SyncRecord", "listKind": "SyncRecordList", "plural": "syncrecords", "singular": "syncrecord"},
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "description": "What federate remembers of a Sync. It is not meant to be written by anybody else.",
                    "type": "object",
                    "properties": {
                        "data": {"type": "object", "additionalProperties": {"type": "string"}},
                        "binaryData": {
                            "type": "object",
                            "additionalProperties": {"type": "string", "format": "byte"},
                        },
                    },
                }},
            }],
        },
    })
}

fn build_sync_crd() -> Value {
    let mut revision = printer_column("Revision", ".status.lastAppliedRevision");
    revision["priority"] = 1.into();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "syncs.federate.dev"},
        "spec": {
            "group": "federate.dev",
            "scope": "Namespaced",
            "names": {"kind": "Sync", "listKind": "SyncList", "plural": "syncs", "singular": "sync", "categories": ["federate"]},
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    printer_column("URL", ".spec.source.url"),
                    printer_column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
                    printer_column("Status", ".status.conditions[?(@.type==\"Ready\")].message"),
                    revision,
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "description": "Keeps branches, registries and clusters at what a source renders.",
                    "type": "object",
                    "required": ["spec"],
                    "x-kubernetes-validations": [
                        {
                            "rule": "size(self.metadata.name) <= 200",
                            "message": "the name must have at most 200 characters",
                        },
                        {
                            "rule": "!has(self.spec.dependsOn) || self.spec.dependsOn.all(on, has(on.namespace) || on.name != self.metadata.name)",
                            "message": "a Sync cannot depend on itself",
                        },
                    ],
                    "properties": {"spec": spec_schema(), "status": status_schema()},
                }},
            }],
        },
    })
}

/// A column of text.
fn printer_column(name: &str, path: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path})
}

/// A rule in CEL, with the message for objects that break it.
fn validation_rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// The schema of the status. Its default tells kstatus that no reconciliation has seen the object yet.
fn status_schema() -> Value {
    let mut status = structural_schema::<SyncStatus>();
    status["default"] = json!({"observedGeneration": -1});
    status
}

/// The schema of the spec, with the rules that go beyond single fields.
fn spec_schema() -> Value {
    let mut spec = structural_schema::<SyncSpec>();
    spec["x-kubernetes-validations"] = json!([
        validation_rule(
            "has(self.commit) || has(self.push) || has(self.apply) || !has(self.drift) || self.drift.mode != 'ignore'",
            "there is nothing to do: name commit, push or apply"
        ),
        validation_rule(
            "!has(self.rollout) || has(self.apply)",
            "a rollout is about clusters: name apply, too"
        ),
        validation_rule(
            "!has(self.windows) || has(self.apply) || !(has(self.commit) || has(self.push))",
            "windows are about clusters: name apply, too"
        ),
        validation_rule(
            "!has(self.clusters) || !has(self.commit)",
            "a branch has what every cluster gets: leave out clusters or commit"
        ),
        validation_rule(
            "!has(self.clusters) || !has(self.push)",
            "a registry has what every cluster gets: leave out clusters or push"
        ),
        validation_rule(
            "!has(self.commit) || !has(self.push)",
            "the scheduler's memory is in one place: commit and push with two Syncs"
        ),
        validation_rule(
            "!has(self.clusters) || has(self.clusters.names) || has(self.clusters.labelSelector)",
            "clusters: name clusters, or select them by labels"
        ),
        validation_rule(
            "!has(self.failover) || !self.failover || (has(self.inventory) && self.inventory == 'members')",
            "failover needs the status of members: set inventory: members"
        ),
        validation_rule(
            "!has(self.commit) || !has(self.commit.push) || self.commit.push",
            "commit: a branch that is not pushed would only be in the cache"
        ),
        validation_rule("!(has(self.kubeConfig) && has(self.hub))", "name either kubeConfig or hub"),
        // federate also refuses what depends on the operator's flags.
        validation_rule(
            "!has(self.hub) || has(self.serviceAccountName) || (has(self.withoutImpersonation) && self.withoutImpersonation)",
            "hub leads to members with the control plane's Secrets: name serviceAccountName, as which they are read and used"
        ),
    ]);
    let properties = &mut spec["properties"];
    properties["dependsOn"]["maxItems"] = 100.into();
    properties["windows"]["maxItems"] = 50.into();
    properties["timeout"]["x-kubernetes-validations"] =
        json!([validation_rule("duration(self) <= duration('1h')", "timeout may be 1h at most")]);
    properties["rollout"]["x-kubernetes-validations"] = json!([validation_rule(
        "[has(self.stages) && size(self.stages) > 0, has(self.stagedRolloutStrategyName), has(self.byPlacements) && self.byPlacements].filter(named, named).size() == 1",
        "name exactly one of stages, stagedRolloutStrategyName and byPlacements"
    )]);
    let stages = &mut properties["rollout"]["properties"]["stages"];
    stages["x-kubernetes-list-type"] = "map".into();
    stages["x-kubernetes-list-map-keys"] = json!(["name"]);
    let source = &mut properties["source"];
    for (field, longest) in [("url", 2048), ("path", 1024)] {
        source["properties"][field]["maxLength"] = longest.into();
    }
    source["x-kubernetes-validations"] = json!([
        validation_rule(
            "self.url.matches('^(https|ssh)://') || self.url.matches('^http://(localhost|127[.][0-9.]+|[[]::1[]])([:/]|$)') || self.url.matches('^[^/:]+:($|[^:/]|/[^/])')",
            "url must be an address of https or ssh, not a path"
        ),
        validation_rule(
            "!has(self.path) || !(self.path.startsWith('/') || self.path.matches('(^|/)[.][.](/|$)'))",
            "path must lie in the repository"
        ),
    ]);
    spec["properties"]["source"]["properties"]["ref"]["x-kubernetes-validations"] = json!([validation_rule(
        "[has(self.branch), has(self.tag), has(self.semver), has(self.name), has(self.commit)].filter(named, named).size() == 1",
        "name exactly one of branch, tag, semver, name and commit"
    )]);
    spec
}

/// The structural schema of a type.
fn structural_schema<T: schemars::JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_structural(&mut schema);
    schema
}

/// Removes what API servers refuse, and writes alternatives as an enumeration.
fn make_structural(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        map.values_mut().for_each(make_structural);
        for unknown in ["$schema", "components", "title", "uniqueItems"] {
            // A property may be called so.
            if map.get(unknown).is_some_and(|value| unknown != "title" || value.is_string()) {
                map.remove(unknown);
            }
        }
        if map.get("additionalProperties") == Some(&Value::Bool(false)) {
            map.remove("additionalProperties");
        }
        if let Some(words) = map.get("oneOf").and_then(Value::as_array).and_then(|cases| enum_values(cases)) {
            map.remove("oneOf");
            map.insert("type".to_owned(), "string".into());
            map.insert("enum".to_owned(), words.into());
        }
        // What is not wanted is left out, and never null.
        map.remove("nullable");
        if let Some(Value::Array(cases)) = map.get_mut("anyOf").map(Value::take) {
            map.remove("anyOf");
            let case = cases.into_iter().find(|case| case.get("type").is_some());
            for (key, value) in case.as_ref().and_then(Value::as_object).into_iter().flatten() {
                map.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        // How many bytes a whole number has is no matter of JSON.
        if map.get("format").is_some_and(|format| matches!(format.as_str(), Some("uint" | "uint8"))) {
            map.remove("format");
        }
    } else if let Some(items) = schema.as_array_mut() {
        items.iter_mut().for_each(make_structural);
    }
}

fn enum_values(cases: &[Value]) -> Option<Vec<Value>> {
    cases
        .iter()
        .map(|case| {
            let one =
                case["enum"].as_array().filter(|words| words.len() == 1).and_then(|words| words.first());
            case.get("const").or(one).filter(|word| word.is_string()).cloned()
        })
        .collect()
}
