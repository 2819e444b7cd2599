//! The definitions of `KubeAdmiral`'s objects. The policies are declared where they are read, in `api` and
//! `overrides::api`.
//!
//! Connection details are not required, because an inventory in git may lack them.

use crate::api::PolicySpec;
use crate::overrides::api::OverrideSpec;
use federate_kubernetes::schema::{Field, Schema, Shape};

use Shape::{Any, Bool, Integer, List, Map, Object, OneOf, Quantity, Text};

const ANY_INTEGER: Shape = Integer(i64::MIN, i64::MAX);
const COUNT: Shape = Integer(0, i64::MAX);
const TEXTS: Shape = List(0, &Text);

const HEAD: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

/// `PropagationPolicy` and `ClusterPropagationPolicy`.
pub(super) const PROPAGATION: Shape =
    Object(&[HEAD, &[Field::required("spec", PolicySpec::SHAPE), Field::optional("status", Any)]]);

/// `OverridePolicy` and `ClusterOverridePolicy`.
pub(super) const OVERRIDE: Shape =
    Object(&[HEAD, &[Field::required("spec", OverrideSpec::SHAPE), Field::optional("status", Any)]]);

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
