//! Whether an update is needed: the controller compares versions, not contents.
//!
//! Facts: a `PropagatedVersion` in the namespace of the federated object records the versions of the template
//! and of the overrides that were sent, and the version of the object in each cluster afterwards. It counts
//! only while template and overrides have these versions. If the object has a generation, its labels and
//! annotations are compared as well.

use md5::{Digest, Md5};
use serde_json::{Map, Value, json};

use super::super::federated_object::FederatedObject;
use super::super::{KubeFedPlanner, explanation};
use federate_dialect::{Placement, gojson};
use federate_kubernetes::Object;
use federate_kubernetes::hex::to_hex;
use federate_kubernetes::object::{string_map, value_at};

/// The kinds that record versions: of namespaced objects, and of cluster-scoped ones.
const KINDS: [&str; 2] = ["PropagatedVersion", "ClusterPropagatedVersion"];

/// Whether an object is such a record.
pub(crate) fn is_record(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// The version of the object in the cluster when it was last sent, if template and overrides are the same now.
pub(super) fn recorded_version<'r>(
    plane: &'r KubeFedPlanner<'_>,
    row: &Placement,
    federated: &FederatedObject<'_>,
    cluster: &str,
) -> Option<&'r str> {
    let own = &federated.object.id;
    let kind = if own.namespace.is_some() { KINDS[0] } else { KINDS[1] };
    let name = format!("{}-{}", federated.target.kind.to_lowercase(), own.name);
    let record = plane.sent.iter().find(|record| {
        record.id.kind == kind && record.id.namespace == own.namespace && record.id.name == name
    })?;
    let (template, overrides) = current_versions(row, federated);
    if record.text_at(&["status", "templateVersion"]) != template
        || record.text_at(&["status", "overridesVersion"]) != overrides
    {
        return None;
    }
    let clusters = record.value_at(&["status", "clusterVersions"])?.as_array()?;
    let entry = clusters.iter().find(|entry| entry.get("clusterName").is_some_and(|name| name == cluster))?;
    entry.get("version")?.as_str()
}

/// Whether the live object is up to date, so that nothing is sent.
pub(super) fn is_current(recorded: Option<&str>, desired: &Value, live: &Object) -> bool {
    let version = object_version(live);
    recorded == Some(&version) && (!version.starts_with("gen:") || same_metadata(desired, &live.body))
}

/// The version of an object in a cluster.
fn object_version(live: &Object) -> String {
    match live.value_at(&["metadata", "generation"]).and_then(Value::as_i64) {
        Some(generation) if generation != 0 => format!("gen:{generation}"),
        _ => format!("rv:{}", live.text_at(&["metadata", "resourceVersion"])),
    }
}

fn same_metadata(desired: &Value, live: &Value) -> bool {
    for key in ["name", "namespace"] {
        let [desired, live] = [desired, live]
            .map(|object| value_at(object, &["metadata", key]).and_then(Value::as_str).unwrap_or_default());
        if desired != live {
            return false;
        }
    }
    ["labels", "annotations"].iter().all(|key| {
        let [desired, live] = [desired, live].map(|object| string_map(value_at(object, &["metadata", key])));
        desired == live
    })
}

/// The versions of the template and of the overrides, after the scheduler has written them.
fn current_versions(row: &Placement, federated: &FederatedObject<'_>) -> (String, String) {
    let object = federated.object;
    let scheduled = row.policy.as_ref().is_some_and(|policy| *policy != object.id);
    let rewritten = scheduled.then(|| {
        let schedule = row.clusters.iter().map(|p| (p.name.clone(), p.replicas.unwrap_or(0)));
        explanation::rewrite_federated(federated, &schedule.collect())
    });
    compute_versions(rewritten.as_ref().unwrap_or(&object.body))
}

/// The versions of the template and of the overrides of a federated object.
pub(crate) fn compute_versions(federated: &Value) -> (String, String) {
    let template = value_at(federated, &["spec", "template"]).filter(|template| !template.is_null());
    let template = template.map(|template| md5_hex(&gojson::write_sorted(template))).unwrap_or_default();
    (template, overrides_version(value_at(federated, &["spec", "overrides"])))
}

/// The MD5 of a text and a newline.
fn md5_hex(text: &str) -> String {
    to_hex(&Md5::new().chain_update(text).chain_update("\n").finalize())
}

/// The hash of the overrides. The order of their keys is that of the fields of Go's types.
fn overrides_version(overrides: Option<&Value>) -> String {
    let Some(list) = overrides.and_then(Value::as_array) else { return md5_hex(r#"{"overrides":null}"#) };
    let entries: Vec<String> = list.iter().map(encode_entry).collect();
    md5_hex(&format!(r#"{{"overrides":[{}]}}"#, entries.join(",")))
}

fn encode_entry(entry: &Value) -> String {
    let mut fields = vec![encode_field("clusterName", entry.get("clusterName").unwrap_or(&json!("")))];
    let steps = entry.get("clusterOverrides").and_then(Value::as_array).filter(|steps| !steps.is_empty());
    if let Some(steps) = steps {
        let steps: Vec<String> = steps.iter().map(encode_step).collect();
        fields.push(format!(r#""clusterOverrides":[{}]"#, steps.join(",")));
    }
    format!("{{{}}}", fields.join(","))
}

fn encode_step(step: &Value) -> String {
    let [op, path, value] = ["op", "path", "value"].map(|key| step.get(key).filter(|value| !value.is_null()));
    let mut fields = Vec::new();
    fields.extend(op.filter(|op| *op != "").map(|op| encode_field("op", op)));
    fields.push(encode_field("path", path.unwrap_or(&json!(""))));
    fields.extend(value.map(|value| encode_field("value", &to_floats(value))));
    format!("{{{}}}", fields.join(","))
}

fn encode_field(key: &str, value: &Value) -> String {
    format!(r#""{key}":{}"#, gojson::write_sorted(value))
}

/// The value with every number as Go's `float64`.
fn to_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.iter().map(to_floats).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), to_floats(v))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        // echo '{"data":{"k":"v"}}' | md5sum
        let (template, overrides) = compute_versions(&json!({"spec": {"template": {"data": {"k": "v"}}}}));
        assert_eq!(template, "86d7340b476552a96d857c5b58aace45");
        assert_eq!(overrides, "2979b7538b527abe06492021841caf47");
    }

    #[test]
    fn overrides_are_hashed_in_the_order_of_the_types() {
        let overrides = json!([
            {"clusterOverrides": [{"value": 12_345_678_901_234_567_i64, "path": "/a", "op": ""}, {"path": "/b", "op": "remove"}],
             "clusterName": "c<1"},
            {"clusterName": "c2", "clusterOverrides": []}
        ]);
        let text = concat!(
            r#"{"overrides":[{"clusterName":"c\u003c1","clusterOverrides":[{"path":"/a","value":12345678901234568},"#,
            r#"{"op":"remove","path":"/b"}]},{"clusterName":"c2"}]}"#
        );
        assert_eq!(overrides_version(Some(&overrides)), md5_hex(text));
        assert_eq!(overrides_version(Some(&json!(null))), overrides_version(None));
    }
}
