//! Namespaces: without a policy they go to every cluster, except reserved ones.

use regex::Regex;

use federate_dialect::Placed;
use federate_kubernetes::{Cluster, Finding, Object};
use federate_repo::Repo;

/// The control plane's own namespace.
pub(super) const SYSTEM_NAMESPACE: &str = "kube-admiral-system";

/// The key in `federate.yaml` for the control plane's flag that excludes namespaces.
pub(super) const EXCLUDE_SETTING: &str = "excludeNamespaces";

/// Which namespaces go to every cluster.
#[derive(Debug, Default)]
pub(super) struct NamespaceExclusions {
    excluded: Option<Regex>,
}

impl NamespaceExclusions {
    /// Reads the exclusions from `federate.yaml`, with findings about them.
    pub(super) fn new(repo: &Repo, dialect: &str) -> (Self, Vec<Finding>) {
        let mut findings = Vec::new();
        let settings = repo.config.dialects.get(dialect);
        let mut refuse = |key: &str, why: &str| {
            let pointer = format!("/dialects/{dialect}/{}", federate_kubernetes::pointer::escape(key));
            findings.push(repo.invalid_config(&pointer, why));
        };
        let mut excluded = None;
        for (key, value) in settings.into_iter().flatten() {
            match (key.as_str(), value.as_str().map(Regex::new)) {
                (EXCLUDE_SETTING, Some(Ok(regex))) => excluded = Some(regex),
                (EXCLUDE_SETTING, Some(Err(_))) => refuse(key, "this is not a regular expression"),
                (EXCLUDE_SETTING, None) => refuse(key, "this is not a string"),
                _ => {}
            }
        }
        (Self { excluded: excluded.filter(|regex| !regex.as_str().is_empty()) }, findings)
    }

    /// Whether the object is a Namespace that goes to every cluster.
    pub(super) fn goes_to_every_cluster(&self, object: &Object) -> bool {
        let name = &object.id.name;
        is_namespace(object)
            && !name.starts_with("kube-")
            && name != SYSTEM_NAMESPACE
            && !self.excluded.as_ref().is_some_and(|regex| regex.is_match(name))
    }
}

/// Whether the object is a Namespace that is placed, but never written.
pub(super) fn is_excluded(object: &Object) -> bool {
    is_namespace(object)
        && matches!(object.id.name.as_str(), "kube-system" | "kube-public" | "default" | SYSTEM_NAMESPACE)
}

fn is_namespace(object: &Object) -> bool {
    object.id.api_version == "v1" && object.id.kind == "Namespace"
}

/// Every cluster, whether it has joined or not.
pub(super) fn all_clusters(clusters: &[Cluster]) -> Vec<Placed> {
    clusters.iter().map(|c| Placed { name: c.name.clone(), replicas: None }).collect()
}
