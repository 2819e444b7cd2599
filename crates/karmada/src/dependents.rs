//! `propagateDeps`: the objects that a placed object refers to go to its clusters.
//!
//! Facts: only references that exist in the referrer's namespace count; an object that several
//! refer to goes to the union of their clusters and of those that its own policy chose; no replicas are
//! decided. Where a `*.j2` template refers to other objects for other clusters, each goes only to the
//! clusters where it is referred to.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::dependencies::{Dependency, Target};
use super::{Karmadas, NAME};
use federate_dialect::{Decided, NotFollowed, Placed, Placement, Previous, Unfollowed};
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef, Severity};

/// The clusters and referrers of an object that others refer to.
#[derive(Default)]
struct Needed {
    by: BTreeSet<ObjectRef>,
    /// One bit per cluster of a placement that others follow, in name order.
    on: Vec<u64>,
}

impl Needed {
    fn add(&mut self, clusters: &[u64]) {
        self.on.resize(clusters.len(), 0);
        for (own, other) in self.on.iter_mut().zip(clusters) {
            *own |= other;
        }
    }
}

/// A set of clusters as bits.
fn bits<'c>(names: &[ClusterName], clusters: impl IntoIterator<Item = &'c ClusterName>) -> Vec<u64> {
    let mut bits = vec![0; names.len().div_ceil(64)];
    for cluster in clusters {
        if let Ok(at) = names.binary_search(cluster) {
            bits[at / 64] |= 1 << (at % 64);
        }
    }
    bits
}

/// Adds the dependencies to all decisions.
pub(super) fn complete(plane: &Karmadas<'_>, mut all: Decided, previous: &Previous) -> Decided {
    let names = names(plane, &all.placements);
    let mut needed = needed(plane, &all.placements, &names, previous, &mut all.findings);
    if needed.is_empty() {
        return all;
    }
    for placement in &mut all.placements {
        if let Some(needed) = needed.remove(&placement.object) {
            join(plane, placement, needed, &names);
        }
    }
    for (object, needed) in needed {
        let mut placement = Placement::new(NAME, object, None);
        join(plane, &mut placement, needed, &names);
        all.placements.push(placement);
    }
    all
}

/// Whether the objects that a placed object refers to follow it.
fn is_followed(plane: &Karmadas<'_>, placement: &Placement) -> bool {
    !placement.clusters.is_empty() && plane.policy(placement).is_some_and(|p| p.spec.propagate_deps)
}

/// The templates that an object refers to which is on no cluster, or whose policy does not propagate dependencies.
pub(super) fn unfollowed(
    plane: &Karmadas<'_>,
    templates: &[ObjectRef],
    placements: &[Placement],
) -> BTreeMap<ObjectRef, Unfollowed> {
    let wanted: BTreeSet<&ObjectRef> = templates.iter().collect();
    let namespaces: BTreeSet<&str> = templates.iter().filter_map(|id| id.namespace.as_deref()).collect();
    let refers = |placement: &Placement| {
        let namespace = placement.object.namespace.as_deref()?;
        if !namespaces.contains(namespace) || is_followed(plane, placement) {
            return None;
        }
        let spec = &plane.policy(placement)?.spec;
        let reason = if spec.propagate_deps {
            NotFollowed::LeaderNowhere
        } else {
            NotFollowed::NotPropagated { policy: placement.policy.clone()?, setting: "propagateDeps: true" }
        };
        let unfollowed = Unfollowed { leader: placement.object.clone(), reason };
        let dependencies = plane.interpreter.needed_by(&plane.template(&placement.object)?.object).ok()?;
        let objects = dependencies.iter().flat_map(|dependency| existing(plane, dependency));
        let objects = objects.filter(|object| wanted.contains(&object.id));
        Some(objects.map(|object| (object.id.clone(), unfollowed.clone())).collect::<Vec<_>>())
    };
    let mut all = BTreeMap::new();
    for (object, unfollowed) in placements.iter().filter_map(refers).flatten() {
        let known = all.entry(object).or_insert_with(|| unfollowed.clone());
        if known.reason != NotFollowed::LeaderNowhere && unfollowed.reason == NotFollowed::LeaderNowhere {
            *known = unfollowed;
        }
    }
    all
}

