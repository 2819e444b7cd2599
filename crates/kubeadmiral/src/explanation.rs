//! Explains a placement: the policy, the filter that refused each cluster, scores, weights.

use super::decision::TemplateDecider;
use super::effective_policy::find_replacements;
use super::policies::policy_reference;
use super::schedule::{ClusterExclusion, ClusterTrace, UnitCause};
use super::state::KubeAdmiralState;
use super::{KubeAdmiralPlanner, NAME, NOT_FEDERATED, keys};
use federate_dialect::{ClusterCause, ClusterVerdict, Explanation, Placement, PreviousPlan, VerdictCause};
use federate_kubernetes::kinds::pluralize_kind;
use federate_kubernetes::{Cluster, Object};

/// Explains a template's placement; `None` where the control plane does not decide about it.
pub(super) fn explain_template(
    plane: &KubeAdmiralPlanner<'_>,
    template: &Object,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Option<Explanation> {
    let placement = placed.filter(|p| p.dialect == NAME)?.clone();
    let mut trace = ClusterTrace::new(plane.clusters.len());
    trace.held_back = explain_not_federated(template, &placement);
    let config = plane.types.get(&template.id.api_version, &template.id.kind);
    let config = config.filter(|_| trace.held_back.is_none());
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

/// Why a template is not federated, if it is not.
fn explain_not_federated(template: &Object, placement: &Placement) -> Option<ClusterExclusion> {
    let why = placement.unschedulable.as_ref().filter(|why| why.reason == NOT_FEDERATED)?;
    let annotation = keys::NO_FEDERATED;
    let cause = if template.annotation(annotation).is_some_and(|value| !value.is_empty()) {
        VerdictCause::field(&template.id, keys::annotation_pointer(annotation))
    } else {
        let plural = pluralize_kind(&template.id.kind.to_lowercase());
        let name = match template.id.group() {
            "" => plural,
            group => format!("{plural}.{group}"),
        };
        VerdictCause::Missing { object: policy_reference("FederatedTypeConfig", None, &name) }
    };
    Some(ClusterExclusion::new(&why.message, cause))
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
        let (why, causes) = match (refusal, placed.is_some()) {
            (Some((_, refusal)), true) => (format!("placed there although {}", refusal.why), Vec::new()),
            (None, true) if passed => ("chosen".to_owned(), Vec::new()),
            (None, true) => ("placed".to_owned(), Vec::new()),
            (refusal, false) => {
                let exclusion = refusal.map(|(_, refusal)| refusal).or(trace.unused[index].as_ref());
                explain_absence(cluster, template, placement, exclusion.or(trace.held_back.as_ref()))
            }
        };
        ClusterVerdict {
            cluster: cluster.name.clone(),
            chosen: placed.is_some(),
            refused_by: refusal.filter(|_| placed.is_none()).map(|(filter, _)| filter.name()),
            score: trace.scores[index],
            replicas: placed.and_then(|p| p.replicas),
            why,
            causes,
        }
    })
    .collect()
}

/// Why an object is not placed in a cluster. `exclusion` is the scheduler's reason.
fn explain_absence(
    cluster: &Cluster,
    template: &Object,
    placement: &Placement,
    exclusion: Option<&ClusterExclusion>,
) -> (String, Vec<VerdictCause>) {
    if !cluster.joined {
        return ("has not joined".to_owned(), vec![VerdictCause::Cluster(ClusterCause::NotJoined)]);
    }
    let mut reasons: Vec<String> = exclusion.iter().map(|exclusion| exclusion.why.clone()).collect();
    let causes = exclusion.into_iter().flat_map(|exclusion| &exclusion.causes);
    let mut causes: Vec<VerdictCause> =
        causes.map(|cause| attribute_cause(cause, template, placement)).collect();
    for leader in &placement.required_by {
        reasons.push(format!("{leader} does not run there"));
        causes.push(VerdictCause::Follows { leader: leader.clone() });
    }
    if reasons.is_empty() {
        reasons.push("no rule places the object there".to_owned());
    }
    (reasons.join(", and "), causes)
}

/// The object and the field that the scheduler's reason is about.
fn attribute_cause(cause: &UnitCause, template: &Object, placement: &Placement) -> VerdictCause {
    let annotation = |key: &str| VerdictCause::field(&template.id, keys::annotation_pointer(key));
    match cause {
        UnitCause::Field(field) => {
            let replaced = find_replacements(template).into_iter().find(|one| one.field == *field);
            match (replaced, &placement.policy) {
                (Some(replacement), _) => annotation(replacement.annotation),
                (None, Some(policy)) => VerdictCause::field(policy, format!("/spec/{field}")),
                (None, None) => VerdictCause::PreviousPlan,
            }
        }
        UnitCause::Migration if template.annotation(keys::MIGRATION).is_some() => annotation(keys::MIGRATION),
        UnitCause::Migration => VerdictCause::PreviousPlan,
        UnitCause::Replicas => VerdictCause::Replicas { object: template.id.clone() },
        UnitCause::Other(cause) => cause.clone(),
    }
}
