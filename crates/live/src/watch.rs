//! Watches the members of an `ApplySet` in many clusters, to learn within moments that one of them has changed.
//!
//! Only metadata is asked for, and of each object only two numbers are kept: a hash of its name, and a hash of what
//! changes when the object is modified. Writes to the status of an object are not reported.
//!
//! Facts: "Efficient detection of changes" and "Receiving resources as Tables" (the media type
//! `PartialObjectMetadata`) of the Kubernetes API concepts. The generation of an object grows with its spec; kinds
//! without one have only the resource version. A watch that starts at a version that is too old ends with 410.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::core::WatchEvent;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client::{Client, WatchFailure, not_json};
use super::kinds::{self, list_path};
use super::lists::{ListBudget, PageLimit};
use super::path::ApiPath;
use super::request::{METADATA, METADATA_LIST, RepeatableRequest};
use super::target::Connections;
use super::{Access, DesiredState, Error, target};
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::lists::ListPage;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::ApplySet;
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::ownership::PART_OF_LABEL;

/// The most objects of a kind that are watched in a cluster.
const MAX_WATCHED_OBJECTS: usize = 1_000_000;
/// How long a watch lasts until it is started again.
const WATCH_TIMEOUT: Duration = Duration::from_mins(5);
/// How long after its end a watch may still be silent.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// The pause after a failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The pause before kinds that a cluster does not serve are looked up again.
const UNSERVED_PAUSE: Duration = Duration::from_mins(1);
/// The pause after a watch that is forbidden; the right may be granted meanwhile.
const FORBIDDEN_PAUSE: Duration = Duration::from_mins(10);
/// How many objects a page of a list has.
const PAGE_SIZE: &str = "500";

/// What is watched in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedObjects {
    /// The cluster.
    pub cluster: ClusterName,
    /// One object for each kind and namespace that is watched.
    pub objects: Vec<ObjectRef>,
}

/// Watches under way; they end when this is dropped.
#[derive(Debug)]
pub struct MemberWatch {
    _end: oneshot::Sender<()>,
    lists: watch::Sender<u64>,
}

/// The receiver of changes in a cluster, called from another thread: an object that has changed; `None` where it is not
/// known which ones have.
type ChangeListener = dyn Fn(&ClusterName, Option<ObjectRef>) + Send + Sync;

impl MemberWatch {
    /// Watches the members of an `ApplySet` in a thread of its own. `changed` is also called once for each cluster
    /// when its watches begin: what changed before that is not known.
    pub fn start(
        access: &Access,
        apply_set: &ApplySet,
        watched: Vec<WatchedObjects>,
        changed: Arc<ChangeListener>,
    ) -> Result<Self, Error> {
        let connections = access.open_connections(watched.len())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Access(error.to_string()))?;
        let selector = format!("{PART_OF_LABEL}={}", apply_set.compute_id());
        let (end, ended) = oneshot::channel::<()>();
        let (lists, list) = watch::channel(0);
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let mut all = JoinSet::new();
                for WatchedObjects { cluster, objects } in watched {
                    let (selector, changed, list) = (selector.clone(), changed.clone(), list.clone());
                    let watch = ClusterWatch { cluster, selector, changed, list };
                    all.spawn(watch.run_watches(connections.clone(), objects));
                }
                tokio::select! {
                    _ = ended => {}
                    () = async { while all.join_next().await.is_some() {} } => {}
                }
            });
        });
        Ok(Self { _end: end, lists })
    }

    /// Lists the metadata of all objects again. `changed` is called for each cluster in which a watch has missed
    /// something, and for each that cannot be listed.
    pub fn request_lists(&self) {
        self.lists.send_modify(|number| *number += 1);
    }
}

/// The watches of one cluster.
#[derive(Clone)]
struct ClusterWatch {
    cluster: ClusterName,
    selector: String,
    changed: Arc<ChangeListener>,
    /// Changes when everything is to be listed again.
    list: watch::Receiver<u64>,
}

/// The objects of a kind, in a namespace or in all.
#[derive(Clone, Debug)]
struct WatchScope {
    kind: ResourceKind,
    namespace: Option<String>,
}

