//! Reads the override policies of Karmada.
//!
//! Facts: cluster-wide policies come first, then those of the object's namespace, which are matched against the object as the
//! first have changed it; in each group those come later that select more specifically, by kind, by labels or by name, and then
//! those with the later name. The parts of a rule apply in the order image, command, args, labels, annotations, fields,
//! plaintext. What is not read here is found by comparing manifests: rules that depend on each other, and changes of texts
//! within fields.

use std::collections::BTreeMap;

use federate_kubernetes::pods::containers_pointer;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Labels, Object};
use federate_repo::{Role, Template};
use federate_session::Session;
use serde::Deserialize;
use serde_json::Value;

use super::super::overriders::{EntriesOverrider, ReadOverrideRule, ReadPatch, WordsOverrider};
use super::affinity::{NAME, ReadAffinity};
use crate::changes::{are_independent, container_fields, lower_changes};
use crate::intent::{
    ImageChange, ImageComponent, ManifestChange, OverrideIntent, OwnOverrideRule, ReadOverrides,
};

/// The most rules about an object that are read.
const MAX_RULES: usize = 100;

/// What the override policies of a repo select, by the namespace of policies and the kind of objects; without a kind, all.
pub(super) struct OverrideSelectors<'s>(BTreeMap<(Option<&'s str>, Option<ObjectKind>), KindSelectors<'s>>);

/// API version and kind.
type ObjectKind = (String, String);

/// The selectors of objects of one kind.
#[derive(Default)]
struct KindSelectors<'s> {
    /// Those that name an object, by its namespace, which is empty for any, and its name.
    by_name: BTreeMap<(String, String), Vec<&'s Object>>,
    others: Vec<(ObjectSelector, &'s Object)>,
    /// Whether any of them selects by labels.
    reads_labels: bool,
}

/// One of the objects of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectSelector {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    label_selector: Option<LabelSelector>,
}

/// How specifically a policy selects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    Kind,
    Labels,
    Name,
}

/// A policy that selects an object.
#[derive(Clone, Copy, Debug)]
struct SelectingPolicy<'s> {
    policy: &'s Object,
    specificity: Specificity,
    /// Whether it may select other objects, too: by kind, by labels, or by a name in all namespaces.
    selects_others: bool,
}

/// The rules of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicySpec {
    override_rules: Option<Vec<ClusterRuleOverrides>>,
    target_cluster: Option<ReadAffinity>,
    overriders: Option<Overriders>,
}

/// A rule of a policy.
type ClusterRuleOverrides = ReadOverrideRule<ReadAffinity, Overriders>;

/// The changes of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Overriders {
    image_overrider: Option<Vec<ImageOverrider>>,
    command_overrider: Option<Vec<WordsOverrider>>,
    args_overrider: Option<Vec<WordsOverrider>>,
    labels_overrider: Option<Vec<EntriesOverrider>>,
    annotations_overrider: Option<Vec<EntriesOverrider>>,
    field_overrider: Option<Vec<Value>>,
    plaintext: Option<Vec<ReadPatch>>,
}

/// A change of a part of image references.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ImageOverrider {
    predicate: Option<ImagePredicate>,
    component: String,
    operator: String,
    value: String,
}

/// The place of an image reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ImagePredicate {
    path: String,
}

impl<'s> OverrideSelectors<'s> {
    pub(super) fn new(session: &'s Session) -> Self {
        let claimed = session.repo().claimed.iter();
        let own = claimed.filter(|one| one.dialect == NAME && one.role == Role::Override);
        let mut all: BTreeMap<_, KindSelectors<'s>> = BTreeMap::new();
        for policy in own.map(|one| &one.object) {
            let namespace = policy.id.namespace.as_deref();
            let selectors = policy.value_at(&["spec", "resourceSelectors"]).and_then(Value::as_array);
            let selectors: Vec<ObjectSelector> = selectors
                .into_iter()
                .flatten()
                .filter_map(|selector| ObjectSelector::deserialize(selector).ok())
                .collect();
            if selectors.is_empty() {
                let known = all.entry((namespace, None)).or_default();
                known.others.push((ObjectSelector::default(), policy));
            }
            for selector in selectors {
                let kind = (selector.api_version.clone(), selector.kind.clone());
                let known = all.entry((namespace, Some(kind))).or_default();
                if selector.name.is_empty() {
                    known.reads_labels |= selector.label_selector.is_some();
                    known.others.push((selector, policy));
                } else {
                    // A policy of a namespace is about the objects there.
                    if namespace.is_some_and(|own| !["", own].contains(&selector.namespace.as_str())) {
                        continue;
                    }
                    let named = if namespace.is_none() { selector.namespace } else { String::new() };
                    known.by_name.entry((named, selector.name)).or_default().push(policy);
                }
            }
        }
        Self(all)
    }

