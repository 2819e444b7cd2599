//! The scheduler state of a placement: what a scheduler must remember beyond clusters and replicas. It is the entry
//! `memory` of a row; the rows together, with clusters and replicas, are the [previous plan](crate::PreviousPlan).
//!
//! In a plan the state is a map, so that the engine carries it without looking inside. Each dialect has one
//! serde type for its state, and reads and writes it with [`Placement::read_scheduler_state`](crate::Placement::read_scheduler_state) and
//! [`Placement::write_scheduler_state`](crate::Placement::write_scheduler_state).

use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use federate_kubernetes::Object;

use crate::gojson;

/// The scheduler state of a placement, as it stands in a plan. Clones share it.
#[derive(Clone, Debug, Default, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SchedulerState(Arc<Map<String, Value>>);

impl PartialEq for SchedulerState {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl SchedulerState {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the state of a dialect.
    pub(crate) fn from_state<S: Serialize>(state: &S) -> Self {
        match serde_json::to_value(state) {
            Ok(Value::Object(map)) => map.into(),
            _ => Self::new(),
        }
    }

    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets an entry.
    pub fn insert(&mut self, key: String, value: Value) {
        Arc::make_mut(&mut self.0).insert(key, value);
    }
}

impl Deref for SchedulerState {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl From<Map<String, Value>> for SchedulerState {
    fn from(map: Map<String, Value>) -> Self {
        Self(Arc::new(map))
    }
}

/// A short digest of a value, to find out in the next run whether it has changed: 64-bit FNV-1a of its JSON with
/// sorted keys, in hexadecimal.
pub fn compute_digest(value: &Value) -> String {
    let hash = gojson::write_sorted(value).bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The digest of a template, to find out whether it has changed. Its status does not count.
pub fn compute_template_digest(template: &Object) -> String {
    let mut body = template.body.clone();
    if let Some(body) = body.as_object_mut() {
        body.remove("status");
    }
    compute_digest(&body)
}

/// Reads a field of a state. A value of another form counts as absent, so that the other fields are still read.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    Ok(T::deserialize(Value::deserialize(deserializer)?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::ObjectRef;
    use serde_json::json;

    use super::*;
    use crate::Placement;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Example {
        #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
        number: Option<i64>,
        #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
        names: Vec<String>,
    }

    #[test]
    fn a_digest_depends_on_values_and_not_on_the_order_of_keys() {
        let digest = |text: &str| compute_digest(&serde_json::from_str(text).unwrap());
        assert_eq!(digest(r#"{"a": 1, "b": [2, 3]}"#), digest(r#"{"b": [2, 3], "a": 1}"#));
        assert_ne!(digest(r#"{"a": 1, "b": [2, 3]}"#), digest(r#"{"a": 1, "b": [3, 2]}"#));
        assert_eq!(digest("null").len(), 16);
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let id = ObjectRef {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: None,
            name: "c".into(),
        };
        let mut row = Placement::new("example", id, None);
        assert_eq!(row.read_scheduler_state::<Example>(), Example::default());
        let written = Example { number: Some(1), names: vec!["a".into()] };
        row.write_scheduler_state(&written);
        assert_eq!(serde_json::to_value(&row.scheduler_state).unwrap(), json!({"number": 1, "names": ["a"]}));
        assert_eq!(row.read_scheduler_state::<Example>(), written);
        row.scheduler_state.insert("number".into(), json!("one"));
        assert_eq!(row.read_scheduler_state::<Example>(), Example { number: None, ..written });
    }
}
