//! The rollout of a set of works: in which steps a new template reaches the clusters, and how far it is on the hub.
//!
//! Facts: each reference of a set is a rollout of its own. How far it is, the status of its works says, where the repo or
//! a snapshot has them; the steps are those of a rollout in which every cluster succeeds at once.

use jiff::{SignedDuration, Timestamp};

use federate_dialect::goduration::format_duration;
use federate_dialect::rollout::{
    ClusterUpdate, GroupRollout, GroupRolloutState, RolloutDecision, RolloutExplanation, RolloutPhase,
    UpdateState,
};
use federate_kubernetes::{ClusterName, Object, finding, work};
use federate_repo::Role;

use crate::OcmPlanner;
use crate::api::NAME;
use crate::api::work::PlacementReference;
use crate::decision::HubDecisions;
use crate::rollout::RolloutSettings;
use crate::rollout::works::{find_current, list_works, read_updates};
use crate::schedule::groups::DecisionGroup;
use crate::works::{Destination, WorkBundle, placement_id};

/// The most names in one sentence.
const MAX_NAMES: usize = 8;

/// The steps of a cluster in a phase.
const STEPS_PER_CLUSTER: u64 = 20;

/// The rollouts of the references of a set that limit how many clusters are updated at a time.
pub(super) fn explain_rollout(
    plane: &OcmPlanner<'_>,
    bundle: &WorkBundle<'_>,
    decisions: &HubDecisions,
) -> Option<RolloutExplanation> {
    let Destination::Placements(references) = &bundle.destination else { return None };
    let works = list_works(bundle.object, plane.input.repo.claimed_objects(NAME, Role::Bundle));
    let mut groups = Vec::new();
    for reference in references {
        let Some(report) = decisions.of(plane, &placement_id(&bundle.object.id, &reference.name)) else {
            break;
        };
        if reference.strategy.is_limited() {
            groups.push(explain_reference(plane, bundle.object, reference, &report.groups, &works));
        }
    }
    (!groups.is_empty()).then(|| RolloutExplanation { groups, ..RolloutExplanation::default() })
}

fn explain_reference(
    plane: &OcmPlanner<'_>,
    set: &Object,
    reference: &PlacementReference,
    groups: &[DecisionGroup],
    works: &[&Object],
) -> GroupRollout {
    let strategy = &reference.strategy;
    let now = plane.input.now.unwrap_or_default();
    let mut rollout = GroupRollout {
        placement: reference.name.clone(),
        strategy: strategy.kind.clone(),
        ..GroupRollout::default()
    };
    let settings = match strategy.read_settings(groups) {
        Ok(settings) => settings,
        Err(mistake) => {
            rollout.mistake = Some(mistake);
            return rollout;
        }
    };
    rollout.limits = describe_limits(&settings);
    rollout.phases = match list_phases(reference, groups, now) {
        Ok(phases) => phases,
        Err(mistake) => {
            rollout.mistake = Some(mistake);
            return rollout;
        }
    };
    let updates = read_updates(&find_current(set, &reference.name, works));
    if !updates.is_empty()
        && let Ok(advanced) = strategy.advance(groups, &updates, now)
    {
        rollout.state = Some(read_state(groups, &updates, &advanced.decision));
    }
    rollout
}

/// The settings in words.
fn describe_limits(settings: &RolloutSettings) -> Vec<String> {
    let mut limits = Vec::new();
    if let Some(max_concurrency) = settings.max_concurrency {
        limits.push(format!("{max_concurrency} at a time"));
    }
    if settings.min_success.is_positive() {
        limits.push(format!("a success must last {}", format_duration(settings.min_success)));
    }
    limits.push(match settings.deadline {
        Some(deadline) => format!("a cluster has {} to succeed", format_duration(deadline)),
        None => "no deadline, so a cluster that never succeeds holds the others up".to_owned(),
    });
    let per = if settings.is_per_group { " of a group" } else { "" };
    limits.push(match settings.max_failures.as_str() {
        "0" => format!("the first failure{per} stops it"),
        "1" => format!("the second failure{per} stops it"),
        number => format!("more than {number} failures{per} stop it"),
    });
    limits
}

/// The phases of a rollout in which every cluster succeeds at once.
fn list_phases(
    reference: &PlacementReference,
    groups: &[DecisionGroup],
    start: Timestamp,
) -> Result<Vec<RolloutPhase>, String> {
    let (mut now, mut updates, mut phases) = (start, Vec::<ClusterUpdate>::new(), Vec::new());
    loop {
        work::charge_steps(STEPS_PER_CLUSTER * (1 + updates.len() as u64));
        let decision = reference.strategy.advance(groups, &updates, now)?.decision;
        let clusters: Vec<ClusterName> = decision.starting().cloned().collect();
        if work::is_exceeded() {
            return Ok(phases);
        }
        if clusters.is_empty() {
            match decision.recheck.and_then(|wait| now.checked_add(wait).ok()) {
                Some(later) => now = later,
                None => return Ok(phases),
            }
            continue;
        }
        let updated = |cluster: &ClusterName| ClusterUpdate {
            cluster: cluster.clone(),
            state: UpdateState::Updated,
            since: Some(now),
        };
        updates.extend(clusters.iter().map(updated));
        let group = name_groups(reference, groups, &clusters);
        phases.push(RolloutPhase { clusters, group });
    }
}

