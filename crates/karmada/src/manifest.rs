//! The manifests of a placement: revised, overridden, pruned.
//!
//! Clusters with the same numbers and the same override rules receive the same manifest, which is
//! built once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::api::PropagationSpec;
use super::decision::ties_descend;
use super::groups::{ClusterGroup, RuleIds};
use super::interpreter::InterpreterFailure;
use super::overrides::{CompiledOverridePolicy, OverrideRuleFailure};
use super::policies::propagates_everywhere;
use super::revision::{self, ReplicaRevision};
use super::state::{KarmadaState, is_scheduled};
use super::version::{CompletionDivision, ConflictResolution, RevisedObjects};
use super::{KarmadaPlanner, defaults, pruning, schedule, server_defaults};
use federate_dialect::{
    ClusterNames, ManifestVariant, NotSent, OverrideChange, Placed, Placement, RenderedManifest,
};
use federate_kubernetes::patch;
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef, Severity, finding, sops, work};
use federate_repo::Template;

/// The status of a cluster that an object is being evicted from: its copy stays as it is.
pub(super) const EVICTING: &str = "Evicting";

/// The variants of a placement.
pub(super) fn render_template(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Template,
) -> Vec<ManifestVariant> {
    let render = Render::new(plane, placement, template);
    let mut variants = Vec::new();
    let revises = writes_replicas(plane, placement, &template.object);
    if template.per_cluster.is_none()
        && cluster_completions(plane, placement, &template.object).is_none()
        && required_replicas(plane, placement, &template.object).is_empty()
    {
        for (revision, group) in plane.groups.group_clusters(plane, &placement.clusters, revises).iter() {
            render.render_revision(*revision, group, &mut variants);
        }
    } else {
        // Each cluster has its own rendering of a `*.j2` file, its share of completions, or the replicas that are required there.
        let revisions = compute_revisions(plane, placement, &template.object).into_iter();
        let keys = revisions.zip(
            (placement.clusters.iter())
                .map(|placed| template.per_cluster.is_some().then(|| placed.name.clone())),
        );
        for ((revision, _), group) in
            ClusterGroup::for_placement(plane, &placement.clusters).group_by_keys(plane, keys).iter()
        {
            render.render_revision(*revision, group, &mut variants);
        }
    }
    if !placement.withdrawn.is_empty() {
        let withheld = NotSent { status: EVICTING, finding: None };
        let clusters = placement.withdrawn.iter().cloned().collect();
        variants.push(ManifestVariant { clusters, rendered: Err(withheld) });
    }
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

/// The manifest of one cluster; `None` where the object is not placed.
pub(super) fn render_for_cluster(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Template,
    cluster: &str,
) -> Option<ManifestVariant> {
    let at = placement.clusters.iter().position(|placed| placed.name.as_ref() == cluster)?;
    let revision = *compute_revisions(plane, placement, &template.object).get(at)?;
    let group = ClusterGroup::for_placement(plane, &placement.clusters).single_cluster(at)?;
    let render = Render::new(plane, placement, template);
    let mut variants = Vec::new();
    render.render_revision(revision, &group, &mut variants);
    variants.pop()
}

/// Whether manifests may have other replicas than the row and the template.
pub(super) fn may_change_replicas(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Template,
) -> bool {
    let object = &template.object;
    // Scripts, the repo's and Karmada's own for kinds of others, write what they like.
    let is_divided = || placement.clusters.iter().any(|placed| placed.replicas.is_some());
    plane.interpreter.has_scripts(&object.id)
        || (!revision::is_counted_as_written(&object.id) && is_divided())
        || has_other_replicas(plane, placement, object)
        || (object.id.kind == "Job" && cluster_completions(plane, placement, object).is_some())
        || !required_replicas(plane, placement, object).is_empty()
        || plane.overrides.may_change_replicas(object)
}

/// Whether a row has other replicas than the template, and its manifests may keep those of the template: a row that is not scheduled again
/// keeps its replicas.
fn has_other_replicas(plane: &KarmadaPlanner<'_>, placement: &Placement, template: &Object) -> bool {
    let field = if template.id.kind == "Job" { "parallelism" } else { "replicas" };
    let stated = template.value_at(&["spec", field]).and_then(Value::as_i64);
    let mut decided = placement.clusters.iter().filter_map(|placed| placed.replicas);
    decided.any(|replicas| replicas != stated.unwrap_or(1))
        && (stated.is_none() || !writes_replicas(plane, placement, template))
}

/// Whether replicas are written into the manifests of a placement. Those that SOPS encrypted stay where each cluster gets all of them.
fn writes_replicas(plane: &KarmadaPlanner<'_>, placement: &Placement, template: &Object) -> bool {
    let all = plane.behaviour.revised == RevisedObjects::All && !sops::is_encrypted(&template.body);
    all || divides_replicas(plane, placement)
}

/// Whether the policy divides replicas.
fn divides_replicas(plane: &KarmadaPlanner<'_>, placement: &Placement) -> bool {
    let strategy = if let Some(policy) = plane.find_policy(placement).filter(|policy| !policy.is_lazy()) {
        schedule::DivisionStrategy::from_scheduling(policy.spec.placement.replica_scheduling.as_ref())
    } else {
        // The placement that was applied last counts.
        let applied = KarmadaState::from_scheduler_state(&placement.scheduler_state).applied_placement;
        let applied = applied.and_then(|applied| defaults::read_placement(&applied, &plane.behaviour));
        schedule::DivisionStrategy::from_scheduling(
            applied.and_then(|applied| applied.replica_scheduling).as_ref(),
        )
    };
    strategy != schedule::DivisionStrategy::Duplicated
}

/// The replicas of a workload in clusters where only others need it: those that the others have there.
fn required_replicas(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Object,
) -> BTreeMap<ClusterName, i64> {
    if placement.required_by.is_empty() || !is_scheduled(placement) {
        return BTreeMap::new();
    }
    let workload = plane.interpreter.interpret_workload(template).ok();
    if !workload.is_some_and(|workload| workload.is_workload()) {
        return BTreeMap::new();
    }
    KarmadaState::from_scheduler_state(&placement.scheduler_state).required_on
}

/// The completions of a Job for each cluster of the placement, where they are divided.
fn cluster_completions(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Object,
) -> Option<Vec<i64>> {
    if !divides_replicas(plane, placement)
        || placement.clusters.iter().all(|p| p.replicas.is_none_or(|r| r <= 0))
    {
        return None;
    }
    let replicas: Vec<i64> = placement.clusters.iter().map(|p| p.replicas.unwrap_or(0)).collect();
    revision::divide_completions(&template.body, &replicas, plane.behaviour.division, ties_descend(template))
}

/// The numbers to write for each cluster of the placement, in its order.
fn compute_revisions(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Object,
) -> Vec<Option<ReplicaRevision>> {
    let completions = cluster_completions(plane, placement, template);
    let revises = writes_replicas(plane, placement, template);
    let required = required_replicas(plane, placement, template);
    let placed = placement.clusters.iter().enumerate();
    placed
        .map(|(at, placed)| {
            let completions = completions.as_ref().and_then(|all| all.get(at).copied());
            let replicas = placed.replicas.or_else(|| required.get(&placed.name).copied());
            replicas.filter(|_| revises).map(|replicas| ReplicaRevision { replicas, completions })
        })
        .collect()
}

/// The step that says what chance decides about the completions of a Job in old releases.
pub(super) fn random_completions(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Object,
) -> Option<String> {
    let placed: Vec<&Placed> = placement.clusters.iter().collect();
    let replicas: Vec<i64> = placed.iter().map(|p| p.replicas.unwrap_or(0)).collect();
    let revisions = compute_revisions(plane, placement, template);
    let total: i64 = revisions.iter().flatten().filter_map(|revision| revision.completions).sum();
    let release = plane.behaviour.release;
    if total == 0 || replicas.len() < 2 {
        return None;
    }
    let tied = schedule::random_parties(plane.behaviour.division, total, &replicas, |_| 0);
    if let [_, _, ..] = tied.as_slice() {
        let names: Vec<&str> = tied.into_iter().map(|at| placed[at].name.as_ref()).collect();
        return Some(format!(
            "Karmada {release} decides by chance which of {} get one more of the {total} completions: here the \
             first by name do",
            names.join(", ")
        ));
    }
    (plane.behaviour.completions == CompletionDivision::ByPosition).then(|| {
        format!(
            "Karmada {release} gives completions out by the order of its own list of clusters, which chance \
             decides after a scale-up: here each cluster gets its own"
        )
    })
}

/// Whether objects that exist already are adopted.
pub(super) fn allows_overwrite(plane: &KarmadaPlanner<'_>, placement: &Placement) -> bool {
    has_setting(plane, placement, |spec| spec.conflict_resolution.as_deref() == Some("Overwrite"))
}

/// Whether the object stays in its clusters when its policy is deleted.
pub(super) fn is_preserved(plane: &KarmadaPlanner<'_>, placement: &Placement) -> bool {
    if plane.behaviour.conflict_resolution == ConflictResolution::OneReferrer
        && let Some(last) = placement.required_by.last()
    {
        return find_referrer_spec(plane, last).is_some_and(preserves_resources);
    }
    has_setting(plane, placement, preserves_resources)
}

fn preserves_resources(spec: &PropagationSpec) -> bool {
    spec.preserve_resources_on_deletion == Some(true)
}

/// Whether the object's policy has a setting; without a policy, that of any referrer.
fn has_setting(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    what: impl Fn(&PropagationSpec) -> bool,
) -> bool {
    if placement.policy.is_some() {
        return plane.find_policy(placement).is_some_and(|policy| what(&policy.spec));
    }
    let referrers = match plane.behaviour.conflict_resolution {
        ConflictResolution::AnyReferrer => placement.required_by.as_slice(),
        ConflictResolution::OneReferrer => placement.required_by.last().map_or(&[][..], std::slice::from_ref),
    };
    referrers.iter().any(|referrer| find_referrer_spec(plane, referrer).is_some_and(&what))
}

/// The spec of a referrer's policy.
fn find_referrer_spec<'p>(
    plane: &'p KarmadaPlanner<'_>,
    referrer: &ObjectRef,
) -> Option<&'p PropagationSpec> {
    let matches = plane.policies.find_matches(&plane.find_template(referrer)?.object);
    matches.first().map(|first| &first.policy.spec)
}

