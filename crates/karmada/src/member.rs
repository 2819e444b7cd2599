//! Decides about an object in one member cluster: create, update, adopt, delete or leave.
//!
//! Facts: an object in a member is Karmada's own with the label `karmada.io/managed: "true"`. An
//! object without the label is overwritten only with conflict resolution `Overwrite`. An update keeps what the
//! member added, and is sent only if it changes something.

use serde_json::Value;

use super::{KarmadaPlanner, manifest, pruning};
use crate::quota::PlannedQuota;
use federate_dialect::release::Release;
use federate_dialect::{ControlPlaneAction, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::{Cluster, Object};
use federate_repo::Template;

mod body;
mod pod;
pub mod retention;
mod stamp;

/// The label on objects that Karmada manages.
pub(super) const MANAGED_LABEL: &str = "karmada.io/managed";

/// The annotation with the conflict resolution.
const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// The status of an action without further information.
const STATUS_OK: &str = "OK";

/// The status of an object that Karmada does not adopt.
const ALREADY_EXISTS: &str = "AlreadyExists";

/// The action in a cluster.
pub(super) fn reconcile_object(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    template: &Template,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    if placement.withdrawn.contains(&cluster.name) {
        return Some(ControlPlaneAction::do_nothing(manifest::EVICTING));
    }
    if !placement.clusters.contains_cluster(&cluster.name) {
        return withdraw_object(plane, placement, live?);
    }
    if placement.suspended.contains(&cluster.name) {
        return Some(ControlPlaneAction::do_nothing("SuspendDispatching"));
    }
    let variant = manifest::render_for_cluster(plane, placement, template, &cluster.name)?;
    let action = match variant.rendered {
        Err(withheld) => ControlPlaneAction::do_nothing(withheld.status),
        Ok(mut rendered) => {
            let overwrites = manifest::allows_overwrite(plane, placement);
            stamp::stamp_object(&mut rendered.body, placement, template, &cluster.name, overwrites);
            let release = plane.behaviour.release;
            // Where Karmada places the object, there are none.
            let finalizers = rendered.body["metadata"].get("finalizers").cloned();
            decide_by(rendered.body, live, |desired, live| {
                let mut body = retention::retain_with_scripts(&plane.interpreter, desired, live, release)?;
                manifest::set_finalizers(&mut body, finalizers);
                Ok(body)
            })
        }
    };
    // Without a policy, as a Namespace is placed, there is no setting that would adopt the object.
    let has_policy = placement.policy.is_some() || !placement.required_by.is_empty();
    (has_policy || action.status != ALREADY_EXISTS).then_some(action)
}

/// The action in a cluster for the `ResourceQuota` of a quota.
pub(super) fn reconcile_quota(
    plane: &KarmadaPlanner<'_>,
    quota: &PlannedQuota<'_>,
    cluster: &str,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    let Some(body) = quota.manifest_for(cluster) else {
        let live = live.filter(|live| is_managed(live))?;
        let options = DeleteOptions::from_iter([("propagationPolicy".to_owned(), "Background".into())]);
        let op = SyncOp::Delete(options);
        return (live.id == quota.target).then(|| ControlPlaneAction {
            op,
            adopts: false,
            status: STATUS_OK,
            hint: None,
        });
    };
    let mut body = body.clone();
    stamp::stamp_work(&mut body, cluster);
    Some(decide_action(body, live, plane.behaviour.release))
}

/// The action in a cluster where the object is not placed (any more).
fn withdraw_object(
    plane: &KarmadaPlanner<'_>,
    placement: &Placement,
    live: &Object,
) -> Option<ControlPlaneAction> {
    if !is_managed(live) {
        return None;
    }
    let op = if manifest::is_preserved(plane, placement) {
        SyncOp::Release(stamp::without_stamps(&live.body))
    } else {
        SyncOp::Delete(DeleteOptions::from_iter([("propagationPolicy".to_owned(), "Background".into())]))
    };
    Some(ControlPlaneAction { op, adopts: false, status: STATUS_OK, hint: None })
}

/// Whether Karmada has marked a member cluster's object as its own.
fn is_managed(live: &Object) -> bool {
    live.label(MANAGED_LABEL) == Some("true")
}

/// The action of a release for a stamped manifest.
pub fn decide_action(desired: Value, live: Option<&Object>, release: Release) -> ControlPlaneAction {
    decide_by(desired, live, |desired, live| retention::retain_fields(desired, live, release))
}

/// The same, with the retention `retain`.
fn decide_by(
    desired: Value,
    live: Option<&Object>,
    retain: impl FnOnce(Value, &Object) -> Result<Value, retention::RetainFailure>,
) -> ControlPlaneAction {
    let Some(live) = live else {
        return ControlPlaneAction {
            op: SyncOp::Create(desired),
            adopts: false,
            status: STATUS_OK,
            hint: None,
        };
    };
    let resolution = desired.pointer("/metadata/annotations").and_then(|a| a.get(CONFLICT_RESOLUTION));
    let adopts = !is_managed(live);
    if adopts && resolution.and_then(Value::as_str) != Some("overwrite") {
        return ControlPlaneAction::do_nothing(ALREADY_EXISTS).with_hint(
            "that takes `conflictResolution: Overwrite` in its policy, or on it the annotation \
             `work.karmada.io/conflict-resolution: overwrite`",
        );
    }
    let body = match retain(desired, live) {
        Ok(body) => body,
        Err(unretained) => {
            return ControlPlaneAction {
                hint: unretained.why,
                ..ControlPlaneAction::do_nothing("RetainFailed")
            };
        }
    };
    let op = if has_changes(&body, live) { SyncOp::Update(body) } else { SyncOp::Nothing };
    ControlPlaneAction { op, adopts, status: STATUS_OK, hint: None }
}

/// Whether an update changes anything but fields that are never sent.
pub fn has_changes(retained: &Value, live: &Object) -> bool {
    let mut current = live.body.clone();
    pruning::remove_unsent_fields(&mut current);
    retention::retain_metadata(&mut current, live);
    *retained != current
}
