//! The watches over what a Sync manages in member clusters. They tell the thread of the Sync which clusters to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use federate_engine::actions::Inventory;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_live::{MemberWatch, WatchedObjects};
use federate_session::Session;
use federate_sync_api::Spec;

use crate::board::{Wake, Waker};
use crate::environment::Environment;
use crate::members::change_queue::ChangedClusters;
use crate::members::selection::selected_clusters;
use crate::read::Loaded;

/// Watches are started again after this long: credentials and addresses of clusters may have changed. Clusters that
/// cannot be listed meanwhile are compared at the interval.
const LONGEST: Duration = Duration::from_hours(6);

/// The watches of a Sync.
pub(crate) struct MemberWatches {
    /// What they have seen, shared with their thread.
    changed: Arc<Mutex<ChangedClusters>>,
    waker: Waker,
    current: Option<Current>,
}

struct Current {
    set: (String, String),
    watched: Vec<WatchedObjects>,
    started: Instant,
    watch: MemberWatch,
}

impl MemberWatches {
    /// Watches that wake a thread.
    pub(crate) fn new(waker: Waker) -> Self {
        Self { changed: Arc::default(), waker, current: None }
    }

    /// What was seen.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut ChangedClusters) -> T) -> T {
        run(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all watches.
    pub(crate) fn end(&mut self) {
        self.current = None;
    }

    /// Has all objects listed again, to learn what the watches have missed.
    pub(crate) fn list(&self) {
        if let Some(current) = &self.current {
            current.watch.list();
        }
    }

    /// Watches what a session renders for its clusters, if it is not watched already. Returns whether watches
    /// begin.
    pub(crate) fn follow(&mut self, loaded: &Loaded, session: &Session, env: &Environment<'_>) -> bool {
        let (set, watched) = (loaded.sync.apply_set(), watched(&loaded.sync.spec, session));
        let same =
            |now: &Current| now.set == set && now.watched == watched && now.started.elapsed() < LONGEST;
        if self.current.as_ref().is_some_and(same) {
            return false;
        }
        self.current = None;
        let name = loaded.sync.metadata.full_name();
        let access = match env.world.access(loaded, session) {
            Ok(access) => access,
            Err(error) => {
                tracing::warn!(sync = name, error, "clusters cannot be watched");
                return true;
            }
        };
        let inventory = Inventory { namespace: set.0.clone(), name: set.1.clone() };
        let (changed, waker) = (self.changed.clone(), self.waker.clone());
        let note = move |cluster: &ClusterName, object: Option<ObjectRef>| {
            changed.lock().unwrap_or_else(PoisonError::into_inner).note(cluster, object, Instant::now());
            // The thread of the Sync may have ended.
            waker.send(Wake::Changed);
        };
        match MemberWatch::start(&access.access, &inventory, watched.clone(), Arc::new(note)) {
            Ok(watch) => {
                self.current = Some(Current { set, watched, started: Instant::now(), watch });
            }
            Err(error) => tracing::warn!(sync = name, %error, "clusters cannot be watched"),
        }
        true
    }
}

/// An object of each kind and namespace: by API version, kind and namespace.
type Places<'o> = BTreeMap<(&'o str, &'o str, Option<&'o str>), &'o ObjectRef>;

/// One object for each kind and namespace that is rendered for a cluster.
fn watched(spec: &Spec, session: &Session) -> Vec<WatchedObjects> {
    let mut objects: BTreeMap<&ClusterName, Places<'_>> = BTreeMap::new();
    for manifest in &session.rendering().manifests {
        let object = &manifest.object;
        let place = (object.api_version.as_str(), object.kind.as_str(), object.namespace.as_deref());
        for cluster in manifest.clusters.iter() {
            objects.entry(cluster).or_default().entry(place).or_insert(object);
        }
    }
    let known: BTreeSet<&ClusterName> =
        selected_clusters(spec, session).map(|cluster| &cluster.name).collect();
    let one = |(cluster, places): (&ClusterName, Places<'_>)| {
        // Objects of a place are as good as each other; the first by name would change with each new object.
        let objects = places.into_values().map(|object| ObjectRef { name: String::new(), ..object.clone() });
        WatchedObjects { cluster: cluster.clone(), objects: objects.collect() }
    };
    objects.into_iter().filter(|(cluster, _)| known.contains(cluster)).map(one).collect()
}
