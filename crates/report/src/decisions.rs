//! A plan as objects that other tools read: the decisions of each placement or policy, by cluster.
//!
//! Facts: Argo CD's generator `clusterDecisionResource` reads a list of the status, by a key that a ConfigMap names. A list
//! of the Cluster Inventory API has at most 100 decisions, so that longer ones are cut into slices. A provider of inputs
//! of Flux Operator of the type `Static` gives one set of inputs.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{Placed, Placement, Plan};
use federate_kubernetes::ObjectRef;
use serde_json::{Map, Value, json};

/// The most decisions in one object.
const MAX_DECISIONS: usize = 100;

/// The shape of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionShape {
    /// `PlacementDecision` of Open Cluster Management.
    Ocm,
    /// `PlacementDecision` of the Cluster Inventory API.
    ClusterInventory,
    /// `ResourceSetInputProvider` of Flux Operator.
    FluxInputs,
}

/// The clusters of a policy, and how many replicas each has.
struct PolicyDecision<'p> {
    policy: &'p ObjectRef,
    /// A name for each list of clusters of the policy.
    name: String,
    row: &'p Placement,
}

/// The decisions of a plan as YAML documents. `records` returns the objects in which the control plane of a row records it
/// itself, if there are any.
pub fn write_decisions(
    plan: &Plan,
    shape: DecisionShape,
    records: impl Fn(&Placement) -> Vec<Value>,
) -> String {
    let mut documents = Vec::new();
    for decision in list_decisions(plan) {
        let own = if shape == DecisionShape::Ocm { records(decision.row) } else { Vec::new() };
        if own.is_empty() {
            documents.extend(match shape {
                DecisionShape::Ocm => write_ocm(&decision),
                DecisionShape::ClusterInventory => write_cluster_inventory(&decision),
                DecisionShape::FluxInputs => write_flux_inputs(&decision),
            });
        } else {
            documents.extend(own);
        }
    }
    if shape == DecisionShape::Ocm && !documents.is_empty() {
        documents.push(generator_config());
    }
    let mut text = String::new();
    for (at, document) in documents.iter().enumerate() {
        if at > 0 {
            text.push_str("---\n");
        }
        federate_yaml::write_document(document, &mut text);
    }
    text
}

/// The decisions of a plan, one for each policy and list of clusters. Where a placement has a row of its own, that of its
/// objects says nothing else.
fn list_decisions(plan: &Plan) -> Vec<PolicyDecision<'_>> {
    let is_own = |row: &&Placement| row.policy.as_ref() == Some(&row.object);
    let with_rows: BTreeSet<&str> =
        plan.placements.iter().filter(is_own).map(|row| row.dialect.as_str()).collect();
    let mut lists: BTreeMap<&ObjectRef, Vec<&Placement>> = BTreeMap::new();
    for row in plan.placements.iter().filter(|row| is_own(row) || !with_rows.contains(row.dialect.as_str())) {
        let Some(policy) = &row.policy else { continue };
        let known = lists.entry(policy).or_default();
        if known.iter().all(|other| other.clusters != row.clusters) {
            known.push(row);
        }
    }
    let mut decisions = Vec::new();
    for (policy, rows) in lists {
        for (at, row) in (1..).zip(&rows) {
            let name = if rows.len() == 1 { policy.name.clone() } else { format!("{}-{at}", policy.name) };
            decisions.push(PolicyDecision { policy, name, row });
        }
    }
    decisions
}

/// The metadata of an object of a decision.
fn metadata(decision: &PolicyDecision<'_>, name: String, labels: Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if let Some(namespace) = &decision.policy.namespace {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    metadata.insert("labels".to_owned(), labels);
    metadata.into()
}

/// The clusters in slices; one empty slice if there are none.
fn slice_clusters(decision: &PolicyDecision<'_>) -> Vec<Vec<Placed>> {
    let clusters: Vec<Placed> = decision.row.clusters.iter().cloned().collect();
    if clusters.is_empty() {
        return vec![Vec::new()];
    }
    clusters.chunks(MAX_DECISIONS).map(<[Placed]>::to_vec).collect()
}

fn write_ocm(decision: &PolicyDecision<'_>) -> Vec<Value> {
    let slices = slice_clusters(decision);
    (1..)
        .zip(&slices)
        .map(|(index, slice)| {
            let labels = json!({
                "cluster.open-cluster-management.io/decision-group-index": "0",
                "cluster.open-cluster-management.io/decision-group-name": "",
                "cluster.open-cluster-management.io/placement": decision.name,
            });
            let decisions = slice.iter().map(|placed| {
                let mut one = json!({"clusterName": placed.name, "reason": ""});
                if let Some(replicas) = placed.replicas {
                    one["replicas"] = replicas.into();
                }
                one
            });
            json!({
                "apiVersion": "cluster.open-cluster-management.io/v1beta1",
                "kind": "PlacementDecision",
                "metadata": metadata(decision, format!("{}-decision-{index}", decision.name), labels),
                "status": {"decisions": decisions.collect::<Vec<_>>()},
            })
        })
        .collect()
}

