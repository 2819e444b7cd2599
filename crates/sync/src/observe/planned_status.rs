//! The status of the clusters by which a revision is planned, if the repo does not say it. Only what decides is kept: of an
//! inventory object its identity, deletion, taints and status, which hold no credentials.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use federate_dialect::Dialects;
use federate_engine::snapshot::{SnapshotInput, StoredSnapshot};
use federate_kubernetes::Object;
use federate_session::UnreachableClusters;
use federate_sync_api::record::compute_digest;

/// The parts of an inventory object that decide.
const DECISIVE_FIELDS: [&[&str]; 7] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "deletionTimestamp"],
    &["spec", "taints"],
    &["status"],
];

/// The ends of the names of fields that say when something happened.
const TIME_SUFFIXES: [&str; 2] = ["Time", "Heartbeat"];

/// The status of the clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedStatus {
    /// The inventory objects.
    objects: Vec<Value>,
    /// The versions of Kubernetes, as far as members were read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    kubernetes: BTreeMap<String, String>,
    /// For how many seconds members cannot be reached, if their control planes act on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<BTreeMap<String, i64>>,
}

impl PlannedStatus {
    /// What was read of the clusters.
    pub(crate) fn from_captured(captured: &SnapshotInput, lost: Option<&UnreachableClusters>) -> Self {
        let mut objects: Vec<&Object> = captured.objects.iter().collect();
        objects.sort_by(|a, b| a.id.cmp(&b.id));
        let lost = lost.map(|lost| lost.iter().map(|(name, seconds)| (name.to_string(), *seconds)).collect());
        Self {
            objects: objects.into_iter().map(|object| keep_decisive_fields(&object.body)).collect(),
            kubernetes: captured.kubernetes.clone(),
            lost,
        }
    }

    /// The digest, without times: planning does not read a clock.
    pub(crate) fn compute_digest(&self) -> String {
        let objects = self.objects.iter().map(|object| without_times(object.clone())).collect();
        let text = serde_json::to_string(&Self { objects, ..self.clone() }).unwrap_or_default();
        compute_digest([text.as_bytes()])
    }

    /// The status as a session takes it.
    pub(crate) fn to_stored(&self, dialects: Dialects) -> Result<StoredSnapshot, String> {
        let captured = SnapshotInput {
            objects: self
                .objects
                .iter()
                .map(|body| Object::from_manifest(body.clone(), "status of the clusters"))
                .collect(),
            ..SnapshotInput::default()
        };
        let stored = StoredSnapshot::from_input(dialects, &captured).map_err(|error| error.to_string())?;
        Ok(StoredSnapshot { kubernetes: self.kubernetes.clone(), ..stored })
    }

    /// The members that cannot be reached, if their control planes act on it.
    pub(crate) fn unreachable_members(&self) -> Option<UnreachableClusters> {
        let lost = self.lost.as_ref()?;
        Some(lost.iter().map(|(name, seconds)| (name.as_str().into(), *seconds)).collect())
    }
}

/// The parts of an inventory object that decide.
pub(crate) fn keep_decisive_fields(body: &Value) -> Value {
    let mut kept = Map::new();
    for path in DECISIVE_FIELDS {
        let found = path.iter().try_fold(body, |value, key| value.get(key)).filter(|value| !value.is_null());
        match (found, path) {
            (Some(value), [outer, inner]) => {
                let outer = kept.entry(*outer).or_insert_with(|| Map::new().into());
                outer[inner] = value.clone();
            }
            (Some(value), [key, ..]) => drop(kept.insert((*key).to_owned(), value.clone())),
            _ => {}
        }
    }
    kept.into()
}

/// A value without the fields that say when something happened.
fn without_times(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| !TIME_SUFFIXES.iter().any(|end| key.ends_with(end)));
            Value::Object(kept.map(|(key, value)| (key, without_times(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_times).collect(),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, time: &str, cpu: &str) -> Object {
        let body = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "resourceVersion": time, "annotations": {"note": "s3cret"}},
            "spec": {"secretRef": {"name": "s3cret"}, "taints": [{"key": "down", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "lastTransitionTime": time}], "cpu": cpu},
        });
        Object::from_manifest(body, "hub")
    }

    fn status(objects: Vec<Object>) -> PlannedStatus {
        let lost = UnreachableClusters::from_iter([("m2".into(), 40)]);
        PlannedStatus::from_captured(&SnapshotInput { objects, ..SnapshotInput::default() }, Some(&lost))
    }

    #[test]
    fn only_what_decides_is_kept() {
        let one = status(vec![cluster("m2", "1", "4"), cluster("m1", "1", "4")]);
        let text = serde_json::to_string(&one).unwrap();
        assert!(!text.contains("s3cret") && text.contains("\"down\""), "{text}");
    }

    #[test]
    fn neither_times_nor_the_order_count() {
        let one = status(vec![cluster("m2", "1", "4"), cluster("m1", "1", "4")]);
        let later = status(vec![cluster("m1", "2", "4"), cluster("m2", "3", "4")]);
        assert_eq!(one.compute_digest(), later.compute_digest());
        let other = status(vec![cluster("m1", "2", "4"), cluster("m2", "3", "5")]);
        assert_ne!(one.compute_digest(), other.compute_digest());
    }
}
