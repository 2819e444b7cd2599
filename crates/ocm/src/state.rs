//! Earlier decisions: the previous plan, and the scheduler state of its rows.
//!
//! Facts: the hub remembers decisions as `PlacementDecision` objects only. A placement's own ones keep its clusters, and
//! those of all others say how much a cluster is used.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use federate_dialect::scheduler_state::or_default;
use federate_dialect::{Placed, Placement, Plan, PreviousPlan};
use federate_kubernetes::{ClusterName, Object, ObjectRef};

use crate::api::{NAME, PLACEMENT_VERSION};
use crate::kinds::CLUSTER_GROUP;

/// The label that names the placement of decisions.
pub(crate) const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";

/// The label with the index of the decision group.
pub(crate) const GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";

/// The label with the name of the decision group.
pub(crate) const GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";

/// The namespace and the name of a placement.
pub type PlacementKey = (String, String);

/// What a row of a placement remembers beyond its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OcmState {
    /// The digest of the placement that never settles, so that it keeps its clusters until it is changed.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    /// The clusters on which tolerations that end have ended at a moment of a scenario.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeSet::is_empty")]
    pub expired: BTreeSet<ClusterName>,
}

/// The decisions of all placements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// A cluster may stand in a list twice.
    clusters: BTreeMap<PlacementKey, Vec<ClusterName>>,
    /// The clusters on which tolerations that end have ended.
    expired: BTreeMap<PlacementKey, BTreeSet<ClusterName>>,
}

/// The key of a placement.
pub(crate) fn placement_key(id: &ObjectRef) -> PlacementKey {
    (id.namespace.clone().unwrap_or_default(), id.name.clone())
}

/// Whether an object is a placement.
pub(crate) fn is_placement(id: &ObjectRef) -> bool {
    id.kind == "Placement" && id.group() == CLUSTER_GROUP
}

impl Decisions {
    /// Reads the rows of placements in the previous plan, and decisions among objects for other placements.
    pub(crate) fn read<'a>(previous: &PreviousPlan, objects: impl Iterator<Item = &'a Object>) -> Self {
        let mut decisions = Self::from_objects(objects);
        for known in previous.rows().iter().filter(|row| is_placement(&row.object)) {
            if let Some(row) = previous.find_row(&known.object) {
                let names = row.clusters.iter().map(|placed| placed.name.clone()).collect();
                let key = placement_key(&known.object);
                let OcmState { expired, .. } = row.read_scheduler_state();
                if !expired.is_empty() {
                    decisions.expired.insert(key.clone(), expired);
                }
                decisions.clusters.insert(key, names);
            }
        }
        decisions
    }

    fn from_objects<'a>(objects: impl Iterator<Item = &'a Object>) -> Self {
        let mut decisions = Self::default();
        for object in objects.filter(|object| object.id.kind == "PlacementDecision") {
            let namespace = object.id.namespace.clone().unwrap_or_default();
            let name = object.label(PLACEMENT_LABEL).unwrap_or_default().to_owned();
            let names = decisions.clusters.entry((namespace, name)).or_default();
            let listed = object.value_at(&["status", "decisions"]).and_then(Value::as_array);
            let listed = listed.into_iter().flatten().filter_map(|one| one["clusterName"].as_str());
            names.extend(listed.map(ClusterName::from));
        }
        decisions
    }

    /// The clusters of a placement.
    pub fn of(&self, key: &PlacementKey) -> &[ClusterName] {
        self.clusters.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether tolerations of a placement that end have ended on a cluster.
    pub(crate) fn has_expired(&self, key: &PlacementKey, cluster: &ClusterName) -> bool {
        self.expired.get(key).is_some_and(|names| names.contains(cluster))
    }

    /// Whether there is a record of the decisions of a placement, even if it has no clusters.
    pub fn has(&self, key: &PlacementKey) -> bool {
        self.clusters.contains_key(key)
    }

    /// Replaces the clusters of a placement.
    pub fn set(&mut self, key: PlacementKey, clusters: Vec<ClusterName>) {
        self.clusters.insert(key, clusters);
    }

    /// All decisions by placement.
    pub fn iter(&self) -> impl Iterator<Item = (&PlacementKey, &[ClusterName])> {
        self.clusters.iter().map(|(key, names)| (key, names.as_slice()))
    }
}

/// Reads a previous plan from the decisions of a hub.
pub(crate) fn read_plan(objects: &[Object]) -> Plan {
    let decisions = Decisions::from_objects(objects.iter());
    let row = |(key, names): (&PlacementKey, &[ClusterName])| {
        let (namespace, name) = key.clone();
        if name.is_empty() {
            return None;
        }
        let id = ObjectRef {
            api_version: PLACEMENT_VERSION.to_owned(),
            kind: "Placement".to_owned(),
            namespace: Some(namespace),
            name,
        };
        let mut row = Placement::new(NAME, id.clone(), Some(id));
        let mut names = names.to_vec();
        names.sort();
        names.dedup();
        row.clusters = names.into_iter().map(|name| Placed { name, replicas: None }).collect();
        Some(row)
    };
    Plan { placements: decisions.iter().filter_map(row).collect(), ..Plan::default() }
}
