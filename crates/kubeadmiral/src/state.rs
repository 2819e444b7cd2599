//! The scheduler state of a row of the plan: what `KubeAdmiral` keeps on the federated object of a template.

use std::collections::BTreeMap;

use federate_dialect::scheduler_state::or_default;
use federate_dialect::{PlacedClusters, Placement};
use federate_kubernetes::ClusterName;
use serde::{Deserialize, Serialize};

use super::trigger::SchedulingTriggers;

/// The scheduler state of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KubeAdmiralState {
    /// Annotations that controllers left for the scheduler: the migration configuration in force, and the estimates
    /// of the auto-migration controller.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The clusters to which the object was sent, as far as that is known.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub propagated: Option<Vec<ClusterName>>,
    /// What the scheduler last decided from.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub trigger: Option<SchedulingTriggers>,
    /// The changes that the policy keeps the scheduler from acting on.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub deferred: String,
    /// The clusters that the scheduler chose, where the object goes to others as well.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<PlacedClusters>,
    /// The digest of the source object.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The controller that must act before the object is sent again.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingController>,
    /// While a controller is pending: the clusters that have the object, but are not in its placement any more.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<ClusterName>,
    /// The clusters where the last good overrides are in force, while an override policy fails that was edited.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Vec<ClusterName>>,
    /// Whether the policy kept others from following the object when it was last scheduled.
    #[serde(
        rename = "unfollowed",
        deserialize_with = "or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_unfollowed: bool,
}

/// A controller that an object waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PendingController {
    /// The scheduler.
    Scheduler,
    /// The override controller.
    Overrides,
}

impl KubeAdmiralState {
    /// Reads the scheduler state of a row.
    pub(super) fn from_row(row: &Placement) -> Self {
        row.read_scheduler_state()
    }

    /// Writes the scheduler state to a row.
    pub(super) fn write_to(&self, row: &mut Placement) {
        row.write_scheduler_state(self);
    }
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::ObjectRef;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_memory_keeps_its_form() {
        let id = ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        let form = json!({
            "annotations": {"kubeadmiral.io/auto-migration-info": "{\"estimatedCapacity\":{\"a\":1}}"},
            "propagated": [],
            "trigger": {"annotations": "1", "replicas": 2, "request": {"millicpu": 5, "memory": 0,
                "ephemeralStorage": 0, "scalarResources": null}, "migration": "{}", "policy": "p", "content": "2",
                "clusters": "3"},
            "deferred": "clusterJoined:false",
            "scheduled": [{"name": "a", "replicas": 2}],
            "source": "0123",
            "pending": "overrides",
            "held": ["b"],
            "overridden": ["a"],
            "unfollowed": true,
        });
        let mut given = Placement::new("kubeadmiral", id.clone(), None);
        given.scheduler_state = form.as_object().unwrap().clone().into();
        let mut written = Placement::new("kubeadmiral", id, None);
        KubeAdmiralState::from_row(&given).write_to(&mut written);
        assert_eq!(serde_json::to_value(&written.scheduler_state).unwrap(), form);
    }
}
