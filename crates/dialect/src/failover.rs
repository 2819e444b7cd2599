//! What control planes do over time after they lose a cluster.

use std::collections::BTreeMap;

use crate::Placement;
use federate_kubernetes::{Cluster, ClusterName, Taint};

/// A change of a lost cluster in the inventory.
#[derive(Clone, Debug)]
pub struct LossStep {
    /// The seconds after the loss.
    pub seconds: i64,
    /// What happens, in words.
    pub what: String,
    /// The cluster after that.
    pub cluster: Cluster,
}

/// When a cluster got a taint, in seconds; negative if it had the taint before the scenario.
pub type TaintedSince<'m> = dyn Fn(&str, &Taint) -> i64 + Sync + 'm;

/// When an object was evicted from clusters, in seconds, as far as the evictions are not done.
pub type Evictions = BTreeMap<ClusterName, i64>;

/// A moment of a scenario.
#[derive(Clone, Copy)]
pub struct Moment<'m> {
    /// The seconds since the scenario began.
    pub seconds: i64,
    /// When a cluster got a taint.
    pub since: &'m TaintedSince<'m>,
    /// Whether failover is on: whether taints evict.
    pub failover: bool,
}

/// What happens to a placement at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailedOver {
    /// The placement afterwards, if it changes.
    pub placement: Option<Placement>,
    /// The clusters that it is evicted from.
    pub evicted: Vec<ClusterName>,
    /// The clusters whose eviction is done.
    pub finished: Vec<ClusterName>,
    /// When something may happen next, in seconds.
    pub next: Option<i64>,
}

impl FailedOver {
    /// Looks again at that time, in seconds.
    pub fn wait(&mut self, until: i64) {
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
    }
}
