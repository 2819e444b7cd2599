//! Override policies: the rules that apply to a cluster, and their patches.
//!
//! Facts: the cluster-scoped policy applies first, then the one of the namespace. All overriders of a rule are
//! computed from the object before the rule, and their patches are then applied in a fixed order. One error
//! keeps the object from all clusters.

use std::collections::BTreeMap;

use serde_json::Value;

use super::affinity::{self, CheckedTerms};
use super::policies::policy_reference;
use super::{KubeAdmiralPlanner, keys, source};
use federate_dialect::{OverrideChange, Placed};
use federate_kubernetes::patch::{self, JsonPatchOperation, PatchRules};
use federate_kubernetes::selector::{invalid_key, invalid_value};
use federate_kubernetes::{Cluster, ClusterName, Object, ObjectRef, work};

pub(super) mod api;
mod image;
mod jsonpatch;
mod metadata;
mod pods;

pub(super) use api::{OverrideRule, OverrideSpec};
pub(super) use jsonpatch::{applies_last, is_refused};

use api::TargetClusters;

impl OverrideRule {
    /// The paths of its patches, besides those of its overriders for images, containers, labels and annotations.
    pub(super) fn patched_paths(&self) -> impl Iterator<Item = &str> {
        self.overriders.iter().flat_map(|overriders| &overriders.jsonpatch).map(|patch| patch.path.as_str())
    }
}

/// An override policy.
#[derive(Debug)]
pub(super) struct OverridePolicy<'a> {
    pub(super) object: &'a Object,
    pub(super) rules: Vec<OverrideRule>,
}

/// One patch of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) value: Value,
}

impl Patch {
    fn replace_at(path: String, value: Value) -> Self {
        Self { name: "replace".to_owned(), path, value }
    }

    /// Applies the patch to a document.
    pub(super) fn apply_to(&self, document: &mut Value) -> Result<(), patch::Error> {
        let operation = JsonPatchOperation { name: &self.name, path: &self.path, value: Some(&self.value) };
        patch::apply_by(PatchRules::Lenient, document, operation)
    }
}

/// Why a rule cannot be applied, and the place in its overriders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverriderFailure {
    pub(super) pointer: String,
    pub(super) message: String,
}

impl OverriderFailure {
    fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// A rule that fails for some clusters.
#[derive(Clone, Debug)]
pub(super) struct FailedPolicy<'a> {
    pub(super) policy: &'a Object,
    pub(super) clusters: Vec<ClusterName>,
    pub(super) failure: OverriderFailure,
}

impl FailedPolicy<'_> {
    /// The failure in a sentence. The content of a Secret is not quoted.
    pub(super) fn describe_failure(&self, template: &Object) -> String {
        let shown: Vec<&str> = self.clusters.iter().map(AsRef::as_ref).collect();
        let secret = template.id.kind == "Secret";
        let why = if secret { "it does not fit this Secret" } else { self.failure.message.as_str() };
        let clusters = federate_kubernetes::finding::join_names(&shown, 3);
        format!("{} fails for {clusters}: {why}", self.policy.id)
    }
}

/// The result of the overrides of a group of clusters.
#[derive(Clone, Debug)]
pub(super) struct OverrideGroup {
    /// Sorted by name.
    pub(super) clusters: Vec<Placed>,
    pub(super) patches: Vec<Patch>,
    pub(super) changes: Vec<OverrideChange>,
}

/// Rules by policy and number.
type RuleIds = Vec<(usize, usize)>;

/// The override policies that a template names, in the order in which they apply; or the missing one.
pub(super) fn named_policies<'p, 'a>(
    plane: &'p KubeAdmiralPlanner<'a>,
    template: &Object,
) -> Result<Vec<&'p OverridePolicy<'a>>, ObjectRef> {
    let wide = template
        .label(keys::CLUSTER_OVERRIDE)
        .map(|name| policy_reference("ClusterOverridePolicy", None, name));
    let namespace = template.id.namespace.as_deref();
    let own = namespace.zip(template.label(keys::OVERRIDE));
    let own = own.map(|(namespace, name)| policy_reference("OverridePolicy", Some(namespace), name));
    wide.into_iter().chain(own).map(|id| plane.overrides.get(&id).ok_or(id)).collect()
}

/// Computes the results of the policies, one per group of clusters to which the same rules apply.
pub(super) fn evaluate_policies<'a>(
    plane: &KubeAdmiralPlanner<'a>,
    template: &Object,
    policies: &[&OverridePolicy<'a>],
    clusters: &[Placed],
) -> Result<Vec<OverrideGroup>, FailedPolicy<'a>> {
    let mut classes: BTreeMap<(RuleIds, &str), Vec<Placed>> = BTreeMap::new();
    let per_cluster = plane.find_template(&template.id).is_some_and(|t| t.per_cluster.is_some());
    for placed in clusters {
        let Some(cluster) = plane.find_cluster(&placed.name) else { continue };
        // A `*.j2` file is rendered for each cluster.
        let own = if per_cluster { placed.name.as_ref() } else { "" };
        classes.entry((applicable_rules(policies, cluster)?, own)).or_default().push(placed.clone());
    }
    classes
        .into_iter()
        .map(|((rules, _), clusters)| {
            let first = clusters.first().map(|p| p.name.clone()).unwrap_or_default();
            let object = plane.find_template(&template.id).map_or(template, |t| t.for_cluster(&first));
            apply_rules(policies, &rules, object, clusters)
        })
        .collect()
}

