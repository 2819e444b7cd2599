//! Members that stay unreachable, as their control planes treat them with failover on: conditions and taints after their
//! delays, evictions, and the end of evictions.
//!
//! An eviction counts from the last step of its cluster's loss. That of a cluster that is back has taken long enough.

use std::collections::BTreeMap;

use rayon::prelude::*;

use federate_dialect::{Dialects, Evictions, Moment, Plan};
use federate_kubernetes::{Cluster, ClusterName, Taint};
use federate_repo::Repo;

use crate::Session;

/// For how many seconds members cannot be reached.
pub type Lost = BTreeMap<ClusterName, i64>;

/// A time before every loss, in seconds.
const BEFORE: i64 = -1_000_000_000;

/// When something happened to lost clusters, in seconds before now, as negative numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossTimes {
    taints: BTreeMap<(ClusterName, String, String), i64>,
    last: BTreeMap<ClusterName, i64>,
}

/// Changes the clusters that are lost, as far as their control planes have noticed it.
pub(crate) fn lose(dialects: Dialects, repo: &Repo, clusters: &mut [Cluster], lost: &Lost) -> LossTimes {
    let mut times = LossTimes::default();
    for cluster in clusters {
        let Some(seconds) = lost.get(&cluster.name) else { continue };
        let of = dialects.iter().find(|d| d.role(&cluster.id.api_version, &cluster.id.kind).is_some());
        let steps = of.map(|dialect| dialect.loss(repo, cluster, true)).unwrap_or_default();
        for step in steps.into_iter().filter(|step| step.seconds <= *seconds) {
            let at = step.seconds - seconds;
            for taint in step.cluster.taints.iter().filter(|taint| !cluster.taints.contains(taint)) {
                times.taints.insert(key(&cluster.name, taint), at);
            }
            times.last.insert(cluster.name.clone(), at);
            *cluster = step.cluster;
        }
    }
    times
}

fn key(cluster: &str, taint: &Taint) -> (ClusterName, String, String) {
    (cluster.into(), taint.key.clone(), taint.effect.clone())
}

impl Session {
    /// The plan of an earlier run after the evictions of now.
    pub(crate) fn evicted(&self, mut plan: Plan) -> Plan {
        let Some(times) = &self.loss_times else { return plan };
        let since =
            |cluster: &str, taint: &Taint| times.taints.get(&key(cluster, taint)).copied().unwrap_or(BEFORE);
        let moment = Moment { seconds: 0, since: &since, failover: true };
        let began = |cluster: &Cluster| times.last.get(&cluster.name).copied().unwrap_or(BEFORE);
        let evicted: Evictions =
            self.clusters().iter().map(|cluster| (cluster.name.clone(), began(cluster))).collect();
        let engine = self.engine();
        plan.placements.par_iter_mut().for_each(|row| {
            let done = engine.plane(&row.dialect).map(|plane| plane.fail_over(row, &evicted, &moment));
            if let Some(after) = done.and_then(|done| done.placement) {
                *row = after;
            }
        });
        plan
    }
}
