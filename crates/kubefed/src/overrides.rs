//! The overrides of a federated object, by cluster.
//!
//! Facts: one invalid entry makes the overrides of all clusters invalid. An operation without `op` replaces.
//! Numbers are 64-bit floats. The operations of a cluster are one JSON patch, which applies as a whole or not
//! at all, by the lenient rules of [`patch`]. The result must have a kind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Number, Value};

use super::api::{ClusterOverrides, OverrideOperation};
use federate_kubernetes::patch::{self, JsonPatchOperation, PatchRules};

/// The path of the replicas in every kind that is scheduled.
pub(super) const REPLICAS_PATH: &str = "/spec/replicas";

/// The identity of an object cannot be overridden. Only exactly these paths are refused.
const IDENTITY_PATHS: [&str; 4] =
    ["/metadata/namespace", "/metadata/name", "/metadata/generateName", "/kind"];

/// Why overrides are invalid or fail, and the place in the federated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidOverride {
    pub pointer: String,
    pub message: String,
}

/// One operation for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OverrideStep {
    name: String,
    path: String,
    value: Value,
    /// Its place in the federated object.
    pointer: String,
    /// Whether the scheduler decides its value.
    pub scheduled: bool,
}

impl OverrideStep {
    fn new(entry: &OverrideOperation, pointer: String) -> Self {
        let name = if entry.op.is_empty() { "replace" } else { &entry.op };
        let value = to_float64(entry.value.as_ref().unwrap_or(&Value::Null));
        Self { name: name.to_owned(), path: entry.path.clone(), value, pointer, scheduled: false }
    }

    /// The path that it changes.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// A key that is equal for equal steps.
    pub(super) fn comparison_key(&self) -> String {
        format!("{} {:?} {}", self.name, self.path, self.value)
    }
}

/// The steps by cluster.
pub(super) type StepsByCluster = BTreeMap<String, Vec<OverrideStep>>;

/// Reads the overrides of all clusters.
pub(super) fn read_overrides(overrides: &[ClusterOverrides]) -> Result<StepsByCluster, InvalidOverride> {
    let mut all = StepsByCluster::new();
    for (index, entry) in overrides.iter().enumerate() {
        let pointer = format!("/spec/overrides/{index}");
        let mut paths = BTreeSet::new();
        let mut steps = Vec::new();
        for (at, one) in entry.cluster_overrides.iter().enumerate() {
            let pointer = format!("{pointer}/clusterOverrides/{at}");
            if IDENTITY_PATHS.contains(&one.path.as_str()) {
                return Err(InvalidOverride {
                    message: format!("`{}` cannot be overridden", one.path),
                    pointer,
                });
            }
            if !paths.insert(one.path.as_str()) {
                let message =
                    format!("`{}` is overridden twice for cluster `{}`", one.path, entry.cluster_name);
                return Err(InvalidOverride { pointer, message });
            }
            steps.push(OverrideStep::new(one, pointer));
        }
        if all.insert(entry.cluster_name.clone(), steps).is_some() {
            let message = format!("cluster `{}` has two entries", entry.cluster_name);
            return Err(InvalidOverride { pointer, message });
        }
    }
    Ok(all)
}

/// The steps with the scheduler's number of replicas: in the step that overrides replicas, else as the last
/// step.
pub(super) fn with_replicas(steps: &[OverrideStep], replicas: i64) -> Vec<OverrideStep> {
    let mut steps = steps.to_vec();
    match steps.iter_mut().find(|s| s.path == REPLICAS_PATH) {
        Some(step) => {
            step.value = replicas.into();
            step.scheduled = true;
        }
        None => steps.push(OverrideStep {
            name: "replace".to_owned(),
            path: REPLICAS_PATH.to_owned(),
            value: replicas.into(),
            pointer: "/spec/overrides".to_owned(),
            scheduled: true,
        }),
    }
    steps
}

/// Applies one step.
pub(super) fn apply_step(step: &OverrideStep, body: &mut Value) -> Result<(), InvalidOverride> {
    let operation = JsonPatchOperation { name: &step.name, path: &step.path, value: Some(&step.value) };
    patch::apply_by(PatchRules::Lenient, body, operation).map_err(|error| InvalidOverride {
        pointer: step.pointer.clone(),
        message: format!("{} {}: {error}", step.name, step.path),
    })
}

