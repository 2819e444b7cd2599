//! Replicas and workloads on the move: `kubeadmiral.io/migration-configuration` on a template, and what
//! the auto-migration controller remembers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::keys;
use federate_dialect::Placement;
use federate_kubernetes::Object;
use federate_kubernetes::selector::null_default;

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
    workload_migrations: Vec<Workload>,
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
struct Workload {
    #[serde(deserialize_with = "null_default")]
    cluster: String,
    valid_until: Option<String>,
}

impl Migration {
    /// Reads a template's configuration, which is taken as a whole or not at all. `divisible` tells
    /// whether the template has replicas that can be divided.
    pub(super) fn of(template: &Object, divisible: bool) -> Result<Self, String> {
        let Some(text) = template.annotation(keys::MIGRATION) else { return Ok(Self::default()) };
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
        for Workload { cluster, valid_until } in configuration.workload_migrations {
            let until = valid_until.ok_or("`validUntil` is missing")?;
            let until = until.parse().map_err(|_| format!("`{until}` is not a time in RFC 3339"))?;
            migration.free(&cluster)?;
            migration.evicted.insert(cluster, until);
        }
        Ok(migration)
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

    /// What of it is to be remembered: two templates that ask for the same write the same.
    pub(super) fn text(&self) -> String {
        format!("{:?}", (&self.limits, &self.evicted))
    }
}

/// What is known of replicas that found no room.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Estimates {
    /// How many replicas a cluster can take, where that is known to be limited.
    #[serde(deserialize_with = "null_default")]
    pub(super) estimated_capacity: BTreeMap<String, i64>,
    /// How many replicas found room.
    #[serde(deserialize_with = "null_default")]
    pub(super) scheduled_replicas: BTreeMap<String, i64>,
}

/// The text that the auto-migration controller left, if any.
pub(super) fn info(previous: Option<&Placement>) -> Option<&str> {
    let annotations = previous?.memory.get("annotations")?;
    annotations.get(keys::AUTO_MIGRATION_INFO).and_then(Value::as_str)
}

impl Estimates {
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

    fn migration(configuration: &Value, divisible: bool) -> Result<Migration, String> {
        let body = json!({"metadata": {"annotations": {keys::MIGRATION: configuration.to_string()}}});
        Migration::of(&Object::named("apps/v1", "Deployment", "a/web", body), divisible)
    }

    #[test]
    fn one_mistake_refuses_the_whole() {
        let good = json!({"replicasMigrations": [{"cluster": "a", "limitedCapacity": 2}],
            "workloadMigrations": [{"cluster": "b", "validUntil": "2099-01-01T00:00:00Z"}]});
        assert_eq!(migration(&good, true).map(|m| m.limits.len() + m.evicted.len()), Ok(2));
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
