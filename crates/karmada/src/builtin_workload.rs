//! The built-in resource interpreter: the replicas of a template, and what each one requests.
//!
//! Facts: only the kinds below have replicas, as far as the release interprets them; the API server fills in 1
//! where a workload names none.

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
    Ok(match (object.id.api_version.as_str(), object.id.kind.as_str()) {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") => Workload {
            replicas: read_count(object, "replicas").unwrap_or(1),
            requirements: read_pod_template(object),
        },
        ("batch/v1", "Job") => {
            let parallelism = read_count(object, "parallelism").unwrap_or(1);
            let replicas = read_count(object, "completions").map_or(parallelism, |c| c.min(parallelism));
            Workload { replicas, requirements: read_pod_template(object) }
        }
        ("v1", "Pod") => Workload {
            replicas: 1,
            requirements: object.value_at(&["spec"]).and_then(Requirements::from_pod),
        },
        _ => return Ok(thirdparty::interpret_thirdparty(object, behaviour)?.unwrap_or_default()),
    })
}

fn read_count(object: &Object, field: &str) -> Option<i64> {
    object.value_at(&["spec", field])?.as_i64()
}

fn read_pod_template(object: &Object) -> Option<Requirements> {
    Requirements::from_pod(object.value_at(&["spec", "template", "spec"])?)
}
