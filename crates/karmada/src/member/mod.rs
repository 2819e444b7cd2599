//! Decides about an object in one member cluster: create, update, adopt, delete or leave.
//!
//! Facts: an object in a member is Karmada's own with the label `karmada.io/managed: "true"`. An
//! object without the label is overwritten only with conflict resolution `Overwrite`. An update keeps what the
//! member added, and is sent only if it changes something.

use serde_json::Value;

use super::{Karmadas, manifest, prune};
use crate::quota::PlannedQuota;
use federate_dialect::release::Release;
use federate_dialect::{Action, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::{Cluster, Object};
use federate_repo::Template;

mod body;
mod pod;
pub mod retain;
mod stamp;

/// The label on objects that Karmada manages.
pub(super) const MANAGED: &str = "karmada.io/managed";

/// The annotation with the conflict resolution.
const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// The status of an action without further information.
const DONE: &str = "OK";

/// The action in a cluster.
pub(super) fn reconcile(
    plane: &Karmadas<'_>,
    placement: &Placement,
    template: &Template,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<Action> {
    if placement.withdrawn.contains(&cluster.name) {
        return Some(Action::nothing(manifest::EVICTING));
    }
    if !placement.clusters.has(&cluster.name) {
        return withdraw(plane, placement, live?);
    }
    if placement.suspended.contains(&cluster.name) {
        return Some(Action::nothing("SuspendDispatching"));
    }
    let variant = manifest::variant(plane, placement, template, &cluster.name)?;
    Some(match variant.rendered {
        Err(withheld) => Action::nothing(withheld.status),
        Ok(mut rendered) => {
            let overwrites = manifest::overwrites(plane, placement);
            stamp::stamp(&mut rendered.body, placement, template, &cluster.name, overwrites);
            let release = plane.behaviour.release;
            decide_by(rendered.body, live, |desired, live| {
                retain::interpreted(&plane.interpreter, desired, live, release)
            })
        }
    })
}

/// The action in a cluster for the `ResourceQuota` of a quota.
pub(super) fn reconcile_quota(
    plane: &Karmadas<'_>,
    quota: &PlannedQuota<'_>,
    cluster: &str,
    live: Option<&Object>,
) -> Option<Action> {
    let Some(body) = quota.body(cluster) else {
        let live = live.filter(|live| is_managed(live))?;
        let options = DeleteOptions::from_iter([("propagationPolicy".to_owned(), "Background".into())]);
        let op = SyncOp::Delete(options);
        return (live.id == quota.target).then(|| Action { op, adopts: false, status: DONE, hint: None });
    };
    let mut body = body.clone();
    stamp::stamp_work(&mut body, cluster);
    Some(decide(body, live, plane.behaviour.release))
}

/// The action in a cluster where the object is not placed (any more).
fn withdraw(plane: &Karmadas<'_>, placement: &Placement, live: &Object) -> Option<Action> {
    if !is_managed(live) {
        return None;
    }
    let op = if manifest::preserves(plane, placement) {
        SyncOp::Release(stamp::removed(&live.body))
    } else {
        SyncOp::Delete(DeleteOptions::from_iter([("propagationPolicy".to_owned(), "Background".into())]))
    };
    Some(Action { op, adopts: false, status: DONE, hint: None })
}

/// Whether Karmada has marked a member cluster's object as its own.
fn is_managed(live: &Object) -> bool {
    live.label(MANAGED) == Some("true")
}

/// The action of a release for a stamped manifest.
pub fn decide(desired: Value, live: Option<&Object>, release: Release) -> Action {
    decide_by(desired, live, |desired, live| retain::retained(desired, live, release))
}

/// The same, with the retention `retain`.
fn decide_by(
    desired: Value,
    live: Option<&Object>,
    retain: impl FnOnce(Value, &Object) -> Result<Value, retain::Unretained>,
) -> Action {
    let Some(live) = live else {
        return Action { op: SyncOp::Create(desired), adopts: false, status: DONE, hint: None };
    };
    let resolution = desired.pointer("/metadata/annotations").and_then(|a| a.get(CONFLICT_RESOLUTION));
    let adopts = !is_managed(live);
    if adopts && resolution.and_then(Value::as_str) != Some("overwrite") {
        return Action::nothing("AlreadyExists").unless(
            "that takes `conflictResolution: Overwrite` in its policy, or on it the annotation \
             `work.karmada.io/conflict-resolution: overwrite`",
        );
    }
    let body = match retain(desired, live) {
        Ok(body) => body,
        Err(unretained) => return Action { hint: unretained.why, ..Action::nothing("RetainFailed") },
    };
    let op = if changes(&body, live) { SyncOp::Update(body) } else { SyncOp::Nothing };
    Action { op, adopts, status: DONE, hint: None }
}

/// Whether an update changes anything but fields that are never sent.
pub fn changes(retained: &Value, live: &Object) -> bool {
    let mut current = live.body.clone();
    prune::irrelevant(&mut current);
    retain::metadata(&mut current, live);
    *retained != current
}
