//! What the hub makes of what a member's agent reports: the conditions of a `MemberCluster`.
//!
//! Facts: the agent writes an `InternalMemberCluster`; the hub copies its status and adds up what the agents
//! say of having joined. Nobody turns a silent member unhealthy.

use federate_kubernetes::condition::{self, Condition};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What one agent reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Which agent: `MemberAgent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `Joined` and `Healthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When it last reported.
    pub last_received_heartbeat: Option<Timestamp>,
}

impl AgentStatus {
    /// A member agent that has said nothing yet.
    pub fn member_agent() -> Self {
        Self { kind: "MemberAgent".to_owned(), conditions: Vec::new(), last_received_heartbeat: None }
    }

    /// Writes one of its conditions.
    pub fn set(&mut self, condition: Condition, now: Timestamp) {
        condition::set(&mut self.conditions, condition, now);
    }

    /// That it has joined.
    pub fn join(&mut self, now: Timestamp) {
        self.set(Condition::new("Joined", "True", "InternalMemberClusterJoined", ""), now);
    }

    /// That its cluster is healthy or not.
    pub fn report_health(&mut self, failure: Option<&str>, now: Timestamp) {
        let condition = match failure {
            None => Condition::new("Healthy", "True", "InternalMemberClusterHealthy", ""),
            Some(why) => Condition::new("Healthy", "False", "InternalMemberClusterUnhealthy", why),
        };
        self.set(condition, now);
    }
}

/// Sets `ReadyToJoin`: the hub has made all that the agent needs.
pub fn welcome(conditions: &mut Vec<Condition>, now: Timestamp) {
    let message = "Member cluster is ready to join the fleet";
    condition::set(
        conditions,
        Condition::new("ReadyToJoin", "True", "MemberClusterReadyToJoin", message),
        now,
    );
}

/// Adds up what the agent says of having joined.
pub fn add_up(conditions: &mut Vec<Condition>, agent: Option<&AgentStatus>, now: Timestamp) {
    let joined = agent.and_then(|agent| condition::find(&agent.conditions, "Joined"));
    let (status, reason, message) = match joined.map(|c| c.status.as_str()) {
        Some("True") => ("True", "MemberClusterJoined", "Member cluster has successfully joined the fleet"),
        Some("False") => ("False", "MemberClusterLeft", "Member cluster has left the fleet"),
        _ => ("Unknown", "MemberClusterJoinStateUnknown", "Member agents are not in a consistent state"),
    };
    condition::set(conditions, Condition::new("Joined", status, reason, message), now);
    if status == "False" {
        let message = "Member cluster is not ready to join the fleet";
        let condition = Condition::new("ReadyToJoin", "False", "MemberClusterNotReadyToJoin", message);
        condition::set(conditions, condition, now);
    }
}