/// The rules that apply to a cluster, by policy and number.
fn applicable_rules<'a>(
    policies: &[&OverridePolicy<'a>],
    cluster: &Cluster,
) -> Result<Vec<(usize, usize)>, FailedPolicy<'a>> {
    let mut applying = Vec::new();
    for (at, policy) in policies.iter().enumerate() {
        for (number, rule) in policy.rules.iter().enumerate() {
            work::charge_steps(1);
            if work::is_exceeded() {
                return Ok(applying);
            }
            let targets = rule.target_clusters.as_ref().map_or(Ok(true), |t| targets_cluster(t, cluster));
            match targets {
                Ok(true) => applying.push((at, number)),
                Ok(false) => {}
                Err(message) => {
                    let pointer = format!("/spec/overrideRules/{number}/targetClusters");
                    let clusters = vec![cluster.name.clone()];
                    return Err(FailedPolicy {
                        policy: policy.object,
                        clusters,
                        failure: OverriderFailure::new(pointer, message),
                    });
                }
            }
        }
    }
    Ok(applying)
}

fn targets_cluster(target: &TargetClusters, cluster: &Cluster) -> Result<bool, String> {
    work::charge_items(target.clusters.len() + target.cluster_affinity.len());
    if work::is_exceeded() {
        return Ok(false);
    }
    if !target.clusters.is_empty() && !target.clusters.iter().any(|name| *name == *cluster.name) {
        return Ok(false);
    }
    let mut pairs = target.cluster_selector.iter();
    if let Some(why) = pairs.find_map(|(key, value)| invalid_key(key).or_else(|| invalid_value(value))) {
        return Err(why);
    }
    if !affinity::is_selected(&target.cluster_selector, &cluster.labels) {
        return Ok(false);
    }
    if target.cluster_affinity.is_empty() {
        return Ok(true);
    }
    CheckedTerms::new(&target.cluster_affinity)
        .accepts_cluster(&cluster.name, &cluster.labels)
        .map_err(|malformed| malformed.0)
}

/// Applies the rules one after the other.
fn apply_rules<'a>(
    policies: &[&OverridePolicy<'a>],
    rules: &[(usize, usize)],
    template: &Object,
    clusters: Vec<Placed>,
) -> Result<OverrideGroup, FailedPolicy<'a>> {
    let mut body = source::sent_template(&template.body);
    let mut all = Vec::new();
    let mut changes = Vec::new();
    for (policy, number) in rules {
        if work::is_exceeded() {
            break;
        }
        let policy = policies[*policy];
        let before = body.clone();
        let patches = apply_rule(&policy.rules[*number], &template.id, &mut body).map_err(|failure| {
            let pointer = format!("/spec/overrideRules/{number}{}", failure.pointer);
            FailedPolicy {
                policy: policy.object,
                clusters: clusters.iter().map(|p| p.name.clone()).collect(),
                failure: OverriderFailure { pointer, ..failure },
            }
        })?;
        let late = patches.iter().filter(|patch| applies_last(patch)).map(|patch| patch.path.clone());
        changes.push(OverrideChange {
            policy: policy.object.id.clone(),
            origin: policy.object.origin.to_string(),
            paths: patch::find_differences(&before, &body).into_iter().chain(late).collect(),
        });
        all.extend(patches);
    }
    Ok(OverrideGroup { clusters, patches: all, changes })
}

/// Applies a rule to an object, except for the patches that are applied when it is sent. Returns all patches.
fn apply_rule(rule: &OverrideRule, id: &ObjectRef, body: &mut Value) -> Result<Vec<Patch>, OverriderFailure> {
    let patches = rule_patches(rule, id, body)?;
    for (patch, pointer) in &patches {
        if !applies_last(patch) {
            patch.apply_to(body).map_err(|e| OverriderFailure::new(pointer, e.to_string()))?;
        }
    }
    if body.get("kind").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(OverriderFailure::new("", "the object would have no kind"));
    }
    Ok(patches.into_iter().map(|(patch, _)| patch).collect())
}

/// The patches of a rule, each with its place.
fn rule_patches(
    rule: &OverrideRule,
    id: &ObjectRef,
    body: &Value,
) -> Result<Vec<(Patch, String)>, OverriderFailure> {
    let Some(overriders) = &rule.overriders else { return Ok(Vec::new()) };
    let typed = [
        ("image", image::image_patches(&overriders.image, id, body)?),
        ("command", pods::command_patches(&overriders.command, "command", id, body)?),
        ("args", pods::command_patches(&overriders.args, "args", id, body)?),
        ("envs", pods::env_patches(&overriders.envs, id, body)?),
        ("annotations", metadata::map_patches(&overriders.annotations, "annotations", body)?),
        ("labels", metadata::map_patches(&overriders.labels, "labels", body)?),
    ];
    let mut all = Vec::new();
    for (field, patches) in typed {
        all.extend(patches.into_iter().map(|patch| (patch, format!("/overriders/{field}"))));
    }
    for (number, written) in overriders.jsonpatch.iter().enumerate() {
        all.push((jsonpatch::read_patch(written), format!("/overriders/jsonpatch/{number}")));
    }
    Ok(all)
}
