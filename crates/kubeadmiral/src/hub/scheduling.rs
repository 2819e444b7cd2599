//! The decision of the scheduler about a federated object, in the form in which it writes it.

use super::super::decision::TemplateDecider;
use super::super::policies::KubeAdmiralPolicy;
use super::super::state::KubeAdmiralState;
use super::super::{KubeAdmiralPlanner, keys};
use super::{read_plan_with, template_of};
use federate_dialect::serving_clusters::ServingClusters;
use federate_dialect::{PlacedClusters, PlannerInput, PreviousPlan, goduration};
use federate_kubernetes::Object;
use federate_repo::Template;

/// What the scheduler decides about a federated object.
#[derive(Clone, Debug, PartialEq)]
pub struct FederatedObjectDecision {
    /// The annotations that it always sets, or removes.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// The scheduling, if anything triggers one.
    pub scheduling: Option<FederatedScheduling>,
    /// The controllers that change the object, in order. Those of a group act in any order.
    pub controllers: Vec<Vec<String>>,
    /// The JSON pointer to the replicas.
    pub replicas_pointer: String,
}

/// A scheduling of a federated object.
#[derive(Clone, Debug, PartialEq)]
pub struct FederatedScheduling {
    /// The clusters with their replicas.
    pub clusters: PlacedClusters,
    /// The triggers that it has seen, as an annotation.
    pub triggers: Option<String>,
    /// The annotations that later controllers read.
    pub annotations: Vec<(&'static str, Option<String>)>,
}

/// Decides about a federated object once, with the policies and the clusters of the repo; `None` if the kind is not
/// federated.
pub fn decide_federated_object(
    input: PlannerInput<'_>,
    federated: &Object,
) -> Option<FederatedObjectDecision> {
    let templates = [Template::new(template_of(federated)?)];
    let template = &templates.first()?.object;
    let mut plane = KubeAdmiralPlanner::new(input);
    plane.policies.policies.values_mut().for_each(KubeAdmiralPolicy::use_stored_digest);
    let previous = PreviousPlan::new(read_plan_with(std::slice::from_ref(federated), &plane.types));
    plane.served = ServingClusters::from_clusters(&templates, input.clusters);
    let config = plane.types.get(&template.id.api_version, &template.id.kind)?;
    let decider = TemplateDecider::new(&plane, template, config, &previous);
    let placement = decider.place_once(None).placement;
    let state = KubeAdmiralState::from_row(&placement);
    let before = previous.find_row(&template.id).and_then(|row| KubeAdmiralState::from_row(row).trigger);
    let policy = placement.policy.as_ref().and_then(|id| plane.policies.get(id)).map(|policy| &policy.spec);
    let threshold = policy.and_then(|policy| policy.auto_migration.as_ref()?.parse_threshold());
    let follow = policy.is_none_or(|policy| !policy.disable_follower_scheduling);
    let scheduling = (state.trigger != before).then(|| FederatedScheduling {
        triggers: state.trigger.map(|triggers| triggers.to_annotation(&plane.snapshot)),
        annotations: vec![
            (keys::ENABLE_FOLLOWERS, Some(follow.to_string())),
            (keys::THRESHOLD, threshold.map(goduration::format_duration)),
        ],
        clusters: placement.clusters,
    });
    Some(FederatedObjectDecision {
        annotations: vec![
            (keys::APPLIED_MIGRATION, decider.applied.clone()),
            (keys::DEFERRED, Some(state.deferred).filter(|text| !text.is_empty())),
        ],
        scheduling,
        controllers: config.controllers.clone(),
        replicas_pointer: config.replicas_pointer(),
    })
}
