//! The API types of a member, from discovery.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::json::string_at;

/// One entry of a discovery list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredApi {
    /// `group/version` of the list.
    pub group_version: String,
    /// The group of the entry, if it has one.
    pub group: String,
    /// The version of the entry, if it has one.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural name; for a subresource followed by a slash and its name.
    pub name: String,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
}

/// The discovery of a member's API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// All entries, in the order listed.
    pub resources: Vec<DiscoveredApi>,
    /// The group versions whose lists failed, each with the client's error.
    pub failed: Vec<(String, String)>,
}

impl Discovery {
    /// Reads the lists of resources by group version, some of which may have failed.
    pub(super) fn from_lists(lists: &BTreeMap<String, Result<Vec<Value>, String>>) -> Self {
        let mut discovery = Self::default();
        for (group_version, list) in lists {
            let resources = match list {
                Ok(resources) => resources,
                Err(why) => {
                    discovery.failed.push((group_version.clone(), why.clone()));
                    continue;
                }
            };
            discovery.resources.extend(resources.iter().map(|resource| DiscoveredApi {
                group_version: group_version.clone(),
                group: string_at(resource, &["group"]).to_owned(),
                version: string_at(resource, &["version"]).to_owned(),
                kind: string_at(resource, &["kind"]).to_owned(),
                name: string_at(resource, &["name"]).to_owned(),
                namespaced: resource["namespaced"] == Value::Bool(true),
            }));
        }
        discovery
    }

    /// Why discovery failed. If only some groups fail, their kinds are just missing.
    pub(super) fn describe_failure(&self) -> Option<String> {
        let mut failed: Vec<String> =
            self.failed.iter().map(|(group, why)| format!("{group}: {why}")).collect();
        failed.sort();
        let prefix =
            "failed to list cluster api resources: unable to retrieve the complete list of server APIs";
        (self.resources.is_empty() && !failed.is_empty()).then(|| format!("{prefix}: {}", failed.join(", ")))
    }

    /// The API types of the status: all versions, no subresources, sorted by kind alone.
    pub(super) fn to_api_resource_types(&self) -> Value {
        let mut types: Vec<&DiscoveredApi> =
            self.resources.iter().filter(|r| !r.name.contains('/')).collect();
        types.sort_by(|a, b| a.kind.cmp(&b.kind));
        types.into_iter().map(api_type).collect()
    }
}

fn api_type(resource: &DiscoveredApi) -> Value {
    let (group, version) =
        resource.group_version.split_once('/').unwrap_or(("", resource.group_version.as_str()));
    let group = if resource.group.is_empty() { group } else { &resource.group };
    let version = if resource.version.is_empty() { version } else { &resource.version };
    let mut value = json!({
        "version": version,
        "kind": resource.kind,
        "pluralName": resource.name,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !group.is_empty() {
        value["group"] = group.into();
    }
    value
}
