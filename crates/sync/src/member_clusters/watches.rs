//! The watches over what a Sync manages in member clusters. They tell the thread of the Sync which clusters to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use federate_kubernetes::{ClusterName, ObjectRef};
use federate_live::{MemberWatch, WatchedObjects};
use federate_reconcile::ApplySet;
use federate_session::Session;
use federate_sync_api::SyncSpec;

use crate::environment::Environment;
use crate::member_clusters::change_queue::ChangedClusters;
use crate::member_clusters::selection::selected_clusters;
use crate::sync_files::ValidSync;
use crate::sync_registry::{Wake, WakeSender};

/// Watches are started again after this long: credentials and addresses of clusters may have changed. Clusters that
/// cannot be listed meanwhile are compared at the interval.
const MAX_WATCH_AGE: Duration = Duration::from_hours(6);

/// The watches of a Sync.
pub(crate) struct MemberWatches {
    /// What they have seen, shared with their thread.
    changed: Arc<Mutex<ChangedClusters>>,
    waker: WakeSender,
    current: Option<CurrentWatch>,
}

struct CurrentWatch {
    set: (String, String),
    watched: Vec<WatchedObjects>,
    started: Instant,
    watch: MemberWatch,
}

impl MemberWatches {
    /// Watches that wake a thread.
    pub(crate) fn new(waker: WakeSender) -> Self {
        Self { changed: Arc::default(), waker, current: None }
    }

    /// What was seen.
    pub(crate) fn with_changes<T>(&self, run: impl FnOnce(&mut ChangedClusters) -> T) -> T {
        run(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&mut self) {
        self.current = None;
    }

    /// Has all objects listed again, to learn what the watches have missed.
    pub(crate) fn relist_objects(&self) {
        if let Some(current) = &self.current {
            current.watch.request_lists();
        }
    }

    /// Watches what a session renders for its clusters, if it is not watched already. Returns whether watches
    /// begin.
    pub(crate) fn ensure_watching(
        &mut self,
        valid_sync: &ValidSync,
        session: &Session,
        env: &Environment<'_>,
    ) -> bool {
        let (set, watched) =
            (valid_sync.object.apply_set(), watched_objects(&valid_sync.object.spec, session));
        let current = self.current.as_ref().filter(|now| now.set == set && now.watched == watched);
        if current.is_some_and(|now| now.started.elapsed() < MAX_WATCH_AGE) {
            return false;
        }
        self.current = None;
        let name = valid_sync.object.full_name();
        let access = match env.services.member_access(valid_sync, session) {
            Ok(access) => access,
            Err(error) => {
                tracing::warn!(sync = name, %error, "clusters cannot be watched");
                return true;
            }
        };
        let apply_set = ApplySet { namespace: set.0.clone(), name: set.1.clone() };
        let (changed, waker) = (self.changed.clone(), self.waker.clone());
        let started = MemberWatch::start(
            &access.access,
            &apply_set,
            watched.clone(),
            Arc::new(move |cluster: &ClusterName, object: Option<ObjectRef>| {
                changed.lock().unwrap_or_else(PoisonError::into_inner).note_change(
                    cluster,
                    object,
                    Instant::now(),
                );
                // The thread of the Sync may have ended.
                waker.send(Wake::Comparison);
            }),
        );
        match started {
            Ok(watch) => {
                self.current = Some(CurrentWatch { set, watched, started: Instant::now(), watch });
            }
            Err(error) => tracing::warn!(sync = name, %error, "clusters cannot be watched"),
        }
        true
    }
}

/// An object of each kind and namespace: by API version, kind and namespace.
type Places<'o> = BTreeMap<(&'o str, &'o str, Option<&'o str>), &'o ObjectRef>;

/// One object for each kind and namespace that is rendered for a cluster.
fn watched_objects(spec: &SyncSpec, session: &Session) -> Vec<WatchedObjects> {
    let mut objects: BTreeMap<&ClusterName, Places<'_>> = BTreeMap::new();
    for manifest in &session.render().manifests {
        let object = &manifest.object;
        let place = (object.api_version.as_str(), object.kind.as_str(), object.namespace.as_deref());
        for cluster in manifest.clusters.iter() {
            objects.entry(cluster).or_default().entry(place).or_insert(object);
        }
    }
    let known: BTreeSet<&ClusterName> =
        selected_clusters(spec, session).map(|cluster| &cluster.name).collect();
    objects
        .into_iter()
        .filter(|(cluster, _)| known.contains(cluster))
        .map(|(cluster, places)| {
            // Objects of a place are as good as each other; the first by name would change with each new object.
            let objects =
                places.into_values().map(|object| ObjectRef { name: String::new(), ..object.clone() });
            WatchedObjects { cluster: cluster.clone(), objects: objects.collect() }
        })
        .collect()
}
