//! The fields of the live object that an update retains.
//!
//! Facts: all annotations and finalizers of the live object are retained. Services retain allocated fields,
//! `ServiceAccounts` their secrets. Replicas are retained only where the federated object asks for that. A field
//! of the live object with the wrong type is an error.

use serde_json::{Map, Value};

use super::super::federated_object::FederatedObject;
use federate_kubernetes::Object;

/// A field of the live object with the wrong type.
#[derive(Debug)]
pub(super) struct RetainTypeMismatch;

/// Copies the retained fields of the live object into the new one.
pub(super) fn retain_fields(
    federated: &FederatedObject<'_>,
    body: &mut Value,
    live: &Object,
) -> Result<(), RetainTypeMismatch> {
    retain_metadata(body, live)?;
    let live = &live.body;
    match federated.target.kind.as_str() {
        "Service" => retain_service(body, live),
        "ServiceAccount" => retain_service_account(body, live),
        _ => retain_replicas(federated, body, live),
    }
}

fn retain_metadata(body: &mut Value, live: &Object) -> Result<(), RetainTypeMismatch> {
    let version = Some(live.text_at(&["metadata", "resourceVersion"])).filter(|version| !version.is_empty());
    let finalizers = live.value_at(&["metadata", "finalizers"]).and_then(Value::as_array);
    let finalizers = finalizers.filter(|list| list.iter().all(Value::is_string));
    let annotations = live.value_at(&["metadata", "annotations"]).and_then(Value::as_object);
    let annotations = annotations.filter(|map| map.values().all(Value::is_string));
    let kept = [
        ("resourceVersion", version.map(Value::from)),
        ("finalizers", finalizers.cloned().map(Value::from)),
        ("annotations", annotations.cloned().map(Value::from)),
    ];
    for (key, value) in kept {
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut).ok_or(RetainTypeMismatch)?;
        match value {
            Some(value) => drop(metadata.insert(key.to_owned(), value)),
            None => drop(metadata.shift_remove(key)),
        }
    }
    Ok(())
}

/// The value at a path. A value of the wrong type on the way is an error; an absent one is not.
fn read_field<'v>(value: &'v Value, path: &[&str]) -> Result<Option<&'v Value>, RetainTypeMismatch> {
    let mut value = value;
    for key in path {
        match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(*key) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            _ => return Err(RetainTypeMismatch),
        }
    }
    Ok(Some(value))
}

/// The value at a path, converted to its type.
fn read_typed<'v, T>(
    value: &'v Value,
    path: &[&str],
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, RetainTypeMismatch> {
    read_field(value, path)?.map(|found| read(found).ok_or(RetainTypeMismatch)).transpose()
}

fn set_at(body: &mut Value, path: &[&str], value: Value) -> Result<(), RetainTypeMismatch> {
    let mut target = body;
    for key in path {
        let map = target.as_object_mut().ok_or(RetainTypeMismatch)?;
        target = map.entry(*key).or_insert_with(|| Value::Object(Map::new()));
    }
    *target = value;
    Ok(())
}

fn retain_service(body: &mut Value, live: &Value) -> Result<(), RetainTypeMismatch> {
    let port = read_typed(live, &["spec", "healthCheckNodePort"], Value::as_i64)?;
    if let Some(port) = port.filter(|port| *port > 0) {
        set_at(body, &["spec", "healthCheckNodePort"], port.into())?;
    }
    let address = read_typed(live, &["spec", "clusterIP"], Value::as_str)?;
    if let Some(address) = address.filter(|address| !address.is_empty()) {
        set_at(body, &["spec", "clusterIP"], address.into())?;
    }
    let addresses = read_typed(live, &["spec", "clusterIPs"], Value::as_array)?;
    if let Some(addresses) = addresses.filter(|addresses| !addresses.is_empty()) {
        set_at(body, &["spec", "clusterIPs"], addresses.clone().into())?;
    }
    let Some(theirs) = read_typed(live, &["spec", "ports"], Value::as_array)? else { return Ok(()) };
    let desired = read_typed(body, &["spec", "ports"], Value::as_array)?.cloned().unwrap_or_default();
    let ports: Vec<Value> = desired.into_iter().map(|port| with_node_port(port, theirs)).collect();
    set_at(body, &["spec", "ports"], ports.into())
}

/// The port with the node port of the live one. Of several equal ports the last counts.
fn with_node_port(mut port: Value, theirs: &[Value]) -> Value {
    let node_port = theirs
        .iter()
        .filter(|other| ["name", "protocol", "port"].iter().all(|key| port.get(key) == other.get(key)))
        .filter_map(|other| other.get("nodePort"))
        .next_back();
    if let (Some(node_port), Some(port)) = (node_port, port.as_object_mut()) {
        port.insert("nodePort".to_owned(), node_port.clone());
    }
    port
}

fn retain_service_account(body: &mut Value, live: &Value) -> Result<(), RetainTypeMismatch> {
    let desired = read_typed(body, &["secrets"], Value::as_array)?;
    if desired.is_some_and(|secrets| !secrets.is_empty()) {
        return Ok(());
    }
    match read_typed(live, &["secrets"], Value::as_array)? {
        Some(secrets) if !secrets.is_empty() => set_at(body, &["secrets"], secrets.clone().into()),
        _ => Ok(()),
    }
}

fn retain_replicas(
    federated: &FederatedObject<'_>,
    body: &mut Value,
    live: &Value,
) -> Result<(), RetainTypeMismatch> {
    let retain = read_typed(&federated.object.body, &["spec", "retainReplicas"], Value::as_bool)?;
    if retain != Some(true) {
        return Ok(());
    }
    match read_typed(live, &["spec", "replicas"], Value::as_i64)? {
        Some(replicas) => set_at(body, &["spec", "replicas"], replicas.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_keeps_what_the_member_allocated() {
        let mut body = json!({"spec": {"ports": [{"port": 80, "nodePort": 1}, {"port": 81}]}});
        let live = json!({"spec": {
            "clusterIP": "10.0.0.1", "healthCheckNodePort": 0,
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 81, "protocol": "TCP", "nodePort": 30081}]
        }});
        retain_service(&mut body, &live).unwrap();
        let ports = json!([{"port": 80, "nodePort": 30080}, {"port": 81}]);
        assert_eq!(body, json!({"spec": {"ports": ports, "clusterIP": "10.0.0.1"}}));
        assert!(retain_service(&mut body, &json!({"spec": {"healthCheckNodePort": "1"}})).is_err());
        let mut bare = json!({});
        retain_service(&mut bare, &json!({"spec": {"ports": []}})).unwrap();
        assert_eq!(bare, json!({"spec": {"ports": []}}));
    }

    #[test]
    fn secrets_stay_unless_the_template_has_some() {
        let live = json!({"secrets": [{"name": "t"}]});
        for (mut body, want) in [
            (json!({}), json!([{"name": "t"}])),
            (json!({"secrets": []}), json!([{"name": "t"}])),
            (json!({"secrets": [{"name": "own"}]}), json!([{"name": "own"}])),
        ] {
            retain_service_account(&mut body, &live).unwrap();
            assert_eq!(body["secrets"], want);
        }
    }
}
