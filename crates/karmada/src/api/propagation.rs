//! `PropagationPolicy` and `ClusterPropagationPolicy`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use federate_kubernetes::crd;
use federate_kubernetes::schema::{Field, Schema, Shape};

use super::{Failover, KarmadaClusterAffinity, KarmadaResourceSelector};
use Shape::{Filled, List, Object, OneOf, Text};

crd! {
    /// `spec` of `PropagationPolicy` and `ClusterPropagationPolicy`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PropagationSpec {
        pub resource_selectors: Vec<KarmadaResourceSelector> =
            required("resourceSelectors", List(1, &KarmadaResourceSelector::SHAPE)),
        pub propagate_deps: bool = optional("propagateDeps"),
        pub placement: KarmadaPlacement = optional("placement"),
        pub priority: i32 = optional("priority"),
        pub preemption: Option<String> = optional("preemption", OneOf(&["Always", "Never"])),
        pub dependent_overrides: Vec<String> = optional("dependentOverrides"),
        pub scheduler_name: Option<String> = optional("schedulerName"),
        pub conflict_resolution: Option<String> =
            optional("conflictResolution", OneOf(&["Abort", "Overwrite"])),
        pub suspension: Option<Suspension> = optional("suspension"),
        pub preserve_resources_on_deletion: Option<bool> = optional("preserveResourcesOnDeletion"),
        pub activation_preference: Option<String> = optional("activationPreference", OneOf(&["Lazy"])),
        pub schedule_priority: Option<SchedulePriority> = optional("schedulePriority"),
        pub failover: Option<Failover> = optional("failover"),
    }
    internal {
        /// How many tolerations admission has added, at the end.
        pub added_tolerations: usize,
    }
    unread {
        optional("association", Shape::Bool),
    }
}

crd! {
    /// The class of the priority with which bindings are scheduled.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct SchedulePriority {
        pub priority_class_source: String = required("priorityClassSource", OneOf(&["KubePriorityClass"])),
        pub priority_class_name: String = required("priorityClassName"),
    }
}

crd! {
    /// Where and how to place. Serialises with empty parts left out, so that two placements compare as
    /// the real scheduler compares them: after a JSON round trip.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct KarmadaPlacement {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cluster_affinity: Option<KarmadaClusterAffinity> = optional("clusterAffinity"),
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub cluster_affinities: Vec<AffinityTerm> = optional("clusterAffinities"),
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub cluster_tolerations: Vec<KarmadaToleration> = optional("clusterTolerations"),
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub spread_constraints: Vec<KarmadaSpreadConstraint> = optional("spreadConstraints"),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub replica_scheduling: Option<ReplicaScheduling> = optional("replicaScheduling"),
        /// Behind an alpha gate that is off: read only to compare placements.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workload_affinity: Option<Value> = optional("workloadAffinity", WORKLOAD_AFFINITY),
    }
}

const WORKLOAD_AFFINITY: Shape =
    Object(&[&[Field::optional("affinity", GROUP_BY), Field::optional("antiAffinity", GROUP_BY)]]);

const GROUP_BY: Shape = Object(&[&[Field::required("groupByLabelKey", Text)]]);

crd! {
    /// One of the ordered `clusterAffinities`.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct AffinityTerm {
        pub affinity_name: String = required("affinityName", Filled),
    }
    flatten {
        pub affinity: KarmadaClusterAffinity,
    }
    then {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub overflow_affinities: Vec<OverflowAffinity> = optional("overflowAffinities"),
    }
}

crd! {
    /// Clusters that take what those before them have no capacity for.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct OverflowAffinity {
        #[serde(skip_serializing_if = "String::is_empty")]
        pub affinity_name: String = required("affinityName", Filled),
    }
    flatten {
        pub affinity: KarmadaClusterAffinity,
    }
}

crd! {
    /// A toleration of cluster taints.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct KarmadaToleration {
        #[serde(skip_serializing_if = "String::is_empty")]
        pub key: String = optional("key"),
        #[serde(skip_serializing_if = "String::is_empty")]
        pub operator: String = optional("operator"),
        #[serde(skip_serializing_if = "String::is_empty")]
        pub value: String = optional("value"),
        #[serde(skip_serializing_if = "String::is_empty")]
        pub effect: String = optional("effect"),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub toleration_seconds: Option<i64> = optional("tolerationSeconds"),
    }
}

crd! {
    /// Over how many groups of clusters the replicas spread.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct KarmadaSpreadConstraint {
        #[serde(skip_serializing_if = "String::is_empty")]
        pub spread_by_field: String =
            optional("spreadByField", OneOf(&["cluster", "region", "zone", "provider"])),
        #[serde(skip_serializing_if = "String::is_empty")]
        pub spread_by_label: String = optional("spreadByLabel"),
        #[serde(skip_serializing_if = "is_zero")]
        pub max_groups: i64 = optional("maxGroups"),
        #[serde(skip_serializing_if = "is_zero")]
        pub min_groups: i64 = optional("minGroups"),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

crd! {
    /// How replicas are divided.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct ReplicaScheduling {
        #[serde(skip_serializing_if = "String::is_empty")]
        pub replica_scheduling_type: String =
            optional("replicaSchedulingType", OneOf(&["Duplicated", "Divided"])),
        #[serde(skip_serializing_if = "String::is_empty")]
        pub replica_division_preference: String =
            optional("replicaDivisionPreference", OneOf(&["Aggregated", "Weighted"])),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub weight_preference: Option<WeightPreference> = optional("weightPreference"),
    }
}

crd! {
    /// Fixed weights, or weights by available replicas.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct WeightPreference {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub static_weight_list: Vec<StaticWeight> = optional("staticWeightList"),
        #[serde(skip_serializing_if = "String::is_empty")]
        pub dynamic_weight: String = optional("dynamicWeight", OneOf(&["AvailableReplicas"])),
    }
}

crd! {
    /// The weight of some clusters.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct StaticWeight {
        pub target_cluster: KarmadaClusterAffinity = optional("targetCluster"),
        pub weight: i64 = required("weight", Shape::Integer(1, i64::MAX)),
    }
}

crd! {
    /// Whether nothing new is sent for now, to all clusters or to some.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct Suspension {
        pub dispatching: Option<bool> = optional("dispatching"),
        pub dispatching_on_clusters: Option<SuspendedClusters> = optional("dispatchingOnClusters"),
    }
}

crd! {
    /// The clusters to which nothing new is sent.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct SuspendedClusters {
        pub cluster_names: Vec<String> = optional("clusterNames"),
    }
}
