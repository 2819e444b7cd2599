//! The owner of a live object: federate, another tool, or none.
//!
//! Facts: the tracking annotation and label of Argo CD, the labels of Flux' controllers, those of Helm 3,
//! and KEP-3659 (ApplySets): the label `applyset.kubernetes.io/part-of`.

use serde_json::Value;

use federate_apiserver_model::managed_fields::{ManagedFieldsOperation, ManagerEntry};
use federate_apiserver_model::values::text_below;
use federate_kubernetes::object::value_at;

/// The field manager of all applies.
pub const FIELD_MANAGER: &str = "federate";

/// The label that names the `ApplySet` of an object.
pub const PART_OF_LABEL: &str = "applyset.kubernetes.io/part-of";

/// The field managers of tools whose fields are transferred when an object is adopted, besides those of people: otherwise a
/// field that they own would stay after it is no longer rendered. `kubectl` and `kubectl apply --server-side` share a name, and so do updates
/// and applies of Helm and Argo CD. Other managers stay co-owners.
const FORMER_OWNERS: [(&str, Option<ManagedFieldsOperation>); 6] = [
    ("kubectl-client-side-apply", None),
    ("kubectl", Some(ManagedFieldsOperation::Apply)),
    ("helm", None),
    (ARGO_CD_MANAGER, None),
    ("kustomize-controller", None),
    ("helm-controller", None),
];

/// The field manager of Argo CD.
const ARGO_CD_MANAGER: &str = "argocd-controller";

/// The owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// federate: the object belongs to the `ApplySet`, or federate has applied it before.
    Managed,
    /// Another tool, by name.
    Other(String),
    /// No tool claims it.
    Unmanaged,
}

/// The owner of a live object. `set` is the id of the `ApplySet`.
pub fn find_owner(live: &Value, set: &str) -> Owner {
    match apply_set_label(live) {
        Some(id) if id == set => return Owner::Managed,
        Some(id) => return Owner::Other(format!("the ApplySet {id}")),
        None => {}
    }
    if let Some(owner) = find_controller(live) {
        return Owner::Other(format!("{owner}, its controller"));
    }
    if let Some(id) = find_text(live, "/metadata/annotations/argocd.argoproj.io~1tracking-id") {
        return Owner::Other(format!("Argo CD (application {})", id.split(':').next().unwrap_or(id)));
    }
    for controller in ["kustomize", "helm"] {
        if let Some(name) = find_text(live, &format!("/metadata/labels/{controller}.toolkit.fluxcd.io~1name"))
        {
            return Owner::Other(format!("Flux ({controller} {name})"));
        }
    }
    let release = find_text(live, "/metadata/annotations/meta.helm.sh~1release-name");
    if find_text(live, "/metadata/labels/app.kubernetes.io~1managed-by") == Some("Helm")
        && let Some(release) = release
    {
        return Owner::Other(format!("Helm (release {release})"));
    }
    let managed = managed_field_entries(live).any(is_own);
    // The label alone is also written by Helm charts.
    if let Some(name) = find_text(live, "/metadata/labels/app.kubernetes.io~1instance")
        && managed_field_entries(live).any(|entry| has_value(entry, "manager", ARGO_CD_MANAGER))
        && !managed
    {
        return Owner::Other(format!("Argo CD (application {name})"));
    }
    if managed { Owner::Managed } else { Owner::Unmanaged }
}

/// The entries of `managedFields`. Which fields they list is not read: there are many.
pub(super) fn managed_field_entries(live: &Value) -> impl Iterator<Item = &Value> {
    value_at(live, &["metadata", "managedFields"]).and_then(Value::as_array).into_iter().flatten()
}

/// The id of the `ApplySet` that an object says to be a member of.
pub(super) fn apply_set_label(live: &Value) -> Option<&str> {
    value_at(live, &["metadata", "labels", PART_OF_LABEL])?.as_str()
}

