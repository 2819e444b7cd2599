//! `KubeAdmiral`'s digests of the inputs of a decision: 32-bit FNV-1 of Go's JSON, in decimal.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::json::string_at;
use federate_dialect::{compute_fnv1, gojson};
use federate_kubernetes::{Labels, Taint};

/// The digest of a text.
fn fnv_digest(text: &str) -> String {
    compute_fnv1(text.bytes()).to_string()
}

/// The digest of annotations by name; without any, that of an empty map.
pub(super) fn hash_annotations(annotations: &BTreeMap<&str, &str>) -> String {
    fnv_digest(&gojson::write_sorted(&json!(annotations)))
}

/// The digest of a cluster's labels. An empty map is stored as absent.
pub(super) fn hash_labels(labels: &Labels) -> String {
    fnv_digest(&if labels.is_empty() { "null".to_owned() } else { gojson::write_sorted(&json!(labels)) })
}

/// The digest of a cluster's taints. Taints with equal key and value stay in the order given.
pub(super) fn hash_taints(taints: &[Taint]) -> String {
    let mut taints: Vec<&Taint> = taints.iter().collect();
    taints.sort_by(|a, b| (&a.key, &a.value).cmp(&(&b.key, &b.value)));
    let list = taints.into_iter().map(|taint| {
        let mut map = Map::new();
        map.insert("key".to_owned(), taint.key.as_str().into());
        insert_filled(&mut map, "value", Some(&json!(taint.value)));
        map.insert("effect".to_owned(), taint.effect.as_str().into());
        Value::Object(map)
    });
    fnv_digest(&gojson::write_fields(&list.collect()))
}

/// The digest of a cluster's API types, in any order.
pub(super) fn hash_api_types(types: &[Value]) -> String {
    const KEYS: [&str; 5] = ["group", "version", "kind", "pluralName", "scope"];
    let mut types: Vec<[&str; 5]> = types.iter().map(|api| KEYS.map(|key| string_at(api, &[key]))).collect();
    types.sort_unstable();
    let list = types.into_iter().map(|values| {
        let mut map: Map<String, Value> =
            KEYS.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.into())).collect();
        map.retain(|key, value| key != "group" || value != "");
        Value::Object(map)
    });
    fnv_digest(&gojson::write_fields(&list.collect()))
}

/// The digest of a policy's content: its `spec` without `autoMigration`.
pub(super) fn hash_policy(spec: &Value) -> String {
    fnv_digest(&gojson::write_fields(&policy_content(spec)))
}

/// The digest of a policy's content with the API server's defaults.
pub(super) fn hash_stored_policy(spec: &Value) -> String {
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
    hash_policy(&spec)
}

/// Adds a field, unless it is empty.
fn insert_filled(map: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    let Some(value) = value else { return };
    let is_empty = match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !is_empty {
        map.insert(key.to_owned(), value.clone());
    }
}

/// The content in the order of the fields of Go's types.
fn policy_content(spec: &Value) -> Value {
    let mut map = Map::new();
    for key in ["schedulingProfile", "schedulingMode"] {
        map.insert(key.to_owned(), string_at(spec, &[key]).into());
    }
    insert_filled(&mut map, "replicasStrategy", spec.get("replicasStrategy"));
    insert_filled(&mut map, "clusterSelector", spec.get("clusterSelector").map(sort_keys).as_ref());
    insert_filled(&mut map, "clusterAffinity", Some(&map_items(spec.get("clusterAffinity"), encode_term)));
    let tolerations = map_items(spec.get("tolerations"), |toleration| {
        pick_fields(toleration, &["key", "operator", "value", "effect", "tolerationSeconds"])
    });
    insert_filled(&mut map, "tolerations", Some(&tolerations));
    insert_filled(&mut map, "maxClusters", spec.get("maxClusters"));
    insert_filled(&mut map, "placement", Some(&map_items(spec.get("placement"), encode_placement)));
    insert_filled(&mut map, "disableFollowerScheduling", spec.get("disableFollowerScheduling"));
    if let Some(policy) = spec.get("reschedulePolicy").filter(|policy| !policy.is_null()) {
        map.insert("reschedulePolicy".to_owned(), encode_rescheduling(policy));
    }
    Value::Object(map)
}

