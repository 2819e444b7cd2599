//! Which clusters a `clusterAffinity` selects; static weights and overrides use the same rule.
//!
//! Facts: releases differ in how `zone In` matches a cluster in several zones.

use super::api::{AffinityTerm, FieldSelector, KarmadaClusterAffinity, KarmadaPlacement};
use super::version::{KarmadaBehaviour, ZoneMatch};
use federate_kubernetes::selector::SelectorRequirement;
use federate_kubernetes::{Cluster, work};

impl KarmadaClusterAffinity {
    /// Makes it select as it does in a release.
    pub(super) fn read_as(&mut self, behaviour: &KarmadaBehaviour) {
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
    pub(super) fn selects_cluster(&self, cluster: &Cluster) -> bool {
        let name = cluster.name.as_ref();
        work::charge_items(self.exclude_clusters.len() + self.cluster_names.len());
        !work::is_exceeded()
            && !self.exclude_clusters.iter().any(|n| n == name)
            && self.label_selector.as_ref().is_none_or(|s| s.matches(&cluster.labels))
            && self.field_selector.as_ref().is_none_or(|s| s.selects_cluster(cluster))
            && (self.cluster_names.is_empty() || self.cluster_names.iter().any(|n| n == name))
    }
}

impl AffinityTerm {
    /// Whether its affinity or an overflow affinity selects the cluster.
    fn selects_cluster(&self, cluster: &Cluster) -> bool {
        self.affinity.selects_cluster(cluster)
            || self.overflow_affinities.iter().any(|one| one.affinity.selects_cluster(cluster))
    }
}

impl KarmadaPlacement {
    /// Whether its cluster affinity and its affinity terms, where they exist, select the cluster.
    pub(super) fn selects_cluster(&self, cluster: &Cluster) -> bool {
        self.cluster_affinity.as_ref().is_none_or(|affinity| affinity.selects_cluster(cluster))
            && (self.cluster_affinities.is_empty()
                || self.cluster_affinities.iter().any(|term| term.selects_cluster(cluster)))
    }
}

impl FieldSelector {
    fn selects_cluster(&self, cluster: &Cluster) -> bool {
        self.match_expressions.iter().all(|requirement| {
            work::charge_items(requirement.values.len());
            match requirement.key.as_str() {
                "zone" => self.selects_zones(requirement, &cluster.zones),
                "provider" => selects_field(requirement, &cluster.provider),
                "region" => selects_field(requirement, &cluster.region),
                _ => selects_field(requirement, ""),
            }
        })
    }

    /// Whether the zones of a cluster meet a requirement.
    fn selects_zones(&self, requirement: &SelectorRequirement, zones: &[String]) -> bool {
        let named = zones.iter().filter(|zone| requirement.values.contains(zone)).count();
        match requirement.operator.as_str() {
            "In" if self.zones == ZoneMatch::All => !zones.is_empty() && named == zones.len(),
            "In" => named > 0,
            "NotIn" => named == 0,
            "Exists" => !zones.is_empty(),
            "DoesNotExist" => zones.is_empty(),
            _ => false,
        }
    }
}

/// Whether the value of a cluster's field meets a requirement, as the value of a label does. An empty value counts as absent.
fn selects_field(requirement: &SelectorRequirement, value: &str) -> bool {
    let is_named = requirement.values.iter().any(|one| one == value);
    requirement.find_mistake().is_none()
        && match requirement.operator.as_str() {
            "In" => !value.is_empty() && is_named,
            "NotIn" => value.is_empty() || !is_named,
            "Exists" => !value.is_empty(),
            "DoesNotExist" => value.is_empty(),
            _ => false,
        }
}
