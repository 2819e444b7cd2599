//! Objects that stay on the hub although they are selected: those that Kubernetes creates in every cluster, and
//! those that are being deleted.
//!
//! Facts: the control plane's defaults. Core Events can be selected by name, but are not selected with their
//! namespace.

use federate_kubernetes::Object;

use super::hub::{self, HubIndex};
use crate::version::{KubeFleetBehaviour, VolumeClaims};

/// Whether a namespace is reserved.
pub(super) fn is_reserved(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-") || namespace.starts_with("fleet-")
}

/// Why an object stays on the hub, whatever selects it, by its kind, name and namespace.
pub(crate) fn stays_on_hub(object: &Object, behaviour: &KubeFleetBehaviour) -> Option<&'static str> {
    let id = &object.id;
    let of_cluster = match (id.api_version.as_str(), id.kind.as_str()) {
        ("v1", "ConfigMap") => id.name == "kube-root-ca.crt",
        ("v1", "ServiceAccount") => id.name == "default",
        ("v1", "Secret") => object.text_at(&["type"]) == "kubernetes.io/service-account-token",
        _ => false,
    };
    if of_cluster {
        return Some("every cluster creates such an object itself");
    }
    if hub::is_skipped(id.group(), &id.kind, behaviour) {
        return Some("its kind stays on the hub");
    }
    let namespace = match (id.api_version.as_str(), id.kind.as_str()) {
        ("v1", "Namespace") => Some(&id.name),
        _ => id.namespace.as_ref(),
    };
    namespace.filter(|name| is_reserved(name)).map(|_| "its namespace is reserved")
}

/// Whether an object is selected with its namespace.
pub(super) fn is_selected_with_namespace(hub: &HubIndex<'_>, object: &Object) -> bool {
    let kind = (object.id.group(), object.id.kind.as_str());
    !hub::is_skipped(kind.0, kind.1, &hub.behaviour) && kind != ("", "Event") && leaves_hub(hub, object)
}

/// Whether a selected object leaves the hub.
pub(super) fn leaves_hub(hub: &HubIndex<'_>, object: &Object) -> bool {
    let stays = object.is_deleting()
        || match (object.id.api_version.as_str(), object.id.kind.as_str()) {
            ("apps/v1", "ReplicaSet" | "ControllerRevision") => {
                hub.behaviour.owned_sets_stay && has_owner(object)
            }
            ("v1", "PersistentVolumeClaim") => hub.behaviour.volume_claims == VolumeClaims::Stay,
            ("v1", "ConfigMap") => object.id.name == "kube-root-ca.crt",
            ("v1", "ServiceAccount") => object.id.name == "default",
            ("v1", "Secret") => object.text_at(&["type"]) == "kubernetes.io/service-account-token",
            ("v1", "Endpoints") => hub.has_service(&object.id),
            ("discovery.k8s.io/v1", "EndpointSlice") => {
                object.label("endpointslice.kubernetes.io/managed-by").is_some()
            }
            _ => false,
        };
    !stays
}

fn has_owner(object: &Object) -> bool {
    let owners = object.value_at(&["metadata", "ownerReferences"]).and_then(|owners| owners.as_array());
    owners.is_some_and(|owners| !owners.is_empty())
}
