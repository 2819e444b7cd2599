//! The fields of the dialect's objects: names, types, bounds and which are required, as their custom
//! resource definitions give them.
//!
//! The identity of a `MemberCluster`, which only the API server of a fleet needs, is not required of an
//! inventory in git.

use federate_kubernetes::schema::{Field, Shape};

use Shape::{Any, Bool, Filled, Integer, List, Map, Object, OneOf, Text};

const INT32: Shape = Integer(i32::MIN as i64, i32::MAX as i64);
const COUNT32: Shape = Integer(0, i32::MAX as i64);
const POSITIVE32: Shape = Integer(1, i32::MAX as i64);
const TEXTS: Shape = List(0, &Text);
const QUANTITIES: Shape = Map(&Shape::Quantity);

const HEAD: &[Field] = &[
    Field::optional("apiVersion", Text),
    Field::optional("kind", Text),
    Field::optional("metadata", Any),
    Field::optional("status", Any),
];

/// `ClusterResourcePlacement` and `ResourcePlacement`.
pub(super) const PLACEMENT: Shape = Object(&[HEAD, &[Field::required("spec", Object(&[PLACEMENT_SPEC]))]]);

/// `ClusterResourceOverride`.
pub(super) const CLUSTER_OVERRIDE: Shape = Object(&[
    HEAD,
    &[Field::required(
        "spec",
        Object(&[
            OVERRIDE_SPEC,
            &[Field::required("clusterResourceSelectors", List(1, &Object(&[SELECTOR])))],
        ]),
    )],
]);

/// `ResourceOverride`.
pub(super) const OVERRIDE: Shape = Object(&[
    HEAD,
    &[Field::required(
        "spec",
        Object(&[OVERRIDE_SPEC, &[Field::required("resourceSelectors", List(1, &Object(&[NAMED])))]]),
    )],
]);

/// `MemberCluster`.
pub(super) const CLUSTER: Shape = Object(&[&[
    Field::optional("apiVersion", Text),
    Field::optional("kind", Text),
    Field::optional("metadata", Any),
    Field::optional("spec", Object(&[CLUSTER_SPEC])),
    Field::optional("status", Object(&[CLUSTER_STATUS])),
]]);

const PLACEMENT_SPEC: &[Field] = &[
    Field::required("resourceSelectors", List(1, &Object(&[SELECTOR]))),
    Field::optional("policy", Object(&[POLICY])),
    Field::optional("strategy", Object(&[STRATEGY])),
    Field::optional("revisionHistoryLimit", Integer(1, 1000)),
    Field::optional("statusReportingScope", OneOf(&["ClusterScopeOnly", "NamespaceAccessible"])),
];

const SELECTOR: &[Field] = &[
    Field::required("group", Text),
    Field::required("version", Text),
    Field::required("kind", Text),
    Field::optional("name", Text),
    Field::optional("labelSelector", LABEL_SELECTOR),
    Field::optional(
        "selectionScope",
        OneOf(&["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"]),
    ),
];

const LABEL_SELECTOR: Shape = Object(&[&[
    Field::optional("matchLabels", Map(&Text)),
    Field::optional(
        "matchExpressions",
        List(
            0,
            &Object(&[&[
                Field::required("key", Text),
                Field::required("operator", Text),
                Field::optional("values", TEXTS),
            ]]),
        ),
    ),
]]);

const POLICY: &[Field] = &[
    Field::optional("placementType", OneOf(&["PickAll", "PickN", "PickFixed"])),
    Field::optional("clusterNames", TEXTS),
    Field::optional("numberOfClusters", COUNT32),
    Field::optional("affinity", Object(&[&[Field::optional("clusterAffinity", Object(&[AFFINITY]))]])),
    Field::optional("topologySpreadConstraints", List(0, &Object(&[SPREAD]))),
    Field::optional("tolerations", List(0, &Object(&[TOLERATION]))),
];

const AFFINITY: &[Field] = &[
    Field::optional("requiredDuringSchedulingIgnoredDuringExecution", CLUSTER_SELECTOR),
    Field::optional("preferredDuringSchedulingIgnoredDuringExecution", List(0, &Object(&[PREFERENCE]))),
];

const CLUSTER_SELECTOR: Shape =
    Object(&[&[Field::required("clusterSelectorTerms", List(0, &Object(&[TERM])))]]);

const PREFERENCE: &[Field] =
    &[Field::required("weight", Integer(-100, 100)), Field::required("preference", Object(&[TERM]))];

const TERM: &[Field] = &[
    Field::optional("labelSelector", LABEL_SELECTOR),
    Field::optional(
        "propertySelector",
        Object(&[&[Field::required("matchExpressions", List(0, &Object(&[PROPERTY_REQUIREMENT])))]]),
    ),
    Field::optional(
        "propertySorter",
        Object(&[&[
            Field::required("name", Text),
            Field::required("sortOrder", OneOf(&["Ascending", "Descending"])),
        ]]),
    ),
];