/// Applies all steps. The result must have a kind.
pub(super) fn apply_all(steps: &[OverrideStep], body: &mut Value) -> Result<(), InvalidOverride> {
    for step in steps {
        apply_step(step, body)?;
    }
    check_kind(steps, body)
}

/// Whether the object still has a kind after `steps`.
pub(super) fn check_kind(steps: &[OverrideStep], body: &Value) -> Result<(), InvalidOverride> {
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or_default();
    match steps.last() {
        Some(last) if kind.is_empty() => Err(InvalidOverride {
            pointer: last.pointer.clone(),
            message: "the result has no `kind`".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The value with every number as a Go `float64`. Integers that fit are integers again.
pub(super) fn to_float64(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), number_from_float),
        Value::Array(items) => Value::Array(items.iter().map(to_float64).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), to_float64(v))).collect()),
        other => other.clone(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "checked to be whole and in range"
)]
fn number_from_float(float: f64) -> Value {
    if float.fract() == 0.0 && float.abs() < i64::MAX as f64 {
        return Value::from(float as i64);
    }
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn steps(overrides: Value) -> Result<StepsByCluster, InvalidOverride> {
        read_overrides(&serde_json::from_value::<Vec<ClusterOverrides>>(overrides).unwrap())
    }

    #[test]
    fn numbers_are_floats() {
        for (given, want) in [
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)),
            (json!(3.0), json!(3)),
            (json!(1e21), json!(1e21)),
            (json!(12_345_678_901_234_567_890_u64), json!(12_345_678_901_234_567_000.0)),
            (json!([{"a": 0.5}]), json!([{"a": 0.5}])),
        ] {
            assert_eq!(to_float64(&given), want);
        }
    }

    #[test]
    fn one_bad_entry_spoils_all() {
        let entry = |name: &str, paths: &[&str]| {
            let list: Vec<Value> = paths.iter().map(|p| json!({"path": p, "value": 1})).collect();
            json!({"clusterName": name, "clusterOverrides": list})
        };
        assert_eq!(steps(json!([entry("a", &["/x", "/y"]), entry("b", &["/x"])])).unwrap().len(), 2);
        for (overrides, pointer) in [
            (json!([entry("a", &[]), entry("a", &[])]), "/spec/overrides/1"),
            (json!([entry("a", &["/x", "/x"])]), "/spec/overrides/0/clusterOverrides/1"),
            (json!([entry("a", &["/kind"])]), "/spec/overrides/0/clusterOverrides/0"),
        ] {
            assert_eq!(steps(overrides).unwrap_err().pointer, pointer);
        }
        assert!(steps(json!([entry("a", &["/metadata", "/apiVersion", "metadata/name"])])).is_ok());
    }

    #[test]
    fn replicas_take_the_place_of_an_override_of_them() {
        let own = steps(json!([{"clusterName": "a", "clusterOverrides": [
            {"path": "/spec/replicas", "op": "add", "value": 9}, {"path": "/x", "value": 1}
        ]}]));
        let with = with_replicas(&own.unwrap()["a"], 2);
        assert_eq!(
            with.iter().map(OverrideStep::comparison_key).collect::<Vec<_>>(),
            [r#"add "/spec/replicas" 2"#, r#"replace "/x" 1"#]
        );
        let keys: Vec<_> = with_replicas(&[], 0).iter().map(OverrideStep::comparison_key).collect();
        assert_eq!(keys, [r#"replace "/spec/replicas" 0"#]);
    }

    #[test]
    fn a_kind_must_be_left() {
        let replace = |value: Value| {
            let own =
                steps(json!([{"clusterName": "a", "clusterOverrides": [{"path": "", "value": value}]}]));
            let mut body = json!({"kind": "Pod"});
            apply_all(&own.unwrap()["a"], &mut body).map(|()| body)
        };
        assert_eq!(replace(json!({"kind": "X"})), Ok(json!({"kind": "X"})));
        assert!(replace(json!({})).is_err() && replace(json!(null)).is_err());
    }
}
