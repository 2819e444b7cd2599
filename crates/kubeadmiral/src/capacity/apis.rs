//! The API types of a member, from what discovery lists.

use serde_json::{Value, json};

/// One entry of a discovery list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiResource {
    /// `group/version` of the list.
    pub group_version: String,
    /// The entry's own group, where it says one.
    pub group: String,
    /// The entry's own version, where it says one.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural name, with the subresource behind a slash.
    pub name: String,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
}

/// What a member's API server says of what it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Everything that is listed, in the order listed.
    pub resources: Vec<ApiResource>,
    /// The group versions whose lists cannot be had, each with the client's words.
    pub failed: Vec<(String, String)>,
}

impl Discovery {
    /// Why there is nothing at all. What some groups refuse, others make up for: those kinds just disappear.
    pub(super) fn failure(&self) -> Option<String> {
        let mut failed: Vec<String> =
            self.failed.iter().map(|(group, why)| format!("{group}: {why}")).collect();
        failed.sort();
        let prefix =
            "failed to list cluster api resources: unable to retrieve the complete list of server APIs";
        (self.resources.is_empty() && !failed.is_empty()).then(|| format!("{prefix}: {}", failed.join(", ")))
    }

    /// The API types of the status: all versions, no subresources, sorted by kind alone.
    pub(super) fn types(&self) -> Value {
        let mut types: Vec<&ApiResource> = self.resources.iter().filter(|r| !r.name.contains('/')).collect();
        types.sort_by(|a, b| a.kind.cmp(&b.kind));
        types.into_iter().map(api_type).collect()
    }
}

fn api_type(resource: &ApiResource) -> Value {
    let (group, version) =
        resource.group_version.split_once('/').unwrap_or(("", resource.group_version.as_str()));
    let or = |own: &str, other: &str| if own.is_empty() { other.to_owned() } else { own.to_owned() };
    let mut value = json!({
        "version": or(&resource.version, version),
        "kind": resource.kind,
        "pluralName": resource.name,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
    });
    let group = or(&resource.group, group);
    if !group.is_empty() {
        value["group"] = group.into();
    }
    value
}
