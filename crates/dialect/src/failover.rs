//! What control planes do over time after a cluster is lost or leaves.

use std::collections::BTreeMap;

use crate::Placement;
use federate_kubernetes::{Cluster, ClusterName, Taint};

/// A change of a lost cluster in the inventory.
#[derive(Clone, Debug)]
pub struct OutageStep {
    /// The seconds after the loss.
    pub seconds: i64,
    /// What happens, in words.
    pub what: String,
    /// The cluster after that.
    pub cluster: Cluster,
}

/// A time before a scenario, for what is older and has no known time.
pub const BEFORE_SCENARIO: i64 = -1_000_000_000;

/// When a cluster got a taint, in seconds; [`BEFORE_SCENARIO`] if it had the taint before.
pub type TaintedSince<'m> = dyn Fn(&str, &Taint) -> i64 + Sync + 'm;

/// The clusters from which an object is being evicted, with the time of the eviction in seconds.
pub type Evictions = BTreeMap<ClusterName, i64>;

/// A moment of a scenario.
#[derive(Clone, Copy)]
pub struct ScenarioMoment<'m> {
    /// The seconds since the scenario began.
    pub seconds: i64,
    /// When a cluster got a taint.
    pub since: &'m TaintedSince<'m>,
    /// Whether failover is on: whether taints evict.
    pub failover: bool,
}

/// What happens to a placement at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailoverOutcome {
    /// The placement afterwards, if it changes.
    pub placement: Option<Placement>,
    /// The clusters that it is evicted from.
    pub evicted: Vec<ClusterName>,
    /// Those of them whose copy is removed at once. The others keep theirs until the eviction is done.
    pub purged: Vec<ClusterName>,
    /// The clusters whose eviction is done.
    pub finished: Vec<ClusterName>,
    /// When something may happen next, in seconds.
    pub next: Option<i64>,
}

impl FailoverOutcome {
    /// Looks again at that time, in seconds.
    pub fn wait_until(&mut self, until: i64) {
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
    }
}

/// The replicas of a workload by cluster.
pub type PodCounts = BTreeMap<ClusterName, PodCount>;

/// The replicas of a workload in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCount {
    /// The number of replicas that the cluster is to run.
    pub desired: i64,
    /// Those that fit on no node: since when, in seconds, and how many.
    pub unschedulable: Vec<(i64, i64)>,
}

impl PodCount {
    /// The number of replicas that fit on no node.
    pub fn count_unschedulable(&self) -> i64 {
        self.unschedulable.iter().map(|(_, replicas)| replicas).sum()
    }

    /// The number of replicas that run.
    pub fn count_scheduled(&self) -> i64 {
        self.desired - self.count_unschedulable()
    }
}

/// What a control plane does about replicas that fit on no node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MigrationOutcome {
    /// The placement afterwards, if its scheduler state changes.
    pub placement: Option<Placement>,
    /// The clusters that now count as full for it, with the number of replicas that do not fit.
    pub full: Vec<(ClusterName, i64)>,
    /// When it counts again, in seconds.
    pub next: Option<i64>,
}