/// The clusters of all placements that others follow. A list that many placements share is read once.
fn names(plane: &Karmadas<'_>, placements: &[Placement]) -> Vec<ClusterName> {
    let mut seen = HashSet::new();
    let mut names: BTreeSet<&ClusterName> = BTreeSet::new();
    for placement in placements.iter().filter(|placement| is_followed(plane, placement)) {
        if seen.insert(placement.clusters.address()) {
            names.extend(placement.clusters.iter().map(|placed| &placed.name));
        }
    }
    names.into_iter().cloned().collect()
}

fn needed(
    plane: &Karmadas<'_>,
    placements: &[Placement],
    names: &[ClusterName],
    previous: &Previous,
    findings: &mut Vec<Finding>,
) -> BTreeMap<ObjectRef, Needed> {
    let mut needed: BTreeMap<ObjectRef, Needed> = BTreeMap::new();
    for placement in placements.iter().filter(|placement| is_followed(plane, placement)) {
        let referrer = plane.template(&placement.object);
        let Some(referrer) = referrer.filter(|one| one.object.id.namespace.is_some()) else { continue };
        for (body, clusters) in referrer.bodies(placement.clusters.iter().map(|p| &p.name)) {
            let clusters = bits(names, clusters);
            let dependencies = match plane.interpreter.needed_by(body) {
                Ok(dependencies) => dependencies,
                Err(failed) => {
                    let what = "keeps the dependencies that it had";
                    let code = "dependencies-failed";
                    findings.push(failed.finding(Severity::Warning, code, &placement.object, what));
                    as_before(plane, &placement.object, &clusters, previous, &mut needed);
                    continue;
                }
            };
            for dependency in dependencies {
                for object in existing(plane, &dependency) {
                    let entry = needed.entry(object.id.clone()).or_default();
                    entry.by.insert(placement.object.clone());
                    entry.add(&clusters);
                }
            }
        }
    }
    needed
}

/// The references of an object in the previous plan, on its present clusters.
fn as_before(
    plane: &Karmadas<'_>,
    referrer: &ObjectRef,
    clusters: &[u64],
    previous: &Previous,
    needed: &mut BTreeMap<ObjectRef, Needed>,
) {
    for template in plane.templates {
        let id = &template.object.id;
        if previous.of(id).is_some_and(|row| row.required_by.contains(referrer)) {
            let entry = needed.entry(id.clone()).or_default();
            entry.by.insert(referrer.clone());
            entry.add(clusters);
        }
    }
}

/// The templates that a reference selects.
fn existing<'p>(plane: &'p Karmadas<'_>, dependency: &Dependency) -> Vec<&'p Object> {
    let id = |name: &str| ObjectRef {
        api_version: dependency.api_version.to_string(),
        kind: dependency.kind.to_string(),
        namespace: dependency.namespace.clone(),
        name: name.to_owned(),
    };
    match &dependency.target {
        Target::Name(name) => plane.template(&id(name)).map(|t| &t.object).into_iter().collect(),
        Target::Labels(selector) => {
            let kind = id("");
            let from = plane.templates.partition_point(|t| t.object.id < kind);
            plane.templates[from..]
                .iter()
                .map(|t| &t.object)
                .take_while(|o| {
                    let same = |a: &ObjectRef, b: &ObjectRef| {
                        (&a.api_version, &a.kind, &a.namespace) == (&b.api_version, &b.kind, &b.namespace)
                    };
                    same(&o.id, &kind)
                })
                .filter(|o| selector.matches(&o.labels()))
                .collect()
        }
    }
}

fn join(plane: &Karmadas<'_>, placement: &mut Placement, needed: Needed, names: &[ClusterName]) {
    let own = bits(names, placement.clusters.iter().map(|p| &p.name));
    let has = |bits: &[u64], at: usize| bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
    let added = (0..).zip(names).filter(|(at, _)| has(&needed.on, *at) && !has(&own, *at));
    placement.clusters.extend(added.map(|(_, name)| Placed { name: name.clone(), replicas: None }));
    placement.required_by = needed.by.into_iter().collect();
    // What its own policy suspends, it suspends in these clusters, too.
    placement.suspended =
        plane.policy(placement).map(|policy| policy.suspended(placement)).unwrap_or_default();
}
