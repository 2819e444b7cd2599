//! Writes policies of `KubeAdmiral`.
//!
//! Facts: objects name their policies in labels, a policy of their namespace or one for the whole cluster. Replicas of
//! Deployments are divided, those of other kinds are not. Weights belong to clusters by name. Every Namespace but reserved
//! ones goes to all clusters. Objects that exist in a cluster are taken over if annotations of the template say so.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::import::ImportEdit;
use federate_kubernetes::pointer::escape;
use federate_kubernetes::{ObjectRef, Origin};
use serde_json::{Value, json};

use super::{
    FittedRules, PolicyDraft, PolicyKind, PolicyNames, PolicyRole, SharedOverrides, add_fitted_rules,
    fit_overrides, share_overrides, shorten_name,
};
use crate::Reason;
use crate::intent::{
    Adoption, ClusterRule, ClusterWeight, ManifestOperation, PlacementIntent, ReplicaRule, RepoIntent,
    Suspended, TaintRule, labels_to_json,
};
use crate::present::PresentState;
use crate::rendering::build_mapping;

mod overrides;
mod weights;

use weights::WeightIndex;

const API_VERSION: &str = "core.kubeadmiral.io/v1alpha1";

const PLACEMENT: PolicyKind = PolicyKind {
    api_version: API_VERSION,
    namespaced: "PropagationPolicy",
    cluster_wide: "ClusterPropagationPolicy",
};

const OVERRIDE: PolicyKind = PolicyKind {
    api_version: API_VERSION,
    namespaced: "OverridePolicy",
    cluster_wide: "ClusterOverridePolicy",
};

/// Replaces the rules that `KubeAdmiral` does not have by what they lead to now, and notes why. Adds the annotations that
/// say more about objects.
pub(super) fn fit_intent(intent: &mut RepoIntent, present: &PresentState<'_>) {
    let mut placements = std::mem::take(&mut intent.placements);
    let mut annotations: BTreeMap<ObjectRef, Vec<ImportEdit>> = BTreeMap::new();
    let mut weighed = WeighedClusters::new();
    for placement in &mut placements {
        let rules = fit_placement(placement, present, &mut weighed);
        add_fitted_rules(intent, present, placement, rules);
        for object in &placement.objects {
            annotations.entry(object.clone()).or_default().extend(annotate_object(placement));
        }
    }
    fit_overrides(intent, present, overrides::fit_rules);
    for template in &mut intent.templates {
        template.edits.extend(annotations.remove(&template.id).unwrap_or_default());
        if template.retains_replicas {
            template.edits.push(annotation("retain-replicas", "true"));
        }
    }
    intent.placements = placements;
}

fn annotation(key: &str, value: &str) -> ImportEdit {
    let pointer = format!("/metadata/annotations/{}", escape(&format!("kubeadmiral.io/{key}")));
    ImportEdit { pointer, value: Some(value.into()) }
}

