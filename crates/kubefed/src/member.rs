//! What the sync controller does about an object in one member cluster: it creates, updates, adopts, deletes,
//! releases or leaves it.
//!
//! Facts: an object in a member is managed if it has the label `kubefed.io/managed: "true"`. Other objects are
//! adopted unless adoption is disabled or the label is `"false"`. An update retains some fields of the live
//! object, then applies the overrides. It is sent only if the recorded versions differ.

use serde_json::Value;

use super::federated_object::FederatedObject;
use super::observation::is_managed;
use super::overrides::{self, OverrideStep};
use super::{CLUSTER_NOT_READY, KubeFedPlanner, decision, manifest};
use federate_dialect::{ControlPlaneAction, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::{Cluster, Object};

pub(super) mod deletion;
mod retention;
pub(super) mod version;

pub(super) use version::is_record;

/// The status of an action without problems.
pub(super) const OK_STATUS: &str = "OK";

/// The status of an object that is being deleted.
const WAITING_STATUS: &str = "WaitingForRemoval";

/// Decides what to do in a cluster; `None` where the controller does not look at it.
pub(super) fn reconcile_member(
    plane: &KubeFedPlanner<'_>,
    row: &Placement,
    federated: &FederatedObject<'_>,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    plane.find_cluster(&cluster.name)?;
    if decision::inactive_refusal(plane, federated).is_some() {
        return None;
    }
    if federated.object.is_deleting() {
        return deletion::reconcile_deletion(plane, federated, cluster, live);
    }
    if row.unschedulable.as_ref().is_some_and(|u| u.reason == decision::NO_PLACEMENT) {
        return None;
    }
    let placed = row.clusters.find_cluster(&cluster.name);
    let Some(placed) = placed else {
        let managed = live.filter(|live| cluster.ready && is_managed(live))?;
        return Some(withdraw_object(plane, federated, managed));
    };
    if !cluster.ready {
        return Some(ControlPlaneAction::do_nothing(CLUSTER_NOT_READY));
    }
    let Ok(steps) = manifest::cluster_steps(plane, row, federated, placed) else {
        return Some(ControlPlaneAction::do_nothing(manifest::OVERRIDES_FAILED));
    };
    let sending = Sending { plane, row, federated, cluster, steps: &steps };
    Some(match live {
        Some(live) if is_managed(live) => sending.update_action(live, false),
        found => sending.create_action(found),
    })
}

/// Decides what to do about a managed object in a cluster that is not selected.
fn withdraw_object(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
    live: &Object,
) -> ControlPlaneAction {
    if live.is_deleting() {
        return ControlPlaneAction::do_nothing(WAITING_STATUS);
    }
    if is_host_namespace(plane, federated, live) {
        return ControlPlaneAction {
            op: SyncOp::Release(without_managed_label(live)),
            adopts: false,
            status: OK_STATUS,
            hint: None,
        };
    }
    ControlPlaneAction {
        op: SyncOp::Delete(DeleteOptions::new()),
        adopts: false,
        status: WAITING_STATUS,
        hint: None,
    }
}

/// Whether a live object is the namespace of the host cluster itself, where the host is also a member.
fn is_host_namespace(plane: &KubeFedPlanner<'_>, federated: &FederatedObject<'_>, live: &Object) -> bool {
    let uid = live.text_at(&["metadata", "uid"]);
    let mut objects = plane.input.repo.templates.iter().map(|template| &template.object);
    federated.kind.is_namespace()
        && !uid.is_empty()
        && objects.any(|o| o.id == federated.target && o.text_at(&["metadata", "uid"]) == uid)
}

/// The object without the label that marks it as managed.
fn without_managed_label(live: &Object) -> Value {
    let mut body = live.body.clone();
    let labels = body.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
    labels.and_then(|labels| labels.shift_remove(manifest::MANAGED_LABEL));
    body
}

/// A federated object that is sent to a cluster.
struct Sending<'s, 'a> {
    plane: &'s KubeFedPlanner<'a>,
    row: &'s Placement,
    federated: &'s FederatedObject<'a>,
    cluster: &'s Cluster,
    steps: &'s [OverrideStep],
}

impl Sending<'_, '_> {
    /// Creates the object, or adopts an existing one if that is allowed.
    fn create_action(&self, found: Option<&Object>) -> ControlPlaneAction {
        let mut body = manifest::base_manifest(self.federated);
        if overrides::apply_all(self.steps, &mut body).is_err() {
            return ControlPlaneAction::do_nothing(manifest::OVERRIDES_FAILED);
        }
        match found {
            None => {
                manifest::mark_managed(&mut body);
                ControlPlaneAction { op: SyncOp::Create(body), adopts: false, status: OK_STATUS, hint: None }
            }
            Some(found)
                if !self.plane.config.adopts && !is_host_namespace(self.plane, self.federated, found) =>
            {
                ControlPlaneAction::do_nothing("AlreadyExists")
                    .with_hint("`spec.syncController.adoptResources` of the KubeFedConfig is `Disabled`")
            }
            Some(found) if found.label(manifest::MANAGED_LABEL) == Some("false") => {
                ControlPlaneAction::do_nothing("ManagedLabelFalse").with_hint(format!(
                    "the label `{}: \"false\"` of the live object forbids it",
                    manifest::MANAGED_LABEL
                ))
            }
            Some(found) => self.update_action(found, true),
        }
    }

    fn update_action(&self, live: &Object, adopts: bool) -> ControlPlaneAction {
        let mut body = manifest::base_manifest(self.federated);
        if retention::retain_fields(self.federated, &mut body, live).is_err() {
            return ControlPlaneAction::do_nothing("FieldRetentionFailed");
        }
        if overrides::apply_all(self.steps, &mut body).is_err() {
            return ControlPlaneAction::do_nothing(manifest::OVERRIDES_FAILED);
        }
        manifest::mark_managed(&mut body);
        let recorded = version::recorded_version(self.plane, self.row, self.federated, &self.cluster.name);
        if version::is_current(recorded, &body, live) {
            return ControlPlaneAction::do_nothing(OK_STATUS);
        }
        ControlPlaneAction { op: SyncOp::Update(body), adopts, status: OK_STATUS, hint: None }
    }
}
