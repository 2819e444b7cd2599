//! The plan with the replicas that manifests have.

use serde_json::Value;

use federate_dialect::{Placed, Plan};
use federate_kubernetes::ObjectRef;
use federate_repo::Role;

use crate::Session;

impl Session {
    /// The plan with the replicas that manifests have: where no control plane decides them they are those of the
    /// template, and overrides can change them.
    pub fn plan_with_replicas(&self) -> Plan {
        let engine = self.engine();
        let overrides = self.repo().claimed.iter().any(|claimed| claimed.role == Role::Override);
        let mut plan = self.plan().clone();
        for row in &mut plan.placements {
            let undecided = row.clusters.iter().any(|placed| placed.replicas.is_none());
            if row.clusters.is_empty() || !self.has_replicas(&row.object) || !(undecided || overrides) {
                continue;
            }
            let alone = Plan { placements: vec![row.clone()], ..Plan::default() };
            let mut clusters: Vec<Placed> = row.clusters.to_vec();
            for variant in engine.variants(&alone, &row.object) {
                let Ok(rendered) = variant.rendered else { continue };
                let replicas = rendered.body.pointer("/spec/replicas").and_then(Value::as_i64);
                for placed in clusters.iter_mut().filter(|placed| variant.clusters.contains(&placed.name)) {
                    placed.replicas = replicas.or(placed.replicas);
                }
            }
            row.clusters = clusters.into();
        }
        plan
    }

    /// Whether the manifests of an object have replicas at `/spec/replicas`.
    fn has_replicas(&self, object: &ObjectRef) -> bool {
        let workloads = ["Deployment", "StatefulSet", "ReplicaSet"];
        let workload = object.group() == "apps" && workloads.contains(&object.kind.as_str());
        let stated = || self.repo().template(object)?.object.body.pointer("/spec/replicas");
        workload || stated().is_some_and(Value::is_i64)
    }
}
