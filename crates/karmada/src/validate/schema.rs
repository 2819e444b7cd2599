//! The fields of Karmada's objects: names, types, bounds and which are required, as its custom
//! resource definitions (and for `Cluster` its aggregated API) give them.
//!
//! Where the admission webhook writes an absent structure back as `{}` before the definition is
//! applied (`targetCluster` of a static weight, `decisionConditions`), it is not required here either.

use federate_kubernetes::schema::{Field, Shape};

use Shape::{Any, Bool, Filled, Integer, List, Map, Object, OneOf, Quantity, Text};

const ANY_INTEGER: Shape = Integer(i64::MIN, i64::MAX);
const INT32: Shape = Integer(i32::MIN as i64, i32::MAX as i64);
const COUNT32: Shape = Integer(0, i32::MAX as i64);
const COUNT: Shape = Integer(0, i64::MAX);
const POSITIVE: Shape = Integer(1, i64::MAX);
const TEXTS: Shape = List(0, &Text);
const TEXT_MAP: Shape = Map(&Text);

const HEAD: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

/// `PropagationPolicy` and `ClusterPropagationPolicy`.
pub(super) const PROPAGATION: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[PROPAGATION_SPEC]))]]);

/// `OverridePolicy` and `ClusterOverridePolicy`.
pub(super) const OVERRIDE: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[OVERRIDE_SPEC, RULE]))]]);

/// `Cluster`. `syncMode` is how Karmada reaches a cluster, of no use for rendering: an inventory
/// written for git may do without.
pub(super) const CLUSTER: Shape = Object(&[
    HEAD,
    &[Field::optional("spec", Object(&[CLUSTER_SPEC])), Field::optional("status", Object(&[CLUSTER_STATUS]))],
]);

/// `WorkloadRebalancer`.
pub(super) const REBALANCER: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[REBALANCER_SPEC])), Field::optional("status", Any)]]);

/// `ResourceInterpreterCustomization`.
pub(super) const CUSTOMIZATION: Shape = Object(&[
    HEAD,
    &[Field::required(
        "spec",
        Object(&[&[
            Field::required(
                "target",
                Object(&[&[Field::required("apiVersion", Filled), Field::required("kind", Filled)]]),
            ),
            Field::required("customizations", Object(&[CUSTOMIZATIONS])),
        ]]),
    )],
]);

const SCRIPT: Shape = Object(&[&[Field::required("luaScript", Text)]]);

const CUSTOMIZATIONS: &[Field] = &[
    Field::optional("componentResource", SCRIPT),
    Field::optional("dependencyInterpretation", SCRIPT),
    Field::optional("healthInterpretation", SCRIPT),
    Field::optional("replicaResource", SCRIPT),
    Field::optional("replicaRevision", SCRIPT),
    Field::optional("retention", SCRIPT),
    Field::optional("statusAggregation", SCRIPT),
    Field::optional("statusReflection", SCRIPT),
];

const PROPAGATION_SPEC: &[Field] = &[
    Field::optional("activationPreference", OneOf(&["Lazy"])),
    Field::optional("association", Bool),
    Field::optional("conflictResolution", OneOf(&["Abort", "Overwrite"])),
    Field::optional("dependentOverrides", TEXTS),
    Field::optional("failover", Object(&[FAILOVER])),
    Field::optional("placement", Object(&[PLACEMENT])),
    Field::optional("preemption", OneOf(&["Always", "Never"])),
    Field::optional("preserveResourcesOnDeletion", Bool),
    Field::optional("priority", INT32),
    Field::optional("propagateDeps", Bool),
    Field::required("resourceSelectors", List(1, &Object(&[SELECTOR]))),
    Field::optional("schedulePriority", Object(&[SCHEDULE_PRIORITY])),
    Field::optional("schedulerName", Text),
    Field::optional("suspension", Object(&[SUSPENSION])),
];

const SELECTOR: &[Field] = &[
    Field::required("apiVersion", Filled),
    Field::required("kind", Filled),
    Field::optional("namespace", Text),
    Field::optional("name", Text),
    Field::optional("labelSelector", LABEL_SELECTOR),
];

const REQUIREMENT: Shape = Object(&[&[
    Field::required("key", Text),
    Field::required("operator", Text),
    Field::optional("values", TEXTS),
]]);

const LABEL_SELECTOR: Shape = Object(&[&[
    Field::optional("matchLabels", TEXT_MAP),
    Field::optional("matchExpressions", List(0, &REQUIREMENT)),
]]);

