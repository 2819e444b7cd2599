//! One run of the scheduler over a federated object: when it acts, and what it writes.
//!
//! Facts: in this order the scheduler applies the migration configuration, waits for earlier controllers, looks
//! for the policy and for a trigger, and schedules. It records a change only if placements, replicas or the
//! inputs of other controllers change. Then the later controllers have to act.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::api::PolicySpec;
use super::super::decide::Decision;
use super::super::memory::Memory;
use super::super::policies::Policy;
use super::super::types::{SCHEDULER, TypeConfig};
use super::super::{KubeAdmiralPlane, keys};
use super::{memory_with, source, text};
use federate_dialect::served::Served;
use federate_dialect::{Input, PlacedClusters, Placement, Previous, goduration, gojson};
use federate_kubernetes::Object;
use federate_repo::Template;

/// The outcome of one run of the scheduler for a federated object.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// The object as it is written; `None` when nothing changes.
    pub written: Option<Value>,
    /// Whether it scheduled the object again.
    pub scheduled: bool,
}

/// Runs the scheduler once for a federated object, with the policies and the clusters of the repo; `None` if
/// the kind is not federated.
pub fn reconcile(input: Input<'_>, federated: &Object) -> Option<Reconciled> {
    let templates = [Template { object: source(federated)?, per_cluster: None }];
    let template = &templates.first()?.object;
    let mut plane = KubeAdmiralPlane::new(input);
    plane.policies.policies.values_mut().for_each(Policy::use_stored_digest);
    let previous = Previous::new(memory_with(std::slice::from_ref(federated), &plane.types));
    plane.served = Served::of(&templates, input.clusters);
    let config = plane.types.get(&template.id.api_version, &template.id.kind)?;
    let Some(pending) = Pending::of(federated) else {
        return Some(Reconciled { written: None, scheduled: false });
    };
    let decision = Decision::new(&plane, template, config, &previous);
    let placement = decision.place(None).placement;
    let memory = Memory::of(&placement);
    let before = previous.of(&template.id).and_then(|row| Memory::of(row).trigger);
    let scheduled = memory.trigger != before;
    let policy = placement.policy.as_ref().and_then(|id| plane.policies.get(id)).map(|p| &p.spec);
    let mut draft = Draft::new(federated);
    draft.annotate(keys::APPLIED_MIGRATION, decision.applied().map(str::to_owned));
    draft.annotate(keys::DEFERRED, Some(memory.deferred.clone()).filter(|text| !text.is_empty()));
    if scheduled {
        let triggers = memory.trigger.map(|state| state.text(&plane.snapshot));
        draft.schedule(&placement, triggers, config, policy);
    }
    draft.sign_off(&pending, config);
    Some(Reconciled { written: draft.finish(), scheduled })
}

/// The controllers that have to act on an object, in groups.
struct Pending(Vec<Vec<String>>);

impl Pending {
    /// Returns the controllers without the scheduler; `None` where the scheduler has to wait for others.
    fn of(federated: &Object) -> Option<Self> {
        let groups = federated.annotation(keys::PENDING).unwrap_or("[]");
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
    fn annotate(&mut self, key: &str, value: Option<String>) -> bool {
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

    /// Writes a decision.
    fn schedule(
        &mut self,
        placement: &Placement,
        triggers: Option<String>,
        config: &TypeConfig,
        policy: Option<&PolicySpec>,
    ) {
        self.annotate(keys::TRIGGERS, triggers);
        let follow = policy.is_none_or(|policy| !policy.disable_follower_scheduling);
        let mut effective = self.annotate(keys::ENABLE_FOLLOWERS, Some(follow.to_string()));
        effective |= self.annotate(keys::THRESHOLD, policy.and_then(threshold));
        let own = placed(&placement.clusters);
        effective |= self.set_own("placements", (!own.is_empty()).then(|| json!({"placement": own})));
        let own = overrides(&placement.clusters, &config.replicas_pointer());
        effective |= self.set_own("overrides", (!own.is_empty()).then(|| json!({"clusters": own})));
        if effective {
            self.annotate(keys::SCHEDULING, Some(record(self.before, &placement.clusters)));
        }
        self.effective = effective;
    }

    /// Sets or removes the scheduler's entry of a list in the spec. Returns whether that changes anything.
    fn set_own(&mut self, list: &str, entry: Option<Value>) -> bool {
        let Some(spec) = self.body.get_mut("spec").and_then(Value::as_object_mut) else { return false };
        let mut entries = spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let before = entries.clone();
        let at = entries.iter().position(|entry| text(entry, "controller") == SCHEDULER);
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
    fn sign_off(&mut self, pending: &Pending, config: &TypeConfig) {
        let own = config.controllers.iter().position(|group| group.iter().any(|name| name == SCHEDULER));
        let after = own.and_then(|own| config.controllers.get(own + 1..)).unwrap_or_default();
        let pending = if self.effective { after } else { pending.0.as_slice() };
        self.annotate(keys::PENDING, Some(gojson::write(&json!(pending))));
    }

    /// The object with its new generation; `None` if it did not change.
    fn finish(mut self) -> Option<Value> {
        if self.body == self.before.body {
            return None;
        }
        if self.body.get("spec") != self.before.at(&["spec"]) {
            let generation = generation(&self.before.body).saturating_add(1);
            self.body["metadata"]["generation"] = generation.into();
        }
        Some(self.body)
    }
}

fn generation(body: &Value) -> i64 {
    body.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// How long pods may be unschedulable, if the policy migrates replicas.
fn threshold(policy: &PolicySpec) -> Option<String> {
    policy.auto_migration.as_ref()?.threshold().map(goduration::write)
}

fn placed(clusters: &PlacedClusters) -> Vec<Value> {
    clusters.iter().map(|placed| json!({"cluster": placed.name})).collect()
}

/// The overrides of replicas, for the clusters with a number.
fn overrides(clusters: &PlacedClusters, path: &str) -> Vec<Value> {
    let patches = |replicas: i64| json!([{"op": "replace", "path": path, "value": replicas}]);
    let entry = |placed: &federate_dialect::Placed| {
        Some(json!({"cluster": placed.name, "patches": patches(placed.replicas?)}))
    };
    clusters.iter().filter_map(entry).collect()
}

/// The record of a change.
fn record(before: &Object, clusters: &PlacedClusters) -> String {
    let source = before.at(&["spec", "template"]).map_or(0, generation);
    let mut record = json!({"sourceGeneration": source, "fedGeneration": generation(&before.body)});
    let placement: BTreeMap<&str, Option<i64>> =
        clusters.iter().map(|placed| (placed.name.as_ref(), placed.replicas)).collect();
    if !placement.is_empty() {
        record["placement"] = json!(placement);
    }
    gojson::write_fields(&record)
}