    /// The rules about an object.
    pub(super) fn read_rules(&self, own: &Template) -> ReadOverrides<'s> {
        let template = &own.object;
        let wide = self.find_policies(None, template);
        let namespace = template.id.namespace.as_deref();
        let narrow = namespace.map(|own| self.find_policies(Some(own), template)).unwrap_or_default();
        let all: Vec<SelectingPolicy<'s>> = wide.iter().chain(&narrow).copied().collect();
        let policies: Vec<&Object> = all.iter().map(|one| one.policy).collect();
        let selecting = all.iter().filter(|one| one.selects_others).map(|one| one.policy).collect();
        let is_fixed = own.per_cluster.is_none();
        let reads_labels = namespace.is_some_and(|own| self.reads_labels(own, template));
        match read_all_rules(&policies, &template.body).filter(|_| is_fixed) {
            Some(rules) if wide.is_empty() || !reads_labels || !changes_labels(&rules) => {
                let object = template.id.clone();
                let origins = policies.iter().map(|policy| policy.origin.clone()).collect();
                let intent = OverrideIntent { object, own: rules, rules: Vec::new(), origins };
                let intent = Some(intent).filter(|intent| !intent.own.is_empty());
                ReadOverrides { intent, unread: Vec::new(), selecting, deleted: Vec::new() }
            }
            _ => ReadOverrides { intent: None, unread: policies, selecting, deleted: Vec::new() },
        }
    }

    /// Whether a policy of a namespace selects objects of the kind of an object by their labels.
    fn reads_labels(&self, namespace: &str, object: &Object) -> bool {
        let kind = (object.id.api_version.clone(), object.id.kind.clone());
        self.0.get(&(Some(namespace), Some(kind))).is_some_and(|known| known.reads_labels)
    }

    /// The policies of a namespace, or those without one, that select an object, in the order in which they apply.
    fn find_policies(&self, namespace: Option<&str>, object: &Object) -> Vec<SelectingPolicy<'s>> {
        let kind = Some((object.id.api_version.clone(), object.id.kind.clone()));
        let mut found: Vec<SelectingPolicy<'s>> = Vec::new();
        for known in [(namespace, None), (namespace, kind)].iter().filter_map(|key| self.0.get(key)) {
            known.find_policies(object, &mut found);
        }
        // Of several selectors of a policy, the most specific one counts.
        found.sort_by(|a, b| (&a.policy.id.name, b.specificity).cmp(&(&b.policy.id.name, a.specificity)));
        found.dedup_by(|a, b| a.policy.id == b.policy.id);
        found.sort_by_key(|one| one.specificity);
        found
    }
}

impl<'s> KindSelectors<'s> {
    fn find_policies(&self, object: &Object, found: &mut Vec<SelectingPolicy<'s>>) {
        let namespace = object.id.namespace.as_deref().unwrap_or_default();
        let places = if namespace.is_empty() { vec![""] } else { vec!["", namespace] };
        for place in places {
            let named = self.by_name.get(&(place.to_owned(), object.id.name.clone()));
            found.extend(named.into_iter().flatten().map(|policy| SelectingPolicy {
                policy,
                specificity: Specificity::Name,
                selects_others: policy.id.namespace.is_none() && place != namespace,
            }));
        }
        let labels = object.labels();
        let others = self.others.iter().filter(|(selector, _)| selector.selects(namespace, &labels));
        found.extend(others.map(|(selector, policy)| SelectingPolicy {
            policy,
            specificity: match selector.label_selector {
                Some(_) => Specificity::Labels,
                None => Specificity::Kind,
            },
            selects_others: true,
        }));
    }
}

impl ObjectSelector {
    fn selects(&self, namespace: &str, labels: &Labels) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace)
            && self.label_selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }
}

