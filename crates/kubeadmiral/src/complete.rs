//! Decisions that depend on other placements: followers go where their leaders go.

use std::collections::{BTreeMap, BTreeSet};

use super::followers::{self, Reference};
use super::{KubeAdmiralPlane, NAME, advice, decide, keys};
use federate_dialect::{Decided, NotFollowed, Placed, Placement, Unfollowed, Unschedulable};
use federate_kubernetes::{ClusterName, Finding, ObjectRef};

/// The leaders of a follower, and their clusters.
#[derive(Default)]
struct FollowerPlacement {
    clusters: BTreeSet<Placed>,
    leaders: BTreeSet<ObjectRef>,
}

/// Adds the followers to the decisions about all templates.
pub(super) fn complete(plane: &KubeAdmiralPlane<'_>, mut all: Decided) -> Decided {
    let led = led(plane, &mut all.placements);
    for placement in &mut all.placements {
        if let Some(led) = led.get(&key(&placement.object)) {
            follow(plane, placement, led);
        }
    }
    all.findings.extend(all.placements.iter().filter_map(|p| finding(plane, p)));
    all.findings.extend(advice::unreachable(plane, &all.placements));
    all
}

fn key(id: &ObjectRef) -> (Option<String>, Reference) {
    (id.namespace.clone(), (id.group().to_owned(), id.kind.clone(), id.name.clone()))
}

/// Everything that leaders refer to, by namespace and reference.
fn led(
    plane: &KubeAdmiralPlane<'_>,
    placements: &mut [Placement],
) -> BTreeMap<(Option<String>, Reference), FollowerPlacement> {
    let mut all: BTreeMap<(Option<String>, Reference), FollowerPlacement> = BTreeMap::new();
    for placement in placements {
        let Some(leader) = plane.template(&placement.object) else { continue };
        let template = &leader.object;
        let leads = followers::leads(template)
            && KubeAdmiralPlane::leads(placement)
            && template.annotation(keys::NO_SCHEDULING) != Some("true")
            && !followers::is_dry_run(template, Some(placement));
        if !leads {
            continue;
        }
        for (body, clusters) in leader.bodies(placement.clusters.iter().map(|p| &p.name)) {
            match followers::references(body) {
                Err(why) => {
                    let message = format!("the annotation {} cannot be read: {why}", keys::FOLLOWERS);
                    let reason = "FailedInferFollowers".to_owned();
                    placement.unschedulable.get_or_insert(Unschedulable { reason, message });
                }
                Ok(references) => {
                    for reference in references {
                        let led = all.entry((placement.object.namespace.clone(), reference)).or_default();
                        led.leaders.insert(placement.object.clone());
                        let there = |name: &&ClusterName| Placed { name: (*name).clone(), replicas: None };
                        led.clusters.extend(clusters.iter().map(there));
                    }
                }
            }
        }
    }
    all
}

/// Adds the leaders' clusters to a follower's own.
fn follow(plane: &KubeAdmiralPlane<'_>, placement: &mut Placement, led: &FollowerPlacement) {
    let Some(template) = plane.template(&placement.object).map(|t| &t.object) else { return };
    if !followers::follows(&template.id, &plane.types)
        || template.annotation(keys::DISABLE_FOLLOWING) == Some("true")
    {
        return;
    }
    placement.required_by = led.leaders.iter().cloned().collect();
    let clusters: Vec<Placed> = led.clusters.iter().cloned().collect();
    decide::extend(placement, &clusters);
    let unwanted = placement.unschedulable.as_ref().is_some_and(|u| u.reason == "NoPolicy");
    if unwanted && !placement.clusters.is_empty() {
        placement.unschedulable = None;
    }
    if placement.unschedulable.is_none() {
        placement.unschedulable = decide::override_problem(plane, template, placement);
    }
}

/// The templates without a policy whose leaders are on no cluster. Rows are sorted by object.
pub(super) fn unfollowed(
    templates: &[ObjectRef],
    placements: &[Placement],
) -> BTreeMap<ObjectRef, Unfollowed> {
    let row = |id: &ObjectRef| {
        let at = placements.binary_search_by(|row| row.object.cmp(id)).ok()?;
        placements.get(at).filter(|row| row.dialect == NAME && row.clusters.is_empty())
    };
    let leader = |id: &ObjectRef| row(id)?.required_by.iter().find(|leader| row(leader).is_some());
    let unfollowed = |id: &ObjectRef| {
        let leader = leader(id)?.clone();
        Some((id.clone(), Unfollowed { leader, reason: NotFollowed::LeaderNowhere }))
    };
    templates.iter().filter_map(unfollowed).collect()
}

/// The finding about a placement. Overrides that fail are reported where they are applied.
fn finding(plane: &KubeAdmiralPlane<'_>, placement: &Placement) -> Option<Finding> {
    let unschedulable = placement.unschedulable.as_ref()?;
    let reported = matches!(
        unschedulable.reason.as_str(),
        "NoPolicy" | "NotFederated" | "OverrideFailed" | "OverridePolicyNotFound"
    );
    let template = &plane.template(&placement.object)?.object;
    (!reported).then(|| advice::unschedulable(template, unschedulable))
}
