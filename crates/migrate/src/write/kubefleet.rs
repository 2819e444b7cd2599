//! Writes placements and overrides of `KubeFleet`.
//!
//! Facts: a placement of a namespace selects objects there, a cluster-wide one those without a namespace. The hub labels
//! each cluster with its name, so that selectors can name clusters. `PickFixed` takes clusters whatever their taints.
//! Replicas are not divided. An override is a strict JSON patch, and one of a Namespace is also about what is in it.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef};
use serde_json::{Value, json};

use super::{
    FittedRules, PolicyDraft, PolicyKind, PolicyNames, PolicyRole, SharedOverrides, add_fitted_rules,
    fit_overrides, share_overrides, shorten_name, write_operation,
};
use crate::changes::lower_changes;
use crate::intent::{
    Adoption, ClusterRule, KeptSelectors, KindSelector, ManifestChange, ManifestOperation,
    OverrideRuleIntent, OwnOverrideRule, PatchAction, PlacementIntent, ReplicaRule, RepoIntent, Suspended,
    TaintRule, late_overrides, unequal_rule,
};
use crate::present::PresentState;
use crate::rendering::build_mapping;
use crate::{MigrationProblem, Reason};

mod selectors;

pub(super) use selectors::keep_selectors;

const API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";

const PLACEMENT: PolicyKind = PolicyKind {
    api_version: API_VERSION,
    namespaced: "ResourcePlacement",
    cluster_wide: "ClusterResourcePlacement",
};

const OVERRIDE: PolicyKind = PolicyKind {
    api_version: API_VERSION,
    namespaced: "ResourceOverride",
    cluster_wide: "ClusterResourceOverride",
};

/// The label with the name of the cluster, which the hub adds.
const MEMBER_NAME_LABEL: &str = "kubernetes-fleet.io/member-name";

/// What stands for the name of the cluster in values of overrides.
const MEMBER_NAME_VARIABLE: &str = "${MEMBER-CLUSTER-NAME}";

/// The most selectors, and the most clusters by name, of a placement.
const MAX_PLACEMENT_ITEMS: usize = 100;

/// The most objects of an override, the most of its rules, and the most operations of a rule.
const MAX_OVERRIDE_ITEMS: usize = 20;

/// The part of a placement's clusters that are updated at a time, if it does not say.
const DEFAULT_UPDATES: &str = "25 %";

/// Replaces the rules that `KubeFleet` does not have by what they lead to now, and notes why.
pub(super) fn fit_intent(intent: &mut RepoIntent, present: &PresentState<'_>) {
    let mut placements = std::mem::take(&mut intent.placements);
    for placement in &mut placements {
        let rules = fit_placement(placement, present);
        add_fitted_rules(intent, present, placement, rules);
    }
    fit_overrides(intent, present, fit_rules);
    let late = intent.overrides.iter().filter_map(|one| {
        let old = present.old_name(&one.object).clone();
        Some((old, late_overrides(&one.own, one.origins.first())?))
    });
    for (old, rule) in late.collect::<Vec<_>>() {
        intent.add_unequal(&old, rule);
    }
    for template in intent.templates.iter().filter(|template| template.retains_replicas) {
        let rule = unequal_rule(Reason::RetainedReplicas, "members decide about replicas", None, "");
        intent.unequal.entry(template.old.clone()).or_default().push(rule);
    }
    if !placements.is_empty() {
        let detail = format!("placements update at most {DEFAULT_UPDATES} of their clusters at a time");
        intent.unequal_of_repo.push(unequal_rule(Reason::Rollout, detail, None, ""));
    }
    intent.placements = placements;
}