impl WatchScope {
    /// An object of this place.
    fn object_ref(&self, metadata: &WatchedMetadata) -> ObjectRef {
        ObjectRef {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.clone(),
            namespace: self.kind.namespaced.then(|| metadata.namespace.clone()),
            name: metadata.name.clone(),
        }
    }
}

/// An object, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
struct WatchItem {
    metadata: WatchedMetadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WatchedMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    generation: Option<i64>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

/// The objects of a place: a hash of the name, and of what changes with the object.
type Versions = HashMap<u64, u64>;

impl WatchedMetadata {
    fn hash_name(&self) -> u64 {
        hash_value(&(&self.namespace, &self.name))
    }

    /// What changes when the object is modified, without its status.
    fn hash_version(&self) -> u64 {
        let version =
            self.generation.map_or_else(|| self.resource_version.clone(), |number| number.to_string());
        hash_value(&(&self.uid, version, &self.labels, &self.annotations, &self.deletion_timestamp))
    }
}

fn hash_value(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Notes what an event says. Returns whether that is news.
fn note_event(versions: &mut Versions, metadata: &WatchedMetadata, gone: bool) -> bool {
    let key = metadata.hash_name();
    if gone {
        return versions.remove(&key).is_some();
    }
    let version = metadata.hash_version();
    versions.insert(key, version) != Some(version)
}

/// Why a watch has ended.
enum WatchEnd {
    /// Its time is over.
    Over,
    /// The version that it started at is too old, or the credentials are.
    Expired,
    /// The account may not watch.
    Forbidden,
    /// Something failed.
    Failed,
}

impl ClusterWatch {
    async fn run_watches(self, connections: Arc<Connections>, objects: Vec<ObjectRef>) {
        let mut pause = FIRST_PAUSE;
        let client = loop {
            match target::connect_dedicated(&connections, &self.cluster).await {
                Ok(client) => break client,
                Err(_) => sleep_with_backoff(&mut pause).await,
            }
        };
        let mut open = objects;
        let mut watches = JoinSet::new();
        let mut pause = FIRST_PAUSE;
        while !open.is_empty() {
            let Ok(kinds) = self.find_kinds(&client, &open).await else {
                sleep_with_backoff(&mut pause).await;
                continue;
            };
            let (known, unserved): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|object| kinds.is_served(object));
            let mut places: BTreeMap<ApiPath, (ResourceKind, BTreeSet<String>)> = BTreeMap::new();
            for object in known {
                let Some(kind) = kinds.find_kind(&object) else { continue };
                let place =
                    places.entry(list_path(kind, None)).or_insert_with(|| (kind.clone(), BTreeSet::new()));
                place.1.extend(object.namespace);
            }
            let listed = Arc::new(AtomicUsize::new(places.len()));
            for (kind, namespaces) in places.into_values() {
                let place = WatchScope { kind, namespace: None };
                watches.spawn(self.clone().watch_kind(client.clone(), place, namespaces, listed.clone()));
            }
            open = unserved;
            if !open.is_empty() {
                sleep(UNSERVED_PAUSE).await;
            }
        }
        while watches.join_next().await.is_some() {}
    }

    async fn find_kinds(&self, client: &Client, objects: &[ObjectRef]) -> Result<kinds::ClusterKinds, Error> {
        let objects = objects.iter().map(|object| (object, &Value::Null)).collect();
        let desired = DesiredState { cluster: self.cluster.clone(), objects };
        kinds::find_kinds(client, &desired, &ApplySetContents::default()).await
    }

    /// Watches a kind in all namespaces, or in some where that is not allowed.
    async fn watch_kind(
        self,
        client: Client,
        place: WatchScope,
        namespaces: BTreeSet<String>,
        listed: Arc<AtomicUsize>,
    ) {
        match self.list_versions(&client, &place).await {
            Err(Error::Refused(refusal)) if refusal.code == 403 && place.kind.namespaced => {}
            first => {
                let list = self.list.clone();
                return self.watch_scope(&client, &place, first.ok(), Some(&listed), list).await;
            }
        }
        let mut watches = JoinSet::new();
        for namespace in namespaces {
            let place = WatchScope { namespace: Some(namespace), ..place.clone() };
            let (watch, client, list) = (self.clone(), client.clone(), self.list.clone());
            watches.spawn(async move { watch.watch_scope(&client, &place, None, None, list).await });
        }
        self.note_begun(&listed);
        while watches.join_next().await.is_some() {}
    }

    /// One kind less is to be listed; when there is none left, the cluster is compared.
    fn note_begun(&self, listed: &AtomicUsize) {
        if listed.fetch_sub(1, Ordering::SeqCst) == 1 {
            (self.changed)(&self.cluster, None);
        }
    }

    /// Watches a place, from its first list on if there is one. `listed` counts the kinds that are to be listed; `asks`
    /// asks for a list.
    async fn watch_scope(
        &self,
        client: &Client,
        place: &WatchScope,
        mut first: Option<(Versions, String)>,
        mut listed: Option<&Arc<AtomicUsize>>,
        mut asks: watch::Receiver<u64>,
    ) {
        let mut known: Option<Versions> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let list = match first.take() {
                Some(first) => Ok(first),
                None => self.list_versions(client, place).await,
            };
            let (mut versions, mut at) = match list {
                Ok(listed) => listed,
                Err(Error::Refused(refusal)) if refusal.code == 403 => {
                    // The comparison gets single objects where lists are forbidden.
                    if asked_within(FORBIDDEN_PAUSE, &mut asks).await {
                        (self.changed)(&self.cluster, None);
                    }
                    continue;
                }
                Err(_) => {
                    if asks.has_changed().unwrap_or(false) {
                        asks.mark_unchanged();
                        (self.changed)(&self.cluster, None);
                    }
                    sleep_with_backoff(&mut pause).await;
                    continue;
                }
            };
            if known.as_ref().is_some_and(|known| *known != versions) {
                (self.changed)(&self.cluster, None);
            }
            if let Some(listed) = listed.take() {
                self.note_begun(listed);
            }
            loop {
                let begun = Instant::now();
                match self.follow_events(client, place, &mut at, &mut versions, &mut asks).await {
                    WatchEnd::Over if begun.elapsed() >= FIRST_PAUSE => pause = FIRST_PAUSE,
                    WatchEnd::Expired => break,
                    // The next list tells what would have been watched.
                    WatchEnd::Forbidden => {
                        asked_within(FORBIDDEN_PAUSE, &mut asks).await;
                        break;
                    }
                    WatchEnd::Over | WatchEnd::Failed => sleep_with_backoff(&mut pause).await,
                }
            }
            known = Some(versions);
        }
    }

