//! What is done about the objects of a federated object that is being deleted, and how far that is.
//!
//! Facts: nothing without the controller's finalizer. Objects are deleted in the clusters that are
//! selected at that moment, or only lose their label where the federated object is to leave orphans;
//! then the finalizer goes first. As long as a selected cluster is not ready the removal fails.

use serde_json::{Map, Value};

use super::super::KubeFeds;
use super::super::decide::{self, Decision};
use super::super::division::Trace;
use super::super::federated::Federated;
use super::super::observe::is_managed;
use super::{DONE, is_host_namespace, released};
use federate_dialect::{Action, DeleteOptions, Previous, Progress, Removal, SyncOp};
use federate_kubernetes::{Cluster, Object};

/// What keeps a federated object until its removal is complete.
const FINALIZER: &str = "kubefed.io/sync-controller";

/// How its objects are removed.
enum Way {
    /// They stay and are nobody's.
    Orphan,
    /// They are deleted with these options.
    Delete(DeleteOptions),
}

/// `None` where the options cannot be read.
fn way(federated: &Federated<'_>) -> Option<Way> {
    let object = federated.object;
    if object.annotation("kubefed.io/orphan") == Some("true") {
        return Some(Way::Orphan);
    }
    let Some(text) = object.annotation("kubefed.io/deleteoption") else {
        return Some(Way::Delete(DeleteOptions::new()));
    };
    let given: Option<Map<String, Value>> = serde_json::from_str(text).ok()?;
    let used = ["gracePeriodSeconds", "preconditions", "propagationPolicy"];
    let options = given.unwrap_or_default().into_iter();
    Some(Way::Delete(
        options.filter(|(key, value)| used.contains(&key.as_str()) && !value.is_null()).collect(),
    ))
}

fn has_finalizer(federated: &Federated<'_>) -> bool {
    let finalizers = federated.object.at(&["metadata", "finalizers"]).and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == FINALIZER))
}

/// The clusters that are selected at this moment; `None` where that cannot be told.
fn selected<'a>(plane: &KubeFeds<'a>, federated: &Federated<'a>) -> Option<Vec<&'a Cluster>> {
    let decision = Decision::new(plane, federated, &Previous::default(), &mut Trace::default());
    if decision.refusal.as_ref().is_some_and(|refusal| refusal.reason == decide::NO_PLACEMENT) {
        return None;
    }
    let all = plane.clusters.iter().copied().enumerate();
    Some(all.filter(|(index, _)| decision.selects(*index)).map(|(_, cluster)| cluster).collect())
}

/// What is done in a cluster.
pub(super) fn reconcile(
    plane: &KubeFeds<'_>,
    federated: &Federated<'_>,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<Action> {
    let live = live.filter(|live| cluster.ready && is_managed(live) && !live.deleting())?;
    if !has_finalizer(federated) {
        return None;
    }
    let way = way(federated)?;
    selected(plane, federated)?.iter().find(|one| one.name == cluster.name)?;
    let op = match way {
        Way::Delete(options) if !is_host_namespace(plane, federated, live) => SyncOp::Delete(options),
        _ => SyncOp::Release(released(live)),
    };
    Some(Action { op, adopts: false, status: DONE, hint: None })
}

/// How far the removal is, from what is in the clusters before anything is done.
pub(crate) fn removal(plane: &KubeFeds<'_>, federated: &Federated<'_>) -> Option<Removal> {
    if decide::inactive(plane, federated).is_some() || !federated.object.deleting() {
        return None;
    }
    let held = Removal { released: false, progress: Progress::Failed };
    if !has_finalizer(federated) {
        return Some(Removal { progress: Progress::Done, ..held });
    }
    let Some(way) = way(federated) else { return Some(held) };
    let orphans = matches!(way, Way::Orphan);
    let Some(selected) = selected(plane, federated) else {
        return Some(Removal { released: orphans, ..held });
    };
    let progress = if selected.iter().any(|cluster| !cluster.ready) {
        Progress::Failed
    } else if !orphans && selected.iter().any(|cluster| remains(plane, federated, cluster)) {
        Progress::Waiting
    } else {
        Progress::Done
    };
    Some(Removal { released: orphans || progress == Progress::Done, progress })
}

/// Whether something is left in a cluster that has to go first.
fn remains(plane: &KubeFeds<'_>, federated: &Federated<'_>, cluster: &Cluster) -> bool {
    let id = &federated.target;
    let live = plane.input.live;
    let found = live.get(&cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
    found.is_some_and(|live| {
        is_managed(live) && !(live.deleting() && is_host_namespace(plane, federated, live))
    })
}
