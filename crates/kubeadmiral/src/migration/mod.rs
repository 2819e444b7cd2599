//! Replicas and workloads on the move: `kubeadmiral.io/migration-configuration` on a template, and what
//! the auto-migration controller remembers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::decide::ANNOTATIONS;
use super::keys;
use federate_dialect::{Memory, Placement};
use federate_kubernetes::Object;
use federate_kubernetes::selector::null_default;

mod pods;

pub use pods::{Estimate, Workload, estimate};

/// What a template's migration configuration asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Migration {
    /// The most replicas by cluster, whatever else is wished.
    pub(super) limits: BTreeMap<String, i64>,
    /// Clusters that the object has to leave, until when.
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

impl Migration {
    /// Reads a template's configuration, which is taken as a whole or not at all; `None` where there is none.
    /// `divisible` tells whether the template has replicas that can be divided.
    pub(super) fn of(template: &Object, divisible: bool) -> Result<Option<Self>, String> {
        let Some(text) = template.annotation(keys::MIGRATION) else { return Ok(None) };
        let configuration: Configuration = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if !configuration.replicas_migrations.is_empty() && !divisible {
            return Err("the object has no replicas to migrate".to_owned());
        }
        let mut migration = Self::default();
        for Replicas { cluster, limited_capacity } in configuration.replicas_migrations {
            let limit = limited_capacity.filter(|limit| *limit >= 0);
            let limit = limit.ok_or("`limitedCapacity` is missing or negative")?;
            migration.free(&cluster)?;
            migration.limits.insert(cluster, limit);
        }
        for WorkloadMigration { cluster, valid_until } in configuration.workload_migrations {
            let until = valid_until.ok_or("`validUntil` is missing")?;
            let until = until.parse().map_err(|_| format!("`{until}` is not a time in RFC 3339"))?;
            migration.free(&cluster)?;
            migration.evicted.insert(cluster, until);
        }
        Ok(Some(migration))
    }

    fn free(&self, cluster: &str) -> Result<(), String> {
        if cluster.is_empty() {
            return Err("an entry names no cluster".to_owned());
        }
        if self.limits.contains_key(cluster) || self.evicted.contains_key(cluster) {
            return Err(format!("cluster `{cluster}` is listed twice"));
        }
        Ok(())
    }

    /// The text in which the scheduler keeps what is in force.
    pub(super) fn text(&self) -> String {
        let until =
            |until: &Timestamp| Timestamp::from_second(until.as_second()).unwrap_or(*until).to_string();
        let unavailable_clusters = self
            .evicted
            .iter()
            .map(|(cluster, time)| Unavailable { cluster: cluster.clone(), valid_until: until(time) });
        let applied = Applied {
            limited_capacity: self.limits.clone(),
            unavailable_clusters: unavailable_clusters.collect(),
        };
        serde_json::to_string(&applied).unwrap_or_default()
    }

    /// Reads that text.
    pub(super) fn read(text: &str) -> Self {
        let applied: Applied = serde_json::from_str(text).unwrap_or_default();
        let evicted = applied.unavailable_clusters.into_iter();
        Self {
            limits: applied.limited_capacity,
            evicted: evicted.filter_map(|c| Some((c.cluster, c.valid_until.parse().ok()?))).collect(),
        }
    }
}

/// What is in force, as the scheduler keeps it.
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

/// What is known of replicas that found no room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Estimates {
    /// How many replicas a cluster can take, where that is known to be limited.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub estimated_capacity: BTreeMap<String, i64>,
    /// How many replicas found room.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub scheduled_replicas: BTreeMap<String, i64>,
}

/// The text that the auto-migration controller left, if any.
pub(super) fn info(previous: Option<&Placement>) -> Option<&str> {
    remembered(previous?, keys::AUTO_MIGRATION_INFO)
}

/// The text of the migration configuration that was in force.
pub(super) fn applied(previous: &Placement) -> Option<&str> {
    remembered(previous, keys::APPLIED_MIGRATION)
}

fn remembered<'p>(previous: &'p Placement, annotation: &str) -> Option<&'p str> {
    previous.memory.get(ANNOTATIONS)?.get(annotation)?.as_str()
}

/// Puts the text of the migration configuration that is in force among the remembered annotations.
pub(super) fn remember(memory: &mut Memory, applied: Option<&str>) {
    let annotations = memory.entry(ANNOTATIONS).or_insert_with(|| Value::Object(Map::new()));
    if let Some(map) = annotations.as_object_mut() {
        match applied {
            Some(text) => drop(map.insert(keys::APPLIED_MIGRATION.to_owned(), text.into())),
            None => drop(map.shift_remove(keys::APPLIED_MIGRATION)),
        }
    }
    if annotations.as_object().is_some_and(Map::is_empty) {
        memory.shift_remove(ANNOTATIONS);
    }
}

impl Estimates {
    /// The text that the controller leaves on the federated object.
    pub fn annotation(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads that text; negative estimates are none.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut estimates: Self = serde_json::from_str(text)?;
        estimates.estimated_capacity.retain(|_, capacity| *capacity >= 0);
        Ok(estimates)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn migration(configuration: &Value, divisible: bool) -> Result<Option<Migration>, String> {
        let body = json!({"metadata": {"annotations": {keys::MIGRATION: configuration.to_string()}}});
        Migration::of(&Object::named("apps/v1", "Deployment", "a/web", body), divisible)
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
        assert_eq!((read.text().as_str(), Migration::read(text)), (text, read));
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
