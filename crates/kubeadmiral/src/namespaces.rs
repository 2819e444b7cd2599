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
    /// Reads the exclusions from `federate.yaml`. The finding says why they cannot be read.
    pub(super) fn new(repo: &Repo, dialect: &str) -> (Self, Option<Finding>) {
        let setting = repo.config.dialects.get(dialect).and_then(|settings| settings.get(EXCLUDE_SETTING));
        let Some(setting) = setting else { return (Self::default(), None) };
        let why = match setting.as_str().map(Regex::new) {
            Some(Ok(regex)) => {
                return (Self { excluded: Some(regex).filter(|regex| !regex.as_str().is_empty()) }, None);
            }
            Some(Err(_)) => "this is not a regular expression",
            None => "this is not a string",
        };
        let pointer = format!("/dialects/{dialect}/{EXCLUDE_SETTING}");
        (Self::default(), Some(repo.invalid_config(&pointer, why)))
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
