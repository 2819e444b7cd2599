//! Sync objects that are being deleted: the finalizer keeps a Sync until its objects in member clusters are deleted.
//!
//! Facts: "Finalizers" of the Kubernetes documentation; `deletionPolicy` of Flux's Kustomization.

use federate_sync_api::Sync;
use http::Method;
use serde_json::{Value, json};

use super::client::JSON_PATCH;
use super::store::path;
use super::{Error, Hub};

/// The finalizer of Sync objects.
const FINALIZER: &str = "finalizers.federate.dev";

impl Hub {
    /// Adds the finalizer to a Sync that deletes objects with itself, and removes it from others.
    pub(crate) fn finalizer(&self, sync: &Sync) -> Result<(), Error> {
        let wanted = sync.deletes();
        self.finalizers(sync, |finalizers| {
            let has = finalizers.iter().any(|name| name == FINALIZER);
            match (has, wanted) {
                (false, true) => finalizers.push(FINALIZER.into()),
                (true, false) => finalizers.retain(|name| name != FINALIZER),
                _ => {}
            }
        })
    }

    fn finalizers(&self, sync: &Sync, change: impl FnOnce(&mut Vec<Value>)) -> Result<(), Error> {
        let path = path(&sync.metadata);
        let Some(object) = self.find(&path)? else { return Ok(()) };
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
        match self.send(&Method::PATCH, &path, JSON_PATCH, Some(&patch)) {
            Err(error) if error.is_absent() => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Removes the finalizer.
pub(crate) fn release(hub: &Hub, sync: &Sync) -> Result<(), Error> {
    hub.finalizers(sync, |finalizers| finalizers.retain(|name| name != FINALIZER))?;
    Ok(())
}
