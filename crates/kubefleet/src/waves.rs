//! The waves in which a member cluster applies objects: in parallel within a wave, one wave after the other.
//!
//! Facts: the wave depends on the kind, and only kinds of built-in API groups have one. All other kinds come
//! last.

use std::collections::BTreeMap;

use federate_kubernetes::ObjectRef;

/// The wave of all kinds that are not listed.
pub(crate) const LAST_WAVE: u32 = 999;

/// The API groups whose resources have a wave of their own.
const GROUPS: [&str; 12] = [
    "",
    "networking.k8s.io",
    "scheduling.k8s.io",
    "policy",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "rbac.authorization.k8s.io",
    "apps",
    "autoscaling",
    "apiregistration.k8s.io",
    "admissionregistration.k8s.io",
    "batch",
];

/// The wave of an object.
pub(crate) fn find_wave(id: &ObjectRef) -> u32 {
    if !GROUPS.contains(&id.group()) {
        return LAST_WAVE;
    }
    match id.kind.as_str() {
        "Namespace" | "PriorityClass" => 0,
        "NetworkPolicy"
        | "ResourceQuota"
        | "LimitRange"
        | "PodSecurityPolicy"
        | "PodDisruptionBudget"
        | "ServiceAccount"
        | "Secret"
        | "ConfigMap"
        | "StorageClass"
        | "PersistentVolume"
        | "PersistentVolumeClaim"
        | "CustomResourceDefinition"
        | "IngressClass" => 1,
        "ClusterRole" | "Role" => 2,
        "ClusterRoleBinding" | "RoleBinding" => 3,
        "Service"
        | "DaemonSet"
        | "Pod"
        | "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "HorizontalPodAutoscaler"
        | "StatefulSet"
        | "Job"
        | "CronJob"
        | "Ingress" => 4,
        "APIService" | "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => 5,
        _ => LAST_WAVE,
    }
}

/// Groups objects by wave, in the order of the waves. Within a wave the order of the objects stays.
pub(crate) fn group_by_wave<'o>(
    objects: impl IntoIterator<Item = &'o ObjectRef>,
) -> BTreeMap<u32, Vec<&'o ObjectRef>> {
    let mut waves: BTreeMap<u32, Vec<&ObjectRef>> = BTreeMap::new();
    for object in objects {
        waves.entry(find_wave(object)).or_default().push(object);
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(api_version: &str, kind: &str) -> ObjectRef {
        ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: None, name: "n".into() }
    }

    #[test]
    fn what_others_need_comes_first() {
        let objects =
            [id("apps/v1", "Deployment"), id("v1", "Secret"), id("v1", "Namespace"), id("v1", "Service")];
        let waves: Vec<(u32, Vec<&str>)> = group_by_wave(&objects)
            .into_iter()
            .map(|(wave, objects)| (wave, objects.iter().map(|o| o.kind.as_str()).collect()))
            .collect();
        assert_eq!(waves, [(0, vec!["Namespace"]), (1, vec!["Secret"]), (4, vec!["Deployment", "Service"])]);
    }

    #[test]
    fn kinds_of_other_groups_come_last() {
        assert_eq!(find_wave(&id("serving.example/v1", "Service")), LAST_WAVE);
        assert_eq!(find_wave(&id("extensions/v1beta1", "Ingress")), LAST_WAVE);
        assert_eq!(find_wave(&id("v1", "Endpoints")), LAST_WAVE);
        assert_eq!(find_wave(&id("apps/v1", "ControllerRevision")), LAST_WAVE);
        assert_eq!(find_wave(&id("policy/v1", "PodDisruptionBudget")), 1);
    }
}
