//! stub
use super::api::*;
use crate::k8s::{Object, Finding};
use serde_json::Value;
pub(super) fn propagation_spec(object: &Object) -> Result<PropagationSpec, Finding> {
    let mut s: PropagationSpec = serde_json::from_value(object.at(&["spec"]).cloned().unwrap_or_default()).map_err(|e| Finding::error("invalid-policy", object, e.to_string()))?;
    if let Some(ns) = &object.id.namespace { for r in &mut s.resource_selectors { if r.namespace.is_empty() { r.namespace.clone_from(ns); } } }
    fix(&mut s.placement);
    Ok(s)
}
pub(super) fn placement(v: &Value) -> Option<Placement> { let mut p: Placement = serde_json::from_value(v.clone()).ok()?; fix(&mut p); Some(p) }
fn fix(p: &mut Placement) {
    for c in &mut p.spread_constraints { if c.spread_by_field.is_empty() && c.spread_by_label.is_empty() { c.spread_by_field = "cluster".into(); } if c.min_groups == 0 { c.min_groups = 1; } }
    if let Some(r) = &mut p.replica_scheduling { if r.replica_scheduling_type.is_empty() { r.replica_scheduling_type = "Divided".into(); } if r.replica_scheduling_type == "Divided" && r.replica_division_preference.is_empty() { r.replica_division_preference = "Weighted".into(); } }
}
