//! `propagateDeps`: the objects that a placed object refers to go to its clusters.
//!
//! Facts: only references that exist in the referrer's namespace count; an object that several
//! refer to goes to the union of their clusters and of those that its own policy chose; no replicas are
//! decided. Where a `*.j2` template refers to other objects for other clusters, each goes only to the
//! clusters where it is referred to.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::dependencies::{DependencyTarget, DependentObjectReference};
use super::state::{KarmadaState, is_scheduled};
use super::{KarmadaPlanner, NAME, schedule};
use federate_dialect::{
    DialectDecisions, Placed, Placement, PreviousPlan, UnplacedFollower, UnplacedFollowerReason,
};
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef, Severity, work};

/// The steps of an object that another one refers to.
const STEPS_PER_FOLLOWER: u64 = 20;
/// The steps of reading the labels of an object that may be one.
const STEPS_PER_CANDIDATE: u64 = 30;

/// The clusters and referrers of an object that others refer to.
#[derive(Default)]
struct Needed {
    /// The referrers, each with the number of its row.
    by: BTreeMap<ObjectRef, usize>,
    /// One bit per cluster of a placement that others follow, in name order.
    on: Vec<u64>,
}

impl Needed {
    fn add_clusters(&mut self, clusters: &[u64]) {
        self.on.resize(clusters.len(), 0);
        for (own, other) in self.on.iter_mut().zip(clusters) {
            *own |= other;
        }
    }

    /// The clusters, in name order.
    fn required_clusters<'n>(&self, names: &'n [ClusterName]) -> impl Iterator<Item = &'n ClusterName> {
        let named = names.iter().enumerate();
        named
            .filter(|(at, _)| self.on.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1))
            .map(|(_, name)| name)
    }
}

/// A set of clusters as bits.
fn encode_clusters<'c>(
    names: &[ClusterName],
    clusters: impl IntoIterator<Item = &'c ClusterName>,
) -> Vec<u64> {
    let mut bits = vec![0; names.len().div_ceil(64)];
    for cluster in clusters {
        if let Ok(at) = names.binary_search(cluster) {
            bits[at / 64] |= 1 << (at % 64);
        }
    }
    bits
}

/// Adds the dependencies to all decisions.
pub(super) fn add_followers(
    plane: &KarmadaPlanner<'_>,
    mut all: DialectDecisions,
    previous: &PreviousPlan,
) -> DialectDecisions {
    let names = collect_cluster_names(plane, &all.placements, previous);
    let mut needed = collect_dependencies(plane, &all.placements, &names, previous, &mut all.findings);
    if needed.is_empty() {
        return all;
    }
    let own = all.placements.iter().enumerate();
    let own = own.filter_map(|(at, row)| Some((at, needed.remove(&row.object)?)));
    let own: Vec<_> =
        own.map(|(at, needed)| (at, required_on(&all.placements, at, &needed, &names), needed)).collect();
    for (at, required_on, needed) in own {
        if let Some(placement) = all.placements.get_mut(at) {
            merge_needed(plane, placement, needed, &names);
            if is_scheduled(placement) && !required_on.is_empty() {
                let mut state = KarmadaState::from_scheduler_state(&placement.scheduler_state);
                state.required_on = required_on;
                placement.scheduler_state = state.into_scheduler_state();
            }
        }
    }
    for (object, needed) in needed {
        let mut placement = Placement::new(NAME, object, None);
        merge_needed(plane, &mut placement, needed, &names);
        all.placements.push(placement);
    }
    all
}

/// The clusters where only others need the object of a row, with the replicas of the first of them.
fn required_on(
    placements: &[Placement],
    row: usize,
    needed: &Needed,
    names: &[ClusterName],
) -> BTreeMap<ClusterName, i64> {
    let own = placements.get(row).map(|row| &row.clusters);
    let added =
        needed.required_clusters(names).filter(|name| own.is_none_or(|own| !own.contains_cluster(name)));
    added
        .map(|name| {
            work::charge_items(8 + needed.by.len());
            let mut held =
                needed.by.values().filter_map(|at| placements.get(*at)?.clusters.find_cluster(name));
            (name.clone(), held.next().and_then(|placed| placed.replicas).unwrap_or(0))
        })
        .collect()
}

