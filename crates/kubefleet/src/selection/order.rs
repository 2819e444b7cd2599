//! The order of the objects in a placement's list, which is not the order in which members apply them.
//!
//! Facts: by rank of the kind, whatever its group; then by API version; then by namespace and name.

use std::cmp::Ordering;

use federate_kubernetes::ObjectRef;

const RANKS: [&str; 32] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Compares two objects.
pub(super) fn compare_objects(a: &ObjectRef, b: &ObjectRef) -> Ordering {
    let (rank_a, rank_b) = (kind_rank(a), kind_rank(b));
    rank_a.cmp(&rank_b).then_with(|| order_within_rank(a, rank_a).cmp(&order_within_rank(b, rank_b)))
}

fn kind_rank(id: &ObjectRef) -> usize {
    RANKS.iter().position(|kind| *kind == id.kind).unwrap_or(RANKS.len())
}

/// The text that orders objects of one rank. It includes kinds without a rank of their own.
fn order_within_rank(id: &ObjectRef, rank: usize) -> (String, String) {
    let version = if rank < RANKS.len() {
        id.api_version.clone()
    } else {
        // Only here, a core version has an empty group before a slash.
        let slash = if id.api_version.contains('/') { "" } else { "/" };
        format!("{slash}{}, Kind={}", id.api_version, id.kind)
    };
    (version, format!("{}/{}", id.namespace.as_deref().unwrap_or_default(), id.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace, name: name.into() }
    }

    #[test]
    fn kinds_then_versions_then_names() {
        let sorted = [
            id("v1", "Namespace", "", "z"),
            id("extensions/v1beta1", "NetworkPolicy", "z", "z"),
            id("networking.k8s.io/v1", "NetworkPolicy", "a", "a"),
            // `-` sorts before `/`.
            id("v1", "Secret", "a-b", "a"),
            id("v1", "Secret", "a", "a"),
            id("serving.example/v1", "Service", "a", "a"),
            id("v1", "Service", "a", "a"),
            // Unknown kinds come last; those of the core group are the first among them.
            id("v1", "Endpoints", "a", "a"),
            id("example.com/v1", "Gadget", "b", "a"),
            id("example.com/v1", "Widget", "a", "a"),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare_objects(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
