//! The shapes of whole objects, and of the kinds whose fields are read one by one.

use federate_kubernetes::schema::{Field, Schema, Shape};

use crate::api::{ClusterSpec, ClusterStatus, OverrideSpec, PropagationSpec};
use Shape::{Any, Filled, List, Object, Text};

const HEAD: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

/// `PropagationPolicy` and `ClusterPropagationPolicy`.
pub(super) const PROPAGATION: Shape = Object(&[HEAD, &[Field::required("spec", PropagationSpec::SHAPE)]]);

/// `OverridePolicy` and `ClusterOverridePolicy`.
pub(super) const OVERRIDE: Shape = Object(&[HEAD, &[Field::required("spec", OverrideSpec::SHAPE)]]);

/// `Cluster`.
pub(super) const CLUSTER: Shape = Object(&[
    HEAD,
    &[Field::optional("spec", ClusterSpec::SHAPE), Field::optional("status", ClusterStatus::SHAPE)],
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

const REBALANCER_SPEC: &[Field] = &[
    Field::optional("ttlSecondsAfterFinished", i32::SHAPE),
    Field::required("workloads", List(1, &Object(&[WORKLOAD]))),
];

const WORKLOAD: &[Field] = &[
    Field::required("apiVersion", Text),
    Field::required("kind", Text),
    Field::required("name", Text),
    Field::optional("namespace", Text),
];
