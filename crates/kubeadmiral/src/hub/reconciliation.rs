//! One run of the scheduler over a federated object: when it acts, and what it writes.
//!
//! Facts: in this order the scheduler applies the migration configuration, waits for earlier controllers, looks
//! for the policy and for a trigger, and schedules. It records a change only if placements, replicas or the
//! inputs of other controllers change. Then the later controllers have to act.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::api::PolicySpec;
use super::super::decision::TemplateDecider;
use super::super::json::string_at;
use super::super::policies::KubeAdmiralPolicy;
use super::super::state::KubeAdmiralState;
use super::super::types::{SCHEDULER, TypeConfig};
use super::super::{KubeAdmiralPlanner, keys};
use super::{read_plan_with, template_of};
use federate_dialect::serving_clusters::ServingClusters;
use federate_dialect::{PlacedClusters, Placement, PlannerInput, PreviousPlan, goduration, gojson};
use federate_kubernetes::Object;
use federate_repo::Template;

/// The outcome of one run of the scheduler for a federated object.
#[derive(Clone, Debug, PartialEq)]
pub struct FederatedObjectUpdate {
    /// The object as it is written; `None` when nothing changes.
    pub written: Option<Value>,
    /// Whether it scheduled the object again.
    pub scheduled: bool,
}

/// Runs the scheduler once for a federated object, with the policies and the clusters of the repo; `None` if
/// the kind is not federated.
pub fn reconcile_federated(input: PlannerInput<'_>, federated: &Object) -> Option<FederatedObjectUpdate> {
    let templates = [Template::new(template_of(federated)?)];
    let template = &templates.first()?.object;
    let mut plane = KubeAdmiralPlanner::new(input);
    plane.policies.policies.values_mut().for_each(KubeAdmiralPolicy::use_stored_digest);
    let previous = PreviousPlan::new(read_plan_with(std::slice::from_ref(federated), &plane.types));
    plane.served = ServingClusters::from_clusters(&templates, input.clusters);
    let config = plane.types.get(&template.id.api_version, &template.id.kind)?;
    let Some(pending) = PendingControllers::without_scheduler(federated) else {
        return Some(FederatedObjectUpdate { written: None, scheduled: false });
    };
    let decision = TemplateDecider::new(&plane, template, config, &previous);
    let placement = decision.place_once(None).placement;
    let scheduler_state = KubeAdmiralState::from_row(&placement);
    let before = previous.find_row(&template.id).and_then(|row| KubeAdmiralState::from_row(row).trigger);
    let scheduled = scheduler_state.trigger != before;
    let policy = placement.policy.as_ref().and_then(|id| plane.policies.get(id)).map(|p| &p.spec);
    let mut draft = Draft::new(federated);
    draft.set_annotation(keys::APPLIED_MIGRATION, decision.applied.clone());
    draft.set_annotation(
        keys::DEFERRED,
        Some(scheduler_state.deferred.clone()).filter(|text| !text.is_empty()),
    );
    if scheduled {
        let triggers = scheduler_state.trigger.map(|state| state.to_annotation(&plane.snapshot));
        draft.write_placement(&placement, triggers, config, policy);
    }
    draft.sign_off(&pending, config);
    Some(FederatedObjectUpdate { written: draft.into_changed(), scheduled })
}

/// The controllers that have to act on an object, in groups.
struct PendingControllers(Vec<Vec<String>>);

impl PendingControllers {
    /// Returns the controllers without the scheduler; `None` where the scheduler has to wait for others.
    fn without_scheduler(federated: &Object) -> Option<Self> {
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

    /// Writes a decision.
    fn write_placement(
        &mut self,
        placement: &Placement,
        triggers: Option<String>,
        config: &TypeConfig,
        policy: Option<&PolicySpec>,
    ) {
        self.set_annotation(keys::TRIGGERS, triggers);
        let follow = policy.is_none_or(|policy| !policy.disable_follower_scheduling);
        let mut effective = self.set_annotation(keys::ENABLE_FOLLOWERS, Some(follow.to_string()));
        effective |= self.set_annotation(keys::THRESHOLD, policy.and_then(format_threshold));
        let own = encode_placements(&placement.clusters);
        effective |= self.set_own("placements", (!own.is_empty()).then(|| json!({"placement": own})));
        let own = encode_overrides(&placement.clusters, &config.replicas_pointer());
        effective |= self.set_own("overrides", (!own.is_empty()).then(|| json!({"clusters": own})));
        if effective {
            self.set_annotation(keys::SCHEDULING, Some(encode_record(self.before, &placement.clusters)));
        }
        self.effective = effective;
    }

    /// Sets or removes the scheduler's entry of a list in the spec. Returns whether that changes anything.
    fn set_own(&mut self, list: &str, entry: Option<Value>) -> bool {
        let Some(spec) = self.body.get_mut("spec").and_then(Value::as_object_mut) else { return false };
        let mut entries = spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let before = entries.clone();
        let at = entries.iter().position(|entry| string_at(entry, &["controller"]) == SCHEDULER);
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
    fn sign_off(&mut self, pending: &PendingControllers, config: &TypeConfig) {
        let own = config.controllers.iter().position(|group| group.iter().any(|name| name == SCHEDULER));
        let after = own.and_then(|own| config.controllers.get(own + 1..)).unwrap_or_default();
        let pending = if self.effective { after } else { pending.0.as_slice() };
        self.set_annotation(keys::PENDING, Some(gojson::write_sorted(&json!(pending))));
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

/// How long pods may be unschedulable, if the policy migrates replicas.
fn format_threshold(policy: &PolicySpec) -> Option<String> {
    policy.auto_migration.as_ref()?.parse_threshold().map(goduration::format_duration)
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
