//! Writes intents as policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_kubernetes::{ObjectRef, Origin, work};
use serde_json::{Value, json};

use crate::intent::{
    EntriesAction, ManifestChange, ManifestOperation, OverrideIntent, OverrideRuleIntent, OwnOverrideRule,
    PlacementIntent, RepoIntent, TemplateIntent, unequal_rule,
};
use crate::present::PresentState;
use crate::rendering::build_mapping;
use crate::{MigrationProblem, Reason, Target};

pub(crate) mod karmada;
pub(crate) mod kubeadmiral;
pub(crate) mod kubefleet;
pub(crate) mod plain;

/// Writes all policies of a control plane. `taken` are the names of policies that exist.
pub(crate) fn write_policies(
    target: Target,
    intent: &RepoIntent,
    taken: &BTreeSet<ObjectRef>,
) -> Vec<PolicyDraft> {
    let names = PolicyNames { taken: taken.clone(), numbers: BTreeMap::new() };
    match target {
        Target::Karmada => karmada::write_policies(intent, names),
        Target::KubeFleet => kubefleet::write_policies(intent, names),
        Target::KubeAdmiral => kubeadmiral::write_policies(intent, names),
        Target::Plain => Vec::new(),
    }
}

/// The policies that a control plane would refuse.
pub(crate) fn find_problems(target: Target, drafts: &[PolicyDraft]) -> Vec<MigrationProblem> {
    match target {
        Target::KubeFleet => kubefleet::find_problems(drafts),
        Target::Karmada | Target::KubeAdmiral | Target::Plain => Vec::new(),
    }
}

/// Replaces the rules that a control plane does not have by what they lead to now, and notes why.
pub(crate) fn fit_intent(target: Target, intent: &mut RepoIntent, present: &PresentState<'_>) {
    match target {
        Target::Karmada => karmada::fit_intent(intent),
        Target::KubeFleet => kubefleet::fit_intent(intent, present),
        Target::KubeAdmiral => kubeadmiral::fit_intent(intent, present),
        Target::Plain => {}
    }
    note_new_containers(intent);
}

/// Notes where the images of all containers are changed: one control plane counts init containers among them, and another one does
/// not. Of today's objects, none has any.
fn note_new_containers(intent: &mut RepoIntent) {
    let templates: BTreeMap<&ObjectRef, &ObjectRef> =
        intent.templates.iter().map(|template| (&template.id, &template.old)).collect();
    let changes_all = |rule: &OwnOverrideRule| {
        rule.changes
            .iter()
            .any(|change| matches!(change, ManifestChange::Image(image) if image.pointers.is_empty()))
    };
    let noted = intent.overrides.iter().filter(|one| one.own.iter().any(changes_all));
    let noted =
        noted.filter_map(|one| Some(((*templates.get(&one.object)?).clone(), one.origins.first().cloned())));
    for (object, origin) in noted.collect::<Vec<_>>() {
        let detail = "the images of init containers that are added later are changed on one side only";
        intent.add_unequal(&object, unequal_rule(Reason::NewContainers, detail, origin.as_ref(), ""));
    }
}

/// Keeps the selectors of policies that select the same objects by the new control plane.
pub(crate) fn keep_selectors(target: Target, intent: &mut RepoIntent, present: &PresentState<'_>) {
    match target {
        Target::KubeFleet => kubefleet::keep_selectors(intent, present),
        // Policies name objects, or are named by them.
        Target::Karmada | Target::KubeAdmiral | Target::Plain => {}
    }
}

/// Notes why a placement is written otherwise, for each of its objects.
fn add_fitted_rules(
    intent: &mut RepoIntent,
    present: &PresentState<'_>,
    placement: &PlacementIntent,
    rules: FittedRules,
) {
    for (reason, detail) in rules {
        for object in &placement.objects {
            let rule = unequal_rule(reason, detail.clone(), placement.origin.as_ref(), "");
            intent.add_unequal(present.old_name(object), rule);
        }
    }
}

