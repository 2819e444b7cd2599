//! Where objects go, on one side and on the other.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::{Placement, Plan, Unschedulable};
use federate_kubernetes::{ClusterName, ObjectRef};

/// An object whose placement differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementChange {
    /// The object.
    pub object: ObjectRef,
    /// The dialect that decides, or that did.
    pub dialect: String,
    /// What happened to it.
    pub kind: PlacementChangeKind,
    /// The policies that decide.
    pub policy: Pair<ObjectRef>,
    /// The objects that need it where it is, or that did; they decide where no policy does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<ObjectRef>,
    /// All replicas together, where the dialect decides them.
    pub replicas: Pair<i64>,
    /// The clusters where something differs, sorted by name.
    pub clusters: Vec<ReplicaShift>,
    /// Why it cannot be (newly) scheduled.
    pub unschedulable: Pair<Unschedulable>,
    /// Clusters to which nothing new may be sent from now on, though it might before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub suspended: Vec<ClusterName>,
    /// Clusters to which something may be sent again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub resumed: Vec<ClusterName>,
}

/// What happened to a placement; the first that is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlacementChangeKind {
    /// It was nowhere.
    Appeared,
    /// It is nowhere.
    Disappeared,
    /// It goes to other clusters.
    Moved,
    /// It goes to the same clusters, with other replicas.
    Scaled,
    /// Another policy decides the same.
    Policy,
    /// Only whether or why it cannot be scheduled, or where it is held back, differs.
    Status,
}

/// What it was and what it is; left out where there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pair<T> {
    /// What it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<T>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<T>,
}

impl<T: PartialEq> Pair<T> {
    /// Whether both are the same.
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
    /// What it had; left out where it had nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Share>,
    /// What it has; left out where it has nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Share>,
}

/// What a cluster has of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Share {
    /// Its replicas; `null` where the dialect places without deciding replicas.
    pub replicas: Option<i64>,
}

/// Compares two plans.
pub(super) fn compare(from: &Plan, to: &Plan) -> Vec<PlacementChange> {
    let mut rows: BTreeMap<&ObjectRef, [Option<&Placement>; 2]> = BTreeMap::new();
    for (side, plan) in [from, to].into_iter().enumerate() {
        for row in &plan.placements {
            rows.entry(&row.object).or_default()[side] = Some(row);
        }
    }
    rows.into_iter().filter_map(|(object, [from, to])| differs(object, from, to)).collect()
}

fn differs(object: &ObjectRef, from: Option<&Placement>, to: Option<&Placement>) -> Option<PlacementChange> {
    let (had, has) = (from.map(shares).unwrap_or_default(), to.map(shares).unwrap_or_default());
    let mut names: Vec<&ClusterName> = had.keys().chain(has.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let share = |of: &BTreeMap<&ClusterName, Share>, name| of.get(name).copied();
    let clusters: Vec<ReplicaShift> = names
        .into_iter()
        .map(|name| ReplicaShift { name: name.clone(), from: share(&had, name), to: share(&has, name) })
        .filter(|shift| shift.from != shift.to)
        .collect();
    let policy = Pair { from: from.and_then(|p| p.policy.clone()), to: to.and_then(|p| p.policy.clone()) };
    let unschedulable = Pair {
        from: from.and_then(|p| p.unschedulable.clone()),
        to: to.and_then(|p| p.unschedulable.clone()),
    };
    let held = |row: Option<&Placement>| row.map(|p| p.suspended.clone()).unwrap_or_default();
    let (was_held, is_held) = (held(from), held(to));
    let only = |these: &[ClusterName], those: &[ClusterName]| -> Vec<ClusterName> {
        these.iter().filter(|name| !those.contains(name)).cloned().collect()
    };
    let (suspended, resumed) = (only(&is_held, &was_held), only(&was_held, &is_held));
    let dialect = |row: Option<&Placement>| row.map(|p| p.dialect.clone()).filter(|name| !name.is_empty());
    let other_dialect = from.is_some() && to.is_some() && dialect(from) != dialect(to);
    let kind = if had.is_empty() && !has.is_empty() {
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
    let replicas = Pair { from: replicas(&had), to: replicas(&has) };
    let dialect = dialect(to).or(dialect(from)).unwrap_or_default();
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
    })
}

/// What each cluster has. One that it is withdrawn from still has it, scaled to nothing.
fn shares(row: &Placement) -> BTreeMap<&ClusterName, Share> {
    let withdrawn = row.withdrawn.iter().map(|name| (name, Share { replicas: Some(0) }));
    withdrawn.chain(row.clusters.iter().map(|c| (&c.name, Share { replicas: c.replicas }))).collect()
}

fn replicas(shares: &BTreeMap<&ClusterName, Share>) -> Option<i64> {
    shares.values().filter_map(|share| share.replicas).fold(None, |sum, n| Some(sum.unwrap_or(0) + n))
}