fn fit_placement(placement: &mut PlacementIntent, present: &PresentState<'_>) -> FittedRules {
    let mut rules = FittedRules::new();
    placement.is_cluster_wide = placement.objects.iter().all(|object| object.namespace.is_none());
    if placement.leads {
        // Later objects would go without what they depend on.
        placement.selectors.clear();
    }
    placement.leads = false;
    let all_ready = placement.clusters.plain_names().is_some_and(|names| {
        let known = names.iter().filter_map(|name| present.find_cluster(name));
        placement.origin.is_none() && known.into_iter().all(is_eligible)
    });
    if !all_ready {
        rules.push((Reason::Readiness, "only clusters that are joined and report are chosen".to_owned()));
    }
    if placement.replicas != ReplicaRule::Duplicated {
        rules.push((Reason::Division, "the replicas of each cluster are those of today".to_owned()));
        placement.clusters = present.name_clusters(&placement.objects);
        placement.replicas = ReplicaRule::Duplicated;
        (placement.taints, placement.max_clusters) = (TaintRule::Ignored, None);
        // Clusters and replicas of today are not those of later objects.
        placement.selectors.clear();
    }
    if !placement.clusters.fields.is_empty() {
        let detail = "the provider, the region or the zone of clusters";
        rules.push((Reason::FrozenSelector, detail.to_owned()));
        placement.clusters = present.name_clusters(&placement.objects);
        placement.selectors.clear();
    }
    if let Some(most) = placement.max_clusters {
        let noun = if most == 1 { "cluster" } else { "clusters" };
        rules.push((Reason::Scores, format!("at most {most} {noun}, ranked by scores")));
    }
    let are_names_enough = placement.max_clusters.is_none()
        && placement.clusters.plain_names().is_some_and(|names| {
            names.len() <= MAX_PLACEMENT_ITEMS
                && (placement.taints == TaintRule::Ignored
                    || !names.iter().any(|name| is_tainted(name, present)))
        });
    if !are_names_enough && !placement.clusters.is_nowhere() {
        let selector = select_by_labels(std::mem::take(&mut placement.clusters));
        placement.clusters = ClusterRule::from_labels(selector);
    }
    if !placement.clusters.is_everywhere() && !are_names_enough {
        let detail = "clusters that no longer match keep the object";
        rules.push((Reason::Sticky, detail.to_owned()));
    }
    if placement.suspension != Suspended::Nowhere {
        rules.push((Reason::Suspension, "an update run sends it, or a strategy".to_owned()));
    }
    rules
}

/// Override rules as operations of JSON patches; `None` if they cannot be that.
fn fit_rules(rules: &[OwnOverrideRule], body: &Value) -> Option<Vec<OwnOverrideRule>> {
    let mut fitted = Vec::new();
    let mut written = 0;
    for rule in rules {
        let operations = lower_changes(&rule.changes, body)?;
        if !rule.clusters.fields.is_empty() || !operations.iter().all(can_override) {
            return None;
        }
        written += operations.len().div_ceil(MAX_OVERRIDE_ITEMS);
        let changes: Vec<ManifestChange> = operations.into_iter().map(ManifestChange::Operation).collect();
        if !changes.is_empty() {
            fitted.push(OwnOverrideRule { clusters: rule.clusters.clone(), changes });
        }
    }
    (written <= MAX_OVERRIDE_ITEMS).then_some(fitted)
}

fn is_eligible(cluster: &Cluster) -> bool {
    cluster.ready && cluster.joined && !cluster.deleting
}

/// Whether taints keep objects out of a cluster that do not tolerate them.
fn is_tainted(name: &str, present: &PresentState<'_>) -> bool {
    present.find_cluster(name).is_some_and(|cluster| {
        cluster.taints.iter().any(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
    })
}

/// A rule as a selector of labels.
fn select_by_labels(rule: ClusterRule) -> LabelSelector {
    let ClusterRule { names, excluded, mut labels, .. } = rule;
    let by_name = |operator: &str, names: BTreeSet<String>| SelectorRequirement {
        key: MEMBER_NAME_LABEL.to_owned(),
        operator: operator.to_owned(),
        values: names.into_iter().collect(),
    };
    labels.match_expressions.extend(names.map(|names| by_name("In", names)));
    if !excluded.is_empty() {
        labels.match_expressions.push(by_name("NotIn", excluded));
    }
    labels
}

/// Writes all policies.
pub(super) fn write_policies(intent: &RepoIntent, mut names: PolicyNames) -> Vec<PolicyDraft> {
    let placements = intent.placements.iter().filter(|placement| !placement.clusters.is_nowhere());
    let mut drafts = Vec::new();
    let mut placed_by: BTreeMap<&ObjectRef, String> = BTreeMap::new();
    for placement in placements {
        for selected in divide_objects(placement) {
            let draft = write_placement(placement, &selected, &mut names);
            placed_by.extend(selected.objects().map(|object| (object, draft.name.clone())));
            drafts.push(draft.policy);
        }
    }
    let scope = |object: &ObjectRef| {
        let placement = placed_by.get(object).filter(|_| is_namespace(object));
        format!("{:?} {placement:?}", object.namespace)
    };
    let all = share_overrides(&intent.overrides, scope);
    for shared in all {
        let objects: Vec<&ObjectRef> = shared.objects.iter().collect();
        let namespace = objects.first().filter(|first| is_namespace(first));
        let placement = namespace.and_then(|namespace| placed_by.get(*namespace));
        if namespace.is_some() && placement.is_none() {
            // Without a placement, it would apply to everything in the namespace that others send.
            continue;
        }
        for objects in objects.chunks(MAX_OVERRIDE_ITEMS) {
            drafts.push(write_override(&shared, objects, placement, &mut names));
        }
    }
    drafts
}

/// The overrides that have more rules than one may have. Two of one object are refused, so that they cannot be divided.
pub(super) fn find_problems(drafts: &[PolicyDraft]) -> Vec<MigrationProblem> {
    let overrides = drafts.iter().filter(|draft| draft.role == PolicyRole::Override);
    let problems = overrides.filter_map(|draft| {
        let rules = draft.value.pointer("/spec/policy/overrideRules")?.as_array()?.len();
        let object = draft.objects.first().filter(|_| rules > MAX_OVERRIDE_ITEMS)?;
        Some(MigrationProblem {
            object: Some(object.clone()),
            origin: None,
            message: format!(
                "{object} needs {rules} override rules, and KubeFleet allows {MAX_OVERRIDE_ITEMS}"
            ),
            help: "give more of its clusters the same replicas and values, so that they share a rule"
                .to_owned(),
        })
    });
    problems.collect()
}

fn is_namespace(object: &ObjectRef) -> bool {
    object.kind == "Namespace" && object.api_version == "v1"
}

/// Selects objects by name: a Namespace without what is in it.
fn write_selectors(objects: &[&ObjectRef], is_placement: bool) -> Value {
    let selector = |object: &&ObjectRef| {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let mut selector =
            json!({"group": group, "version": version, "kind": object.kind, "name": object.name});
        if is_placement && is_namespace(object) {
            selector["selectionScope"] = json!("NamespaceOnly");
        }
        selector
    };
    objects.iter().map(selector).collect()
}

/// What one of the placements of some objects selects.
struct SelectedObjects<'i> {
    kept: Option<&'i KeptSelectors>,
    named: Vec<&'i ObjectRef>,
}

