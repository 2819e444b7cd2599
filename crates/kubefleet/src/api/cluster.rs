//! `MemberCluster`. Its identity, which only the API server of a fleet needs, is not required of an inventory in git.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use federate_kubernetes::crd;
use federate_kubernetes::schema::{Schema, Shape};

use Shape::{Any, Filled, Integer, Map, OneOf, Quantity, Text};

crd! {
    /// `spec` of a `MemberCluster`.
    #[derive(Default, Deserialize)]
    pub(crate) struct MemberClusterSpec {
        pub(crate) taints: Vec<MemberClusterTaint> = optional("taints"),
    }
    unread {
        optional("identity", Any),
        optional("heartbeatPeriodSeconds", Integer(1, 600)),
        optional("deleteOptions", Any),
    }
}

crd! {
    /// A taint of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct MemberClusterTaint {
        pub(crate) key: String = required("key", Filled),
        pub(crate) value: String = optional("value"),
        pub(crate) effect: String = required("effect", OneOf(&["NoSchedule"])),
    }
}

crd! {
    /// `status` of a `MemberCluster`.
    #[derive(Default, Deserialize)]
    pub(crate) struct MemberClusterStatus {
        pub(crate) conditions: Vec<ReportedCondition> = optional("conditions"),
        pub(crate) properties: BTreeMap<String, ReportedProperty> = optional("properties"),
        pub(crate) namespaces: BTreeMap<String, String> = optional("namespaces"),
        pub(crate) resource_usage: Option<ReportedUsage> = optional("resourceUsage"),
        /// Absent as long as no agent has reported.
        pub(crate) agent_status: Option<Vec<ReportedAgentStatus>> = optional("agentStatus"),
    }
}

crd! {
    /// A property of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct ReportedProperty {
        pub(crate) value: String = required("value"),
    }
    unread {
        optional("observationTime", Any),
    }
}

crd! {
    /// The resources of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct ReportedUsage {
        pub(crate) capacity: BTreeMap<String, Value> = optional("capacity", Map(&Quantity)),
        pub(crate) allocatable: BTreeMap<String, Value> = optional("allocatable", Map(&Quantity)),
        pub(crate) available: BTreeMap<String, Value> = optional("available", Map(&Quantity)),
    }
    unread {
        optional("observationTime", Any),
    }
}

crd! {
    /// What an agent in a cluster reports.
    #[derive(Default, Deserialize)]
    pub(crate) struct ReportedAgentStatus {
        pub(crate) kind: String = required("type"),
        pub(crate) conditions: Vec<ReportedCondition> = optional("conditions"),
        pub(crate) last_received_heartbeat: GoTime = optional("lastReceivedHeartbeat"),
    }
}

crd! {
    /// A condition of a cluster or an agent.
    #[derive(Default, Deserialize)]
    pub(crate) struct ReportedCondition {
        pub(crate) kind: String = required("type"),
        pub(crate) status: String = required("status"),
        pub(crate) last_transition_time: GoTime = optional("lastTransitionTime"),
    }
    unread {
        optional("reason", Text),
        optional("message", Text),
        optional("observedGeneration", Any),
    }
}

/// A time as Go reads it: one that is absent is in the year 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoTime(pub(crate) Timestamp);

impl GoTime {
    /// The year 1.
    pub(crate) const ZERO: Self = Self(Timestamp::constant(-62_135_596_800, 0));
}

impl Default for GoTime {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Schema for GoTime {
    const SHAPE: Shape = Any;
}

impl<'de> Deserialize<'de> for GoTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let time = Value::deserialize(deserializer)?;
        Ok(time.as_str().and_then(|text| text.parse().ok()).map_or(Self::ZERO, Self))
    }
}
