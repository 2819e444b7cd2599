//! The `placement` list of a policy or an annotation, by cluster index: which clusters are named, and the
//! preferences for each.
//!
//! Facts: the list sets five independent values. If a cluster occurs twice, the last value counts, for each of
//! the five. Names of clusters that do not exist only make the list not empty.

use super::api::DesiredPlacement;
use federate_kubernetes::Cluster;

/// The preferences in a list, by cluster index.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterPreferences {
    /// Whether the cluster is named.
    pub(super) named: Vec<bool>,
    /// The minimum of replicas; 0 unless set.
    pub(super) min: Vec<i64>,
    /// The maximum of replicas.
    pub(super) max: Vec<Option<i64>>,
    pub(super) weight: Vec<Option<i64>>,
    pub(super) priority: Vec<Option<i64>>,
    /// Whether any cluster is named, known or not. The next two say the same for weights and priorities.
    pub(super) names: bool,
    pub(super) weights: bool,
    pub(super) priorities: bool,
}

impl ClusterPreferences {
    /// Reads a list over the inventory, which is sorted by name.
    pub(super) fn new(placement: &[DesiredPlacement], clusters: &[Cluster]) -> Self {
        let size = clusters.len();
        let mut cluster_preferences = Self {
            named: vec![false; size],
            min: vec![0; size],
            max: vec![None; size],
            weight: vec![None; size],
            priority: vec![None; size],
            names: !placement.is_empty(),
            weights: placement.iter().any(|p| p.preferences.weight.is_some()),
            priorities: placement.iter().any(|p| p.preferences.priority.is_some()),
        };
        for DesiredPlacement { cluster, preferences } in placement {
            let Ok(at) = clusters.binary_search_by(|c| c.name.as_ref().cmp(cluster)) else { continue };
            cluster_preferences.named[at] = true;
            cluster_preferences.min[at] = preferences.min_replicas;
            cluster_preferences.max[at] = preferences.max_replicas.or(cluster_preferences.max[at]);
            cluster_preferences.weight[at] = preferences.weight.or(cluster_preferences.weight[at]);
            cluster_preferences.priority[at] = preferences.priority.or(cluster_preferences.priority[at]);
        }
        cluster_preferences
    }
}

/// Which values of an annotation are valid: those without negative numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsablePreferences {
    pub(super) min: bool,
    pub(super) max: bool,
    pub(super) weight: bool,
    pub(super) priority: bool,
}

impl UsablePreferences {
    pub(super) fn from_placement(placement: &[DesiredPlacement]) -> Self {
        let mut usable = Self { min: true, max: true, weight: true, priority: true };
        for DesiredPlacement { preferences, .. } in placement {
            usable.min &= preferences.min_replicas >= 0;
            usable.max &= preferences.max_replicas.is_none_or(|n| n >= 0);
            usable.weight &= preferences.weight.is_none_or(|n| n >= 0);
            usable.priority &= preferences.priority.is_none_or(|n| n >= 0);
        }
        usable
    }
}