/// Whether chance decides in this release how conflicts about an object that several refer to are resolved, or
/// whether it is preserved. Here the last referrer by name decides.
pub(super) fn is_random_resolution(plane: &KarmadaPlanner<'_>, placement: &Placement) -> bool {
    let mut all = placement.required_by.iter().map(|referrer| {
        let spec = find_referrer_spec(plane, referrer)?;
        Some((&spec.conflict_resolution, spec.preserve_resources_on_deletion))
    });
    let first = all.next();
    plane.behaviour.conflict_resolution == ConflictResolution::OneReferrer
        && all.any(|other| Some(other) != first)
}

/// Renders the clusters of one placement.
struct Render<'r, 'a> {
    plane: &'r KarmadaPlanner<'a>,
    template: &'r Template,
    overwrite: bool,
    /// The policy that claims the template.
    claim: Option<ObjectRef>,
    /// Whether Karmada does not place the object, so that it is sent as it is.
    is_placed_by_settings: bool,
}

/// Whether neither a policy nor a rule of Karmada places an object: `unplaced: everywhere` does, or a source that is built for some
/// clusters.
pub(super) fn is_placed_by_settings(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Object,
) -> bool {
    let unclaimed_from = KarmadaState::from_scheduler_state(&placement.scheduler_state).unclaimed_from;
    placement.policy.is_none()
        && placement.required_by.is_empty()
        && unclaimed_from.is_none()
        && !(plane.implicit && propagates_everywhere(template))
}

