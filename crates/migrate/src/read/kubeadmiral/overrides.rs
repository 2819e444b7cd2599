//! Reads the override policies of `KubeAdmiral`, which templates name by labels.
//!
//! Facts: the policy for the whole cluster comes first. The parts of a rule apply in the order image, command, args, envs,
//! annotations, labels, JSON patch. What is not read here is found by comparing manifests.

use std::collections::BTreeMap;

use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Labels, Object, ObjectRef};
use federate_repo::Role;
use federate_session::Session;
use serde::Deserialize;
use serde_json::Value;

use super::super::overriders::{EntriesOverrider, ReadOverrideRule, ReadPatch, WordsOverrider};
use super::{KubeAdmiralTerm, NAME, can_select};
use crate::intent::{
    ClusterRule, ImageChange, ImageComponent, ManifestChange, OverrideIntent, OwnOverrideRule, ReadOverrides,
};

/// The override policies of a repo, by namespace and name.
pub(super) struct NamedOverrides<'s>(BTreeMap<(Option<&'s str>, &'s str), &'s Object>);

/// A rule of a policy that templates name.
type NamedRule = ReadOverrideRule<TargetClusters, Overriders>;

/// The clusters of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TargetClusters {
    clusters: Option<Vec<String>>,
    cluster_selector: Option<Labels>,
    cluster_affinity: Option<Vec<KubeAdmiralTerm>>,
}

/// The changes of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Overriders {
    image: Option<Vec<ImageOverrider>>,
    command: Option<Vec<WordsOverrider>>,
    args: Option<Vec<WordsOverrider>>,
    envs: Option<Vec<Value>>,
    annotations: Option<Vec<EntriesOverrider>>,
    labels: Option<Vec<EntriesOverrider>>,
    jsonpatch: Option<Vec<ReadPatch>>,
}

/// Changes of image references.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageOverrider {
    container_names: Option<Vec<String>>,
    image_path: String,
    operations: Option<Vec<ImageOperation>>,
}

/// A change of a part of an image reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageOperation {
    image_component: String,
    operator: String,
    value: String,
}

impl<'s> NamedOverrides<'s> {
    pub(super) fn new(session: &'s Session) -> Self {
        let claimed = session.repo().claimed.iter();
        let own = claimed.filter(|one| one.dialect == NAME && one.role == Role::Override);
        let named = own.map(|one| {
            let ObjectRef { namespace, name, .. } = &one.object.id;
            ((namespace.as_deref(), name.as_str()), &one.object)
        });
        Self(named.collect())
    }

    /// The rules of the policies that a template names.
    pub(super) fn read_rules(&self, template: &Object) -> ReadOverrides<'s> {
        let namespace = template.id.namespace.as_deref();
        let named = [
            (None, template.label("kubeadmiral.io/cluster-override-policy-name")),
            (
                namespace,
                template.label("kubeadmiral.io/override-policy-name").filter(|_| namespace.is_some()),
            ),
        ];
        let policies = named.into_iter().filter_map(|(namespace, name)| self.0.get(&(namespace, name?)));
        let (mut own, mut unread, mut origins) = (Vec::new(), Vec::new(), Vec::new());
        for policy in policies {
            origins.push(policy.origin.clone());
            let rules = policy.value_at(&["spec", "overrideRules"]);
            let rules = rules.and_then(|rules| Vec::<NamedRule>::deserialize(rules).ok());
            let rules = rules.unwrap_or_default();
            unread.extend(rules.iter().any(|rule| !is_simple(rule)).then_some(*policy));
            own.extend(rules.into_iter().filter_map(|rule| read_rule(rule, template)));
        }
        let object = template.id.clone();
        let intent = (!own.is_empty()).then(|| OverrideIntent { object, own, rules: Vec::new(), origins });
        ReadOverrides { intent, unread, ..ReadOverrides::default() }
    }
}

/// Whether everything in a rule is read, whatever the template.
fn is_simple(rule: &NamedRule) -> bool {
    let terms = rule.clusters.as_ref().and_then(|targets| targets.cluster_affinity.as_deref());
    let has_simple_clusters = match terms.unwrap_or_default() {
        [] => true,
        [term] => can_select(term),
        _ => false,
    };
    has_simple_clusters && rule.overriders.as_ref().is_none_or(Overriders::is_simple)
}

impl Overriders {
    fn is_simple(&self) -> bool {
        let words = [&self.command, &self.args].into_iter().flatten().flatten();
        let operations = self.image.iter().flatten().flat_map(|one| one.operations.iter().flatten());
        self.envs.as_ref().is_none_or(Vec::is_empty)
            && words.into_iter().all(|one| matches!(one.operator.as_str(), "append" | "delete"))
            && operations.into_iter().all(|one| one.image_component != "Digest")
    }
}

