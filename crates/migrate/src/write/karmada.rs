//! Writes policies of Karmada.
//!
//! Facts: policies of a namespace select objects there, cluster-wide ones those without a namespace. Every Namespace
//! goes to all clusters, unless a label says that it does not. A placement without `replicaScheduling` duplicates
//! replicas.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::import::ImportEdit;
use federate_kubernetes::pointer::escape;
use federate_kubernetes::selector::invalid_key;
use federate_kubernetes::{Object, ObjectRef};
use serde_json::{Value, json};

use super::{PolicyDraft, PolicyKind, PolicyNames, PolicyRole, SharedOverrides, share_overrides};
use crate::intent::{
    Adoption, ClusterRule, EntriesAction, EntriesChange, ImageChange, ImageComponent, ManifestChange,
    ManifestOperation, OverrideRuleIntent, OwnOverrideRule, PatchAction, PlacementIntent, ReplicaRule,
    RepoIntent, Suspended, TaintRule, WordsChange, labels_to_json,
};
use crate::rendering::build_mapping;

const API_VERSION: &str = "policy.karmada.io/v1alpha1";

/// The label of a Namespace that does not go to all clusters.
pub(crate) const SKIP_LABEL: &str = "namespace.karmada.io/skip-auto-propagation";

/// The label with which members decide about replicas.
pub(crate) const RETAIN_LABEL: &str = "resourcetemplate.karmada.io/retain-replicas";

/// Whether Karmada sends an object to all clusters, whatever policies say: a Namespace.
pub(crate) fn goes_everywhere(object: &Object) -> bool {
    let is_namespace = object.id.kind == "Namespace" && object.id.api_version == "v1";
    let is_skipped = object.label(SKIP_LABEL).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    is_namespace && !is_skipped && !is_reserved_namespace(&object.id.name)
}

/// Gives objects the labels that say more about them.
pub(super) fn fit_intent(intent: &mut RepoIntent) {
    let pointer = format!("/metadata/labels/{}", escape(RETAIN_LABEL));
    for template in intent.templates.iter_mut().filter(|template| template.retains_replicas) {
        template.edits.push(ImportEdit { pointer: pointer.clone(), value: Some("true".into()) });
    }
}

/// Whether Karmada sends a Namespace to no cluster by itself.
pub(crate) fn is_reserved_namespace(name: &str) -> bool {
    matches!(name, "default" | "karmada-system" | "karmada-cluster")
        || name.starts_with("karmada-es-")
        || name.starts_with("kube-")
}

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

/// Writes all policies.
pub(super) fn write_policies(intent: &RepoIntent, mut names: PolicyNames) -> Vec<PolicyDraft> {
    let placements = intent.placements.iter().filter(|placement| !placement.clusters.is_nowhere());
    let mut drafts: Vec<PolicyDraft> =
        placements.map(|placement| write_placement(placement, &mut names)).collect();
    let in_namespace = |object: &ObjectRef| format!("{:?}", object.namespace);
    for shared in share_overrides(&intent.overrides, in_namespace) {
        drafts.push(write_override(&shared, &mut names));
    }
    drafts
}

/// Selects objects by name. Policies without a namespace name that of each object.
fn write_selectors(objects: &BTreeSet<ObjectRef>, is_cluster_wide: bool) -> Value {
    let selector = |object: &ObjectRef| {
        let namespace = object.namespace.as_ref().filter(|_| is_cluster_wide);
        build_mapping([
            ("apiVersion", json!(object.api_version)),
            ("kind", json!(object.kind)),
            ("namespace", json!(namespace)),
            ("name", json!(object.name)),
        ])
    };
    objects.iter().map(selector).collect()
}