/// Whether an entry of `managedFields` is that of an apply by federate.
pub(super) fn is_own(entry: &Value) -> bool {
    has_value(entry, "manager", FIELD_MANAGER) && has_value(entry, "operation", "Apply")
}

fn has_value(entry: &Value, key: &str, value: &str) -> bool {
    entry.get(key).is_some_and(|found| found == value)
}

fn find_text<'l>(live: &'l Value, pointer: &str) -> Option<&'l str> {
    live.pointer(pointer).and_then(Value::as_str)
}

/// The controller that owns an object.
fn find_controller(live: &Value) -> Option<String> {
    let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let owner = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    Some(format!("{} {}", text_below(owner, "kind"), text_below(owner, "name")))
}

/// Whether a live object is a member of the `ApplySet` because federate has applied it. The label alone does not
/// prove it: controllers copy labels, such as those of a Service to its `EndpointSlice`s.
pub fn is_member(live: &Value, set: &str) -> bool {
    if apply_set_label(live) != Some(set) {
        return false;
    }
    // A dump may lack `managedFields`.
    let unknown = managed_field_entries(live).next().is_none();
    if unknown { find_controller(live).is_none() } else { managed_field_entries(live).any(is_own) }
}

/// Whether an entry is that of a tool whose fields are transferred when an object is adopted.
pub(super) fn is_of_another_tool(entry: &ManagerEntry) -> bool {
    FORMER_OWNERS.iter().any(|(manager, operation)| {
        entry.manager == *manager && operation.is_none_or(|operation| operation == entry.operation)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_tools_are_named() {
        let with = |metadata: Value| find_owner(&json!({"metadata": metadata}), "applyset-us");
        let other = |metadata: Value| match with(metadata) {
            Owner::Other(who) => who,
            owner => format!("{owner:?}"),
        };
        assert_eq!(with(json!({"labels": {PART_OF_LABEL: "applyset-us"}})), Owner::Managed);
        assert_eq!(other(json!({"labels": {PART_OF_LABEL: "applyset-x"}})), "the ApplySet applyset-x");
        let argo = json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:a/b"}});
        assert_eq!(other(argo), "Argo CD (application shop)");
        assert_eq!(other(json!({"labels": {"helm.toolkit.fluxcd.io/name": "web"}})), "Flux (helm web)");
        let helm = json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "r"}});
        assert_eq!(other(helm), "Helm (release r)");
        assert_eq!(with(json!({"labels": {"app": "web"}})), Owner::Unmanaged);
        let made = json!({"ownerReferences": [{"kind": "Certificate", "name": "web", "controller": true}]});
        assert_eq!(other(made), "Certificate web, its controller");
        let tracked = |manager: &str| {
            json!({"labels": {"app.kubernetes.io/instance": "shop"}, "managedFields": [{"manager": manager,
                "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]})
        };
        assert_eq!(other(tracked(ARGO_CD_MANAGER)), "Argo CD (application shop)");
        assert_eq!(with(tracked("helm")), Owner::Unmanaged);
    }

    #[test]
    fn copied_labels_do_not_make_members() {
        let object = |metadata: Value| {
            let mut metadata = metadata;
            metadata["labels"] = json!({PART_OF_LABEL: "applyset-us"});
            json!({"metadata": metadata})
        };
        let by = |manager: &str, operation: &str| {
            object(json!({"managedFields": [{"manager": manager, "operation": operation, "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]}))
        };
        assert!(is_member(&by(FIELD_MANAGER, "Apply"), "applyset-us"));
        assert!(!is_member(&by(FIELD_MANAGER, "Apply"), "applyset-them"));
        assert!(!is_member(&by("kube-controller-manager", "Update"), "applyset-us"));
        assert!(is_member(&object(json!({})), "applyset-us"));
        let made = json!({"ownerReferences": [{"kind": "Service", "name": "a", "controller": true}]});
        assert!(!is_member(&object(made), "applyset-us"));
    }
}
