//! Application failover: evicts applications from clusters where they are unhealthy for too long.
//!
//! Facts: the time begins when a controller first sees the application unhealthy; it is kept in memory only. Only
//! `Healthy` and `Unknown` reset it. Clusters that the binding no longer has are forgotten, although their reports
//! are still read.

use jiff::{SignedDuration, Timestamp};

use federate_dialect::{Dialect as _, HealthState};
use federate_karmada::Karmada;
use federate_karmada::failover::{EvictionTask, FailoverOptions, StateRule, preserve_labels};
use federate_kubernetes::Object;
use federate_repo::Config;
use serde::Deserialize;
use serde_json::json;

use super::ModelOptions;
use super::binding::HubBinding;

/// The seconds that an application may be unhealthy by default.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// How an application leaves a cluster where it is unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ApplicationFailover {
    decision_conditions: Option<DecisionConditions>,
    purge_mode: String,
    grace_period_seconds: Option<i64>,
    state_preservation: Option<StatePreservation>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DecisionConditions {
    toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct StatePreservation {
    rules: Vec<StateRule>,
}

impl HubBinding {
    /// Evicts the binding from clusters where it has been unhealthy for too long; returns these clusters.
    pub(super) fn fail_over(&mut self, options: &ModelOptions, now: Timestamp) -> Vec<String> {
        self.application_next = None;
        let Some(policy) = self.application.clone() else { return Vec::new() };
        if self.body["spec"]["propagateDeps"] != true || self.state.reported.is_empty() || !self.has_health()
        {
            self.unhealthy_since.clear();
            return Vec::new();
        }
        let before: Vec<String> = self.state.clusters.iter().map(|(name, _)| name.clone()).collect();
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
            .filter_map(|(cluster, task)| self.state.evict_from(&cluster, task).then_some(cluster));
        let evicted: Vec<String> = evicted.collect();
        let reported = &self.state.reported;
        self.unhealthy_since.retain(|cluster, _| {
            let health = reported.get(cluster).map(|status| status.health.as_str());
            before.contains(cluster) && !matches!(health, Some("Healthy" | "Unknown"))
        });
        evicted
    }

    /// Whether an interpreter reports the health of its kind.
    fn has_health(&self) -> bool {
        let text = |key: &str| self.body["spec"]["resource"][key].as_str().unwrap_or_default();
        let object = Object::from_path(text("apiVersion"), text("kind"), "n", json!({}));
        Karmada.members().assess_health(&object, &Config::default()).state != HealthState::Unknown
    }

    /// The clusters where the tolerated time is over. Records when it will be over in others.
    fn unhealthy_for_too_long(&mut self, policy: &ApplicationFailover, now: Timestamp) -> Vec<String> {
        let seconds =
            policy.decision_conditions.as_ref().and_then(|conditions| conditions.toleration_seconds);
        let seconds = seconds.unwrap_or(DEFAULT_TOLERATION_SECONDS);
        let toleration = SignedDuration::from_secs(seconds);
        let unhealthy = self.state.reported.iter().filter(|(_, status)| status.health == "Unhealthy");
        let unhealthy: Vec<String> =
            unhealthy.map(|(name, _)| name.clone()).filter(|name| !self.state.is_evicting(name)).collect();
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
        options: &ModelOptions,
        cluster: &str,
        before: &[String],
    ) -> Option<EvictionTask> {
        let rules = policy.state_preservation.as_ref().filter(|_| options.rules.stateful_failover);
        let rules = rules.map_or(&[][..], |rules| &rules.rules);
        let default = FailoverOptions::default().taint_purge_mode;
        let purge_mode = if policy.purge_mode.is_empty() { &default } else { &policy.purge_mode };
        let graceful = matches!(purge_mode.as_str(), "Gracefully" | "Graciously");
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
            preserved_label_state: preserve_labels(rules, self.state.reported.get(cluster))?,
            clusters_before_failover: if rules.is_empty() { Vec::new() } else { before.to_vec() },
            ..EvictionTask::default()
        })
    }
}
