//! The path to a workload's pod spec.

use serde_json::Value;

use federate_kubernetes::{Object, ObjectRef};

/// The path to the pod spec of a kind; `None` for kinds for which `KubeAdmiral` does not know pods.
pub(super) fn pod_spec_path(id: &ObjectRef) -> Option<&'static [&'static str]> {
    match (id.group(), id.kind.as_str()) {
        ("", "Pod") => Some(&["spec"]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
            Some(&["spec", "template", "spec"])
        }
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

/// The object's pod spec, if there is one.
pub(super) fn find_pod_spec(object: &Object) -> Option<&Value> {
    object.value_at(pod_spec_path(&object.id)?).filter(|spec| spec.is_object())
}
