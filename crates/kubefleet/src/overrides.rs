//! Overrides: which apply to an object, in which order, and how they change it for one cluster.
//!
//! Facts: cluster-scoped overrides come before those of the object's namespace, so that the latter win. Within
//! both they are ordered by the names of their snapshots. Every rule that matches the cluster applies, as one
//! JSON patch. A deletion ends its own override; later overrides have nothing to patch, but must still be
//! valid. An override that names a Namespace applies to everything in it, too.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::envelope::GROUP;
use federate_dialect::OverrideChange;
use federate_kubernetes::patch::{self, JsonPatchOperation};
use federate_kubernetes::schema::Cursor;
use federate_kubernetes::work::{charge_steps, charge_value, is_exceeded};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};

pub(crate) mod api;
pub(crate) mod variables;
pub(crate) mod work;

use api::{KubeFleetOverrideRule, KubeFleetOverrideSpec, ObjectSelector, OverrideType, PlacementScope};
pub(crate) use variables::UnresolvedVariable;

const OF_CLUSTER: &str = "ClusterResourceOverride";

/// The steps of a rule for a cluster, and of each of its operations, which the key of the cluster's changes has as text.
const STEPS_OF_RULE: u64 = 10;

/// An override of a repo.
#[derive(Debug)]
pub(crate) struct KubeFleetOverride<'a> {
    /// Its object.
    pub object: &'a Object,
    /// The objects that it selects.
    selectors: Vec<ObjectSelector>,
    spec: KubeFleetOverrideSpec,
}

impl<'a> KubeFleetOverride<'a> {
    fn new(object: &'a Object) -> Result<Self, Finding> {
        Self::from_spec(object, object.value_at(&["spec"]).unwrap_or(&Value::Null))
            .map_err(|e| Finding::error("invalid-policy", object, e.to_string()).with_pointer("/spec"))
    }

    /// Reads the override of a snapshot.
    pub(crate) fn from_snapshot(object: &'a Object) -> Result<Self, serde_json::Error> {
        Self::from_spec(object, object.value_at(&["spec", "overrideSpec"]).unwrap_or(&Value::Null))
    }

    fn from_spec(object: &'a Object, spec: &Value) -> Result<Self, serde_json::Error> {
        let (selectors, spec) =
            (api::read_selectors(spec)?, Option::<KubeFleetOverrideSpec>::deserialize(spec)?);
        Ok(Self { object, selectors, spec: spec.unwrap_or_default() })
    }

    /// Whether it applies to a placement and to one of the objects that the placement selects.
    pub(crate) fn applies_to_objects(&self, placement: &ObjectRef, selected: &[ObjectRef]) -> bool {
        self.applies_to_placement(placement)
            && self.target_objects().any(|target| {
                selected.iter().any(|object| *object == target || is_in_namespace(object, &target))
            })
    }

    /// Whether one of its rules matches a cluster.
    pub(crate) fn matches_cluster(&self, cluster: &Cluster) -> bool {
        self.spec.policy.override_rules.iter().any(|rule| rule.matches_labels(&cluster.labels))
    }

    /// The paths that its rules change.
    pub(crate) fn patched_paths(&self) -> impl Iterator<Item = &str> {
        let operations = self.spec.policy.override_rules.iter().flat_map(|rule| &rule.json_patch_overrides);
        operations.map(|operation| operation.path.as_str())
    }

    /// The keys of the labels that its rules and variables read.
    fn label_keys(&self) -> impl Iterator<Item = String> {
        self.spec.policy.override_rules.iter().flat_map(KubeFleetOverrideRule::label_keys)
    }

    fn is_of_cluster(&self) -> bool {
        self.object.id.kind.starts_with(OF_CLUSTER)
    }

    /// The objects that it changes.
    fn target_objects(&self) -> impl Iterator<Item = ObjectRef> {
        let namespace = self.object.id.namespace.as_ref().filter(|_| !self.is_of_cluster());
        self.selectors.iter().map(move |selector| selector.target_object(namespace))
    }

