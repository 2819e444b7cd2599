//! The rollout of a placement: clusters by its strategy, by stages, by waves; and the same in sentences.
//!
//! Facts: the rollout controller reads the bindings as they are on the hub, whatever the scheduler decides next. A
//! snapshot of the hub brings their state in the scheduler state of the placement.

use jiff::Timestamp;

use super::super::decision::PlacementDecision;
use super::super::rollout::rolling_update::{self, RollingStep};
use super::super::rollout::row::{BindingResources, BindingRow, BindingState};
use super::super::rollout::{api::is_external, budget};
use super::super::schedule;
use super::super::state::{KubeFleetState, StoredBinding};
use super::super::version::ResourceSnapshots;
use super::super::{KubeFleetBehaviour, KubeFleetPlane, NAME, PlacementSubject, failover, hub, waves};
use federate_dialect::PreviousPlan;
use federate_dialect::rollout::{
    EvictionVerdict, NextRound, PlacementStage, RollingRound, RolloutExplanation, StagedRollout, Wave,
};
use federate_dialect::stages as staged;
use federate_kubernetes::condition::Condition;
use federate_kubernetes::{Cluster, ClusterName, Object, finding};
use federate_repo::Role;

/// The most names in one sentence.
const MAX_NAMES: usize = 8;

/// The rollout of a placement to clusters that do not have it yet, and of what is on its way on the hub.
pub(super) fn explain_rollout(
    plane: &KubeFleetPlane<'_>,
    subject: &PlacementSubject<'_>,
    decision: &PlacementDecision<'_, '_>,
    previous: &PreviousPlan,
) -> RolloutExplanation {
    let behaviour = &plane.behaviour;
    let now = plane.input.now.unwrap_or_default();
    let bindings = hub_bindings(subject, previous);
    let others = plane.input.repo.claimed_objects(NAME, Role::Other);
    let strategies = others.filter(|o| o.id.kind.ends_with("StagedUpdateStrategy"));
    let budget = find_budget(plane, &subject.object);
    let waves = waves::group_by_wave(subject.items().iter().map(|item| &item.id)).into_iter();
    RolloutExplanation {
        rolling: first_round(subject, decision, &bindings, now, behaviour),
        next: next_hub_round(subject, &bindings, now, behaviour),
        staged: strategies.map(|strategy| staged_rollout(strategy, decision, behaviour)).collect(),
        eviction: budget.and_then(|budget| eviction_verdict(&subject.object, budget, decision, &bindings)),
        groups: Vec::new(),
        waves: waves
            .map(|(wave, objects)| Wave { wave, objects: objects.into_iter().cloned().collect() })
            .collect(),
    }
}

/// The first round of the placement's own strategy, for resources that no cluster has yet.
fn first_round(
    subject: &PlacementSubject<'_>,
    decision: &PlacementDecision<'_, '_>,
    bindings: &[StoredBinding],
    now: Timestamp,
    behaviour: &KubeFleetBehaviour,
) -> Option<RollingRound> {
    let mut rows = Vec::new();
    for (cluster, row) in decision.placed_clusters() {
        let state = match row.state {
            schedule::ScheduleState::Scheduled => BindingState::Scheduled,
            schedule::ScheduleState::Bound => BindingState::Bound,
        };
        let known = bindings.iter().find(|binding| binding.cluster == cluster.name && !binding.deleting);
        let known =
            known.cloned().unwrap_or_else(|| StoredBinding::new(cluster.name.clone(), state)).to_row();
        rows.push(BindingRow { state, resources: BindingResources::Old, ..known });
    }
    if rows.is_empty() || is_external(&subject.object) {
        return None;
    }
    match rolling_update::compute_next_step(&subject.object, &rows, now, behaviour).ok()? {
        RollingStep::Cleanup => None,
        RollingStep::Round(round) => {
            Some(RollingRound { update: round.starting().cloned().collect(), blocked: round.waiting })
        }
    }
}

/// The bindings as they were on the hub; empty where the scheduler state does not say how they were.
fn hub_bindings(subject: &PlacementSubject<'_>, previous: &PreviousPlan) -> Vec<StoredBinding> {
    let bindings =
        previous.find_row(&subject.object.id).map(KubeFleetState::from_row).and_then(|state| state.bindings);
    bindings.filter(|all| all.iter().any(|one| one.generation.is_some())).unwrap_or_default()
}

