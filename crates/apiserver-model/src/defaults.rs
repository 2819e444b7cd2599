//! Sets the defaults of built-in objects.
//!
//! Facts: the defaults that the API reference of Kubernetes 1.36 states field by field.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value, json};

use super::values::{list_at, present_at, text_below};

mod pods;
mod storage;
mod workloads;

/// The annotation in which a DaemonSet counts the changes of its template.
pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Sets the defaults of a built-in object, which is normalized already.
pub(super) fn apply_defaults(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => workloads::default_deployment(object),
        "StatefulSet" => workloads::default_stateful_set(object),
        "DaemonSet" => workloads::default_daemon_set(object),
        "ReplicaSet" | "ReplicationController" => workloads::default_replica_set(object),
        "Job" => workloads::default_job(mapping_below(object, "spec")),
        "CronJob" => workloads::default_cron_job(mapping_below(object, "spec")),
        "HorizontalPodAutoscaler" => workloads::default_autoscaler(mapping_below(object, "spec")),
        "Pod" => pods::default_pod(object),
        "Endpoints" => default_endpoints(object),
        "EndpointSlice" => {
            for port in items_below(object, "ports") {
                set_default(port, "name", || json!(""));
                set_default(port, "protocol", || json!("TCP"));
            }
        }
        "ValidatingAdmissionPolicy" => {
            let spec = mapping_below(object, "spec");
            set_default(spec, "failurePolicy", || json!("Fail"));
            default_match_resources(spec.get_mut("matchConstraints"));
        }
        "ValidatingAdmissionPolicyBinding" => {
            default_match_resources(mapping_below(object, "spec").get_mut("matchResources"));
        }
        "PodTemplate" => pods::default_template(mapping_below(object, "template")),
        "Service" => default_service(mapping_below(object, "spec")),
        "NetworkPolicy" => default_network_policy(mapping_below(object, "spec")),
        "RoleBinding" | "ClusterRoleBinding" => default_binding(object),
        "Secret" => default_secret(object),
        "LimitRange" => {
            items_below(mapping_below(object, "spec"), "limits")
                .filter(|item| item["type"] == "Container")
                .for_each(default_container_limits);
        }
        "PersistentVolumeClaim" => {
            storage::default_claim_spec(mapping_below(object, "spec"));
            set_default(mapping_below(object, "status"), "phase", || json!("Pending"));
        }
        "PersistentVolume" => storage::default_volume(object),
        "StorageClass" => {
            set_default(object, "reclaimPolicy", || json!("Delete"));
            set_default(object, "volumeBindingMode", || json!("Immediate"));
        }
        "PriorityClass" => set_default(object, "preemptionPolicy", || json!("PreemptLowerPriority")),
        "Namespace" => default_namespace(object),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => default_webhooks(object, kind),
        "CustomResourceDefinition" => default_definition(mapping_below(object, "spec")),
        _ => {}
    }
}

/// The limits of containers: the default limit is the highest one, and the default request is the default limit, or else
/// the lowest one.
fn default_container_limits(item: &mut Value) {
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let amounts = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        for (resource, amount) in amounts {
            set_default(mapping_below(item, to), &resource, || amount);
        }
    }
}

/// The mapping below a key, which is created if it is absent.
fn mapping_below<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let place = &mut value[key];
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    place
}

/// Sets a key that is absent, null, or an empty string.
fn set_default(value: &mut Value, key: &str, what: impl FnOnce() -> Value) {
    if let Some(map) = value.as_object_mut() {
        let unset = map.get(key).is_none_or(|v| v.is_null() || v.as_str() == Some(""));
        if unset {
            map.insert(key.to_owned(), what());
        }
    }
}

/// The items of a list below a key.
fn items_below<'v>(value: &'v mut Value, key: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn default_endpoints(object: &mut Value) {
    for subset in items_below(object, "subsets") {
        for port in items_below(subset, "ports") {
            set_default(port, "protocol", || json!("TCP"));
        }
    }
}

fn default_service(spec: &mut Value) {
    set_default(spec, "sessionAffinity", || json!("None"));
    match text_below(spec, "sessionAffinity") {
        "ClientIP" => {
            let client = mapping_below(mapping_below(spec, "sessionAffinityConfig"), "clientIP");
            set_default(client, "timeoutSeconds", || json!(10800));
        }
        "None" => drop(spec.as_object_mut().map(|spec| spec.shift_remove("sessionAffinityConfig"))),
        _ => {}
    }
    set_default(spec, "type", || json!("ClusterIP"));
    for port in items_below(spec, "ports") {
        set_default(port, "protocol", || json!("TCP"));
        let number = port.get("port").cloned().unwrap_or_default();
        if matches!(port.get("targetPort"), None | Some(Value::Null)) || port["targetPort"] == json!(0) {
            port["targetPort"] = number;
        }
    }
    let ty = text_below(spec, "type").to_owned();
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer") {
        set_default(spec, "externalTrafficPolicy", || json!("Cluster"));
    }
    if ty != "ExternalName" {
        set_default(spec, "internalTrafficPolicy", || json!("Cluster"));
    }
    if ty == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", || json!(true));
    }
}

