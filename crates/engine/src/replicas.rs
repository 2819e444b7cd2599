//! Counts the replicas that objects have in clusters. Plans, comparisons, scenarios and reports all count this way.
//!
//! Where a control plane decides replicas, the row of the plan has them. Elsewhere each cluster receives those of the
//! template, so an object in three clusters counts three times. A workload that names no number has one replica, which is
//! the API server's default. An object without replicas, such as a `ConfigMap` or a `DaemonSet`, counts none. Overrides
//! that write replicas take precedence over both.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::{Engine, TemplateIndex, TooMuchWork, map_charged};
use federate_dialect::{Placed, PlacedClusters, Placement, Plan};
use federate_kubernetes::{ClusterName, Object, ObjectRef, work};
use federate_repo::Template;

/// The steps of finding out the replicas of an object in a cluster, besides those of its manifest.
const STEPS_PER_CLUSTER: u64 = 10;

/// The replicas of one object, for any row of the plan that it may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectReplicas {
    /// Those of the template, where the row has none; `None` if the object has no replicas.
    pub stated: Option<i64>,
    /// The clusters whose manifests have another number than the row and the template, sorted by name.
    pub own: Vec<(ClusterName, i64)>,
}

impl ObjectReplicas {
    /// The replicas in a cluster of a row; `None` if the object has none.
    fn replicas_in(&self, placed: &Placed) -> Option<i64> {
        let own = self.own.binary_search_by(|(name, _)| name.cmp(&placed.name)).ok();
        own.and_then(|at| self.own.get(at)).map(|(_, own)| *own).or(placed.replicas).or(self.stated)
    }

    /// The replicas in a cluster of a row, 0 if the object has none.
    pub fn count_in(&self, placed: &Placed) -> i64 {
        self.replicas_in(placed).unwrap_or(0).max(0)
    }

    /// A row with the replicas that each cluster has.
    pub fn fill_in_row(&self, row: &Placement) -> Placement {
        Placement { clusters: self.fill_in_clusters(&row.clusters), ..row.clone() }
    }

    /// The clusters of a row with the replicas that each has; the same list if it has them already.
    fn fill_in_clusters(&self, clusters: &PlacedClusters) -> PlacedClusters {
        if clusters.iter().all(|placed| self.replicas_in(placed) == placed.replicas) {
            return clusters.clone();
        }
        clusters
            .iter()
            .map(|placed| Placed { replicas: self.replicas_in(placed), ..placed.clone() })
            .collect()
    }
}

/// The replicas that an object asks for in one cluster: what its spec says, or the API server's default. `None` for objects
/// without replicas, such as a `ConfigMap`, and for those whose pods are counted by something else: a `DaemonSet` has one on
/// each node, a `CronJob` has a Job at its times.
pub fn read_replicas(object: &ObjectRef, body: &Value) -> Option<i64> {
    let integer = |field| body.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_i64);
    let stated = integer(replicas_field(object)?);
    let replicas = stated.or_else(|| is_workload(object).then_some(1))?;
    let completions = integer("completions").filter(|_| is_job(object));
    Some(completions.map_or(replicas, |completions| completions.min(replicas)))
}

fn is_job(object: &ObjectRef) -> bool {
    (object.group(), object.kind.as_str()) == ("batch", "Job")
}

/// The field of the spec that has the replicas of an object; `None` if none has.
pub fn replicas_field(object: &ObjectRef) -> Option<&'static str> {
    match (object.group(), object.kind.as_str()) {
        ("batch", "Job") => Some("parallelism"),
        ("apps" | "extensions", "DaemonSet") | ("batch", "CronJob") => None,
        _ => Some("replicas"),
    }
}

/// Whether the API server sets the replicas of an object that does not name them.
pub fn is_workload(object: &ObjectRef) -> bool {
    matches!(
        (object.group(), object.kind.as_str()),
        ("apps" | "extensions", "Deployment" | "ReplicaSet")
            | ("apps", "StatefulSet")
            | ("", "ReplicationController" | "Pod")
            | ("batch", "Job")
            | ("argoproj.io", "Rollout")
    )
}

impl Engine<'_> {
    /// Returns a plan whose rows have the replicas of their manifests. Rows of objects without replicas stay as they are.
    /// The result is for reports: as the previous plan it would change its decisions.
    ///
    /// # Errors
    ///
    /// If that takes more work than a part of a run may.
    pub fn fill_in_replicas(&self, plan: &Plan) -> Result<Plan, TooMuchWork> {
        let counter = ReplicaCounter::new(self);
        let fill_in = || map_charged(&plan.placements, |row| counter.fill_in_row(row));
        let counted = self.limit.run_part("counting the replicas of manifests", fill_in)?;
        let mut plan = plan.clone();
        for (row, clusters) in plan.placements.iter_mut().zip(counted) {
            row.clusters = clusters;
        }
        Ok(plan)
    }

    /// The replicas of each row of a plan.
    pub fn object_replicas(&self, rows: &[Placement]) -> Vec<ObjectReplicas> {
        let counter = ReplicaCounter::new(self);
        map_charged(rows, |row| counter.object_replicas(row))
    }

    /// The replicas that an object asks for, by the rules of its control plane or else by those of Kubernetes.
    pub fn stated_replicas(&self, dialect: &str, object: &Object) -> Option<i64> {
        self.find_planner(dialect)
            .and_then(|planner| planner.kind_rules().stated_replicas(object))
            .or_else(|| read_replicas(&object.id, &object.body))
    }
}