fn sort_keys(value: &Value) -> Value {
    let entries = value.as_object().into_iter().flatten();
    json!(entries.collect::<BTreeMap<_, _>>())
}

fn map_items(list: Option<&Value>, made: impl Fn(&Value) -> Value) -> Value {
    list.and_then(Value::as_array).into_iter().flatten().map(made).collect()
}

/// Those fields that are not empty, in this order.
fn pick_fields(value: &Value, keys: &[&str]) -> Value {
    let mut map = Map::new();
    for key in keys {
        insert_filled(&mut map, key, value.get(*key));
    }
    Value::Object(map)
}

fn encode_term(term: &Value) -> Value {
    let mut map = Map::new();
    for key in ["matchExpressions", "matchFields"] {
        let requirements = map_items(term.get(key), |requirement| {
            let [key, operator, values] = ["key", "operator", "values"].map(|key| requirement.get(key));
            json!({"key": key, "operator": operator, "values": values})
        });
        insert_filled(&mut map, key, Some(&requirements));
    }
    Value::Object(map)
}

fn encode_placement(entry: &Value) -> Value {
    let preferences = entry.get("preferences").cloned().unwrap_or_default();
    let mut cluster_preferences =
        pick_fields(&preferences, &["minReplicas", "maxReplicas", "weight", "priority"]);
    if let Some(map) =
        cluster_preferences.as_object_mut().filter(|map| map.get("minReplicas") == Some(&json!(0)))
    {
        map.shift_remove("minReplicas");
    }
    json!({"cluster": entry.get("cluster"), "preferences": cluster_preferences})
}

fn read_flag(value: &Value, key: &str, default: bool) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(default)
}

fn encode_rescheduling(policy: &Value) -> Value {
    let mut map = Map::new();
    insert_filled(&mut map, "disableRescheduling", policy.get("disableRescheduling"));
    if let Some(when) = policy.get("rescheduleWhen").filter(|when| !when.is_null()) {
        let when = json!({
            "policyContentChanged": read_flag(when, "policyContentChanged", true),
            "clusterJoined": read_flag(when, "clusterJoined", false),
            "clusterLabelsChanged": read_flag(when, "clusterLabelsChanged", false),
            "clusterAPIResourcesChanged": read_flag(when, "clusterAPIResourcesChanged", false),
        });
        map.insert("rescheduleWhen".to_owned(), when);
    }
    if let Some(how) = policy.get("replicaRescheduling").filter(|how| !how.is_null()) {
        let how = json!({"avoidDisruption": read_flag(how, "avoidDisruption", true)});
        map.insert("replicaRescheduling".to_owned(), how);
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_control_planes_own() {
        assert_eq!(hash_annotations(&BTreeMap::new()), "1450640401");
        let pairs = [("tier", "gold"), ("region", "us")];
        let map: Labels = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(hash_labels(&map), "2248568751");
        let taint = Taint { key: "edge".into(), value: "true".into(), effect: "NoSchedule".into() };
        assert_eq!((hash_taints(&[]).as_str(), hash_taints(&[taint]).as_str()), ("913756753", "3686999531"));
        let deployments = json!({"group": "apps", "kind": "Deployment", "pluralName": "deployments",
            "scope": "Namespaced", "version": "v1"});
        assert_eq!(hash_api_types(&[deployments]), "315140452");
    }

    #[test]
    fn a_policy_is_digested_as_it_stands_and_as_the_api_server_stores_it() {
        let when = json!({"clusterAPIResourcesChanged": false, "clusterJoined": true,
            "clusterLabelsChanged": false, "policyContentChanged": true});
        let spec = json!({"autoMigration": {}, "maxClusters": 3, "replicasStrategy": "Spread",
            "reschedulePolicy": {"rescheduleWhen": when}, "schedulingMode": "Divide", "schedulingProfile": ""});
        assert_eq!(hash_policy(&spec), "470811617");
        let (silent, stored) = (
            json!({"schedulingMode": "Divide"}),
            json!({
            "schedulingMode": "Divide", "replicasStrategy": "Spread",
            "reschedulePolicy": {"rescheduleWhen": {"policyContentChanged": true},
                "replicaRescheduling": {"avoidDisruption": true}}}),
        );
        assert_eq!(hash_stored_policy(&silent), hash_policy(&stored));
        assert_eq!(hash_stored_policy(&stored), hash_policy(&stored));
    }
}
