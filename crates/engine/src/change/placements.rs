//! Compares the placements of both sides.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::{Placed, PlacedClusters, Placement, Plan, Unschedulable};
use federate_kubernetes::{ClusterName, ObjectRef};

/// An object whose placement differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementChange {
    /// The object.
    pub object: ObjectRef,
    /// The dialect that decides on the later side; on the earlier side if the placement disappeared.
    pub dialect: String,
    /// The kind of change.
    pub kind: PlacementChangeKind,
    /// The policies that decide on each side.
    pub policy: Pair<ObjectRef>,
    /// The objects that depend on this object. They decide its placement if no policy does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<ObjectRef>,
    /// The total replicas on each side; left out for an object that has none.
    pub replicas: Pair<i64>,
    /// The clusters that differ, sorted by name.
    pub clusters: Vec<ReplicaShift>,
    /// The reason why the object cannot be scheduled, on each side; left out if it can be on both.
    #[serde(default, skip_serializing_if = "Pair::is_none")]
    pub unschedulable: Pair<Unschedulable>,
    /// The clusters to which updates are suspended on the later side only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub suspended: Vec<ClusterName>,
    /// The clusters to which updates are suspended on the earlier side only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub resumed: Vec<ClusterName>,
    /// Whether the object is in the repo and on no cluster on the later side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_nowhere: bool,
    /// The edits that cause the change, by their numbers in `causes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caused_by: Vec<usize>,
}

impl PlacementChange {
    /// The clusters of the later side, given those of the earlier one.
    pub fn apply_to(&self, clusters: &PlacedClusters) -> PlacedClusters {
        let mut shares: BTreeMap<&ClusterName, Option<i64>> =
            clusters.iter().map(|placed| (&placed.name, placed.replicas)).collect();
        for shift in &self.clusters {
            match shift.to {
                Some(share) => shares.insert(&shift.name, share.replicas),
                None => shares.remove(&shift.name),
            };
        }
        shares.into_iter().map(|(name, replicas)| Placed { name: name.clone(), replicas }).collect()
    }

    /// Whether clusters or their replicas differ.
    pub fn is_move(&self) -> bool {
        !self.clusters.is_empty()
    }
}

/// The kind of change of a placement. If several apply, the first one is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlacementChangeKind {
    /// The object was on no cluster, and now is.
    Appeared,
    /// The object is no longer on any cluster.
    Disappeared,
    /// The object is placed on other clusters.
    Moved,
    /// The object is placed on the same clusters, with other replicas.
    Scaled,
    /// Another policy decides the same placement.
    Policy,
    /// Only the reason why the object cannot be scheduled, or the clusters with suspended updates, differ.
    Status,
}

impl PlacementChange {
    /// How many replicas clusters gain that other clusters lose.
    pub fn moved_replicas(&self) -> i64 {
        let (mut gained, mut lost) = (0, 0);
        for shift in &self.clusters {
            let [from, to] =
                [shift.from, shift.to].map(|share| share.and_then(|share| share.replicas).unwrap_or(0));
            gained += (to - from).max(0);
            lost += (from - to).max(0);
        }
        gained.min(lost)
    }
}

/// An earlier and a later value, each left out if there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pair<T> {
    /// The earlier value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<T>,
    /// The later value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<T>,
}

impl<T> Default for Pair<T> {
    fn default() -> Self {
        Self { from: None, to: None }
    }
}

impl<T> Pair<T> {
    /// Whether there is no value on either side.
    fn is_none(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

impl<T: PartialEq> Pair<T> {
    /// Whether both values are equal.
    pub fn is_same(&self) -> bool {
        self.from == self.to
    }
}

/// One cluster of a placement that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReplicaShift {
    /// The cluster.
    #[schemars(with = "String")]
    pub name: ClusterName,
    /// Its earlier share; left out if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ClusterShare>,
    /// Its later share; left out if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ClusterShare>,
}

/// The share of one cluster in a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct ClusterShare {
    /// The replicas of the cluster; `null` for an object that has none.
    pub replicas: Option<i64>,
}

