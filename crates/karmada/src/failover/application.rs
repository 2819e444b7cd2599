//! Application failover: evicts applications from clusters where they are unhealthy for too long.
//!
//! Facts: the time begins when a controller first sees the application unhealthy; it is kept in memory only. Only
//! `Healthy` and `Unknown` reset it. Clusters that the binding no longer has are forgotten, although their reports
//! are still read.

use jiff::{SignedDuration, Timestamp};

use federate_dialect::HealthState;
use federate_kubernetes::Object;
use serde_json::json;

use super::binding::{EvictionTask, ResourceBinding};
use super::{FailoverOptions, json_path};
use crate::api::ApplicationFailover;

/// The seconds that an application may be unhealthy by default.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

impl ResourceBinding {
    /// Evicts the binding from clusters where it has been unhealthy for too long; returns these clusters.
    pub(super) fn fail_over(&mut self, options: &FailoverOptions, now: Timestamp) -> Vec<String> {
        self.application_next = None;
        let Some(policy) = self.failover.application.clone() else { return Vec::new() };
        if !self.propagate_deps || self.reported.is_empty() || !self.has_health(options) {
            self.unhealthy_since.clear();
            return Vec::new();
        }
        let before: Vec<String> = self.clusters.iter().map(|(name, _)| name.clone()).collect();
        let due = self.unhealthy_for_too_long(&policy, now);
        let mut tasks = Vec::new();
        for cluster in due {
            // A cluster that cannot be evicted from blocks the others.
            let Some(task) = self.application_task(&policy, options, &cluster, &before) else {
                self.application_next = None;
                return Vec::new();
            };
            tasks.push((cluster, task));
        }
        let evicted = tasks
            .into_iter()
            .filter_map(|(cluster, task)| self.evict_from(&cluster, task).then_some(cluster));
        let evicted: Vec<String> = evicted.collect();
        let reported = &self.reported;
        self.unhealthy_since.retain(|cluster, _| {
            let health = reported.get(cluster).map(|status| status.health.as_str());
            before.contains(cluster) && !matches!(health, Some("Healthy" | "Unknown"))
        });
        evicted
    }

    /// Whether an interpreter reports the health of its kind.
    fn has_health(&self, options: &FailoverOptions) -> bool {
        let object = Object::from_path(&self.resource.api_version, &self.resource.kind, "n", json!({}));
        crate::health::interpret_health(&object, &options.behaviour).state != HealthState::Unknown
    }

    /// The clusters where the tolerated time is over. Records when it will be over in others.
    fn unhealthy_for_too_long(&mut self, policy: &ApplicationFailover, now: Timestamp) -> Vec<String> {
        let seconds = policy.decision_conditions.toleration_seconds.unwrap_or(DEFAULT_TOLERATION_SECONDS);
        let toleration = SignedDuration::from_secs(seconds);
        let unhealthy = self.reported.iter().filter(|(_, status)| status.health == "Unhealthy");
        let unhealthy: Vec<String> =
            unhealthy.map(|(name, _)| name.clone()).filter(|name| !self.is_evicting(name)).collect();
        let mut due = Vec::new();
        for cluster in unhealthy {
            let left = match self.unhealthy_since.get(&cluster) {
                None => {
                    self.unhealthy_since.insert(cluster, now);
                    toleration
                }
                Some(since) if now.duration_since(*since) > toleration => {
                    due.push(cluster);
                    continue;
                }
                Some(since) => toleration - now.duration_since(*since),
            };
            self.application_next = Some(self.application_next.map_or(left, |next| next.min(left)));
        }
        due
    }

    fn application_task(
        &self,
        policy: &ApplicationFailover,
        options: &FailoverOptions,
        cluster: &str,
        before: &[String],
    ) -> Option<EvictionTask> {
        let rules = policy.state_preservation.as_ref().filter(|_| options.stateful_failover);
        let rules = rules.map_or(&[][..], |rules| &rules.rules);
        let default = options.behaviour.graceful_purge();
        let purge_mode = if policy.purge_mode.is_empty() { default } else { &policy.purge_mode };
        let graceful = matches!(purge_mode, "Gracefully" | "Graciously");
        if graceful && !options.graceful_eviction {
            return None;
        }
        let cluster_scoped = if self.id.kind == "ClusterResourceBinding" { "cluster-" } else { "" };
        Some(EvictionTask {
            purge_mode: purge_mode.to_owned(),
            reason: "ApplicationFailure".to_owned(),
            producer: format!("{cluster_scoped}resource-binding-application-failover-controller"),
            grace_period_seconds: policy.grace_period_seconds.filter(|_| graceful),
            suppress_deletion: (purge_mode == "Never").then_some(true),
            preserved_label_state: json_path::preserve_labels(rules, self.reported.get(cluster))?,
            clusters_before_failover: if rules.is_empty() { Vec::new() } else { before.to_vec() },
            ..EvictionTask::default()
        })
    }
}
