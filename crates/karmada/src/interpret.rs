//! What the resource interpreter says of a template: how many replicas it wants, and what each asks
//! for.
//!
//! Facts: only the kinds below have replicas, as far as the release interprets them; the API server fills in 1
//! where a workload names none.

use serde_json::Value;

use super::thirdparty;
use super::version::{Behaviour, ZeroReplicas};
use super::workload::{Requirements, Workload};
use federate_kubernetes::Object;

/// Interprets a template as a release does.
pub(super) fn workload(object: &Object, behaviour: &Behaviour) -> Workload {
    if !behaviour.interprets(&object.id.api_version, &object.id.kind) {
        return Workload::default();
    }
    let workload = today(object);
    if workload.replicas <= 0 && behaviour.zero_replicas == ZeroReplicas::Everywhere {
        return Workload::default();
    }
    workload
}

fn today(object: &Object) -> Workload {
    let integer = |field| object.at(&["spec", field]).and_then(Value::as_i64);
    let template = || object.at(&["spec", "template", "spec"]).and_then(Requirements::of_pod);
    match (object.id.api_version.as_str(), object.id.kind.as_str()) {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            Workload { replicas: integer("replicas").unwrap_or(1), requirements: template() }
        }
        ("batch/v1", "Job") => {
            let parallelism = integer("parallelism").unwrap_or(1);
            let replicas = integer("completions").map_or(parallelism, |c| c.min(parallelism));
            Workload { replicas, requirements: template() }
        }
        ("v1", "Pod") => {
            Workload { replicas: 1, requirements: object.at(&["spec"]).and_then(Requirements::of_pod) }
        }
        _ => thirdparty::workload(object).unwrap_or_default(),
    }
}