/// Whether the objects that a placed object refers to follow it.
fn is_followed(plane: &KarmadaPlanner<'_>, placement: &Placement) -> bool {
    !placement.clusters.is_empty() && plane.find_policy(placement).is_some_and(|p| p.spec.propagate_deps)
}

/// The templates that an object refers to which is on no cluster, or whose policy does not propagate dependencies.
pub(super) fn find_unfollowed(
    plane: &KarmadaPlanner<'_>,
    templates: &[ObjectRef],
    placements: &[Placement],
) -> BTreeMap<ObjectRef, UnplacedFollower> {
    let requested: BTreeSet<&ObjectRef> = templates.iter().collect();
    let namespaces: BTreeSet<&str> = templates.iter().filter_map(|id| id.namespace.as_deref()).collect();
    let mut all = BTreeMap::new();
    for placement in placements {
        let namespace = placement.object.namespace.as_deref();
        if !namespace.is_some_and(|namespace| namespaces.contains(namespace)) || is_followed(plane, placement)
        {
            continue;
        }
        let Some(spec) = plane.find_policy(placement).map(|policy| &policy.spec) else { continue };
        let reason = match &placement.policy {
            Some(policy) if !spec.propagate_deps => UnplacedFollowerReason::NotPropagated {
                policy: policy.clone(),
                setting: "propagateDeps: true",
            },
            _ => UnplacedFollowerReason::LeaderNowhere,
        };
        let unfollowed = UnplacedFollower { leader: placement.object.clone(), reason };
        let Some(leader) = plane.find_template(&placement.object) else { continue };
        let dependencies = plane.interpreter.needed_by(&leader.object).unwrap_or_default();
        let objects = dependencies.iter().flat_map(|dependency| find_templates(plane, dependency));
        for object in objects.filter(|object| requested.contains(&object.id)) {
            work::charge_steps(STEPS_PER_FOLLOWER);
            if work::is_exceeded() {
                return all;
            }
            let known = all.entry(object.id.clone()).or_insert_with(|| unfollowed.clone());
            if known.reason != UnplacedFollowerReason::LeaderNowhere
                && unfollowed.reason == UnplacedFollowerReason::LeaderNowhere
            {
                *known = unfollowed.clone();
            }
        }
    }
    all
}

/// Whether no policy claims an object any more, so that its dependencies stay as they are.
fn is_unclaimed(placement: &Placement) -> bool {
    placement.policy.is_none() && is_scheduled(placement)
}

/// The clusters of all placements that others follow, and those where dependencies may stay. A list that many placements
/// share is read once.
fn collect_cluster_names(
    plane: &KarmadaPlanner<'_>,
    placements: &[Placement],
    previous: &PreviousPlan,
) -> Vec<ClusterName> {
    let mut seen = HashSet::new();
    let mut names: BTreeSet<&ClusterName> = BTreeSet::new();
    for placement in placements {
        if (is_followed(plane, placement) || is_unclaimed(placement))
            && seen.insert(placement.clusters.list_address())
        {
            names.extend(placement.clusters.iter().map(|placed| &placed.name));
        }
    }
    for row in previous.rows().iter().filter(|row| row.dialect == NAME && !row.required_by.is_empty()) {
        if seen.insert(row.clusters.list_address()) {
            let known = row.clusters.iter().map(|placed| &placed.name);
            names.extend(known.filter(|name| schedule::index_of(plane.clusters, name).is_some()));
        }
    }
    names.into_iter().cloned().collect()
}

