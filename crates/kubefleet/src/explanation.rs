//! Explains a placement: for each cluster its scores, or why it is not picked, in the words of the placement's
//! status where there are any.

use super::api::PlacementType;
use super::cluster::Ineligibility;
use super::decision::PlacementDecision;
use super::hub::snapshot::scheduled_condition;
use super::schedule::{Rejection, ScheduleOutcome, ScheduleRow, Scores, untolerated_taints};
use super::{KubeFleetPlane, PlacementSubject, RELEASES};
use crate::api::NAME;
use federate_dialect::{ClusterCause, ClusterVerdict, Explanation, Placement, PreviousPlan, VerdictCause};
use federate_kubernetes::finding::{count_with_verb, format_count};
use federate_kubernetes::{Cluster, ObjectRef};

mod rollout;

/// The affinity terms, one of which a cluster must match.
const REQUIRED_AFFINITY: &str =
    "/spec/policy/affinity/clusterAffinity/requiredDuringSchedulingIgnoredDuringExecution";

/// Explains a placement, or an object that it selects; `placed` is its row of the plan.
pub(super) fn explain_placement<'a>(
    plane: &KubeFleetPlane<'a>,
    subject: &PlacementSubject<'a>,
    object: &ObjectRef,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Explanation {
    let decision = PlacementDecision::new_as_if_admitted(plane, subject, previous);
    let mut clusters: Vec<ClusterVerdict> = plane
        .input
        .clusters
        .iter()
        .enumerate()
        .map(|(index, cluster)| cluster_verdict(subject, &decision, index, cluster))
        .collect();
    let outcome = decision.outcome.as_ref().ok();
    let is_placement = *object == subject.object.id;
    let rollout = is_placement.then(|| rollout::explain_rollout(plane, subject, &decision, previous));
    let mut steps = explain_steps(plane, subject, &decision);
    if let Some(rollout) = &rollout {
        steps.extend(rollout::describe_rollout(plane, subject, rollout));
        steps.extend(rollout::explain_evictions(plane, subject, &decision, previous));
    }
    clusters.extend(
        outcome.into_iter().flat_map(|outcome| &outcome.missing).map(|name| missing_cluster_verdict(name)),
    );
    Explanation {
        dialect: NAME,
        policy: vec![describe_policy(subject, object)],
        steps,
        fulfilled: outcome.map(|outcome| outcome.fulfilled),
        clusters,
        placement: placed
            .filter(|_| subject.admitted)
            .cloned()
            .unwrap_or_else(|| decision.build_placement(object)),
        rewritten: None,
        deletion_progress: None,
        rollout,
    }
}

fn describe_policy(subject: &PlacementSubject<'_>, object: &ObjectRef) -> String {
    let own = &subject.object.id;
    if object == own {
        return "a placement is scheduled independently of all others".to_owned();
    }
    format!("{own} ({}) selects it", subject.object.origin)
}

fn explain_steps(
    plane: &KubeFleetPlane<'_>,
    subject: &PlacementSubject<'_>,
    decision: &PlacementDecision<'_, '_>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if plane.behaviour.release != RELEASES.find_latest() {
        lines.push(format!("by the rules of KubeFleet {}", plane.behaviour.release));
    }
    if !subject.admitted {
        lines.push(
            "admission refuses the placement, so nothing changes; without that it would be:".to_owned(),
        );
    }
    if subject.is_former {
        lines.push(
            "the API server refuses the placement of the repo, so the former one, of the previous plan, is in force"
                .to_owned(),
        );
    }
    let before = decision.before.rows.iter().flatten().count();
    if before > 0 && decision.before.same_policy {
        lines.push(format!(
            "{} picked under this policy before: the filters do not run again there",
            count_with_verb(before, "cluster", ["was", "were"])
        ));
    } else if before > 0 {
        lines.push(format!(
            "the policy has changed, so {} picked again that the former policy picked",
            count_with_verb(before, "cluster", ["is", "are"])
        ));
    }
    let wanted = match subject.policy.placement_type {
        PlacementType::PickAll => "PickAll: every cluster that passes the filters".to_owned(),
        PlacementType::PickFixed => {
            format!("PickFixed: {}", format_count(subject.policy.cluster_names.len(), "named cluster"))
        }
        PlacementType::PickN => {
            let number = subject.policy.number_of_clusters.unwrap_or_default();
            format!(
                "PickN: {number} cluster{}, by topology spread score, then affinity score, then the last by name",
                if number == 1 { "" } else { "s" }
            )
        }
    };
    lines.push(wanted);
    match &decision.outcome {
        Err(failure) => {
            lines.push(format!("{}: {}; nothing changes", failure.reason, failure.message));
        }
        Ok(outcome) => lines.extend(scheduler_message(plane, subject, outcome)),
    }
    lines
}

