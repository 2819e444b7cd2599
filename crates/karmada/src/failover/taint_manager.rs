//! Evictions by `NoExecute` taints.
//!
//! Facts: the tolerations are those of the placement that was applied, not of a newer one. Every taint needs a
//! toleration; the first one that matches is used. Of all time limits the earliest end applies.

use std::collections::BTreeMap;

use federate_kubernetes::Taint;
use jiff::{SignedDuration, Timestamp};

use super::binding::{EvictionTask, ResourceBinding};
use super::{FailoverOptions, json_path};
use crate::api::KarmadaToleration;
use crate::capacity::taints::ClusterTaint;
use crate::defaults;
use crate::schedule::tolerates_taint;
use crate::version::ClusterFailoverRule;

/// How long a cluster's taints are tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TolerationPeriod {
    None,
    Until(Timestamp),
    Forever,
}

impl ResourceBinding {
    /// Evicts the binding from clusters whose taints it does not tolerate, or no longer; returns these clusters.
    pub fn evict_tainted(
        &mut self,
        options: &FailoverOptions,
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Vec<String> {
        let due: Vec<String> = self
            .tolerated_for(options, taints)
            .filter(|(_, end)| match end {
                TolerationPeriod::None => true,
                TolerationPeriod::Until(end) => now >= *end,
                TolerationPeriod::Forever => false,
            })
            .map(|(name, _)| name.to_owned())
            .collect();
        let mut evicted = Vec::new();
        for cluster in due {
            if let Some(task) = self.taint_task(options, &cluster)
                && self.evict_from(&cluster, task)
            {
                evicted.push(cluster);
            }
        }
        evicted
    }

    /// When the next toleration ends.
    pub fn next_taint(
        &self,
        options: &FailoverOptions,
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let ends = self.tolerated_for(options, taints).filter_map(|(_, end)| match end {
            TolerationPeriod::Until(end) => Some(end.duration_since(now)),
            _ => None,
        });
        ends.min()
    }

    /// The clusters of the binding, and how long it tolerates their taints.
    fn tolerated_for<'s>(
        &'s self,
        options: &FailoverOptions,
        taints: &'s BTreeMap<&str, &[ClusterTaint]>,
    ) -> impl Iterator<Item = (&'s str, TolerationPeriod)> {
        let applied = self.applied.as_ref().filter(|_| options.taints_evict());
        let applied = applied.and_then(|applied| defaults::read_placement(applied, &options.behaviour));
        let tolerations = applied.map(|placement| placement.cluster_tolerations);
        self.clusters.iter().filter_map(move |(name, _)| {
            let all = taints.get(name.as_str())?.iter().filter(|taint| taint.effect == "NoExecute");
            Some((name.as_str(), compute_toleration(tolerations.as_deref()?, &all.collect::<Vec<_>>())))
        })
    }

    fn taint_task(&self, options: &FailoverOptions, cluster: &str) -> Option<EvictionTask> {
        let by_policy = options.behaviour.cluster_failover == ClusterFailoverRule::ByPolicy;
        let policy = self.failover.cluster.as_ref().filter(|_| by_policy);
        let purge_mode = match policy.map(|policy| policy.purge_mode.as_str()) {
            None => options.taint_purge_mode.clone(),
            Some("") => "Gracefully".to_owned(),
            Some(mode) => mode.to_owned(),
        };
        let rules = policy.and_then(|policy| policy.state_preservation.as_ref());
        let rules = rules.filter(|_| options.stateful_failover).map_or(&[][..], |rules| &rules.rules);
        Some(EvictionTask {
            purge_mode,
            reason: "TaintUntolerated".to_owned(),
            producer: "TaintManager".to_owned(),
            preserved_label_state: json_path::preserve_labels(rules, self.reported.get(cluster))?,
            ..EvictionTask::default()
        })
    }
}

pub(super) fn compute_toleration(
    tolerations: &[KarmadaToleration],
    taints: &[&ClusterTaint],
) -> TolerationPeriod {
    let mut used: Vec<&KarmadaToleration> = Vec::new();
    for taint in taints {
        let neutral = Taint::from(*taint);
        let Some(by) = tolerations.iter().find(|by| tolerates_taint(by, &neutral)) else {
            return TolerationPeriod::None;
        };
        used.push(by);
    }
    let ends = used.into_iter().flat_map(|by| {
        let borne = taints.iter().filter(|taint| tolerates_taint(by, &Taint::from(**taint)));
        borne.filter_map(|taint| {
            let seconds = SignedDuration::from_secs(by.toleration_seconds?.max(0));
            taint.time_added?.checked_add(seconds).ok()
        })
    });
    ends.min().map_or(TolerationPeriod::Forever, TolerationPeriod::Until)
}
