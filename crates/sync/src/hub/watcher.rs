//! The Sync objects of some namespaces, kept up to date by a list and a watch.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use federate_kubernetes::object::field_text;
use federate_live::path::ApiPath;
use federate_reconcile::ApplySet;
use serde_json::Value;

use super::client::not_served;
use super::{Error, HubClient, InvalidSync, Tenancy, load_object};
use crate::events::LoopEvent;
use crate::sync_files::ValidSync;

/// The pause after a failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The Sync objects, by namespace and name.
#[derive(Clone, Default)]
pub struct SyncObjects {
    known: Arc<Mutex<BTreeMap<String, Value>>>,
    /// What Syncs may do.
    tenancy: Arc<Tenancy>,
    /// The labels of the objects; `None` for all.
    selector: Option<Arc<str>>,
}

impl SyncObjects {
    /// Lists the objects of some namespaces (of all, if none is named) that a label selector selects, and then watches them
    /// in threads, which send `events`.
    pub fn list_and_watch(
        hub: &Arc<HubClient>,
        namespaces: &[String],
        selector: Option<&str>,
        events: &Sender<LoopEvent>,
    ) -> Result<Self, Error> {
        let objects = Self { selector: selector.map(Into::into), ..Self::default() };
        let mut scopes: Vec<Option<String>> = namespaces.iter().cloned().map(Some).collect();
        if scopes.is_empty() {
            scopes.push(None);
        }
        for namespace in scopes {
            let version = objects.list_syncs(hub, namespace.as_deref())?;
            let (hub, objects, events) = (hub.clone(), objects.clone(), events.clone());
            thread::spawn(move || objects.watch_until_closed(&hub, namespace.as_deref(), version, &events));
        }
        Ok(objects)
    }

    /// The same objects, which may only do what the operator permits.
    #[must_use]
    pub fn permitted_by(self, tenancy: Tenancy) -> Self {
        Self { tenancy: Arc::new(tenancy), ..self }
    }

    /// What Syncs may do.
    pub(crate) fn tenancy(&self) -> &Tenancy {
        &self.tenancy
    }

    /// The objects as they are known now, or why one cannot be carried out.
    pub(crate) fn load_all(&self) -> Vec<Result<ValidSync, InvalidSync>> {
        let objects: Vec<Value> = self.with_objects(|objects| objects.values().cloned().collect());
        objects.iter().filter_map(|object| load_object(object, &self.tenancy)).collect()
    }

    /// The Sync that has an `ApplySet`, by its id.
    pub fn find_sync_of_set(&self, set: &str) -> Option<String> {
        let found = self.load_all().into_iter().flatten().find(|valid_sync| {
            let (namespace, name) = valid_sync.object.apply_set();
            ApplySet { namespace, name }.compute_id() == set
        });
        found.map(|valid_sync| valid_sync.object.full_name())
    }

    fn with_objects<T>(&self, run: impl FnOnce(&mut BTreeMap<String, Value>) -> T) -> T {
        run(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The path of the selected Syncs of a namespace, or of all.
    fn list_path(&self, namespace: Option<&str>) -> ApiPath {
        let version = ApiPath::from_version("federate.dev/v1alpha1");
        let place = match namespace {
            Some(namespace) => version.in_namespace(namespace),
            None => version,
        };
        let syncs = place.join("syncs");
        match &self.selector {
            Some(selector) => syncs.with_query("labelSelector", selector),
            None => syncs,
        }
    }

    /// Lists everything of a namespace, or of all, again. Returns the version of the list.
    fn list_syncs(&self, hub: &HubClient, namespace: Option<&str>) -> Result<String, Error> {
        let list = hub.find_object(&self.list_path(namespace))?.ok_or_else(not_served)?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        self.with_objects(|objects| {
            objects.retain(|_, object| {
                namespace.is_some_and(|only| object["metadata"]["namespace"].as_str() != Some(only))
            });
            for mut item in items {
                // Items of a list have no kind.
                item["apiVersion"] = "federate.dev/v1alpha1".into();
                item["kind"] = "Sync".into();
                objects.insert(full_name(&item), item);
            }
        });
        Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }

    /// Watches until the receiver of events is gone.
    fn watch_until_closed(
        &self,
        hub: &HubClient,
        namespace: Option<&str>,
        mut version: String,
        events: &Sender<LoopEvent>,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut heard = true;
            let watched = hub.watch_list(&self.list_path(namespace), &version, |object, gone| {
                self.with_objects(|objects| {
                    if gone {
                        objects.remove(&full_name(&object));
                    } else {
                        objects.insert(full_name(&object), object);
                    }
                });
                heard = events.send(LoopEvent::Objects).is_ok();
                heard
            });
            if !heard {
                return;
            }
            let failed = match watched {
                Ok(now) => {
                    version = now;
                    pause = FIRST_PAUSE;
                    continue;
                }
                Err(error) => error,
            };
            if !failed.is_expired() {
                tracing::warn!(error = %failed, "watching the Syncs again in {} s", pause.as_secs());
                thread::sleep(pause);
                pause = (2 * pause).min(MAX_PAUSE);
            }
            match self.list_syncs(hub, namespace) {
                Ok(now) => version = now,
                Err(error) => tracing::warn!(%error, "the Syncs cannot be listed"),
            }
            if events.send(LoopEvent::Objects).is_err() {
                return;
            }
        }
    }
}

fn full_name(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", field_text(metadata, "namespace"), field_text(metadata, "name"))
}