impl<'i> SelectedObjects<'i> {
    fn objects(&self) -> impl Iterator<Item = &'i ObjectRef> {
        let kept = self.kept.into_iter().flat_map(|kept| &kept.objects);
        kept.chain(self.named.iter().copied())
    }

    fn write_selectors(&self) -> Value {
        let kept = self.kept.into_iter().flat_map(|kept| &kept.selectors).map(write_selector);
        let Value::Array(named) = write_selectors(&self.named, true) else { return Value::Null };
        kept.chain(named).collect()
    }
}

/// A selector without a name.
fn write_selector(selector: &KindSelector) -> Value {
    let api_version = selector.api_version.as_str();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut written = json!({"group": group, "version": version, "kind": selector.kind});
    match serde_json::to_value(&selector.labels).unwrap_or_default() {
        Value::Object(map) if map.is_empty() => {}
        labels => written["labelSelector"] = labels,
    }
    if selector.kind == "Namespace" && api_version == "v1" {
        written["selectionScope"] = json!("NamespaceOnly");
    }
    written
}

/// The objects of a placement, divided over as many placements as their selectors need.
fn divide_objects(placement: &PlacementIntent) -> Vec<SelectedObjects<'_>> {
    let KeptSelectors { selectors, objects } = &placement.kept;
    let named: Vec<&ObjectRef> = placement.objects.iter().filter(|one| !objects.contains(*one)).collect();
    let first = MAX_PLACEMENT_ITEMS.saturating_sub(selectors.len()).min(named.len());
    let (first, rest) = named.split_at(first);
    let kept = Some(&placement.kept).filter(|kept| !kept.selectors.is_empty());
    let mut divided = Vec::new();
    if kept.is_some() || !first.is_empty() {
        divided.push(SelectedObjects { kept, named: first.to_vec() });
    }
    divided.extend(
        rest.chunks(MAX_PLACEMENT_ITEMS).map(|named| SelectedObjects { kept: None, named: named.to_vec() }),
    );
    divided
}

/// A placement with its name.
struct NamedPlacement {
    name: String,
    policy: PolicyDraft,
}

fn write_placement(
    intent: &PlacementIntent,
    selected: &SelectedObjects<'_>,
    names: &mut PolicyNames,
) -> NamedPlacement {
    let namespace = selected.objects().next().and_then(|object| object.namespace.clone());
    let identity = names.name_policy(PLACEMENT, &shorten_name(&intent.name), namespace);
    let name = identity.name.clone();
    let value = identity.build_policy(build_mapping([
        ("resourceSelectors", selected.write_selectors()),
        ("policy", write_policy(intent)),
        ("strategy", write_strategy(intent)),
    ]));
    let objects = selected.objects().cloned().collect();
    let policy =
        PolicyDraft { value, objects, role: PolicyRole::Placement, file: intent.file(), label: None };
    NamedPlacement { name, policy }
}

