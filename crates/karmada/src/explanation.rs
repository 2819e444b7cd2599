//! Explains a placement: why the policy wins, the filter that refused each cluster, scores, available
//! replicas and the arithmetic of the division.

use super::decision::SchedulingDecision;
use super::policies::{self, Claim, PolicyMatch, PropagationPolicy};
use super::schedule::{DivisionStrategy, FailedStep, HeldBack, SchedulingTrace, UnusedReason};
use super::selector::ImplicitPriority;
use super::state::{KarmadaState, is_scheduled};
use super::{KarmadaPlanner, NAME, RELEASES, manifest};
use federate_dialect::{ClusterCause, ClusterVerdict, Explanation, Placement, PreviousPlan, VerdictCause};
use federate_kubernetes::{Object, ObjectRef};

/// Explains a template's placement; `None` when nothing places it. `placed` is its row of the plan.
pub(super) fn explain_placement(
    plane: &KarmadaPlanner<'_>,
    template: &Object,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Option<Explanation> {
    let claim = plane.policies.find_claim(template, previous.find_row(&template.id));
    let mut matches = plane.policies.find_matches(template);
    if let Some(Claim::Applied(found)) = claim {
        // The policy that claimed it first stays, whatever else matches.
        matches.retain(|other| !std::ptr::eq(other.policy, found.policy));
        matches.insert(0, found);
    }
    let undecided =
        policies::reserved_reason(template).is_some() || policies::propagates_everywhere(template);
    let unselected = placed.is_some_and(|row| row.policy.is_none() && row.required_by.is_empty());
    let Some(claim) = claim.filter(|_| !undecided && !unselected) else {
        return placed.map(|placement| without_policy(plane, placement));
    };
    let mut trace = SchedulingTrace::with_recording();
    if plane.behaviour.release != RELEASES.find_latest() {
        trace.add_step(|| format!("by the rules of Karmada {}", plane.behaviour.release));
    }
    plane.interpreter.explain_scripts(template, &plane.find_live_objects(&template.id), &mut trace);
    let decision = match SchedulingDecision::new(plane, template, claim, previous.find_row(&template.id)) {
        Ok(decision) => decision,
        Err(failed) => {
            trace.add_step(|| format!("not scheduled: {}", failed.message));
            return Some(explain_uninterpreted(template, &matches, trace, placed));
        }
    };
    let (placement, _) = decision.schedule_if_triggered(&mut trace);
    let mut clusters = explain_clusters(plane, &decision, &placement, &trace);
    let placement = placed.cloned().unwrap_or(placement);
    trace.add_steps(|| manifest::random_completions(plane, &placement, template));
    trace.add_steps(|| resolved_by_chance(plane, &placement));
    let needed = placement.required_by.first().map(|by| format!("follows {by}, which refers to it"));
    for row in clusters.iter_mut().filter(|row| !row.chosen) {
        if placement.clusters.contains_cluster(&row.cluster) {
            row.chosen = true;
            row.causes.clear();
            row.why = needed.clone().unwrap_or_default();
        }
    }
    Some(Explanation {
        dialect: NAME,
        policy: policy_words(&matches),
        steps: trace.into_steps(),
        clusters,
        placement,
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    })
}

/// Explains a template whose interpreter script fails.
fn explain_uninterpreted(
    template: &Object,
    matches: &[PolicyMatch<'_, '_>],
    trace: SchedulingTrace,
    placed: Option<&Placement>,
) -> Explanation {
    Explanation {
        dialect: NAME,
        policy: policy_words(matches),
        steps: trace.into_steps(),
        clusters: Vec::new(),
        placement: placed.cloned().unwrap_or_else(|| Placement::new(NAME, template.id.clone(), None)),
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    }
}

/// Explains Namespaces, and objects that others refer to.
fn without_policy(plane: &KarmadaPlanner<'_>, placement: &Placement) -> Explanation {
    let referrers = placement.required_by.iter();
    let mut policy: Vec<String> =
        referrers.map(|by| format!("no policy selects it; {by} refers to it")).collect();
    let unclaimed = KarmadaState::from_scheduler_state(&placement.scheduler_state).unclaimed_from;
    if let Some(former) = unclaimed {
        policy.push(format!(
            "no policy selects it: {former} had placed it, and Karmada leaves it where it is without scheduling it again"
        ));
    }
    if policy.is_empty() {
        let rule = if placement.object.kind == "Namespace" {
            "a Namespace goes to every cluster without any policy"
        } else if plane.find_template(&placement.object).is_some_and(|template| template.has_destination) {
            "no policy selects it; its source is for some clusters only, which receive it"
        } else {
            "no policy selects it, and `unplaced: everywhere` in federate.yaml places it in every cluster"
        };
        policy.push(rule.to_owned());
    }
    let template = plane.find_template(&placement.object);
    let has_destination = template.is_some_and(|template| template.has_destination);
    let verdicts = plane.clusters.iter().map(|cluster| {
        let chosen = placement.clusters.contains_cluster(&cluster.name);
        let follows = |leader: &ObjectRef| VerdictCause::Follows { leader: leader.clone() };
        let (why, causes) = match (chosen, placement.required_by.is_empty()) {
            (true, _) if is_scheduled(placement) => ("it stays where it was placed", Vec::new()),
            (true, true) if has_destination => ("its source is built for it", Vec::new()),
            (true, true) => ("every cluster receives it", Vec::new()),
            (true, false) => ("an object that refers to it is placed there", Vec::new()),
            (false, true) if has_destination => ("its source is not built for it", Vec::new()),
            (false, false) => (
                "no object that refers to it is placed there",
                placement.required_by.iter().map(follows).collect(),
            ),
            (false, true) if is_scheduled(placement) => {
                ("it stays where it was placed, which is not there", vec![VerdictCause::PreviousPlan])
            }
            (false, true) => ("it is being deleted", vec![VerdictCause::Cluster(ClusterCause::Deleting)]),
        };
        ClusterVerdict {
            cluster: cluster.name.clone(),
            chosen,
            refused_by: None,
            score: None,
            replicas: None,
            why: why.to_owned(),
            causes,
        }
    });
    Explanation {
        dialect: NAME,
        policy,
        steps: resolved_by_chance(plane, placement).into_iter().collect(),
        clusters: verdicts.collect(),
        placement: placement.clone(),
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    }
}

/// The step that says what chance decides about an object that several refer to.
fn resolved_by_chance(plane: &KarmadaPlanner<'_>, placement: &Placement) -> Option<String> {
    let last = placement.required_by.last().filter(|_| manifest::is_random_resolution(plane, placement))?;
    Some(format!(
        "Karmada {} decides by chance which of the objects that need it says how conflicts are resolved and \
         whether it is preserved: here {last} does, the last by name",
        plane.behaviour.release
    ))
}

fn policy_words(matches: &[PolicyMatch<'_, '_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for found in matches {
        let how = match found.implicit_priority {
            ImplicitPriority::Name => "by name",
            ImplicitPriority::Label => "by labels",
            ImplicitPriority::All => "by kind",
        };
        let PropagationPolicy { object, spec, .. } = found.policy;
        lines.push(format!("{} ({}) matches {how}, priority {}", object.id, object.origin, spec.priority));
    }
    if lines.len() > 1
        && let Some(first) = lines.first_mut()
    {
        first.push_str(" and wins");
    }
    lines
}

fn explain_clusters(
    plane: &KarmadaPlanner<'_>,
    decision: &SchedulingDecision<'_, '_>,
    placement: &Placement,
    trace: &SchedulingTrace,
) -> Vec<ClusterVerdict> {
    let available = decision.build_scheduler().available_replicas(&decision.workload);
    let affinity = KarmadaState::from_scheduler_state(&placement.scheduler_state).affinity;
    let subject = decision.scheduling_subject();
    let policy = &*decision.policy;
    let strategy = DivisionStrategy::from_scheduling(policy.spec.placement.replica_scheduling.as_ref());
    // Spread constraints prefer clusters with more available replicas.
    let by_capacity = matches!(strategy, DivisionStrategy::Dynamic | DivisionStrategy::Aggregated)
        || !policy.spec.placement.spread_constraints.is_empty();
    let eligibility = policy.cluster_eligibility(plane.clusters);
    let refusals =
        decision.build_scheduler().explain_refusals(&subject, policy, eligibility, affinity.as_deref());
    let rows = plane.clusters.iter().zip(refusals).enumerate();
    rows.map(|(index, (cluster, refusal))| {
        let placed = placement.clusters.find_cluster(&cluster.name);
        let is_eligible = refusal.is_none();
        let refused_by = refusal.as_ref().map(|refusal| refusal.filter);
        let (mut why, causes) = match refusal {
            Some(refusal) if placed.is_some() => {
                (format!("kept from the previous plan, although {}", refusal.why), Vec::new())
            }
            Some(refusal) => (refusal.why, refusal.causes),
            None if placed.is_some() => ("chosen".to_owned(), Vec::new()),
            None => {
                let (unused, causes) = explain_unused(decision, trace, affinity.as_deref(), index);
                (format!("eligible, but {unused}"), causes)
            }
        };
        if by_capacity && decision.workload.replicas > 0 && is_eligible {
            match cluster.capacity {
                Some(_) if available[index] == 1 => why.push_str("; 1 replica was available"),
                Some(_) => why.push_str(&format!("; {} replicas were available", available[index])),
                None => why.push_str("; its free resources are not known"),
            }
        }
        ClusterVerdict {
            cluster: cluster.name.clone(),
            chosen: placed.is_some(),
            refused_by,
            score: Some(subject.locality_score(index)),
            replicas: placed.and_then(|p| p.replicas),
            why,
            causes: decision.attribute_causes(causes),
        }
    })
    .collect()
}

/// Why an eligible cluster does not receive the object.
fn explain_unused(
    decision: &SchedulingDecision<'_, '_>,
    trace: &SchedulingTrace,
    affinity: Option<&str>,
    index: usize,
) -> (&'static str, Vec<VerdictCause>) {
    let policy = &decision.policy.object.id;
    let field = |path: &str| VerdictCause::field(policy, path);
    let replicas = || decision.share_cause();
    let failed = trace.find_failed_step(affinity);
    let (why, cause) = match (trace.held_back, trace.find_unused(index)) {
        (Some(HeldBack::OtherScheduler), _) => {
            ("another scheduler is to decide", field("/spec/schedulerName"))
        }
        (Some(HeldBack::Suspended), _) => ("its scheduling is suspended", VerdictCause::PreviousPlan),
        (Some(HeldBack::Kept), _) => ("the previous placement is kept", VerdictCause::PreviousPlan),
        // The available replicas of all clusters together may then exceed 32 bits.
        (Some(HeldBack::Failed), _)
            if failed == Some(FailedStep::Division) && decision.workload.replicas == 0 =>
        {
            ("the object could not be scheduled", replicas())
        }
        (Some(HeldBack::Failed), _) if failed == Some(FailedStep::Division) => {
            ("the object could not be scheduled", VerdictCause::Cluster(ClusterCause::Resources))
        }
        (Some(HeldBack::Failed), _) => {
            ("the object could not be scheduled", field("/spec/placement/spreadConstraints"))
        }
        (None, Some(UnusedReason::NoWeight)) => (
            "it has no static weight",
            field("/spec/placement/replicaScheduling/weightPreference/staticWeightList"),
        ),
        (None, Some(UnusedReason::Weight)) => ("its share by weight is 0 replicas", replicas()),
        (None, Some(UnusedReason::NoRoom)) => {
            ("no replica fits there", VerdictCause::Cluster(ClusterCause::Resources))
        }
        (None, Some(UnusedReason::Available)) => ("its share is 0 replicas", replicas()),
        (None, Some(UnusedReason::Aggregated)) => ("fewer clusters take all replicas", replicas()),
        (None, Some(UnusedReason::EarlierTier)) => {
            ("the clusters of an earlier affinity take all replicas", replicas())
        }
        (None, Some(UnusedReason::Placed)) => {
            ("no replica is added to those that are placed", VerdictCause::PreviousPlan)
        }
        (None, Some(UnusedReason::NoReplicas)) => {
            let object = decision.template_id().clone();
            ("the object asks for 0 replicas", VerdictCause::Replicas { object })
        }
        (None, Some(UnusedReason::Spread) | None) => {
            ("the spread constraints are satisfied without it", field("/spec/placement/spreadConstraints"))
        }
    };
    (why, vec![cause])
}
