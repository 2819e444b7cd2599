//! Explains the placements of Federation v1.

use super::{AUTOSCALER_ANNOTATION, Divided, Part, SELECTOR_ANNOTATION, V1Decision, annotation_pointer};
use crate::division::DivisionTrace;
use crate::explanation::{KubeFedExclusion, unseen_cluster};
use crate::{KubeFedPlanner, NAME};
use federate_dialect::{ClusterCause, ClusterVerdict, Explanation, Placement, PreviousPlan, VerdictCause};
use federate_kubernetes::Cluster;
use federate_repo::Template;

/// Explains a template's placement; `placed` is its row of the plan.
pub(in super::super) fn explain_template(
    plane: &KubeFedPlanner<'_>,
    template: &Template,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Explanation {
    let mut trace = DivisionTrace::recording();
    let decision = V1Decision::new(plane, template, previous, &mut trace);
    Explanation {
        dialect: NAME,
        policy: describe_policy(&decision),
        steps: trace.into_steps(),
        clusters: plane
            .input
            .clusters
            .iter()
            .map(|cluster| cluster_verdict(plane, &decision, cluster))
            .collect(),
        placement: placed.cloned().unwrap_or_else(|| decision.to_row()),
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    }
}

fn describe_policy(decision: &V1Decision<'_>) -> Vec<String> {
    let object = decision.object;
    let mut lines = Vec::new();
    match object.annotation(SELECTOR_ANNOTATION) {
        _ if decision.implicit => {
            lines.push("Federation v1 sends everything to every ready cluster".to_owned());
        }
        Some(_) if object.id.kind == "Job" => {
            lines.push("a cluster selector has no effect on a Job".to_owned());
        }
        Some(_) => lines.push(format!("its annotation `{SELECTOR_ANNOTATION}` selects clusters")),
        None => lines.push("without a cluster selector it goes to every ready cluster".to_owned()),
    }
    let divided = Divided::for_kind(&object.id);
    if decision.autoscaled {
        lines.push(format!("its annotation `{AUTOSCALER_ANNOTATION}` decides replicas"));
    } else if divided != Divided::Nothing && object.annotation(divided.preferences_annotation()).is_some() {
        lines.push(match &decision.preferences {
            Some(why) => {
                format!("its annotation `{}` does not count: {why}", divided.preferences_annotation())
            }
            None => format!("its annotation `{}` divides it", divided.preferences_annotation()),
        });
    }
    if let Err((reason, message)) = &decision.requirements {
        lines.push(format!("{reason}: {message}"));
    }
    lines
}

fn cluster_verdict(
    plane: &KubeFedPlanner<'_>,
    decision: &V1Decision<'_>,
    cluster: &Cluster,
) -> ClusterVerdict {
    let part = decision.parts.iter().find(|(c, _)| c.name == cluster.name).map(|(_, part)| *part);
    let part = part.unwrap_or_default();
    let exclusion = explain_exclusion(plane, decision, part, cluster);
    let (refused_by, why, causes) = match exclusion {
        Some(KubeFedExclusion { by, why, causes }) => (Some(by), why, causes),
        None => (None, describe_chosen(part.replicas), Vec::new()),
    };
    ClusterVerdict {
        cluster: cluster.name.clone(),
        chosen: part.chosen,
        refused_by,
        score: None,
        replicas: part.replicas,
        why,
        causes,
    }
}

/// Why a cluster does not receive the object; `None` if it does.
fn explain_exclusion(
    plane: &KubeFedPlanner<'_>,
    decision: &V1Decision<'_>,
    part: Part,
    cluster: &Cluster,
) -> Option<KubeFedExclusion> {
    let id = &decision.object.id;
    let annotation = |name: &str| VerdictCause::field(id, annotation_pointer(name));
    if plane.find_cluster(&cluster.name).is_none() {
        return Some(unseen_cluster(plane));
    }
    let requirements = match &decision.requirements {
        Ok(requirements) => requirements,
        Err((reason, message)) => {
            let is_selector = *reason == "InvalidClusterSelector";
            let name = if is_selector { SELECTOR_ANNOTATION } else { AUTOSCALER_ANNOTATION };
            return Some(KubeFedExclusion::new(reason, &**message, annotation(name)));
        }
    };
    if !cluster.ready {
        let cause = VerdictCause::Cluster(ClusterCause::NotReady);
        return Some(KubeFedExclusion::new("Readiness", "it is not ready", cause));
    }
    let failed = requirements.iter().filter(|r| !r.matches_labels(&cluster.labels));
    let failed: Vec<String> = failed.map(|r| r.describe_mismatch(&cluster.labels)).collect();
    if !failed.is_empty() {
        let why = failed.join(", and ");
        return Some(KubeFedExclusion::new("ClusterSelector", why, annotation(SELECTOR_ANNOTATION)));
    }
    let preferences = Divided::for_kind(id).preferences_annotation();
    match part {
        Part { chosen: true, .. } => None,
        Part { withdrawn: true, .. } => Some(KubeFedExclusion::new(
            "Autoscaler",
            "the autoscaler does not name it; the object stays there with 0 replicas",
            annotation(AUTOSCALER_ANNOTATION),
        )),
        _ if decision.autoscaled => Some(KubeFedExclusion::new(
            "Autoscaler",
            "the autoscaler does not name it",
            annotation(AUTOSCALER_ANNOTATION),
        )),
        Part { unweighted: true, .. } => {
            let why = "the preferences give it no parallelism";
            Some(KubeFedExclusion::new("Preferences", why, annotation(preferences)))
        }
        _ => {
            let cause = VerdictCause::Replicas { object: id.clone() };
            Some(KubeFedExclusion::new("Preferences", "no parallelism is left for it", cause))
        }
    }
}

fn describe_chosen(replicas: Option<i64>) -> String {
    replicas.map_or_else(
        || "ready and selected".to_owned(),
        |replicas| format!("ready and selected; gets {replicas}"),
    )
}
