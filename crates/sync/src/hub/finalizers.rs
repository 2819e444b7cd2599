//! Sync objects that are being deleted: the finalizer keeps a Sync until its objects in member clusters are deleted.
//!
//! Facts: "Finalizers" of the Kubernetes documentation; `deletionPolicy` of Flux's Kustomization.

use federate_sync_api::{NamespacedName, Sync};
use http::Method;
use serde_json::{Value, json};

use super::client::{JSON, JSON_PATCH, sync_path};
use super::record_store::{RECORD_KIND, RECORD_VERSION, records_path};
use super::{Error, HubClient};

/// The finalizer of Sync objects.
const FINALIZER: &str = "finalizers.federate.dev";

impl HubClient {
    /// Adds the finalizer to a Sync that deletes objects with itself, and removes it from others.
    pub(crate) fn update_finalizer(&self, sync: &Sync) -> Result<(), Error> {
        let desired = sync.deletes_objects();
        self.patch_finalizers(&sync.metadata, |finalizers| {
            let has = finalizers.iter().any(|name| name == FINALIZER);
            match (has, desired) {
                (false, true) => finalizers.push(FINALIZER.into()),
                (true, false) => finalizers.retain(|name| name != FINALIZER),
                _ => {}
            }
        })
    }

    /// Removes the finalizer from a Sync.
    pub(crate) fn remove_finalizer(&self, sync: &NamespacedName) -> Result<(), Error> {
        self.patch_finalizers(sync, |finalizers| finalizers.retain(|name| name != FINALIZER))
    }

    /// Whether a namespace is being deleted: nothing new can be created in it.
    pub(crate) fn is_terminating(&self, namespace: &str) -> Result<bool, Error> {
        let path = records_path(namespace).with_query("dryRun", "All");
        let body = json!({"apiVersion": RECORD_VERSION, "kind": RECORD_KIND, "metadata": {"name": "federate.probe"}});
        match self.send_request(&Method::POST, &path, JSON, Some(&body)) {
            Err(Error::Refused { code: 403, message }) => {
                Ok(message.contains("because it is being terminated"))
            }
            Err(error) if error.is_absent() => Ok(true),
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(false),
        }
    }

    fn patch_finalizers(
        &self,
        sync: &NamespacedName,
        change: impl FnOnce(&mut Vec<Value>),
    ) -> Result<(), Error> {
        let path = sync_path(sync);
        let Some(object) = self.find_object(&path)? else { return Ok(()) };
        let before = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        if before == after {
            return Ok(());
        }
        // Other clients may have added finalizers meanwhile.
        let patch = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/metadata/finalizers", "value": after},
        ]);
        match self.send_request(&Method::PATCH, &path, JSON_PATCH, Some(&patch)) {
            Err(error) if error.is_absent() => Ok(()),
            other => other.map(drop),
        }
    }
}