/// Compares two plans.
pub(super) fn compare_placements(from: &Plan, to: &Plan) -> Vec<PlacementChange> {
    let mut rows: BTreeMap<&ObjectRef, [Option<&Placement>; 2]> = BTreeMap::new();
    for (side, plan) in [from, to].into_iter().enumerate() {
        for row in &plan.placements {
            rows.entry(&row.object).or_default()[side] = Some(row);
        }
    }
    rows.into_values().filter_map(|[from, to]| compare_rows(from, to)).collect()
}

/// The difference between two rows of one object.
pub(super) fn compare_rows(from: Option<&Placement>, to: Option<&Placement>) -> Option<PlacementChange> {
    let object = &from.or(to)?.object;
    let (had, has) =
        (from.map(cluster_shares).unwrap_or_default(), to.map(cluster_shares).unwrap_or_default());
    let mut names: Vec<&ClusterName> = had.keys().chain(has.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let clusters: Vec<ReplicaShift> = names
        .into_iter()
        .map(|name| ReplicaShift {
            name: name.clone(),
            from: had.get(name).copied(),
            to: has.get(name).copied(),
        })
        .filter(|shift| shift.from != shift.to)
        .collect();
    let policy = Pair { from: from.and_then(|p| p.policy.clone()), to: to.and_then(|p| p.policy.clone()) };
    let unschedulable = Pair {
        from: from.and_then(|p| p.unschedulable.clone()),
        to: to.and_then(|p| p.unschedulable.clone()),
    };
    let [was_suspended, is_suspended] =
        [from, to].map(|row| row.map(|row| row.suspended.as_slice()).unwrap_or_default());
    let suspended = is_suspended.iter().filter(|name| !was_suspended.contains(name));
    let suspended: Vec<ClusterName> = suspended.cloned().collect();
    let resumed = was_suspended.iter().filter(|name| !is_suspended.contains(name));
    let resumed: Vec<ClusterName> = resumed.cloned().collect();
    let [old_dialect, new_dialect] =
        [from, to].map(|row| row.map(|row| row.dialect.clone()).filter(|name| !name.is_empty()));
    let other_dialect = from.is_some() && to.is_some() && old_dialect != new_dialect;
    let kind = if to.is_none() && had.is_empty() {
        // What ran nowhere and is gone changes nothing.
        return None;
    } else if had.is_empty() && !has.is_empty() {
        PlacementChangeKind::Appeared
    } else if has.is_empty() && !had.is_empty() {
        PlacementChangeKind::Disappeared
    } else if clusters.iter().any(|shift| shift.from.is_none() || shift.to.is_none()) {
        PlacementChangeKind::Moved
    } else if !clusters.is_empty() {
        PlacementChangeKind::Scaled
    } else if !unschedulable.is_same() || !suspended.is_empty() || !resumed.is_empty() {
        PlacementChangeKind::Status
    } else if (!policy.is_same() || other_dialect) && from.is_some() && to.is_some() {
        PlacementChangeKind::Policy
    } else {
        return None;
    };
    let replicas = Pair { from: total_replicas(&had), to: total_replicas(&has) };
    let dialect = new_dialect.or(old_dialect).unwrap_or_default();
    // The row of a policy itself runs nothing.
    let runs_nowhere = to.is_some() && has.is_empty() && policy.to.as_ref() != Some(object);
    let placing = [to, from].into_iter().flatten().find(|row| !row.clusters.is_empty());
    let required_by = placing.map(|row| row.required_by.clone()).unwrap_or_default();
    Some(PlacementChange {
        object: object.clone(),
        dialect,
        kind,
        policy,
        required_by,
        replicas,
        clusters,
        unschedulable,
        suspended,
        resumed,
        runs_nowhere,
        caused_by: Vec::new(),
    })
}

/// Returns the share of each cluster. A cluster from which the object is being withdrawn still has it, with 0 replicas.
fn cluster_shares(row: &Placement) -> BTreeMap<&ClusterName, ClusterShare> {
    let withdrawn = row.withdrawn.iter().map(|name| (name, ClusterShare { replicas: Some(0) }));
    withdrawn.chain(row.clusters.iter().map(|c| (&c.name, ClusterShare { replicas: c.replicas }))).collect()
}

fn total_replicas(shares: &BTreeMap<&ClusterName, ClusterShare>) -> Option<i64> {
    shares.values().filter_map(|share| share.replicas).fold(None, |sum, n| Some(sum.unwrap_or(0) + n))
}
