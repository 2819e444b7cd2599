//! Migration of replicas and workloads: the annotation `kubeadmiral.io/migration-configuration` of a template,
//! and the estimates of the auto-migration controller.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::api::AutoMigration;
use super::keys;
use super::state::KubeAdmiralState;
use federate_dialect::{Placed, PlacedClusters};
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{LiveObjects, Object, ObjectRef};

mod pods;
pub(super) mod scenario;

pub use pods::{MemberDeployment, PodEstimate, estimate_capacity};

/// The migration configuration of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MigrationConfiguration {
    /// The maximum of replicas by cluster, which overrides all preferences.
    pub(super) limits: BTreeMap<String, i64>,
    /// The clusters from which the object is evicted, with the time until when.
    pub(super) evicted: BTreeMap<String, Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    #[serde(deserialize_with = "null_default")]
    replicas_migrations: Vec<Replicas>,
    #[serde(deserialize_with = "null_default")]
    workload_migrations: Vec<WorkloadMigration>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Replicas {
    #[serde(deserialize_with = "null_default")]
    cluster: String,
    limited_capacity: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WorkloadMigration {
    #[serde(deserialize_with = "null_default")]
    cluster: String,
    valid_until: Option<String>,
}

impl MigrationConfiguration {
    /// Reads a template's configuration, which is invalid as a whole if one entry is; `None` where there is
    /// none. `divisible` tells whether the template has replicas that can be divided.
    pub(super) fn from_template(template: &Object, divisible: bool) -> Result<Option<Self>, String> {
        let Some(text) = template.annotation(keys::MIGRATION) else { return Ok(None) };
        let configuration: Configuration = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if !configuration.replicas_migrations.is_empty() && !divisible {
            return Err("the object has no replicas to migrate".to_owned());
        }
        let mut migration = Self::default();
        for Replicas { cluster, limited_capacity } in configuration.replicas_migrations {
            let limit = limited_capacity.filter(|limit| *limit >= 0);
            let limit = limit.ok_or("`limitedCapacity` is missing or negative")?;
            migration.check_unlisted(&cluster)?;
            migration.limits.insert(cluster, limit);
        }
        for WorkloadMigration { cluster, valid_until } in configuration.workload_migrations {
            let until = valid_until.ok_or("`validUntil` is missing")?;
            let until = until.parse().map_err(|_| format!("`{until}` is not a time in RFC 3339"))?;
            migration.check_unlisted(&cluster)?;
            migration.evicted.insert(cluster, until);
        }
        Ok(Some(migration))
    }

    fn check_unlisted(&self, cluster: &str) -> Result<(), String> {
        if cluster.is_empty() {
            return Err("an entry names no cluster".to_owned());
        }
        if self.limits.contains_key(cluster) || self.evicted.contains_key(cluster) {
            return Err(format!("cluster `{cluster}` is listed twice"));
        }
        Ok(())
    }

    /// The text in which the scheduler keeps the configuration in force.
    pub(super) fn to_text(&self) -> String {
        let mut applied = Applied { limited_capacity: self.limits.clone(), ..Applied::default() };
        for (cluster, until) in &self.evicted {
            let until = Timestamp::from_second(until.as_second()).unwrap_or(*until);
            let unavailable = Unavailable { cluster: cluster.clone(), valid_until: until.to_string() };
            applied.unavailable_clusters.push(unavailable);
        }
        serde_json::to_string(&applied).unwrap_or_default()
    }

    /// Reads the text in which the scheduler keeps the configuration in force.
    pub(super) fn from_text(text: &str) -> Self {
        let applied: Applied = serde_json::from_str(text).unwrap_or_default();
        let evicted = applied.unavailable_clusters.into_iter();
        Self {
            limits: applied.limited_capacity,
            evicted: evicted.filter_map(|c| Some((c.cluster, c.valid_until.parse().ok()?))).collect(),
        }
    }
}

/// The configuration in force, as the scheduler keeps it.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Applied {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    limited_capacity: BTreeMap<String, i64>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    unavailable_clusters: Vec<Unavailable>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Unavailable {
    cluster: String,
    valid_until: String,
}

/// The estimates of unschedulable replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityEstimates {
    /// How many replicas a cluster can run, where that is known to be limited.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub estimated_capacity: BTreeMap<String, i64>,
    /// The number of scheduled replicas.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub scheduled_replicas: BTreeMap<String, i64>,
}

