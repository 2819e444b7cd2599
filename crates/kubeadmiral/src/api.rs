//! `KubeAdmiral`'s policies, with the defaults of its CRDs.
//!
//! Facts: the fields and defaults of `core.kubeadmiral.io/v1alpha1`. Unknown fields are pruned, and an explicit
//! `null` gets the default.

use serde::{Deserialize, Serialize};

use federate_kubernetes::Labels;
use federate_kubernetes::selector::{Requirement, null_default};

/// `spec` of a `PropagationPolicy` or `ClusterPropagationPolicy`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PolicySpec {
    /// The `SchedulingProfile`; empty for the default plugins.
    #[serde(deserialize_with = "null_default")]
    pub(super) scheduling_profile: String,
    /// `Divide`; anything else duplicates.
    #[serde(deserialize_with = "null_default")]
    pub(super) scheduling_mode: String,
    /// `Binpack`; anything else spreads.
    #[serde(deserialize_with = "null_default")]
    pub(super) replicas_strategy: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_selector: Labels,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_affinity: Vec<Term>,
    #[serde(deserialize_with = "null_default")]
    pub(super) tolerations: Vec<Toleration>,
    pub(super) max_clusters: Option<i64>,
    #[serde(deserialize_with = "null_default")]
    pub(super) placement: Vec<DesiredPlacement>,
    #[serde(deserialize_with = "null_default")]
    pub(super) disable_follower_scheduling: bool,
    pub(super) auto_migration: Option<AutoMigration>,
    #[serde(deserialize_with = "null_default")]
    pub(super) reschedule_policy: ReschedulePolicy,
}

impl PolicySpec {
    pub(super) fn divides(&self) -> bool {
        self.scheduling_mode == "Divide"
    }
}

/// A cluster affinity term: labels and fields. If there are both, both must match.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Term {
    #[serde(deserialize_with = "null_default")]
    pub(super) match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "null_default")]
    pub(super) match_fields: Vec<Requirement>,
}

/// A toleration of cluster taints, by Kubernetes' rules.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Toleration {
    #[serde(deserialize_with = "null_default")]
    pub(super) key: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) operator: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) value: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) effect: String,
}

/// A cluster that may be chosen, with its preferences.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DesiredPlacement {
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) preferences: Preferences,
}

/// The preferences for one cluster.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preferences {
    #[serde(deserialize_with = "null_default")]
    pub(super) min_replicas: i64,
    pub(super) max_replicas: Option<i64>,
    pub(super) weight: Option<i64>,
    pub(super) priority: Option<i64>,
}

/// The migration of unschedulable replicas to other clusters.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AutoMigration {
    #[serde(deserialize_with = "null_default")]
    pub(super) when: MigrationTrigger,
    #[serde(deserialize_with = "null_default")]
    pub(super) keep_unschedulable_replicas: bool,
}

/// When replicas count as unschedulable.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MigrationTrigger {
    /// How long a pod must have been unschedulable, as a Go duration; one minute by default.
    pub(super) pod_unschedulable_for: Option<String>,
}

/// When and how a placed object is scheduled again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReschedulePolicy {
    #[serde(deserialize_with = "null_default")]
    pub(super) disable_rescheduling: bool,
    #[serde(default)]
    pub(super) reschedule_when: Option<RescheduleWhen>,
    #[serde(deserialize_with = "null_default")]
    pub(super) replica_rescheduling: ReplicaRescheduling,
}

/// The default where the policy has no `reschedulePolicy`. One that is `{}` has no `rescheduleWhen`.
impl Default for ReschedulePolicy {
    fn default() -> Self {
        Self {
            disable_rescheduling: false,
            reschedule_when: Some(RescheduleWhen::default()),
            replica_rescheduling: ReplicaRescheduling::default(),
        }
    }
}

/// The changes after which an object is scheduled again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "the four switches of the API")]
pub(super) struct RescheduleWhen {
    #[serde(deserialize_with = "null_true")]
    pub(super) policy_content_changed: bool,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_joined: bool,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_labels_changed: bool,
    #[serde(rename = "clusterAPIResourcesChanged", deserialize_with = "null_default")]
    pub(super) cluster_api_resources_changed: bool,
}

impl Default for RescheduleWhen {
    fn default() -> Self {
        Self {
            policy_content_changed: true,
            cluster_joined: false,
            cluster_labels_changed: false,
            cluster_api_resources_changed: false,
        }
    }
}

/// How replicas move between clusters.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReplicaRescheduling {
    #[serde(deserialize_with = "null_true")]
    pub(super) avoid_disruption: bool,
}

impl Default for ReplicaRescheduling {
    fn default() -> Self {
        Self { avoid_disruption: true }
    }
}

fn null_true<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<bool>::deserialize(deserializer)?.unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: serde_json::Value) -> PolicySpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_silent_policy_reschedules_on_its_own_change_and_avoids_disruption() {
        for silent in [json!({}), json!({"reschedulePolicy": null})] {
            let policy = spec(silent).reschedule_policy;
            assert!(policy.replica_rescheduling.avoid_disruption);
            assert!(policy.reschedule_when.is_some_and(|when| when.policy_content_changed));
        }
    }

    #[test]
    fn an_empty_reschedule_policy_has_no_trigger() {
        let policy = spec(json!({"reschedulePolicy": {}})).reschedule_policy;
        assert!(policy.replica_rescheduling.avoid_disruption && policy.reschedule_when.is_none());
    }
}
