//! The fields of `KubeAdmiral`'s objects: names, types, bounds and which are required, as its custom
//! resource definitions give them.
//!
//! Connection details are not required, because an inventory in git may lack them.

use federate_kubernetes::schema::{Field, Shape};

use Shape::{Any, Bool, Integer, List, Map, Object, OneOf, Quantity, Text};

const ANY_INTEGER: Shape = Integer(i64::MIN, i64::MAX);
const COUNT: Shape = Integer(0, i64::MAX);
const TEXTS: Shape = List(0, &Text);
const TEXT_MAP: Shape = Map(&Text);

const HEAD: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

/// `PropagationPolicy` and `ClusterPropagationPolicy`.
pub(super) const PROPAGATION: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[PROPAGATION_SPEC])), Field::optional("status", Any)]]);

/// `OverridePolicy` and `ClusterOverridePolicy`.
pub(super) const OVERRIDE: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[OVERRIDE_SPEC])), Field::optional("status", Any)]]);

/// `FederatedCluster`.
pub(super) const CLUSTER: Shape = Object(&[
    HEAD,
    &[Field::optional("spec", Object(&[CLUSTER_SPEC])), Field::optional("status", Object(&[CLUSTER_STATUS]))],
]);

/// `SchedulingProfile`.
pub(super) const PROFILE: Shape = Object(&[HEAD, &[Field::required("spec", Object(&[PROFILE_SPEC]))]]);

/// `FederatedTypeConfig`.
pub(super) const TYPE_CONFIG: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[TYPE_CONFIG_SPEC])), Field::optional("status", Any)]]);

const PROPAGATION_SPEC: &[Field] = &[
    Field::optional("autoMigration", Object(&[AUTO_MIGRATION])),
    Field::optional("clusterAffinity", List(0, &TERM)),
    Field::optional("clusterSelector", TEXT_MAP),
    Field::optional("disableFollowerScheduling", Bool),
    Field::optional("maxClusters", ANY_INTEGER),
    Field::optional("placement", List(0, &Object(&[PLACEMENT]))),
    Field::optional("replicasStrategy", OneOf(&["Binpack", "Spread"])),
    Field::optional("reschedulePolicy", Object(&[RESCHEDULE])),
    Field::required("schedulingMode", OneOf(&["Duplicate", "Divide"])),
    Field::optional("schedulingProfile", Text),
    Field::optional("tolerations", List(0, &Object(&[TOLERATION]))),
];

const AUTO_MIGRATION: &[Field] = &[
    Field::optional("keepUnschedulableReplicas", Bool),
    Field::optional("when", Object(&[&[Field::optional("podUnschedulableFor", Text)]])),
];

const REQUIREMENT: Shape = Object(&[&[
    Field::required("key", Text),
    Field::required("operator", OneOf(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])),
    Field::required("values", TEXTS),
]]);

const TERM: Shape = Object(&[&[
    Field::optional("matchExpressions", List(0, &REQUIREMENT)),
    Field::optional("matchFields", List(0, &REQUIREMENT)),
]]);

const PLACEMENT: &[Field] =
    &[Field::required("cluster", Text), Field::optional("preferences", Object(&[PREFERENCES]))];

const PREFERENCES: &[Field] = &[
    Field::optional("minReplicas", COUNT),
    Field::optional("maxReplicas", COUNT),
    Field::optional("weight", COUNT),
    Field::optional("priority", COUNT),
];

const RESCHEDULE: &[Field] = &[
    Field::optional("disableRescheduling", Bool),
    Field::optional("replicaRescheduling", Object(&[&[Field::optional("avoidDisruption", Bool)]])),
    Field::optional("rescheduleWhen", Object(&[RESCHEDULE_WHEN])),
];

const RESCHEDULE_WHEN: &[Field] = &[
    Field::optional("clusterAPIResourcesChanged", Bool),
    Field::optional("clusterJoined", Bool),
    Field::optional("clusterLabelsChanged", Bool),
    Field::optional("policyContentChanged", Bool),
];

const TOLERATION: &[Field] = &[
    Field::optional("effect", Text),
    Field::optional("key", Text),
    Field::optional("operator", Text),
    Field::optional("tolerationSeconds", ANY_INTEGER),
    Field::optional("value", Text),
];

const OVERRIDE_SPEC: &[Field] = &[Field::optional(
    "overrideRules",
    List(
        0,
        &Object(&[&[
            Field::optional("targetClusters", Object(&[TARGET])),
            Field::optional("overriders", Object(&[OVERRIDERS])),
        ]]),
    ),
)];

const TARGET: &[Field] = &[
    Field::optional("clusters", TEXTS),
    Field::optional("clusterSelector", TEXT_MAP),
    Field::optional("clusterAffinity", List(0, &TERM)),
];