/// What the scheduler on the hub reports in the status of the placement. It reports nothing about a `PickFixed` without
/// names.
fn scheduler_message(
    plane: &KubeFleetPlane<'_>,
    subject: &PlacementSubject<'_>,
    outcome: &ScheduleOutcome,
) -> Option<String> {
    let (policy, clusters) = (&subject.policy, plane.input.clusters);
    let found = if policy.placement_type == PlacementType::PickFixed {
        // A cluster that was picked before and is no longer eligible keeps its row, but does not count.
        let is_found = |name: &&String| {
            let at = clusters.binary_search_by(|cluster| (*cluster.name).cmp(name.as_str())).ok();
            at.and_then(|at| outcome.rejected.get(at)).is_some_and(Option::is_none)
        };
        policy.cluster_names.first()?;
        policy.cluster_names.iter().filter(is_found).count()
    } else {
        outcome.rows.iter().flatten().count()
    };
    let condition = scheduled_condition(policy, found);
    Some(format!("{} {}: {}", condition.kind, condition.status, condition.message))
}

/// A cluster that the policy names and the inventory does not have.
fn missing_cluster_verdict(name: &str) -> ClusterVerdict {
    ClusterVerdict {
        cluster: name.into(),
        chosen: false,
        refused_by: Some("NotFound"),
        score: None,
        replicas: None,
        why: "the policy names it, but the inventory has no such cluster".to_owned(),
        causes: vec![VerdictCause::Cluster(ClusterCause::Unknown)],
    }
}

fn cluster_verdict(
    subject: &PlacementSubject<'_>,
    decision: &PlacementDecision<'_, '_>,
    index: usize,
    cluster: &Cluster,
) -> ClusterVerdict {
    let row = decision.resulting_rows().get(index).copied().flatten();
    let rejection = decision.outcome.as_ref().ok().and_then(|o| o.rejected.get(index)?.as_ref());
    let held = decision.before.rows.get(index).is_some_and(Option::is_some);
    let (why, causes) = match (row, rejection) {
        (Some(row), rejection) => {
            let is_kept = held && decision.before.same_policy;
            let rejection = rejection.map(|rejection| explain_rejection(subject, rejection, cluster).0);
            (explain_pick(row, rejection, is_kept), Vec::new())
        }
        (None, Some(rejection)) => explain_rejection(subject, rejection, cluster),
        (None, None) => explain_not_picked(subject, decision, held),
    };
    ClusterVerdict {
        cluster: cluster.name.clone(),
        chosen: row.is_some(),
        refused_by: rejection.map(filter_name),
        score: row.and_then(|r| r.scores).map(|s| s.affinity),
        replicas: None,
        why,
        causes: attribute_causes(subject, causes),
    }
}

/// The causes of a verdict. A former placement is in the previous plan alone.
fn attribute_causes(subject: &PlacementSubject<'_>, causes: Vec<VerdictCause>) -> Vec<VerdictCause> {
    let attribute = |cause| match cause {
        VerdictCause::Cluster(_) => cause,
        _ if subject.is_former => VerdictCause::PreviousPlan,
        _ => cause,
    };
    let mut causes: Vec<VerdictCause> = causes.into_iter().map(attribute).collect();
    causes.dedup();
    causes
}

/// The name of the filter, as in the placement's status.
fn filter_name(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::Affinity => "ClusterAffinity",
        Rejection::Ineligible(_) => "ClusterEligibility",
        Rejection::Namespace(_) => "NamespaceAffinity",
        Rejection::Taint(_) => "TaintToleration",
        Rejection::Spread(_) => "TopologySpreadConstraints",
        Rejection::Score(_) => "Score",
    }
}

fn format_scores(scores: Scores) -> String {
    format!("affinity score: {}, topology spread score: {}", scores.affinity, scores.topology)
}

