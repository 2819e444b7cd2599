//! Validation: names and labels, ranges of values, immutable fields.
//!
//! Facts: the validation of Kubernetes 1.36, as far as objects in a repository are likely to break it. Other rules are
//! not checked.

use serde_json::{Value, json};

use super::failure::{ApiError, StatusCause};
use super::kinds::ResourceKind;
use super::typed::are_equal;
use super::values::{has_flag, integer_at, list_at, present_at, text_at, text_below};

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
pub(super) fn validate_identity(kind: &ResourceKind, live: &Value, object: &Value) -> Result<(), ApiError> {
    let name = text_at(live, "/metadata/name");
    let given = text_at(object, "/metadata/resourceVersion");
    if !given.is_empty() && given != text_at(live, "/metadata/resourceVersion") {
        return Err(ApiError::stale_version(kind, name));
    }
    let uid = text_at(object, "/metadata/uid");
    if !uid.is_empty() && uid != text_at(live, "/metadata/uid") {
        // The server checks it twice.
        let cause = StatusCause::invalid("metadata.uid", &json!(uid), IMMUTABLE);
        return Err(ApiError::invalid_object(kind, name, &[cause.clone(), cause]));
    }
    Ok(())
}

/// Validates a new object.
pub(super) fn validate_create(kind: &ResourceKind, object: &Value) -> Result<(), ApiError> {
    let mut causes = metadata::find_causes(kind, object);
    causes.extend(content_causes(kind, object, None));
    refuse_invalid(kind, object, &causes)
}

/// Validates the update of a live object.
pub(super) fn validate_update(
    kind: &ResourceKind,
    live: &Value,
    object: &Value,
    subresource: Option<&str>,
) -> Result<(), ApiError> {
    let mut causes = metadata::find_change_causes(live, object);
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

fn refuse_invalid(kind: &ResourceKind, object: &Value, causes: &[StatusCause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid_object(kind, text_at(object, "/metadata/name"), causes))
}

const IMMUTABLE: &str = "field is immutable";

fn content_causes(kind: &ResourceKind, object: &Value, live: Option<&Value>) -> Vec<StatusCause> {
    if let Some(custom) = &kind.custom {
        return custom::find_causes(custom, object, live);
    }
    match kind.kind.as_str() {
        "Service" => services::find_causes(object),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" | "CronJob" => {
            workloads::find_causes(&kind.kind, object)
        }
        "Pod" => pods::find_causes(object.get("spec").unwrap_or(&Value::Null), "spec"),
        "ConfigMap" => secrets::data_causes(object),
        "Secret" => secrets::secret_causes(object),
        "Ingress" => network::ingress_causes(object),
        "NetworkPolicy" => network::policy_causes(object),
        "Role" | "ClusterRole" => rbac::role_causes(&kind.kind, object),
        "RoleBinding" | "ClusterRoleBinding" => rbac::binding_causes(&kind.kind, object),
        "HorizontalPodAutoscaler" => scaling::autoscaler_causes(object),
        "PodDisruptionBudget" => scaling::budget_causes(object),
        "PersistentVolumeClaim" => claim_causes(object),
        "CustomResourceDefinition" => definition::find_causes(object),
        _ => Vec::new(),
    }
}