/// Whether rules change the labels of an object, by which policies select it.
fn changes_labels(rules: &[OwnOverrideRule]) -> bool {
    let is_label = |change: &ManifestChange| match change {
        ManifestChange::Labels(_) => true,
        ManifestChange::Operation(operation) => {
            let pointer = operation.pointer.as_str();
            "/metadata/labels".starts_with(pointer) || pointer.starts_with("/metadata/labels/")
        }
        _ => false,
    };
    rules.iter().flat_map(|rule| &rule.changes).any(is_label)
}

/// The rules of policies in their order; `None` if not all of them are read, or depend on each other.
fn read_all_rules(policies: &[&Object], body: &Value) -> Option<Vec<OwnOverrideRule>> {
    let mut rules = Vec::new();
    for policy in policies {
        let spec = PolicySpec::deserialize(policy.value_at(&["spec"])?).ok()?;
        let mut written = spec.override_rules.unwrap_or_default();
        if written.is_empty() {
            written.push(ReadOverrideRule { clusters: spec.target_cluster, overriders: spec.overriders });
        }
        for rule in written {
            let clusters = rule.clusters.unwrap_or_default().into();
            let changes = read_changes(rule.overriders.unwrap_or_default(), body)?;
            lower_changes(&changes, body)?;
            if !changes.is_empty() {
                rules.push(OwnOverrideRule { clusters, changes });
            }
        }
        if rules.len() > MAX_RULES {
            return None;
        }
    }
    are_independent(&rules, body).then_some(rules)
}

/// The changes of a rule in their order; `None` if one of them is not read.
fn read_changes(overriders: Overriders, body: &Value) -> Option<Vec<ManifestChange>> {
    if overriders.field_overrider.is_some_and(|fields| !fields.is_empty()) {
        return None;
    }
    let mut changes = Vec::new();
    for image in overriders.image_overrider.unwrap_or_default() {
        changes.push(ManifestChange::Image(read_image(image, body)?));
    }
    let command = overriders.command_overrider.unwrap_or_default().into_iter();
    changes.extend(command.filter_map(WordsOverrider::read_change).map(ManifestChange::Command));
    let args = overriders.args_overrider.unwrap_or_default().into_iter();
    changes.extend(args.filter_map(WordsOverrider::read_change).map(ManifestChange::Args));
    let labels = overriders.labels_overrider.unwrap_or_default().into_iter();
    changes.extend(labels.filter_map(EntriesOverrider::read_change).map(ManifestChange::Labels));
    let annotations = overriders.annotations_overrider.unwrap_or_default().into_iter();
    changes.extend(annotations.filter_map(EntriesOverrider::read_change).map(ManifestChange::Annotations));
    for patch in overriders.plaintext.unwrap_or_default() {
        let operation = patch.read_operation()?;
        // Which entry of a list it counts from the end is not seen in the pointer.
        let is_read = !operation.pointer.split('/').any(|part| part.len() > 1 && part.starts_with('-'));
        changes.push(ManifestChange::Operation(Some(operation).filter(|_| is_read)?));
    }
    Some(changes)
}

/// An image overrider; `None` if it adds to a part, which only the image after it says.
fn read_image(overrider: ImageOverrider, body: &Value) -> Option<ImageChange> {
    let component = match overrider.component.as_str() {
        "Registry" => ImageComponent::Registry,
        "Repository" => ImageComponent::Repository,
        "Tag" => ImageComponent::Tag,
        _ => return None,
    };
    let pointers = match overrider.predicate {
        Some(predicate) => vec![predicate.path],
        None => container_fields(body, None, "image"),
    };
    let value = match overrider.operator.as_str() {
        "replace" => Some(overrider.value),
        "remove" => None,
        _ => return None,
    };
    let all = container_fields(body, None, "image");
    let is_whole = pointers == all && !all.is_empty() && !has_init_containers(body);
    let pointers = if is_whole { Vec::new() } else { pointers };
    Some(ImageChange { pointers, component, value })
}

/// Whether other images than those of the containers belong to the pods of an object.
fn has_init_containers(body: &Value) -> bool {
    let pod = containers_pointer(body).and_then(|pointer| pointer.strip_suffix("/containers"));
    let init = pod.and_then(|pod| body.pointer(&format!("{pod}/initContainers"))?.as_array());
    init.is_some_and(|init| !init.is_empty())
}
