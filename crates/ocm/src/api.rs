//! The fields of Open Cluster Management's objects that the dialect reads.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::schema::Shape;
use federate_kubernetes::selector::LabelSelector;

pub(crate) mod cluster;
pub(crate) mod work;

use Shape::{Any, Filled, Integer, List, OneOf, Text};

/// The name of the dialect.
pub(crate) const NAME: &str = "ocm";

/// The API version of placements and their decisions.
pub(crate) const PLACEMENT_VERSION: &str = "cluster.open-cluster-management.io/v1beta1";

/// A whole number of 32 bits.
pub(crate) const INT32: Shape = Integer(i32::MIN as i64, i32::MAX as i64);

/// The effect of a taint for which a cluster is not selected.
pub(crate) const NO_SELECT: &str = "NoSelect";
/// The effect of a taint for which a cluster is not newly selected.
pub(crate) const NO_SELECT_IF_NEW: &str = "NoSelectIfNew";
/// The effect of a taint that never matters.
pub(crate) const PREFER_NO_SELECT: &str = "PreferNoSelect";
/// The effects of taints.
pub(crate) const TAINT_EFFECTS: [&str; 3] = [NO_SELECT, PREFER_NO_SELECT, NO_SELECT_IF_NEW];

/// The effects of taints.
pub(crate) const EFFECTS: Shape = OneOf(&TAINT_EFFECTS);

federate_kubernetes::crd! {
    /// The `spec` of a `Placement`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PlacementSpec {
        pub cluster_sets: Vec<String> = optional("clusterSets"),
        /// All clusters if absent.
        pub number_of_clusters: Option<i64> = optional("numberOfClusters", INT32),
        /// One of them must match; without any, each cluster does.
        pub predicates: Vec<ClusterPredicate> = optional("predicates"),
        pub prioritizer_policy: PrioritizerPolicy = optional("prioritizerPolicy"),
        pub tolerations: Vec<Toleration> = optional("tolerations"),
        pub decision_strategy: DecisionStrategy = optional("decisionStrategy"),
        /// Upstream does nothing with it.
        pub spread_policy: SpreadPolicy = optional("spreadPolicy"),
        /// Upstream does nothing with it.
        pub sort_by: String = optional("sortBy", OneOf(&["ClusterName", "Score"])),
        /// Upstream does nothing with it.
        pub score_rate_limit: String = optional("scoreRateLimit"),
    }
}

federate_kubernetes::crd! {
    /// One of the alternatives that select clusters.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterPredicate {
        pub required: ClusterSelector = optional("requiredClusterSelector"),
    }
}

federate_kubernetes::crd! {
    /// Selects clusters: all parts must match.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterSelector {
        pub labels: LabelSelector = optional("labelSelector"),
        pub claims: ClaimSelector = optional("claimSelector"),
        pub cel: CelSelector = optional("celSelector"),
    }
}

federate_kubernetes::crd! {
    /// Selects clusters by their claims, as if these were labels.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClaimSelector {
        pub match_expressions: Vec<federate_kubernetes::selector::SelectorRequirement> = optional("matchExpressions"),
    }
}

federate_kubernetes::crd! {
    /// Selects clusters by expressions in CEL.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct CelSelector {
        pub expressions: Vec<String> = optional("celExpressions"),
    }
}

federate_kubernetes::crd! {
    /// Which scores count.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PrioritizerPolicy {
        /// `Additive`, `Exact`, or empty, which means the first.
        pub mode: String = optional("mode"),
        pub configurations: Vec<PrioritizerConfig> = optional("configurations"),
    }
}

federate_kubernetes::crd! {
    /// The weight of a score.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PrioritizerConfig {
        pub coordinate: ScoreCoordinate = required("scoreCoordinate"),
        /// 1 if absent.
        pub weight: Option<i64> = optional("weight", Integer(-10, 10)),
    }
}

