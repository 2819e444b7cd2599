//! Validation: names and labels, ranges of values, immutable fields.
//!
//! Facts: the validation of Kubernetes 1.36, as far as objects in a repository are
//! likely to break it. What is not checked here passes.

use serde_json::{Value, json};

use super::failure::{Cause, Failure};
use super::kinds::Kind;
use super::typed::same;

mod custom;
mod definition;
mod metadata;
mod network;
mod pods;
mod rbac;
mod scaling;
mod schedule;
mod secrets;
mod services;
mod workloads;

pub(crate) use schedule::UNKNOWN_ZONE;

pub use metadata::invalid_name;

/// Refuses an update of another object, or of another version of it.
pub(super) fn identity(kind: &Kind, live: &Value, object: &Value) -> Result<(), Failure> {
    let name = text_at(live, "/metadata/name");
    let given = text_at(object, "/metadata/resourceVersion");
    if !given.is_empty() && given != text_at(live, "/metadata/resourceVersion") {
        return Err(Failure::modified(kind, name));
    }
    let uid = text_at(object, "/metadata/uid");
    if !uid.is_empty() && uid != text_at(live, "/metadata/uid") {
        // The server checks it twice.
        let cause = Cause::invalid("metadata.uid", &json!(uid), IMMUTABLE);
        return Err(Failure::invalid(kind, name, &[cause.clone(), cause]));
    }
    Ok(())
}

/// Validates a new object.
pub(super) fn create(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let mut causes = metadata::causes(kind, object);
    causes.extend(content_causes(kind, object, None));
    refuse_invalid(kind, object, &causes)
}

/// Validates the update of a live object.
pub(super) fn update(
    kind: &Kind,
    live: &Value,
    object: &Value,
    subresource: Option<&str>,
) -> Result<(), Failure> {
    let mut causes = metadata::change(kind, live, object);
    let mut content = if subresource != Some("status") || kind.custom.is_some() {
        content_causes(kind, object, Some(live))
    } else {
        Vec::new()
    };
    let mut change = change_causes(kind, live, object);
    // The server reports the changes of these kinds first.
    if matches!(kind.kind.as_str(), "ConfigMap" | "Secret" | "Service") {
        std::mem::swap(&mut content, &mut change);
    }
    causes.extend(content.into_iter().chain(change));
    refuse_invalid(kind, object, &causes)
}

fn refuse_invalid(kind: &Kind, object: &Value, causes: &[Cause]) -> Result<(), Failure> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(kind, text_at(object, "/metadata/name"), causes))
}

const IMMUTABLE: &str = "field is immutable";

fn content_causes(kind: &Kind, object: &Value, live: Option<&Value>) -> Vec<Cause> {
    if let Some(custom) = &kind.custom {
        return custom::causes(custom, object, live);
    }
    match kind.kind.as_str() {
        "Service" => services::causes(object),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" | "CronJob" => {
            workloads::causes(&kind.kind, object)
        }
        "Pod" => pods::causes(object.get("spec").unwrap_or(&Value::Null), "spec"),
        "ConfigMap" => secrets::data(object),
        "Secret" => secrets::secret(object),
        "Ingress" => network::ingress(object),
        "NetworkPolicy" => network::policy(object),
        "Role" | "ClusterRole" => rbac::role(&kind.kind, object),
        "RoleBinding" | "ClusterRoleBinding" => rbac::binding(&kind.kind, object),
        "HorizontalPodAutoscaler" => scaling::autoscaler(object),
        "PodDisruptionBudget" => scaling::budget(object),
        "PersistentVolumeClaim" => claim_causes(object),
        "CustomResourceDefinition" => definition::causes(object),
        _ => Vec::new(),
    }
}

