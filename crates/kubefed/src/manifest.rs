//! The manifests of a federated object: template, identity, overrides, label.
//!
//! Facts: annotations and finalizers of the template are dropped; everything else stays. The kind is the
//! target's. The API version is the template's, if it has one. The label that marks a managed object is added
//! last.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::federated_object::FederatedObject;
use super::overrides::{self, InvalidOverride, OverrideStep, StepsByCluster};
use super::preference::Schedule;
use super::state::KubeFedState;
use super::{CLUSTER_NOT_READY, KubeFedPlanner, decision};
use federate_dialect::{
    ManifestVariant, NotSent, OverrideChange, Placed, Placement, RenderedManifest, ReplicaFields,
};
use federate_kubernetes::patch;
use federate_kubernetes::{ClusterName, Finding, Object, finding, work};

/// The label that marks managed objects.
pub(super) const MANAGED_LABEL: &str = "kubefed.io/managed";

/// The status of a cluster whose overrides fail.
pub(super) const OVERRIDES_FAILED: &str = "ApplyOverridesFailed";

/// The variants of a placement.
pub(super) fn render_federated(
    plane: &KubeFedPlanner<'_>,
    row: &Placement,
    federated: &FederatedObject<'_>,
) -> Vec<ManifestVariant> {
    if row.unschedulable.as_ref().is_some_and(|why| why.reason == decision::PROPAGATION_DISABLED) {
        let clusters: Vec<ClusterName> = row.clusters.iter().map(|placed| placed.name.clone()).collect();
        let withheld = NotSent { status: decision::PROPAGATION_DISABLED, finding: None };
        return vec![ManifestVariant { clusters: clusters.into(), rendered: Err(withheld) }];
    }
    let (ready, unready) = split_by_readiness(plane, row);
    let mut variants = Vec::new();
    if !unready.is_empty() {
        let withheld = NotSent { status: CLUSTER_NOT_READY, finding: None };
        variants.push(ManifestVariant { clusters: unready.into(), rendered: Err(withheld) });
    }
    match &federated.overrides {
        _ if ready.is_empty() => {}
        Err(failure) => {
            let clusters = ready.iter().map(|placed| placed.name.clone()).collect();
            variants.push(failed_variant(federated, failure, clusters));
        }
        Ok(own) => {
            let preference = deciding_preference(plane, row, federated);
            let written = written_schedule(row, federated);
            let mut classes: BTreeMap<Vec<String>, (Vec<OverrideStep>, Vec<ClusterName>)> = BTreeMap::new();
            for placed in ready {
                let steps = merge_steps(own, preference.is_some(), placed, &written);
                let class = classes.entry(steps.iter().map(OverrideStep::comparison_key).collect());
                class.or_insert_with(|| (steps, Vec::new())).1.push(placed.name.clone());
            }
            for (steps, clusters) in classes.into_values() {
                variants.push(match render_manifest(federated, &steps, preference) {
                    Ok(rendered) => ManifestVariant { clusters: clusters.into(), rendered: Ok(rendered) },
                    Err(failure) => failed_variant(federated, &failure, clusters),
                });
            }
        }
    }
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

/// Whether manifests may have other replicas than the row and the template.
pub(super) fn may_change_replicas(
    plane: &KubeFedPlanner<'_>,
    row: &Placement,
    federated: &FederatedObject<'_>,
) -> bool {
    let fields = ReplicaFields::for_kind(&federated.target);
    // `3.0` is written as `3`.
    let stated = federated.object.value_at(&["spec", "template", "spec", "replicas"]);
    let is_normalized = stated.is_some_and(|stated| stated.is_number() && stated.as_i64().is_none());
    let mut own = federated.overrides.iter().flat_map(StepsByCluster::values).flatten();
    is_normalized
        || own.any(|step| fields.may_be_at(step.path()))
        || deciding_preference(plane, row, federated).is_some()
        || !written_schedule(row, federated).is_empty()
}

/// The clusters of a row, split by readiness.
fn split_by_readiness<'p>(
    plane: &KubeFedPlanner<'_>,
    row: &'p Placement,
) -> (Vec<&'p Placed>, Vec<ClusterName>) {
    let (ready, unready): (Vec<&Placed>, Vec<&Placed>) =
        row.clusters.iter().partition(|p| plane.find_cluster(&p.name).is_some_and(|c| c.ready));
    (ready, unready.into_iter().map(|p| p.name.clone()).collect())
}

/// The preference that decided, if there is one.
fn deciding_preference<'a>(
    plane: &KubeFedPlanner<'a>,
    row: &Placement,
    federated: &FederatedObject<'_>,
) -> Option<&'a Object> {
    let preference = plane.preference_of(federated).map(|preference| preference.object);
    preference.filter(|object| row.policy.as_ref() == Some(&object.id))
}

/// The overrides for a cluster.
fn merge_steps(
    own: &StepsByCluster,
    scheduled: bool,
    placed: &Placed,
    written: &Schedule,
) -> Vec<OverrideStep> {
    let steps = own.get(placed.name.as_ref()).cloned().unwrap_or_default();
    // The overrides of a cluster without a number fail, whatever the number.
    let scheduled = scheduled.then(|| placed.replicas.unwrap_or(0));
    match scheduled.or_else(|| written.get(&placed.name).copied()) {
        Some(replicas) => overrides::with_replicas(&steps, replicas),
        None => steps,
    }
}