fn default_network_policy(spec: &mut Value) {
    let egress = !list_at(spec, "/egress").is_empty();
    if present_at(spec, "/policyTypes").is_none() {
        spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
    for direction in ["ingress", "egress"] {
        for rule in items_below(spec, direction) {
            for port in items_below(rule, "ports") {
                set_default(port, "protocol", || json!("TCP"));
            }
        }
    }
}

fn default_binding(object: &mut Value) {
    set_default(mapping_below(object, "roleRef"), "apiGroup", || json!("rbac.authorization.k8s.io"));
    for subject in items_below(object, "subjects") {
        if matches!(text_below(subject, "kind"), "User" | "Group") {
            set_default(subject, "apiGroup", || json!("rbac.authorization.k8s.io"));
        }
    }
}

/// Moves `stringData` of a Secret to `data`.
pub fn encode_string_data(object: &mut Value) {
    let written = object.as_object_mut().and_then(|map| map.shift_remove("stringData"));
    for (key, value) in written.iter().filter_map(Value::as_object).flatten() {
        let bytes = value.as_str().unwrap_or_default().as_bytes();
        mapping_below(object, "data")[key] = Value::from(BASE64_STANDARD.encode(bytes));
    }
}

fn default_secret(object: &mut Value) {
    encode_string_data(object);
    set_default(object, "type", || json!("Opaque"));
}

fn default_namespace(object: &mut Value) {
    let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
    let labels = mapping_below(mapping_below(object, "metadata"), "labels");
    labels["kubernetes.io/metadata.name"] = name;
}

fn default_match_resources(resources: Option<&mut Value>) {
    let Some(resources) = resources else { return };
    set_default(resources, "matchPolicy", || json!("Equivalent"));
    set_default(resources, "namespaceSelector", || json!({}));
    set_default(resources, "objectSelector", || json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in items_below(resources, rules) {
            set_default(rule, "scope", || json!("*"));
        }
    }
}

fn default_webhooks(object: &mut Value, kind: &str) {
    for hook in items_below(object, "webhooks") {
        set_default(hook, "failurePolicy", || json!("Fail"));
        set_default(hook, "matchPolicy", || json!("Equivalent"));
        set_default(hook, "namespaceSelector", || json!({}));
        set_default(hook, "objectSelector", || json!({}));
        set_default(hook, "timeoutSeconds", || json!(10));
        if kind == "MutatingWebhookConfiguration" {
            set_default(hook, "reinvocationPolicy", || json!("Never"));
        }
        if let Some(service) = hook.pointer_mut("/clientConfig/service") {
            set_default(service, "port", || json!(443));
        }
        for rule in items_below(hook, "rules") {
            set_default(rule, "scope", || json!("*"));
        }
    }
}

fn default_definition(spec: &mut Value) {
    set_default(mapping_below(spec, "conversion"), "strategy", || json!("None"));
    let names = mapping_below(spec, "names");
    let kind = text_below(names, "kind").to_owned();
    set_default(names, "listKind", || json!(format!("{kind}List")));
    set_default(names, "singular", || json!(kind.to_lowercase()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_affinity_there_is_no_timeout_of_it() {
        let config = json!({"clientIP": {"timeoutSeconds": 10800}});
        let mut object = json!({"spec": {"sessionAffinityConfig": config}});
        apply_defaults("Service", &mut object);
        assert_eq!(object.pointer("/spec/sessionAffinityConfig"), None);
        object["spec"]["sessionAffinity"] = json!("ClientIP");
        apply_defaults("Service", &mut object);
        assert_eq!(object["spec"]["sessionAffinityConfig"], config);
    }

    #[test]
    fn what_is_given_stays() {
        let mut object = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": "http"}]}});
        apply_defaults("Service", &mut object);
        assert_eq!(object["spec"]["ports"], json!([{"port": 80, "targetPort": "http", "protocol": "TCP"}]));
        assert_eq!(object["spec"]["externalTrafficPolicy"], "Cluster");
    }
}
