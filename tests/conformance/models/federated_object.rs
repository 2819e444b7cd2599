//! One run of KubeAdmiral's scheduler over a federated object: when it acts, and what it writes.
//!
//! Facts: in this order the scheduler applies the migration configuration, waits for earlier controllers, looks
//! for the policy and for a trigger, and schedules. It records a change only if placements, replicas or the
//! inputs of other controllers change. Then the later controllers have to act.

use std::collections::BTreeMap;

use federate_dialect::{PlacedClusters, PlannerInput, gojson};
use federate_kubeadmiral::hub::{FederatedScheduling, decide_federated_object};
use federate_kubernetes::Object;
use serde_json::{Map, Value, json};

const SCHEDULER: &str = "kubeadmiral.io/global-scheduler";
const PENDING: &str = "kubeadmiral.io/pending-controllers";
const TRIGGERS: &str = "kubeadmiral.io/scheduling-triggers";
const SCHEDULING: &str = "kubeadmiral.io/scheduling";

/// The outcome of one run of the scheduler for a federated object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FederatedObjectUpdate {
    /// The object as it is written; `None` when nothing changes.
    pub(crate) written: Option<Value>,
    /// Whether it scheduled the object again.
    pub(crate) scheduled: bool,
}

/// Runs the scheduler once for a federated object, with the policies and the clusters of the repo.
pub(crate) fn reconcile(input: PlannerInput<'_>, federated: &Object) -> FederatedObjectUpdate {
    let Some(pending) = PendingControllers::without_scheduler(federated) else {
        return FederatedObjectUpdate { written: None, scheduled: false };
    };
    let decision = decide_federated_object(input, federated).expect("a federated kind");
    let mut draft = Draft::new(federated);
    for (key, value) in decision.annotations {
        draft.set_annotation(key, value);
    }
    let scheduled = decision.scheduling.is_some();
    if let Some(scheduling) = decision.scheduling {
        draft.write_scheduling(scheduling, &decision.replicas_pointer);
    }
    draft.sign_off(&pending, &decision.controllers);
    FederatedObjectUpdate { written: draft.into_changed(), scheduled }
}

/// The controllers that have to act on an object, in groups.
struct PendingControllers(Vec<Vec<String>>);

impl PendingControllers {
    /// Returns the controllers without the scheduler; `None` where the scheduler has to wait for others.
    fn without_scheduler(federated: &Object) -> Option<Self> {
        let groups = federated.annotation(PENDING).unwrap_or("[]");
        let mut groups: Vec<Vec<String>> = serde_json::from_str(groups).unwrap_or_default();
        if let Some(first) = groups.first_mut() {
            let at = first.iter().position(|name| name == SCHEDULER)?;
            first.remove(at);
        }
        groups.retain(|group| !group.is_empty());
        Some(Self(groups))
    }
}

/// A federated object that is being written.
struct Draft<'o> {
    before: &'o Object,
    body: Value,
    /// Whether the inputs of later controllers changed.
    effective: bool,
}

impl<'o> Draft<'o> {
    fn new(before: &'o Object) -> Self {
        Self { before, body: before.body.clone(), effective: false }
    }

    /// Sets or removes an annotation. Returns whether that changes anything.
    fn set_annotation(&mut self, key: &str, value: Option<String>) -> bool {
        let value = value.map(Value::String);
        let before = self.body.pointer("/metadata/annotations").and_then(|map| map.get(key));
        if before == value.as_ref() {
            return false;
        }
        let metadata = self.body.get_mut("metadata").and_then(Value::as_object_mut);
        let annotations = metadata
            .map(|metadata| metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new())));
        let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return false };
        match value {
            Some(value) => drop(annotations.insert(key.to_owned(), value)),
            None => drop(annotations.shift_remove(key)),
        }
        true
    }

    /// Writes a scheduling.
    fn write_scheduling(&mut self, scheduling: FederatedScheduling, replicas_pointer: &str) {
        self.set_annotation(TRIGGERS, scheduling.triggers);
        let mut effective = false;
        for (key, value) in scheduling.annotations {
            effective |= self.set_annotation(key, value);
        }
        let own = encode_placements(&scheduling.clusters);
        effective |= self.set_own("placements", (!own.is_empty()).then(|| json!({"placement": own})));
        let own = encode_overrides(&scheduling.clusters, replicas_pointer);
        effective |= self.set_own("overrides", (!own.is_empty()).then(|| json!({"clusters": own})));
        if effective {
            self.set_annotation(SCHEDULING, Some(encode_record(self.before, &scheduling.clusters)));
        }
        self.effective = effective;
    }

    /// Sets or removes the scheduler's entry of a list in the spec. Returns whether that changes anything.
    fn set_own(&mut self, list: &str, entry: Option<Value>) -> bool {
        let Some(spec) = self.body.get_mut("spec").and_then(Value::as_object_mut) else { return false };
        let mut entries = spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let before = entries.clone();
        let at = entries.iter().position(|entry| entry["controller"] == SCHEDULER);
        let entry = entry.map(|mut entry| {
            entry["controller"] = SCHEDULER.into();
            entry
        });
        match (at, entry) {
            (Some(at), Some(entry)) => entries[at] = entry,
            (Some(at), None) => drop(entries.remove(at)),
            (None, Some(entry)) => entries.push(entry),
            (None, None) => {}
        }
        let changed = entries != before;
        if entries.is_empty() {
            spec.shift_remove(list);
        } else {
            spec.insert(list.to_owned(), entries.into());
        }
        changed
    }

    /// Records that the scheduler has acted. Later controllers have to act if their inputs changed.
    fn sign_off(&mut self, pending: &PendingControllers, controllers: &[Vec<String>]) {
        let own = controllers.iter().position(|group| group.iter().any(|name| name == SCHEDULER));
        let after = own.and_then(|own| controllers.get(own + 1..)).unwrap_or_default();
        let pending = if self.effective { after } else { pending.0.as_slice() };
        self.set_annotation(PENDING, Some(gojson::write_sorted(&json!(pending))));
    }

    /// The object with its new generation; `None` if it did not change.
    fn into_changed(mut self) -> Option<Value> {
        if self.body == self.before.body {
            return None;
        }
        if self.body.get("spec") != self.before.value_at(&["spec"]) {
            let generation = read_generation(&self.before.body).saturating_add(1);
            self.body["metadata"]["generation"] = generation.into();
        }
        Some(self.body)
    }
}

fn read_generation(body: &Value) -> i64 {
    body.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

fn encode_placements(clusters: &PlacedClusters) -> Vec<Value> {
    clusters.iter().map(|placed| json!({"cluster": placed.name})).collect()
}

/// The overrides of replicas, for the clusters with a number.
fn encode_overrides(clusters: &PlacedClusters, path: &str) -> Vec<Value> {
    let entries = clusters.iter().filter_map(|placed| {
        let patch = json!({"op": "replace", "path": path, "value": placed.replicas?});
        Some(json!({"cluster": placed.name, "patches": [patch]}))
    });
    entries.collect()
}

/// The record of a change.
fn encode_record(before: &Object, clusters: &PlacedClusters) -> String {
    let source = before.value_at(&["spec", "template"]).map_or(0, read_generation);
    let mut record = json!({"sourceGeneration": source, "fedGeneration": read_generation(&before.body)});
    let placement: BTreeMap<&str, Option<i64>> =
        clusters.iter().map(|placed| (placed.name.as_ref(), placed.replicas)).collect();
    if !placement.is_empty() {
        record["placement"] = json!(placement);
    }
    gojson::write_fields(&record)
}
