//! The Sync objects of some namespaces, kept up to date by a list and a watch.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use federate_engine::actions::Inventory;
use serde_json::Value;

use super::{Error, Hub, Invalid, loaded};
use crate::read::Loaded;
use crate::watch::Event;

/// The pause after a failure; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The Sync objects, by namespace and name.
#[derive(Clone, Default)]
pub struct Objects {
    known: Arc<Mutex<BTreeMap<String, Value>>>,
    /// The versions at which [`Objects::changed`] has seen them.
    seen: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Whether they may not name objects of other namespaces.
    within_namespaces: bool,
}

impl Objects {
    /// Lists the objects of some namespaces (of all, if none is named), and then watches them in threads, which send
    /// `events`.
    pub fn follow(hub: &Arc<Hub>, namespaces: &[String], events: &Sender<Event>) -> Result<Self, Error> {
        let objects = Self::default();
        let path = |namespace: &String| format!("/apis/federate.dev/v1alpha1/namespaces/{namespace}/syncs");
        let mut paths: Vec<String> = namespaces.iter().map(path).collect();
        if paths.is_empty() {
            paths.push("/apis/federate.dev/v1alpha1/syncs".to_owned());
        }
        for path in paths {
            let version = objects.list(hub, &path)?;
            let (hub, objects, events) = (hub.clone(), objects.clone(), events.clone());
            thread::spawn(move || objects.run(&hub, &path, version, &events));
        }
        Ok(objects)
    }

    /// The same objects, which may not name objects of other namespaces if that is `refused`.
    #[must_use]
    pub fn within_namespaces(self, refused: bool) -> Self {
        Self { within_namespaces: refused, ..self }
    }

    /// The objects as they are known now, or why one cannot be carried out.
    pub(crate) fn all(&self) -> Vec<Result<Loaded, Invalid>> {
        let objects: Vec<Value> = self.with(|objects| objects.values().cloned().collect());
        objects.iter().filter_map(|object| loaded(object, self.within_namespaces)).collect()
    }

    /// The Sync that has an `ApplySet`, by its id.
    pub fn sync_of(&self, set: &str) -> Option<String> {
        let has_it = |loaded: &Loaded| {
            let (namespace, name) = loaded.sync.apply_set();
            Inventory { namespace, name }.id() == set
        };
        let found = self.all().into_iter().flatten().find(has_it);
        found.map(|loaded| loaded.sync.metadata.full_name())
    }

    /// The objects that have changed since the last call, by namespace and name.
    pub(crate) fn changed(&self) -> Vec<String> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let now: BTreeMap<String, Value> = self
            .with(|objects| objects.iter().map(|(name, object)| (name.clone(), version(object))).collect());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = now.iter().filter(|(name, version)| seen.get(*name) != Some(version));
        let changed = changed.map(|(name, _)| name.clone()).collect();
        *seen = now;
        changed
    }

    fn with<T>(&self, run: impl FnOnce(&mut BTreeMap<String, Value>) -> T) -> T {
        run(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lists everything again. Returns the version of the list.
    fn list(&self, hub: &Hub, path: &str) -> Result<String, Error> {
        let list = hub.find(path)?.ok_or_else(|| {
            let why = "it does not serve Syncs: apply deploy/crds/syncs.federate.dev.yaml, or run `kubectl apply -k \
                       deploy/sync`";
            Error::Access(why.to_owned())
        })?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let namespace = path.split('/').nth(5).filter(|_| path.contains("/namespaces/"));
        self.with(|objects| {
            objects.retain(|_, object| {
                namespace.is_some_and(|only| object["metadata"]["namespace"].as_str() != Some(only))
            });
            for mut item in items {
                // Items of a list have no kind.
                item["apiVersion"] = "federate.dev/v1alpha1".into();
                item["kind"] = "Sync".into();
                objects.insert(name(&item), item);
            }
        });
        Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }

    /// Watches until the receiver of events is gone.
    fn run(&self, hub: &Hub, path: &str, mut version: String, events: &Sender<Event>) {
        let mut pause = PAUSE;
        loop {
            let mut heard = true;
            let watched = hub.watch(path, &version, |object, gone| {
                self.with(|objects| {
                    if gone {
                        objects.remove(&name(&object));
                    } else {
                        objects.insert(name(&object), object);
                    }
                });
                heard = events.send(Event::Objects).is_ok();
                heard
            });
            if !heard {
                return;
            }
            let failed = match watched {
                Ok(now) => {
                    version = now;
                    pause = PAUSE;
                    continue;
                }
                Err(error) => error,
            };
            if !failed.is_expired() {
                tracing::warn!(error = %failed, "watching the Syncs again in {} s", pause.as_secs());
                thread::sleep(pause);
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            match self.list(hub, path) {
                Ok(now) => version = now,
                Err(error) => tracing::warn!(%error, "the Syncs cannot be listed"),
            }
            if events.send(Event::Objects).is_err() {
                return;
            }
        }
    }
}

fn name(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}