fn read_rule(rule: NamedRule, template: &Object) -> Option<OwnOverrideRule> {
    let clusters =
        read_clusters(rule.clusters.unwrap_or_default()).filter(|clusters| !clusters.is_nowhere())?;
    let changes = read_changes(rule.overriders.unwrap_or_default(), template);
    (!changes.is_empty()).then_some(OwnOverrideRule { clusters, changes })
}

/// The clusters of a rule, if they can be selected by one term.
fn read_clusters(targets: TargetClusters) -> Option<ClusterRule> {
    let labels = targets.cluster_selector.unwrap_or_default();
    let mut rule =
        ClusterRule::from_labels(LabelSelector { match_labels: labels, match_expressions: Vec::new() });
    rule.names = targets.clusters.filter(|names| !names.is_empty()).map(|names| names.into_iter().collect());
    match targets.cluster_affinity.unwrap_or_default().as_slice() {
        [] => Some(rule),
        [term] if can_select(term) => {
            rule.labels.match_expressions.extend(term.match_expressions.iter().cloned());
            let fields = term.match_fields.iter();
            Some(fields.fold(rule, |rule, field| {
                rule.intersect(&ClusterRule::from_names(field.values.iter().cloned()))
            }))
        }
        _ => None,
    }
}

fn read_changes(overriders: Overriders, template: &Object) -> Vec<ManifestChange> {
    let images = overriders.image.unwrap_or_default();
    let mut changes: Vec<ManifestChange> =
        images.into_iter().flat_map(|one| read_image(one, template)).map(ManifestChange::Image).collect();
    let command = overriders.command.unwrap_or_default().into_iter().filter_map(WordsOverrider::read_change);
    changes.extend(command.map(ManifestChange::Command));
    let args = overriders.args.unwrap_or_default().into_iter().filter_map(WordsOverrider::read_change);
    changes.extend(args.map(ManifestChange::Args));
    let annotations =
        overriders.annotations.unwrap_or_default().into_iter().filter_map(EntriesOverrider::read_change);
    changes.extend(annotations.map(ManifestChange::Annotations));
    let labels = overriders.labels.unwrap_or_default().into_iter().filter_map(EntriesOverrider::read_change);
    changes.extend(labels.map(ManifestChange::Labels));
    let patches = overriders.jsonpatch.unwrap_or_default().into_iter().filter_map(|mut one| {
        if one.operator.is_empty() {
            "replace".clone_into(&mut one.operator);
        }
        one.read_operation()
    });
    changes.extend(patches.map(ManifestChange::Operation));
    changes
}

fn read_image(overrider: ImageOverrider, template: &Object) -> Vec<ImageChange> {
    let names = overrider.container_names.unwrap_or_default();
    let pointers = if overrider.image_path.is_empty() {
        find_images(template, &names)
    } else {
        Some(vec![overrider.image_path])
    };
    let Some(pointers) = pointers else { return Vec::new() };
    let operations = overrider.operations.unwrap_or_default().into_iter();
    let changes = operations.filter_map(|operation| {
        let component = match operation.image_component.as_str() {
            "Registry" => ImageComponent::Registry,
            "Repository" => ImageComponent::Repository,
            "Tag" => ImageComponent::Tag,
            _ => return None,
        };
        let value = match operation.operator.as_str() {
            "" | "overwrite" if !operation.value.is_empty() => Some(operation.value),
            "delete" => None,
            _ => return None,
        };
        Some(ImageChange { pointers: pointers.clone(), component, value })
    });
    changes.collect()
}

/// The images of the containers with these names, or of all; empty if these are all that there are. `None` if there are none.
fn find_images(template: &Object, names: &[String]) -> Option<Vec<String>> {
    let pod = match template.id.kind.as_str() {
        "Pod" => "/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    let list = |kind: &str| {
        template.body.pointer(&format!("{pod}/{kind}")).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (before, containers) = (list("initContainers"), list("containers"));
    if names.is_empty() && before.is_empty() && !containers.is_empty() {
        return Some(Vec::new());
    }
    let mut pointers = Vec::new();
    for (kind, containers) in [("initContainers", before), ("containers", containers)] {
        for (index, container) in containers.iter().enumerate() {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            if names.is_empty() || names.iter().any(|one| one == name) {
                pointers.push(format!("{pod}/{kind}/{index}/image"));
            }
        }
    }
    (!pointers.is_empty()).then_some(pointers)
}
