//! A Sync in short, as `federate sync get` lists it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::NamespacedName;
use crate::status::{ClusterCounts, DriftStatus, RolloutStatus, SyncStatus, WindowStatus};

/// How a Sync is, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncSummary {
    /// The namespace of the Sync.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is ready: `True`, `False` or `Unknown`.
    pub ready: String,
    /// The reason of the condition `Ready`, in one word.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Whether the Sync is suspended.
    pub suspended: bool,
    /// When the Sync was created, if it is an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub created: Option<Timestamp>,
    /// The revision that branches and clusters are at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The revision that was attempted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted: Option<String>,
    /// How many clusters are in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterCounts>,
    /// What drifted and is left so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// How far a rollout is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Whether the Sync may change clusters now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowStatus>,
}

impl SyncSummary {
    /// The summary of a status.
    pub fn new(
        sync: NamespacedName,
        status: SyncStatus,
        suspended: bool,
        created: Option<Timestamp>,
    ) -> Self {
        let ready = status.find_condition("Ready").cloned();
        let (ready, reason, message) =
            ready.map(|ready| (ready.status, ready.reason, ready.message)).unwrap_or_default();
        Self {
            namespace: sync.namespace,
            name: sync.name,
            ready: if ready.is_empty() { "Unknown".to_owned() } else { ready },
            reason,
            message,
            suspended,
            created,
            revision: status.last_applied_revision,
            attempted: status.last_attempted_revision,
            clusters: status.clusters,
            drift: status.drift,
            rollout: status.rollout,
            window: status.window,
        }
    }

    /// The summary of an object; `None` if it has no name.
    pub fn from_object(object: &Value) -> Option<Self> {
        let metadata = NamespacedName::from_value(&object["metadata"])?;
        let created = object["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
        let suspended = object["spec"]["suspend"] == true;
        Some(Self::new(metadata, SyncStatus::parse(&object["status"]), suspended, created))
    }
}
