//! Members that stay unreachable, as their control planes treat them with failover on: conditions and taints after their
//! delays, evictions, and the end of evictions.
//!
//! An eviction counts from the last step of its cluster's loss. That of a cluster that is back has taken long enough.

use std::collections::BTreeMap;

use rayon::prelude::*;

use federate_dialect::{BEFORE_SCENARIO, Dialects, Evictions, Plan, ScenarioMoment};
use federate_kubernetes::{Cluster, ClusterName, Taint};
use federate_repo::Repo;

use crate::Session;

/// For how many seconds members cannot be reached.
pub type UnreachableClusters = BTreeMap<ClusterName, i64>;

/// When something happened to lost clusters, in seconds before now, as negative numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutageTimes {
    taints: BTreeMap<(ClusterName, String, String), i64>,
    last: BTreeMap<ClusterName, i64>,
}

/// Changes the clusters that are lost, as far as their control planes have noticed it.
pub(crate) fn apply_outages(
    dialects: Dialects,
    repo: &Repo,
    clusters: &mut [Cluster],
    lost: &UnreachableClusters,
) -> OutageTimes {
    let mut times = OutageTimes::default();
    for cluster in clusters {
        let Some(seconds) = lost.get(&cluster.name) else { continue };
        let of =
            dialects.iter().find(|d| d.role_of_kind(&cluster.id.api_version, &cluster.id.kind).is_some());
        let steps = of.map(|dialect| dialect.outages().outage_steps(repo, cluster, true)).unwrap_or_default();
        for step in steps.into_iter().filter(|step| step.seconds <= *seconds) {
            let at = step.seconds - seconds;
            for taint in step.cluster.taints.iter().filter(|taint| !cluster.taints.contains(taint)) {
                times.taints.insert(taint_key(&cluster.name, taint), at);
            }
            times.last.insert(cluster.name.clone(), at);
            *cluster = step.cluster;
        }
    }
    times
}

fn taint_key(cluster: &str, taint: &Taint) -> (ClusterName, String, String) {
    (cluster.into(), taint.key.clone(), taint.effect.clone())
}

impl Session {
    /// The plan of an earlier run after the evictions of now.
    pub(crate) fn evict_placements(&self, mut plan: Plan) -> Plan {
        let Some(times) = &self.outage_times else { return plan };
        let moment = ScenarioMoment {
            seconds: 0,
            since: &|cluster, taint| {
                times.taints.get(&taint_key(cluster, taint)).copied().unwrap_or(BEFORE_SCENARIO)
            },
            failover: true,
        };
        let evicted: Evictions = self
            .clusters()
            .iter()
            .map(|cluster| {
                (cluster.name.clone(), times.last.get(&cluster.name).copied().unwrap_or(BEFORE_SCENARIO))
            })
            .collect();
        let engine = self.build_engine();
        plan.placements.par_iter_mut().for_each(|row| {
            let done = engine
                .find_planner(&row.dialect)
                .map(|plane| plane.failover().simulate_failover(row, &evicted, &moment));
            if let Some(after) = done.and_then(|done| done.placement) {
                *row = after;
            }
        });
        plan
    }
}
