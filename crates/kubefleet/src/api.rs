//! The placement policy of `ClusterResourcePlacement` and `ResourcePlacement`, with the defaults of the custom
//! resource definition and of the defaulting webhook.
//!
//! Facts: no policy at all means `PickAll`. Versions v1 and v1beta1 have the same policy.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::schema::{Schema, Shape};
use federate_kubernetes::selector::LabelSelector;

/// The name of the dialect.
pub(crate) const NAME: &str = "kubefleet";

/// The API group of placements and overrides.
pub(crate) const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";

mod cluster;

pub(super) use cluster::{GoTime, MemberClusterSpec, MemberClusterStatus, ReportedCondition, ReportedUsage};

federate_kubernetes::crd! {
    /// `spec.policy`. Policies that differ only in `numberOfClusters` share a snapshot.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub struct PlacementPolicy {
        /// How clusters are picked.
        pub placement_type: PlacementType = optional("placementType", Shape::OneOf(&["PickAll", "PickN", "PickFixed"])),
        /// The clusters of `PickFixed`.
        pub cluster_names: Vec<String> = optional("clusterNames"),
        /// The number of clusters of `PickN`.
        pub number_of_clusters: Option<i64> = optional("numberOfClusters", Shape::Integer(0, i32::MAX as i64)),
        pub(super) affinity: Option<Affinity> = optional("affinity"),
        pub(super) topology_spread_constraints: Vec<TopologySpreadConstraint> = optional("topologySpreadConstraints"),
        pub(super) tolerations: Vec<PlacementToleration> = optional("tolerations"),
    }
}