const PROPERTY_REQUIREMENT: &[Field] =
    &[Field::required("name", Text), Field::required("operator", Text), Field::required("values", TEXTS)];

const SPREAD: &[Field] = &[
    Field::optional("maxSkew", POSITIVE32),
    Field::required("topologyKey", Filled),
    Field::optional("whenUnsatisfiable", OneOf(&["DoNotSchedule", "ScheduleAnyway"])),
];

const TOLERATION: &[Field] = &[
    Field::optional("key", Text),
    Field::optional("operator", OneOf(&["Equal", "Exists"])),
    Field::optional("value", Text),
    Field::optional("effect", OneOf(&["NoSchedule"])),
];

const STRATEGY: &[Field] = &[
    Field::optional("type", OneOf(&["RollingUpdate", "External"])),
    Field::optional("rollingUpdate", Object(&[ROLLING_UPDATE])),
    Field::optional("applyStrategy", Object(&[APPLY])),
    Field::optional(
        "deleteStrategy",
        Object(&[&[Field::optional("propagationPolicy", OneOf(&["Delete", "Abandon"]))]]),
    ),
    Field::optional(
        "reportBackStrategy",
        Object(&[&[
            Field::required("type", OneOf(&["Disabled", "Mirror"])),
            Field::optional("destination", OneOf(&["OriginalResource", "WorkAPI"])),
        ]]),
    ),
];

/// The first two are a number or a percentage.
const ROLLING_UPDATE: &[Field] = &[
    Field::optional("maxUnavailable", Any),
    Field::optional("maxSurge", Any),
    Field::optional("unavailablePeriodSeconds", INT32),
];

const APPLY: &[Field] = &[
    Field::optional("type", OneOf(&["ClientSideApply", "ServerSideApply", "ReportDiff"])),
    Field::optional("comparisonOption", OneOf(&["PartialComparison", "FullComparison"])),
    Field::optional("whenToApply", OneOf(&["Always", "IfNotDrifted"])),
    Field::optional("whenToTakeOver", OneOf(&["Always", "IfNoDiff", "Never"])),
    Field::optional("allowCoOwnership", Bool),
    Field::optional("serverSideApplyConfig", Object(&[&[Field::optional("force", Bool)]])),
];

const NAMED: &[Field] = &[
    Field::required("group", Text),
    Field::required("version", Text),
    Field::required("kind", Text),
    Field::required("name", Filled),
];

const OVERRIDE_SPEC: &[Field] = &[
    Field::optional(
        "placement",
        Object(&[&[
            Field::required("name", Text),
            Field::optional("scope", OneOf(&["Cluster", "Namespaced"])),
        ]]),
    ),
    Field::required(
        "policy",
        Object(&[&[Field::required("overrideRules", List(1, &Object(&[OVERRIDE_RULE])))]]),
    ),
];

const OVERRIDE_RULE: &[Field] = &[
    Field::optional("clusterSelector", CLUSTER_SELECTOR),
    Field::optional("overrideType", OneOf(&["JSONPatch", "Delete"])),
    Field::optional("jsonPatchOverrides", List(0, &Object(&[PATCH]))),
];

const PATCH: &[Field] = &[
    Field::required("op", OneOf(&["add", "remove", "replace"])),
    Field::required("path", Text),
    Field::optional("value", Any),
];

const CLUSTER_SPEC: &[Field] = &[
    Field::optional("identity", Any),
    Field::optional("heartbeatPeriodSeconds", Integer(1, 600)),
    Field::optional("deleteOptions", Any),
    Field::optional(
        "taints",
        List(
            0,
            &Object(&[&[
                Field::required("key", Filled),
                Field::optional("value", Text),
                Field::required("effect", OneOf(&["NoSchedule"])),
            ]]),
        ),
    ),
];

const CLUSTER_STATUS: &[Field] = &[
    Field::optional("conditions", CONDITIONS),
    Field::optional("properties", Map(&Object(&[PROPERTY]))),
    Field::optional("namespaces", Map(&Text)),
    Field::optional("resourceUsage", Object(&[USAGE])),
    Field::optional("agentStatus", List(0, &Object(&[AGENT]))),
];

const PROPERTY: &[Field] = &[Field::required("value", Text), Field::optional("observationTime", Any)];

const USAGE: &[Field] = &[
    Field::optional("capacity", QUANTITIES),
    Field::optional("allocatable", QUANTITIES),
    Field::optional("available", QUANTITIES),
    Field::optional("observationTime", Any),
];

const AGENT: &[Field] = &[
    Field::required("type", Text),
    Field::optional("conditions", CONDITIONS),
    Field::optional("lastReceivedHeartbeat", Any),
];

const CONDITIONS: Shape = List(
    0,
    &Object(&[&[
        Field::required("type", Text),
        Field::required("status", Text),
        Field::optional("reason", Text),
        Field::optional("message", Text),
        Field::optional("lastTransitionTime", Any),
        Field::optional("observedGeneration", Any),
    ]]),
);
