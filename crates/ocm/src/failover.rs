//! Tolerations that end during a scenario: the hub evaluates a placement again when one ends, and the clusters whose taint
//! is no longer tolerated leave its decisions.
//!
//! Facts: of the tolerations that match a taint, one without an end counts for ever, and else the last one to end. They
//! count from the time at which the taint was added.

use std::collections::BTreeSet;

use federate_dialect::{BEFORE_SCENARIO, FailoverOutcome, Placement, ScenarioMoment};
use federate_kubernetes::ClusterName;

use crate::OcmPlanner;
use crate::api::Toleration;
use crate::fleet::{Member, MemberTaint, NO_SELECT, NO_SELECT_IF_NEW};
use crate::schedule::PlacementSubject;
use crate::schedule::taints::{TolerationClock, find_untolerated, matches};
use crate::state::{Decisions, OcmState};

/// Whether some placement has a toleration that ends.
pub(crate) fn has_ends(planner: &OcmPlanner<'_>) -> bool {
    planner.placements.iter().any(has_end)
}

fn has_end(subject: &PlacementSubject<'_>) -> bool {
    subject.spec.tolerations.iter().any(|toleration| toleration.seconds.is_some())
}

/// Ends the tolerations of a placement at a moment of a scenario.
pub(crate) fn end_tolerations(
    planner: &OcmPlanner<'_>,
    row: &Placement,
    moment: &ScenarioMoment<'_>,
) -> FailoverOutcome {
    let mut outcome = FailoverOutcome::default();
    let at = row.policy.as_ref().and_then(|policy| planner.by_id.get(policy));
    let Some(subject) = at.and_then(|at| planner.placements.get(*at)).filter(|subject| has_end(subject))
    else {
        return outcome;
    };
    let state: OcmState = row.read_scheduler_state();
    let mut expired = BTreeSet::new();
    for member in &planner.hub.fleet.members {
        let name = &member.cluster.name;
        match find_end(planner, subject, member, moment) {
            Some(end) if end > moment.seconds => outcome.wait_until(end),
            Some(_) => {
                // A taint for new clusters does not matter where the cluster is selected.
                let tolerations = &subject.spec.tolerations;
                let leaves = find_untolerated(member, tolerations, true, TolerationClock::Over).is_some();
                if leaves && row.clusters.contains_cluster(name) && !state.expired.contains(name) {
                    outcome.evicted.push(name.clone());
                }
                expired.insert(name.clone());
            }
            None => {}
        }
    }
    if state.expired != expired {
        let mut after = row.clone();
        after.write_scheduler_state(&OcmState { expired, ..state });
        outcome.placement = Some(after);
    }
    outcome
}

/// When the first taint of a cluster is no longer tolerated, in seconds; `None` if that never happens, or is not known.
fn find_end(
    planner: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    member: &Member<'_>,
    moment: &ScenarioMoment<'_>,
) -> Option<i64> {
    let counts = |taint: &&MemberTaint| [NO_SELECT, NO_SELECT_IF_NEW].contains(&taint.effect.as_str());
    let end = |taint: &MemberTaint| {
        let seconds = find_longest(&subject.spec.tolerations, taint)?;
        Some(find_start(planner, member, taint, moment)?.saturating_add(seconds))
    };
    member.taints.iter().filter(counts).filter_map(end).min()
}

/// The seconds of the toleration of a taint that ends last; `None` if one never ends, or none is about the taint.
fn find_longest(tolerations: &[Toleration], taint: &MemberTaint) -> Option<i64> {
    let mut longest = None;
    for toleration in tolerations.iter().filter(|toleration| matches(taint, toleration)) {
        longest = longest.max(Some(toleration.seconds?));
    }
    longest
}

/// When a taint was added, in seconds of the scenario.
fn find_start(
    planner: &OcmPlanner<'_>,
    member: &Member<'_>,
    taint: &MemberTaint,
    moment: &ScenarioMoment<'_>,
) -> Option<i64> {
    let cluster = member.cluster;
    let in_scenario = cluster
        .taints
        .iter()
        .filter(|known| known.key == taint.key && known.value == taint.value)
        .map(|known| (moment.since)(&cluster.name, known))
        .max()
        .filter(|since| *since > BEFORE_SCENARIO);
    in_scenario.or_else(|| Some(taint.added?.duration_since(planner.hub.now?).as_secs()))
}

/// The clusters on which tolerations have ended before, as long as their taints are there.
pub(crate) fn keep_expired(
    planner: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    earlier: &Decisions,
) -> BTreeSet<ClusterName> {
    let members = planner.hub.fleet.members.iter();
    let is_tainted = |member: &&Member<'_>| {
        let tolerations = &subject.spec.tolerations;
        earlier.has_expired(&subject.key, &member.cluster.name)
            && find_untolerated(member, tolerations, false, TolerationClock::Over).is_some()
    };
    members.filter(is_tainted).map(|member| member.cluster.name.clone()).collect()
}