/// How clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PlacementType {
    /// Every cluster that passes the filters.
    #[default]
    PickAll,
    /// A number of clusters, the best first.
    PickN,
    /// Clusters by name.
    PickFixed,
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct Affinity {
        pub(super) cluster_affinity: Option<KubeFleetClusterAffinity> = optional("clusterAffinity"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct KubeFleetClusterAffinity {
        pub(super) required: Option<ClusterSelector> = optional("requiredDuringSchedulingIgnoredDuringExecution"),
        pub(super) preferred: Vec<PreferredClusterSelector> = optional("preferredDuringSchedulingIgnoredDuringExecution"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct ClusterSelector {
        pub(super) cluster_selector_terms: Vec<ClusterSelectorTerm> = required("clusterSelectorTerms"),
    }
}

federate_kubernetes::crd! {
    /// A term of required affinity, or of a preference.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct ClusterSelectorTerm {
        pub(super) label_selector: Option<LabelSelector> = optional("labelSelector"),
        pub(super) property_selector: Option<PropertySelector> = optional("propertySelector"),
        pub(super) property_sorter: Option<PropertySorter> = optional("propertySorter"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct PropertySelector {
        pub(super) match_expressions: Vec<PropertyRequirement> = required("matchExpressions"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct PropertyRequirement {
        pub(super) name: String = required("name"),
        pub(super) operator: String = required("operator"),
        pub(super) values: Vec<String> = required("values"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct PropertySorter {
        pub(super) name: String = required("name"),
        pub(super) sort_order: SortOrder = required("sortOrder", Shape::OneOf(&["Ascending", "Descending"])),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum SortOrder {
    #[default]
    Descending,
    Ascending,
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct PreferredClusterSelector {
        pub(super) weight: i64 = required("weight", Shape::Integer(-100, 100)),
        pub(super) preference: ClusterSelectorTerm = required("preference"),
    }
}

federate_kubernetes::crd! {
    /// A topology spread constraint.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct TopologySpreadConstraint {
        pub(super) max_skew: MaxSkew = optional("maxSkew"),
        pub(super) topology_key: String = required("topologyKey", Shape::Filled),
        pub(super) when_unsatisfiable: WhenUnsatisfiable =
            optional("whenUnsatisfiable", Shape::OneOf(&["DoNotSchedule", "ScheduleAnyway"])),
    }
}

/// The greatest skew, 1 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct MaxSkew(pub(super) i64);

impl Default for MaxSkew {
    fn default() -> Self {
        Self(1)
    }
}

impl Schema for MaxSkew {
    const SHAPE: Shape = Shape::Integer(1, i32::MAX as i64);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum WhenUnsatisfiable {
    #[default]
    DoNotSchedule,
    ScheduleAnyway,
}

federate_kubernetes::crd! {
    /// A toleration of a taint.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    pub(super) struct PlacementToleration {
        pub(super) key: String = optional("key"),
        pub(super) operator: TolerationOperator = optional("operator"),
        pub(super) value: String = optional("value"),
        pub(super) effect: String = optional("effect", Shape::OneOf(&["NoSchedule"])),
    }
}

/// The operator of a toleration, `Equal` by default and if it is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub(super) struct TolerationOperator(String);

impl TolerationOperator {
    /// Its text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TolerationOperator {
    fn default() -> Self {
        Self("Equal".to_owned())
    }
}

impl From<String> for TolerationOperator {
    fn from(text: String) -> Self {
        if text.is_empty() { Self::default() } else { Self(text) }
    }
}

impl Schema for TolerationOperator {
    const SHAPE: Shape = Shape::OneOf(&["Equal", "Exists"]);
}

impl PlacementPolicy {
    /// Reads `spec.policy`. An absent one is the default policy.
    pub fn from_json(value: Option<&Value>) -> Result<Self, serde_json::Error> {
        Ok(Option::deserialize(value.unwrap_or(&Value::Null))?.unwrap_or_default())
    }

    /// Whether rows made under `other` still count as made under this policy.
    pub(super) fn same_snapshot(&self, other: &Self) -> bool {
        Self { number_of_clusters: None, ..self.clone() }
            == Self { number_of_clusters: None, ..other.clone() }
    }

    /// The terms of required affinity. A cluster must match one of them; no terms match every cluster.
    pub(super) fn required_terms(&self) -> &[ClusterSelectorTerm] {
        let required = self.cluster_affinity().and_then(|a| a.required.as_ref());
        required.map_or(&[], |selector| &selector.cluster_selector_terms)
    }

    pub(super) fn preferred_selectors(&self) -> &[PreferredClusterSelector] {
        self.cluster_affinity().map_or(&[], |a| &a.preferred)
    }

    fn cluster_affinity(&self) -> Option<&KubeFleetClusterAffinity> {
        self.affinity.as_ref()?.cluster_affinity.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(value: &Value) -> PlacementPolicy {
        PlacementPolicy::from_json(Some(value)).unwrap()
    }

    #[test]
    fn absent_fields_are_defaulted() {
        assert_eq!(PlacementPolicy::from_json(None).unwrap().placement_type, PlacementType::PickAll);
        let p = policy(
            &json!({"placementType": "PickN", "tolerations": [{"key": "a"}], "topologySpreadConstraints": [{"topologyKey": "zone"}]}),
        );
        assert_eq!(p.tolerations.first().unwrap().operator, TolerationOperator::default());
        let constraint = p.topology_spread_constraints.first().unwrap();
        assert_eq!(
            (constraint.max_skew.0, constraint.when_unsatisfiable),
            (1, WhenUnsatisfiable::DoNotSchedule)
        );
    }

    #[test]
    fn only_the_number_keeps_a_snapshot() {
        let two = policy(&json!({"placementType": "PickN", "numberOfClusters": 2}));
        let three = policy(&json!({"placementType": "PickN", "numberOfClusters": 3}));
        let tolerant =
            policy(&json!({"placementType": "PickN", "numberOfClusters": 2, "tolerations": [{"key": "a"}]}));
        assert!(two.same_snapshot(&three) && !two.same_snapshot(&tolerant));
        let spelled = policy(
            &json!({"placementType": "PickN", "tolerations": [{"key": "a", "operator": "Equal", "value": ""}]}),
        );
        assert!(tolerant.same_snapshot(&spelled), "defaults are filled in before comparing");
    }
}
