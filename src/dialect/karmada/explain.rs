//! Why a template is where it is: the policy's victory, the filter that refused each cluster, scores,
//! room and the arithmetic of the division.

use std::fmt::Write as _;

use super::decide::Decision;
use super::matching::{self, Match};
use super::schedule::Trace;
use super::selector::Strength;
use super::{Karmadas, NAME};
use crate::dialect::{ClusterVerdict, Explanation, Placement, Previous};
use crate::k8s::Object;

/// Explains a template's placement; `None` when no policy matches it.
pub(super) fn explain(plane: &Karmadas<'_>, template: &Object, previous: &Previous) -> Option<Explanation> {
    let matches = plane.policies.matches(template);
    let reserved = matching::reserved(template);
    let everywhere = matching::propagates_everywhere(template);
    let winner = matches.first().filter(|_| reserved.is_none() && !everywhere)?;
    let mut trace = Trace::recording();
    let decision = Decision::new(plane, template, winner.policy, previous.of(&template.id));
    let placement = decision.place(&mut trace);
    Some(Explanation {
        dialect: NAME,
        policy: policy_words(&matches),
        steps: trace.into_steps(),
        clusters: verdicts(plane, &decision, &placement),
        placement,
    })
}

fn policy_words(matches: &[Match<'_, '_>]) -> Vec<String> {
    let words = |m: &Match<'_, '_>| {
        let how = match m.strength {
            Strength::Name => "by name",
            Strength::Label => "by labels",
            Strength::All => "by kind",
        };
        let object = m.policy.object;
        format!("{} ({}) matches {how}, priority {}", object.id, object.origin, m.policy.spec.priority)
    };
    let mut lines: Vec<String> = matches.iter().map(words).collect();
    if lines.len() > 1
        && let Some(first) = lines.first_mut()
    {
        first.push_str(" and wins");
    }
    lines
}

fn verdicts(plane: &Karmadas<'_>, decision: &Decision<'_, '_>, placement: &Placement) -> Vec<ClusterVerdict> {
    let room = decision.scheduler().room(&decision.workload);
    let affinity = placement.memory.get("affinity").and_then(serde_json::Value::as_str);
    let subject = decision.subject();
    let policy = decision.policy;
    let screen = policy.screen(plane.clusters);
    let refusals = decision.scheduler().refusals(&subject, &policy.spec.placement, screen, affinity);
    let rows = plane.clusters.iter().zip(refusals).enumerate();
    rows.map(|(index, (cluster, refusal))| {
        let placed = placement.clusters.iter().find(|p| p.name == cluster.name);
        let mut why = reason(placement, refusal.as_ref().map(|r| r.1.as_str()), placed.is_some());
        if decision.workload.replicas > 0 && refusal.is_none() {
            let _ = write!(why, "; room for {} more", room[index]);
        }
        ClusterVerdict {
            cluster: cluster.name.clone(),
            chosen: placed.is_some(),
            refused_by: refusal.map(|(name, _)| name),
            score: Some(subject.score(index)),
            replicas: placed.and_then(|p| p.replicas),
            why,
        }
    })
    .collect()
}

fn reason(placement: &Placement, refusal: Option<&str>, placed: bool) -> String {
    match (refusal, placed) {
        (Some(words), true) => format!("kept from the previous plan, although {words}"),
        (Some(words), false) => words.to_owned(),
        (None, true) => "chosen".to_owned(),
        (None, false) if placement.unschedulable.is_some() => "eligible, but scheduling failed".to_owned(),
        (None, false) => "eligible, but not needed".to_owned(),
    }
}