federate_kubernetes::crd! {
    /// Names a score.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
    pub(crate) struct ScoreCoordinate {
        /// `BuiltIn` if absent.
        pub kind: String = optional("type", OneOf(&["BuiltIn", "AddOn"])),
        pub built_in: String = optional("builtIn"),
        pub add_on: Option<AddOnCoordinate> = optional("addOn"),
    }
}

federate_kubernetes::crd! {
    /// Names a score of an add-on.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
    pub(crate) struct AddOnCoordinate {
        pub resource: String = required("resourceName"),
        pub score: String = required("scoreName"),
    }
}

federate_kubernetes::crd! {
    /// Allows clusters with a taint.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
    pub(crate) struct Toleration {
        pub key: String = optional("key"),
        /// `Equal` if absent.
        pub operator: String = optional("operator"),
        pub value: String = optional("value"),
        pub effect: String = optional("effect", EFFECTS),
        pub seconds: Option<i64> = optional("tolerationSeconds"),
    }
}

federate_kubernetes::crd! {
    /// How the selected clusters are grouped.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct DecisionStrategy {
        pub groups: GroupStrategy = optional("groupStrategy"),
    }
}

federate_kubernetes::crd! {
    /// The groups of decisions.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct GroupStrategy {
        pub groups: Vec<DecisionGroup> = optional("decisionGroups"),
        /// A number, or a percentage of the selected clusters.
        pub size: Value = optional("clustersPerDecisionGroup"),
    }
}

federate_kubernetes::crd! {
    /// A named group of decisions.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct DecisionGroup {
        pub name: String = required("groupName"),
        pub selector: GroupSelector = required("groupClusterSelector"),
    }
}

federate_kubernetes::crd! {
    /// Selects the clusters of a group. Both must match.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct GroupSelector {
        pub labels: LabelSelector = optional("labelSelector"),
        pub claims: ClaimSelector = optional("claimSelector"),
    }
}

federate_kubernetes::crd! {
    /// How decisions should be spread; upstream does nothing with it.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct SpreadPolicy {
        pub constraints: Vec<SpreadConstraint> = optional("spreadConstraints"),
    }
}

federate_kubernetes::crd! {
    /// How decisions should be spread over a topology.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct SpreadConstraint {
        pub key: String = required("topologyKey", Text),
        pub key_type: String = required("topologyKeyType", OneOf(&["Label", "Claim"])),
    }
    unread {
        optional("maxSkew", Integer(1, i32::MAX as i64)),
        optional("whenUnsatisfiable", OneOf(&["DoNotSchedule", "ScheduleAnyway"])),
    }
}

federate_kubernetes::crd! {
    /// The `spec` of a `ManagedClusterSet`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterSetSpec {
        pub selector: ClusterSetSelector = optional("clusterSelector"),
        pub namespaces: Vec<ManagedNamespace> = optional("managedNamespaces"),
    }
}

federate_kubernetes::crd! {
    /// A namespace that a set creates in its clusters.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ManagedNamespace {
        pub name: String = required("name", Filled),
    }
}

federate_kubernetes::crd! {
    /// How the members of a set are found.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterSetSelector {
        /// `ExclusiveClusterSetLabel` if absent.
        pub kind: String = optional("selectorType", OneOf(&["ExclusiveClusterSetLabel", "LabelSelector"])),
        pub labels: Option<LabelSelector> = optional("labelSelector"),
    }
}

federate_kubernetes::crd! {
    /// The `spec` of a `ManagedClusterSetBinding`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct BindingSpec {
        pub cluster_set: String = optional("clusterSet", Filled),
    }
}

federate_kubernetes::crd! {
    /// The `status` of an `AddOnPlacementScore`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ScoreStatus {
        pub scores: Vec<NamedScore> = optional("scores"),
        pub valid_until: String = optional("validUntil"),
    }
    unread {
        optional("conditions", List(0, &Any)),
    }
}

federate_kubernetes::crd! {
    /// A score of an add-on.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct NamedScore {
        pub name: String = required("name"),
        pub value: i64 = required("value", INT32),
    }
}
