//! Events on Sync objects: how reconciliations end, drift, and contentions, for `kubectl describe` and `kubectl events`.

use federate_kubernetes::object::field_text;
use federate_live::path::ApiPath;
use federate_sync_api::NamespacedName;
use federate_sync_api::status::SyncReason;
use http::Method;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::JSON;
use super::{Error, HubClient, InvalidSync};
use crate::outcome::SyncOutcome;
use crate::sync_files::ValidSync;

/// Characters that an Event's message may have.
const MAX_MESSAGE_LENGTH: usize = 1024;

/// What an Event is about.
struct EventSubject<'e> {
    sync: &'e NamespacedName,
    uid: &'e str,
    revision: Option<&'e str>,
}

/// What a client makes of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The Events of a Sync.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SyncEventList {
    /// Namespace and name of the Sync.
    pub name: String,
    /// The Events, the oldest first.
    pub events: Vec<SyncEvent>,
}

/// An Event of a Sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SyncEvent {
    /// When it happened last.
    pub time: String,
    /// `Normal` or `Warning`.
    pub r#type: String,
    /// The reason, in one word.
    pub reason: String,
    /// The revision that it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The message.
    pub message: String,
}

impl SyncEvent {
    /// Reads an Event; `None` if it is about something else.
    fn from_object(event: &Value, sync: &NamespacedName) -> Option<Self> {
        let about = &event["involvedObject"];
        (about["kind"] == "Sync" && about["name"] == sync.name.as_str()).then(|| Self {
            time: field_text(event, "lastTimestamp").to_owned(),
            r#type: field_text(event, "type").to_owned(),
            reason: field_text(event, "reason").to_owned(),
            revision: field_text(&event["metadata"]["annotations"], "federate.dev/revision").to_owned(),
            message: field_text(event, "message").to_owned(),
        })
    }
}

impl HubClient {
    /// The Events of a Sync that the API server still has, the oldest first, with the version of the list.
    pub fn list_events(&self, sync: &NamespacedName) -> Result<(Vec<SyncEvent>, String), Error> {
        let list = self.find_object(&events_path(sync))?.unwrap_or_default();
        let items = list["items"].as_array().into_iter().flatten();
        let mut events: Vec<SyncEvent> =
            items.filter_map(|event| SyncEvent::from_object(event, sync)).collect();
        events.sort_by(|a, b| a.time.cmp(&b.time));
        Ok((events, list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()))
    }

    /// Waits for the Events of a Sync that are written after a version, until `shown` returns `false`.
    pub fn follow_events(
        &self,
        sync: &NamespacedName,
        mut version: String,
        mut shown: impl FnMut(SyncEvent) -> bool,
    ) -> Result<(), Error> {
        let mut goes_on = true;
        while goes_on {
            version = self.watch_list(&events_path(sync), &version, |event, gone| {
                if let Some(event) = SyncEvent::from_object(&event, sync).filter(|_| !gone) {
                    goes_on = shown(event);
                }
                goes_on
            })?;
        }
        Ok(())
    }

    /// Writes an Event about how a reconciliation ended.
    pub(crate) fn report_outcome(
        &self,
        valid_sync: &ValidSync,
        outcome: &SyncOutcome,
        revision: Option<&str>,
    ) {
        let is_normal = outcome.is_ready() || outcome.is_waiting();
        let kind = if is_normal { EventType::Normal } else { EventType::Warning };
        self.report_event(valid_sync, kind, outcome.reason.name(), &outcome.message, revision);
    }

    /// Writes an Event. A failure to write it is logged, and changes nothing else.
    pub(crate) fn report_event(
        &self,
        valid_sync: &ValidSync,
        kind: EventType,
        reason: &str,
        message: &str,
        revision: Option<&str>,
    ) {
        let uid = valid_sync.object.server_metadata.uid.as_str();
        let about = EventSubject { sync: &valid_sync.object.metadata, uid, revision };
        self.write_event(&about, kind, reason, message);
    }

    /// Writes an Event about an object that cannot be carried out.
    pub(crate) fn report_invalid(&self, invalid: &InvalidSync) {
        let about = EventSubject { sync: &invalid.metadata, uid: &invalid.uid, revision: None };
        self.write_event(&about, EventType::Warning, SyncReason::InvalidSpec.name(), &invalid.message);
    }

    /// Writes an Event in the namespace of the Sync. If that is being deleted, the Event is about the Lease of this process.
    fn write_event(&self, about: &EventSubject<'_>, kind: EventType, reason: &str, message: &str) {
        let EventSubject { sync, uid, revision } = about;
        let message: String = message.chars().take(MAX_MESSAGE_LENGTH).collect();
        let subject = json!({
            "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "name": sync.name,
            "namespace": sync.namespace, "uid": uid,
        });
        let mut written = self.post_event(&subject, kind, reason, &message, *revision);
        if let (Err(error), Some(lease)) = (&written, self.lease.get())
            && is_refused_by_termination(error)
        {
            let subject = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": lease.name,
                "namespace": lease.namespace,
            });
            let message = format!("{}: {message}", sync.full_name());
            written = self.post_event(&subject, kind, reason, &message, *revision);
        }
        if let Err(error) = written {
            tracing::warn!(%error, "an Event could not be written");
        }
    }

    /// Creates an Event beside the object that it is about.
    fn post_event(
        &self,
        subject: &Value,
        kind: EventType,
        reason: &str,
        message: &str,
        revision: Option<&str>,
    ) -> Result<(), Error> {
        let now = Timestamp::now();
        let name: String = subject["name"].as_str().unwrap_or_default().chars().take(200).collect();
        let namespace = subject["namespace"].as_str().unwrap_or_default().to_owned();
        let time = format!("{now:.0}");
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.{:x}", now.as_nanosecond()),
                "namespace": namespace,
                "annotations": {"federate.dev/revision": revision.unwrap_or_default()},
            },
            "involvedObject": subject,
            "reason": reason,
            "message": message,
            "type": kind.name(),
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "source": {"component": "federate-sync"},
            "reportingComponent": "federate-sync",
            "reportingInstance": "",
        });
        let path = ApiPath::from_version("v1").in_namespace(&namespace).join("events");
        self.send_request(&Method::POST, &path, JSON, Some(&body)).map(drop)
    }
}

/// Whether nothing can be created in a namespace any more.
fn is_refused_by_termination(error: &Error) -> bool {
    match error {
        Error::Refused { code: 403, message } => message.contains("because it is being terminated"),
        error => error.is_absent(),
    }
}

/// The path of the Events of a Sync.
fn events_path(sync: &NamespacedName) -> ApiPath {
    let events = ApiPath::from_version("v1").in_namespace(&sync.namespace).join("events");
    events.with_query("fieldSelector", &format!("involvedObject.kind=Sync,involvedObject.name={}", sync.name))
}
