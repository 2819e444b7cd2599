//! The shapes of whole objects, and of the kinds whose fields are read one by one.

use federate_kubernetes::schema::{Field, Schema, Shape};

use crate::api::{KarmadaClusterSpec, KarmadaClusterStatus, KarmadaOverrideSpec, PropagationSpec};
use crate::failover::TaintPolicySpec;
use crate::rebalancers::RebalancerSpec;
use Shape::{Any, Filled, Object, Text};

const HEAD: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

/// `PropagationPolicy` and `ClusterPropagationPolicy`.
pub(super) const PROPAGATION: Shape = Object(&[HEAD, &[Field::required("spec", PropagationSpec::SHAPE)]]);

/// `OverridePolicy` and `ClusterOverridePolicy`.
pub(super) const OVERRIDE: Shape = Object(&[HEAD, &[Field::required("spec", KarmadaOverrideSpec::SHAPE)]]);

/// `Cluster`.
pub(super) const CLUSTER: Shape = Object(&[
    HEAD,
    &[
        Field::optional("spec", KarmadaClusterSpec::SHAPE),
        Field::optional("status", KarmadaClusterStatus::SHAPE),
    ],
]);

/// `ClusterTaintPolicy`.
pub(super) const TAINT_POLICY: Shape = Object(&[HEAD, &[Field::required("spec", TaintPolicySpec::SHAPE)]]);

/// `WorkloadRebalancer`.
pub(super) const REBALANCER: Shape =
    Object(&[HEAD, &[Field::required("spec", RebalancerSpec::SHAPE), Field::optional("status", Any)]]);

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
