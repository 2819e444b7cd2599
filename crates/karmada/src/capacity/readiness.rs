//! The `Ready` condition of a `Cluster`: its thresholds, and when it becomes unknown.
//!
//! Facts: a change between True and not-True has to last for a threshold before it is stored. A cluster in
//! mode `Push` never becomes unknown. A cluster in mode `Pull` does when neither its condition nor its lease has
//! changed for the grace period.

use federate_kubernetes::Condition;
use jiff::SignedDuration;

/// The observed health of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberHealth {
    /// It is healthy.
    Healthy,
    /// It reports that it is not healthy.
    Unhealthy,
    /// It does not answer.
    Unreachable,
}

/// The condition for a health.
pub fn ready_condition(health: MemberHealth) -> Condition {
    let (status, reason, message) = match health {
        MemberHealth::Healthy => ("True", "ClusterReady", "cluster is healthy and ready to accept workloads"),
        MemberHealth::Unhealthy => {
            ("False", "ClusterNotReady", "cluster is reachable but health endpoint responded without ok")
        }
        MemberHealth::Unreachable => ("False", "ClusterNotReachable", "cluster is not reachable"),
    };
    Condition::new("Ready", status, reason, message)
}

/// How long a change must last before it is stored.
#[derive(Clone, Copy, Debug)]
pub struct ConditionThresholds {
    /// To become ready.
    pub success: SignedDuration,
    /// To become not ready.
    pub failure: SignedDuration,
}

impl Default for ConditionThresholds {
    fn default() -> Self {
        let half_a_minute = SignedDuration::from_secs(30);
        Self { success: half_a_minute, failure: half_a_minute }
    }
}

/// The grace periods of clusters that do not report.
#[derive(Clone, Copy, Debug)]
pub struct GracePeriods {
    /// Once it has reported.
    pub monitor: SignedDuration,
    /// Before it has.
    pub startup: SignedDuration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        Self { monitor: SignedDuration::from_secs(40), startup: SignedDuration::from_secs(60) }
    }
}

/// The condition of a cluster in mode `Pull` whose agent does not report any more, or never did.
pub fn unknown_condition(has_reported: bool) -> Condition {
    let (reason, message) = if has_reported {
        ("ClusterStatusUnknown", "Cluster status controller stopped posting cluster status.")
    } else {
        ("ClusterStatusNeverUpdated", "Cluster status controller never posted cluster status.")
    };
    Condition::new("Ready", "Unknown", reason, message)
}

/// The condition of a cluster in mode `Push` that was healthy and does not answer from now on, and after how long it is
/// stored (`--cluster-failure-threshold`).
pub fn lose_endpoint(thresholds: ConditionThresholds) -> (SignedDuration, Condition) {
    (thresholds.failure, ready_condition(MemberHealth::Unreachable))
}

/// The condition of a cluster in mode `Pull` whose agent renews its lease a last time now, and after how long it is
/// stored (`--cluster-monitor-grace-period`).
pub fn lose_agent(grace: GracePeriods) -> (SignedDuration, Condition) {
    (grace.monitor, unknown_condition(true))
}
