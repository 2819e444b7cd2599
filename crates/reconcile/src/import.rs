//! Whether a live object may be imported into a repo, by its owner.
//!
//! Facts: the objects that every cluster creates by itself (the Service `kubernetes`, each namespace's `ServiceAccount`
//! `default` and `ConfigMap` `kube-root-ca.crt`, leases, events, endpoints); the types of Secrets that
//! controllers keep; `kubernetes.io/bootstrapping` on the rules that API servers restore.

use super::ApplySet;
use super::ownership::{Owner, find_owner};
use federate_dialect::Dialects;
use federate_dialect::import::{check_importable, find_controller};
use federate_kubernetes::{Finding, Object, Severity};

/// The rules of an import.
#[derive(Clone, Copy, Debug)]
pub struct ImportSettings<'r> {
    /// Whether objects of other tools are imported, too.
    pub force: bool,
    /// The `ApplySet` of the managed objects.
    pub apply_set: &'r ApplySet,
    /// The control planes whose own objects are not imported.
    pub dialects: Dialects,
}

/// Checks whether a live object may be imported. `named` is whether the user named it. `Ok` may hold a warning; `Err`
/// says why it is not imported, as an error for a named object and a warning otherwise.
pub fn check_import(
    object: &Object,
    named: bool,
    rules: ImportSettings<'_>,
) -> Result<Option<Finding>, Finding> {
    let severity = if named { Severity::Error } else { Severity::Warning };
    refuse_import(object, rules).map_err(|finding| Finding { severity, pointer: String::new(), ..finding })
}

/// `Err` says why an object may not be imported; `Ok` may hold a warning.
fn refuse_import(object: &Object, rules: ImportSettings<'_>) -> Result<Option<Finding>, Finding> {
    if object.is_deleting() {
        return Err(Finding::error("being-deleted", object, format!("{} is being deleted", object.id)));
    }
    // Controllers come first: the objects that they create carry the labels of their own managers.
    if let Some(finding) = check_importable(object, rules.dialects) {
        return Err(finding);
    }
    if let Some(who) = made_by_cluster(object) {
        let message = format!("{} is made by {who} in every cluster by itself", object.id);
        return Err(Finding::error("made-by-cluster", object, message));
    }
    match find_owner(&object.body, &rules.apply_set.compute_id()) {
        Owner::Other(who) if rules.force => {
            let message = format!("{} belongs to {who}, which goes on changing it", object.id);
            Ok(Some(Finding::warning("owned", object, message)))
        }
        Owner::Other(who) => {
            let message = format!("{} belongs to {who}", object.id);
            let help = "remove it there first, or import it anyway with --force";
            Err(Finding::error("owned", object, message).with_help(help))
        }
        Owner::Managed | Owner::Unmanaged => Ok(None),
    }
}

/// The component that creates this object in every cluster.
fn made_by_cluster(object: &Object) -> Option<&'static str> {
    let (group, kind, name) = (object.id.group(), object.id.kind.as_str(), object.id.name.as_str());
    let namespace = object.id.namespace.as_deref().unwrap_or_default();
    match (group, kind) {
        ("", "Service") | ("" | "discovery.k8s.io", "Endpoints" | "EndpointSlice")
            if (namespace, name) == ("default", "kubernetes") =>
        {
            Some("the API server")
        }
        ("" | "discovery.k8s.io", "Endpoints" | "EndpointSlice") if has_service(object) => {
            Some("its Service's controller")
        }
        ("", "ServiceAccount") if name == "default" => Some("the controller of service accounts"),
        ("", "ConfigMap") if name == "kube-root-ca.crt" => Some("the controller of root certificates"),
        ("", "ConfigMap") if object.label("applyset.kubernetes.io/id").is_some() => {
            Some("the parent of an ApplySet")
        }
        ("", "Namespace") if name == "default" || name.starts_with("kube-") => Some("the API server"),
        ("", "Node" | "Event") | ("events.k8s.io", "Event") | ("coordination.k8s.io", "Lease") => {
            Some("its components")
        }
        ("", "Secret") => match object.text_at(&["type"]) {
            "kubernetes.io/service-account-token" => Some("the controller of tokens"),
            "bootstrap.kubernetes.io/token" => Some("kubeadm"),
            "helm.sh/release.v1" => Some("Helm"),
            _ => None,
        },
        ("scheduling.k8s.io", "PriorityClass") if name.starts_with("system-") => Some("the API server"),
        ("rbac.authorization.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
            if object.label("kubernetes.io/bootstrapping").is_some() =>
        {
            Some("the API server")
        }
        _ => None,
    }
}

