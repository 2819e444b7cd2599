//! The manifests of a placement: revised, overridden, pruned.
//!
//! Clusters with the same numbers and the same override rules receive the same manifest, which is
//! built once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::api::PropagationSpec;
use super::decide::ties_descend;
use super::interpreter::Failed;
use super::overrides::{Failure, OverridePolicy};
use super::revise::{self, Revision};
use super::version::{Completions, ConflictResolution, Revised};
use super::{Karmadas, prune, schedule};
use federate_dialect::{ClusterNames, OverrideChange, Placed, Placement, Rendered, Variant, Withheld};
use federate_kubernetes::patch;
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef, Severity, finding};
use federate_repo::Template;

/// A rule by policy and number within the policies of a group that match.
type RuleIds = Vec<(usize, usize)>;

/// A cluster of a placement.
#[derive(Clone, Copy)]
struct Target<'p> {
    placed: &'p Placed,
    /// Its index in the inventory; `None` when it has left the inventory.
    index: Option<usize>,
}

/// The variants of a placement.
pub(super) fn variants(plane: &Karmadas<'_>, placement: &Placement, template: &Template) -> Vec<Variant> {
    let render = Render { plane, placement, overwrite: overwrites(plane, placement) };
    let targets: Vec<Target<'_>> = targets(plane, placement).collect();
    let revisions = revisions(plane, placement, &template.object);
    let classes = classes(targets.into_iter().zip(revisions).map(|(target, revision)| {
        // Each cluster has its own rendering of a `*.j2` file.
        let own = if template.per_cluster.is_some() { target.placed.name.as_ref() } else { "" };
        ((revision, own), target)
    }));
    let mut variants = Vec::new();
    for ((revision, _), clusters) in classes {
        let Some(first) = clusters.first() else { continue };
        match revised(plane, template, &first.placed.name, revision) {
            Ok(object) => render.class(object, clusters, &mut variants),
            Err(failed) => variants.push(render.unrevised(&template.object, &failed, &clusters)),
        }
    }
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

/// Items by key. Neighbours usually have the same key, which is looked up once for all of them.
fn classes<K: Ord, T>(items: impl Iterator<Item = (K, T)>) -> BTreeMap<K, Vec<T>> {
    let mut classes: BTreeMap<K, Vec<T>> = BTreeMap::new();
    let mut run: Option<(K, Vec<T>)> = None;
    for (key, item) in items {
        match &mut run {
            Some((known, run)) if *known == key => run.push(item),
            _ => {
                if let Some((key, run)) = run.replace((key, vec![item])) {
                    classes.entry(key).or_default().extend(run);
                }
            }
        }
    }
    if let Some((key, run)) = run {
        classes.entry(key).or_default().extend(run);
    }
    classes
}

/// A copy of a value for each item; the last one gets the value itself.
fn copies<T: Clone, I>(value: T, items: Vec<I>) -> impl Iterator<Item = (T, I)> {
    let last = items.len().saturating_sub(1);
    let mut value = Some(value);
    items.into_iter().enumerate().filter_map(move |(at, item)| {
        let copy = if at == last { value.take() } else { value.clone() };
        Some((copy?, item))
    })
}

/// The manifest of one cluster; `None` where the object is not placed.
pub(super) fn variant(
    plane: &Karmadas<'_>,
    placement: &Placement,
    template: &Template,
    cluster: &str,
) -> Option<Variant> {
    let revisions = revisions(plane, placement, &template.object);
    let mut all = targets(plane, placement).zip(revisions);
    let (target, revision) = all.find(|(target, _)| target.placed.name.as_ref() == cluster)?;
    let render = Render { plane, placement, overwrite: overwrites(plane, placement) };
    let mut variants = Vec::new();
    match revised(plane, template, cluster, revision) {
        Ok(object) => render.class(object, vec![target], &mut variants),
        Err(failed) => variants.push(render.unrevised(&template.object, &failed, &[target])),
    }
    variants.pop()
}

/// The clusters of a placement with their indices in the inventory, which has the same order.
fn targets<'p>(plane: &'p Karmadas<'_>, placement: &'p Placement) -> impl Iterator<Item = Target<'p>> {
    let mut rest = plane.clusters.iter().enumerate().peekable();
    // A placement mostly shares its names with the inventory.
    let is = |c: &Cluster, placed: &Placed| Arc::ptr_eq(&c.name, &placed.name) || c.name == placed.name;
    placement.clusters.iter().map(move |placed| {
        while rest.next_if(|(_, c)| !is(c, placed) && c.name < placed.name).is_some() {}
        let index = rest.peek().filter(|(_, c)| is(c, placed)).map(|(index, _)| *index);
        Target { placed, index }
    })
}

