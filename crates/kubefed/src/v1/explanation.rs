//! Explains the placements of Federation v1.

use super::{AUTOSCALER_ANNOTATION, Divided, SELECTOR_ANNOTATION, V1Decision};
use crate::division::DivisionTrace;
use crate::{KubeFedPlanner, NAME};
use federate_dialect::{ClusterVerdict, Explanation, Placement, PreviousPlan};
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
    let (refused_by, why) = match &decision.requirements {
        _ if plane.find_cluster(&cluster.name).is_none() => {
            (Some("Inventory"), format!("only clusters in namespace `{}` are seen", plane.config.namespace))
        }
        Err((reason, message)) => (Some(*reason), message.clone()),
        Ok(_) if !cluster.ready => (Some("Readiness"), "it is not ready".to_owned()),
        Ok(requirements) => match requirements.iter().find(|r| !r.matches_labels(&cluster.labels)) {
            Some(failed) => (Some("ClusterSelector"), failed.describe_mismatch(&cluster.labels)),
            None if part.chosen => (None, describe_chosen(part.replicas)),
            None if part.withdrawn => (
                Some("Autoscaler"),
                "the autoscaler does not name it; the object stays there with 0 replicas".to_owned(),
            ),
            None if decision.autoscaled => (Some("Autoscaler"), "the autoscaler does not name it".to_owned()),
            None => (Some("Preferences"), "no parallelism is left for it".to_owned()),
        },
    };
    ClusterVerdict {
        cluster: cluster.name.clone(),
        chosen: part.chosen,
        refused_by,
        score: None,
        replicas: part.replicas,
        why,
    }
}

fn describe_chosen(replicas: Option<i64>) -> String {
    replicas.map_or_else(
        || "ready and selected".to_owned(),
        |replicas| format!("ready and selected; gets {replicas}"),
    )
}