    /// Whether it applies to a placement.
    fn applies_to_placement(&self, placement: &ObjectRef) -> bool {
        let Some(wanted) = &self.spec.placement else { return true };
        let namespace = match (wanted.scope, self.is_of_cluster()) {
            (PlacementScope::Cluster, _) => None,
            (PlacementScope::Namespaced, false) => self.object.id.namespace.as_deref(),
            (PlacementScope::Namespaced, true) => return false,
        };
        placement.group() == GROUP
            && placement.name == wanted.name
            && placement.namespace.as_deref() == namespace
    }

    /// The changes for one cluster.
    fn compute_steps(&self, cluster: &Cluster) -> Vec<Step> {
        let mut steps = Vec::new();
        for (rule, written) in self.spec.policy.override_rules.iter().enumerate() {
            charge_steps(STEPS_OF_RULE);
            if is_exceeded() || !written.matches_labels(&cluster.labels) {
                continue;
            }
            charge_steps(STEPS_OF_RULE * written.json_patch_overrides.len() as u64);
            let values = written.json_patch_overrides.iter().filter_map(|operation| operation.value.as_ref());
            values.for_each(charge_value);
            if written.override_type == OverrideType::Delete {
                steps.push(Step { rule, op: OverrideOp::Delete });
                break;
            }
            steps.push(Step { rule, op: OverrideOp::Patch(resolve_operations(written, cluster)) });
        }
        steps
    }
}

impl ObjectSelector {
    fn target_object(&self, namespace: Option<&String>) -> ObjectRef {
        let Self { group, version, kind, name } = self;
        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        ObjectRef { api_version, kind: kind.clone(), namespace: namespace.cloned(), name: name.clone() }
    }
}

/// The operations of a rule for one cluster.
fn resolve_operations(
    rule: &KubeFleetOverrideRule,
    cluster: &Cluster,
) -> Result<Vec<Resolved>, (usize, UnresolvedVariable)> {
    let operations = rule.json_patch_overrides.iter().enumerate();
    operations
        .map(|(index, operation)| {
            let value = operation.value.as_ref();
            let value =
                value.map(|value| variables::resolve_variables(value, &cluster.name, &cluster.labels));
            let value = value.transpose().map_err(|why| (index, why))?;
            Ok(Resolved { op: operation.op.clone(), path: operation.path.clone(), value })
        })
        .collect()
}

/// The changes of one rule for one cluster.
#[derive(Clone, Debug)]
struct Step {
    rule: usize,
    op: OverrideOp,
}

#[derive(Clone, Debug)]
enum OverrideOp {
    Delete,
    /// The operations; or the index of the one with a variable without a value.
    Patch(Result<Vec<Resolved>, (usize, UnresolvedVariable)>),
}

/// One operation, its variables replaced.
#[derive(Clone, Debug)]
struct Resolved {
    op: String,
    path: String,
    value: Option<Value>,
}

/// Takes out the overrides that admission refuses because another one has the same selector: an object has at most one
/// override of each kind, whatever their placements. The first by name counts as the one that was there first.
pub(crate) fn refuse_shared_targets<'a>(overrides: &mut Vec<&'a Object>) -> Vec<Finding> {
    overrides.sort_by_key(|object| (&object.id.kind, &object.id.namespace, &object.id.name));
    let mut holders: BTreeMap<TargetKey<'a>, &'a Object> = BTreeMap::new();
    let mut findings = Vec::new();
    overrides.retain(|object| {
        let keys = TargetKey::read_all(object);
        let taken = keys.iter().find_map(|(key, at)| Some((*holders.get(key)?, at)));
        if let Some((holder, at)) = taken {
            let message = format!("{} selects an object that {} selects already", object.id, holder.id);
            let finding = Finding::error("invalid-policy", object, message).with_pointer(at.as_str());
            findings.push(finding.with_help(format!(
                "an object has one {} at most: move the rules to {}",
                object.id.kind, holder.id.name
            )));
            return false;
        }
        holders.extend(keys.into_iter().map(|(key, _)| (key, *object)));
        true
    });
    findings
}