/// Writes rules of override policies as a control plane has them, by the body of their object. Those that it does not have are
/// written by what they lead to now.
fn fit_overrides(
    intent: &mut RepoIntent,
    present: &PresentState<'_>,
    fit_rules: fn(&[OwnOverrideRule], &Value) -> Option<Vec<OwnOverrideRule>>,
) {
    if !intent.has_own_rules() {
        return;
    }
    let templates: BTreeMap<&ObjectRef, &TemplateIntent> =
        intent.templates.iter().map(|template| (&template.id, template)).collect();
    let mut without_equal: BTreeSet<ObjectRef> = BTreeSet::new();
    let mut fixed: Vec<(ObjectRef, Option<Origin>)> = Vec::new();
    for one in intent.overrides.iter_mut().filter(|one| !one.own.is_empty()) {
        let template = templates.get(&one.object);
        let body = template.and_then(|template| {
            let mut body = present.find_body(&template.old)?.clone();
            apply_edits(&template.edits, &mut body);
            Some(body)
        });
        match body.and_then(|body| fit_rules(&one.own, &body)) {
            Some(rules) => {
                if let Some(template) = template.filter(|_| is_fixed(&one.own, &rules)) {
                    fixed.push((template.old.clone(), one.origins.first().cloned()));
                }
                one.own = rules;
            }
            None => drop(without_equal.insert(one.object.clone())),
        }
    }
    for (object, origin) in fixed {
        let detail = "what overriders make of the object of today is written: later images, words and labels are not theirs";
        intent.add_unequal(&object, unequal_rule(Reason::Overrides, detail, origin.as_ref(), ""));
    }
    intent.drop_own_rules(|object| without_equal.contains(object));
}

/// Whether a change that depends on the object is written as what it leads to now. Entries that are added replace others if there
/// are any, which no other control plane does.
fn is_fixed(read: &[OwnOverrideRule], written: &[OwnOverrideRule]) -> bool {
    let written: Vec<&ManifestChange> = written.iter().flat_map(|rule| &rule.changes).collect();
    read.iter().flat_map(|rule| &rule.changes).any(|change| match change {
        ManifestChange::Operation(_) => false,
        ManifestChange::Labels(entries) | ManifestChange::Annotations(entries)
            if entries.action == EntriesAction::Add =>
        {
            true
        }
        change => !written.contains(&change),
    })
}

/// Why a placement is written otherwise: reasons, with what is unequal.
type FittedRules = Vec<(Reason, String)>;

/// The objects of an intent that name their policies, and must be edited for that.
pub(crate) fn find_edited(target: Target, intent: &RepoIntent) -> BTreeSet<&ObjectRef> {
    match target {
        Target::KubeAdmiral => kubeadmiral::find_edited(intent),
        Target::Karmada | Target::KubeFleet | Target::Plain => BTreeSet::new(),
    }
}

/// Whether overrides of a control plane add no mapping that is not there.
pub(crate) fn has_strict_patches(target: Target) -> bool {
    matches!(target, Target::KubeFleet | Target::KubeAdmiral)
}

/// Whether an override of a control plane can make this change.
pub(crate) fn can_override(target: Target, operation: &ManifestOperation) -> bool {
    match target {
        Target::KubeFleet => kubefleet::can_override(operation),
        Target::KubeAdmiral => kubeadmiral::can_override(operation),
        Target::Karmada | Target::Plain => true,
    }
}

/// A policy of the new side.
#[derive(Clone, Debug)]
pub(crate) struct PolicyDraft {
    /// The object.
    pub value: Value,
    /// The objects that it is about.
    pub objects: BTreeSet<ObjectRef>,
    /// What it does.
    pub role: PolicyRole,
    /// The file in which it should stand.
    pub file: Option<Arc<str>>,
    /// The label by which its objects name it, if they do.
    pub label: Option<ImportEdit>,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyRole {
    /// It chooses clusters.
    Placement,
    /// It changes manifests.
    Override,
}

impl PolicyRole {
    /// The folder in which repos have such policies.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Placement => "policies",
            Self::Override => "overrides",
        }
    }

    /// The end of the name of a file with one.
    pub(crate) fn suffix(self, target: Target) -> &'static str {
        match (self, target) {
            (Self::Override, _) => "override",
            (Self::Placement, Target::KubeFleet) => "placement",
            (Self::Placement, _) => "propagation",
        }
    }
}

