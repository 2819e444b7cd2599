//! Watches: the events since a version, filtered by a selector.

use std::collections::VecDeque;
use std::sync::Arc;

use federate_apiserver::{Failure, Kind};
use serde_json::{Value, json};

use super::cluster::{Cluster, Target};
use super::http::Request;
use super::selector::Selector;
use super::table;

/// An open watch.
#[derive(Debug)]
pub struct Watch {
    request: Request,
    kind: Kind,
    target: Target,
    selector: Selector,
    /// Events up to this version have been looked at.
    seen: u64,
    pending: VecDeque<Value>,
    /// The watch ends after the pending events.
    pub ended: bool,
    pub timeout: Option<u64>,
}

impl Watch {
    pub(super) fn new(
        request: &Request,
        kind: &Kind,
        target: &Target,
        selector: Selector,
        cluster: &Cluster,
    ) -> Result<Self, Failure> {
        let version = request.filled("resourceVersion").unwrap_or("0");
        let seen: u64 = version.parse().map_err(|_| {
            Failure::internal(format!(
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
            timeout: request.filled("timeoutSeconds").and_then(|t| t.parse().ok()),
        };
        let initial = request.flag("sendInitialEvents") && request.filled("sendInitialEvents").is_some();
        if seen == 0 || initial {
            watch.start(cluster, initial);
        } else if seen < cluster.store.compacted {
            let message = format!("too old resource version: {seen} ({})", cluster.store.version);
            watch.pending.push_back(
                json!({"type": "ERROR", "object": Failure::new(410, "Expired", message).status()}),
            );
            watch.ended = true;
        }
        Ok(watch)
    }

    /// The existing objects, as `ADDED` events.
    fn start(&mut self, cluster: &Cluster, initial: bool) {
        let store = &cluster.store;
        let (kind, target) = (self.kind.clone(), self.target.clone());
        for (_, object) in store.list(&kind.group, &kind.plural, &target.namespace) {
            if self.selector.matches(object) {
                self.push("ADDED", object);
            }
        }
        self.seen = store.version;
        if initial && self.request.flag("allowWatchBookmarks") {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            let metadata = json!({"resourceVersion": store.version.to_string(), "annotations": annotations});
            self.bookmark(&metadata);
        }
    }

    fn bookmark(&mut self, metadata: &Value) {
        let (kind, version) = (&self.kind.kind, self.kind.api_version());
        let object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        self.pending.push_back(json!({"type": "BOOKMARK", "object": object}));
    }

    fn push(&mut self, what: &str, object: &Value) {
        let shown = table::one(&self.request, &self.kind, object);
        self.pending.push_back(json!({"type": what, "object": shown}));
    }

    /// The events since the last call.
    pub fn events(&mut self, cluster: &Cluster) -> Vec<Value> {
        if !self.ended {
            self.advance(cluster);
        }
        self.pending.drain(..).collect()
    }

    fn advance(&mut self, cluster: &Cluster) {
        let start = cluster.store.events.partition_point(|event| event.version <= self.seen);
        for event in &cluster.store.events[start..] {
            self.seen = event.version;
            let same_kind = (&event.key.group, &event.key.plural) == (&self.kind.group, &self.kind.plural)
                && (self.target.namespace.is_empty() || event.key.namespace == self.target.namespace);
            if !same_kind {
                continue;
            }
            let was = event.before.as_ref().is_some_and(|before| self.selector.matches(before));
            let is = !event.deleted && self.selector.matches(&event.object);
            match (was, is) {
                (false, true) => self.push("ADDED", &event.object),
                (true, true) => self.push("MODIFIED", &event.object),
                // The last event has the old object with the version of the deletion.
                (true, false) => {
                    let mut last =
                        if event.deleted { event.object.clone() } else { event.before.clone().unwrap() };
                    Arc::make_mut(&mut last)["metadata"]["resourceVersion"] =
                        json!(event.version.to_string());
                    self.push("DELETED", &last);
                }
                (false, false) => {}
            }
        }
    }

    /// A bookmark with the current version.
    pub fn mark(&mut self, cluster: &Cluster) -> Option<Value> {
        let wanted =
            self.request.flag("allowWatchBookmarks") && self.request.filled("allowWatchBookmarks").is_some();
        if !wanted || self.ended {
            return None;
        }
        self.bookmark(&json!({"resourceVersion": cluster.store.version.to_string()}));
        self.pending.pop_back()
    }
}