/// Whether `target` is the namespace of an object.
fn is_in_namespace(object: &ObjectRef, target: &ObjectRef) -> bool {
    target.kind == "Namespace"
        && target.api_version == "v1"
        && object.namespace.as_ref() == Some(&target.name)
}

/// The part of an override's selector that admission compares with those of other overrides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TargetKey<'a> {
    /// The kind and namespace of the override.
    kind: &'a str,
    namespace: Option<&'a str>,
    /// Group, version, kind, name and scope of the selector.
    selector: [&'a str; 5],
}

impl<'a> TargetKey<'a> {
    /// The selectors of an override, each with its place.
    fn read_all(object: &'a Object) -> Vec<(Self, String)> {
        let list = match object.id.kind.as_str() {
            OF_CLUSTER => "clusterResourceSelectors",
            _ => "resourceSelectors",
        };
        let selectors = Cursor::new(&object.body).field("spec").field(list);
        let keys = selectors.items().map(|selector| {
            let [group, version, kind, name] =
                ["group", "version", "kind", "name"].map(|field| selector.field(field).as_text());
            // The default is written by the API server.
            let scope = match selector.field("selectionScope").as_text() {
                "NamespaceWithResources" => "",
                scope => scope,
            };
            let key = Self {
                kind: &object.id.kind,
                namespace: object.id.namespace.as_deref(),
                selector: [group, version, kind, name, scope],
            };
            (key, selector.pointer().to_owned())
        });
        keys.collect()
    }
}

/// The overrides of a repo.
#[derive(Debug, Default)]
pub(crate) struct Overrides<'a> {
    /// In the order in which they apply.
    list: Vec<KubeFleetOverride<'a>>,
    by_target: BTreeMap<ObjectRef, Vec<usize>>,
}

impl<'a> Overrides<'a> {
    /// Reads overrides. Those that cannot be read are left out, with a finding.
    pub(crate) fn new(objects: impl Iterator<Item = &'a Object>) -> (Self, Vec<Finding>) {
        let (mut list, mut findings) = (Vec::new(), Vec::new());
        for object in objects {
            match KubeFleetOverride::new(object) {
                Ok(one) => list.push(one),
                Err(finding) => findings.push(finding),
            }
        }
        list.sort_by_cached_key(|one| {
            let ObjectRef { namespace, name, .. } = &one.object.id;
            // The name of its first snapshot; an override in git has no earlier ones.
            (!one.is_of_cluster(), namespace.clone(), format!("{name}-0"))
        });
        let mut by_target: BTreeMap<ObjectRef, Vec<usize>> = BTreeMap::new();
        for (index, one) in list.iter().enumerate() {
            for target in one.target_objects() {
                let indices = by_target.entry(target).or_default();
                if indices.last() != Some(&index) {
                    indices.push(index);
                }
            }
        }
        (Self { list, by_target }, findings)
    }

    /// The overrides that apply to an object of a placement, in order.
    pub(crate) fn overrides_for(
        &self,
        placement: &ObjectRef,
        object: &ObjectRef,
    ) -> Vec<&KubeFleetOverride<'a>> {
        self.indices_of(placement, object).into_iter().filter_map(|index| self.list.get(index)).collect()
    }

    /// The same as indices in the list of all overrides.
    fn indices_of(&self, placement: &ObjectRef, object: &ObjectRef) -> Vec<usize> {
        let mut indices = self.by_target.get(object).cloned().unwrap_or_default();
        if let Some(namespace) = &object.namespace {
            let namespace = ObjectRef {
                api_version: "v1".to_owned(),
                kind: "Namespace".to_owned(),
                namespace: None,
                name: namespace.clone(),
            };
            indices.extend(self.by_target.get(&namespace).into_iter().flatten());
            indices.sort_unstable();
        }
        indices.retain(|index| self.list.get(*index).is_some_and(|one| one.applies_to_placement(placement)));
        indices
    }
}

