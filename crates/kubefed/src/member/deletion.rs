//! The deletion of a federated object: what happens to its objects in the members, and how far it is.
//!
//! Facts: without the controller's finalizer nothing happens. The controller deletes the objects in the clusters
//! that are selected at that moment. Where the federated object leaves orphans, it only removes their label, and
//! removes the finalizer first. While a selected cluster is not ready, the deletion fails.

use serde_json::{Map, Value};

use super::super::KubeFedPlane;
use super::super::decide::{self, Decision};
use super::super::division::Trace;
use super::super::federated::Federated;
use super::super::observe::is_managed;
use super::{DONE, is_host_namespace, released};
use federate_dialect::{Action, DeleteOptions, DeletionProgress, DeletionState, Previous, SyncOp};
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
fn policy(federated: &Federated<'_>) -> Option<Policy> {
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

fn has_finalizer(federated: &Federated<'_>) -> bool {
    let finalizers = federated.object.at(&["metadata", "finalizers"]).and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == FINALIZER))
}

/// The clusters that are selected at this moment; `None` where the placement cannot be read.
fn selected<'a>(plane: &KubeFedPlane<'a>, federated: &Federated<'a>) -> Option<Vec<&'a Cluster>> {
    let decision = Decision::new(plane, federated, &Previous::default(), &mut Trace::default());
    if decision.refusal.as_ref().is_some_and(|refusal| refusal.reason == decide::NO_PLACEMENT) {
        return None;
    }
    let all = plane.clusters.iter().copied().enumerate();
    Some(all.filter(|(index, _)| decision.selects(*index)).map(|(_, cluster)| cluster).collect())
}

/// Decides what to do in a cluster.
pub(super) fn reconcile(
    plane: &KubeFedPlane<'_>,
    federated: &Federated<'_>,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<Action> {
    let live = live.filter(|live| cluster.ready && is_managed(live) && !live.deleting())?;
    if !has_finalizer(federated) {
        return None;
    }
    let policy = policy(federated)?;
    selected(plane, federated)?.iter().find(|one| one.name == cluster.name)?;
    let op = match policy {
        Policy::Delete(options) if !is_host_namespace(plane, federated, live) => SyncOp::Delete(options),
        _ => SyncOp::Release(released(live)),
    };
    Some(Action { op, adopts: false, status: DONE, hint: None })
}

/// How far the deletion is, from what is in the clusters before anything is done; `None` where the object is not
/// being deleted.
pub(crate) fn progress(plane: &KubeFedPlane<'_>, federated: &Federated<'_>) -> Option<DeletionProgress> {
    if decide::inactive(plane, federated).is_some() || !federated.object.deleting() {
        return None;
    }
    let failed = DeletionProgress { finalizer_removed: false, state: DeletionState::Failed };
    if !has_finalizer(federated) {
        return Some(DeletionProgress { state: DeletionState::Done, ..failed });
    }
    let Some(policy) = policy(federated) else { return Some(failed) };
    let orphans = matches!(policy, Policy::Orphan);
    let Some(selected) = selected(plane, federated) else {
        return Some(DeletionProgress { finalizer_removed: orphans, ..failed });
    };
    let state = if selected.iter().any(|cluster| !cluster.ready) {
        DeletionState::Failed
    } else if !orphans && selected.iter().any(|cluster| remains(plane, federated, cluster)) {
        DeletionState::Waiting
    } else {
        DeletionState::Done
    };
    Some(DeletionProgress { finalizer_removed: orphans || state == DeletionState::Done, state })
}

/// Whether a cluster still has an object that has to go first.
fn remains(plane: &KubeFedPlane<'_>, federated: &Federated<'_>, cluster: &Cluster) -> bool {
    let id = &federated.target;
    let live = plane.input.live;
    let found = live.get(&cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
    found.is_some_and(|live| {
        is_managed(live) && !(live.deleting() && is_host_namespace(plane, federated, live))
    })
}
