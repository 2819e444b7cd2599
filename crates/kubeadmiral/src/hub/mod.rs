//! The hub's federated objects as memory: where the scheduler has put objects, what it decided that from, and
//! what other controllers left there; and what one run of the scheduler makes of them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::decide::{ANNOTATIONS, DEFERRED, SCHEDULED, TRIGGER};
use super::policies::named;
use super::trigger::{Clusters, State};
use super::types::{SCHEDULER, TypeConfig, Types};
use super::{GROUP, NAME, keys};
use federate_dialect::{Placed, PlacedClusters, Placement, Plan};
use federate_kubernetes::object::at;
use federate_kubernetes::{Object, ObjectRef};

mod reconcile;

pub use reconcile::{Reconciled, reconcile};

/// The kinds that hold an object on the hub.
const KINDS: [&str; 2] = ["FederatedObject", "ClusterFederatedObject"];

/// What other controllers leave on a federated object for the scheduler.
const REMEMBERED: [&str; 2] = [keys::AUTO_MIGRATION_INFO, keys::APPLIED_MIGRATION];

/// Whether an object holds another one on the hub.
pub fn is_federated(object: &ObjectRef) -> bool {
    object.group() == GROUP && KINDS.contains(&object.kind.as_str())
}

/// The object that a federated object stands for, with the labels and annotations that speak to the control plane:
/// those are not in its template.
pub fn source(federated: &Object) -> Option<Object> {
    let mut source = Object::of(federated.at(&["spec", "template"])?.clone(), federated.origin.file.clone());
    source.origin = federated.origin.clone();
    for key in keys::MOVED_LABELS {
        if let Some(value) = federated.label(key) {
            source.set_label(key, value);
        }
    }
    for key in keys::MOVED_ANNOTATIONS {
        if let Some(value) = federated.annotation(key) {
            source.set_annotation(key, value);
        }
    }
    Some(source)
}

/// The memory of a plan in the objects of a hub: a row for each federated object among them. Configurations of
/// kinds among them count.
pub fn memory_of(objects: &[Object]) -> Plan {
    memory_with(objects, &Types::new(objects.iter().filter(|o| o.id.kind == "FederatedTypeConfig")))
}

/// The same, with the configurations of kinds given.
fn memory_with(objects: &[Object], types: &Types) -> Plan {
    let mut plan = Plan::default();
    for federated in objects.iter().filter(|object| is_federated(&object.id)) {
        let Some(source) = source(federated) else { continue };
        let config = types.get(&source.id.api_version, &source.id.kind).cloned().unwrap_or_default();
        let (row, clusters) = row(federated, &source, &config);
        plan.shared.extend(clusters.map(|clusters| (clusters.digest(), json!(clusters))));
        plan.placements.push(row);
    }
    plan
}

/// The row of a federated object, and the clusters that its memory refers to.
fn row(federated: &Object, source: &Object, config: &TypeConfig) -> (Placement, Option<Clusters>) {
    let mut row = Placement::new(NAME, source.id.clone(), named(source));
    let own = scheduled(federated, config);
    let everyone: BTreeSet<&str> = placements(federated).flat_map(|(_, names)| names).collect();
    let others = everyone.into_iter().filter(|name| !own.has(name));
    let others: Vec<Placed> = others.map(|name| Placed { name: name.into(), replicas: None }).collect();
    row.clusters = own.clone();
    if !others.is_empty() {
        row.memory.insert(SCHEDULED.to_owned(), json!(own));
        row.clusters.extend(others);
    }
    let state = federated.annotation(keys::TRIGGERS).and_then(State::parse);
    if let Some((state, _)) = &state {
        row.memory.insert(TRIGGER.to_owned(), json!(state));
    }
    if let Some(deferred) = federated.annotation(keys::DEFERRED).filter(|text| !text.is_empty()) {
        row.memory.insert(DEFERRED.to_owned(), deferred.into());
    }
    let left =
        REMEMBERED.iter().filter_map(|key| Some(((*key).to_owned(), federated.annotation(key)?.into())));
    let left: Map<String, Value> = left.collect();
    if !left.is_empty() {
        row.memory.insert(ANNOTATIONS.to_owned(), left.into());
    }
    (row, state.map(|(_, clusters)| clusters))
}

/// Where the scheduler has put it, with the replicas that its overrides say.
fn scheduled(federated: &Object, config: &TypeConfig) -> PlacedClusters {
    let names = placements(federated).filter(|(controller, _)| *controller == SCHEDULER);
    let path = config.replicas_pointer();
    let placed = |name: &str| Placed { name: name.into(), replicas: replicas(federated, name, &path) };
    names.flat_map(|(_, names)| names).map(placed).collect()
}

/// The controllers that place it, each with its clusters.
fn placements(federated: &Object) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
    list(&federated.body, &["spec", "placements"]).iter().map(|entry| {
        let names = list(entry, &["placement"]).iter().filter_map(|c| c.get("cluster")?.as_str());
        (text(entry, "controller"), names)
    })
}

/// The replicas that the scheduler's overrides give a cluster.
fn replicas(federated: &Object, cluster: &str, path: &str) -> Option<i64> {
    let entries = list(&federated.body, &["spec", "overrides"]);
    let own = entries.iter().find(|entry| text(entry, "controller") == SCHEDULER)?;
    let of_cluster = list(own, &["clusters"]).iter().find(|entry| text(entry, "cluster") == cluster)?;
    let replaces =
        |patch: &&Value| text(patch, "path") == path && matches!(text(patch, "op"), "" | "replace");
    list(of_cluster, &["patches"]).iter().find(replaces)?.get("value")?.as_i64()
}

fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