const PLACEMENT: &[Field] = &[
    Field::optional("clusterAffinity", Object(&[AFFINITY])),
    Field::optional("clusterAffinities", List(0, &Object(&[NAMED, AFFINITY, OVERFLOW]))),
    Field::optional("clusterTolerations", List(0, &Object(&[TOLERATION]))),
    Field::optional("spreadConstraints", List(0, &Object(&[SPREAD]))),
    Field::optional("replicaScheduling", Object(&[REPLICA_SCHEDULING])),
    Field::optional("workloadAffinity", Object(&[WORKLOAD_AFFINITY])),
];

const AFFINITY: &[Field] = &[
    Field::optional("labelSelector", LABEL_SELECTOR),
    Field::optional(
        "fieldSelector",
        Object(&[&[Field::optional("matchExpressions", List(0, &REQUIREMENT))]]),
    ),
    Field::optional("clusterNames", TEXTS),
    Field::optional("exclude", TEXTS),
];

const NAMED: &[Field] = &[Field::required("affinityName", Filled)];

const OVERFLOW: &[Field] = &[Field::optional("overflowAffinities", List(0, &Object(&[NAMED, AFFINITY])))];

const TOLERATION: &[Field] = &[
    Field::optional("key", Text),
    Field::optional("operator", Text),
    Field::optional("value", Text),
    Field::optional("effect", Text),
    Field::optional("tolerationSeconds", ANY_INTEGER),
];

const SPREAD: &[Field] = &[
    Field::optional("spreadByField", OneOf(&["cluster", "region", "zone", "provider"])),
    Field::optional("spreadByLabel", Text),
    Field::optional("minGroups", ANY_INTEGER),
    Field::optional("maxGroups", ANY_INTEGER),
];

const REPLICA_SCHEDULING: &[Field] = &[
    Field::optional("replicaSchedulingType", OneOf(&["Duplicated", "Divided"])),
    Field::optional("replicaDivisionPreference", OneOf(&["Aggregated", "Weighted"])),
    Field::optional("weightPreference", Object(&[WEIGHTS])),
];

const WEIGHTS: &[Field] = &[
    Field::optional("dynamicWeight", OneOf(&["AvailableReplicas"])),
    Field::optional("staticWeightList", List(0, &Object(&[STATIC_WEIGHT]))),
];

const STATIC_WEIGHT: &[Field] =
    &[Field::optional("targetCluster", Object(&[AFFINITY])), Field::required("weight", POSITIVE)];

const GROUP_BY: Shape = Object(&[&[Field::required("groupByLabelKey", Text)]]);

const WORKLOAD_AFFINITY: &[Field] =
    &[Field::optional("affinity", GROUP_BY), Field::optional("antiAffinity", GROUP_BY)];

const SCHEDULE_PRIORITY: &[Field] = &[
    Field::required("priorityClassSource", OneOf(&["KubePriorityClass"])),
    Field::required("priorityClassName", Text),
];

const SUSPENSION: &[Field] = &[
    Field::optional("dispatching", Bool),
    Field::optional("dispatchingOnClusters", Object(&[&[Field::optional("clusterNames", TEXTS)]])),
];

const FAILOVER: &[Field] = &[
    Field::optional("application", Object(&[APPLICATION_FAILOVER])),
    Field::optional("cluster", Object(&[CLUSTER_FAILOVER])),
];

const APPLICATION_FAILOVER: &[Field] = &[
    Field::optional("decisionConditions", Object(&[&[Field::optional("tolerationSeconds", COUNT32)]])),
    Field::optional("purgeMode", Text),
    Field::optional("gracePeriodSeconds", Integer(1, i32::MAX as i64)),
    Field::optional("statePreservation", STATE_PRESERVATION),
];

const CLUSTER_FAILOVER: &[Field] = &[
    Field::optional("purgeMode", OneOf(&["Directly", "Gracefully"])),
    Field::optional("statePreservation", STATE_PRESERVATION),
];

const STATE_PRESERVATION: Shape = Object(&[&[Field::required("rules", List(0, &Object(&[STATE_RULE])))]]);

const STATE_RULE: &[Field] = &[Field::required("aliasLabelName", Text), Field::required("jsonPath", Text)];

const OVERRIDE_SPEC: &[Field] = &[
    Field::optional("resourceSelectors", List(0, &Object(&[SELECTOR]))),
    Field::optional(
        "overrideRules",
        List(
            0,
            &Object(&[&[
                Field::optional("targetCluster", Object(&[AFFINITY])),
                Field::required("overriders", Object(&[OVERRIDERS])),
            ]]),
        ),
    ),
];

/// The old form: one rule, in the spec itself.
const RULE: &[Field] = &[
    Field::optional("targetCluster", Object(&[AFFINITY])),
    Field::optional("overriders", Object(&[OVERRIDERS])),
];

