//! Events on Sync objects: how rounds end, drift, and fights, for `kubectl describe` and `kubectl events`.

use federate_live::path::ApiPath;
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
    /// Writes an Event about how a round ended.
    pub(crate) fn report(&self, loaded: &Loaded, outcome: &Outcome, revision: Option<&str>) {
        let reason = (outcome.reason.name(), !outcome.is_ready());
        self.event(loaded, reason, &outcome.message, revision);
    }

    /// Writes an Event with a reason, which may be a warning. A failure to write it is logged, and changes nothing else.
    pub(crate) fn event(
        &self,
        loaded: &Loaded,
        (reason, warning): (&str, bool),
        message: &str,
        revision: Option<&str>,
    ) {
        let sync = &loaded.sync;
        let now = Timestamp::now();
        let uid = sync.meta.as_ref().map(|meta| meta.uid.as_str()).unwrap_or_default();
        let name: String = sync.metadata.name.chars().take(200).collect();
        let message: String = message.chars().take(LONGEST).collect();
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
            "reason": reason,
            "message": message,
            "type": if warning { "Warning" } else { "Normal" },
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "source": {"component": "federate-sync"},
            "reportingComponent": "federate-sync",
            "reportingInstance": "",
        });
        let path = ApiPath::of_version("v1").in_namespace(&sync.metadata.namespace).join("events");
        if let Err(error) = self.send(&Method::POST, &path, JSON, Some(&body)) {
            tracing::warn!(%error, "an Event could not be written");
        }
    }
}
