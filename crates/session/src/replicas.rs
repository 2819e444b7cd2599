//! The plan with the replicas that manifests have.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use serde_json::Value;

use federate_dialect::{Placed, PlacedClusters, Placement, Plan};
use federate_engine::Engine;
use federate_engine::replicas::{is_workload, replicas};
use federate_kubernetes::ObjectRef;
use federate_repo::Role;

use crate::Session;

/// Lists of clusters with the replicas of their manifests, by the address of the list without them.
type ReplicaCache = Mutex<HashMap<(usize, Option<i64>), PlacedClusters>>;

impl Session {
    /// The plan with each object once: a template that no policy places may have a row that is only a scheduler's memory.
    fn plan_of_objects(&self) -> Plan {
        let mut plan = self.plan().clone();
        let unmatched: HashSet<&ObjectRef> = plan.unmatched.iter().collect();
        plan.placements.retain(|row| !row.clusters.is_empty() || !unmatched.contains(&row.object));
        plan
    }

    /// The plan for people: with the replicas that manifests have, and with each object once. Where no control plane decides
    /// replicas they are those of the template, and overrides can change them.
    pub fn plan_with_replicas(&self) -> Plan {
        let engine = OnceLock::new();
        let overridden =
            self.repo().claimed.iter().any(|c| c.role == Role::Override && names_replicas(&c.object.body));
        let mut plan = self.plan_of_objects();
        let stated = ReplicaCache::default();
        plan.placements.par_iter_mut().for_each(|row| {
            let undecided = row.clusters.iter().any(|placed| placed.replicas.is_none());
            if row.clusters.is_empty() || !self.has_replicas(&row.object) || !(undecided || overridden) {
                return;
            }
            row.clusters = match self.repo().template(&row.object) {
                Some(template) if !overridden && template.per_cluster.is_none() => {
                    of_template(&row.clusters, replicas(&row.object, &template.object.body), &stated)
                }
                _ => of_manifests(row, engine.get_or_init(|| self.engine())),
            };
        });
        plan
    }

    /// Whether the manifests of an object have replicas.
    fn has_replicas(&self, object: &ObjectRef) -> bool {
        is_workload(object)
            || self
                .repo()
                .template(object)
                .is_some_and(|template| replicas(object, &template.object.body).is_some())
    }
}

/// Whether an override can concern replicas.
fn names_replicas(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("replicas") || text.contains("parallelism"),
        Value::Array(items) => items.iter().any(names_replicas),
        Value::Object(map) => {
            let names = |key: &str| key.contains("replicas") || key.contains("parallelism");
            map.iter().any(|(key, value)| names(key) || names_replicas(value))
        }
        _ => false,
    }
}

/// The clusters with the replicas of the template where none are decided. Placements that share a list still do.
fn of_template(clusters: &PlacedClusters, replicas: Option<i64>, stated: &ReplicaCache) -> PlacedClusters {
    let lock = || stated.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (clusters.address(), replicas);
    if let Some(known) = lock().get(&key) {
        return known.clone();
    }
    let with = |placed: &Placed| Placed { replicas: placed.replicas.or(replicas), ..placed.clone() };
    let clusters: PlacedClusters = clusters.iter().map(with).collect();
    lock().insert(key, clusters.clone());
    clusters
}

/// The clusters of a row with the replicas of their manifests.
fn of_manifests(row: &Placement, engine: &Engine<'_>) -> PlacedClusters {
    let alone = Plan { placements: vec![row.clone()], ..Plan::default() };
    let mut clusters: Vec<Placed> = row.clusters.to_vec();
    for variant in engine.variants(&alone, &row.object) {
        let Some(replicas) = variant.rendered.ok().and_then(|rendered| replicas(&row.object, &rendered.body))
        else {
            continue;
        };
        // Both are sorted by name.
        let mut names = variant.clusters.iter().peekable();
        for placed in &mut clusters {
            while names.next_if(|name| **name < placed.name).is_some() {}
            if names.peek().is_some_and(|name| **name == placed.name) {
                placed.replicas = Some(replicas);
            }
        }
    }
    clusters.into()
}
