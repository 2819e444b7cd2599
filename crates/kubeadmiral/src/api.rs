//! `KubeAdmiral`'s policies, with the defaults of its CRDs.
//!
//! Facts: the fields and defaults of `core.kubeadmiral.io/v1alpha1`. Unknown fields are pruned, and an explicit
//! `null` gets the default.

use federate_dialect::goduration;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use federate_kubernetes::Labels;
use federate_kubernetes::schema::{Field, Schema, Shape};
use federate_kubernetes::selector::SelectorRequirement;

mod cluster;
mod profile;
mod type_config;

pub(super) use cluster::{FederatedClusterResources, FederatedClusterSpec, FederatedClusterStatus};
pub(super) use profile::{PluginSet, ProfileSpec};
pub(super) use type_config::{KubeAdmiralTypeConfigSpec, SourceType};

const COUNT: Shape = Shape::Integer(0, i64::MAX);

const REQUIREMENT: Shape = Shape::Object(&[&[
    Field::required("key", Shape::Text),
    Field::required("operator", Shape::OneOf(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])),
    Field::required("values", Shape::List(0, &Shape::Text)),
]]);

federate_kubernetes::crd! {
    /// `spec` of a `PropagationPolicy` or `ClusterPropagationPolicy`.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct PolicySpec {
        /// The `SchedulingProfile`; empty for the default plugins.
        pub(super) scheduling_profile: String = optional("schedulingProfile"),
        /// `Divide`; anything else duplicates.
        pub(super) scheduling_mode: String = required("schedulingMode", Shape::OneOf(&["Duplicate", "Divide"])),
        /// `Binpack`; anything else spreads.
        pub(super) replicas_strategy: String = optional("replicasStrategy", Shape::OneOf(&["Binpack", "Spread"])),
        pub(super) cluster_selector: Labels = optional("clusterSelector"),
        pub(super) cluster_affinity: Vec<PolicyAffinityTerm> = optional("clusterAffinity"),
        pub(super) tolerations: Vec<Toleration> = optional("tolerations"),
        pub(super) max_clusters: Option<i64> = optional("maxClusters"),
        pub(super) placement: Vec<DesiredPlacement> = optional("placement"),
        pub(super) disable_follower_scheduling: bool = optional("disableFollowerScheduling"),
        pub(super) auto_migration: Option<AutoMigration> = optional("autoMigration"),
        pub(super) reschedule_policy: ReschedulePolicy = optional("reschedulePolicy"),
    }
}

impl PolicySpec {
    pub(super) fn divides_replicas(&self) -> bool {
        self.scheduling_mode == "Divide"
    }
}

federate_kubernetes::crd! {
    /// A cluster affinity term: labels and fields. If there are both, both must match.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct PolicyAffinityTerm {
        pub(super) match_expressions: Vec<SelectorRequirement> = optional("matchExpressions", Shape::List(0, &REQUIREMENT)),
        pub(super) match_fields: Vec<SelectorRequirement> = optional("matchFields", Shape::List(0, &REQUIREMENT)),
    }
}

federate_kubernetes::crd! {
    /// A toleration of cluster taints, by Kubernetes' rules.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct Toleration {
        pub(super) key: String = optional("key"),
        pub(super) operator: String = optional("operator"),
        pub(super) value: String = optional("value"),
        pub(super) effect: String = optional("effect"),
    }
    unread {
        optional("tolerationSeconds", i64::SHAPE),
    }
}

federate_kubernetes::crd! {
    /// A cluster that may be chosen, with its preferences.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct DesiredPlacement {
        pub(super) cluster: String = required("cluster"),
        pub(super) preferences: DesiredPreferences = optional("preferences"),
    }
}

federate_kubernetes::crd! {
    /// The preferences for one cluster.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct DesiredPreferences {
        pub(super) min_replicas: i64 = optional("minReplicas", COUNT),
        pub(super) max_replicas: Option<i64> = optional("maxReplicas", COUNT),
        pub(super) weight: Option<i64> = optional("weight", COUNT),
        pub(super) priority: Option<i64> = optional("priority", COUNT),
    }
}

federate_kubernetes::crd! {
    /// The migration of unschedulable replicas to other clusters.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct AutoMigration {
        pub(super) when: MigrationTrigger = optional("when"),
        pub(super) keep_unschedulable_replicas: bool = optional("keepUnschedulableReplicas"),
    }
}

federate_kubernetes::crd! {
    /// When replicas count as unschedulable.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct MigrationTrigger {
        /// How long a pod must have been unschedulable, as a Go duration; one minute by default.
        pub(super) pod_unschedulable_for: Option<String> = optional("podUnschedulableFor"),
    }
}

impl AutoMigration {
    /// How long pods may be unschedulable; `None` if it is not a duration.
    pub(super) fn parse_threshold(&self) -> Option<SignedDuration> {
        goduration::parse(self.when.pod_unschedulable_for.as_deref().unwrap_or("1m"))
    }
}

federate_kubernetes::crd! {
    /// When and how a placed object is scheduled again.
    #[derive(Clone, Debug, Deserialize, Serialize)]
    pub(super) struct ReschedulePolicy {
        pub(super) disable_rescheduling: bool = optional("disableRescheduling"),
        #[serde(default)]
        pub(super) reschedule_when: Option<RescheduleWhen> = optional("rescheduleWhen"),
        pub(super) replica_rescheduling: ReplicaRescheduling = optional("replicaRescheduling"),
    }
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

federate_kubernetes::crd! {
    /// The changes after which an object is scheduled again.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct RescheduleWhen {
        pub(super) policy_content_changed: OnByDefault = optional("policyContentChanged"),
        pub(super) cluster_joined: bool = optional("clusterJoined"),
        pub(super) cluster_labels_changed: bool = optional("clusterLabelsChanged"),
        pub(super) cluster_api_resources_changed: bool = optional("clusterAPIResourcesChanged"),
    }
}

federate_kubernetes::crd! {
    /// How replicas move between clusters.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    pub(super) struct ReplicaRescheduling {
        pub(super) avoid_disruption: OnByDefault = optional("avoidDisruption"),
    }
}

/// A switch that is on unless it is `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct OnByDefault(pub(super) bool);

impl Default for OnByDefault {
    fn default() -> Self {
        Self(true)
    }
}

impl Schema for OnByDefault {
    const SHAPE: Shape = Shape::Bool;
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
            assert!(policy.replica_rescheduling.avoid_disruption.0);
            assert!(policy.reschedule_when.is_some_and(|when| when.policy_content_changed.0));
        }
    }

    #[test]
    fn an_empty_reschedule_policy_has_no_trigger() {
        let policy = spec(json!({"reschedulePolicy": {}})).reschedule_policy;
        assert!(policy.replica_rescheduling.avoid_disruption.0 && policy.reschedule_when.is_none());
    }
}