/// The replicas that a preference has written. A list of overrides in git replaces those of the preference.
fn written_schedule(row: &Placement, federated: &FederatedObject<'_>) -> Schedule {
    let own = federated.object.value_at(&["spec", "overrides"]).is_some_and(|overrides| !overrides.is_null());
    if own { Schedule::default() } else { KubeFedState::from_row(row).written.unwrap_or_default() }
}

/// The overrides for one cluster of a row.
pub(super) fn cluster_steps<'f>(
    plane: &KubeFedPlanner<'_>,
    row: &Placement,
    federated: &'f FederatedObject<'_>,
    placed: &Placed,
) -> Result<Vec<OverrideStep>, &'f InvalidOverride> {
    let own = federated.overrides.as_ref()?;
    let scheduled = deciding_preference(plane, row, federated).is_some();
    Ok(merge_steps(own, scheduled, placed, &written_schedule(row, federated)))
}

fn render_manifest(
    federated: &FederatedObject<'_>,
    steps: &[OverrideStep],
    preference: Option<&Object>,
) -> Result<RenderedManifest, InvalidOverride> {
    let mut body = base_manifest(federated);
    let mut changes: Vec<OverrideChange> = Vec::new();
    work::charge_copy(&body);
    for step in steps.iter().take_while(|_| !work::is_exceeded()) {
        work::charge_value(&body);
        let before = body.clone();
        overrides::apply_step(step, &mut body)?;
        let policy = preference.filter(|_| step.scheduled).unwrap_or(federated.object);
        let paths = patch::find_differences(&before, &body);
        match changes.iter_mut().find(|c| c.policy == policy.id) {
            Some(change) => change.paths.extend(paths),
            None => changes.push(OverrideChange {
                policy: policy.id.clone(),
                origin: policy.origin.to_string(),
                paths,
            }),
        }
    }
    overrides::check_kind(steps, &body)?;
    for change in &mut changes {
        change.paths.sort();
        change.paths.dedup();
    }
    mark_managed(&mut body);
    Ok(RenderedManifest { body, changes })
}

/// The template with its identity, before overrides.
pub(super) fn base_manifest(federated: &FederatedObject<'_>) -> Value {
    let template = federated.object.value_at(&["spec", "template"]).and_then(Value::as_object);
    let target = &federated.target;
    let own_version =
        template.and_then(|t| t.get("apiVersion")).and_then(Value::as_str).filter(|v| !v.is_empty());
    let mut body = Map::new();
    body.insert("apiVersion".to_owned(), own_version.unwrap_or(&target.api_version).into());
    body.insert("kind".to_owned(), target.kind.as_str().into());
    body.insert("metadata".to_owned(), base_metadata(federated, template.and_then(|t| t.get("metadata"))));
    for (key, value) in template.into_iter().flatten() {
        if !body.contains_key(key) {
            body.insert(key.clone(), normalize_numbers(value));
        }
    }
    Value::Object(body)
}

fn base_metadata(federated: &FederatedObject<'_>, template: Option<&Value>) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), federated.object.id.name.as_str().into());
    if let Some(namespace) = &federated.target.namespace {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    for (key, value) in template.and_then(Value::as_object).into_iter().flatten() {
        let dropped = match key.as_str() {
            "annotations" | "finalizers" => is_filled_with_text(value),
            // The namespace of a Namespace is ignored.
            "namespace" => !federated.kind.is_namespace(),
            _ => false,
        };
        if !dropped && !metadata.contains_key(key) {
            metadata.insert(key.clone(), normalize_numbers(value));
        }
    }
    Value::Object(metadata)
}

/// Whether a mapping or list is not empty and contains only strings.
fn is_filled_with_text(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty() && map.values().all(Value::is_string),
        Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_string),
        _ => false,
    }
}

/// Whole numbers written with a fraction, and numbers beyond 64 bits, as Go holds them.
fn normalize_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_none() => overrides::to_float64(value),
        Value::Array(items) => Value::Array(items.iter().map(normalize_numbers).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), normalize_numbers(v))).collect())
        }
        other => other.clone(),
    }
}

/// Sets the label. It replaces labels that are not a mapping of strings.
pub(super) fn mark_managed(body: &mut Value) {
    let Some(object) = body.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let labels = metadata.entry("labels").or_insert(Value::Null);
    match labels.as_object_mut().filter(|map| map.values().all(Value::is_string)) {
        Some(map) => drop(map.insert(MANAGED_LABEL.to_owned(), "true".into())),
        None => *labels = serde_json::json!({MANAGED_LABEL: "true"}),
    }
}

fn failed_variant(
    federated: &FederatedObject<'_>,
    failure: &InvalidOverride,
    clusters: Vec<ClusterName>,
) -> ManifestVariant {
    let shown: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    let message = format!(
        "{} cannot be rendered for {}: an override of {} fails: {}",
        federated.target,
        finding::join_names(&shown, 3),
        federated.object.id,
        failure.message,
    );
    let mut finding = Finding::error("override-failed", federated.object, message).with_pointer(&failure.pointer).with_help(
        "the operations of a cluster apply as a whole or not at all; until this is fixed, the cluster receives nothing",
    );
    finding.object = Some(federated.target.clone());
    ManifestVariant {
        clusters: clusters.into(),
        rendered: Err(NotSent { status: OVERRIDES_FAILED, finding: Some(finding) }),
    }
}