fn write_policy(intent: &PlacementIntent) -> Value {
    if let (Some(names), None) = (intent.clusters.plain_names(), intent.max_clusters) {
        return json!({"placementType": "PickFixed", "clusterNames": names});
    }
    let selector = select_by_labels(intent.clusters.clone());
    let selector = serde_json::to_value(selector).unwrap_or_default();
    let affinity = match selector {
        Value::Object(map) if map.is_empty() => Value::Null,
        selector => json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": selector}],
        }}}),
    };
    let kind = if intent.max_clusters.is_some() { "PickN" } else { "PickAll" };
    build_mapping([
        ("placementType", json!(kind)),
        ("numberOfClusters", json!(intent.max_clusters)),
        ("affinity", affinity),
        ("tolerations", write_tolerations(&intent.taints)),
    ])
}

/// Tolerations, each once. Taints have one effect.
fn write_tolerations(taints: &TaintRule) -> Value {
    let TaintRule::Respected(tolerations) = taints else { return json!([{"operator": "Exists"}]) };
    let mut known = BTreeSet::new();
    let mut written = Vec::new();
    for toleration in tolerations {
        let text = |key: &str| toleration.get(key).and_then(Value::as_str).unwrap_or_default();
        let exists = text("operator") == "Exists";
        if text("key").is_empty() && !exists || text("effect") == "PreferNoSchedule" {
            continue;
        }
        let value = if exists { "" } else { text("value") };
        let operator = if exists { "Exists" } else { "Equal" };
        if known.insert((text("key"), operator, value)) {
            written.push(build_mapping([
                ("key", json!(text("key"))),
                ("operator", json!(operator)),
                ("value", json!(value)),
            ]));
        }
    }
    written.into()
}

fn write_strategy(intent: &PlacementIntent) -> Value {
    let waits = intent.suspension == Suspended::Everywhere;
    let take_over = match intent.adoption {
        Adoption::Overwrite => Value::Null,
        Adoption::Abort => json!({"whenToTakeOver": "Never"}),
    };
    let deletion = if intent.is_preserved { json!({"propagationPolicy": "Abandon"}) } else { Value::Null };
    build_mapping([
        ("type", json!(if waits { "External" } else { "" })),
        ("applyStrategy", take_over),
        ("deleteStrategy", deletion),
    ])
}

fn write_override(
    shared: &SharedOverrides<'_>,
    objects: &[&ObjectRef],
    placement: Option<&String>,
    names: &mut PolicyNames,
) -> PolicyDraft {
    let first = objects.first();
    let name = first.map_or("", |object| object.name.as_str());
    let namespace = first.and_then(|object| object.namespace.clone());
    let selectors = if namespace.is_some() { "resourceSelectors" } else { "clusterResourceSelectors" };
    let identity = names.name_policy(OVERRIDE, name, namespace);
    let own = shared.own.iter().flat_map(write_own_rules);
    let rules: Vec<Value> = own.chain(name_by_variable(shared.rules).iter().flat_map(write_rules)).collect();
    let value = identity.build_policy(build_mapping([
        ("placement", placement.map_or(Value::Null, |name| json!({"name": name}))),
        (selectors, write_selectors(objects, false)),
        ("policy", json!({"overrideRules": rules})),
    ]));
    let objects = objects.iter().map(|object| (*object).clone()).collect();
    PolicyDraft { value, objects, role: PolicyRole::Override, file: None, label: None }
}

/// The rules, of which those that differ only in the name of their cluster are one.
fn name_by_variable(rules: &[OverrideRuleIntent]) -> Vec<OverrideRuleIntent> {
    let general: Vec<Option<OverrideRuleIntent>> = rules.iter().map(generalize_rule).collect();
    let mut shared: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
    for rule in general.iter().flatten() {
        shared.entry(format!("{:?}", rule.operations)).or_default().extend(rule.clusters.iter().cloned());
    }
    let mut named = Vec::new();
    for (rule, general) in rules.iter().zip(general) {
        let key = general.as_ref().map(|general| format!("{:?}", general.operations)).unwrap_or_default();
        match (general, shared.get_mut(&key)) {
            // The first of them stands for all.
            (Some(general), Some(clusters)) if clusters.len() != 1 => {
                let clusters = std::mem::take(clusters);
                if !clusters.is_empty() {
                    named.push(OverrideRuleIntent { clusters, ..general });
                }
            }
            _ => named.push(rule.clone()),
        }
    }
    named
}

