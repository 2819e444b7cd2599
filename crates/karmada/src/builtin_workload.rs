//! The built-in resource interpreter: the replicas of a template, and what each one requests.
//!
//! Facts: only the kinds below have replicas, as far as the release interprets them; the API server fills in 1
//! where a workload names none.

use serde_json::Value;

use super::thirdparty;
use super::version::KarmadaBehaviour;
use super::workload::{Requirements, Workload};
use federate_kubernetes::Object;

/// Why a built-in interpreter fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BuiltInFailure {
    /// The kind of failure, by the names that failures of scripts have.
    pub(super) category: &'static str,
    /// What is wrong with the object.
    pub(super) why: String,
}

impl BuiltInFailure {
    /// A script of the control plane that fails while it runs.
    pub(super) fn runtime_error(why: impl Into<String>) -> Self {
        Self { category: "runtime", why: why.into() }
    }

    /// A result of a script of the control plane that has the wrong type.
    pub(super) fn wrong_type(why: impl Into<String>) -> Self {
        Self { category: "wrong-type", why: why.into() }
    }

    /// A reference that names nothing.
    pub(super) fn invalid_dependency(why: impl Into<String>) -> Self {
        Self { category: "invalid-dependency", why: why.into() }
    }
}

/// Interprets a template by the rules of a release.
pub(super) fn interpret_workload(
    object: &Object,
    behaviour: &KarmadaBehaviour,
) -> Result<Workload, BuiltInFailure> {
    if !behaviour.has_interpreter(&object.id.api_version, &object.id.kind) {
        return Ok(Workload::default());
    }
    interpret_known_kind(object, behaviour)
}

fn interpret_known_kind(object: &Object, behaviour: &KarmadaBehaviour) -> Result<Workload, BuiltInFailure> {
    let integer = |field| object.value_at(&["spec", field]).and_then(Value::as_i64);
    let template = || object.value_at(&["spec", "template", "spec"]).and_then(Requirements::of_pod);
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
            Workload { replicas: 1, requirements: object.value_at(&["spec"]).and_then(Requirements::of_pod) }
        }
        _ => return Ok(thirdparty::interpret_thirdparty(object, behaviour)?.unwrap_or_default()),
    })
}
