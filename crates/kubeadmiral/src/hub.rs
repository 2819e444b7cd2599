//! The federated objects of a hub as a previous plan: clusters, triggers, and what other controllers left;
//! and the decision of the scheduler about one of them.

use std::collections::BTreeSet;

use serde_json::json;

use super::json::{array_at, string_at};
use super::policies::named_policy;
use super::state::KubeAdmiralState;
use super::trigger::{SchedulingTriggers, TriggerClusters};
use super::types::{FederatedKinds, SCHEDULER, TypeConfig};
use super::{GROUP, NAME, keys};
use federate_dialect::{HubKinds, Placed, PlacedClusters, Placement, Plan};
use federate_kubernetes::{Object, ObjectRef};

mod scheduling;

pub use scheduling::{FederatedObjectDecision, FederatedScheduling, decide_federated_object};

/// The kinds of federated objects.
const KINDS: [&str; 2] = ["FederatedObject", "ClusterFederatedObject"];

/// The annotations that other controllers leave on a federated object for the scheduler.
const STATE_ANNOTATIONS: [&str; 2] = [keys::AUTO_MIGRATION_INFO, keys::APPLIED_MIGRATION];

/// Whether an object is a federated object.
pub fn is_federated(object: &ObjectRef) -> bool {
    object.group() == GROUP && KINDS.contains(&object.kind.as_str())
}

/// The kinds that the previous plan is read from, and the inventory.
pub(crate) const HUB_KINDS: [HubKinds; 1] = [HubKinds {
    group: "core.kubeadmiral.io",
    kinds: &["FederatedCluster", "FederatedObject", "ClusterFederatedObject", "FederatedTypeConfig"],
}];

/// The template of a federated object, with the labels and annotations for the control plane, which are on the
/// federated object itself.
pub fn template_of(federated: &Object) -> Option<Object> {
    let mut source = Object::from_manifest(
        federated.value_at(&["spec", "template"])?.clone(),
        federated.origin.file.clone(),
    );
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

/// Reads a previous plan from the objects of a hub: one row per federated object. `FederatedTypeConfig`
/// objects among them count.
pub fn read_plan(objects: &[Object]) -> Plan {
    read_plan_with(
        objects,
        &FederatedKinds::new(objects.iter().filter(|o| o.id.kind == "FederatedTypeConfig")),
    )
}

/// Reads the plan with the given type configurations.
fn read_plan_with(objects: &[Object], types: &FederatedKinds) -> Plan {
    let mut plan = Plan::default();
    for federated in objects.iter().filter(|object| is_federated(&object.id)) {
        let Some(source) = template_of(federated) else { continue };
        let config = types.get(&source.id.api_version, &source.id.kind).cloned().unwrap_or_default();
        let (row, clusters) = read_row(federated, &source, &config);
        plan.shared.extend(clusters.map(|clusters| (clusters.compute_digest(), json!(clusters))));
        plan.placements.push(row);
    }
    plan
}

/// The row of a federated object, and the clusters that its scheduler state refers to.
fn read_row(
    federated: &Object,
    source: &Object,
    config: &TypeConfig,
) -> (Placement, Option<TriggerClusters>) {
    let mut row = Placement::new(NAME, source.id.clone(), named_policy(source));
    let own = scheduled_clusters(federated, config);
    let everyone: BTreeSet<&str> = controller_placements(federated).flat_map(|(_, names)| names).collect();
    let others = everyone.into_iter().filter(|name| !own.contains_cluster(name));
    let others: Vec<Placed> = others.map(|name| Placed { name: name.into(), replicas: None }).collect();
    let left = STATE_ANNOTATIONS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), federated.annotation(key)?.to_owned())));
    let (trigger, clusters) =
        federated.annotation(keys::TRIGGERS).and_then(SchedulingTriggers::parse_annotation).unzip();
    let scheduler_state = KubeAdmiralState {
        annotations: left.collect(),
        propagated: None,
        trigger,
        deferred: federated.annotation(keys::DEFERRED).unwrap_or_default().to_owned(),
        scheduled: (!others.is_empty()).then(|| own.clone()),
        ..KubeAdmiralState::default()
    };
    scheduler_state.write_to(&mut row);
    row.clusters = own;
    row.clusters.extend(others);
    (row, clusters)
}

/// The clusters that the scheduler chose, with the replicas in its overrides.
fn scheduled_clusters(federated: &Object, config: &TypeConfig) -> PlacedClusters {
    let path = config.replicas_pointer();
    controller_placements(federated)
        .filter(|(controller, _)| *controller == SCHEDULER)
        .flat_map(|(_, names)| names)
        .map(|name| Placed { name: name.into(), replicas: overridden_replicas(federated, name, &path) })
        .collect()
}

/// The controllers with placements, each with its clusters.
fn controller_placements(federated: &Object) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
    array_at(&federated.body, &["spec", "placements"]).iter().map(|entry| {
        let names = array_at(entry, &["placement"]).iter().filter_map(|c| c.get("cluster")?.as_str());
        (string_at(entry, &["controller"]), names)
    })
}

/// The replicas that the scheduler's overrides give a cluster.
fn overridden_replicas(federated: &Object, cluster: &str, path: &str) -> Option<i64> {
    let entries = array_at(&federated.body, &["spec", "overrides"]);
    let own = entries.iter().find(|entry| string_at(entry, &["controller"]) == SCHEDULER)?;
    let of_cluster =
        array_at(own, &["clusters"]).iter().find(|entry| string_at(entry, &["cluster"]) == cluster)?;
    let patch = array_at(of_cluster, &["patches"]).iter().find(|patch| {
        string_at(patch, &["path"]) == path && matches!(string_at(patch, &["op"]), "" | "replace")
    });
    patch?.get("value")?.as_i64()
}