/// Finds out the replicas of rows.
struct ReplicaCounter<'e, 'a> {
    engine: &'e Engine<'a>,
    templates: TemplateIndex<'a>,
    /// The lists of clusters with replicas, by the address of the list without them. Each is kept with that list, whose
    /// address stays taken.
    counted: Mutex<HashMap<(usize, i64), [PlacedClusters; 2]>>,
}

impl<'e, 'a> ReplicaCounter<'e, 'a> {
    fn new(engine: &'e Engine<'a>) -> Self {
        Self { engine, templates: engine.index_templates(), counted: Mutex::default() }
    }

    /// The clusters of a row with their replicas.
    fn fill_in_row(&self, row: &Placement) -> PlacedClusters {
        let replicas = self.object_replicas(row);
        let Some(stated) = replicas.stated.filter(|_| replicas.own.is_empty()) else {
            return replicas.fill_in_clusters(&row.clusters);
        };
        // Rows that share a list still do.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let [_, counted] = counted
            .entry((row.clusters.list_address(), stated))
            .or_insert_with(|| [row.clusters.clone(), replicas.fill_in_clusters(&row.clusters)]);
        counted.clone()
    }

    fn object_replicas(&self, row: &Placement) -> ObjectReplicas {
        let template = self.engine.repo.find_template(&row.object);
        let stated = match template {
            Some(template) => self.engine.stated_replicas(&row.dialect, &template.object),
            None => self.stated_by_carrier(row),
        };
        let differs = !row.clusters.is_empty() && self.may_differ(row, template);
        ObjectReplicas { stated, own: if differs { self.own_replicas(row, stated) } else { Vec::new() } }
    }

    /// Whether manifests may have other replicas than the row and the template. Only then they are rendered.
    fn may_differ(&self, row: &Placement, template: Option<&Template>) -> bool {
        let autoscalers = self.engine.autoscalers.as_ref();
        template.is_some_and(|template| template.per_cluster.is_some())
            || autoscalers.is_some_and(|autoscalers| autoscalers.scaler_of(&row.object).is_some())
            || self.engine.find_planner(&row.dialect).is_some_and(|planner| planner.may_change_replicas(row))
    }

    /// The replicas that the template asks for that an object of the control plane contains.
    fn stated_by_carrier(&self, row: &Placement) -> Option<i64> {
        let manifest = self.templates.find_carried(&row.object)?.to_manifest()?;
        let object = Object::with_identity(row.object.clone(), manifest, "");
        self.engine.stated_replicas(&row.dialect, &object)
    }

    /// The clusters whose manifests have other replicas than the row and the template.
    fn own_replicas(&self, row: &Placement, stated: Option<i64>) -> Vec<(ClusterName, i64)> {
        let mut own = Vec::new();
        if work::is_exceeded() {
            return own;
        }
        work::charge_steps(STEPS_PER_CLUSTER * row.clusters.len() as u64);
        for variant in self.engine.render_variants(row) {
            let Ok(rendered) = variant.rendered else { continue };
            let object = Object::with_identity(row.object.clone(), rendered.body, "");
            let Some(replicas) = self.engine.stated_replicas(&row.dialect, &object) else { continue };
            own.extend(
                variant
                    .clusters
                    .iter()
                    .filter(|name| {
                        row.clusters
                            .find_cluster(name)
                            .is_some_and(|placed| placed.replicas.or(stated) != Some(replicas))
                    })
                    .map(|name| (name.clone(), replicas)),
            );
        }
        own.sort_unstable();
        own
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_without_replicas_have_the_default_and_other_objects_none() {
        let count = |api_version: &str, kind: &str, spec: Value| {
            let object = ObjectRef {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: None,
                name: "a".to_owned(),
            };
            read_replicas(&object, &json!({"spec": spec}))
        };
        assert_eq!(count("apps/v1", "Deployment", json!({})), Some(1));
        assert_eq!(count("apps/v1", "Deployment", json!({"replicas": 0})), Some(0));
        assert_eq!(count("apps/v1", "StatefulSet", json!({"replicas": 3})), Some(3));
        assert_eq!(count("batch/v1", "Job", json!({"parallelism": 4, "replicas": 7})), Some(4));
        assert_eq!(count("batch/v1", "Job", json!({})), Some(1));
        assert_eq!(count("batch/v1", "Job", json!({"parallelism": 4, "completions": 2})), Some(2));
        assert_eq!(count("batch/v1", "Job", json!({"completions": 9})), Some(1));
        assert_eq!(count("v1", "Pod", json!({})), Some(1));
        assert_eq!(count("example.com/v1", "Database", json!({"replicas": "2"})), None);
        assert_eq!(count("batch/v1", "CronJob", json!({"replicas": 3})), None);
        assert_eq!(count("apps/v1", "DaemonSet", json!({"replicas": 3})), None);
        assert_eq!(count("v1", "ConfigMap", json!({})), None);
        assert_eq!(count("monitoring.coreos.com/v1", "Prometheus", json!({"replicas": 2})), Some(2));
    }

    #[test]
    fn a_cluster_of_its_own_comes_first() {
        let replicas = ObjectReplicas { stated: Some(2), own: vec![("us-1".into(), 5)] };
        let count = |name: &str, replicas_of_row| {
            replicas.count_in(&Placed { name: name.into(), replicas: replicas_of_row })
        };
        assert_eq!([count("eu-1", None), count("eu-1", Some(3)), count("us-1", Some(3))], [2, 3, 5]);
        assert_eq!(ObjectReplicas::default().count_in(&Placed { name: "a".into(), replicas: None }), 0);
    }
}
