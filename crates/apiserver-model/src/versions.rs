//! Converts objects between the served versions of a built-in kind, as the API server does when it is asked for
//! another version than the one that was sent.
//!
//! Facts: `pkg/apis/*/conversion.go` of Kubernetes. The versions of most kinds that were served together have the same
//! fields, so that only the name of the version changes. A `HorizontalPodAutoscaler` of `autoscaling/v1` has one metric, the
//! use of CPU, as a field of its own; other metrics and the behaviour are JSON in annotations.

use serde_json::{Map, Value, json};

use super::values::text_below;

/// The result of converting an object to another version of its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// The object in that version.
    Done(Value),
    /// The versions have different fields, and their conversion is not known.
    Unknown,
}

/// Kinds whose versions have different fields, besides those that are converted: API group, kind, and the versions that
/// differ from all others.
const DIFFERENT: [(&str, &str, &[&str]); 9] = [
    ("apiextensions.k8s.io", "CustomResourceDefinition", &["v1beta1"]),
    ("autoscaling", "HorizontalPodAutoscaler", &["v2beta1"]),
    ("certificates.k8s.io", "CertificateSigningRequest", &["v1beta1"]),
    ("discovery.k8s.io", "EndpointSlice", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", &["v1alpha1", "v1beta1", "v1beta2"]),
    ("networking.k8s.io", "Ingress", &["v1beta1"]),
    ("resource.k8s.io", "DeviceClass", &["v1alpha3"]),
    ("resource.k8s.io", "ResourceClaim", &["v1alpha2", "v1alpha3", "v1beta1"]),
    ("resource.k8s.io", "ResourceClaimTemplate", &["v1alpha2", "v1alpha3", "v1beta1"]),
];

/// Annotations of `autoscaling/v1` for what its fields lack.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// An object of a built-in kind in another version of its group.
pub fn convert_object(object: &Value, api_version: &str) -> Conversion {
    let (from, kind) = (text_below(object, "apiVersion"), text_below(object, "kind"));
    let (group, old) = from.split_once('/').unwrap_or(("", from));
    let (_, new) = api_version.split_once('/').unwrap_or(("", api_version));
    let converted = match (group, kind, old, new) {
        _ if old == new => Some(object.clone()),
        ("networking.k8s.io", "Ingress", "v1", "v1beta1") => Some(old_ingress(object)),
        ("networking.k8s.io", "Ingress", "v1beta1", "v1") => Some(new_ingress(object)),
        ("autoscaling", "HorizontalPodAutoscaler", "v2" | "v2beta2", "v1") => Some(old_autoscaler(object)),
        ("autoscaling", "HorizontalPodAutoscaler", "v1", "v2" | "v2beta2") => Some(new_autoscaler(object)),
        _ => {
            let differs = DIFFERENT.iter().any(|(of_group, of_kind, versions)| {
                (*of_group, *of_kind) == (group, kind) && (versions.contains(&old) || versions.contains(&new))
            });
            (!differs).then(|| object.clone())
        }
    };
    match converted {
        Some(mut converted) => {
            converted["apiVersion"] = json!(api_version);
            Conversion::Done(converted)
        }
        None => Conversion::Unknown,
    }
}

/// An autoscaler in `autoscaling/v1`.
fn old_autoscaler(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    let mut metrics = match spec.shift_remove("metrics") {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    let behavior = spec.shift_remove("behavior");
    if let Some(at) = metrics.iter().position(is_cpu_use) {
        let metric = metrics.remove(at);
        if let Some(percentage) = metric.pointer("/resource/target/averageUtilization") {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percentage.clone());
        }
    }
    set_annotation(&mut object, METRICS, (!metrics.is_empty()).then(|| Value::Array(metrics)));
    set_annotation(&mut object, BEHAVIOR, behavior.filter(|behavior| !behavior.is_null()));
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.shift_remove("conditions");
        status.shift_remove("currentMetrics");
    }
    object
}

/// An autoscaler in `autoscaling/v2`.
fn new_autoscaler(object: &Value) -> Value {
    let mut object = object.clone();
    let (metrics, behavior) = (take_annotation(&mut object, METRICS), take_annotation(&mut object, BEHAVIOR));
    for key in [CONDITIONS, CURRENT] {
        take_annotation(&mut object, key);
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    let percentage = spec.shift_remove("targetCPUUtilizationPercentage").filter(|value| !value.is_null());
    let mut all = match metrics {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    all.extend(percentage.map(|percentage| {
        json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percentage}}})
    }));
    if !all.is_empty() {
        spec.insert("metrics".to_owned(), Value::Array(all));
    }
    if let Some(behavior) = behavior {
        spec.insert("behavior".to_owned(), behavior);
    }
    object
}

fn is_cpu_use(metric: &Value) -> bool {
    metric.get("type").is_some_and(|kind| kind == "Resource")
        && metric.pointer("/resource/name").is_some_and(|name| name == "cpu")
        && metric.pointer("/resource/target/averageUtilization").is_some_and(|value| !value.is_null())
}

