//! How the hub derives the conditions of a `MemberCluster` from the reports of the member's agent.
//!
//! Facts: the agent writes an `InternalMemberCluster`. The hub copies its status and aggregates whether the
//! agents have joined. A member that stops reporting does not become unhealthy.

use federate_kubernetes::condition::{self, Condition};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long the hub waits by default for the agent of a deleted member.
pub(crate) const FORCE_DELETE_WAIT: SignedDuration = SignedDuration::from_mins(15);

/// How long a deleted member stays: its agent confirms at once that it leaves, or the hub waits this long and forces it.
pub fn time_until_gone(reachable: bool, force_delete_wait: SignedDuration) -> SignedDuration {
    if reachable { SignedDuration::ZERO } else { force_delete_wait }
}

/// The report of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The type of the agent: `MemberAgent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `Joined` and `Healthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When the agent last reported.
    pub last_received_heartbeat: Option<Timestamp>,
}

impl AgentStatus {
    /// Returns a member agent that has not reported yet.
    pub fn member_agent() -> Self {
        Self { kind: "MemberAgent".to_owned(), conditions: Vec::new(), last_received_heartbeat: None }
    }

    /// Sets one of its conditions.
    pub fn set_condition(&mut self, condition: Condition, now: Timestamp) {
        condition::set_condition(&mut self.conditions, condition, now);
    }

    /// Records that the agent has joined.
    pub fn mark_joined(&mut self, now: Timestamp) {
        self.set_condition(Condition::new("Joined", "True", "InternalMemberClusterJoined", ""), now);
    }

    /// Records a heartbeat with the health of the cluster, by the HTTP status of `/readyz`. Returns why it is not healthy.
    pub fn send_heartbeat(&mut self, ready_status: u16, now: Timestamp) -> Option<String> {
        self.last_received_heartbeat = Some(now);
        let failure =
            (ready_status != 200).then(|| format!("health probe failed with status code {ready_status}"));
        self.report_health(failure.as_deref(), now);
        failure
    }

    /// Records whether the cluster is healthy.
    pub fn report_health(&mut self, failure: Option<&str>, now: Timestamp) {
        let condition = match failure {
            None => Condition::new("Healthy", "True", "InternalMemberClusterHealthy", ""),
            Some(why) => Condition::new("Healthy", "False", "InternalMemberClusterUnhealthy", why),
        };
        self.set_condition(condition, now);
    }
}

/// Sets `ReadyToJoin`: the hub has created everything that the agent needs.
pub fn mark_ready_to_join(conditions: &mut Vec<Condition>, now: Timestamp) {
    let message = "Member cluster is ready to join the fleet";
    condition::set_condition(
        conditions,
        Condition::new("ReadyToJoin", "True", "MemberClusterReadyToJoin", message),
        now,
    );
}

/// Aggregates whether the agents have joined.
pub fn aggregate_joined(conditions: &mut Vec<Condition>, agent: Option<&AgentStatus>, now: Timestamp) {
    let joined = agent.and_then(|agent| condition::find_condition(&agent.conditions, "Joined"));
    let (status, reason, message) = match joined.map(|c| c.status.as_str()) {
        Some("True") => ("True", "MemberClusterJoined", "Member cluster has successfully joined the fleet"),
        Some("False") => ("False", "MemberClusterLeft", "Member cluster has left the fleet"),
        _ => ("Unknown", "MemberClusterJoinStateUnknown", "Member agents are not in a consistent state"),
    };
    condition::set_condition(conditions, Condition::new("Joined", status, reason, message), now);
    if status == "False" {
        let message = "Member cluster is not ready to join the fleet";
        let condition = Condition::new("ReadyToJoin", "False", "MemberClusterNotReadyToJoin", message);
        condition::set_condition(conditions, condition, now);
    }
}