impl<'r, 'a> Render<'r, 'a> {
    fn new(plane: &'r KarmadaPlanner<'a>, placement: &Placement, template: &'r Template) -> Self {
        Self {
            plane,
            template,
            overwrite: allows_overwrite(plane, placement),
            claim: placement.policy.clone(),
            is_placed_by_settings: is_placed_by_settings(plane, placement, &template.object),
        }
    }

    /// Clusters for which the same numbers are written.
    fn render_revision(
        &self,
        revision: Option<ReplicaRevision>,
        group: &ClusterGroup,
        variants: &mut Vec<ManifestVariant>,
    ) {
        let Some(first) = group.names.first() else { return };
        let mut object = Cow::Borrowed(self.template.for_cluster(first));
        let interpreter = &self.plane.interpreter;
        let written = revision.map(|revision| {
            let object = object.to_mut();
            let original = object.clone();
            let seen = self.plane.as_scripts_see(&original, self.claim.as_ref());
            revision::write_revision(interpreter, object, &seen, revision)
        });
        match written.unwrap_or(Ok(())) {
            Ok(()) => self.apply_overrides(object, group, variants),
            Err(failed) => variants.push(unrevised_variant(&self.template.object, &failed, group)),
        }
    }

    /// Cluster-wide overrides first, then those of the namespace, which see the result of the former.
    fn apply_overrides(
        &self,
        object: Cow<'_, Object>,
        group: &ClusterGroup,
        variants: &mut Vec<ManifestVariant>,
    ) {
        let wide = self.plane.overrides.matching_policies(None, &object);
        let own = object
            .id
            .namespace
            .as_deref()
            .map(|own| self.plane.overrides.matching_policies(Some(own), &object));
        if wide.is_empty() && own.is_none_or(|own| own.is_empty()) {
            variants.push(self.finish_variant(OverriddenObject::new(object), group, None));
            return;
        }
        // Overrides see the object with its defaults.
        let written = server_defaults::with_encoded_data(&object);
        let mut seen = written.clone().into_owned();
        if let Some(body) = server_defaults::with_defaults(&seen) {
            seen.body = body;
        }
        let mut written = written.into_owned().body;
        let mut defaulted = seen.body.clone();
        if self.claim.is_some() {
            for body in [&mut written, &mut defaulted, &mut seen.body] {
                server_defaults::add_metadata_maps(body);
            }
        }
        let seen = OverriddenObject::new(Cow::Owned(seen));
        self.apply_policies(seen, group, &wide, variants, |former, group, variants| {
            self.apply_own_overrides(former, group, (&written, &defaulted), variants);
        });
    }