/// A name for an object of the API server, out of any text.
pub(crate) fn to_object_name(text: &str) -> String {
    let is_allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let lower = text.to_ascii_lowercase();
    let name: String = lower.chars().map(|c| if is_allowed(&c) { c } else { '-' }).take(200).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// The names of policies.
pub(crate) struct PolicyNames {
    taken: BTreeSet<ObjectRef>,
    /// The number behind the next policy that should have a name which is taken.
    numbers: BTreeMap<ObjectRef, usize>,
}

/// The length of the longest label value, and so of the name of a policy that labels name, or that a webhook limits to it.
const MAX_NAME_LENGTH: usize = 63;

/// A name that a label can have, also with a number.
fn shorten_name(name: &str) -> String {
    let short: String = name.chars().take(MAX_NAME_LENGTH - 4).collect();
    short.trim_matches(['-', '.']).to_owned()
}

impl PolicyNames {
    /// The metadata of a policy in a namespace, or without one.
    fn name_policy(&mut self, kind: PolicyKind, wanted: &str, namespace: Option<String>) -> PolicyIdentity {
        let PolicyKind { api_version, namespaced, cluster_wide } = kind;
        let kind = if namespace.is_some() { namespaced } else { cluster_wide };
        let wanted = to_object_name(wanted);
        let mut id = ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace,
            name: wanted.clone(),
        };
        let first = id.clone();
        while !self.taken.insert(id.clone()) {
            let number = self.numbers.entry(first.clone()).or_insert(1);
            *number += 1;
            id.name = format!("{wanted}-{number}");
        }
        let namespace = json!(id.namespace);
        let metadata = build_mapping([("name", json!(id.name)), ("namespace", namespace)]);
        PolicyIdentity { api_version, kind, name: id.name, metadata }
    }
}

/// A kind of policies, of a namespace and without one.
#[derive(Clone, Copy)]
struct PolicyKind {
    api_version: &'static str,
    namespaced: &'static str,
    cluster_wide: &'static str,
}

/// Who a policy is.
struct PolicyIdentity {
    api_version: &'static str,
    kind: &'static str,
    name: String,
    metadata: Value,
}

impl PolicyIdentity {
    /// The policy with this specification.
    fn build_policy(self, spec: Value) -> Value {
        let mut policy =
            json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": self.metadata});
        policy["spec"] = spec;
        policy
    }
}

/// The steps of writing an override rule, or an operation of one, as a policy, and of what both sides make of it.
const STEPS_PER_OPERATION: u64 = 100;

/// Override rules of several objects.
struct SharedOverrides<'i> {
    objects: BTreeSet<ObjectRef>,
    own: &'i [OwnOverrideRule],
    rules: &'i [OverrideRuleIntent],
}

/// Objects with equal rules. Objects share them if their `scope` is the same.
fn share_overrides<'i>(
    overrides: &'i [OverrideIntent],
    scope: impl Fn(&ObjectRef) -> String,
) -> Vec<SharedOverrides<'i>> {
    let mut shared: Vec<SharedOverrides<'i>> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for intent in overrides.iter().filter(|intent| !intent.rules.is_empty() || !intent.own.is_empty()) {
        let operations: usize = intent.rules.iter().map(|rule| 1 + rule.operations.len()).sum();
        work::charge_steps(STEPS_PER_OPERATION * (operations + intent.own.len()) as u64);
        if work::is_exceeded() {
            break;
        }
        let key = format!("{} {:?} {:?}", scope(&intent.object), intent.own, intent.rules);
        let at = *known.entry(key).or_insert_with(|| {
            let OverrideIntent { own, rules, .. } = intent;
            shared.push(SharedOverrides { objects: BTreeSet::new(), own, rules });
            shared.len() - 1
        });
        if let Some(found) = shared.get_mut(at) {
            found.objects.insert(intent.object.clone());
        }
    }
    shared
}

/// An operation of a JSON patch.
fn write_operation(operation: &ManifestOperation) -> Value {
    let mut patch = json!({"op": operation.action.name(), "path": operation.pointer});
    if let Some(value) = operation.action.value() {
        patch["value"] = value.clone();
    }
    patch
}
