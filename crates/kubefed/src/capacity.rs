//! The status of a `KubeFedCluster`, as `KubeFed`'s cluster controller derives it from probes of the member.
//!
//! Facts: each probe writes a new status, so the first one removes region and zones from elsewhere. Thresholds
//! count how often the *written* readiness was the same. A cluster that has been ready for long becomes not
//! ready at the first failed probe; failures are ignored only soon after a change.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use federate_dialect::ClusterObservation;
use federate_dialect::probe::{ClusterCondition, Healthz};
use federate_kubernetes::Object;

/// The labels of nodes with their region and zone. Newer labels are ignored.
const ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// One probe of a member cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeFedProbe {
    /// There is no client: the endpoint, the Secret or the CA is invalid.
    Malformed,
    /// The answers of the API server.
    Answered {
        /// The answer to `/healthz`.
        healthz: Healthz,
        /// The `gitVersion` of `/version`, unless the request failed.
        version: Option<String>,
    },
}

/// How often a readiness must have been written before it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeThresholds {
    /// Before a cluster becomes not ready.
    pub failure: u32,
    /// Before it becomes ready again.
    pub success: u32,
}

impl Default for ProbeThresholds {
    fn default() -> Self {
        Self { failure: 3, success: 1 }
    }
}

/// The last status, and how often in a row the controller has written the same readiness. The controller loses
/// it when it restarts, and when the cluster's spec, labels or annotations change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedStatus {
    /// The conditions, in their order.
    pub conditions: Vec<ClusterCondition>,
    /// The version of the member, if it is known.
    pub version: Option<String>,
    run: u32,
}

impl ProbedStatus {
    /// Whether the cluster counts as ready.
    pub fn is_ready(&self) -> bool {
        has_ready_condition(&self.conditions)
    }

    /// The status as it is written.
    pub fn to_status(&self) -> Value {
        let mut status = Map::new();
        status.insert(
            "conditions".to_owned(),
            self.conditions.iter().map(ClusterCondition::to_value).collect(),
        );
        if let Some(version) = &self.version {
            status.insert("kubernetesVersion".to_owned(), version.as_str().into());
        }
        Value::Object(status)
    }
}

/// Computes the status after a probe.
pub fn cluster_status(
    memory: Option<&ProbedStatus>,
    probe: &KubeFedProbe,
    thresholds: ProbeThresholds,
    now: Timestamp,
) -> ProbedStatus {
    let (mut conditions, version) = probe_conditions(probe, now);
    let Some(before) = memory else { return ProbedStatus { conditions, version, run: 1 } };
    let threshold = if has_ready_condition(&conditions) { thresholds.success } else { thresholds.failure };
    if before.run < threshold {
        conditions.clone_from(&before.conditions);
        for condition in &mut conditions {
            condition.last_probe_time = Some(now);
        }
    } else if has_ready_condition(&conditions) == before.is_ready() {
        let since = before.conditions.first().and_then(|first| first.last_transition_time);
        for condition in &mut conditions {
            condition.last_transition_time = since;
        }
    }
    let run =
        if has_ready_condition(&conditions) == before.is_ready() { before.run.saturating_add(1) } else { 1 };
    ProbedStatus { conditions, version, run }
}

/// The status of a cluster, computed from what federate observes in it, with the region and the zones of its nodes.
pub(crate) fn observed_status(seen: &ClusterObservation) -> Value {
    let probe = KubeFedProbe::Answered { healthz: seen.healthz.clone(), version: seen.version.clone() };
    let mut status = cluster_status(None, &probe, ProbeThresholds::default(), seen.now).to_status();
    if let (Some(status), Value::Object(zones)) = (status.as_object_mut(), region_and_zones(&seen.nodes)) {
        status.extend(zones.into_iter().filter(|(_, value)| *value != json!("") && *value != json!([])));
    }
    status
}

fn has_ready_condition(conditions: &[ClusterCondition]) -> bool {
    conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
}

/// The conditions of one probe by itself, and the version.
fn probe_conditions(probe: &KubeFedProbe, now: Timestamp) -> (Vec<ClusterCondition>, Option<String>) {
    let KubeFedProbe::Answered { healthz, version } = probe else {
        let why = "cluster's configuration may be malformed";
        return (vec![new_condition(now, "ConfigMalformed", "True", "ClusterConfigMalformed", why)], None);
    };
    if let Some(failure) = healthz.describe_failure() {
        let why = format!("cluster is not reachable: {failure}");
        return (vec![new_condition(now, "Offline", "True", "ClusterNotReachable", &why)], None);
    }
    if healthz.is_ok() {
        let ready = new_condition(now, "Ready", "True", "ClusterReady", "/healthz responded with ok");
        return (vec![ready], version.clone());
    }
    let not_ready = new_condition(now, "Ready", "False", "ClusterNotReady", "/healthz responded without ok");
    let online = new_condition(now, "Offline", "False", "ClusterReachable", "cluster is reachable");
    (vec![not_ready, online], None)
}

fn new_condition(now: Timestamp, kind: &str, status: &str, reason: &str, message: &str) -> ClusterCondition {
    ClusterCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_probe_time: Some(now),
        last_transition_time: Some(now),
    }
}

/// The region and the zones of a cluster, from its nodes in the order listed: the region of the first node, and
/// all zones. The controller has this rule, but does not write the result.
pub fn region_and_zones(nodes: &[Object]) -> Value {
    let zones: BTreeSet<&str> =
        nodes.iter().filter_map(|node| node.label(ZONE)).filter(|zone| !zone.is_empty()).collect();
    let region = nodes.first().and_then(|node| node.label(REGION)).unwrap_or_default();
    json!({"zones": zones, "region": region})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_ready_cluster_fails_at_once_and_a_new_one_does_not() {
        let now = Timestamp::UNIX_EPOCH;
        let answer = |body: &str| KubeFedProbe::Answered {
            healthz: Healthz::Answered { code: 200, body: body.to_owned() },
            version: None,
        };
        let mut memory: Option<ProbedStatus> = None;
        let mut ready = Vec::new();
        for body in ["ok", "no", "ok", "no", "ok", "ok", "ok", "no"] {
            memory = Some(cluster_status(memory.as_ref(), &answer(body), ProbeThresholds::default(), now));
            ready.extend(memory.as_ref().map(ProbedStatus::is_ready));
        }
        assert_eq!(ready, [true, true, true, false, true, true, true, false]);
    }
}