    /// Applies the overrides of the namespace, after those that are cluster-wide.
    fn apply_own_overrides(
        &self,
        former: OverriddenObject<'_>,
        group: &ClusterGroup,
        bodies: (&Value, &Value),
        variants: &mut Vec<ManifestVariant>,
    ) {
        let mut own = Vec::new();
        if self.plane.overrides.has_namespaced() {
            // The cluster-wide policies may have renamed the object.
            let renamed = Object::from_manifest(former.object.body.clone(), "");
            let namespace = renamed.id.namespace.as_deref().filter(|namespace| !namespace.is_empty());
            own.extend(
                namespace.iter().flat_map(|own| self.plane.overrides.matching_policies(Some(own), &renamed)),
            );
        }
        self.apply_policies(former, group, &own, variants, |former, group, variants| {
            variants.push(self.finish_variant(former, group, Some(bodies)));
        });
    }

    /// Applies the rules of policies, and calls `next` with the result for each part of the clusters. If a rule fails, the
    /// clusters receive nothing, which is added to `variants`.
    fn apply_policies(
        &self,
        former: OverriddenObject<'_>,
        group: &ClusterGroup,
        policies: &[&CompiledOverridePolicy<'a>],
        variants: &mut Vec<ManifestVariant>,
        next: impl Fn(OverriddenObject<'_>, &ClusterGroup, &mut Vec<ManifestVariant>),
    ) {
        let parts = group.split_by_rules(self.plane, policies);
        if let [(rules, group)] = &*parts
            && rules.is_empty()
        {
            return next(former, group, variants);
        }
        for (rules, group) in parts.iter() {
            if work::is_exceeded() {
                return;
            }
            let former =
                OverriddenObject { object: Cow::Borrowed(&*former.object), changes: former.changes.clone() };
            match apply_rules(policies, rules, former, &group.names) {
                Ok(result) => next(result, group, variants),
                Err(finding) => {
                    let withheld = NotSent { status: "ApplyOverridesFailed", finding: Some(finding) };
                    variants.push(ManifestVariant { clusters: group.names.clone(), rendered: Err(withheld) });
                }
            }
        }
    }

    /// The variant of an object. `bodies` are the object as it is written and with its defaults, if overrides have seen it.
    fn finish_variant(
        &self,
        former: OverriddenObject<'_>,
        group: &ClusterGroup,
        bodies: Option<(&Value, &Value)>,
    ) -> ManifestVariant {
        let mut body = match former.object {
            Cow::Owned(object) => object.body,
            Cow::Borrowed(object) => object.body.clone(),
        };
        work::charge_copy(&body);
        if let Some((written, defaulted)) = bodies {
            body =
                server_defaults::without_defaults(Some(written), Some(defaulted), body).unwrap_or_default();
        }
        if self.is_placed_by_settings {
            pruning::remove_server_fields(&mut body);
        } else {
            pruning::prune_manifest(&mut body, self.overwrite);
        }
        let rendered = RenderedManifest { body, changes: former.changes };
        ManifestVariant { clusters: group.names.clone(), rendered: Ok(rendered) }
    }
}

/// Sets finalizers, if there are any.
pub(super) fn set_finalizers(body: &mut Value, finalizers: Option<Value>) {
    if let (Some(finalizers), Some(metadata)) =
        (finalizers, body.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("finalizers".to_owned(), finalizers);
    }
}

/// An object so far, and what overrides changed in it.
struct OverriddenObject<'o> {
    object: Cow<'o, Object>,
    changes: Vec<OverrideChange>,
}

impl<'o> OverriddenObject<'o> {
    fn new(object: Cow<'o, Object>) -> Self {
        Self { object, changes: Vec::new() }
    }
}

/// The variant of clusters whose replicas no script could write.
fn unrevised_variant(object: &Object, failed: &InterpreterFailure, group: &ClusterGroup) -> ManifestVariant {
    let what = format!("cannot be rendered for {}", list_clusters(&group.names));
    let finding = failed.to_finding(Severity::Error, "revise-failed", &object.id, &what);
    let withheld = NotSent { status: "ReviseReplicaFailed", finding: Some(finding) };
    ManifestVariant { clusters: group.names.clone(), rendered: Err(withheld) }
}

/// The clusters in a message.
fn list_clusters(clusters: &ClusterNames) -> String {
    let shown: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    finding::join_names(&shown, 3)
}

/// The object with the rules applied, and with their changes.
fn apply_rules<'o>(
    policies: &[&CompiledOverridePolicy<'_>],
    rules: &RuleIds,
    mut former: OverriddenObject<'o>,
    clusters: &ClusterNames,
) -> Result<OverriddenObject<'o>, Finding> {
    for (policy, rule) in rules {
        let policy = policies[*policy];
        if work::is_exceeded() {
            break;
        }
        work::charge_copy(&former.object.body);
        let mut changed = Object::clone(&former.object);
        if let Err(failure) = policy.rules[*rule].apply_to_manifest(&mut changed.body) {
            return Err(override_failed(policy, &failure, &changed, clusters));
        }
        former.changes.push(OverrideChange {
            policy: policy.object.id.clone(),
            origin: policy.object.origin.to_string(),
            paths: list_changed_paths(&former.object.body, &changed.body),
        });
        former.object = Cow::Owned(changed);
    }
    Ok(former)
}

/// The differences of two bodies, without empty maps of labels and annotations.
fn list_changed_paths(before: &Value, after: &Value) -> Vec<String> {
    let mut paths = patch::find_differences(before, after);
    paths.retain(|path| {
        !matches!(path.as_str(), "/metadata/labels" | "/metadata/annotations")
            || !after.pointer(path).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
    });
    paths
}

fn override_failed(
    policy: &CompiledOverridePolicy<'_>,
    failure: &OverrideRuleFailure,
    object: &Object,
    clusters: &ClusterNames,
) -> Finding {
    // The message may quote the value of the field.
    let why = if object.id.kind == "Secret" { "it does not fit this Secret" } else { &failure.message };
    let message = format!(
        "{} cannot be rendered for {}: {} fails: {why}",
        object.id,
        list_clusters(clusters),
        policy.object.id,
    );
    let mut finding = Finding::error("override-failed", object, message).with_pointer(&failure.pointer);
    finding.origin = Some(policy.object.origin.clone());
    finding
}
