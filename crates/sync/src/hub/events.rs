//! Events on Sync objects: what a round came to, for `kubectl describe` and `kubectl events`.

use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::Hub;
use super::client::JSON;
use crate::read::Loaded;
use crate::round::Outcome;

/// Characters that an Event's message may have.
const LONGEST: usize = 1024;

impl Hub {
    /// Writes an Event about how a round ended. That it cannot be written is no reason to end the round otherwise.
    pub(crate) fn tell(&self, loaded: &Loaded, outcome: &Outcome, revision: Option<&str>) {
        let sync = &loaded.sync;
        let now = Timestamp::now();
        let uid = sync.meta.as_ref().map(|meta| meta.uid.as_str()).unwrap_or_default();
        let name: String = sync.metadata.name.chars().take(200).collect();
        let message: String = outcome.message.chars().take(LONGEST).collect();
        let time = format!("{now:.0}");
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.{:x}", now.as_nanosecond()),
                "namespace": sync.metadata.namespace,
                "annotations": {"federate.dev/revision": revision.unwrap_or_default()},
            },
            "involvedObject": {
                "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "name": sync.metadata.name,
                "namespace": sync.metadata.namespace, "uid": uid,
            },
            "reason": outcome.reason.name(),
            "message": message,
            "type": if outcome.is_ready() { "Normal" } else { "Warning" },
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "source": {"component": "federate-sync"},
            "reportingComponent": "federate-sync",
            "reportingInstance": "",
        });
        let path = format!("/api/v1/namespaces/{}/events", sync.metadata.namespace);
        if let Err(error) = self.send(&Method::POST, &path, JSON, Some(&body)) {
            tracing::warn!(%error, "an Event could not be written");
        }
    }
}
