//! Watches: the events since a version, filtered by a selector.

use std::collections::VecDeque;
use std::sync::Arc;

use federate_apiserver_model::{ApiError, ResourceKind};
use serde_json::{Value, json};

use super::cluster::{RequestTarget, TestCluster};
use super::http::ApiRequest;
use super::selector::RequestSelector;
use super::table;

/// An open watch.
#[derive(Debug)]
pub struct Watch {
    request: ApiRequest,
    kind: ResourceKind,
    target: RequestTarget,
    selector: RequestSelector,
    /// Events up to this version have been looked at.
    seen: u64,
    pending: VecDeque<Value>,
    /// The watch ends after the pending events.
    pub ended: bool,
    pub timeout: Option<u64>,
}

impl Watch {
    pub(super) fn new(
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        selector: RequestSelector,
        cluster: &TestCluster,
    ) -> Result<Self, ApiError> {
        let version = request.non_empty_param("resourceVersion").unwrap_or("0");
        let seen: u64 = version.parse().map_err(|_| {
            ApiError::internal_error(format!(
                "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
            ))
        })?;
        let mut watch = Self {
            request: request.clone(),
            kind: kind.clone(),
            target: target.clone(),
            selector,
            seen,
            pending: VecDeque::new(),
            ended: false,
            timeout: request.non_empty_param("timeoutSeconds").and_then(|t| t.parse().ok()),
        };
        let initial = request.is_flag_set("sendInitialEvents")
            && request.non_empty_param("sendInitialEvents").is_some();
        if seen == 0 || initial {
            watch.push_initial_events(cluster, initial);
        } else if seen < cluster.store.compacted {
            let message = format!("too old resource version: {seen} ({})", cluster.store.version);
            watch.pending.push_back(
                json!({"type": "ERROR", "object": ApiError::new(410, "Expired", message).to_status()}),
            );
            watch.ended = true;
        }
        Ok(watch)
    }

    /// The existing objects, as `ADDED` events.
    fn push_initial_events(&mut self, cluster: &TestCluster, initial: bool) {
        let store = &cluster.store;
        let (kind, target) = (self.kind.clone(), self.target.clone());
        for (_, object) in store.list_objects(&kind.group, &kind.plural, &target.namespace) {
            if self.selector.matches_object(object) {
                self.push_event("ADDED", object);
            }
        }
        self.seen = store.version;
        if initial && self.request.is_flag_set("allowWatchBookmarks") {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            let metadata = json!({"resourceVersion": store.version.to_string(), "annotations": annotations});
            self.push_bookmark(&metadata);
        }
    }

    fn push_bookmark(&mut self, metadata: &Value) {
        let (kind, version) = (&self.kind.kind, self.kind.api_version());
        let object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        self.pending.push_back(json!({"type": "BOOKMARK", "object": object}));
    }

    fn push_event(&mut self, what: &str, object: &Value) {
        let shown = table::format_object(&self.request, &self.kind, object);
        self.pending.push_back(json!({"type": what, "object": shown}));
    }

    /// The events since the last call.
    pub fn take_events(&mut self, cluster: &TestCluster) -> Vec<Value> {
        if !self.ended {
            self.collect_events(cluster);
        }
        self.pending.drain(..).collect()
    }

    fn collect_events(&mut self, cluster: &TestCluster) {
        let start = cluster.store.events.partition_point(|event| event.version <= self.seen);
        for event in &cluster.store.events[start..] {
            self.seen = event.version;
            let same_kind = (&event.key.group, &event.key.plural) == (&self.kind.group, &self.kind.plural)
                && (self.target.namespace.is_empty() || event.key.namespace == self.target.namespace);
            if !same_kind {
                continue;
            }
            let was = event.before.as_ref().is_some_and(|before| self.selector.matches_object(before));
            let is = !event.deleted && self.selector.matches_object(&event.object);
            match (was, is) {
                (false, true) => self.push_event("ADDED", &event.object),
                (true, true) => self.push_event("MODIFIED", &event.object),
                // The last event has the old object with the version of the deletion.
                (true, false) => {
                    let before = event.before.as_ref().filter(|_| !event.deleted);
                    let mut last = before.unwrap_or(&event.object).clone();
                    Arc::make_mut(&mut last)["metadata"]["resourceVersion"] =
                        json!(event.version.to_string());
                    self.push_event("DELETED", &last);
                }
                (false, false) => {}
            }
        }
    }

    /// A bookmark with the current version.
    pub fn build_bookmark(&mut self, cluster: &TestCluster) -> Option<Value> {
        let wanted = self.request.is_flag_set("allowWatchBookmarks")
            && self.request.non_empty_param("allowWatchBookmarks").is_some();
        if !wanted || self.ended {
            return None;
        }
        self.push_bookmark(&json!({"resourceVersion": cluster.store.version.to_string()}));
        self.pending.pop_back()
    }
}