const OVERRIDERS: &[Field] = &[
    Field::optional("image", List(0, &Object(&[IMAGE]))),
    Field::optional("command", List(0, &Object(&[COMMAND]))),
    Field::optional("args", List(0, &Object(&[COMMAND]))),
    Field::optional("envs", List(0, &Object(&[ENVS]))),
    Field::optional("annotations", List(0, &Object(&[STRING_MAP]))),
    Field::optional("labels", List(0, &Object(&[STRING_MAP]))),
    Field::optional("jsonpatch", List(0, &Object(&[JSON_PATCH]))),
];

const CHANGES: Shape = OneOf(&["addIfAbsent", "overwrite", "delete"]);

const IMAGE: &[Field] = &[
    Field::optional("containerNames", TEXTS),
    Field::optional("imagePath", Text),
    Field::required("operations", List(0, &Object(&[IMAGE_OPERATION]))),
];

const IMAGE_OPERATION: &[Field] = &[
    Field::required("imageComponent", OneOf(&["Registry", "Repository", "Tag", "Digest"])),
    Field::optional("operator", CHANGES),
    Field::optional("value", Text),
];

const COMMAND: &[Field] = &[
    Field::required("containerName", Text),
    Field::optional("operator", OneOf(&["append", "overwrite", "delete"])),
    Field::required("value", TEXTS),
];

const ENVS: &[Field] = &[
    Field::required("containerName", Text),
    Field::optional("operator", CHANGES),
    Field::required("value", List(0, &Object(&[ENV_VAR]))),
];

const ENV_VAR: &[Field] =
    &[Field::required("name", Text), Field::optional("value", Text), Field::optional("valueFrom", Any)];

const STRING_MAP: &[Field] = &[Field::optional("operator", CHANGES), Field::required("value", TEXT_MAP)];

const JSON_PATCH: &[Field] =
    &[Field::optional("operator", Text), Field::required("path", Text), Field::optional("value", Any)];

const CLUSTER_SPEC: &[Field] = &[
    Field::optional("apiEndpoint", Text),
    Field::optional("insecure", Bool),
    Field::optional("secretRef", Object(&[&[Field::optional("name", Text)]])),
    Field::optional("taints", List(0, &Object(&[TAINT]))),
    Field::optional("useServiceAccount", Bool),
];

const TAINT: &[Field] = &[
    Field::required("effect", Text),
    Field::required("key", Text),
    Field::optional("timeAdded", Text),
    Field::optional("value", Text),
];

const CLUSTER_STATUS: &[Field] = &[
    Field::optional("apiResourceTypes", List(0, &Object(&[API_RESOURCE]))),
    Field::optional("conditions", List(0, &Object(&[CONDITION]))),
    Field::optional("joinPerformed", Bool),
    Field::optional("resources", Object(&[RESOURCES])),
];

const API_RESOURCE: &[Field] = &[
    Field::optional("group", Text),
    Field::required("kind", Text),
    Field::optional("pluralName", Text),
    Field::optional("scope", Text),
    Field::required("version", Text),
];

const CONDITION: &[Field] = &[
    Field::required("type", Text),
    Field::required("status", Text),
    Field::optional("reason", Text),
    Field::optional("message", Text),
    Field::optional("lastProbeTime", Text),
    Field::optional("lastTransitionTime", Text),
];

const RESOURCES: &[Field] = &[
    Field::optional("allocatable", Map(&Quantity)),
    Field::optional("available", Map(&Quantity)),
    Field::optional("schedulableNodes", ANY_INTEGER),
];

const PROFILE_SPEC: &[Field] = &[
    Field::optional("pluginConfig", Any),
    Field::optional(
        "plugins",
        Object(&[&[
            Field::optional("filter", Object(&[PLUGINS])),
            Field::optional("score", Object(&[PLUGINS])),
            Field::optional("select", Object(&[PLUGINS])),
        ]]),
    ),
];

const PLUGINS: &[Field] = &[
    Field::optional("enabled", List(0, &Object(&[PLUGIN]))),
    Field::optional("disabled", List(0, &Object(&[PLUGIN]))),
];

const PLUGIN: &[Field] = &[
    Field::optional("name", Text),
    Field::optional("type", OneOf(&["Webhook"])),
    Field::optional("wait", COUNT),
    Field::optional("weight", COUNT),
];

const TYPE_CONFIG_SPEC: &[Field] = &[
    Field::optional("autoMigration", Any),
    Field::optional("controllers", List(0, &TEXTS)),
    Field::optional("pathDefinition", Object(&[PATHS])),
    Field::required("sourceType", Object(&[SOURCE_TYPE])),
    Field::optional("statusAggregation", Any),
    Field::optional("statusCollection", Any),
];

const PATHS: &[Field] = &[
    Field::optional("availableReplicasStatus", Text),
    Field::optional("labelSelector", Text),
    Field::optional("readyReplicasStatus", Text),
    Field::optional("replicasSpec", Text),
    Field::optional("replicasStatus", Text),
];

const SOURCE_TYPE: &[Field] = &[
    Field::optional("group", Text),
    Field::required("kind", Text),
    Field::required("pluralName", Text),
    Field::required("scope", Text),
    Field::required("version", Text),
];