const OPERATOR: Field = Field::required("operator", OneOf(&["add", "remove", "replace"]));

const OVERRIDERS: &[Field] = &[
    Field::optional("plaintext", List(0, &Object(&[&[Field::required("path", Text), OPERATOR, VALUE]]))),
    Field::optional("imageOverrider", List(0, &Object(&[IMAGE]))),
    Field::optional("commandOverrider", List(0, &Object(&[ARGUMENTS]))),
    Field::optional("argsOverrider", List(0, &Object(&[ARGUMENTS]))),
    Field::optional("labelsOverrider", List(0, &Object(&[METADATA]))),
    Field::optional("annotationsOverrider", List(0, &Object(&[METADATA]))),
    Field::optional("fieldOverrider", List(0, &Object(&[FIELD]))),
];

const VALUE: Field = Field::optional("value", Any);

const IMAGE: &[Field] = &[
    Field::optional("predicate", Object(&[&[Field::required("path", Text)]])),
    Field::required("component", OneOf(&["Registry", "Repository", "Tag"])),
    OPERATOR,
    Field::optional("value", Text),
];

const ARGUMENTS: &[Field] = &[
    Field::required("containerName", Text),
    Field::required("operator", OneOf(&["add", "remove"])),
    Field::optional("value", TEXTS),
];

const METADATA: &[Field] = &[OPERATOR, Field::required("value", TEXT_MAP)];

const FIELD: &[Field] = &[
    Field::required("fieldPath", Text),
    Field::optional("json", List(0, &FIELD_PATCH)),
    Field::optional("yaml", List(0, &FIELD_PATCH)),
];

const FIELD_PATCH: Shape = Object(&[&[Field::required("subPath", Text), OPERATOR, VALUE]]);

const CLUSTER_SPEC: &[Field] = &[
    Field::optional("id", Text),
    Field::optional("syncMode", OneOf(&["Push", "Pull"])),
    Field::optional("apiEndpoint", Text),
    Field::optional("secretRef", SECRET),
    Field::optional("impersonatorSecretRef", SECRET),
    Field::optional("insecureSkipTLSVerification", Bool),
    Field::optional("proxyURL", Text),
    Field::optional("proxyHeader", TEXT_MAP),
    Field::optional("provider", Text),
    Field::optional("region", Text),
    Field::optional("zone", Text),
    Field::optional("zones", TEXTS),
    Field::optional("taints", List(0, &Object(&[TAINT]))),
    Field::optional("resourceModels", List(0, &Object(&[MODEL]))),
];

const SECRET: Shape = Object(&[&[Field::required("namespace", Filled), Field::required("name", Filled)]]);

const TAINT: &[Field] = &[
    Field::required("key", Filled),
    Field::optional("value", Text),
    Field::required("effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
    Field::optional("timeAdded", Text),
];

const MODEL: &[Field] =
    &[Field::required("grade", COUNT), Field::required("ranges", List(0, &Object(&[RANGE])))];

const RANGE: &[Field] =
    &[Field::required("name", Text), Field::required("min", Quantity), Field::required("max", Quantity)];

const CLUSTER_STATUS: &[Field] = &[
    Field::optional("kubernetesVersion", Text),
    Field::optional("apiEnablements", List(0, &Object(&[ENABLEMENT]))),
    Field::optional("conditions", Any),
    Field::optional("nodeSummary", Any),
    Field::optional("resourceSummary", Object(&[SUMMARY])),
    Field::optional("remedyActions", TEXTS),
];

const ENABLEMENT: &[Field] =
    &[Field::required("groupVersion", Text), Field::optional("resources", List(0, &Object(&[RESOURCE])))];

const RESOURCE: &[Field] = &[Field::optional("name", Text), Field::required("kind", Text)];

const QUANTITIES: Shape = Map(&Quantity);

const SUMMARY: &[Field] = &[
    Field::optional("allocatable", QUANTITIES),
    Field::optional("allocating", QUANTITIES),
    Field::optional("allocated", QUANTITIES),
    Field::optional("allocatableModelings", List(0, &Object(&[MODELING]))),
];

const MODELING: &[Field] = &[Field::required("grade", COUNT), Field::required("count", ANY_INTEGER)];

const REBALANCER_SPEC: &[Field] = &[
    Field::optional("ttlSecondsAfterFinished", INT32),
    Field::required("workloads", List(1, &Object(&[WORKLOAD]))),
];

const WORKLOAD: &[Field] = &[
    Field::required("apiVersion", Text),
    Field::required("kind", Text),
    Field::required("name", Text),
    Field::optional("namespace", Text),
];