/// The template for a cluster, with the cluster's numbers.
fn revised(
    plane: &Karmadas<'_>,
    template: &Template,
    cluster: &str,
    revision: Option<Revision>,
) -> Result<Object, Failed> {
    let mut object = template.for_cluster(cluster).clone();
    if let Some(revision) = revision {
        revise::written(&plane.interpreter, &mut object, revision)?;
    }
    Ok(object)
}

/// The numbers to write for each cluster of the placement, in its order.
fn revisions(plane: &Karmadas<'_>, placement: &Placement, template: &Object) -> Vec<Option<Revision>> {
    let replicas: Vec<i64> = placement.clusters.iter().map(|p| p.replicas.unwrap_or(0)).collect();
    let scheduling = plane.policy(placement).and_then(|p| p.spec.placement.replica_scheduling.as_ref());
    let divided = schedule::Strategy::of(scheduling) != schedule::Strategy::Duplicated;
    let completions = (divided && replicas.iter().any(|r| *r > 0))
        .then(|| {
            revise::completions(&template.body, &replicas, plane.behaviour.division, ties_descend(template))
        })
        .flatten();
    let revises = divided || plane.behaviour.revised == Revised::All;
    let revision = |(at, placed): (usize, &Placed)| {
        let completions = completions.as_ref().and_then(|all| all.get(at).copied());
        placed.replicas.filter(|_| revises).map(|replicas| Revision { replicas, completions })
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
    placement: &'r Placement,
    overwrite: bool,
}

impl<'a> Render<'_, 'a> {
    /// Clusters for which the same numbers are written: cluster-wide overrides first, then those of
    /// the namespace, which see the result of the former.
    fn class(&self, object: Object, clusters: Vec<Target<'_>>, variants: &mut Vec<Variant>) {
        let wide = self.plane.overrides.matching(None, &object);
        let groups = self.split(&wide, clusters);
        for (object, (rules, clusters)) in copies(object, groups) {
            let Some((object, changes)) =
                self.overridden((object, Vec::new()), (&wide, &rules), &clusters, variants)
            else {
                continue;
            };
            let own = match object.id.namespace.as_deref() {
                Some(namespace) => self.plane.overrides.matching(Some(namespace), &object),
                None => Vec::new(),
            };
            let groups = self.split(&own, clusters);
            for (former, (rules, clusters)) in copies((object, changes), groups) {
                let Some((mut object, changes)) =
                    self.overridden(former, (&own, &rules), &clusters, variants)
                else {
                    continue;
                };
                prune::prune(&mut object.body, self.overwrite);
                let rendered = Ok(Rendered { body: object.body, changes });
                variants.push(Variant { clusters: self.names(&clusters), rendered });
            }
        }
    }

    /// The object with the rules applied, and with the changes so far. If a rule fails, the clusters receive nothing, which is
    /// added to `variants`.
    fn overridden(
        &self,
        (mut object, mut changes): (Object, Vec<OverrideChange>),
        (policies, rules): (&[&OverridePolicy<'a>], &RuleIds),
        clusters: &[Target<'_>],
        variants: &mut Vec<Variant>,
    ) -> Option<(Object, Vec<OverrideChange>)> {
        match apply(policies, rules, &mut object, clusters, &mut changes) {
            Ok(()) => Some((object, changes)),
            Err(finding) => {
                variants.push(self.failed(finding, clusters));
                None
            }
        }
    }

    /// Clusters by the rules that apply to them: split by one policy after the other.
    fn split<'p>(
        &self,
        policies: &[&OverridePolicy<'a>],
        clusters: Vec<Target<'p>>,
    ) -> Vec<(RuleIds, Vec<Target<'p>>)> {
        let inventory = self.plane.clusters;
        let mut groups = vec![(RuleIds::new(), clusters)];
        for (at, policy) in policies.iter().enumerate() {
            let mut split = Vec::new();
            for (rules, clusters) in groups {
                let classes = classes(
                    clusters.into_iter().map(|target| (policy.class(inventory, target.index), target)),
                );
                split.extend(classes.into_iter().map(|(class, clusters)| {
                    let more = policy.rules_of(inventory, class).iter().map(|rule| (at, *rule));
                    (rules.iter().copied().chain(more).collect(), clusters)
                }));
            }
            groups = split;
        }
        groups
    }

    fn names(&self, clusters: &[Target<'_>]) -> ClusterNames {
        if clusters.len() == self.placement.clusters.len() {
            return self.plane.lists.names_of(&self.placement.clusters);
        }
        let indexes: Option<Vec<usize>> = clusters.iter().map(|target| target.index).collect();
        match indexes {
            Some(indexes) => self.plane.lists.names(self.plane.clusters, &indexes),
            None => clusters.iter().map(|target| target.placed.name.clone()).collect(),
        }
    }

    /// The variants of clusters whose replicas no script could write.
    fn unrevised(&self, object: &Object, failed: &Failed, clusters: &[Target<'_>]) -> Variant {
        let shown: Vec<&str> = clusters.iter().map(|target| target.placed.name.as_ref()).collect();
        let what = format!("cannot be rendered for {}", finding::list(&shown, 3));
        let finding = failed.finding(Severity::Error, "revise-failed", &object.id, &what);
        let withheld = Withheld { status: "ReviseReplicaFailed", finding: Some(finding) };
        Variant { clusters: self.names(clusters), rendered: Err(withheld) }
    }

    fn failed(&self, finding: Finding, clusters: &[Target<'_>]) -> Variant {
        let withheld = Withheld { status: "ApplyOverridesFailed", finding: Some(finding) };
        Variant { clusters: self.names(clusters), rendered: Err(withheld) }
    }
}

fn apply(
    policies: &[&OverridePolicy<'_>],
    rules: &RuleIds,
    object: &mut Object,
    clusters: &[Target<'_>],
    changes: &mut Vec<OverrideChange>,
) -> Result<(), Finding> {
    for (policy, rule) in rules {
        let policy = policies[*policy];
        let before = object.body.clone();
        if let Err(failure) = policy.rules[*rule].apply(&mut object.body) {
            return Err(override_failed(policy, &failure, object, clusters));
        }
        changes.push(OverrideChange {
            policy: policy.object.id.clone(),
            origin: policy.object.origin.to_string(),
            paths: differences(&before, &object.body),
        });
    }
    Ok(())
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
    clusters: &[Target<'_>],
) -> Finding {
    let shown: Vec<&str> = clusters.iter().map(|target| target.placed.name.as_ref()).collect();
    // The message may quote the value of the field.
    let why = if object.id.kind == "Secret" { "it does not fit this Secret" } else { &failure.message };
    let message = format!(
        "{} cannot be rendered for {}: {} fails: {why}",
        object.id,
        finding::list(&shown, 3),
        policy.object.id,
    );
    let mut finding = Finding::error("override-failed", object, message).at(&failure.pointer);
    finding.origin = Some(policy.object.origin.clone());
    finding
}