/// The estimates from the observed pods in the clusters where a template is placed; `None` if none were observed.
pub(super) fn observe_estimates(
    live: &LiveObjects,
    template: &Object,
    clusters: &PlacedClusters,
    policy: &AutoMigration,
    now: Timestamp,
) -> Option<CapacityEstimates> {
    let id = &template.id;
    let namespace = id.namespace.as_deref();
    if !is_counted(id) {
        return None;
    }
    let mut workloads = BTreeMap::new();
    for Placed { name: cluster, .. } in clusters {
        if let Some(deployment) = live.get(cluster, id.group(), &id.kind, namespace, &id.name) {
            let replica_sets = live.list_kind(cluster, id.group(), "ReplicaSet", namespace);
            let pods = live.list_kind(cluster, "", "Pod", namespace);
            let pods = (!replica_sets.is_empty()).then_some(pods);
            workloads.insert(cluster.as_ref(), MemberDeployment { deployment, replica_sets, pods });
        }
    }
    let estimate = estimate_capacity(&workloads, policy.parse_threshold()?, now);
    (!workloads.is_empty() && !estimate.failed).then_some(estimate.estimates)
}

/// Whether the pods of an object are counted: only those of Deployments are.
pub(super) fn is_counted(object: &ObjectRef) -> bool {
    object.api_version == "apps/v1" && object.kind == "Deployment"
}

/// The text of the auto-migration controller, if any.
pub(super) fn migration_info(scheduler_state: &KubeAdmiralState) -> Option<&str> {
    scheduler_state.annotations.get(keys::AUTO_MIGRATION_INFO).map(String::as_str)
}

/// The text of the migration configuration that was in force.
pub(super) fn applied_migration(scheduler_state: &KubeAdmiralState) -> Option<&str> {
    scheduler_state.annotations.get(keys::APPLIED_MIGRATION).map(String::as_str)
}

/// Records the estimates of the auto-migration controller in the scheduler state.
pub(super) fn write_estimates(scheduler_state: &mut KubeAdmiralState, estimates: &CapacityEstimates) {
    scheduler_state.annotations.insert(keys::AUTO_MIGRATION_INFO.to_owned(), estimates.to_annotation());
}

/// Records the text of the migration configuration in force in the scheduler state.
pub(super) fn write_migration(scheduler_state: &mut KubeAdmiralState, applied: Option<&str>) {
    let annotations = &mut scheduler_state.annotations;
    match applied {
        Some(text) => drop(annotations.insert(keys::APPLIED_MIGRATION.to_owned(), text.to_owned())),
        None => drop(annotations.remove(keys::APPLIED_MIGRATION)),
    }
}

impl CapacityEstimates {
    /// The text that the controller writes to the federated object.
    pub fn to_annotation(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the text that the controller writes. Negative estimates are ignored.
    pub(super) fn parse_annotation(text: &str) -> Result<Self, serde_json::Error> {
        let mut estimates: Self = serde_json::from_str(text)?;
        estimates.estimated_capacity.retain(|_, capacity| *capacity >= 0);
        Ok(estimates)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn migration(configuration: &Value, divisible: bool) -> Result<Option<MigrationConfiguration>, String> {
        let body = json!({"metadata": {"annotations": {keys::MIGRATION: configuration.to_string()}}});
        MigrationConfiguration::from_template(
            &Object::from_path("apps/v1", "Deployment", "a/web", body),
            divisible,
        )
    }

    #[test]
    fn one_mistake_refuses_the_whole() {
        let good = json!({"replicasMigrations": [{"cluster": "a", "limitedCapacity": 2}],
            "workloadMigrations": [{"cluster": "b", "validUntil": "2099-01-01T00:00:00Z"}]});
        let text = concat!(
            r#"{"limitedCapacity":{"a":2},"unavailableClusters":[{"cluster":"b","#,
            r#""validUntil":"2099-01-01T00:00:00Z"}]}"#
        );
        let Ok(Some(read)) = migration(&good, true) else { panic!("it is valid") };
        assert_eq!((read.to_text().as_str(), MigrationConfiguration::from_text(text)), (text, read));
        assert!(migration(&good, false).is_err());
        for bad in [
            json!({"replicasMigrations": [{"cluster": "a", "limitedCapacity": -1}]}),
            json!({"replicasMigrations": [{"limitedCapacity": 1}]}),
            json!({"workloadMigrations": [{"cluster": "a"}]}),
            json!({"replicasMigrations": [{"cluster": "a", "limitedCapacity": 1}],
                "workloadMigrations": [{"cluster": "a", "validUntil": "2099-01-01T00:00:00Z"}]}),
        ] {
            assert!(migration(&bad, true).is_err(), "{bad}");
        }
    }
}
