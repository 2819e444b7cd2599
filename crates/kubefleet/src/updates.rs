//! Updates of placements that the API server refuses.
//!
//! Facts: the placement type never changes, and tolerations are only added; neither do `statusReportingScope` and a
//! strategy `External` change. A `ClusterResourcePlacement` without a policy has `PickAll`, as if it were written; the
//! policy of a `ResourcePlacement` cannot be removed. After a refused update the former placement is in force.

use federate_dialect::PreviousPlan;
use federate_kubernetes::{Finding, Object};
use serde_json::{Value, json};

use super::api::PlacementPolicy;
use super::rollout::api::is_external;
use super::state::KubeFleetState;
use crate::api::NAME;

/// The `spec` of a placement as a plan stores it: without its policy, unless that is another than the one under
/// which its clusters were picked.
pub(super) fn spec_to_store(placement: &Object, picked_under: &Value) -> Value {
    let mut spec = placement.value_at(&["spec"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let written = spec.get("policy").filter(|policy| !policy.is_null());
    let is_same = match written {
        Some(policy) => policy == picked_under,
        None => *picked_under == default_policy(),
    };
    if is_same {
        spec.shift_remove("policy");
    } else if written.is_none() {
        spec.insert("policy".to_owned(), Value::Null);
    }
    spec.into()
}

/// The policy of a placement without one.
pub(super) fn default_policy() -> Value {
    json!({"placementType": "PickAll"})
}

/// A placement as an earlier run has found it; `None` if the plan of that run does not tell.
pub(super) fn earlier_object(placement: &Object, previous: &PreviousPlan) -> Option<Object> {
    let row = previous.find_row(&placement.id).filter(|row| row.dialect == NAME)?;
    let KubeFleetState { policy: Some(policy), spec: Some(mut spec), .. } = KubeFleetState::from_row(row)
    else {
        return None;
    };
    spec.as_object_mut()?.entry("policy").or_insert(policy);
    let mut earlier = placement.clone();
    earlier.body.as_object_mut()?.insert("spec".to_owned(), spec);
    Some(earlier)
}

/// The policy of a placement as it is written, if any is.
pub(super) fn written_policy(placement: &Object) -> Option<&Value> {
    placement.value_at(&["spec", "policy"]).filter(|policy| !policy.is_null())
}

fn read_policy(placement: &Object) -> Option<PlacementPolicy> {
    PlacementPolicy::from_json(placement.value_at(&["spec", "policy"])).ok()
}

/// The scope in which the status of a placement is reported.
fn reporting_scope(placement: &Object) -> &str {
    match placement.text_at(&["spec", "statusReportingScope"]) {
        "" => "ClusterScopeOnly",
        scope => scope,
    }
}

fn refused_update(new: &Object, pointer: &str, why: &str, help: &str) -> Finding {
    let message = format!("{} stays as it was: KubeFleet refuses the update, because {why}", new.id);
    Finding::error("refused-update", new, message).with_pointer(pointer).with_help(help.to_owned())
}

/// Why the API server refuses to replace a placement by another, if it does.
pub(super) fn refuse_update(old: &Object, new: &Object) -> Option<Finding> {
    let (before, after) = (read_policy(old)?, read_policy(new)?);
    if before.placement_type != after.placement_type {
        let why = format!(
            "`placementType` never changes, here from `{:?}` to `{:?}`",
            before.placement_type, after.placement_type
        );
        return Some(refused_update(
            new,
            "/spec/policy/placementType",
            &why,
            "undo the change, or write a placement with another name and remove this one",
        ));
    }
    if before.tolerations.iter().any(|toleration| !after.tolerations.contains(toleration)) {
        return Some(refused_update(
            new,
            "/spec/policy/tolerations",
            "tolerations can be added, but not changed or removed",
            "write the former tolerations again, or write a placement with another name and remove this one",
        ));
    }
    if new.id.kind == "ResourcePlacement"
        && written_policy(new).is_none()
        && written_policy(old).is_some_and(|policy| *policy != default_policy())
    {
        let why = "the policy of a ResourcePlacement cannot be removed";
        return Some(refused_update(new, "/spec", why, "write the former policy again"));
    }
    let (old_scope, new_scope) = (reporting_scope(old), reporting_scope(new));
    if old_scope != new_scope {
        let why = format!("`statusReportingScope` never changes, here from `{old_scope}` to `{new_scope}`");
        return Some(refused_update(new, "/spec/statusReportingScope", &why, "undo the change"));
    }
    if is_external(old) && !is_external(new) {
        let why = "a strategy `External` cannot be changed to another type";
        return Some(refused_update(new, "/spec/strategy/type", why, "keep `type: External`"));
    }
    None
}
