//! The placement policy of `ClusterResourcePlacement` and `ResourcePlacement`, with the defaults of the custom
//! resource definition and of the defaulting webhook.
//!
//! Facts: no policy at all means `PickAll`. Versions v1 and v1beta1 have the same policy.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use federate_kubernetes::selector::{LabelSelector, null_default};

/// `spec.policy`. Policies that differ only in `numberOfClusters` share a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Policy {
    #[serde(deserialize_with = "null_default")]
    pub(super) placement_type: PlacementType,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_names: Vec<String>,
    pub(super) number_of_clusters: Option<i64>,
    pub(super) affinity: Option<Affinity>,
    #[serde(deserialize_with = "null_default")]
    pub(super) topology_spread_constraints: Vec<SpreadConstraint>,
    #[serde(deserialize_with = "null_default")]
    pub(super) tolerations: Vec<Toleration>,
}

/// How clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum PlacementType {
    #[default]
    PickAll,
    PickN,
    PickFixed,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    pub(super) cluster_affinity: Option<ClusterAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ClusterAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<ClusterSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_default")]
    pub(super) preferred: Vec<Preference>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterSelector {
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_selector_terms: Vec<Term>,
}

/// A term of required affinity, or of a preference.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Term {
    pub(super) label_selector: Option<LabelSelector>,
    pub(super) property_selector: Option<PropertySelector>,
    pub(super) property_sorter: Option<PropertySorter>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PropertySelector {
    #[serde(deserialize_with = "null_default")]
    pub(super) match_expressions: Vec<PropertyRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PropertyRequirement {
    pub(super) name: String,
    pub(super) operator: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PropertySorter {
    pub(super) name: String,
    pub(super) sort_order: SortOrder,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum SortOrder {
    #[default]
    Descending,
    Ascending,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Preference {
    pub(super) weight: i64,
    #[serde(deserialize_with = "null_default")]
    pub(super) preference: Term,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpreadConstraint {
    #[serde(default = "one", deserialize_with = "null_one")]
    pub(super) max_skew: i64,
    #[serde(default)]
    pub(super) topology_key: String,
    #[serde(default, deserialize_with = "null_default")]
    pub(super) when_unsatisfiable: WhenUnsatisfiable,
}

fn one() -> i64 {
    1
}

fn null_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(1))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum WhenUnsatisfiable {
    #[default]
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Toleration {
    #[serde(default, deserialize_with = "null_default")]
    pub(super) key: String,
    #[serde(default = "equal", deserialize_with = "operator")]
    pub(super) operator: String,
    #[serde(default, deserialize_with = "null_default")]
    pub(super) value: String,
    #[serde(default, deserialize_with = "null_default")]
    pub(super) effect: String,
}

fn equal() -> String {
    "Equal".to_owned()
}

/// An empty operator gets the default, too.
fn operator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    Ok(if text.is_empty() { equal() } else { text })
}

impl Policy {
    /// Reads `spec.policy`. An absent one is the default policy.
    pub(super) fn read(value: Option<&Value>) -> Result<Self, serde_json::Error> {
        Ok(Option::deserialize(value.unwrap_or(&Value::Null))?.unwrap_or_default())
    }

    /// Whether rows made under `other` still count as made under this policy.
    pub(super) fn same_snapshot(&self, other: &Self) -> bool {
        let unnumbered = |policy: &Self| Self { number_of_clusters: None, ..policy.clone() };
        unnumbered(self) == unnumbered(other)
    }

    /// The terms of required affinity. A cluster must match one of them; no terms match every cluster.
    pub(super) fn required(&self) -> &[Term] {
        let required = self.cluster_affinity().and_then(|a| a.required.as_ref());
        required.map_or(&[], |selector| &selector.cluster_selector_terms)
    }

    pub(super) fn preferred(&self) -> &[Preference] {
        self.cluster_affinity().map_or(&[], |a| &a.preferred)
    }

    fn cluster_affinity(&self) -> Option<&ClusterAffinity> {
        self.affinity.as_ref()?.cluster_affinity.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(value: &Value) -> Policy {
        Policy::read(Some(value)).unwrap()
    }

    #[test]
    fn absent_fields_are_defaulted() {
        assert_eq!(Policy::read(None).unwrap().placement_type, PlacementType::PickAll);
        let p = policy(
            &json!({"placementType": "PickN", "tolerations": [{"key": "a"}], "topologySpreadConstraints": [{"topologyKey": "zone"}]}),
        );
        assert_eq!(p.tolerations.first().unwrap().operator, "Equal");
        let constraint = p.topology_spread_constraints.first().unwrap();
        assert_eq!(
            (constraint.max_skew, constraint.when_unsatisfiable),
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