/// The changes of overrides to an object in one cluster.
#[derive(Debug, Default)]
pub(crate) struct OverrideChanges<'a> {
    /// Each with its override.
    steps: Vec<(&'a Object, Step)>,
}

impl<'a> OverrideChanges<'a> {
    /// Computes the changes of `overrides`, in this order, for a cluster.
    pub(crate) fn new(overrides: &[&KubeFleetOverride<'a>], cluster: &Cluster) -> Self {
        let steps = overrides.iter().flat_map(|one| {
            let object = one.object;
            one.compute_steps(cluster).into_iter().map(move |step| (object, step))
        });
        Self { steps: steps.collect() }
    }

    /// A key that is equal for equal changes.
    pub(crate) fn grouping_key(&self) -> Vec<String> {
        self.steps.iter().map(|(one, step)| format!("{} {step:?}", one.id)).collect()
    }

    /// Whether there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Applies the changes.
    pub(crate) fn apply_to(&self, body: Value) -> Result<OverriddenObject, FailedOverride<'a>> {
        let mut body = Some(body);
        let mut changes: Vec<OverrideChange> = Vec::new();
        for (one, step) in &self.steps {
            let paths = step.apply_to(&mut body).map_err(|(operation, why)| FailedOverride {
                over: one,
                pointer: format!("/spec/policy/overrideRules/{}/jsonPatchOverrides/{operation}", step.rule),
                why,
            })?;
            let policy = &one.id;
            match changes.iter_mut().find(|change| change.policy == *policy) {
                Some(change) => change.paths.extend(paths),
                None => changes.push(OverrideChange {
                    policy: policy.clone(),
                    origin: one.origin.to_string(),
                    paths,
                }),
            }
        }
        for change in &mut changes {
            change.paths.sort();
            change.paths.dedup();
        }
        Ok(OverriddenObject { body, changes })
    }
}

impl Step {
    /// Applies one rule. Returns the paths that differ after it, or the operation that fails and why.
    fn apply_to(&self, body: &mut Option<Value>) -> Result<Vec<String>, (usize, OverrideFailure)> {
        let operations = match &self.op {
            OverrideOp::Delete => {
                let paths = if body.is_some() { vec![String::new()] } else { Vec::new() };
                *body = None;
                return Ok(paths);
            }
            OverrideOp::Patch(Err((index, why))) => {
                return Err((*index, OverrideFailure::Unresolved(why.clone())));
            }
            OverrideOp::Patch(Ok(operations)) => operations,
        };
        let Some(body) = body else { return Ok(Vec::new()) };
        let before = body.clone();
        for (index, Resolved { op, path, value }) in operations.iter().enumerate() {
            let operation = JsonPatchOperation { name: op, path, value: value.as_ref() };
            patch::apply_operation(body, operation).map_err(|why| (index, OverrideFailure::Patch(why)))?;
        }
        Ok(patch::find_differences(&before, body))
    }
}

/// An object after its overrides.
#[derive(Debug)]
pub(crate) struct OverriddenObject {
    /// The changed object; `None` if it is deleted.
    pub body: Option<Value>,
    /// What each override changed.
    pub changes: Vec<OverrideChange>,
}

/// Why an override fails.
#[derive(Clone, Debug)]
pub(crate) struct FailedOverride<'a> {
    /// The override.
    pub over: &'a Object,
    /// The place in it.
    pub pointer: String,
    /// Why.
    pub why: OverrideFailure,
}

/// The reason why an override fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverrideFailure {
    /// A patch operation fails.
    #[error(transparent)]
    Patch(patch::Error),
    /// A variable has no value.
    #[error(transparent)]
    Unresolved(UnresolvedVariable),
}

impl OverrideFailure {
    /// The code.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Patch(_) | Self::Unresolved(UnresolvedVariable::NotJson) => "PatchFailed",
            Self::Unresolved(UnresolvedVariable::LabelKeyNotFound(_)) => "LabelKeyNotFound",
            Self::Unresolved(UnresolvedVariable::MalformedVariable) => "MalformedVariable",
        }
    }
}

#[cfg(test)]
mod tests;