/// What the annotations of an object say about it.
fn annotate_object(placement: &PlacementIntent) -> Vec<ImportEdit> {
    let mut edits = Vec::new();
    if placement.adoption == Adoption::Overwrite {
        edits.push(annotation("conflict-resolution", "adopt"));
        edits.push(annotation("clusters-to-adopt", r#"{"regexp":".*"}"#));
    }
    if placement.is_preserved {
        edits.push(annotation("orphan", "all"));
    }
    edits
}

/// The weights of clusters by name, by the policy and the clusters that it selects: objects of a policy share them.
type WeighedClusters = BTreeMap<Option<Origin>, (ClusterRule, Vec<(String, i64)>)>;

fn fit_placement(
    placement: &mut PlacementIntent,
    present: &PresentState<'_>,
    weighed: &mut WeighedClusters,
) -> FittedRules {
    let mut rules = FittedRules::new();
    if placement.objects.iter().any(|object| object.namespace.is_none()) {
        placement.is_cluster_wide = true;
    }
    let names = placement.clusters.plain_names().cloned().unwrap_or_default();
    let is_fixed = placement.origin.is_none() && !names.is_empty();
    let mut known = names.iter().filter_map(|name| present.find_cluster(name));
    if !is_fixed || !known.all(|cluster| cluster.ready && cluster.joined && !cluster.deleting) {
        rules.push((Reason::Readiness, "only ready clusters get what they do not have".to_owned()));
    }
    if !placement.clusters.fields.is_empty() {
        let detail = "the provider, the region or the zone of clusters";
        rules.push((Reason::FrozenSelector, detail.to_owned()));
        placement.clusters = present.name_clusters(&placement.objects);
    }
    if placement.replicas != ReplicaRule::Duplicated && !placement.objects.iter().all(is_divided_kind) {
        rules.push((Reason::KindNotDivided, "the replicas of each cluster are those of today".to_owned()));
        placement.clusters = present.name_clusters(&placement.objects);
        placement.replicas = ReplicaRule::Duplicated;
        (placement.taints, placement.max_clusters) = (TaintRule::Ignored, None);
    }
    fit_replicas(placement, present, weighed, &mut rules);
    if let Some(most) = placement.max_clusters {
        let noun = if most == 1 { "cluster" } else { "clusters" };
        rules.push((Reason::Scores, format!("at most {most} {noun}, ranked by scores")));
    }
    if placement.suspension != Suspended::Nowhere {
        rules.push((Reason::Suspension, "what is placed is sent".to_owned()));
    }
    rules
}

/// Whether replicas of a kind are divided.
fn is_divided_kind(object: &ObjectRef) -> bool {
    object.kind == "Deployment" && object.api_version == "apps/v1"
}

fn fit_replicas(
    placement: &mut PlacementIntent,
    present: &PresentState<'_>,
    weighed: &mut WeighedClusters,
    rules: &mut FittedRules,
) {
    match &placement.replicas {
        ReplicaRule::Duplicated => return,
        ReplicaRule::FreeResources => {
            let detail = "weights by the free resources of clusters";
            rules.push((Reason::DynamicWeights, detail.to_owned()));
        }
        ReplicaRule::Aggregated => {
            rules.push((Reason::Binpack, "clusters are filled in the order of their names".to_owned()));
        }
        ReplicaRule::Weights(weights) => {
            let by_name = match weighed.get(&placement.origin) {
                Some((rule, by_name)) if *rule == placement.clusters => by_name.clone(),
                _ => weigh_clusters(&placement.clusters, weights, present),
            };
            weighed.insert(placement.origin.clone(), (placement.clusters.clone(), by_name.clone()));
            let detail = "shares are rounded up in the order of weights";
            rules.push((Reason::Rounding, detail.to_owned()));
            if placement.clusters.plain_names().is_none() {
                let detail = "weights of the clusters of today, by name";
                rules.push((Reason::FrozenSelector, detail.to_owned()));
            }
            placement.clusters = ClusterRule { names: None, ..std::mem::take(&mut placement.clusters) }
                .intersect(&ClusterRule::from_names(by_name.iter().map(|(name, _)| name.clone())));
            placement.replicas = ReplicaRule::Weights(
                by_name
                    .into_iter()
                    .map(|(name, weight)| ClusterWeight { clusters: ClusterRule::from_names([name]), weight })
                    .collect(),
            );
            return;
        }
    }
    rules.push((Reason::AvoidDisruption, "replicas that run are kept where they are".to_owned()));
    rules.push((Reason::Capacity, "replicas that do not fit stay where they are".to_owned()));
}

/// The weight of each cluster that a rule selects: the greatest that is stated for it. Without any, all have the same.
fn weigh_clusters(
    rule: &ClusterRule,
    weights: &[ClusterWeight],
    present: &PresentState<'_>,
) -> Vec<(String, i64)> {
    let selected: Vec<_> = present.clusters().filter(|cluster| rule.matches_cluster(cluster)).collect();
    let index = WeightIndex::new(weights);
    let weighted = selected.iter().filter_map(|cluster| {
        let weight = index.find_greatest(cluster)?;
        Some((cluster.name.to_string(), weight))
    });
    let weighted: Vec<(String, i64)> = weighted.collect();
    if weighted.is_empty() {
        return selected.iter().map(|cluster| (cluster.name.to_string(), 1)).collect();
    }
    weighted
}

/// Writes all policies.
pub(super) fn write_policies(intent: &RepoIntent, mut names: PolicyNames) -> Vec<PolicyDraft> {
    let placements = intent.placements.iter().filter(|placement| !placement.clusters.is_nowhere());
    let mut drafts: Vec<PolicyDraft> =
        placements.map(|placement| write_placement(placement, &mut names)).collect();
    let in_namespace = |object: &ObjectRef| format!("{:?}", object.namespace);
    let all = share_overrides(&intent.overrides, in_namespace);
    drafts.extend(all.iter().map(|shared| write_override(shared, &mut names)));
    drafts
}

/// The label by which objects name a policy.
fn label_objects(kind: &str, is_cluster_wide: bool, name: &str) -> ImportEdit {
    let cluster = if is_cluster_wide { "cluster-" } else { "" };
    let pointer =
        format!("/metadata/labels/{}", escape(&format!("kubeadmiral.io/{cluster}{kind}-policy-name")));
    ImportEdit { pointer, value: Some(name.into()) }
}

fn write_placement(intent: &PlacementIntent, names: &mut PolicyNames) -> PolicyDraft {
    let first = intent.objects.first().filter(|_| !intent.is_cluster_wide);
    let namespace = first.and_then(|object| object.namespace.clone());
    let identity = names.name_policy(PLACEMENT, &shorten_name(&intent.name), namespace);
    let label = label_objects("propagation", intent.is_cluster_wide, &identity.name);
    let mode = if intent.replicas == ReplicaRule::Duplicated { "Duplicate" } else { "Divide" };
    let is_packed = intent.replicas == ReplicaRule::Aggregated;
    let selector = labels_to_json(&intent.clusters.labels.match_labels);
    let followers = if intent.leads { Value::Null } else { json!(true) };
    let value = identity.build_policy(build_mapping([
        ("schedulingMode", json!(mode)),
        ("replicasStrategy", json!(if is_packed { "Binpack" } else { "" })),
        ("clusterSelector", selector),
        ("clusterAffinity", write_affinity(&intent.clusters)),
        ("tolerations", write_tolerations(&intent.taints)),
        ("maxClusters", json!(intent.max_clusters)),
        ("placement", write_clusters(intent)),
        ("disableFollowerScheduling", followers),
        ("reschedulePolicy", write_rescheduling(&intent.replicas)),
    ]));
    let (objects, file) = (intent.objects.clone(), intent.file());
    PolicyDraft { value, objects, role: PolicyRole::Placement, file, label: Some(label) }
}

/// One term, with what label pairs and a list of names do not say.
fn write_affinity(rule: &ClusterRule) -> Value {
    let excluded = rule
        .excluded
        .iter()
        .map(|name| json!({"key": "metadata.name", "operator": "NotIn", "values": [name]}));
    let expressions = rule.labels.match_expressions.iter().map(|requirement| {
        json!({"key": requirement.key, "operator": requirement.operator, "values": requirement.values})
    });
    let term = build_mapping([
        ("matchExpressions", expressions.collect::<Vec<Value>>().into()),
        ("matchFields", excluded.collect::<Vec<Value>>().into()),
    ]);
    match term {
        Value::Object(map) if map.is_empty() => Value::Null,
        term => json!([term]),
    }
}

fn write_tolerations(taints: &TaintRule) -> Value {
    match taints {
        TaintRule::Ignored => json!([{"operator": "Exists"}]),
        TaintRule::Respected(tolerations) => {
            // A toleration without a key is one of all taints.
            let has_key = |one: &&Value| {
                one["operator"] == "Exists" || one["key"].as_str().is_some_and(|k| !k.is_empty())
            };
            tolerations.iter().filter(has_key).cloned().collect()
        }
    }
}

/// The clusters by name, with their weights.
fn write_clusters(intent: &PlacementIntent) -> Value {
    if let ReplicaRule::Weights(weights) = &intent.replicas {
        let named = weights.iter().flat_map(|one| {
            one.clusters
                .names
                .iter()
                .flatten()
                .map(|name| json!({"cluster": name, "preferences": {"weight": one.weight}}))
        });
        return named.collect();
    }
    let names = intent.clusters.names.iter().flatten();
    names.map(|name| json!({"cluster": name})).collect()
}

/// Decisions are taken again whenever something changes.
fn write_rescheduling(replicas: &ReplicaRule) -> Value {
    let mut policy = json!({"rescheduleWhen": {
        "policyContentChanged": true,
        "clusterJoined": true,
        "clusterLabelsChanged": true,
        "clusterAPIResourcesChanged": true,
    }});
    if matches!(replicas, ReplicaRule::Weights(_)) {
        policy["replicaRescheduling"] = json!({"avoidDisruption": false});
    }
    policy
}

fn write_override(shared: &SharedOverrides<'_>, names: &mut PolicyNames) -> PolicyDraft {
    let first = shared.objects.first();
    let name = first.map_or("", |object| object.name.as_str());
    let namespace = first.and_then(|object| object.namespace.clone());
    let is_cluster_wide = namespace.is_none();
    let identity = names.name_policy(OVERRIDE, &shorten_name(name), namespace);
    let label = label_objects("override", is_cluster_wide, &identity.name);
    let own = shared.own.iter().map(overrides::write_own_rule);
    let rules: Vec<Value> = own.chain(shared.rules.iter().map(overrides::write_rule)).collect();
    let value = identity.build_policy(json!({"overrideRules": rules}));
    let objects = shared.objects.clone();
    PolicyDraft { value, objects, role: PolicyRole::Override, file: None, label: Some(label) }
}

/// Whether an override can make this change: not of what names the object, and not of what is added when it is sent.
pub(super) fn can_override(operation: &ManifestOperation) -> bool {
    let pointer = operation.pointer.as_str();
    let is_identity =
        matches!(pointer, "/kind" | "/metadata/namespace" | "/metadata/name" | "/metadata/generateName");
    !is_identity && !pointer.starts_with("/metadata/finalizers") && pointer.starts_with('/')
}

/// Whether every cluster has a Namespace, whatever policies say.
pub(crate) fn sends_namespace(name: &str) -> bool {
    !name.starts_with("kube-")
}

/// The objects that must be edited: they name their policies.
pub(super) fn find_edited(intent: &RepoIntent) -> BTreeSet<&ObjectRef> {
    let placed = intent.placements.iter().flat_map(|placement| &placement.objects);
    placed.chain(intent.overrides.iter().map(|one| &one.object)).collect()
}