/// The immutable fields that have changed.
fn change_causes(kind: &ResourceKind, live: &Value, object: &Value) -> Vec<StatusCause> {
    if kind.custom.is_some() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    match kind.kind.as_str() {
        "Deployment" | "DaemonSet" | "ReplicaSet" => {
            causes.extend(fixed_field_causes(live, object, &["/spec/selector"]));
        }
        "Job" => {
            let indexed = text_at(object, "/spec/completionMode") == "Indexed";
            // The server validates the whole Job twice.
            causes.extend(workloads::find_causes("Job", object));
            if indexed {
                causes.extend(workloads::completions_change(live, object));
            } else {
                causes.extend(fixed_field_causes(live, object, &["/spec/completions"]));
            }
            causes.extend(fixed_field_causes(live, object, &["/spec/selector"]));
            if live.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
                causes.extend(workloads::suspended_change(live, object));
            } else {
                causes.extend(fixed_field_causes(live, object, &["/spec/template"]));
            }
            let fixed = ["/spec/completionMode", "/spec/podFailurePolicy", "/spec/managedBy"];
            causes.extend(fixed_field_causes(live, object, &fixed));
        }
        "Secret" => {
            causes.extend(fixed_field_causes(live, object, &["/type"]));
            causes.extend(immutable_causes(live, object));
        }
        "ConfigMap" => causes.extend(immutable_causes(live, object)),
        "RoleBinding" | "ClusterRoleBinding" if differs_at(live, object, "/roleRef") => {
            let value = json!({
                "APIGroup": text_at(object, "/roleRef/apiGroup"),
                "Kind": text_at(object, "/roleRef/kind"),
                "Name": text_at(object, "/roleRef/name"),
            });
            causes.push(StatusCause::invalid("roleRef", &value, "cannot change roleRef"));
        }
        "Service" => causes.extend(services::find_change_causes(live, object)),
        "StatefulSet" => causes.extend(workloads::stateful_set_change(live, object)),
        "PersistentVolumeClaim" => causes.extend(claim_change(live, object)),
        "StorageClass" => {
            causes.extend(fixed_field_causes(live, object, &["/volumeBindingMode"]));
            for key in ["parameters", "provisioner", "reclaimPolicy"] {
                if differs_at(live, object, &format!("/{key}")) {
                    causes.push(StatusCause::forbidden(key, &format!("updates to {key} are forbidden.")));
                }
            }
        }
        "PriorityClass" => {
            if differs_at(live, object, "/value") {
                causes.push(StatusCause::forbidden("value", "may not be changed in an update."));
            }
            causes.extend(fixed_field_causes(live, object, &["/preemptionPolicy"]));
        }
        "Pod" => causes.extend(pods::find_change_cause(live, object)),
        _ => {}
    }
    causes
}

/// The changes of fields that are immutable.
fn fixed_field_causes(live: &Value, object: &Value, pointers: &[&str]) -> Vec<StatusCause> {
    let changed = pointers.iter().filter(|pointer| differs_at(live, object, pointer));
    changed
        .map(|pointer| {
            let value = object.pointer(pointer).unwrap_or(&Value::Null);
            StatusCause::invalid(to_dotted(pointer), value, IMMUTABLE)
        })
        .collect()
}

/// The changes of a ConfigMap or Secret that is immutable.
fn immutable_causes(live: &Value, object: &Value) -> Vec<StatusCause> {
    if !has_flag(live, "immutable") {
        return Vec::new();
    }
    let why = "field is immutable when `immutable` is set";
    let mut causes = Vec::new();
    if !has_flag(object, "immutable") {
        causes.push(StatusCause::forbidden("immutable", why));
    }
    for key in ["data", "binaryData"] {
        if differs_at(live, object, &format!("/{key}")) {
            causes.push(StatusCause::forbidden(key, why));
        }
    }
    causes
}

/// The errors of a `PersistentVolumeClaim`.
fn claim_causes(object: &Value) -> Vec<StatusCause> {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let mut causes = Vec::new();
    let modes = list_at(object, "/spec/accessModes");
    if modes.is_empty() {
        causes.push(StatusCause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let unknown = modes.iter().filter(|mode| !mode.as_str().is_some_and(|mode| MODES.contains(&mode)));
    causes.extend(unknown.map(|mode| StatusCause::unsupported("spec.accessModes", mode, &MODES)));
    if present_at(object, "/spec/resources/requests/storage").is_none() {
        causes.push(StatusCause::required("spec.resources[storage]", ""));
    }
    causes
}

fn claim_change(live: &Value, object: &Value) -> Option<StatusCause> {
    let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName \
               for bound claims";
    (!are_equal(&fixed_claim_spec(live, live), &fixed_claim_spec(live, object)))
        .then(|| StatusCause::forbidden("spec", why))
}

/// The spec of a `PersistentVolumeClaim` without the fields that may change in an update of the live one.
fn fixed_claim_spec(live: &Value, object: &Value) -> Value {
    let mut spec = object.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        // A class may be set once.
        if present_at(live, "/spec/storageClassName").is_none() {
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
}

/// Whether two objects differ at a pointer.
pub(super) fn differs_at(live: &Value, object: &Value, pointer: &str) -> bool {
    !are_equal(live.pointer(pointer).unwrap_or(&Value::Null), object.pointer(pointer).unwrap_or(&Value::Null))
}

fn to_dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