/// A rule of one cluster with a variable for the name of the cluster; `None` if its values do not have the name.
fn generalize_rule(rule: &OverrideRuleIntent) -> Option<OverrideRuleIntent> {
    let name: &str = rule.clusters.first().filter(|_| rule.clusters.len() == 1)?;
    let mut general = rule.clone();
    for operation in &mut general.operations {
        if let PatchAction::Add(value) | PatchAction::Replace(value) = &mut operation.action {
            replace_texts(value, name);
        }
    }
    (general.operations != rule.operations).then_some(general)
}

/// Puts the variable for the name of the cluster into the texts of a value.
fn replace_texts(value: &mut Value, name: &str) {
    match value {
        Value::String(text) if text.contains(name) => *text = text.replace(name, MEMBER_NAME_VARIABLE),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(item, name)),
        Value::Object(map) => map.values_mut().for_each(|item| replace_texts(item, name)),
        _ => {}
    }
}

/// A rule of an override policy.
fn write_own_rules(rule: &OwnOverrideRule) -> Vec<Value> {
    let operations: Vec<&ManifestOperation> = rule.changes.iter().filter_map(find_operation).collect();
    if rule.clusters.is_everywhere() {
        return write_patches(&json!({"clusterSelectorTerms": []}), &operations);
    }
    let labels = serde_json::to_value(select_by_labels(rule.clusters.clone())).unwrap_or_default();
    write_patches(&json!({"clusterSelectorTerms": [{"labelSelector": labels}]}), &operations)
}

fn find_operation(change: &ManifestChange) -> Option<&ManifestOperation> {
    match change {
        ManifestChange::Operation(operation) => Some(operation),
        _ => None,
    }
}

/// The rules of some clusters.
fn write_rules(rule: &OverrideRuleIntent) -> Vec<Value> {
    let selector = json!({"clusterSelectorTerms": [{"labelSelector": select_names(&rule.clusters)}]});
    write_patches(&selector, &rule.operations.iter().collect::<Vec<_>>())
}

/// Rules with these operations. Rules apply one after another.
fn write_patches(selector: &Value, operations: &[&ManifestOperation]) -> Vec<Value> {
    let parts = operations.chunks(MAX_OVERRIDE_ITEMS).map(|operations| {
        let patches: Vec<Value> = operations.iter().map(|one| write_operation(one)).collect();
        json!({"clusterSelector": selector, "jsonPatchOverrides": patches})
    });
    parts.collect()
}

fn select_names(clusters: &BTreeSet<ClusterName>) -> Value {
    let names = clusters.iter().map(ToString::to_string).collect();
    let rule = ClusterRule { names: Some(names), ..ClusterRule::default() };
    serde_json::to_value(select_by_labels(rule)).unwrap_or_default()
}

/// Whether an override can make this change: not of what names the object, and not to a text that reads as a variable.
pub(super) fn can_override(operation: &ManifestOperation) -> bool {
    let Some(below) = operation.pointer.strip_prefix('/') else { return false };
    let steps: Vec<&str> = below.split('/').collect();
    let is_variable = |value: &Value| value.to_string().contains("${MEMBER-CLUSTER-");
    !steps.iter().any(|step| step.trim().is_empty())
        && !operation.action.value().is_some_and(is_variable)
        && match steps.as_slice() {
            ["kind" | "apiVersion" | "status", ..] => false,
            ["metadata", below @ ..] => matches!(below, ["labels" | "annotations", ..]),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_differ_in_the_name_of_their_cluster_are_one() {
        let rule = |cluster: &str, value: Value| OverrideRuleIntent {
            clusters: BTreeSet::from([cluster.into()]),
            operations: vec![ManifestOperation {
                action: PatchAction::Add(value),
                pointer: "/data/at".to_owned(),
            }],
        };
        let rules = [
            rule("eu-1", json!({"host": "eu-1.example.com"})),
            rule("us-1", json!({"host": "us-1.example.com"})),
            rule("ap-1", json!("ap-1 alone")),
            rule("sa-1", json!("nothing")),
        ];
        let named = name_by_variable(&rules);
        assert_eq!(named.len(), 3);
        assert_eq!(named[0].clusters.len(), 2);
        assert_eq!(
            named[0].operations[0].action,
            PatchAction::Add(json!({"host": "${MEMBER-CLUSTER-NAME}.example.com"}))
        );
        assert_eq!(named[1..], rules[2..]);
    }
}