/// The immutable fields that have changed.
fn change_causes(kind: &Kind, live: &Value, object: &Value) -> Vec<Cause> {
    if kind.custom.is_some() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let mut fixed = |pointers: &[&str]| {
        for pointer in pointers {
            if differs(live, object, pointer) {
                let value = object.pointer(pointer).cloned().unwrap_or_default();
                causes.push(Cause::invalid(to_dotted(pointer), &value, IMMUTABLE));
            }
        }
    };
    match kind.kind.as_str() {
        "Deployment" | "DaemonSet" | "ReplicaSet" => fixed(&["/spec/selector"]),
        "Job" => {
            let indexed = text_at(object, "/spec/completionMode") == "Indexed";
            let suspended = live.pointer("/spec/suspend") == Some(&Value::Bool(true));
            fixed(if indexed { &["/spec/selector"] } else { &["/spec/completions", "/spec/selector"] });
            if !suspended {
                fixed(&["/spec/template"]);
            }
            let pods = if suspended { workloads::suspended_change(live, object) } else { None };
            causes.extend(pods);
            if indexed {
                causes.splice(0..0, workloads::completions_change(live, object));
            }
            for pointer in ["/spec/completionMode", "/spec/podFailurePolicy", "/spec/managedBy"] {
                if differs(live, object, pointer) {
                    let value = object.pointer(pointer).cloned().unwrap_or_default();
                    causes.push(Cause::invalid(to_dotted(pointer), &value, IMMUTABLE));
                }
            }
            // The server validates the whole Job twice.
            causes.splice(0..0, workloads::causes("Job", object));
        }
        "Secret" => {
            fixed(&["/type"]);
            causes.extend(immutable_causes(live, object));
        }
        "ConfigMap" => causes.extend(immutable_causes(live, object)),
        "RoleBinding" | "ClusterRoleBinding" if differs(live, object, "/roleRef") => {
            let role = |key: &str| text_at(object, &format!("/roleRef/{key}")).to_owned();
            let value = json!({"APIGroup": role("apiGroup"), "Kind": role("kind"), "Name": role("name")});
            causes.push(Cause::invalid("roleRef", &value, "cannot change roleRef"));
        }
        "Service" => causes.extend(services::change(live, object)),
        "StatefulSet" => causes.extend(workloads::stateful_set_change(live, object)),
        "PersistentVolumeClaim" => causes.extend(claim_change(live, object)),
        "StorageClass" => {
            fixed(&["/volumeBindingMode"]);
            for key in ["parameters", "provisioner", "reclaimPolicy"] {
                if differs(live, object, &format!("/{key}")) {
                    causes.push(Cause::forbidden(key, &format!("updates to {key} are forbidden.")));
                }
            }
        }
        "PriorityClass" => {
            if differs(live, object, "/value") {
                causes.push(Cause::forbidden("value", "may not be changed in an update."));
            }
            if differs(live, object, "/preemptionPolicy") {
                let value = object.get("preemptionPolicy").cloned().unwrap_or_default();
                causes.push(Cause::invalid("preemptionPolicy", &value, IMMUTABLE));
            }
        }
        "Pod" => causes.extend(pods::change(live, object)),
        _ => {}
    }
    causes
}

fn immutable_causes(live: &Value, object: &Value) -> Vec<Cause> {
    if live.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let why = "field is immutable when `immutable` is set";
    let mut causes = Vec::new();
    if object.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", why));
    }
    for key in ["data", "binaryData"] {
        if differs(live, object, &format!("/{key}")) {
            causes.push(Cause::forbidden(key, why));
        }
    }
    causes
}

/// The errors of a `PersistentVolumeClaim`.
fn claim_causes(object: &Value) -> Vec<Cause> {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let mut causes = Vec::new();
    let modes = list_at(object, "/spec/accessModes");
    if modes.is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let unknown = modes.iter().filter(|mode| !mode.as_str().is_some_and(|mode| MODES.contains(&mode)));
    causes.extend(unknown.map(|mode| Cause::unsupported("spec.accessModes", mode, &MODES)));
    let storage = object.pointer("/spec/resources/requests/storage");
    if storage.is_none_or(Value::is_null) {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
    causes
}

fn claim_change(live: &Value, object: &Value) -> Option<Cause> {
    // A class may be set once.
    let unnamed = live.pointer("/spec/storageClassName").is_none_or(Value::is_null);
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            if unnamed {
                spec.shift_remove("storageClassName");
            }
            spec.shift_remove("volumeAttributesClassName");
            spec.shift_remove("volumeName");
        }
        if text_at(live, "/status/phase") == "Bound"
            && let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut)
        {
            resources.shift_remove("requests");
        }
        spec
    };
    let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName \
               for bound claims";
    (!same(&fixed(live), &fixed(object))).then(|| Cause::forbidden("spec", why))
}

fn text_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether two objects differ at a pointer.
pub(super) fn differs(live: &Value, object: &Value, pointer: &str) -> bool {
    !same(live.pointer(pointer).unwrap_or(&Value::Null), object.pointer(pointer).unwrap_or(&Value::Null))
}

fn to_dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

fn list_at<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