/// The next round with the bindings of the hub, where it is known which resources they have.
fn next_hub_round(
    subject: &PlacementSubject<'_>,
    bindings: &[StoredBinding],
    now: Timestamp,
    behaviour: &KubeFleetBehaviour,
) -> Option<NextRound> {
    let is_unknown = bindings.iter().any(|b| b.state == BindingState::Bound && b.resources.is_none());
    if bindings.is_empty() || is_unknown || is_external(&subject.object) {
        return None;
    }
    let rows: Vec<BindingRow> = bindings.iter().map(StoredBinding::to_row).collect();
    Some(match rolling_update::compute_next_step(&subject.object, &rows, now, behaviour).ok()? {
        RollingStep::Cleanup => NextRound::Cleanup { wait_for_cleanup: true },
        RollingStep::Round(round) => {
            let up_to_date = rows.iter().filter(|row| {
                row.state == BindingState::Bound && row.resources == BindingResources::Latest && !row.deleting
            });
            NextRound::Round {
                update: round.starting().cloned().collect(),
                up_to_date: up_to_date.map(|row| row.cluster.clone()).collect(),
                need_roll: !round.is_done,
                wait_seconds: round.recheck.unwrap_or_default().as_secs(),
                blocked: round.waiting,
            }
        }
    })
}

fn staged_rollout(
    strategy: &Object,
    decision: &PlacementDecision<'_, '_>,
    behaviour: &KubeFleetBehaviour,
) -> StagedRollout {
    let picked: Vec<&Cluster> = decision.placed_clusters().map(|(cluster, _)| cluster).collect();
    let stages = staged::compute_stages(strategy, &picked, behaviour.stage_rules());
    StagedRollout {
        strategy: strategy.id.clone(),
        stages: stages.map_err(|failure| failure.name()).map(|stages| {
            let stages = stages.into_iter().map(|stage| PlacementStage {
                name: stage.name,
                clusters: stage.clusters,
                max_concurrency: stage.max_concurrency,
            });
            stages.collect()
        }),
    }
}

/// What a budget permits with the bindings of the hub; without these, while every cluster is available.
fn eviction_verdict(
    placement: &Object,
    budget: &Object,
    decision: &PlacementDecision<'_, '_>,
    bindings: &[StoredBinding],
) -> Option<EvictionVerdict> {
    let available = if bindings.is_empty() {
        vec![true; decision.placed_clusters().count()]
    } else {
        bindings.iter().map(|binding| binding.to_row().is_available()).collect()
    };
    let eviction = budget::check_budget(placement, Some(budget), &available).ok()?;
    Some(EvictionVerdict {
        budget: budget.id.clone(),
        eviction_allowed: eviction.allowed,
        available_placements: eviction.available,
        total_placements: available.len(),
    })
}

/// What becomes of the evictions in the repo, with the bindings of the hub; without these, while every cluster is available.
pub(super) fn explain_evictions(
    plane: &KubeFleetPlane<'_>,
    subject: &PlacementSubject<'_>,
    decision: &PlacementDecision<'_, '_>,
    previous: &PreviousPlan,
) -> Vec<String> {
    let placement = &subject.object;
    if placement.id.kind != "ClusterResourcePlacement" {
        return Vec::new();
    }
    let others = plane.input.repo.claimed_objects(NAME, Role::Other);
    let evictions = others.filter(|eviction| {
        eviction.id.kind == "ClusterResourcePlacementEviction"
            && eviction.text_at(&["spec", "placementName"]) == placement.id.name
    });
    let evictions: Vec<&Object> = evictions.collect();
    if evictions.is_empty() {
        return Vec::new();
    }
    let mut bindings = hub_bindings(subject, previous);
    if bindings.is_empty() {
        let placed = decision.placed_clusters().map(|(cluster, _)| StoredBinding {
            conditions: vec![Condition::new("Available", "True", "AllWorkAreAvailable", "")],
            ..StoredBinding::new(cluster.name.clone(), BindingState::Bound)
        });
        bindings = placed.collect();
    }
    let bindings: Vec<hub::HubBinding> =
        bindings.iter().map(|binding| hub::HubBinding::from_stored(&placement.id.name, binding)).collect();
    let (budget, now) = (find_budget(plane, placement), plane.input.now.unwrap_or_default());
    let sentences = evictions.into_iter().filter_map(|eviction| {
        let evicted =
            failover::evict_placement(eviction, Some(placement), &bindings, budget, now, &plane.behaviour)
                .ok()?;
        let last = evicted.conditions.last()?;
        let cluster = eviction.text_at(&["spec", "clusterName"]);
        let outcome = if evicted.deletes.is_some() { "evicts it from" } else { "does not evict it from" };
        Some(format!("{} {outcome} {cluster}: {}", eviction.id, last.message))
    });
    sentences.collect()
}

