//! Allocates the addresses, address families and node ports of Services.
//!
//! Facts: the Service API of Kubernetes; a server with one IPv4 range.

use serde_json::{Value, json};

use super::values::{list_at, text_at};

/// Whether the Service gets an address.
fn has_address(object: &Value) -> bool {
    text_at(object, "/spec/type") != "ExternalName"
}

/// The address families of a new Service.
pub(super) fn set_families(object: &mut Value) {
    if !has_address(object) {
        return;
    }
    let spec = &mut object["spec"];
    if spec.get("ipFamilies").is_none() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec.get("ipFamilyPolicy").is_none() {
        spec["ipFamilyPolicy"] = json!("SingleStack");
    }
    if !text_at(spec, "/clusterIP").is_empty() && spec.get("clusterIPs").is_none() {
        spec["clusterIPs"] = json!([spec["clusterIP"].clone()]);
    }
}

/// Allocates the address and the node ports that a Service lacks. `address` and `port` return one for each that is
/// needed.
pub fn allocate_addresses(
    object: &mut Value,
    address: impl FnOnce() -> String,
    mut port: impl FnMut() -> u16,
) {
    if !has_address(object) {
        return;
    }
    let ty = text_at(object, "/spec/type").to_owned();
    let wanted = object.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    let spec = &mut object["spec"];
    if text_at(spec, "/clusterIP").is_empty() {
        let address = address();
        spec["clusterIP"] = json!(address);
        spec["clusterIPs"] = json!([address]);
    }
    if ty == "NodePort" || (ty == "LoadBalancer" && wanted) {
        for one in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if one.get("nodePort").is_none() {
                one["nodePort"] = json!(port());
            }
        }
    }
    if ty == "LoadBalancer"
        && text_at(spec, "/externalTrafficPolicy") == "Local"
        && spec.get("healthCheckNodePort").is_none()
    {
        spec["healthCheckNodePort"] = json!(port());
    }
}

/// Keeps the allocated address and node ports of a Service, unless the update sets others or its type no longer has
/// any.
pub(super) fn keep_allocated(live: &Value, object: &mut Value) {
    if !has_address(object) {
        if let (true, Some(spec)) = (has_address(live), object["spec"].as_object_mut()) {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                if spec.get(key) == live.pointer(&format!("/spec/{key}")) {
                    spec.shift_remove(key);
                }
            }
        }
        return;
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let (None, Some(old)) = (object["spec"].get(key), live.pointer(&format!("/spec/{key}"))) {
            object["spec"][key] = old.clone();
        }
    }
    if !has_node_ports(object) {
        if has_node_ports(live) {
            drop_node_ports(live, object);
        }
        return;
    }
    let old = list_at(live, "/spec/ports");
    for port in object["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = old.iter().find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"]);
        if let (None, Some(number)) = (port.get("nodePort"), same.and_then(|old| old.get("nodePort"))) {
            port["nodePort"] = number.clone();
        }
    }
}

/// Whether the Service has node ports.
fn has_node_ports(object: &Value) -> bool {
    matches!(text_at(object, "/spec/type"), "NodePort" | "LoadBalancer")
}

/// Releases the node ports of a Service whose type no longer has any.
fn drop_node_ports(live: &Value, object: &mut Value) {
    let old = list_at(live, "/spec/ports");
    for port in object["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let kept = old.iter().any(|old| old.get("nodePort") == port.get("nodePort"));
        if let (true, Some(port)) = (kept, port.as_object_mut()) {
            port.shift_remove("nodePort");
        }
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        for key in ["externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"] {
            if spec.get(key) == live.pointer(&format!("/spec/{key}")) {
                spec.shift_remove(key);
            }
        }
    }
}
