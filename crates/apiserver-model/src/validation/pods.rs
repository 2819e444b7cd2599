//! Pods and their templates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::failure::StatusCause;
use super::super::typed::are_equal;
use super::{list_at, text_at};

/// The errors of the spec of a pod at `path`.
pub(super) fn find_causes(spec: &Value, path: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let volumes: BTreeSet<&str> = list_at(spec, "/volumes").iter().map(|v| text_at(v, "/name")).collect();
    if list_at(spec, "/containers").is_empty() {
        causes.push(StatusCause::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for kind in ["containers", "initContainers"] {
        for (place, container) in list_at(spec, &format!("/{kind}")).iter().enumerate() {
            let at = format!("{path}.{kind}[{place}]");
            let name = text_at(container, "/name");
            if name.is_empty() {
                causes.push(StatusCause::required(format!("{at}.name"), ""));
            } else if !names.insert(name) {
                causes.push(StatusCause::duplicate(format!("{at}.name"), &json!(name)));
            }
            if text_at(container, "/image").is_empty() {
                causes.push(StatusCause::required(format!("{at}.image"), ""));
            }
            causes.extend(port_name_causes(container, &at));
            for (place, mount) in list_at(container, "/volumeMounts").iter().enumerate() {
                let name = text_at(mount, "/name");
                // Volumes of a StatefulSet may come from its claim templates.
                if !volumes.contains(name) && spec.get("claims").is_none() {
                    let message = format!("Not found: {name:?}");
                    causes.push(StatusCause::new(
                        "FieldValueNotFound",
                        format!("{at}.volumeMounts[{place}].name"),
                        message,
                    ));
                }
            }
        }
    }
    causes
}

/// The names that several ports of a container have. An apply may leave the port of another manager beside its own.
fn port_name_causes(container: &Value, at: &str) -> Vec<StatusCause> {
    let mut names = BTreeSet::new();
    let mut causes = Vec::new();
    for (place, port) in list_at(container, "/ports").iter().enumerate() {
        let name = text_at(port, "/name");
        if !name.is_empty() && !names.insert(name) {
            causes.push(StatusCause::duplicate(format!("{at}.ports[{place}].name"), &json!(name)));
        }
    }
    causes
}

/// The errors of a change of a pod.
pub(super) fn find_change_cause(live: &Value, object: &Value) -> Option<StatusCause> {
    let why = "pod updates may not change fields other than `spec.containers[*].image`, \
               `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to \
               existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
               previously negative)";
    (!are_equal(&fixed_spec(live), &fixed_spec(object))).then(|| StatusCause::forbidden("spec", why))
}

/// The spec of a pod without the fields that may change.
fn fixed_spec(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    for kind in ["containers", "initContainers"] {
        for container in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = Value::Null;
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        for key in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
            spec.shift_remove(key);
        }
    }
    spec
}
