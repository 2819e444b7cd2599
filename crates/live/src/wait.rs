//! Waits until the applied objects are healthy, by the rules of their control plane and by their status.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Client;
use super::cluster_reader::list_all;
use super::items::read_objects;
use super::lists::ListRequest;
use super::{ApplyOptions, ClusterKinds, ClusterProgress, Error};
use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::readiness::Readiness;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::ownership::PART_OF_LABEL;
use federate_reconcile::{ActionKind, ObjectDecision, PlacedObjects};

/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The objects of a cluster that exist after an apply, and their kinds.
pub(super) struct AppliedObjects {
    objects: Vec<ObjectRef>,
    kinds: ClusterKinds,
}

impl AppliedObjects {
    /// Those that decisions have applied.
    pub(super) fn new(decisions: &[ObjectDecision], kinds: ClusterKinds) -> Self {
        let applied = decisions.iter().filter(|decision| !decision.is_left);
        let applied = applied.map(|decision| &decision.action).filter(|action| match action.action {
            ActionKind::Create | ActionKind::Update | ActionKind::Adopt | ActionKind::Unchanged => true,
            ActionKind::Delete | ActionKind::Conflict | ActionKind::Skip => false,
        });
        Self { objects: applied.map(|action| action.object.clone()).collect(), kinds }
    }
}

/// An object that is not healthy.
pub(super) struct UnhealthyObject {
    /// The object.
    pub(super) object: ObjectRef,
    /// Why, with the time that was waited.
    pub(super) why: String,
    /// How it is, if more time may help.
    pub(super) state: Option<String>,
}

/// Waits until everything is healthy, something has failed for good, the time is over, or something newer is to be done.
/// Returns the objects that are not healthy then. Between two looks, other clusters are worked on in place of this one.
pub(super) async fn wait_until_healthy(
    client: &Client,
    cluster: &ClusterName,
    AppliedObjects { objects, kinds }: &AppliedObjects,
    placed: &PlacedObjects<'_>,
    options: &ApplyOptions<'_>,
    timeout: Duration,
) -> Result<Vec<UnhealthyObject>, Error> {
    let begun = Instant::now();
    let end = begun + timeout;
    let mut open: BTreeMap<&ObjectRef, String> =
        objects.iter().map(|object| (object, "it does not exist".to_owned())).collect();
    let selector = format!("{PART_OF_LABEL}={}", options.apply_set.compute_id());
    let mut failed: BTreeMap<ObjectRef, String> = BTreeMap::new();
    let mut interrupted = false;
    while !open.is_empty() {
        options.server.progress.report_progress(cluster, ClusterProgress::Waiting { open: open.len() });
        // A kind is listed as long as anything of it is open.
        let open_kinds: BTreeSet<(&str, &str)> =
            open.keys().map(|object| (object.api_version.as_str(), object.kind.as_str())).collect();
        let lists = open_kinds.iter().filter_map(|kind| {
            let object = open.keys().find(|o| (o.api_version.as_str(), o.kind.as_str()) == *kind)?;
            let kind = kinds.find_kind(object)?.clone();
            Some(ListRequest { kind, namespace: None, selector: Some(selector.clone()) })
        });
        let lists: Vec<ListRequest> = lists.collect();
        let namespaces = open.keys().filter_map(|object| object.namespace.clone()).collect();
        let items = list_all(client, lists, &namespaces, None).await?.items;
        for mut object in read_objects(&items, cluster)? {
            read_fields(&mut object.body);
            if !open.contains_key(&object.id) {
                continue;
            }
            match placed.assess_readiness(&object) {
                Readiness::Ready => drop(open.remove(&object.id)),
                Readiness::InProgress(reason) => {
                    if let Some(why) = open.get_mut(&object.id) {
                        *why = reason;
                    }
                }
                Readiness::Failed(why) => {
                    open.remove(&object.id);
                    failed.insert(object.id, why);
                }
            }
        }
        interrupted = options.server.interrupt.as_ref().is_some_and(|is_interrupted| is_interrupted());
        if Instant::now() >= end || !failed.is_empty() || interrupted {
            break;
        }
        client.release_slot();
        if !open.is_empty() {
            sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
    let waited = begun.elapsed().min(timeout).as_secs();
    let ended = if interrupted { ", when something newer ended the wait" } else { "" };
    let late = open.into_iter().map(|(object, why)| UnhealthyObject {
        object: object.clone(),
        why: format!("not healthy after {waited} s{ended}: {why}"),
        state: Some(why),
    });
    let failed = failed.into_iter().map(|(object, why)| UnhealthyObject { object, why, state: None });
    Ok(failed.chain(late).collect())
}
