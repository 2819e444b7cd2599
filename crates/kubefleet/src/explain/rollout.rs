//! The rollout of a placement: clusters by its strategy, by stages, by waves; and the same in sentences.

use jiff::Timestamp;

use super::super::decide::Decision;
use super::super::rollout::rolling::{self, Next, Round};
use super::super::rollout::row::{Resources, Row, State};
use super::super::rollout::{api::is_external, budget, staged};
use super::super::schedule;
use super::super::version::ResourceSnapshots;
use super::super::{Behaviour, KubeFleetPlane, NAME, Subject, waves};
use federate_dialect::rollout::{EvictionVerdict, RollingRound, Rollout, Stage, StagedRollout, Wave};
use federate_kubernetes::{Cluster, ClusterName, Object, finding};
use federate_repo::Role;

/// The most names in one sentence.
const SHOWN: usize = 8;

/// The rollout of a placement to clusters that do not have it yet.
pub(super) fn rollout(
    plane: &KubeFleetPlane<'_>,
    subject: &Subject<'_>,
    decision: &Decision<'_, '_>,
) -> Rollout {
    let behaviour = &plane.behaviour;
    let others = || plane.input.repo.claimed(NAME, Role::Other);
    let strategies = others().filter(|o| o.id.kind.ends_with("StagedUpdateStrategy"));
    let budget =
        others().find(|o| o.id.kind.ends_with("DisruptionBudget") && o.id.name == subject.object.id.name);
    let waves = waves::waves(subject.items.iter().map(|item| &item.id)).into_iter();
    Rollout {
        rolling: rolling(subject, decision, plane.input.now.unwrap_or_default(), behaviour),
        staged: strategies.map(|strategy| stages(strategy, decision, behaviour)).collect(),
        eviction: budget.and_then(|budget| eviction(subject.object, budget, decision)),
        waves: waves
            .map(|(wave, objects)| Wave { wave, objects: objects.into_iter().cloned().collect() })
            .collect(),
    }
}

/// The first round of the placement's own strategy, with rows that have not been rolled out.
fn rolling(
    subject: &Subject<'_>,
    decision: &Decision<'_, '_>,
    now: Timestamp,
    behaviour: &Behaviour,
) -> Option<RollingRound> {
    let row = |(cluster, row): (&Cluster, schedule::Row)| Row {
        cluster: cluster.name.clone(),
        state: match row.state {
            schedule::State::Scheduled => State::Scheduled,
            schedule::State::Bound => State::Bound,
        },
        resources: Resources::Old,
        deleting: false,
        generation: 0,
        conditions: Vec::new(),
    };
    let rows: Vec<Row> = decision.placed().map(row).collect();
    if rows.is_empty() || is_external(subject.object) {
        return None;
    }
    match rolling::next(subject.object, &rows, now, behaviour).ok()? {
        Next::Cleanup => None,
        Next::Round(Round { update, blocked, .. }) => Some(RollingRound { update, blocked }),
    }
}

fn stages(strategy: &Object, decision: &Decision<'_, '_>, behaviour: &Behaviour) -> StagedRollout {
    let picked: Vec<&Cluster> = decision.placed().map(|(cluster, _)| cluster).collect();
    let stage = |stage: staged::Stage| Stage {
        name: stage.name,
        clusters: stage.clusters,
        max_concurrency: stage.max_concurrency,
    };
    let stages = staged::stages(strategy, &picked, behaviour);
    StagedRollout {
        strategy: strategy.id.clone(),
        stages: stages
            .map(|stages| stages.into_iter().map(stage).collect())
            .map_err(|failure| failure.name()),
    }
}

/// What a budget permits while every cluster is available.
fn eviction(placement: &Object, budget: &Object, decision: &Decision<'_, '_>) -> Option<EvictionVerdict> {
    let available = vec![true; decision.placed().count()];
    let eviction = budget::eviction(placement, Some(budget), &available).ok()?;
    Some(EvictionVerdict {
        budget: budget.id.clone(),
        eviction_allowed: eviction.allowed,
        available_placements: eviction.available,
    })
}

/// The rollout in sentences.
pub(super) fn sentences(plane: &KubeFleetPlane<'_>, subject: &Subject<'_>, rollout: &Rollout) -> Vec<String> {
    let behaviour = &plane.behaviour;
    let mut lines: Vec<String> = rollout.rolling.iter().map(round).collect();
    if is_external(subject.object) {
        lines.extend(external(behaviour));
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
                    named(&stage.clusters),
                    if waits { "; its tasks still have to complete" } else { "" }
                )
            })),
        }
    }
    lines.extend(rollout.eviction.iter().map(|eviction| {
        let permits = if eviction.eviction_allowed { "permits an eviction" } else { "permits no eviction" };
        format!("{} {permits} while all are available", eviction.budget)
    }));
    lines.extend(rollout.waves.iter().map(|Wave { wave, objects }| {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("wave {wave} in each cluster: {}", finding::list(&names, SHOWN))
    }));
    lines
}

fn round(RollingRound { update, blocked }: &RollingRound) -> String {
    match (update.is_empty(), blocked.is_empty()) {
        (_, true) => format!("rollout: {} at once", named(update)),
        (true, false) => format!("rollout: {} wait until others are available", named(blocked)),
        (false, false) => format!("rollout: first {}, then {}", named(update), named(blocked)),
    }
}

/// What an update run sends, and whether the strategy can be changed.
fn external(behaviour: &Behaviour) -> Vec<String> {
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

fn named(clusters: &[ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "nothing".to_owned() } else { finding::list(&names, SHOWN) }
}
