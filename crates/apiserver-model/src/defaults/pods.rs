//! The defaults of pods and of pod templates.

use serde_json::{Value, json};

use super::{items_below, mapping_below, set_default, text_below};

/// A pod template.
pub(super) fn default_template(template: &mut Value) {
    default_pod_spec(mapping_below(template, "spec"));
}

/// A pod; its requests default to its limits.
pub(super) fn default_pod(pod: &mut Value) {
    let spec = mapping_below(pod, "spec");
    default_pod_spec(spec);
    set_default(spec, "enableServiceLinks", || json!(true));
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        default_host_ports(spec);
    }
    for kind in ["containers", "initContainers"] {
        for container in items_below(spec, kind) {
            let limits = container.pointer("/resources/limits").and_then(Value::as_object).cloned();
            for (name, amount) in limits.into_iter().flatten() {
                set_default(mapping_below(mapping_below(container, "resources"), "requests"), &name, || {
                    amount
                });
            }
        }
    }
}

/// The ports of a pod in the network of its node. Templates of pods have had no such defaults since Kubernetes 1.28.
fn default_host_ports(spec: &mut Value) {
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_below(spec, kind) {
            for port in items_below(container, "ports") {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                set_default(port, "hostPort", || number);
            }
        }
    }
}

fn default_pod_spec(spec: &mut Value) {
    set_default(spec, "dnsPolicy", || json!("ClusterFirst"));
    set_default(spec, "restartPolicy", || json!("Always"));
    set_default(spec, "securityContext", || json!({}));
    set_default(spec, "terminationGracePeriodSeconds", || json!(30));
    set_default(spec, "schedulerName", || json!("default-scheduler"));
    let account = text_below(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        // The deprecated field has the same value.
        spec["serviceAccount"] = Value::from(account);
    } else if !text_below(spec, "serviceAccount").is_empty() {
        spec["serviceAccountName"] = spec["serviceAccount"].clone();
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        items_below(spec, kind).for_each(default_container);
    }
    for volume in items_below(spec, "volumes") {
        default_volume_source(volume);
    }
    for constraint in items_below(spec, "topologySpreadConstraints") {
        set_default(constraint, "whenUnsatisfiable", || json!("DoNotSchedule"));
    }
}

fn default_container(container: &mut Value) {
    for port in items_below(container, "ports") {
        set_default(port, "protocol", || json!("TCP"));
    }
    set_default(container, "terminationMessagePath", || json!("/dev/termination-log"));
    set_default(container, "terminationMessagePolicy", || json!("File"));
    let image = text_below(container, "image").to_owned();
    set_default(container, "imagePullPolicy", || json!(pull_policy(&image)));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            for (key, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                set_default(probe, key, || json!(value));
            }
            default_http_action(probe);
            if let Some(grpc) = probe.get_mut("grpc").filter(|g| g.is_object()) {
                set_default(grpc, "service", || json!(""));
            }
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|l| l.get_mut(hook)) {
            default_http_action(hook);
        }
    }
    for variable in items_below(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            set_default(field, "apiVersion", || json!("v1"));
        }
        if let Some(field) = variable.pointer_mut("/valueFrom/resourceFieldRef") {
            set_default(field, "divisor", || json!("0"));
        }
    }
}

fn default_http_action(action: &mut Value) {
    if let Some(get) = action.get_mut("httpGet").filter(|g| g.is_object()) {
        set_default(get, "path", || json!("/"));
        set_default(get, "scheme", || json!("HTTP"));
    }
}

/// Images with the tag `latest` are always pulled.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    if image.contains('@') {
        return "IfNotPresent";
    }
    match name.split_once(':') {
        None | Some((_, "latest" | "")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

/// The default mode of files is 0644.
fn default_volume_source(volume: &mut Value) {
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(kind).filter(|s| s.is_object()) {
            set_default(source, "defaultMode", || json!(420));
        }
    }
    for pointer in ["/downwardAPI", "/projected"] {
        let Some(source) = volume.pointer_mut(pointer) else { continue };
        for item in items_below(source, "items") {
            if let Some(field) = item.get_mut("fieldRef").filter(|f| f.is_object()) {
                set_default(field, "apiVersion", || json!("v1"));
            }
        }
        for source in items_below(source, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|t| t.is_object()) {
                set_default(token, "expirationSeconds", || json!(3600));
            }
            if let Some(downward) = source.get_mut("downwardAPI") {
                for item in items_below(downward, "items") {
                    if let Some(field) = item.get_mut("fieldRef").filter(|f| f.is_object()) {
                        set_default(field, "apiVersion", || json!("v1"));
                    }
                }
            }
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|p| p.is_object()) {
        // It is written, and empty.
        if path.get("type").is_none() {
            path["type"] = json!("");
        }
    }
    if let Some(template) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
        super::storage::default_claim_spec(mapping_below(template, "spec"));
    }
    let sources = volume.as_object().map_or(0, |map| map.keys().filter(|key| *key != "name").count());
    if sources == 0 {
        volume["emptyDir"] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_whose_tag_moves_are_pulled_each_time() {
        assert_eq!(pull_policy("nginx"), "Always");
        assert_eq!(pull_policy("registry:5000/nginx"), "Always");
        assert_eq!(pull_policy("nginx:latest"), "Always");
        assert_eq!(pull_policy("registry:5000/nginx:1.25"), "IfNotPresent");
        assert_eq!(pull_policy("nginx@sha256:00"), "IfNotPresent");
    }
}
