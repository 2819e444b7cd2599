//! Reads the overrides of `KubeFleet`.
//!
//! Facts: cluster-wide overrides come first, each sort in the order of names. One of a Namespace is about everything in it.
//! Terms of clusters are alternatives. What is not read here is found by comparing manifests: rules with several terms, with
//! values that depend on the cluster.

use std::collections::BTreeMap;

use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Role;
use federate_session::Session;
use serde::Deserialize;
use serde_json::Value;

use super::super::overriders::ReadPatch;
use super::NAME;
use crate::intent::{ClusterRule, ManifestChange, OverrideIntent, OwnOverrideRule, ReadOverrides};
use crate::placed::PlacedObject;

/// The overrides of a repo, by what they select.
pub(super) struct SelectedOverrides<'s>(BTreeMap<SelectedObject, Vec<&'s Object>>);

/// What an override selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SelectedObject {
    namespace: Option<String>,
    api_version: String,
    kind: String,
    name: String,
}

/// A rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PatchRule {
    cluster_selector: Option<ClusterSelector>,
    override_type: String,
    json_patch_overrides: Option<Vec<ReadPatch>>,
}

/// The clusters of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterSelector {
    cluster_selector_terms: Option<Vec<ClusterTerm>>,
}

/// A term of a selector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterTerm {
    label_selector: Option<LabelSelector>,
}

impl<'s> SelectedOverrides<'s> {
    pub(super) fn new(session: &'s Session) -> Self {
        let claimed = session.repo().claimed.iter();
        let own = claimed.filter(|one| one.dialect == NAME && one.role == Role::Override);
        let mut selected: BTreeMap<SelectedObject, Vec<&Object>> = BTreeMap::new();
        for object in own.map(|one| &one.object) {
            for key in ["clusterResourceSelectors", "resourceSelectors"] {
                let selectors = object.value_at(&["spec", key]).and_then(Value::as_array);
                for selector in selectors.into_iter().flatten() {
                    let text = |key: &str| selector.get(key).and_then(Value::as_str).unwrap_or_default();
                    let (group, version) = (text("group"), text("version"));
                    let target = SelectedObject {
                        namespace: object.id.namespace.clone(),
                        api_version: if group.is_empty() {
                            version.to_owned()
                        } else {
                            format!("{group}/{version}")
                        },
                        kind: text("kind").to_owned(),
                        name: text("name").to_owned(),
                    };
                    selected.entry(target).or_default().push(object);
                }
            }
        }
        Self(selected)
    }

    /// The rules about an object that one placement places.
    pub(super) fn read_rules(&self, object: &ObjectRef, placed: &PlacedObject<'_>) -> ReadOverrides<'s> {
        let [row] = placed.rows.as_slice() else { return ReadOverrides::default() };
        let Some(policy) = row.policy.as_ref() else { return ReadOverrides::default() };
        let named = |api_version: &str, kind: &str, name: &str, namespace: Option<&String>| SelectedObject {
            namespace: namespace.cloned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let own = named(&object.api_version, &object.kind, &object.name, object.namespace.as_ref());
        let around = object.namespace.as_ref().map(|namespace| named("v1", "Namespace", namespace, None));
        let found = around.iter().chain([&own]).filter_map(|target| self.0.get(target));
        let (mut own, mut unread, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        let mut origins = Vec::new();
        for one in found.flatten().filter(|one| is_about(one, policy)) {
            origins.push(one.origin.clone());
            let rules = one.value_at(&["spec", "policy", "overrideRules"]);
            let rules = rules.and_then(|rules| Vec::<PatchRule>::deserialize(rules).ok());
            let (deletions, rules): (Vec<_>, Vec<_>) =
                rules.unwrap_or_default().into_iter().partition(|rule| rule.override_type == "Delete");
            deleted.extend(deletions.into_iter().flat_map(read_alternatives));
            let read: Vec<Option<OwnOverrideRule>> = rules.into_iter().map(read_rule).collect();
            unread.extend(read.iter().any(Option::is_none).then_some(*one));
            own.extend(read.into_iter().flatten());
        }
        let (object, has_rules) = (object.clone(), !own.is_empty());
        let intent = has_rules.then_some(OverrideIntent { object, own, rules: Vec::new(), origins });
        ReadOverrides { intent, unread, deleted, ..ReadOverrides::default() }
    }
}

/// Whether an override applies to what a placement places.
fn is_about(one: &Object, policy: &ObjectRef) -> bool {
    let Some(placement) = one.value_at(&["spec", "placement"]).filter(|value| !value.is_null()) else {
        return true;
    };
    let text = |key: &str| placement.get(key).and_then(Value::as_str).unwrap_or_default();
    let namespace = if text("scope") == "Namespaced" { one.id.namespace.as_deref() } else { None };
    text("name") == policy.name && namespace == policy.namespace.as_deref()
}

/// The clusters of a rule, as alternatives.
fn read_alternatives(rule: PatchRule) -> Vec<ClusterRule> {
    let Some(selector) = rule.cluster_selector else { return Vec::new() };
    let terms = selector.cluster_selector_terms.unwrap_or_default();
    if terms.is_empty() {
        return vec![ClusterRule::every_cluster()];
    }
    terms.into_iter().map(|term| ClusterRule::from_labels(term.label_selector.unwrap_or_default())).collect()
}

/// Reads a rule; `None` if a part of it is not read.
fn read_rule(rule: PatchRule) -> Option<OwnOverrideRule> {
    if !matches!(rule.override_type.as_str(), "" | "JSONPatch") {
        return None;
    }
    let clusters = match rule.cluster_selector?.cluster_selector_terms.unwrap_or_default().as_slice() {
        [] => ClusterRule::every_cluster(),
        [ClusterTerm { label_selector: Some(labels) }] => ClusterRule::from_labels(labels.clone()),
        _ => return None,
    };
    let patches = rule.json_patch_overrides.unwrap_or_default();
    let depends = |one: &ReadPatch| one.value.as_ref().is_some_and(|value| value.to_string().contains("${"));
    if patches.iter().any(depends) {
        return None;
    }
    let operations = patches.iter().map(ReadPatch::read_operation);
    let changes = operations.map(|one| one.map(ManifestChange::Operation)).collect::<Option<Vec<_>>>()?;
    (!changes.is_empty()).then_some(OwnOverrideRule { clusters, changes })
}
