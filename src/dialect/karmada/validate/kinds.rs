//! The fields of Karmada's kinds, their types and enumerations.

use crate::k8s::schema::Type::{Any, Boolean, Integer, List, Object, OneOf, Text, TextMap};
use crate::k8s::schema::{Field, Type, optional, required};

const ANY_INTEGER: Type = Integer(i64::MIN);

/// The description of a kind's `spec`.
pub(super) fn spec(kind: &str) -> Option<Type> {
    Some(match kind {
        "PropagationPolicy" | "ClusterPropagationPolicy" => Object(&PROPAGATION),
        "OverridePolicy" | "ClusterOverridePolicy" => Object(&OVERRIDE),
        "Cluster" => Object(&CLUSTER),
        "WorkloadRebalancer" => Object(&REBALANCER),
        _ => return None,
    })
}

const REQUIREMENTS: Type =
    List(&Object(&[required("key", Text), required("operator", Text), optional("values", List(&Text))]));

const LABEL_SELECTOR: Type =
    Object(&[optional("matchLabels", TextMap), optional("matchExpressions", REQUIREMENTS)]);

const SELECTOR: Type = Object(&[
    required("apiVersion", Text),
    required("kind", Text),
    optional("namespace", Text),
    optional("name", Text),
    optional("labelSelector", LABEL_SELECTOR),
]);

const FIELD_SELECTOR: Type = Object(&[optional("matchExpressions", REQUIREMENTS)]);

const AFFINITY: Type = Object(&[
    optional("labelSelector", LABEL_SELECTOR),
    optional("fieldSelector", FIELD_SELECTOR),
    optional("clusterNames", List(&Text)),
    optional("exclude", List(&Text)),
]);

const OVERFLOW: Type = Object(&[
    optional("affinityName", Text),
    optional("labelSelector", LABEL_SELECTOR),
    optional("fieldSelector", FIELD_SELECTOR),
    optional("clusterNames", List(&Text)),
    optional("exclude", List(&Text)),
]);

const AFFINITY_TERM: Type = Object(&[
    required("affinityName", Text),
    optional("labelSelector", LABEL_SELECTOR),
    optional("fieldSelector", FIELD_SELECTOR),
    optional("clusterNames", List(&Text)),
    optional("exclude", List(&Text)),
    optional("overflowAffinities", List(&OVERFLOW)),
]);

const TOLERATION: Type = Object(&[
    optional("key", Text),
    optional("operator", Text),
    optional("value", Text),
    optional("effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
    optional("tolerationSeconds", ANY_INTEGER),
]);

const SPREAD: Type = Object(&[
    optional("spreadByField", OneOf(&["cluster", "region", "zone", "provider"])),
    optional("spreadByLabel", Text),
    optional("maxGroups", ANY_INTEGER),
    optional("minGroups", ANY_INTEGER),
]);

const WEIGHTS: Type = Object(&[
    optional(
        "staticWeightList",
        List(&Object(&[required("targetCluster", AFFINITY), required("weight", Integer(1))])),
    ),
    optional("dynamicWeight", OneOf(&["AvailableReplicas"])),
]);

const SCHEDULING: Type = Object(&[
    optional("replicaSchedulingType", OneOf(&["Duplicated", "Divided"])),
    optional("replicaDivisionPreference", OneOf(&["Aggregated", "Weighted"])),
    optional("weightPreference", WEIGHTS),
]);

const PLACEMENT: Type = Object(&[
    optional("clusterAffinity", AFFINITY),
    optional("clusterAffinities", List(&AFFINITY_TERM)),
    optional("clusterTolerations", List(&TOLERATION)),
    optional("spreadConstraints", List(&SPREAD)),
    optional("replicaScheduling", SCHEDULING),
    optional("workloadAffinity", Any),
]);

const SUSPENSION: Type = Object(&[
    optional("dispatching", Boolean),
    optional("dispatchingOnClusters", Object(&[optional("clusterNames", List(&Text))])),
]);

const PROPAGATION: [Field; 14] = [
    required("resourceSelectors", List(&SELECTOR)),
    optional("association", Boolean),
    optional("propagateDeps", Boolean),
    optional("placement", PLACEMENT),
    optional("priority", ANY_INTEGER),
    optional("preemption", OneOf(&["Always", "Never"])),
    optional("dependentOverrides", List(&Text)),
    optional("schedulerName", Text),
    optional("failover", Object(&[optional("application", Any), optional("cluster", Any)])),
    optional("conflictResolution", OneOf(&["Abort", "Overwrite"])),
    optional("activationPreference", OneOf(&["Lazy"])),
    optional("suspension", SUSPENSION),
    optional("preserveResourcesOnDeletion", Boolean),
    optional("schedulePriority", Any),
];

const OPERATOR: Type = OneOf(&["add", "remove", "replace"]);

const WORDS: Type = List(&Object(&[
    required("containerName", Text),
    required("operator", OneOf(&["add", "remove"])),
    optional("value", List(&Text)),
]));

const TEXTS: Type = List(&Object(&[required("operator", OPERATOR), optional("value", TextMap)]));

const DOCUMENT: Type =
    List(&Object(&[required("subPath", Text), required("operator", OPERATOR), optional("value", Any)]));

const OVERRIDERS: Type = Object(&[
    optional(
        "plaintext",
        List(&Object(&[required("path", Text), required("operator", OPERATOR), optional("value", Any)])),
    ),
    optional(
        "imageOverrider",
        List(&Object(&[
            optional("predicate", Object(&[required("path", Text)])),
            required("component", OneOf(&["Registry", "Repository", "Tag"])),
            required("operator", OPERATOR),
            optional("value", Text),
        ])),
    ),
    optional("commandOverrider", WORDS),
    optional("argsOverrider", WORDS),
    optional("labelsOverrider", TEXTS),
    optional("annotationsOverrider", TEXTS),
    optional(
        "fieldOverrider",
        List(&Object(&[required("fieldPath", Text), optional("json", DOCUMENT), optional("yaml", DOCUMENT)])),
    ),
]);

const OVERRIDE: [Field; 4] = [
    optional("resourceSelectors", List(&SELECTOR)),
    optional(
        "overrideRules",
        List(&Object(&[optional("targetCluster", AFFINITY), required("overriders", OVERRIDERS)])),
    ),
    optional("targetCluster", AFFINITY),
    optional("overriders", OVERRIDERS),
];

const CLUSTER: [Field; 14] = [
    optional("id", Text),
    optional("syncMode", OneOf(&["Push", "Pull"])),
    optional("apiEndpoint", Text),
    optional("secretRef", Any),
    optional("impersonatorSecretRef", Any),
    optional("insecureSkipTLSVerification", Boolean),
    optional("proxyURL", Text),
    optional("proxyHeader", TextMap),
    optional("provider", Text),
    optional("region", Text),
    optional("zone", Text),
    optional("zones", List(&Text)),
    optional(
        "taints",
        List(&Object(&[
            required("key", Text),
            optional("value", Text),
            required("effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
            optional("timeAdded", Text),
        ])),
    ),
    optional("resourceModels", Any),
];

const REBALANCER: [Field; 2] = [
    required(
        "workloads",
        List(&Object(&[
            required("apiVersion", Text),
            required("kind", Text),
            required("name", Text),
            optional("namespace", Text),
        ])),
    ),
    optional("ttlSecondsAfterFinished", Integer(0)),
];
