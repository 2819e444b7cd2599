//! Discovery (plain and aggregated), `OpenAPI` documents, version and readiness.

use std::collections::BTreeSet;

use federate_apiserver_model::{ApiError, ResourceKind};
use serde_json::{Value, json};

use super::cluster::{TestCluster, unknown_resource};
use super::http::{ApiRequest, Response};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl TestCluster {
    pub(super) fn handle_discovery(&self, request: &ApiRequest) -> Result<Response, ApiError> {
        let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        let aggregated = request.accept_header().split(',').any(|one| one.trim() == AGGREGATED);
        match parts.as_slice() {
            ["version"] => Ok(Response::from_json(200, version_info())),
            ["openapi", "v3"] => Ok(self.openapi_root()),
            ["openapi", ..] => match self.openapi.get(&request.path) {
                Some(document) => Ok(Response::from_json(200, document.clone())),
                None => Ok(Response::not_found()),
            },
            ["readyz" | "livez" | "healthz", ..] => Ok(Response::from_text(200, "ok")),
            ["api" | "apis"]
                if request.accept_header().contains("v=v2beta1") && !aggregated && !accepts_json(request) =>
            {
                let message = "only the following media types are accepted: application/json, application/yaml, \
                               application/vnd.kubernetes.protobuf";
                Err(ApiError::new(406, "NotAcceptable", message))
            }
            ["api"] if aggregated => Ok(self.aggregated_discovery(&[String::new()])),
            ["apis"] if aggregated => Ok(self.aggregated_discovery(&self.named_groups())),
            ["api"] => Ok(Response::from_json(
                200,
                json!({
                    "kind": "APIVersions", "versions": ["v1"],
                    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
                }),
            )),
            ["apis"] => {
                let groups: Vec<Value> =
                    self.named_groups().iter().map(|group| self.describe_group(group, false)).collect();
                Ok(Response::from_json(
                    200,
                    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
                ))
            }
            ["apis", group] if self.serves_group(group) => {
                Ok(Response::from_json(200, self.describe_group(group, true)))
            }
            ["api", "v1"] => Ok(Response::from_json(200, self.describe_resources("", "v1"))),
            ["api", _] => Err(unknown_resource()),
            ["apis", group, version] if self.serves_group(group) => {
                let known = self.versions_of(group).iter().any(|v| v == version);
                if known {
                    Ok(Response::from_json(200, self.describe_resources(group, version)))
                } else {
                    Err(unknown_resource())
                }
            }
            _ => Ok(Response::not_found()),
        }
    }

    /// The paths of the `OpenAPI` documents. The server says that this is text.
    fn openapi_root(&self) -> Response {
        let mut paths = serde_json::Map::new();
        for group in self.named_groups() {
            for version in self.versions_of(&group) {
                let url = format!("/openapi/v3/apis/{group}/{version}?hash=0");
                paths.insert(format!("apis/{group}/{version}"), json!({"serverRelativeURL": url}));
            }
        }
        for path in ["api/v1", "version"] {
            let url = format!("/openapi/v3/{path}?hash=0");
            paths.insert(path.to_owned(), json!({"serverRelativeURL": url}));
        }
        Response::from_json(200, json!({"paths": paths}))
            .with_header("Content-Type", "text/plain; charset=utf-8")
    }

    /// The groups without the core group.
    fn named_groups(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let groups = self.kinds.iter().map(|kind| kind.group.clone());
        groups.filter(|group| !group.is_empty() && seen.insert(group.clone())).collect()
    }

    fn versions_of(&self, group: &str) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let kinds = self.kinds.iter().filter(|kind| kind.group == group);
        kinds.map(|kind| kind.version.clone()).filter(|version| seen.insert(version.clone())).collect()
    }

    fn describe_group(&self, group: &str, whole: bool) -> Value {
        let versions = self.versions_of(group).into_iter();
        let versions: Vec<Value> = versions
            .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
            .collect();
        let mut answer = json!({"name": group, "versions": versions, "preferredVersion": versions[0]});
        if whole {
            answer["kind"] = json!("APIGroup");
            answer["apiVersion"] = json!("v1");
        }
        answer
    }

    fn describe_resources(&self, group: &str, version: &str) -> Value {
        let mut resources = Vec::new();
        for kind in self.kinds.iter().filter(|k| k.group == group && k.version == version) {
            let mut resource = json!({
                "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
                "verbs": verbs_of(kind),
            });
            if !kind.short.is_empty() {
                resource["shortNames"] = json!(kind.short);
            }
            if !kind.categories.is_empty() {
                resource["categories"] = json!(kind.categories);
            }
            resources.push(resource);
            for (name, shown) in subresources_of(kind) {
                let mut part = json!({
                    "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                    "kind": shown.2, "verbs": part_verbs(name),
                });
                if !shown.0.is_empty() {
                    part["group"] = json!(shown.0);
                    part["version"] = json!(shown.1);
                }
                resources.push(part);
            }
        }
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let mut answer =
            json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
        if !group.is_empty() {
            answer["apiVersion"] = json!("v1");
        }
        answer
    }

    fn aggregated_discovery(&self, groups: &[String]) -> Response {
        let items: Vec<Value> = groups
            .iter()
            .map(|group| {
                let versions: Vec<Value> = self
                    .versions_of(group)
                    .iter()
                    .map(|version| {
                        let kinds = self.kinds.iter().filter(|k| k.group == *group && k.version == *version);
                        let resources: Vec<Value> = kinds.map(|kind| aggregated_resource(kind)).collect();
                        json!({"version": version, "resources": resources, "freshness": "Current"})
                    })
                    .collect();
                let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        let body = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        });
        Response::from_json(200, body).with_header("Content-Type", AGGREGATED)
    }
}

