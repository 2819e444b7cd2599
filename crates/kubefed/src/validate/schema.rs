//! The fields of `KubeFed`'s objects: names, types and which are required, from its custom resource
//! definitions. Connection details are not required here.

use federate_kubernetes::schema::{Field, Shape};

use Shape::{Any, Bool, Filled, Integer, List, Map, Object, OneOf, Text};

const INT64: Shape = Integer(i64::MIN, i64::MAX);
const INT32: Shape = Integer(i32::MIN as i64, i32::MAX as i64);
const TEXTS: Shape = List(0, &Text);
const ANY_MAP: Shape = Map(&Any);
const SWITCH: Shape = OneOf(&["Enabled", "Disabled"]);

const HEAD: &[Field] = &[
    Field::optional("apiVersion", Text),
    Field::optional("kind", Text),
    Field::optional("metadata", Any),
    Field::optional("status", Any),
];

/// Every federated kind.
pub(super) const FEDERATED: Shape = Object(&[HEAD, &[Field::optional("spec", Object(&[FEDERATED_SPEC]))]]);

const FEDERATED_SPEC: &[Field] = &[
    Field::optional("template", ANY_MAP),
    Field::optional("placement", Object(&[PLACEMENT])),
    Field::optional("overrides", List(0, &Object(&[CLUSTER_OVERRIDES]))),
    Field::optional("retainReplicas", Bool),
];

const PLACEMENT: &[Field] = &[
    Field::optional("clusters", List(0, &Object(&[&[Field::required("name", Text)]]))),
    Field::optional("clusterSelector", LABEL_SELECTOR),
];

const LABEL_SELECTOR: Shape = Object(&[&[
    Field::optional("matchLabels", Map(&Text)),
    Field::optional("matchExpressions", List(0, &REQUIREMENT)),
]]);

const REQUIREMENT: Shape = Object(&[&[
    Field::required("key", Text),
    Field::required("operator", Text),
    Field::optional("values", TEXTS),
]]);

const CLUSTER_OVERRIDES: &[Field] = &[
    Field::optional("clusterName", Text),
    Field::optional("clusterOverrides", List(0, &Object(&[OVERRIDE]))),
];

const OVERRIDE: &[Field] =
    &[Field::optional("op", Text), Field::required("path", Text), Field::optional("value", Any)];

/// `ReplicaSchedulingPreference`.
pub(super) const PREFERENCE: Shape = Object(&[HEAD, &[Field::required("spec", Object(&[PREFERENCE_SPEC]))]]);

const PREFERENCE_SPEC: &[Field] = &[
    Field::required("targetKind", Text),
    Field::required("totalReplicas", INT32),
    Field::optional("rebalance", Bool),
    Field::optional("intersectWithClusterSelector", Bool),
    Field::optional("clusters", Map(&Object(&[CLUSTER_PREFERENCE]))),
];

const CLUSTER_PREFERENCE: &[Field] = &[
    Field::optional("weight", INT64),
    Field::optional("minReplicas", INT64),
    Field::optional("maxReplicas", INT64),
];

/// `KubeFedCluster`.
pub(super) const CLUSTER: Shape = Object(&[
    HEAD_WITHOUT_STATUS,
    &[Field::optional("spec", Object(&[CLUSTER_SPEC])), Field::optional("status", CLUSTER_STATUS)],
]);

/// Federation v1's `Cluster`.
pub(super) const V1_CLUSTER: Shape = Object(&[
    HEAD_WITHOUT_STATUS,
    &[Field::optional("spec", ANY_MAP), Field::optional("status", CLUSTER_STATUS)],
]);

const HEAD_WITHOUT_STATUS: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

const CLUSTER_SPEC: &[Field] = &[
    Field::optional("apiEndpoint", Text),
    Field::optional("caBundle", Text),
    Field::optional("secretRef", Object(&[&[Field::required("name", Filled)]])),
    Field::optional("proxyURL", Text),
    Field::optional("disabledTLSValidations", List(0, &OneOf(&["*", "SubjectName", "ValidityPeriod"]))),
];

const CLUSTER_STATUS: Shape = Object(&[&[
    Field::optional("conditions", List(0, &ANY_MAP)),
    Field::optional("region", Text),
    Field::optional("zones", TEXTS),
]]);

/// `FederatedTypeConfig`.
pub(super) const TYPE_CONFIG: Shape =
    Object(&[HEAD, &[Field::required("spec", Object(&[TYPE_CONFIG_SPEC]))]]);

const TYPE_CONFIG_SPEC: &[Field] = &[
    Field::required("targetType", Object(&[TARGET_GROUP, API_RESOURCE])),
    Field::required("federatedType", Object(&[FEDERATED_GROUP, API_RESOURCE])),
    Field::required("propagation", SWITCH),
    Field::optional("statusCollection", SWITCH),
    Field::optional("statusType", Object(&[TARGET_GROUP, API_RESOURCE])),
];

const TARGET_GROUP: &[Field] = &[Field::optional("group", Text)];

const FEDERATED_GROUP: &[Field] = &[Field::required("group", Filled)];

const API_RESOURCE: &[Field] = &[
    Field::required("version", Filled),
    Field::required("kind", Filled),
    Field::optional("pluralName", Text),
    Field::required("scope", OneOf(&["Cluster", "Namespaced"])),
];

/// `KubeFedConfig`.
pub(super) const CONFIG: Shape = Object(&[HEAD, &[Field::required("spec", Object(&[CONFIG_SPEC]))]]);

const CONFIG_SPEC: &[Field] = &[
    Field::required("scope", OneOf(&["Cluster", "Namespaced"])),
    Field::optional("controllerDuration", ANY_MAP),
    Field::optional("leaderElect", ANY_MAP),
    Field::optional("clusterHealthCheck", ANY_MAP),
    Field::optional("syncController", ANY_MAP),
    Field::optional("statusController", ANY_MAP),
    Field::optional("featureGates", List(0, &Object(&[FEATURE_GATE]))),
];

const FEATURE_GATE: &[Field] = &[
    Field::required(
        "name",
        OneOf(&[
            "PushReconciler",
            "SchedulerPreferences",
            "RawResourceStatusCollection",
            "CrossClusterServiceDiscovery",
            "FederatedIngress",
        ]),
    ),
    Field::required("configuration", SWITCH),
];

/// `Domain`: its fields are at the top level.
pub(super) const DOMAIN: Shape =
    Object(&[HEAD, &[Field::required("domain", Text), Field::optional("nameServer", Text)]]);

/// `ServiceDNSRecord`.
pub(super) const SERVICE_RECORD: Shape = Object(&[HEAD, &[Field::required("spec", Object(&[SERVICE_SPEC]))]]);

const SERVICE_SPEC: &[Field] = &[
    Field::required("domainRef", Text),
    RECORD_TTL,
    Field::optional("dnsPrefix", Text),
    Field::optional("externalName", Text),
    Field::optional("allowServiceWithoutEndpoints", Bool),
];

/// `IngressDNSRecord`.
pub(super) const INGRESS_RECORD: Shape =
    Object(&[HEAD, &[Field::optional("spec", Object(&[&[Field::optional("hosts", TEXTS), RECORD_TTL]]))]]);

const RECORD_TTL: Field = Field::optional("recordTTL", INT64);