fn write_placement(intent: &PlacementIntent, names: &mut PolicyNames) -> PolicyDraft {
    let first = intent.objects.first().filter(|_| !intent.is_cluster_wide);
    let namespace = first.and_then(|object| object.namespace.clone());
    let identity = names.name_policy(PLACEMENT, &intent.name, namespace);
    let tolerations = match &intent.taints {
        TaintRule::Ignored => json!([{"operator": "Exists"}]),
        TaintRule::Respected(tolerations) if tolerations.is_empty() => Value::Null,
        TaintRule::Respected(tolerations) => json!(tolerations),
    };
    let spread = intent
        .max_clusters
        .map_or(Value::Null, |most| json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": most}]));
    let mut placement = json!({"clusterAffinity": write_affinity(&intent.clusters)});
    for (key, value) in [
        ("clusterTolerations", tolerations),
        ("spreadConstraints", spread),
        ("replicaScheduling", write_replica_scheduling(&intent.replicas)),
    ] {
        if !value.is_null() {
            placement[key] = value;
        }
    }
    let conflicts = match intent.adoption {
        Adoption::Overwrite => json!("Overwrite"),
        Adoption::Abort => Value::Null,
    };
    let suspension = match &intent.suspension {
        Suspended::Nowhere => Value::Null,
        Suspended::Everywhere => json!({"dispatching": true}),
        Suspended::In(clusters) => json!({"dispatchingOnClusters": {"clusterNames": clusters}}),
    };
    let preserves = if intent.is_preserved { json!(true) } else { Value::Null };
    let value = identity.build_policy(build_mapping([
        ("resourceSelectors", write_selectors(&intent.objects, intent.is_cluster_wide)),
        ("propagateDeps", if intent.leads { json!(true) } else { Value::Null }),
        ("conflictResolution", conflicts),
        ("preserveResourcesOnDeletion", preserves),
        ("suspension", suspension),
        ("placement", placement),
    ]));
    let (objects, file) = (intent.objects.clone(), intent.file());
    PolicyDraft { value, objects, role: PolicyRole::Placement, file, label: None }
}

fn write_affinity(rule: &ClusterRule) -> Value {
    let labels = &rule.labels;
    let expressions = serde_json::to_value(&labels.match_expressions).unwrap_or_default();
    let selector = build_mapping([
        ("matchLabels", labels_to_json(&labels.match_labels)),
        ("matchExpressions", expressions),
    ]);
    build_mapping([
        ("labelSelector", selector),
        ("fieldSelector", build_mapping([("matchExpressions", json!(rule.fields))])),
        ("clusterNames", json!(rule.names)),
        ("exclude", json!(rule.excluded)),
    ])
}

fn write_replica_scheduling(rule: &ReplicaRule) -> Value {
    let weights = match rule {
        ReplicaRule::Duplicated => return Value::Null,
        ReplicaRule::Weights(weights) => weights,
        ReplicaRule::FreeResources => {
            return json!({
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            });
        }
        ReplicaRule::Aggregated => {
            return json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
        }
    };
    let list = weights.iter().map(|weight| {
        let clusters = write_affinity(&weight.clusters);
        json!({"targetCluster": clusters, "weight": weight.weight})
    });
    let list: Vec<Value> = list.collect();
    let mut scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    if !list.is_empty() {
        scheduling["weightPreference"] = json!({"staticWeightList": list});
    }
    scheduling
}

fn write_override(shared: &SharedOverrides<'_>, names: &mut PolicyNames) -> PolicyDraft {
    let first = shared.objects.first();
    let name = first.map_or("", |object| object.name.as_str());
    let namespace = first.and_then(|object| object.namespace.clone());
    let identity = names.name_policy(OVERRIDE, name, namespace);
    let own = shared.own.iter().filter_map(write_own_rule);
    let rules: Vec<Value> = own.chain(shared.rules.iter().map(write_rule)).collect();
    let selectors = write_selectors(&shared.objects, false);
    let value = identity.build_policy(json!({"resourceSelectors": selectors, "overrideRules": rules}));
    let objects = shared.objects.clone();
    PolicyDraft { value, objects, role: PolicyRole::Override, file: None, label: None }
}

/// A rule of an override policy; `None` if nothing of it can be written.
fn write_own_rule(rule: &OwnOverrideRule) -> Option<Value> {
    let mut overriders: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let replaces_maps = rule.changes.iter().any(
        |change| matches!(change, ManifestChange::Operation(operation) if replaces_map(&operation.pointer)),
    );
    for change in &rule.changes {
        let (name, values) = match change {
            ManifestChange::Operation(operation) => {
                match write_map_overrider(operation).filter(|_| !replaces_maps) {
                    Some(MapOverrider { map: "labels", value }) => ("labelsOverrider", vec![value]),
                    Some(MapOverrider { value, .. }) => ("annotationsOverrider", vec![value]),
                    None => ("plaintext", vec![write_plaintext(operation)]),
                }
            }
            ManifestChange::Image(change) => ("imageOverrider", write_image(change)),
            ManifestChange::Command(change) => ("commandOverrider", vec![write_words(change)]),
            ManifestChange::Args(change) => ("argsOverrider", vec![write_words(change)]),
            ManifestChange::Labels(change) => ("labelsOverrider", vec![write_entries(change)]),
            ManifestChange::Annotations(change) => ("annotationsOverrider", vec![write_entries(change)]),
        };
        overriders.entry(name).or_default().extend(values);
    }
    // Within a rule, they apply in this order.
    let order = [
        "imageOverrider",
        "commandOverrider",
        "argsOverrider",
        "labelsOverrider",
        "annotationsOverrider",
        "plaintext",
    ];
    let overriders =
        build_mapping(order.map(|name| (name, overriders.remove(name).unwrap_or_default().into())));
    let clusters = write_affinity(&rule.clusters);
    let has_any = overriders.as_object().is_some_and(|map| !map.is_empty());
    has_any.then(|| build_mapping([("targetCluster", clusters), ("overriders", overriders)]))
}

fn write_image(change: &ImageChange) -> Vec<Value> {
    let component = match change.component {
        ImageComponent::Registry => "Registry",
        ImageComponent::Repository => "Repository",
        ImageComponent::Tag => "Tag",
    };
    let operator = if change.value.is_some() { "replace" } else { "remove" };
    let overrider = |path: Option<&String>| {
        build_mapping([
            ("predicate", path.map_or(Value::Null, |path| json!({"path": path}))),
            ("component", json!(component)),
            ("operator", json!(operator)),
            ("value", json!(change.value)),
        ])
    };
    if change.pointers.is_empty() {
        return vec![overrider(None)];
    }
    change.pointers.iter().map(|path| overrider(Some(path))).collect()
}

fn write_words(change: &WordsChange) -> Value {
    let operator = if change.adds { "add" } else { "remove" };
    json!({"containerName": change.container, "operator": operator, "value": change.words})
}

fn write_entries(change: &EntriesChange) -> Value {
    let operator = match change.action {
        EntriesAction::Add => "add",
        EntriesAction::Replace => "replace",
        EntriesAction::Remove => "remove",
    };
    json!({"operator": operator, "value": labels_to_json(&change.entries)})
}

/// Labels and annotations have overriders of their own, which need no map to exist. They come before the others.
fn write_rule(rule: &OverrideRuleIntent) -> Value {
    let (mut labels, mut annotations, mut plaintext) = (Vec::new(), Vec::new(), Vec::new());
    let replaces_maps = rule.operations.iter().any(|operation| replaces_map(&operation.pointer));
    for operation in &rule.operations {
        match write_map_overrider(operation).filter(|_| !replaces_maps) {
            Some(MapOverrider { map: "labels", value }) => labels.push(value),
            Some(MapOverrider { value, .. }) => annotations.push(value),
            None => plaintext.push(write_plaintext(operation)),
        }
    }
    json!({
        "targetCluster": {"clusterNames": rule.clusters},
        "overriders": build_mapping([
            ("labelsOverrider", labels.into()),
            ("annotationsOverrider", annotations.into()),
            ("plaintext", plaintext.into()),
        ]),
    })
}

/// Whether an operation changes all labels or annotations at once.
fn replaces_map(pointer: &str) -> bool {
    matches!(pointer, "" | "/metadata" | "/metadata/labels" | "/metadata/annotations")
}

/// An overrider of labels or annotations.
struct MapOverrider {
    map: &'static str,
    value: Value,
}

fn write_map_overrider(operation: &ManifestOperation) -> Option<MapOverrider> {
    let (map, key) = ["labels", "annotations"].into_iter().find_map(|map| {
        let key = operation.pointer.strip_prefix("/metadata/")?.strip_prefix(map)?.strip_prefix('/')?;
        let key = federate_kubernetes::pointer::unescape(key).into_owned();
        invalid_key(&key).is_none().then_some((map, key))
    })?;
    let value = match operation.action.value() {
        Some(value) => value.as_str()?.to_owned(),
        None => String::new(),
    };
    let value = json!({"operator": operation.action.name(), "value": {key: value}});
    Some(MapOverrider { map, value })
}

fn write_plaintext(operation: &ManifestOperation) -> Value {
    let mut value = json!({"path": operation.pointer, "operator": operation.action.name()});
    if let PatchAction::Add(after) | PatchAction::Replace(after) = &operation.action {
        value["value"] = after.clone();
    }
    value
}