/// What Argo CD's generator needs to read decisions.
fn generator_config() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ocm-placement-generator"},
        "data": {
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "placementdecisions",
            "statusListKey": "decisions",
            "matchKey": "clusterName",
        },
    })
}

fn write_cluster_inventory(decision: &PolicyDecision<'_>) -> Vec<Value> {
    let slices = slice_clusters(decision);
    slices
        .iter()
        .enumerate()
        .map(|(index, slice)| {
            let labels = json!({
                "multicluster.x-k8s.io/decision-index": index.to_string(),
                "multicluster.x-k8s.io/decision-key": decision.name,
                "multicluster.x-k8s.io/placement-key": decision.policy.name,
            });
            let decisions = slice.iter().map(|placed| json!({"clusterProfileRef": {"name": placed.name}}));
            json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1",
                "kind": "PlacementDecision",
                "metadata": metadata(decision, format!("{}-{index}", decision.name), labels),
                "schedulerName": "federate",
                "decisions": decisions.collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn write_flux_inputs(decision: &PolicyDecision<'_>) -> Vec<Value> {
    decision
        .row
        .clusters
        .iter()
        .map(|placed| {
            let name = format!("{}-{}", decision.name, placed.name);
            let mut values = json!({"cluster": placed.name, "policy": decision.policy.name});
            if let Some(replicas) = placed.replicas {
                values["replicas"] = replicas.into();
            }
            json!({
                "apiVersion": "fluxcd.controlplane.io/v1",
                "kind": "ResourceSetInputProvider",
                "metadata": metadata(decision, name, json!({"federate.dev/policy": decision.policy.name})),
                "spec": {"type": "Static", "defaultValues": values},
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, object: &str, clusters: &[(&str, Option<i64>)]) -> Placement {
        let id = |kind: &str, name: &str| ObjectRef {
            api_version: "example.com/v1".to_owned(),
            kind: kind.to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let mut row = Placement::new("example", id("Widget", object), Some(id("Policy", policy)));
        row.clusters = clusters
            .iter()
            .map(|(name, replicas)| Placed { name: (*name).into(), replicas: *replicas })
            .collect();
        row
    }

    fn plan(placements: Vec<Placement>) -> Plan {
        Plan { placements, ..Plan::default() }
    }

    fn documents(plan: &Plan, shape: DecisionShape) -> Vec<Value> {
        let text = write_decisions(plan, shape, |_| Vec::new());
        federate_yaml::read_stream(text.as_bytes())
            .documents
            .into_iter()
            .map(|document| document.value)
            .collect()
    }

    #[test]
    fn objects_with_equal_clusters_share_a_decision() {
        let both = [("a", Some(1)), ("b", Some(2))];
        let plan = plan(vec![row("p", "x", &both), row("p", "y", &both), row("p", "z", &[("a", None)])]);
        let ocm = documents(&plan, DecisionShape::Ocm);
        let names: Vec<&str> = ocm.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        assert_eq!(names, ["p-1-decision-1", "p-2-decision-1", "ocm-placement-generator"]);
        assert_eq!(
            ocm[0]["status"]["decisions"][1],
            json!({"clusterName": "b", "reason": "", "replicas": 2})
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..250).map(|n| format!("c{n:03}")).collect();
        let clusters: Vec<(&str, Option<i64>)> = names.iter().map(|name| (name.as_str(), None)).collect();
        let plan = plan(vec![row("p", "x", &clusters)]);
        let sizes: Vec<usize> = documents(&plan, DecisionShape::ClusterInventory)
            .iter()
            .map(|one| one["decisions"].as_array().unwrap().len())
            .collect();
        assert_eq!(sizes, [100, 100, 50]);
        assert_eq!(documents(&plan, DecisionShape::FluxInputs).len(), 250);
    }

    #[test]
    fn a_policy_on_no_cluster_has_an_empty_decision() {
        let plan = plan(vec![row("p", "x", &[])]);
        assert_eq!(documents(&plan, DecisionShape::Ocm)[0]["status"]["decisions"], json!([]));
        assert!(documents(&plan, DecisionShape::FluxInputs).is_empty());
    }
}
