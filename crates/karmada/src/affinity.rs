//! Which clusters a `clusterAffinity` selects; static weights and overrides use the same rule.
//!
//! Facts: releases differ in how `zone In` matches a cluster in several zones.

use super::api::{ClusterAffinity, FieldSelector};
use super::version::{Behaviour, Zones};
use federate_kubernetes::Cluster;
use federate_kubernetes::selector::Requirement;

impl ClusterAffinity {
    /// Makes it select as it does in a release.
    pub(super) fn read_as(&mut self, behaviour: &Behaviour) {
        if let Some(fields) = &mut self.field_selector {
            fields.zones = behaviour.zones;
        }
    }

    /// Whether it selects clusters by their names alone.
    pub(super) fn only_names(&self) -> bool {
        !self.cluster_names.is_empty()
            && self.exclude_clusters.is_empty()
            && self.label_selector.is_none()
            && self.field_selector.is_none()
    }

    /// Whether it selects the cluster. An empty affinity selects every cluster.
    pub(super) fn matches(&self, cluster: &Cluster) -> bool {
        let name = cluster.name.as_ref();
        !self.exclude_clusters.iter().any(|n| n == name)
            && self.label_selector.as_ref().is_none_or(|s| s.matches(&cluster.labels))
            && self.field_selector.as_ref().is_none_or(|s| s.matches(cluster))
            && (self.cluster_names.is_empty() || self.cluster_names.iter().any(|n| n == name))
    }
}

impl FieldSelector {
    fn matches(&self, cluster: &Cluster) -> bool {
        self.match_expressions.iter().all(|requirement| {
            let wanted = |value: &str| requirement.values.iter().any(|v| v == value);
            // A provider or region that is not set is no value.
            let is = |value: &str| !value.is_empty() && wanted(value);
            let zones = &cluster.zones;
            let among = match requirement.key.as_str() {
                "provider" => is(&cluster.provider),
                "region" => is(&cluster.region),
                "zone" if self.zones == Zones::All && requirement.operator == "In" => {
                    !zones.is_empty() && zones.iter().all(|z| wanted(z))
                }
                "zone" => zones.iter().any(|z| wanted(z)),
                _ => return false,
            };
            holds(requirement, among)
        })
    }
}

fn holds(requirement: &Requirement, among: bool) -> bool {
    match requirement.operator.as_str() {
        "In" => among,
        "NotIn" => !among,
        _ => false,
    }
}
