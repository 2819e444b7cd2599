//! Explains a placement: the policy, the filter that refused each cluster, scores, weights.

use super::decision::TemplateDecider;
use super::effective_policy::find_replacements;
use super::schedule::ClusterTrace;
use super::state::KubeAdmiralState;
use super::{KubeAdmiralPlanner, NAME, keys};
use federate_dialect::{ClusterVerdict, Explanation, Placement, PreviousPlan};
use federate_kubernetes::Object;

/// Explains a template's placement; `None` where the control plane does not decide about it.
pub(super) fn explain_template(
    plane: &KubeAdmiralPlanner<'_>,
    template: &Object,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Option<Explanation> {
    let placement = placed.filter(|p| p.dialect == NAME)?.clone();
    let config = plane.types.get(&template.id.api_version, &template.id.kind);
    let mut trace = ClusterTrace::new(plane.clusters.len());
    let stays = config.is_some_and(|config| {
        TemplateDecider::new(plane, template, config, previous).place_once(Some(&mut trace)).stays
    });
    let deferred = KubeAdmiralState::from_row(&placement).deferred;
    if stays && !deferred.is_empty() {
        trace.steps.push(format!("it is not scheduled again although something changed: {deferred}"));
    }
    Some(Explanation {
        dialect: NAME,
        policy: describe_policy(plane, &placement),
        clusters: cluster_verdicts(plane, template, &placement, &trace),
        steps: trace.steps,
        placement,
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    })
}

fn describe_policy(plane: &KubeAdmiralPlanner<'_>, placement: &Placement) -> Vec<String> {
    let mut words = Vec::new();
    match placement.policy.as_ref().map(|id| (id, plane.policies.get(id))) {
        Some((id, Some(policy))) => {
            words.push(format!("{id} ({}) is named by the template's label", policy.object.origin));
            if let Some(template) = plane.find_template(&placement.object) {
                words.extend(find_replacements(&template.object).into_iter().map(|one| {
                    let at = plane
                        .repo
                        .locate_value(&template.object.origin, &keys::annotation_pointer(one.annotation));
                    format!(
                        "the annotation {} ({}:{}) replaces the policy's {}",
                        one.annotation, template.object.origin.file, at.line, one.field
                    )
                }));
            }
        }
        Some((id, None)) => words.push(format!("{id} is named by the template's label, but does not exist")),
        None => words.push("the template names no policy".to_owned()),
    }
    words.extend(placement.required_by.iter().map(|leader| format!("{leader} needs it where it runs")));
    let namespace = plane
        .find_template(&placement.object)
        .is_some_and(|t| plane.namespaces.goes_to_every_cluster(&t.object));
    if namespace {
        words.push("a Namespace goes to every cluster without any policy".to_owned());
    }
    words
}

fn cluster_verdicts(
    plane: &KubeAdmiralPlanner<'_>,
    template: &Object,
    placement: &Placement,
    trace: &ClusterTrace,
) -> Vec<ClusterVerdict> {
    let rows = plane.clusters.iter().enumerate();
    rows.map(|(index, cluster)| {
        let placed = placement.clusters.find_cluster(&cluster.name);
        let refusal = trace.refusals[index].as_ref();
        let passed = trace.scores[index].is_some();
        let why = match (refusal, placed.is_some()) {
            (Some((_, why)), false) => why.clone(),
            (Some((_, why)), true) => format!("placed there although {why}"),
            (None, true) if passed => "chosen".to_owned(),
            (None, true) => "placed".to_owned(),
            (None, false) if passed => "eligible, but not chosen".to_owned(),
            (None, false) if !cluster.joined => "has not joined".to_owned(),
            (None, false) => format!("no rule places {} there", template.id),
        };
        ClusterVerdict {
            cluster: cluster.name.clone(),
            chosen: placed.is_some(),
            refused_by: refusal.filter(|_| placed.is_none()).map(|(filter, _)| filter.name()),
            score: trace.scores[index],
            replicas: placed.and_then(|p| p.replicas),
            why,
        }
    })
    .collect()
}
