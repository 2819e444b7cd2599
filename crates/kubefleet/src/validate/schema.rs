//! The definitions of the dialect's objects. What the dialect reads of them is declared where it is read: in `api`,
//! `selection::api`, `overrides::api`, `rollout::api` and `member::strategy`.
//!
//! The identity of a `MemberCluster`, which only the API server of a fleet needs, is not required of an inventory in
//! git.

use crate::api::Policy;
use crate::member::Strategy as ApplyStrategy;
use crate::overrides::api::{ObjectSelector, OverrideSpec};
use crate::rollout::api::{RollingUpdate, StagedSpec};
use crate::selection::api::ResourceSelector;
use federate_kubernetes::schema::{Field, Schema, Shape};

use Shape::{Any, Filled, Integer, List, Map, Object, OneOf, Text};

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
            OverrideSpec::FIELDS,
            &[Field::required("clusterResourceSelectors", List(1, &ResourceSelector::SHAPE))],
        ]),
    )],
]);

/// `ResourceOverride`.
pub(super) const OVERRIDE: Shape = Object(&[
    HEAD,
    &[Field::required(
        "spec",
        Object(&[
            OverrideSpec::FIELDS,
            &[Field::required("resourceSelectors", List(1, &ObjectSelector::SHAPE))],
        ]),
    )],
]);

/// `ClusterStagedUpdateStrategy` and `StagedUpdateStrategy`.
pub(super) const STAGED_STRATEGY: Shape = Object(&[HEAD, &[Field::required("spec", StagedSpec::SHAPE)]]);

/// `MemberCluster`.
pub(super) const CLUSTER: Shape = Object(&[&[
    Field::optional("apiVersion", Text),
    Field::optional("kind", Text),
    Field::optional("metadata", Any),
    Field::optional("spec", Object(&[CLUSTER_SPEC])),
    Field::optional("status", Object(&[CLUSTER_STATUS])),
]]);

const PLACEMENT_SPEC: &[Field] = &[
    Field::required("resourceSelectors", List(1, &ResourceSelector::SHAPE)),
    Field::optional("policy", Policy::SHAPE),
    Field::optional("strategy", Object(&[STRATEGY])),
    Field::optional("revisionHistoryLimit", Integer(1, 1000)),
    Field::optional("statusReportingScope", OneOf(&["ClusterScopeOnly", "NamespaceAccessible"])),
];

const STRATEGY: &[Field] = &[
    Field::optional("type", OneOf(&["RollingUpdate", "External"])),
    Field::optional("rollingUpdate", RollingUpdate::SHAPE),
    Field::optional("applyStrategy", ApplyStrategy::SHAPE),
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
