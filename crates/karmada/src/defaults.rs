//! The defaults that Karmada's API server and admission fill into policies.

use serde_json::Value;

use super::api::{Placement, PropagationSpec};
use federate_kubernetes::{Finding, Object};

/// A policy's `spec` with its defaults.
pub(super) fn propagation_spec(object: &Object) -> Result<PropagationSpec, Finding> {
    let spec = object.at(&["spec"]).cloned().unwrap_or_default();
    let mut spec: PropagationSpec = serde_path_to_error::deserialize(spec).map_err(|error| {
        let path = error.path().to_string();
        Finding::error("invalid-policy", object, format!("`spec.{path}`: {}", error.inner()))
            .at(format!("/spec/{}", path.replace(['.', '['], "/").replace(']', "")))
    })?;
    if let Some(namespace) = &object.id.namespace {
        for selector in spec.resource_selectors.iter_mut().filter(|s| s.namespace.is_empty()) {
            selector.namespace.clone_from(namespace);
        }
    }
    let imports = |s: &super::api::ResourceSelector| {
        s.api_version == "multicluster.x-k8s.io/v1alpha1" && s.kind == "ServiceImport"
    };
    spec.propagate_deps |= spec.resource_selectors.iter().any(imports);
    fill(&mut spec.placement);
    Ok(spec)
}

/// A placement as it was remembered, with its defaults; `None` when it cannot be read.
pub(super) fn placement(value: &Value) -> Option<Placement> {
    let mut placement: Placement = serde_json::from_value(value.clone()).ok()?;
    fill(&mut placement);
    Some(placement)
}

fn fill(placement: &mut Placement) {
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