/// The decision groups of the clusters of a phase; `None` where groups do not matter.
fn name_groups(
    reference: &PlacementReference,
    groups: &[DecisionGroup],
    clusters: &[ClusterName],
) -> Option<String> {
    let strategy = &reference.strategy;
    let of_phase = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.clusters.iter().any(|name| clusters.contains(name)));
    let of_phase: Vec<(usize, &DecisionGroup)> = of_phase.collect();
    let is_mandatory = of_phase.iter().any(|(index, group)| strategy.is_mandatory(*index, group));
    if !is_mandatory && !strategy.is_per_group() {
        return None;
    }
    let names = of_phase.iter().map(|(index, group)| match group.name.as_str() {
        "" => index.to_string(),
        name => name.to_owned(),
    });
    let mut names: Vec<String> = names.collect();
    names.dedup();
    let plural = if names.len() == 1 { "" } else { "s" };
    Some(format!("{}group{plural} {}", if is_mandatory { "mandatory " } else { "" }, names.join(", ")))
}

/// How far a rollout is.
fn read_state(
    groups: &[DecisionGroup],
    updates: &[ClusterUpdate],
    decision: &RolloutDecision,
) -> GroupRolloutState {
    let mut state = GroupRolloutState {
        starting: decision.starting().cloned().collect(),
        breached: decision.is_breached,
        recheck_seconds: decision.recheck.as_ref().map(SignedDuration::as_secs),
        ..GroupRolloutState::default()
    };
    for cluster in groups.iter().flat_map(|group| &group.clusters) {
        let update = updates.iter().find(|update| update.cluster == *cluster);
        let is_late = decision.timed_out.iter().any(|late| late.cluster == *cluster);
        let list = match update.map(|update| update.state) {
            _ if state.starting.contains(cluster) => continue,
            Some(UpdateState::Failed | UpdateState::TimedOut) => &mut state.failed,
            _ if is_late => &mut state.failed,
            Some(UpdateState::Updated | UpdateState::Skipped) => &mut state.updated,
            Some(UpdateState::Updating | UpdateState::Pending) => &mut state.updating,
            None => &mut state.waiting,
        };
        list.push(cluster.clone());
    }
    state
}

/// The rollout in sentences.
pub(super) fn describe_rollout(rollout: &RolloutExplanation) -> Vec<String> {
    let mut lines = Vec::new();
    for GroupRollout { placement, strategy, limits, phases, state, mistake } in &rollout.groups {
        if let Some(mistake) = mistake {
            lines.push(format!("rollout to {placement}: the hub makes no works: {mistake}"));
            continue;
        }
        lines.push(format!("rollout to {placement}: {strategy}: {}", limits.join("; ")));
        for (at, phase) in phases.iter().enumerate() {
            let group = phase.group.as_ref().map(|group| format!(" ({group})")).unwrap_or_default();
            lines.push(format!(
                "step {} of {}{group}: {}",
                at + 1,
                phases.len(),
                format_names(&phase.clusters)
            ));
        }
        lines.extend(state.iter().map(describe_state));
    }
    lines
}

fn describe_state(state: &GroupRolloutState) -> String {
    let lists = [
        ("has it", &state.updated),
        ("is being updated", &state.updating),
        ("failed", &state.failed),
        ("is updated next", &state.starting),
        ("waits", &state.waiting),
    ];
    let lists = lists.into_iter().filter(|(_, clusters)| !clusters.is_empty());
    let mut parts: Vec<String> =
        lists.map(|(what, clusters)| format!("{what}: {}", format_names(clusters))).collect();
    if state.breached {
        parts.push("more clusters have failed than may, so nothing goes on".to_owned());
    }
    if let Some(seconds) = state.recheck_seconds {
        parts.push(format!("the next check is after {seconds} s"));
    }
    format!("on the hub: {}", parts.join("; "))
}

fn format_names(clusters: &[ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    finding::join_names(&names, MAX_NAMES)
}

/// What the rollouts say about a cluster, as the end of a sentence; empty where they do not limit it.
pub(super) fn describe_cluster(rollout: Option<&RolloutExplanation>, cluster: &ClusterName) -> String {
    let of_cluster = rollout.into_iter().flat_map(|rollout| &rollout.groups);
    let described = of_cluster.filter_map(|group| describe_in_group(group, cluster));
    described.collect::<Vec<_>>().concat()
}

fn describe_in_group(group: &GroupRollout, cluster: &ClusterName) -> Option<String> {
    let at = group.phases.iter().position(|phase| phase.clusters.contains(cluster))?;
    let step = format!("; step {} of the rollout", at + 1);
    let Some(state) = &group.state else { return Some(step) };
    let lists = [
        (&state.updated, "it has the newest manifests"),
        (&state.updating, "it is being updated"),
        (&state.failed, "it failed"),
        (&state.starting, "it is updated next"),
    ];
    let known = lists.into_iter().find(|(clusters, _)| clusters.contains(cluster));
    Some(match known {
        Some((_, words)) => format!("{step}: {words}"),
        None if state.breached => format!("{step}: it waits, because too many clusters have failed"),
        None => {
            let open = state.updating.iter().chain(&state.starting).chain(&state.failed);
            let names: Vec<ClusterName> = open.cloned().collect();
            if names.is_empty() {
                format!("{step}: it waits until the success of those before it has lasted")
            } else {
                format!("{step}: it waits for {}", format_names(&names))
            }
        }
    })
}