fn explain_pick(row: ScheduleRow, rejection: Option<String>, held: bool) -> String {
    let how = if held { "picked before, and kept" } else { "picked by scheduling policy" };
    let mut words = match row.scores {
        Some(scores) => format!("{how} ({})", format_scores(scores)),
        None => how.to_owned(),
    };
    if let Some(rejection) = rejection {
        words.push_str(&format!("; {rejection}"));
    }
    words
}

fn explain_rejection(
    subject: &PlacementSubject<'_>,
    rejection: &Rejection,
    cluster: &Cluster,
) -> (String, Vec<VerdictCause>) {
    let placement = &subject.object.id;
    match rejection {
        Rejection::Affinity => (
            "cluster does not match with any of the required cluster affinity terms".to_owned(),
            vec![VerdictCause::field(placement, REQUIRED_AFFINITY)],
        ),
        Rejection::Ineligible(why) => {
            let cause = match why {
                Ineligibility::Leaving => ClusterCause::Deleting,
                Ineligibility::Offline | Ineligibility::NotJoined => ClusterCause::NotJoined,
                Ineligibility::Silent(_) | Ineligibility::NeverHeard | Ineligibility::Unhealthy(_) => {
                    ClusterCause::NotReady
                }
            };
            let why = format!("cluster is not eligible for resource placement yet: {why}");
            (why, vec![VerdictCause::Cluster(cause)])
        }
        Rejection::Namespace(namespace) => {
            let cause = ClusterCause::Namespace { namespace: namespace.clone() };
            (format!("cluster has no namespace `{namespace}`"), vec![VerdictCause::Cluster(cause)])
        }
        Rejection::Taint(_) => {
            let taints: Vec<_> = untolerated_taints(&subject.policy, cluster).collect();
            let shown =
                taints.iter().map(|taint| format!("`{}={}:{}`", taint.key, taint.value, taint.effect));
            let shown: Vec<String> = shown.collect();
            let (noun, verb) = if shown.len() == 1 { ("taint", "is") } else { ("taints", "are") };
            let why = format!("{noun} {} {verb} not tolerated", shown.join(" and "));
            (why, taints.into_iter().map(VerdictCause::taint).collect())
        }
        Rejection::Spread(violated) => {
            let keys: Vec<String> = violated.iter().map(|by| format!("`{}`", by.key)).collect();
            let noun = if keys.len() == 1 { "constraint" } else { "constraints" };
            let why = format!("it would violate the topology spread {noun} on {}", keys.join(" and "));
            let path = |at: usize| format!("/spec/policy/topologySpreadConstraints/{at}");
            (why, violated.iter().map(|by| VerdictCause::field(placement, path(by.at))).collect())
        }
        Rejection::Score(scores) => {
            let why = format!("cluster does not score high enough ({})", format_scores(*scores));
            (why, vec![too_few(subject)])
        }
    }
}

/// The cause that is the number of clusters of a placement.
fn too_few(subject: &PlacementSubject<'_>) -> VerdictCause {
    VerdictCause::TooFew {
        object: subject.object.id.clone(),
        path: "/spec/policy/numberOfClusters".to_owned(),
    }
}

fn explain_not_picked(
    subject: &PlacementSubject<'_>,
    decision: &PlacementDecision<'_, '_>,
    held: bool,
) -> (String, Vec<VerdictCause>) {
    let placement = &subject.object.id;
    let (why, cause) = match &decision.outcome {
        Err(_) => {
            let path = match subject.selection_error() {
                Some(failure) if failure.reason == "InvalidPolicy" => "/spec/policy",
                Some(_) => "/spec/resourceSelectors",
                None => "/spec/policy/affinity",
            };
            ("the scheduling cycle was aborted", VerdictCause::field(placement, path))
        }
        Ok(_) if subject.policy.placement_type == PlacementType::PickFixed => {
            let path = "/spec/policy/clusterNames".to_owned();
            ("the policy does not name it", VerdictCause::NotListed { object: placement.clone(), path })
        }
        Ok(_) if held => ("picked before, but fewer clusters are wanted now", too_few(subject)),
        Ok(_) => ("not considered: the policy needs no further cluster", too_few(subject)),
    };
    (why.to_owned(), vec![cause])
}