/// Writes a value into an annotation as JSON.
fn set_annotation(object: &mut Value, key: &str, value: Option<Value>) {
    let Some(value) = value else { return };
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][key] = json!(value.to_string());
}

/// Removes an annotation, and returns the JSON in it.
fn take_annotation(object: &mut Value, key: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.shift_remove(key)?;
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

/// An Ingress in `networking.k8s.io/v1`.
fn new_ingress(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if let Some(backend) = spec.shift_remove("backend") {
        spec.insert("defaultBackend".to_owned(), new_backend(&backend));
    }
    each_backend(spec, new_backend);
    object
}

/// An Ingress in `networking.k8s.io/v1beta1`.
fn old_ingress(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if let Some(backend) = spec.shift_remove("defaultBackend") {
        spec.insert("backend".to_owned(), old_backend(&backend));
    }
    each_backend(spec, old_backend);
    object
}

fn each_backend(spec: &mut Map<String, Value>, convert: fn(&Value) -> Value) {
    let rules = spec.get_mut("rules").and_then(Value::as_array_mut);
    let paths =
        rules.into_iter().flatten().filter_map(|rule| rule.pointer_mut("/http/paths")?.as_array_mut());
    for backend in paths.flatten().filter_map(|path| path.get_mut("backend")) {
        *backend = convert(backend);
    }
}

fn new_backend(backend: &Value) -> Value {
    let mut new = Map::new();
    for (key, value) in backend.as_object().into_iter().flatten() {
        let field = match (key.as_str(), value) {
            ("serviceName", name) => ("name", name.clone()),
            ("servicePort", Value::Number(number)) => ("port", json!({"number": number})),
            ("servicePort", Value::String(name)) => ("port", json!({"name": name})),
            _ => {
                new.insert(key.clone(), value.clone());
                continue;
            }
        };
        let service = new.entry("service").or_insert_with(|| json!({}));
        service[field.0] = field.1;
    }
    Value::Object(new)
}

fn old_backend(backend: &Value) -> Value {
    let mut old = Map::new();
    for (key, value) in backend.as_object().into_iter().flatten() {
        if key != "service" {
            old.insert(key.clone(), value.clone());
            continue;
        }
        if let Some(name) = value.get("name") {
            old.insert("serviceName".to_owned(), name.clone());
        }
        if let Some(port) = value.pointer("/port/number").or_else(|| value.pointer("/port/name")) {
            old.insert("servicePort".to_owned(), port.clone());
        }
    }
    Value::Object(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autoscalers_become_one_another() {
        let spec = |more: Value| {
            let mut object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "a"}, "spec": {"minReplicas": 1, "maxReplicas": 3}});
            object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            object
        };
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}});
        let memory = json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let simple = spec(json!({"metrics": [cpu]}));
        let Conversion::Done(old) = convert_object(&simple, "autoscaling/v1") else { panic!() };
        assert_eq!(
            old["spec"],
            json!({"minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 80})
        );
        assert_eq!(convert_object(&old, "autoscaling/v2"), Conversion::Done(simple));
        let rich = spec(json!({"metrics": [memory, cpu], "behavior": {"scaleDown": {"policies": []}}}));
        let Conversion::Done(old) = convert_object(&rich, "autoscaling/v1") else { panic!() };
        assert!(old["metadata"]["annotations"][METRICS].as_str().unwrap().contains("1Gi"), "{old}");
        assert_eq!(convert_object(&old, "autoscaling/v2"), Conversion::Done(rich));
        assert_eq!(convert_object(&old, "autoscaling/v2beta1"), Conversion::Unknown);
    }

    #[test]
    fn an_ingress_has_its_backends_in_both_versions() {
        let old = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "spec": {
            "backend": {"serviceName": "d", "servicePort": "http"},
            "rules": [{"http": {"paths": [{"path": "/", "backend": {"serviceName": "a", "servicePort": 80}}]}}]}});
        let Conversion::Done(new) = convert_object(&old, "networking.k8s.io/v1") else { panic!() };
        assert_eq!(
            new["spec"]["defaultBackend"],
            json!({"service": {"name": "d", "port": {"name": "http"}}})
        );
        assert_eq!(convert_object(&new, "networking.k8s.io/v1beta1"), Conversion::Done(old));
    }

    #[test]
    fn other_kinds_have_the_same_fields_or_are_not_comparable() {
        let object =
            |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "spec": {"a": 1}});
        let renamed = convert_object(&object("batch/v1", "CronJob"), "batch/v1beta1");
        assert_eq!(renamed, Conversion::Done(object("batch/v1beta1", "CronJob")));
        let slice = object("discovery.k8s.io/v1", "EndpointSlice");
        assert_eq!(convert_object(&slice, "discovery.k8s.io/v1beta1"), Conversion::Unknown);
        let claim = object("resource.k8s.io/v1alpha2", "ResourceClaim");
        assert_eq!(convert_object(&claim, "resource.k8s.io/v1alpha3"), Conversion::Unknown);
    }
}
