//! Objects of other tools on the hub that read decisions.
//!
//! Facts: Argo CD makes an Application for each cluster of a placement's decisions where a generator of an `ApplicationSet`
//! is `clusterDecisionResource`. Generators may be inside of others. ACM groups its `Subscription`s in an `Application` of SIG Apps,
//! which its console shows.

use serde_json::Value;

use federate_kubernetes::kinds::Scope;
use federate_kubernetes::object::pointer_text;
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::{DeclaredKind, Role};

/// The kind of an object that reads decisions, which then stays on the hub like those of the control plane.
pub(crate) fn declare_reader(object: &Object) -> Option<DeclaredKind> {
    let is_reader = match (object.id.group(), object.id.kind.as_str()) {
        ("argoproj.io", "ApplicationSet") => {
            object.value_at(&["spec", "generators"]).is_some_and(reads_decisions)
        }
        ("app.k8s.io", "Application") => {
            object.value_at(&["spec", "componentKinds"]).is_some_and(groups_subscriptions)
        }
        _ => false,
    };
    is_reader.then(|| DeclaredKind {
        group: object.id.group().to_owned(),
        kind: object.id.kind.clone(),
        role: Role::ControlPlane,
        scope: Some(Scope::Namespaced),
    })
}

/// What the hub makes of an object that reads decisions.
pub(crate) fn describe_reader(object: &ObjectRef) -> Option<&'static str> {
    match (object.group(), object.kind.as_str()) {
        ("argoproj.io", "ApplicationSet") => Some(
            "Argo CD makes an Application for each cluster of the decisions: an item `argocd: FOLDER` of `sources` in \
             federate.yaml builds them",
        ),
        (SUBSCRIPTION_GROUP, "Subscription" | "Channel") => Some(
            "the hub delivers what a Channel holds to the clusters of a Subscription, which is not rendered: wrap these manifests in a \
             ManifestWorkReplicaSet, or build them with an ApplicationSet",
        ),
        ("policy.open-cluster-management.io", _) => Some(
            "the policy controllers of ACM carry policies out in the clusters, and what these contain is not rendered",
        ),
        _ => None,
    }
}

/// The group of subscriptions and channels of ACM.
const SUBSCRIPTION_GROUP: &str = "apps.open-cluster-management.io";

/// Whether the kinds that an `Application` of SIG Apps groups are those by which ACM delivers.
fn groups_subscriptions(kinds: &Value) -> bool {
    let mut kinds = kinds.as_array().into_iter().flatten();
    kinds.any(|kind| pointer_text(kind, "/group") == SUBSCRIPTION_GROUP)
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

    #[test]
    fn an_application_stays_on_the_hub_where_it_groups_subscriptions() {
        let application = |group: &str| {
            let body = json!({"spec": {"componentKinds": [{"group": group, "kind": "Subscription"}]}});
            declare_reader(&Object::from_path("app.k8s.io/v1beta1", "Application", "shop/a", body)).is_some()
        };
        assert!(application("apps.open-cluster-management.io"));
        assert!(!application("apps"));
    }
}
