//! The federated objects of a hub as the memory of a plan: clusters, triggers, and what other controllers left;
//! and one run of the scheduler over them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::memory::Memory;
use super::policies::named;
use super::trigger::{Clusters, State};
use super::types::{SCHEDULER, TypeConfig, Types};
use super::{GROUP, NAME, keys};
use federate_dialect::{HubKinds, Placed, PlacedClusters, Placement, Plan};
use federate_kubernetes::object::at;
use federate_kubernetes::{Object, ObjectRef};

mod reconcile;

pub use reconcile::{Reconciled, reconcile};

/// The kinds of federated objects.
const KINDS: [&str; 2] = ["FederatedObject", "ClusterFederatedObject"];

/// The annotations that other controllers leave on a federated object for the scheduler.
const REMEMBERED: [&str; 2] = [keys::AUTO_MIGRATION_INFO, keys::APPLIED_MIGRATION];

/// Whether an object is a federated object.
pub fn is_federated(object: &ObjectRef) -> bool {
    object.group() == GROUP && KINDS.contains(&object.kind.as_str())
}

/// The kinds that the memory is read from, and the inventory.
pub(crate) const HUB_KINDS: [HubKinds; 1] = [HubKinds {
    group: "core.kubeadmiral.io",
    kinds: &["FederatedCluster", "FederatedObject", "ClusterFederatedObject", "FederatedTypeConfig"],
}];

/// The template of a federated object, with the labels and annotations for the control plane, which are on the
/// federated object itself.
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

/// Reads the memory of a plan from the objects of a hub: one row per federated object. `FederatedTypeConfig`
/// objects among them count.
pub fn memory_of(objects: &[Object]) -> Plan {
    memory_with(objects, &Types::new(objects.iter().filter(|o| o.id.kind == "FederatedTypeConfig")))
}

/// The same, with given type configurations.
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
    let left =
        REMEMBERED.iter().filter_map(|key| Some(((*key).to_owned(), federated.annotation(key)?.to_owned())));
    let (trigger, clusters) = federated.annotation(keys::TRIGGERS).and_then(State::parse).unzip();
    let memory = Memory {
        annotations: left.collect(),
        propagated: None,
        trigger,
        deferred: federated.annotation(keys::DEFERRED).unwrap_or_default().to_owned(),
        scheduled: (!others.is_empty()).then(|| own.clone()),
        ..Memory::default()
    };
    memory.write(&mut row);
    row.clusters = own;
    row.clusters.extend(others);
    (row, clusters)
}

/// The clusters that the scheduler chose, with the replicas in its overrides.
fn scheduled(federated: &Object, config: &TypeConfig) -> PlacedClusters {
    let names = placements(federated).filter(|(controller, _)| *controller == SCHEDULER);
    let path = config.replicas_pointer();
    let placed = |name: &str| Placed { name: name.into(), replicas: replicas(federated, name, &path) };
    names.flat_map(|(_, names)| names).map(placed).collect()
}

/// The controllers with placements, each with its clusters.
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