    /// All objects of a place, with the version of the list.
    async fn list_versions(&self, client: &Client, place: &WatchScope) -> Result<(Versions, String), Error> {
        let mut versions = Versions::new();
        let mut token = String::new();
        let mut pages = PageLimit::default();
        let budget = ListBudget::for_cluster();
        loop {
            let mut call = self
                .list_request(place)
                .with_page_limit()
                .with_accept(METADATA_LIST)
                .with_query("limit", PAGE_SIZE);
            if !token.is_empty() {
                call = call.with_query("continue", &token);
            }
            let answer = client.request_bytes(&call).await?;
            budget.take_bytes(answer.len())?;
            let page = ListPage::parse(&answer).map_err(|_| not_json())?;
            pages.check_page(&page)?;
            for item in &page.items {
                let WatchItem { metadata } = serde_json::from_str(item).map_err(|_| not_json())?;
                versions.insert(metadata.hash_name(), metadata.hash_version());
            }
            token = page.next;
            if token.is_empty() {
                return Ok((versions, page.resource_version));
            }
        }
    }

    fn list_request(&self, place: &WatchScope) -> RepeatableRequest {
        let path = list_path(&place.kind, place.namespace.as_deref());
        RepeatableRequest::get(path).with_query("labelSelector", &self.selector)
    }

