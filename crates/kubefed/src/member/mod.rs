//! What the sync controller does about an object in one member cluster: it creates, updates, adopts, deletes,
//! releases or leaves it.
//!
//! Facts: an object in a member is managed if it has the label `kubefed.io/managed: "true"`. Other objects are
//! adopted unless adoption is disabled or the label is `"false"`. An update retains some fields of the live
//! object, then applies the overrides. It is sent only if the recorded versions differ.

use serde_json::Value;

use super::federated::Federated;
use super::observe::is_managed;
use super::overrides::{self, Step};
use super::{KubeFedPlane, NOT_READY, decide, manifest};
use federate_dialect::{Action, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::{Cluster, Object};

pub(super) mod deletion;
mod retain;
pub(super) mod version;

pub(super) use version::is_record;

/// The status of an action without problems.
const DONE: &str = "OK";

/// The status of an object that is being deleted.
const WAITING: &str = "WaitingForRemoval";

/// Decides what to do in a cluster; `None` where the controller does not look at it.
pub(super) fn reconcile(
    plane: &KubeFedPlane<'_>,
    row: &Placement,
    federated: &Federated<'_>,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<Action> {
    plane.cluster(&cluster.name)?;
    if decide::inactive(plane, federated).is_some() {
        return None;
    }
    if federated.object.deleting() {
        return deletion::reconcile(plane, federated, cluster, live);
    }
    if row.unschedulable.as_ref().is_some_and(|u| u.reason == decide::NO_PLACEMENT) {
        return None;
    }
    let placed = row.clusters.named(&cluster.name);
    let Some(placed) = placed else {
        let managed = live.filter(|live| cluster.ready && is_managed(live))?;
        return Some(withdraw(plane, federated, managed));
    };
    if !cluster.ready {
        return Some(Action::nothing(NOT_READY));
    }
    let Ok(steps) = manifest::steps(plane, row, federated, placed) else {
        return Some(Action::nothing(manifest::OVERRIDES_FAILED));
    };
    let sending = Sending { plane, row, federated, cluster, steps: &steps };
    Some(match live {
        Some(live) if is_managed(live) => sending.update(live, false),
        found => sending.create(found),
    })
}

/// Decides what to do about a managed object in a cluster that is not selected.
fn withdraw(plane: &KubeFedPlane<'_>, federated: &Federated<'_>, live: &Object) -> Action {
    if live.deleting() {
        return Action::nothing(WAITING);
    }
    if is_host_namespace(plane, federated, live) {
        return Action { op: SyncOp::Release(released(live)), adopts: false, status: DONE, hint: None };
    }
    Action { op: SyncOp::Delete(DeleteOptions::new()), adopts: false, status: WAITING, hint: None }
}

/// Whether a live object is the namespace of the host cluster itself, where the host is also a member.
fn is_host_namespace(plane: &KubeFedPlane<'_>, federated: &Federated<'_>, live: &Object) -> bool {
    let uid = live.text(&["metadata", "uid"]);
    let host = || plane.input.repo.templates.iter().map(|template| &template.object);
    federated.kind.is_namespace()
        && !uid.is_empty()
        && host().any(|o| o.id == federated.target && o.text(&["metadata", "uid"]) == uid)
}

/// The object without the label that marks it as managed.
fn released(live: &Object) -> Value {
    let mut body = live.body.clone();
    let labels = body.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
    labels.and_then(|labels| labels.shift_remove(manifest::MANAGED));
    body
}

/// A federated object that is sent to a cluster.
struct Sending<'s, 'a> {
    plane: &'s KubeFedPlane<'a>,
    row: &'s Placement,
    federated: &'s Federated<'a>,
    cluster: &'s Cluster,
    steps: &'s [Step],
}

impl Sending<'_, '_> {
    /// Creates the object, or adopts an existing one if that is allowed.
    fn create(&self, found: Option<&Object>) -> Action {
        let mut body = manifest::base(self.federated);
        if overrides::apply_all(self.steps, &mut body).is_err() {
            return Action::nothing(manifest::OVERRIDES_FAILED);
        }
        match found {
            None => {
                manifest::mark(&mut body);
                Action { op: SyncOp::Create(body), adopts: false, status: DONE, hint: None }
            }
            Some(found)
                if !self.plane.config.adopts && !is_host_namespace(self.plane, self.federated, found) =>
            {
                Action::nothing("AlreadyExists")
                    .unless("`spec.syncController.adoptResources` of the KubeFedConfig is `Disabled`")
            }
            Some(found) if found.label(manifest::MANAGED) == Some("false") => Action::nothing(
                "ManagedLabelFalse",
            )
            .unless(format!("the label `{}: \"false\"` of the live object forbids it", manifest::MANAGED)),
            Some(found) => self.update(found, true),
        }
    }

    fn update(&self, live: &Object, adopts: bool) -> Action {
        let mut body = manifest::base(self.federated);
        if retain::retain(self.federated, &mut body, live).is_err() {
            return Action::nothing("FieldRetentionFailed");
        }
        if overrides::apply_all(self.steps, &mut body).is_err() {
            return Action::nothing(manifest::OVERRIDES_FAILED);
        }
        manifest::mark(&mut body);
        let recorded = version::recorded(self.plane, self.row, self.federated, &self.cluster.name);
        if version::is_current(recorded, &body, live) {
            return Action::nothing(DONE);
        }
        Action { op: SyncOp::Update(body), adopts, status: DONE, hint: None }
    }
}
