//! `ClusterTaintPolicy`: taints that follow from conditions.
//!
//! Facts: a policy is applied to a cluster when its conditions change, not when its taints do. It adds taints before
//! it removes any. A missing condition matches nothing, whatever the operator.

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::schema::{Field, Shape};
use federate_kubernetes::{Cluster, Object, crd};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::api::KarmadaClusterAffinity;
use crate::capacity::taints::{self, ClusterTaint};

/// A policy.
#[derive(Clone, Debug)]
pub struct TaintPolicy {
    created: Option<Timestamp>,
    name: String,
    spec: TaintPolicySpec,
}

crd! {
    /// `spec` of a `ClusterTaintPolicy`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct TaintPolicySpec {
        target_clusters: Option<KarmadaClusterAffinity> = optional("targetClusters"),
        add_on_conditions: Vec<MatchCondition> = optional("addOnConditions"),
        remove_on_conditions: Vec<MatchCondition> = optional("removeOnConditions"),
        taints: Vec<ClusterTaint> = required("taints", Shape::List(1, &TAINT)),
    }
}

const TAINT: Shape = Shape::Object(&[&[
    Field::required("key", Shape::Text),
    Field::required("effect", Shape::Text),
    Field::optional("value", Shape::Text),
]]);

crd! {
    /// What the conditions of a cluster must be.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct MatchCondition {
        condition_type: String = required("conditionType"),
        operator: String = required("operator"),
        status_values: Vec<String> = required("statusValues"),
    }
}

impl MatchCondition {
    fn is_met(&self, conditions: &[Condition]) -> bool {
        let Some(found) = condition::find_condition(conditions, &self.condition_type) else { return false };
        let among = self.status_values.contains(&found.status);
        match self.operator.as_str() {
            "In" => among,
            "NotIn" => !among,
            _ => false,
        }
    }
}

fn are_all_met(matches: &[MatchCondition], conditions: &[Condition]) -> bool {
    !matches.is_empty() && matches.iter().all(|one| one.is_met(conditions))
}

impl TaintPolicy {
    /// Reads a policy.
    pub fn from_object(object: &Object) -> Result<Self, serde_json::Error> {
        let spec = object.value_at(&["spec"]).unwrap_or(&Value::Null);
        Ok(Self {
            created: object.text_at(&["metadata", "creationTimestamp"]).parse().ok(),
            name: object.id.name.clone(),
            spec: Option::deserialize(spec)?.unwrap_or_default(),
        })
    }

    /// The key by which policies are sorted.
    pub fn sort_key(&self) -> (Option<Timestamp>, String) {
        (self.created, self.name.clone())
    }

    /// Whether it is about a cluster.
    pub fn targets_cluster(&self, cluster: &Cluster) -> bool {
        self.spec.target_clusters.as_ref().is_none_or(|affinity| affinity.selects_cluster(cluster))
    }

    /// Adds and removes its taints of a cluster with these conditions.
    pub fn update_taints(&self, conditions: &[Condition], taints: &mut Vec<ClusterTaint>, now: Timestamp) {
        if are_all_met(&self.spec.add_on_conditions, conditions) {
            for taint in &self.spec.taints {
                taints::add_taint(taints, ClusterTaint { time_added: Some(now), ..taint.clone() });
            }
        }
        if are_all_met(&self.spec.remove_on_conditions, conditions) {
            taints.retain(|taint| {
                !self.spec.taints.iter().any(|t| taint.has_key_and_effect(&t.key, &t.effect))
            });
        }
    }
}
