//! The built-in resource interpreter: the replicas of a template, and what each one requests.
//!
//! Facts: only the kinds below have replicas, as far as the release interprets them; the API server fills in 1
//! where a workload names none.

use serde_json::Value;

use super::thirdparty;
use super::version::{Behaviour, ZeroReplicas};
use super::workload::{Requirements, Workload};
use federate_kubernetes::Object;

/// Interprets a template by the rules of a release, or says why its interpreter fails.
pub(super) fn workload(object: &Object, behaviour: &Behaviour) -> Result<Workload, String> {
    if !behaviour.interprets(&object.id.api_version, &object.id.kind) {
        return Ok(Workload::default());
    }
    let workload = newest(object, behaviour)?;
    if workload.replicas <= 0 && behaviour.zero_replicas == ZeroReplicas::Everywhere {
        return Ok(Workload::default());
    }
    Ok(workload)
}

fn newest(object: &Object, behaviour: &Behaviour) -> Result<Workload, String> {
    let integer = |field| object.at(&["spec", field]).and_then(Value::as_i64);
    let template = || object.at(&["spec", "template", "spec"]).and_then(Requirements::of_pod);
    Ok(match (object.id.api_version.as_str(), object.id.kind.as_str()) {
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
        _ => return Ok(thirdparty::workload(object, behaviour)?.unwrap_or_default()),
    })
}
