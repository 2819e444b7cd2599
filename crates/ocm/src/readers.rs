//! Objects of other tools on the hub that read decisions.
//!
//! Facts: Argo CD makes an Application for each cluster of a placement's decisions where a generator of an `ApplicationSet`
//! is `clusterDecisionResource`. Generators may be inside of others.

use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::kinds::Scope;
use federate_repo::{DeclaredKind, Role};

/// The kind of an object that reads decisions, which then stays on the hub like those of the control plane.
pub(crate) fn declare_reader(object: &Object) -> Option<DeclaredKind> {
    let is_reader = object.id.kind == "ApplicationSet"
        && object.id.group() == "argoproj.io"
        && object.value_at(&["spec", "generators"]).is_some_and(reads_decisions);
    is_reader.then(|| DeclaredKind {
        group: object.id.group().to_owned(),
        kind: object.id.kind.clone(),
        role: Role::ControlPlane,
        scope: Some(Scope::Namespaced),
    })
}

/// Whether a list of generators, or one inside of another, reads decisions.
fn reads_decisions(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(reads_decisions),
        Value::Object(map) => {
            map.iter().any(|(key, value)| key == "clusterDecisionResource" || reads_decisions(value))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_application_set_reads_decisions_by_its_generators() {
        let set = |generators: Value| {
            let body = json!({"spec": {"generators": generators}});
            declare_reader(&Object::from_path("argoproj.io/v1alpha1", "ApplicationSet", "argocd/a", body))
                .is_some()
        };
        assert!(set(json!([{"clusterDecisionResource": {}}])));
        assert!(set(json!([{"matrix": {"generators": [{"git": {}}, {"clusterDecisionResource": {}}]}}])));
        assert!(!set(json!([{"clusters": {}}])));
    }
}
