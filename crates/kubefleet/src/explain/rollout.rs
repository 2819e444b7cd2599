//! The order in which a placement would be rolled out: clusters by its strategy, objects by waves.

use jiff::Timestamp;

use super::super::decide::Decision;
use super::super::rollout::rolling::{self, Next, Round};
use super::super::rollout::row::{Resources, Row, State};
use super::super::rollout::{budget, staged};
use super::super::schedule;
use super::super::{Behaviour, KubeFleets, NAME, Subject, waves};
use federate_kubernetes::{Cluster, ClusterName, Object, finding};
use federate_repo::Role;

/// Names shown of one step.
const SHOWN: usize = 8;

/// The rollout, a line a step.
pub(super) fn words(
    plane: &KubeFleets<'_>,
    subject: &Subject<'_>,
    decision: &Decision<'_, '_>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let behaviour = &plane.behaviour;
    lines.extend(rolling(subject, decision, plane.input.now.unwrap_or_default(), behaviour));
    let others = || plane.input.repo.claimed(NAME, Role::Other);
    for strategy in others().filter(|o| o.id.kind.ends_with("StagedUpdateStrategy")) {
        lines.extend(stages(strategy, decision, behaviour));
    }
    let budget =
        others().find(|o| o.id.kind.ends_with("DisruptionBudget") && o.id.name == subject.object.id.name);
    lines.extend(evictions(subject.object, budget, decision));
    for (wave, objects) in waves::waves(subject.items.iter().map(|item| &item.id)) {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        lines.push(format!("wave {wave} in each cluster: {}", finding::list(&names, SHOWN)));
    }
    lines
}

/// What the strategy would do first with rows that have not been rolled out, and then.
fn rolling(
    subject: &Subject<'_>,
    decision: &Decision<'_, '_>,
    now: Timestamp,
    behaviour: &Behaviour,
) -> Option<String> {
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
    if rows.is_empty() || subject.object.text(&["spec", "strategy", "type"]) == "External" {
        return None;
    }
    match rolling::next(subject.object, &rows, now, behaviour).ok()? {
        Next::Cleanup => None,
        Next::Round(Round { update, blocked, .. }) => Some(match (update.is_empty(), blocked.is_empty()) {
            (_, true) => format!("rollout: {} at once", named(&update)),
            (true, false) => format!("rollout: {} wait until others are available", named(&blocked)),
            (false, false) => format!("rollout: first {}, then {}", named(&update), named(&blocked)),
        }),
    }
}

fn stages(strategy: &Object, decision: &Decision<'_, '_>, behaviour: &Behaviour) -> Vec<String> {
    let picked: Vec<&Cluster> = decision.placed().map(|(cluster, _)| cluster).collect();
    let name = &strategy.id;
    match staged::stages(strategy, &picked, behaviour) {
        Err(failure) => vec![format!("staged by {name}: {}", failure.name())],
        Ok(stages) => {
            let words = |stage: staged::Stage| {
                let most = stage.max_concurrency;
                let idle = stage.clusters.is_empty() && !behaviour.empty_stages_are_skipped;
                format!(
                    "staged by {name}: stage `{}`, {most} at a time: {}{}",
                    stage.name,
                    named(&stage.clusters),
                    if idle { ", and yet its tasks are waited for" } else { "" }
                )
            };
            stages.into_iter().map(words).collect()
        }
    }
}

/// What a budget would permit if everything were available.
fn evictions(placement: &Object, budget: Option<&Object>, decision: &Decision<'_, '_>) -> Option<String> {
    let budget = budget?;
    let available = vec![true; decision.placed().count()];
    let eviction = budget::eviction(placement, Some(budget), &available).ok()?;
    let permits = if eviction.allowed { "permits an eviction" } else { "permits no eviction" };
    Some(format!("{} {permits} while all are available", budget.id))
}

fn named(clusters: &[ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "nothing".to_owned() } else { finding::list(&names, SHOWN) }
}
