//! `KubeAdmiral`'s digests of the inputs of a decision: 32-bit FNV-1 of Go's JSON, in decimal.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use federate_dialect::gojson;
use federate_kubernetes::{Labels, Taint};

/// The digest of a text.
fn fnv(text: &str) -> String {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    hash.to_string()
}

/// The digest of annotations by name; without any, that of an empty map.
pub(super) fn annotations(annotations: &BTreeMap<&str, &str>) -> String {
    fnv(&gojson::write(&json!(annotations)))
}

/// The digest of a cluster's labels. An empty map is stored as absent.
pub(super) fn labels(labels: &Labels) -> String {
    fnv(&if labels.is_empty() { "null".to_owned() } else { gojson::write(&json!(labels)) })
}

/// The digest of a cluster's taints. Taints with equal key and value stay in the order given.
pub(super) fn taints(taints: &[Taint]) -> String {
    let mut taints: Vec<&Taint> = taints.iter().collect();
    taints.sort_by(|a, b| (&a.key, &a.value).cmp(&(&b.key, &b.value)));
    let list = taints.into_iter().map(|taint| {
        let mut map = Map::new();
        map.insert("key".to_owned(), taint.key.as_str().into());
        put(&mut map, "value", Some(&json!(taint.value)));
        map.insert("effect".to_owned(), taint.effect.as_str().into());
        Value::Object(map)
    });
    fnv(&gojson::write_fields(&list.collect()))
}

/// The digest of a cluster's API types, in any order.
pub(super) fn api_types(types: &[Value]) -> String {
    const KEYS: [&str; 5] = ["group", "version", "kind", "pluralName", "scope"];
    let key =
        |api: &Value| KEYS.map(|key| api.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
    let mut types: Vec<[String; 5]> = types.iter().map(key).collect();
    types.sort();
    let list = types.into_iter().map(|values| {
        let mut map: Map<String, Value> =
            KEYS.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.into())).collect();
        map.retain(|key, value| key != "group" || value != "");
        Value::Object(map)
    });
    fnv(&gojson::write_fields(&list.collect()))
}

/// The digest of a policy's content: its `spec` without `autoMigration`.
pub(super) fn policy(spec: &Value) -> String {
    fnv(&gojson::write_fields(&content(spec)))
}

/// The digest of a policy's content with the API server's defaults.
pub(super) fn stored_policy(spec: &Value) -> String {
    let mut spec = spec.clone();
    if let Some(map) = spec.as_object_mut() {
        map.retain(|_, value| !value.is_null());
        map.entry("replicasStrategy").or_insert_with(|| "Spread".into());
        let policy = map.entry("reschedulePolicy").or_insert_with(|| json!({"rescheduleWhen": {}}));
        if let Some(policy) = policy.as_object_mut() {
            policy.retain(|_, value| !value.is_null());
            policy.entry("replicaRescheduling").or_insert_with(|| json!({}));
        }
    }
    policy(&spec)
}

/// Adds a field, unless it is empty.
fn put(map: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if let Some(value) = value.filter(|value| !empty(value)) {
        map.insert(key.to_owned(), value.clone());
    }
}

/// The content in the order of the fields of Go's types.
fn content(spec: &Value) -> Value {
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut map = Map::new();
    for key in ["schedulingProfile", "schedulingMode"] {
        map.insert(key.to_owned(), text(key).into());
    }
    put(&mut map, "replicasStrategy", spec.get("replicasStrategy"));
    put(&mut map, "clusterSelector", spec.get("clusterSelector").map(sorted).as_ref());
    put(&mut map, "clusterAffinity", Some(&each(spec.get("clusterAffinity"), term)));
    let tolerations = each(spec.get("tolerations"), |toleration| {
        fields(toleration, &["key", "operator", "value", "effect", "tolerationSeconds"])
    });
    put(&mut map, "tolerations", Some(&tolerations));
    put(&mut map, "maxClusters", spec.get("maxClusters"));
    put(&mut map, "placement", Some(&each(spec.get("placement"), placement)));
    put(&mut map, "disableFollowerScheduling", spec.get("disableFollowerScheduling"));
    if let Some(policy) = spec.get("reschedulePolicy").filter(|policy| !policy.is_null()) {
        map.insert("reschedulePolicy".to_owned(), rescheduling(policy));
    }
    Value::Object(map)
}

