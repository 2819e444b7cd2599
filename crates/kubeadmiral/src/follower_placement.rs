//! Decisions that depend on other placements: followers go where their leaders go.

use std::collections::{BTreeMap, BTreeSet};

use super::followers::{self, FollowerReference};
use super::{KubeAdmiralPlanner, NAME, NOT_FEDERATED, advice, decision, keys};
use federate_dialect::{
    DialectDecisions, Placed, Placement, UnplacedFollower, UnplacedFollowerReason, Unschedulable,
};
use federate_kubernetes::{Finding, ObjectRef, work};

/// The steps of an object that another one refers to, and of a cluster where it goes.
const STEPS_PER_FOLLOWER: u64 = 20;
const STEPS_PER_CLUSTER: u64 = 5;

/// The leaders of a follower, and their clusters.
#[derive(Default)]
struct FollowerPlacement {
    clusters: BTreeSet<Placed>,
    leaders: BTreeSet<ObjectRef>,
}

/// Adds the followers to the decisions about all templates.
pub(super) fn add_followers(plane: &KubeAdmiralPlanner<'_>, mut all: DialectDecisions) -> DialectDecisions {
    let led = collect_followed(plane, &mut all.placements);
    for placement in &mut all.placements {
        if let Some(led) = led.get(&reference_key(&placement.object)) {
            follow_leaders(plane, placement, led);
        }
    }
    all.findings.extend(all.placements.iter().filter_map(|p| unschedulable_placement(plane, p)));
    all.findings.extend(advice::unreachable_findings(plane, &all.placements));
    all
}

fn reference_key(id: &ObjectRef) -> (Option<String>, FollowerReference) {
    (id.namespace.clone(), (id.group().to_owned(), id.kind.clone(), id.name.clone()))
}

/// Everything that leaders refer to, by namespace and reference.
fn collect_followed(
    plane: &KubeAdmiralPlanner<'_>,
    placements: &mut [Placement],
) -> BTreeMap<(Option<String>, FollowerReference), FollowerPlacement> {
    let mut all: BTreeMap<(Option<String>, FollowerReference), FollowerPlacement> = BTreeMap::new();
    for placement in placements {
        let Some(leader) = plane.find_template(&placement.object) else { continue };
        let template = &leader.object;
        let leads = followers::can_lead(template)
            && KubeAdmiralPlanner::allows_followers(placement)
            && template.annotation(keys::NO_SCHEDULING) != Some("true")
            && !followers::is_dry_run(template, Some(placement));
        if !leads {
            continue;
        }
        for (body, clusters) in leader.group_bodies(placement.clusters.iter().map(|p| &p.name)) {
            match followers::find_references(body) {
                Err(why) => {
                    let message = format!("the annotation {} cannot be read: {why}", keys::FOLLOWERS);
                    let reason = "FailedInferFollowers".to_owned();
                    placement.unschedulable.get_or_insert(Unschedulable { reason, message });
                }
                Ok(references) => {
                    for reference in references {
                        work::charge_steps(STEPS_PER_FOLLOWER + STEPS_PER_CLUSTER * clusters.len() as u64);
                        if work::is_exceeded() {
                            return all;
                        }
                        let led = all.entry((placement.object.namespace.clone(), reference)).or_default();
                        led.leaders.insert(placement.object.clone());
                        let names = clusters.iter().copied().cloned();
                        led.clusters.extend(names.map(|name| Placed { name, replicas: None }));
                    }
                }
            }
        }
    }
    all
}

/// Adds the leaders' clusters to a follower's own.
fn follow_leaders(plane: &KubeAdmiralPlanner<'_>, placement: &mut Placement, led: &FollowerPlacement) {
    let Some(template) = plane.find_template(&placement.object).map(|t| &t.object) else { return };
    if !followers::can_follow(&template.id, &plane.types)
        || template.annotation(keys::DISABLE_FOLLOWING) == Some("true")
    {
        return;
    }
    work::charge_steps(STEPS_PER_CLUSTER * (led.leaders.len() + led.clusters.len()) as u64);
    placement.required_by = led.leaders.iter().cloned().collect();
    let clusters: Vec<Placed> = led.clusters.iter().cloned().collect();
    decision::add_clusters(placement, &clusters);
    let unwanted = placement.unschedulable.as_ref().is_some_and(|u| u.reason == "NoPolicy");
    if unwanted && !placement.clusters.is_empty() {
        placement.unschedulable = None;
    }
    if placement.unschedulable.is_none() {
        placement.unschedulable = decision::override_problem(plane, template, placement);
    }
}

/// The templates without a policy whose leaders are on no cluster. Rows are sorted by object.
pub(super) fn unplaced_followers(
    templates: &[ObjectRef],
    placements: &[Placement],
) -> BTreeMap<ObjectRef, UnplacedFollower> {
    let mut followers = BTreeMap::new();
    for id in templates {
        let Some(row) = find_unplaced(placements, id) else { continue };
        let leader = row.required_by.iter().find(|leader| find_unplaced(placements, leader).is_some());
        followers.extend(leader.map(|leader| {
            let reason = UnplacedFollowerReason::LeaderNowhere;
            (id.clone(), UnplacedFollower { leader: leader.clone(), reason })
        }));
    }
    followers
}

/// The row of an object that is on no cluster.
fn find_unplaced<'p>(placements: &'p [Placement], id: &ObjectRef) -> Option<&'p Placement> {
    let at = placements.binary_search_by(|row| row.object.cmp(id)).ok()?;
    placements.get(at).filter(|row| row.dialect == NAME && row.clusters.is_empty())
}

/// The finding about a placement. Overrides that fail are reported where they are applied.
fn unschedulable_placement(plane: &KubeAdmiralPlanner<'_>, placement: &Placement) -> Option<Finding> {
    let unschedulable = placement.unschedulable.as_ref()?;
    let reported = matches!(
        unschedulable.reason.as_str(),
        "NoPolicy" | NOT_FEDERATED | "OverrideFailed" | "OverridePolicyNotFound"
    );
    let template = &plane.find_template(&placement.object)?.object;
    (!reported).then(|| advice::unschedulable_finding(template, unschedulable))
}
