//! The manifests of a placement: revised, overridden, pruned.
//!
//! Clusters with the same numbers and the same override rules receive the same manifest, which is
//! built once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::api::PropagationSpec;
use super::decide::ties_descend;
use super::groups::{Group, RuleIds};
use super::interpreter::Failed;
use super::memory::{SchedulerMemory, is_scheduled};
use super::overrides::{Failure, OverridePolicy};
use super::revise::{self, Revision};
use super::version::{Completions, ConflictResolution, Revised};
use super::{Karmadas, defaults, prune, schedule, stored};
use federate_dialect::{ClusterNames, OverrideChange, Placed, Placement, Rendered, Variant, Withheld};
use federate_kubernetes::patch;
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef, Severity, finding, work};
use federate_repo::Template;

/// The status of a cluster that an object is being evicted from: its copy stays as it is.
pub(super) const EVICTING: &str = "Evicting";

/// The variants of a placement.
pub(super) fn variants(plane: &Karmadas<'_>, placement: &Placement, template: &Template) -> Vec<Variant> {
    let (overwrite, claim) = (overwrites(plane, placement), placement.policy.clone());
    let render = Render { plane, template, overwrite, claim };
    let mut variants = Vec::new();
    let revises = revises(plane, placement);
    if template.per_cluster.is_none()
        && completions(plane, placement, &template.object).is_none()
        && required_replicas(plane, placement, &template.object).is_empty()
    {
        for (revision, group) in plane.groups.of(plane, &placement.clusters, revises).iter() {
            render.revision(*revision, group, &mut variants);
        }
    } else {
        // Each cluster has its own rendering of a `*.j2` file.
        let own = |placed: &'_ Placed| template.per_cluster.is_some().then(|| placed.name.clone());
        let keys = revisions(plane, placement, &template.object).into_iter();
        let keys = keys.zip(placement.clusters.iter().map(own));
        for ((revision, _), group) in Group::all(plane, &placement.clusters).by(plane, keys).iter() {
            render.revision(*revision, group, &mut variants);
        }
    }
    if !placement.withdrawn.is_empty() {
        let withheld = Withheld { status: EVICTING, finding: None };
        let clusters = placement.withdrawn.iter().cloned().collect();
        variants.push(Variant { clusters, rendered: Err(withheld) });
    }
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

/// The manifest of one cluster; `None` where the object is not placed.
pub(super) fn variant(
    plane: &Karmadas<'_>,
    placement: &Placement,
    template: &Template,
    cluster: &str,
) -> Option<Variant> {
    let at = placement.clusters.iter().position(|placed| placed.name.as_ref() == cluster)?;
    let revision = *revisions(plane, placement, &template.object).get(at)?;
    let group = Group::all(plane, &placement.clusters).one(at)?;
    let (overwrite, claim) = (overwrites(plane, placement), placement.policy.clone());
    let render = Render { plane, template, overwrite, claim };
    let mut variants = Vec::new();
    render.revision(revision, &group, &mut variants);
    variants.pop()
}

/// Whether replicas are written into the manifests of a placement.
fn revises(plane: &Karmadas<'_>, placement: &Placement) -> bool {
    divides(plane, placement) || plane.behaviour.revised == Revised::All
}

/// Whether the policy divides replicas.
fn divides(plane: &Karmadas<'_>, placement: &Placement) -> bool {
    let strategy = if let Some(policy) = plane.policy(placement).filter(|policy| !policy.is_lazy()) {
        schedule::Strategy::of(policy.spec.placement.replica_scheduling.as_ref())
    } else {
        // The placement that was applied last counts.
        let applied = SchedulerMemory::of(&placement.memory).applied_placement;
        let applied = applied.and_then(|applied| defaults::placement(&applied, &plane.behaviour));
        schedule::Strategy::of(applied.and_then(|applied| applied.replica_scheduling).as_ref())
    };
    strategy != schedule::Strategy::Duplicated
}

/// The replicas of a workload in clusters where only others need it: those that the others have there.
fn required_replicas(
    plane: &Karmadas<'_>,
    placement: &Placement,
    template: &Object,
) -> BTreeMap<ClusterName, i64> {
    if placement.required_by.is_empty() || !is_scheduled(placement) {
        return BTreeMap::new();
    }
    let workload = plane.interpreter.workload(template).ok();
    if !workload.is_some_and(|workload| workload.is_workload()) {
        return BTreeMap::new();
    }
    SchedulerMemory::of(&placement.memory).required_on
}

/// The completions of a Job for each cluster of the placement, where they are divided.
fn completions(plane: &Karmadas<'_>, placement: &Placement, template: &Object) -> Option<Vec<i64>> {
    if !divides(plane, placement) || placement.clusters.iter().all(|p| p.replicas.is_none_or(|r| r <= 0)) {
        return None;
    }
    let replicas: Vec<i64> = placement.clusters.iter().map(|p| p.replicas.unwrap_or(0)).collect();
    revise::completions(&template.body, &replicas, plane.behaviour.division, ties_descend(template))
}

/// The numbers to write for each cluster of the placement, in its order.
fn revisions(plane: &Karmadas<'_>, placement: &Placement, template: &Object) -> Vec<Option<Revision>> {
    let completions = completions(plane, placement, template);
    let revises = revises(plane, placement);
    let required = required_replicas(plane, placement, template);
    let revision = |(at, placed): (usize, &Placed)| {
        let completions = completions.as_ref().and_then(|all| all.get(at).copied());
        let replicas = placed.replicas.or_else(|| required.get(&placed.name).copied());
        replicas.filter(|_| revises).map(|replicas| Revision { replicas, completions })
    };
    placement.clusters.iter().enumerate().map(revision).collect()
}

/// The step that says what chance decides about the completions of a Job in old releases.
pub(super) fn random_completions(
    plane: &Karmadas<'_>,
    placement: &Placement,
    template: &Object,
) -> Option<String> {
    let placed: Vec<&Placed> = placement.clusters.iter().collect();
    let replicas: Vec<i64> = placed.iter().map(|p| p.replicas.unwrap_or(0)).collect();
    let revisions = revisions(plane, placement, template);
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
    (plane.behaviour.completions == Completions::ByPosition).then(|| {
        format!(
            "Karmada {release} gives completions out by the order of its own list of clusters, which chance \
             decides after a scale-up: here each cluster gets its own"
        )
    })
}

/// Whether objects that exist already are adopted.
pub(super) fn overwrites(plane: &Karmadas<'_>, placement: &Placement) -> bool {
    asks(plane, placement, |spec| spec.conflict_resolution.as_deref() == Some("Overwrite"))
}

/// Whether the object stays in its clusters when its policy is deleted.
pub(super) fn preserves(plane: &Karmadas<'_>, placement: &Placement) -> bool {
    let preserves = |spec: &PropagationSpec| spec.preserve_resources_on_deletion == Some(true);
    if plane.behaviour.conflict_resolution == ConflictResolution::OneReferrer
        && let Some(last) = placement.required_by.last()
    {
        return of_referrer(plane, last).is_some_and(preserves);
    }
    asks(plane, placement, preserves)
}

/// Whether the object's policy has a setting; without a policy, that of any referrer.
fn asks(plane: &Karmadas<'_>, placement: &Placement, what: impl Fn(&PropagationSpec) -> bool) -> bool {
    if placement.policy.is_some() {
        return plane.policy(placement).is_some_and(|policy| what(&policy.spec));
    }
    let referrers = match plane.behaviour.conflict_resolution {
        ConflictResolution::AnyReferrer => placement.required_by.as_slice(),
        ConflictResolution::OneReferrer => placement.required_by.last().map_or(&[][..], std::slice::from_ref),
    };
    referrers.iter().any(|referrer| of_referrer(plane, referrer).is_some_and(&what))
}

/// The spec of a referrer's policy.
fn of_referrer<'p>(plane: &'p Karmadas<'_>, referrer: &ObjectRef) -> Option<&'p PropagationSpec> {
    let matches = plane.policies.matches(&plane.template(referrer)?.object);
    matches.first().map(|first| &first.policy.spec)
}

/// Whether chance decides in this release how conflicts about an object that several refer to are resolved, or
/// whether it is preserved. Here the last referrer by name decides.
pub(super) fn is_random_resolution(plane: &Karmadas<'_>, placement: &Placement) -> bool {
    let says = |referrer: &ObjectRef| {
        let spec = of_referrer(plane, referrer)?;
        Some((spec.conflict_resolution.clone(), spec.preserve_resources_on_deletion))
    };
    let mut all = placement.required_by.iter().map(says);
    let first = all.next();
    plane.behaviour.conflict_resolution == ConflictResolution::OneReferrer
        && all.any(|other| Some(other) != first)
}

/// Renders the clusters of one placement.
struct Render<'r, 'a> {
    plane: &'r Karmadas<'a>,
    template: &'r Template,
    overwrite: bool,
    /// The policy that claims the template.
    claim: Option<ObjectRef>,
}

impl<'a> Render<'_, 'a> {
    /// Clusters for which the same numbers are written.
    fn revision(&self, revision: Option<Revision>, group: &Group, variants: &mut Vec<Variant>) {
        let Some(first) = group.names.first() else { return };
        let mut object = Cow::Borrowed(self.template.for_cluster(first));
        let interpreter = &self.plane.interpreter;
        let written = revision.map(|revision| {
            let object = object.to_mut();
            let original = object.clone();
            let seen = self.plane.as_scripts_see(&original, self.claim.as_ref());
            revise::written(interpreter, object, &seen, revision)
        });
        match written.unwrap_or(Ok(())) {
            Ok(()) => self.overrides(object, group, variants),
            Err(failed) => variants.push(unrevised(&self.template.object, &failed, group)),
        }
    }

    /// Cluster-wide overrides first, then those of the namespace, which see the result of the former.
    fn overrides(&self, object: Cow<'_, Object>, group: &Group, variants: &mut Vec<Variant>) {
        let wide = self.plane.overrides.matching(None, &object);
        let own = object.id.namespace.as_deref().map(|own| self.plane.overrides.matching(Some(own), &object));
        if wide.is_empty() && own.is_none_or(|own| own.is_empty()) {
            variants.push(self.finished((object, Vec::new()), group, None));
            return;
        }
        // Overrides see the object with its defaults.
        let written = stored::with_encoded_data(&object);
        let mut seen = written.clone().into_owned();
        if let Some(body) = stored::with_defaults(&seen) {
            seen.body = body;
        }
        let mut written = written.into_owned().body;
        let mut defaulted = seen.body.clone();
        if self.claim.is_some() {
            for body in [&mut written, &mut defaulted, &mut seen.body] {
                stored::add_metadata_maps(body);
            }
        }
        let bodies = (&written, &defaulted);
        let own = |former: Former<'_>, group: &Group, variants: &mut Vec<Variant>| {
            // The cluster-wide policies may have renamed the object.
            let renamed = Object::of(former.0.body.clone(), "");
            let namespace = renamed.id.namespace.as_deref().filter(|namespace| !namespace.is_empty());
            let own = namespace.map(|own| self.plane.overrides.matching(Some(own), &renamed));
            let finish = |former: Former<'_>, group: &Group, variants: &mut Vec<Variant>| {
                variants.push(self.finished(former, group, Some(bodies)));
            };
            self.each((former, group), &own.unwrap_or_default(), variants, finish);
        };
        self.each(((Cow::Owned(seen), Vec::new()), group), &wide, variants, own);
    }

    /// Applies the rules of policies, and calls `next` with the result for each part of the clusters. If a rule fails, the
    /// clusters receive nothing, which is added to `variants`.
    fn each(
        &self,
        ((object, changes), group): (Former<'_>, &Group),
        policies: &[&OverridePolicy<'a>],
        variants: &mut Vec<Variant>,
        next: impl Fn(Former<'_>, &Group, &mut Vec<Variant>),
    ) {
        let parts = group.split(self.plane, policies);
        if let [(rules, group)] = &*parts
            && rules.is_empty()
        {
            return next((object, changes), group, variants);
        }
        for (rules, group) in parts.iter() {
            let former = (Cow::Borrowed(&*object), changes.clone());
            match apply(policies, rules, former, &group.names) {
                Ok(result) => next(result, group, variants),
                Err(finding) => {
                    let withheld = Withheld { status: "ApplyOverridesFailed", finding: Some(finding) };
                    variants.push(Variant { clusters: group.names.clone(), rendered: Err(withheld) });
                }
            }
        }
    }

    /// The variant of an object. `bodies` are the object as it is written and with its defaults, if overrides have seen it.
    fn finished(
        &self,
        (object, changes): Former<'_>,
        group: &Group,
        bodies: Option<(&Value, &Value)>,
    ) -> Variant {
        let mut body = match object {
            Cow::Owned(object) => object.body,
            Cow::Borrowed(object) => object.body.clone(),
        };
        if let Some((written, defaulted)) = bodies {
            body = stored::without_defaults(Some(written), Some(defaulted), body).unwrap_or_default();
        }
        prune::prune(&mut body, self.overwrite);
        Variant { clusters: group.names.clone(), rendered: Ok(Rendered { body, changes }) }
    }
}

/// An object so far, and what overrides changed in it.
type Former<'o> = (Cow<'o, Object>, Vec<OverrideChange>);

/// The variant of clusters whose replicas no script could write.
fn unrevised(object: &Object, failed: &Failed, group: &Group) -> Variant {
    let what = format!("cannot be rendered for {}", named(&group.names));
    let finding = failed.finding(Severity::Error, "revise-failed", &object.id, &what);
    let withheld = Withheld { status: "ReviseReplicaFailed", finding: Some(finding) };
    Variant { clusters: group.names.clone(), rendered: Err(withheld) }
}

/// The clusters in a message.
fn named(clusters: &ClusterNames) -> String {
    let shown: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    finding::list(&shown, 3)
}

/// The object with the rules applied, and with their changes.
fn apply<'o>(
    policies: &[&OverridePolicy<'_>],
    rules: &RuleIds,
    (mut object, mut changes): Former<'o>,
    clusters: &ClusterNames,
) -> Result<Former<'o>, Finding> {
    for (policy, rule) in rules {
        let policy = policies[*policy];
        if work::is_exceeded() {
            break;
        }
        let mut changed = Object::clone(&object);
        if let Err(failure) = policy.rules[*rule].apply(&mut changed.body) {
            return Err(override_failed(policy, &failure, &changed, clusters));
        }
        changes.push(OverrideChange {
            policy: policy.object.id.clone(),
            origin: policy.object.origin.to_string(),
            paths: differences(&object.body, &changed.body),
        });
        object = Cow::Owned(changed);
    }
    Ok((object, changes))
}

/// Removes empty maps of labels and annotations.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let empty = |path: &String| {
        matches!(path.as_str(), "/metadata/labels" | "/metadata/annotations")
            && after.pointer(path).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
    };
    patch::differences(before, after).into_iter().filter(|path| !empty(path)).collect()
}

fn override_failed(
    policy: &OverridePolicy<'_>,
    failure: &Failure,
    object: &Object,
    clusters: &ClusterNames,
) -> Finding {
    // The message may quote the value of the field.
    let why = if object.id.kind == "Secret" { "it does not fit this Secret" } else { &failure.message };
    let message = format!(
        "{} cannot be rendered for {}: {} fails: {why}",
        object.id,
        named(clusters),
        policy.object.id,
    );
    let mut finding = Finding::error("override-failed", object, message).at(&failure.pointer);
    finding.origin = Some(policy.object.origin.clone());
    finding
}