fn collect_dependencies(
    plane: &KarmadaPlanner<'_>,
    placements: &[Placement],
    names: &[ClusterName],
    previous: &PreviousPlan,
    findings: &mut Vec<Finding>,
) -> BTreeMap<ObjectRef, Needed> {
    let mut needed: BTreeMap<ObjectRef, Needed> = BTreeMap::new();
    let mut stale: BTreeMap<&ObjectRef, usize> = BTreeMap::new();
    for (at, placement) in placements.iter().enumerate() {
        if is_unclaimed(placement) {
            stale.insert(&placement.object, at);
        }
        if !is_followed(plane, placement) {
            continue;
        }
        let referrer = plane.find_template(&placement.object);
        let Some(referrer) = referrer.filter(|one| one.object.id.namespace.is_some()) else { continue };
        for (body, clusters) in referrer.group_bodies(placement.clusters.iter().map(|p| &p.name)) {
            let clusters = encode_clusters(names, clusters);
            let seen = plane.as_scripts_see(body, placement.policy.as_ref());
            let dependencies = match plane.interpreter.needed_by(&seen) {
                Ok(dependencies) => dependencies,
                Err(failed) => {
                    let what = "keeps the dependencies that it had";
                    let code = "dependencies-failed";
                    findings.push(failed.to_finding(Severity::Warning, code, &placement.object, what));
                    stale.insert(&placement.object, at);
                    continue;
                }
            };
            for dependency in dependencies {
                for object in find_templates(plane, &dependency) {
                    work::charge_steps(STEPS_PER_FOLLOWER + clusters.len() as u64);
                    if work::is_exceeded() {
                        return needed;
                    }
                    let entry = needed.entry(object.id.clone()).or_default();
                    entry.by.insert(placement.object.clone(), at);
                    entry.add_clusters(&clusters);
                }
            }
        }
    }
    if !stale.is_empty() {
        keep_dependencies(plane, &stale, names, previous, &mut needed);
    }
    needed
}

/// Leaves the dependencies of some referrers, each given with the number of its row, where the previous plan has them.
fn keep_dependencies(
    plane: &KarmadaPlanner<'_>,
    stale: &BTreeMap<&ObjectRef, usize>,
    names: &[ClusterName],
    previous: &PreviousPlan,
    needed: &mut BTreeMap<ObjectRef, Needed>,
) {
    for template in plane.templates {
        let id = &template.object.id;
        let Some(row) = previous.find_row(id).filter(|row| row.dialect == NAME) else { continue };
        let state = is_scheduled(row).then(|| KarmadaState::from_scheduler_state(&row.scheduler_state));
        let all_stale = row.required_by.iter().all(|referrer| stale.contains_key(referrer));
        for (referrer, at) in row.required_by.iter().filter_map(|referrer| stale.get_key_value(referrer)) {
            let entry = needed.entry(id.clone()).or_default();
            entry.by.insert((*referrer).clone(), *at);
            let there = previous.find_row(referrer).map(|row| &row.clusters);
            let required = row.clusters.iter().map(|placed| &placed.name).filter(|name| {
                state.as_ref().is_none_or(|state| !state.has_chosen(name))
                    && (all_stale || there.is_none_or(|there| there.contains_cluster(name)))
            });
            entry.add_clusters(&encode_clusters(names, required));
        }
    }
}

/// The templates that a reference selects.
fn find_templates<'p>(
    plane: &'p KarmadaPlanner<'_>,
    dependency: &DependentObjectReference,
) -> Vec<&'p Object> {
    match &dependency.target {
        DependencyTarget::Name(name) => {
            plane.find_template(&dependency.object_named(name)).map(|t| &t.object).into_iter().collect()
        }
        DependencyTarget::Labels(selector) => {
            let first = dependency.object_named("");
            let kind = (&first.api_version, &first.kind, &first.namespace);
            let from = plane.templates.partition_point(|t| t.object.id < first);
            plane.templates[from..]
                .iter()
                .map(|t| &t.object)
                .take_while(|o| (&o.id.api_version, &o.id.kind, &o.id.namespace) == kind)
                .take_while(|_| !work::is_exceeded())
                .inspect(|_| work::charge_steps(STEPS_PER_CANDIDATE))
                .filter(|o| selector.matches(&o.labels()))
                .collect()
        }
    }
}

fn merge_needed(
    plane: &KarmadaPlanner<'_>,
    placement: &mut Placement,
    needed: Needed,
    names: &[ClusterName],
) {
    let added = needed.required_clusters(names).filter(|name| !placement.clusters.contains_cluster(name));
    work::charge_items(names.len());
    let added: Vec<Placed> = added.map(|name| Placed { name: name.clone(), replicas: None }).collect();
    placement.clusters.extend(added);
    placement.required_by = needed.by.into_keys().collect();
    // What its own policy suspends, it suspends in these clusters, too.
    placement.suspended =
        plane.find_policy(placement).map(|policy| policy.suspended_clusters(placement)).unwrap_or_default();
}
