//! The defaults that Karmada's API server and admission fill into policies, and the fields that a release
//! ignores.

use serde::Deserialize;
use serde_json::Value;

use super::api::{KarmadaClusterAffinity, KarmadaPlacement, KarmadaToleration, PropagationSpec};
use super::version::{KarmadaBehaviour, Overflow, Tolerations};
use federate_kubernetes::{Finding, Object, schema};

/// A policy's `spec` with its defaults.
pub(super) fn propagation_spec(
    object: &Object,
    behaviour: &KarmadaBehaviour,
) -> Result<PropagationSpec, Finding> {
    let mut spec: PropagationSpec = schema::read_field(object, "spec", "invalid-policy")?;
    if let Some(namespace) = &object.id.namespace {
        for selector in spec.resource_selectors.iter_mut().filter(|s| s.namespace.is_empty()) {
            selector.namespace.clone_from(namespace);
        }
    }
    spec.propagate_deps |= spec.resource_selectors.iter().any(|selector| {
        selector.api_version == "multicluster.x-k8s.io/v1alpha1" && selector.kind == "ServiceImport"
    });
    fill_defaults(&mut spec.placement, behaviour);
    let written = spec.placement.cluster_tolerations.len();
    add_default_tolerations(&mut spec.placement, behaviour);
    spec.added_tolerations = spec.placement.cluster_tolerations.len() - written;
    Ok(spec)
}

/// A remembered placement with its defaults; `None` when it cannot be read.
pub(super) fn read_placement(value: &Value, behaviour: &KarmadaBehaviour) -> Option<KarmadaPlacement> {
    placement_as_applied(value, behaviour).map(|(placement, _)| placement)
}

/// The same, with the number of tolerations that admission has added at the end.
pub(super) fn placement_as_applied(
    value: &Value,
    behaviour: &KarmadaBehaviour,
) -> Option<(KarmadaPlacement, usize)> {
    let mut placement: KarmadaPlacement = KarmadaPlacement::deserialize(value).ok()?;
    fill_defaults(&mut placement, behaviour);
    let written = placement.cluster_tolerations.len();
    add_default_tolerations(&mut placement, behaviour);
    let added = placement.cluster_tolerations.len() - written;
    Some((placement, added))
}

/// Adds the tolerations of old releases: five minutes for each condition that the policy does not name.
fn add_default_tolerations(placement: &mut KarmadaPlacement, behaviour: &KarmadaBehaviour) {
    if behaviour.tolerations == Tolerations::AsWritten {
        return;
    }
    let tolerations = &mut placement.cluster_tolerations;
    for key in ["cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable"] {
        if !tolerations.iter().any(|t| t.key == key && t.effect == "NoExecute") {
            tolerations.push(KarmadaToleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: "NoExecute".to_owned(),
                toleration_seconds: Some(300),
                ..KarmadaToleration::default()
            });
        }
    }
}

/// Every affinity of a placement.
fn all_affinities(placement: &mut KarmadaPlacement) -> impl Iterator<Item = &mut KarmadaClusterAffinity> {
    let weights = placement.replica_scheduling.as_mut().and_then(|s| s.weight_preference.as_mut());
    let weights = weights.into_iter().flat_map(|w| &mut w.static_weight_list).map(|w| &mut w.target_cluster);
    let ordered = placement.cluster_affinities.iter_mut().flat_map(|term| {
        let overflow = term.overflow_affinities.iter_mut().map(|overflow| &mut overflow.affinity);
        std::iter::once(&mut term.affinity).chain(overflow)
    });
    placement.cluster_affinity.iter_mut().chain(ordered).chain(weights)
}

fn fill_defaults(placement: &mut KarmadaPlacement, behaviour: &KarmadaBehaviour) {
    if behaviour.overflow == Overflow::Ignored {
        placement.cluster_affinities.iter_mut().for_each(|term| term.overflow_affinities.clear());
    }
    all_affinities(placement).for_each(|affinity| affinity.read_as(behaviour));
    for constraint in &mut placement.spread_constraints {
        if constraint.spread_by_field.is_empty() && constraint.spread_by_label.is_empty() {
            "cluster".clone_into(&mut constraint.spread_by_field);
        }
        if constraint.min_groups == 0 {
            constraint.min_groups = 1;
        }
    }
    if let Some(scheduling) = &mut placement.replica_scheduling {
        if scheduling.replica_scheduling_type.is_empty() {
            "Divided".clone_into(&mut scheduling.replica_scheduling_type);
        }
        if scheduling.replica_scheduling_type == "Divided"
            && scheduling.replica_division_preference.is_empty()
        {
            "Weighted".clone_into(&mut scheduling.replica_division_preference);
        }
    }
}