    /// Watches from a version on, which it advances. Lists everything whenever that is asked for.
    async fn follow_events(
        &self,
        client: &Client,
        place: &WatchScope,
        at: &mut String,
        versions: &mut Versions,
        asks: &mut watch::Receiver<u64>,
    ) -> WatchEnd {
        let call = self
            .list_request(place)
            .with_accept(METADATA)
            .with_query("watch", "1")
            .with_query("resourceVersion", at);
        let call = call.with_query("allowWatchBookmarks", "true");
        let call = call.with_query("timeoutSeconds", &WATCH_TIMEOUT.as_secs().to_string());
        let mut events = match timeout(MAX_SILENCE, client.request_watch(&call)).await {
            Ok(Ok(events)) => events,
            Ok(Err(failure)) => return classify_end(failure),
            Err(_) => return WatchEnd::Failed,
        };
        loop {
            let next = tokio::select! {
                next = timeout(WATCH_TIMEOUT + MAX_SILENCE, events.next_event::<WatchItem>()) => next,
                Ok(()) = asks.changed() => {
                    self.list_again(client, place, versions).await;
                    continue;
                }
            };
            let (item, gone) = match next {
                Ok(Ok(Some(WatchEvent::Added(item) | WatchEvent::Modified(item)))) => (item, false),
                Ok(Ok(Some(WatchEvent::Deleted(item)))) => (item, true),
                Ok(Ok(Some(WatchEvent::Bookmark(mark)))) => {
                    *at = mark.metadata.resource_version;
                    continue;
                }
                Ok(Ok(Some(WatchEvent::Error(status)))) => {
                    return classify_end(WatchFailure { code: Some(status.code) });
                }
                Ok(Ok(None)) => return WatchEnd::Over,
                Ok(Err(failure)) => return classify_end(failure),
                // A connection that is lost without a word.
                Err(_) => return WatchEnd::Failed,
            };
            if note_event(versions, &item.metadata, gone) {
                (self.changed)(&self.cluster, Some(place.object_ref(&item.metadata)));
            }
            *at = item.metadata.resource_version;
            // More objects than a list may have.
            if versions.len() > MAX_WATCHED_OBJECTS {
                return WatchEnd::Failed;
            }
        }
    }
}

impl ClusterWatch {
    /// Finds out whether a watch that goes on has missed something.
    async fn list_again(&self, client: &Client, place: &WatchScope, versions: &mut Versions) {
        match self.list_versions(client, place).await {
            Ok((listed, _)) if listed == *versions => {}
            Ok((listed, _)) => {
                *versions = listed;
                (self.changed)(&self.cluster, None);
            }
            Err(Error::Refused(refusal)) if refusal.code == 403 => {}
            // The comparison says why.
            Err(_) => (self.changed)(&self.cluster, None),
        }
    }
}

fn classify_end(failure: WatchFailure) -> WatchEnd {
    match failure.code {
        Some(401 | 410) => WatchEnd::Expired,
        Some(403) => WatchEnd::Forbidden,
        _ => WatchEnd::Failed,
    }
}

/// Waits until everything is to be listed again, but not longer than a time. Returns whether it is.
async fn asked_within(time: Duration, asks: &mut watch::Receiver<u64>) -> bool {
    matches!(timeout(time, asks.changed()).await, Ok(Ok(())))
}

async fn sleep_with_backoff(pause: &mut Duration) {
    sleep(*pause).await;
    *pause = (2 * *pause).min(MAX_PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(version: &str, generation: Option<i64>) -> WatchedMetadata {
        let name = "web".to_owned();
        WatchedMetadata {
            name,
            resource_version: version.to_owned(),
            generation,
            ..WatchedMetadata::default()
        }
    }

    #[test]
    fn a_write_to_the_status_is_no_news() {
        let mut versions = Versions::new();
        assert!(note_event(&mut versions, &metadata("1", Some(1)), false));
        assert!(!note_event(&mut versions, &metadata("2", Some(1)), false), "only the status");
        assert!(note_event(&mut versions, &metadata("3", Some(2)), false));
        let mut labelled = metadata("4", Some(2));
        labelled.labels.insert("a".to_owned(), "b".to_owned());
        assert!(note_event(&mut versions, &labelled, false));
        assert!(note_event(&mut versions, &labelled, true) && !note_event(&mut versions, &labelled, true));
    }

    #[test]
    fn objects_without_a_generation_change_with_every_write() {
        let mut versions = Versions::new();
        assert!(note_event(&mut versions, &metadata("1", None), false));
        assert!(!note_event(&mut versions, &metadata("1", None), false));
        assert!(note_event(&mut versions, &metadata("2", None), false));
    }
}