/// A resource in the aggregated discovery.
fn aggregated_resource(kind: &ResourceKind) -> Value {
    let mut resource = json!({
        "resource": kind.plural,
        // Custom resources have group, version and kind; other kinds only the kind.
        "responseKind": response_kind(kind, ("", "", kind.kind.clone())),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": verbs_of(kind),
    });
    if !kind.short.is_empty() {
        resource["shortNames"] = json!(kind.short);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    let mut parts = Vec::new();
    for (name, shown) in subresources_of(kind) {
        let shown = response_kind(kind, shown);
        parts.push(json!({"subresource": name, "responseKind": shown, "verbs": part_verbs(name)}));
    }
    if !parts.is_empty() {
        resource["subresources"] = json!(parts);
    }
    resource
}

fn accepts_json(request: &ApiRequest) -> bool {
    request.accept_header().split(',').any(|one| matches!(one.trim(), "application/json" | "*/*"))
}

fn response_kind(kind: &ResourceKind, shown: (&str, &str, String)) -> Value {
    let (group, version, name) = shown;
    if kind.custom.is_some() && group.is_empty() {
        return json!({"group": kind.group, "version": kind.version, "kind": name});
    }
    json!({"group": group, "version": version, "kind": name})
}

fn verbs_of(kind: &ResourceKind) -> &'static [&'static str] {
    if kind.custom.is_some() {
        &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    } else if kind.kind == "Namespace" {
        &["create", "delete", "get", "list", "patch", "update", "watch"]
    } else {
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }
}

fn part_verbs(name: &str) -> &'static [&'static str] {
    match name {
        "eviction" => &["create"],
        "finalize" => &["update"],
        _ => &["get", "patch", "update"],
    }
}

/// The subresources with the kind that they show.
fn subresources_of(kind: &ResourceKind) -> Vec<(&'static str, (&'static str, &'static str, String))> {
    let mut parts = Vec::new();
    if kind.is_builtin("Pod") {
        parts.push(("eviction", ("policy", "v1", "Eviction".to_owned())));
    }
    if kind.is_builtin("Namespace") {
        parts.push(("finalize", ("", "", kind.kind.clone())));
    }
    if kind.scale {
        parts.push(("scale", ("autoscaling", "v1", "Scale".to_owned())));
    }
    if kind.status {
        parts.push(("status", ("", "", kind.kind.clone())));
    }
    // Of custom resources, the status comes first.
    if kind.custom.is_some() {
        parts.reverse();
    }
    parts
}

fn version_info() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
    })
}
