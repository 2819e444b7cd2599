//! The deletion of a federated object: what happens to its objects in the members, and how far it is.
//!
//! Facts: without the controller's finalizer nothing happens. The controller deletes the objects in the clusters
//! that are selected at that moment. Where the federated object leaves orphans, it only removes their label, and
//! removes the finalizer first. While a selected cluster is not ready, the deletion fails.

use serde_json::{Map, Value};

use super::super::KubeFedPlanner;
use super::super::decision::{self, FederatedDecision};
use super::super::division::DivisionTrace;
use super::super::federated_object::FederatedObject;
use super::super::observation::is_managed;
use super::{OK_STATUS, is_host_namespace, without_managed_label};
use federate_dialect::{
    ControlPlaneAction, DeleteOptions, DeletionProgress, DeletionState, PreviousPlan, SyncOp,
};
use federate_kubernetes::{Cluster, Object};

/// The finalizer that keeps a federated object until its deletion is complete.
const FINALIZER: &str = "kubefed.io/sync-controller";

/// What happens to the objects in the members.
enum Policy {
    /// They stay, without the label of the control plane.
    Orphan,
    /// They are deleted with these options.
    Delete(DeleteOptions),
}

/// The policy that the annotations of a federated object ask for; `None` where they cannot be read.
fn deletion_policy(federated: &FederatedObject<'_>) -> Option<Policy> {
    let object = federated.object;
    if object.annotation("kubefed.io/orphan") == Some("true") {
        return Some(Policy::Orphan);
    }
    let Some(text) = object.annotation("kubefed.io/deleteoption") else {
        return Some(Policy::Delete(DeleteOptions::new()));
    };
    let given: Option<Map<String, Value>> = serde_json::from_str(text).ok()?;
    let used = ["gracePeriodSeconds", "preconditions", "propagationPolicy"];
    let options = given.unwrap_or_default().into_iter();
    Some(Policy::Delete(
        options.filter(|(key, value)| used.contains(&key.as_str()) && !value.is_null()).collect(),
    ))
}

fn has_finalizer(federated: &FederatedObject<'_>) -> bool {
    let finalizers = federated.object.value_at(&["metadata", "finalizers"]).and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == FINALIZER))
}

/// The clusters that are selected at this moment; `None` where the placement cannot be read.
fn selected_clusters<'a>(
    plane: &KubeFedPlanner<'a>,
    federated: &FederatedObject<'a>,
) -> Option<Vec<&'a Cluster>> {
    let decision =
        FederatedDecision::new(plane, federated, &PreviousPlan::default(), &mut DivisionTrace::default());
    if decision.refusal.as_ref().is_some_and(|refusal| refusal.reason == decision::NO_PLACEMENT) {
        return None;
    }
    let all = plane.clusters.iter().copied().enumerate();
    Some(all.filter(|(index, _)| decision.is_selected(*index)).map(|(_, cluster)| cluster).collect())
}

/// Decides what to do in a cluster.
pub(super) fn reconcile_deletion(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    let live = live.filter(|live| cluster.ready && is_managed(live) && !live.is_deleting())?;
    if !has_finalizer(federated) {
        return None;
    }
    let policy = deletion_policy(federated)?;
    selected_clusters(plane, federated)?.iter().find(|one| one.name == cluster.name)?;
    let op = match policy {
        Policy::Delete(options) if !is_host_namespace(plane, federated, live) => SyncOp::Delete(options),
        _ => SyncOp::Release(without_managed_label(live)),
    };
    Some(ControlPlaneAction { op, adopts: false, status: OK_STATUS, hint: None })
}

/// How far the deletion is, from what is in the clusters before anything is done; `None` where the object is not
/// being deleted.
pub(crate) fn deletion_progress(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
) -> Option<DeletionProgress> {
    if decision::inactive_refusal(plane, federated).is_some() || !federated.object.is_deleting() {
        return None;
    }
    let failed = DeletionProgress { finalizer_removed: false, state: DeletionState::Failed };
    if !has_finalizer(federated) {
        return Some(DeletionProgress { state: DeletionState::Done, ..failed });
    }
    let Some(policy) = deletion_policy(federated) else { return Some(failed) };
    let orphans = matches!(policy, Policy::Orphan);
    let Some(selected) = selected_clusters(plane, federated) else {
        return Some(DeletionProgress { finalizer_removed: orphans, ..failed });
    };
    let state = if selected.iter().any(|cluster| !cluster.ready) {
        DeletionState::Failed
    } else if !orphans && selected.iter().any(|cluster| has_remaining(plane, federated, cluster)) {
        DeletionState::Waiting
    } else {
        DeletionState::Done
    };
    Some(DeletionProgress { finalizer_removed: orphans || state == DeletionState::Done, state })
}

/// Whether a cluster still has an object that has to go first.
fn has_remaining(plane: &KubeFedPlanner<'_>, federated: &FederatedObject<'_>, cluster: &Cluster) -> bool {
    let id = &federated.target;
    let live = plane.input.live;
    let found = live.get(&cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
    found.is_some_and(|live| {
        is_managed(live) && !(live.is_deleting() && is_host_namespace(plane, federated, live))
    })
}