/// Returns the disruption budget of a placement, if the repo has one.
fn find_budget<'a>(plane: &KubeFleetPlane<'a>, placement: &Object) -> Option<&'a Object> {
    let mut others = plane.input.repo.claimed_objects(NAME, Role::Other);
    others.find(|o| o.id.kind.ends_with("DisruptionBudget") && o.id.name == placement.id.name)
}

/// The rollout in sentences.
pub(super) fn describe_rollout(
    plane: &KubeFleetPlane<'_>,
    subject: &PlacementSubject<'_>,
    rollout: &RolloutExplanation,
) -> Vec<String> {
    let behaviour = &plane.behaviour;
    let mut lines: Vec<String> = rollout.rolling.iter().map(describe_first_round).collect();
    lines.extend(rollout.next.iter().map(describe_next_round));
    if is_external(&subject.object) {
        lines.extend(describe_external_strategy(behaviour));
    }
    for StagedRollout { strategy, stages } in &rollout.staged {
        match stages {
            Err(error) => lines.push(format!("staged by {strategy}: {error}")),
            Ok(stages) => lines.extend(stages.iter().map(|stage| {
                let waits = stage.clusters.is_empty() && !behaviour.empty_stages_are_skipped;
                format!(
                    "staged by {strategy}: stage `{}`, {} at a time: {}{}",
                    stage.name,
                    stage.max_concurrency,
                    format_names(&stage.clusters),
                    if waits { "; its tasks still have to complete" } else { "" }
                )
            })),
        }
    }
    lines.extend(rollout.eviction.iter().map(|eviction| {
        let permits = if eviction.eviction_allowed { "permits an eviction" } else { "permits no eviction" };
        let (available, all) = (eviction.available_placements, eviction.total_placements);
        let some = if usize::try_from(available) == Ok(all) {
            "all are".to_owned()
        } else {
            format!("{available} of {all} are")
        };
        format!("{} {permits} while {some} available", eviction.budget)
    }));
    lines.extend(rollout.waves.iter().map(|Wave { wave, objects }| {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("wave {wave} in each cluster: {}", finding::join_names(&names, MAX_NAMES))
    }));
    lines
}

fn describe_first_round(RollingRound { update, blocked }: &RollingRound) -> String {
    match (update.is_empty(), blocked.is_empty()) {
        (_, true) => format!("rollout: {} at once", format_names(update)),
        (true, false) => format!("rollout: {} wait until others are available", format_names(blocked)),
        (false, false) => format!("rollout: first {}, then {}", format_names(update), format_names(blocked)),
    }
}

fn describe_next_round(next: &NextRound) -> String {
    let NextRound::Round { update, blocked, up_to_date, need_roll, wait_seconds } = next else {
        return "on the hub: the rollout waits until a binding that is being deleted is gone".to_owned();
    };
    let mut line = if *need_roll {
        format!("on the hub: the next round updates {}", format_names(update))
    } else {
        "on the hub: everything is rolled out".to_owned()
    };
    for (clusters, what) in [(blocked, "must wait"), (up_to_date, "up to date")] {
        if !clusters.is_empty() {
            line.push_str(&format!("; {what}: {}", format_names(clusters)));
        }
    }
    if *need_roll && *wait_seconds > 0 {
        line.push_str(&format!("; the next check is after {wait_seconds} s"));
    }
    line
}

/// What an update run sends, and whether the strategy can be changed.
fn describe_external_strategy(behaviour: &KubeFleetBehaviour) -> Vec<String> {
    let resources = match behaviour.resource_snapshots {
        ResourceSnapshots::ByRun => "the resources as they are when it initializes",
        ResourceSnapshots::ByPlacement => "the latest resource snapshot of the placement",
    };
    let mut lines = vec![format!(
        "rollout: by update runs only; a run without `resourceSnapshotIndex` sends {resources}"
    )];
    if behaviour.external_is_final {
        lines.push("the strategy `External` cannot be changed back to `RollingUpdate`".to_owned());
    }
    lines
}

fn format_names(clusters: &[ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "nothing".to_owned() } else { finding::join_names(&names, MAX_NAMES) }
}
