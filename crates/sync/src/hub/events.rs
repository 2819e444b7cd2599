//! Events on Sync objects: how rounds end, drift, and fights, for `kubectl describe` and `kubectl events`.

use federate_live::path::ApiPath;
use federate_sync_api::Metadata;
use federate_sync_api::status::Reason;
use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::client::JSON;
use super::{Hub, Invalid};
use crate::read::Loaded;
use crate::round::Outcome;

/// Characters that an Event's message may have.
const LONGEST: usize = 1024;

/// What an Event is about.
struct EventSubject<'e> {
    sync: &'e Metadata,
    uid: &'e str,
    revision: Option<&'e str>,
}

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
        let uid = loaded.sync.meta.as_ref().map(|meta| meta.uid.as_str()).unwrap_or_default();
        let about = EventSubject { sync: &loaded.sync.metadata, uid, revision };
        self.write_event(&about, (reason, warning), message);
    }

    /// Writes an Event about an object that cannot be carried out.
    pub(crate) fn report_invalid(&self, invalid: &Invalid) {
        let about = EventSubject { sync: &invalid.metadata, uid: &invalid.uid, revision: None };
        self.write_event(&about, (Reason::InvalidSpec.name(), true), &invalid.message);
    }

    fn write_event(&self, about: &EventSubject<'_>, (reason, warning): (&str, bool), message: &str) {
        let EventSubject { sync, uid, revision } = about;
        let now = Timestamp::now();
        let name: String = sync.name.chars().take(200).collect();
        let message: String = message.chars().take(LONGEST).collect();
        let time = format!("{now:.0}");
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.{:x}", now.as_nanosecond()),
                "namespace": sync.namespace,
                "annotations": {"federate.dev/revision": revision.unwrap_or_default()},
            },
            "involvedObject": {
                "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "name": sync.name,
                "namespace": sync.namespace, "uid": uid,
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
        let path = ApiPath::of_version("v1").in_namespace(&sync.namespace).join("events");
        if let Err(error) = self.send(&Method::POST, &path, JSON, Some(&body)) {
            tracing::warn!(%error, "an Event could not be written");
        }
    }
}