fn sorted(value: &Value) -> Value {
    let entries = value.as_object().into_iter().flatten();
    json!(entries.collect::<BTreeMap<_, _>>())
}

fn each(list: Option<&Value>, made: impl Fn(&Value) -> Value) -> Value {
    list.and_then(Value::as_array).into_iter().flatten().map(made).collect()
}

/// Those fields that are not empty, in this order.
fn fields(value: &Value, keys: &[&str]) -> Value {
    let mut map = Map::new();
    for key in keys {
        put(&mut map, key, value.get(*key));
    }
    Value::Object(map)
}

fn term(term: &Value) -> Value {
    let mut map = Map::new();
    for key in ["matchExpressions", "matchFields"] {
        let requirements = each(term.get(key), |requirement| {
            let field = |key: &str| requirement.get(key).cloned().unwrap_or_default();
            json!({"key": field("key"), "operator": field("operator"), "values": field("values")})
        });
        put(&mut map, key, Some(&requirements));
    }
    Value::Object(map)
}

fn placement(entry: &Value) -> Value {
    let preferences = entry.get("preferences").cloned().unwrap_or_default();
    let mut cluster_preferences = fields(&preferences, &["minReplicas", "maxReplicas", "weight", "priority"]);
    if let Some(map) =
        cluster_preferences.as_object_mut().filter(|map| map.get("minReplicas") == Some(&json!(0)))
    {
        map.shift_remove("minReplicas");
    }
    json!({"cluster": entry.get("cluster"), "preferences": cluster_preferences})
}

fn rescheduling(policy: &Value) -> Value {
    let mut map = Map::new();
    put(&mut map, "disableRescheduling", policy.get("disableRescheduling"));
    let is =
        |value: &Value, key: &str, default: bool| value.get(key).and_then(Value::as_bool).unwrap_or(default);
    if let Some(when) = policy.get("rescheduleWhen").filter(|when| !when.is_null()) {
        let when = json!({
            "policyContentChanged": is(when, "policyContentChanged", true),
            "clusterJoined": is(when, "clusterJoined", false),
            "clusterLabelsChanged": is(when, "clusterLabelsChanged", false),
            "clusterAPIResourcesChanged": is(when, "clusterAPIResourcesChanged", false),
        });
        map.insert("rescheduleWhen".to_owned(), when);
    }
    if let Some(how) = policy.get("replicaRescheduling").filter(|how| !how.is_null()) {
        let how = json!({"avoidDisruption": is(how, "avoidDisruption", true)});
        map.insert("replicaRescheduling".to_owned(), how);
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_control_planes_own() {
        assert_eq!(annotations(&BTreeMap::new()), "1450640401");
        let pairs = [("tier", "gold"), ("region", "us")];
        let map: Labels = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(labels(&map), "2248568751");
        let taint = Taint { key: "edge".into(), value: "true".into(), effect: "NoSchedule".into() };
        assert_eq!((taints(&[]).as_str(), taints(&[taint]).as_str()), ("913756753", "3686999531"));
        let deployments = json!({"group": "apps", "kind": "Deployment", "pluralName": "deployments",
            "scope": "Namespaced", "version": "v1"});
        assert_eq!(api_types(&[deployments]), "315140452");
    }

    #[test]
    fn a_policy_is_digested_as_it_stands_and_as_the_api_server_stores_it() {
        let when = json!({"clusterAPIResourcesChanged": false, "clusterJoined": true,
            "clusterLabelsChanged": false, "policyContentChanged": true});
        let spec = json!({"autoMigration": {}, "maxClusters": 3, "replicasStrategy": "Spread",
            "reschedulePolicy": {"rescheduleWhen": when}, "schedulingMode": "Divide", "schedulingProfile": ""});
        assert_eq!(policy(&spec), "470811617");
        let (silent, stored) = (
            json!({"schedulingMode": "Divide"}),
            json!({
            "schedulingMode": "Divide", "replicasStrategy": "Spread",
            "reschedulePolicy": {"rescheduleWhen": {"policyContentChanged": true},
                "replicaRescheduling": {"avoidDisruption": true}}}),
        );
        assert_eq!(stored_policy(&silent), policy(&stored));
        assert_eq!(stored_policy(&stored), policy(&stored));
    }
}