/// Whether endpoints follow a Service's selector.
fn has_service(object: &Object) -> bool {
    find_controller(object).is_some()
        || object.annotation("endpoints.kubernetes.io/last-change-trigger-time").is_some()
        || object.label("endpointslice.kubernetes.io/managed-by").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(api_version: &str, kind: &str, mut body: Value, named: bool, force: bool) -> String {
        body["apiVersion"] = json!(api_version);
        body["kind"] = json!(kind);
        let object = Object::from_manifest(body, "m1");
        let apply_set = ApplySet { namespace: "default".to_owned(), name: "federate".to_owned() };
        match check_import(
            &object,
            named,
            ImportSettings { force, apply_set: &apply_set, dialects: federate_dialects::DIALECTS },
        ) {
            Ok(None) => "taken".to_owned(),
            Ok(Some(finding)) => format!("taken, {:?}: {}", finding.severity, finding.message),
            Err(finding) => format!("left, {:?}: {}", finding.severity, finding.message),
        }
    }

    #[test]
    fn an_owners_objects_are_left() {
        let owner = json!([{"kind": "Deployment", "name": "web", "controller": true}]);
        let set = json!({"metadata": {"name": "web-1", "namespace": "shop", "ownerReferences": owner}});
        let why = "ReplicaSet shop/web-1 is created by Deployment web, which would create it again in addition to the template";
        assert_eq!(checked("apps/v1", "ReplicaSet", set.clone(), true, true), format!("left, Error: {why}"));
        assert_eq!(checked("apps/v1", "ReplicaSet", set, false, false), format!("left, Warning: {why}"));
    }

    #[test]
    fn another_tools_objects_are_left_unless_forced() {
        let helm = json!({"metadata": {"name": "web", "namespace": "shop",
            "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "r"}}});
        let of = |named, force| checked("apps/v1", "Deployment", helm.clone(), named, force);
        assert_eq!(of(true, false), "left, Error: Deployment shop/web belongs to Helm (release r)");
        assert_eq!(of(false, false), "left, Warning: Deployment shop/web belongs to Helm (release r)");
        assert!(of(true, true).starts_with("taken, Warning: Deployment shop/web belongs to Helm"));
        let unmanaged = json!({"metadata": {"name": "web", "namespace": "shop"}});
        assert_eq!(checked("apps/v1", "Deployment", unmanaged, true, false), "taken");
    }

    #[test]
    fn what_every_cluster_has_is_left() {
        let left = |kind: &str, namespace: &str, name: &str| {
            let body = json!({"metadata": {"name": name, "namespace": namespace}, "type": "Opaque"});
            checked("v1", kind, body, true, false).starts_with("left")
        };
        assert!(left("Service", "default", "kubernetes") && !left("Service", "shop", "kubernetes"));
        assert!(left("ServiceAccount", "shop", "default") && !left("ServiceAccount", "shop", "web"));
        assert!(left("ConfigMap", "shop", "kube-root-ca.crt") && !left("ConfigMap", "shop", "web"));
        assert!(!left("Endpoints", "shop", "by-hand") && !left("Secret", "shop", "web"));
        let token = json!({"metadata": {"name": "t"}, "type": "kubernetes.io/service-account-token"});
        assert!(checked("v1", "Secret", token, true, false).contains("the controller of tokens"));
    }
}
