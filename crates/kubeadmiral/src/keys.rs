//! The labels and annotations of templates for `KubeAdmiral`, and those that `KubeAdmiral` writes to objects.

use serde_json::Value;

use federate_kubernetes::{Object, pointer};

/// Labels that name a template's policies.
pub(super) const POLICY: &str = "kubeadmiral.io/propagation-policy-name";
pub(super) const CLUSTER_POLICY: &str = "kubeadmiral.io/cluster-propagation-policy-name";
pub(super) const OVERRIDE: &str = "kubeadmiral.io/override-policy-name";
pub(super) const CLUSTER_OVERRIDE: &str = "kubeadmiral.io/cluster-override-policy-name";

/// Every label that stays with the control plane.
pub(super) const MOVED_LABELS: [&str; 4] = [POLICY, CLUSTER_POLICY, OVERRIDE, CLUSTER_OVERRIDE];

/// Annotations that replace a policy's values.
pub(super) const SCHEDULING_MODE: &str = "kubeadmiral.io/scheduling-mode";
pub(super) const STICKY_CLUSTER: &str = "kubeadmiral.io/sticky-cluster";
pub(super) const TOLERATIONS: &str = "kubeadmiral.io/tolerations";
pub(super) const PLACEMENTS: &str = "kubeadmiral.io/placements";
pub(super) const CLUSTER_SELECTOR: &str = "kubeadmiral.io/clusterSelector";
pub(super) const AFFINITY: &str = "kubeadmiral.io/affinity";
pub(super) const MAX_CLUSTERS: &str = "kubeadmiral.io/maxClusters";

/// Annotations that change how an object is treated.
pub(super) const NO_SCHEDULING: &str = "kubeadmiral.io/no-scheduling";
pub(super) const NO_FEDERATED: &str = "kubeadmiral.io/no-federated-resource";
pub(super) const FOLLOWERS: &str = "kubeadmiral.io/followers";
pub(super) const FOLLOWS: &str = "kubeadmiral.io/follows-object";
pub(super) const DISABLE_FOLLOWING: &str = "kubeadmiral.io/disable-following";
pub(super) const MIGRATION: &str = "kubeadmiral.io/migration-configuration";
pub(super) const CONFLICTS: &str = "kubeadmiral.io/conflict-resolution";
pub(super) const DRY_RUN: &str = "kubeadmiral.io/dry-run";

/// Every annotation that stays with the control plane.
pub(super) const MOVED_ANNOTATIONS: [&str; 18] = [
    "kubeadmiral.io/retain-replicas",
    SCHEDULING_MODE,
    STICKY_CLUSTER,
    "kubeadmiral.io/no-auto-propagation",
    "kubeadmiral.io/orphan",
    CONFLICTS,
    "kubeadmiral.io/clusters-to-adopt",
    TOLERATIONS,
    PLACEMENTS,
    CLUSTER_SELECTOR,
    AFFINITY,
    MAX_CLUSTERS,
    NO_SCHEDULING,
    FOLLOWS,
    FOLLOWERS,
    DISABLE_FOLLOWING,
    MIGRATION,
    DRY_RUN,
];

/// The labels that are read, and the annotation that is read and sent.
const OTHER_READ_KEYS: [&str; 5] = [POLICY, CLUSTER_POLICY, OVERRIDE, CLUSTER_OVERRIDE, NO_FEDERATED];

/// Every label and annotation of templates that is read.
pub(super) const READ_KEYS: [&str; OTHER_READ_KEYS.len() + MOVED_ANNOTATIONS.len()] = {
    let mut all = [""; OTHER_READ_KEYS.len() + MOVED_ANNOTATIONS.len()];
    let (others, moved) = all.split_at_mut(OTHER_READ_KEYS.len());
    others.copy_from_slice(&OTHER_READ_KEYS);
    moved.copy_from_slice(&MOVED_ANNOTATIONS);
    all
};

/// Annotations that are neither sent nor kept.
pub(super) const DROPPED_ANNOTATIONS: [&str; 3] =
    ["kubeadmiral.io/latest-replicaset-digests", APPLIED_MIGRATION, SCHEDULING];

/// The annotation with estimates of unschedulable replicas, by another controller. It is kept in the scheduler state of
/// the placement.
pub(super) const AUTO_MIGRATION_INFO: &str = "kubeadmiral.io/auto-migration-info";

/// The annotation with the migration configuration in force. The scheduler writes it from the valid
/// configuration.
pub(super) const APPLIED_MIGRATION: &str = "kubeadmiral.io/applied-migration-configuration";

/// Annotations that the scheduler writes to a federated object, some of them for other controllers.
pub(super) const TRIGGERS: &str = "kubeadmiral.io/scheduling-triggers";
pub(super) const DEFERRED: &str = "kubeadmiral.io/scheduling-deferred-reasons";
pub(super) const SCHEDULING: &str = "kubeadmiral.io/scheduling";
pub(super) const ENABLE_FOLLOWERS: &str = "internal.kubeadmiral.io/enable-follower-scheduling";
pub(super) const THRESHOLD: &str = "internal.kubeadmiral.io/pod-unschedulable-threshold";

/// Labels and annotations of every object that is sent.
pub(super) const MANAGED: &str = "kubeadmiral.io/managed";
pub(super) const SOURCE_GENERATION: &str = "kubeadmiral.io/source-generation";
pub(super) const SENT_LABELS: &str = "kubeadmiral.io/propagated-label-keys";
pub(super) const SENT_ANNOTATIONS: &str = "kubeadmiral.io/propagated-annotation-keys";

/// The annotation of a `FederatedTypeConfig` whose kind scales others, so that it follows them.
pub(super) const SCALE_TARGET: &str = "kubeadmiral.io/scale-target-ref-path";

/// The annotation of an autoscaler that stays on the control plane.
pub(super) const CENTRAL_HPA: &str = "kubeadmiral.io/centralized-hpa-enabled";

/// Whether a template has labels or annotations for `KubeAdmiral`.
pub(super) fn has_own_keys(template: &Object) -> bool {
    has_any_key(template, "labels", &MOVED_LABELS) || has_any_key(template, "annotations", &MOVED_ANNOTATIONS)
}

fn has_any_key(template: &Object, field: &str, keys: &[&str]) -> bool {
    let values = template.value_at(&["metadata", field]).and_then(Value::as_object);
    values.is_some_and(|values| {
        values.iter().any(|(key, value)| value.is_string() && keys.contains(&key.as_str()))
    })
}

/// The JSON pointer to an annotation.
pub(super) fn annotation_pointer(key: &str) -> String {
    format!("/metadata/annotations/{}", pointer::escape(key))
}
