//! The definitions of the dialect's objects. What the dialect reads of them is declared where it is read: in `api`,
//! `selection::api`, `overrides::api`, `rollout::api` and `member::strategy`.

use crate::api::{MemberClusterSpec, MemberClusterStatus, PlacementPolicy};
use crate::member::ApplyStrategy;
use crate::overrides::api::{KubeFleetOverrideSpec, ObjectSelector};
use crate::rollout::api::RollingUpdate;
use crate::selection::api::ResourceSelectorTerm;
use federate_dialect::stages::StagedSpec;
use federate_kubernetes::schema::{Field, Schema, Shape};

use Shape::{Any, Integer, List, Object, OneOf, Text};

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
            KubeFleetOverrideSpec::FIELDS,
            &[Field::required("clusterResourceSelectors", List(1, &ResourceSelectorTerm::SHAPE))],
        ]),
    )],
]);

/// `ResourceOverride`.
pub(super) const OVERRIDE: Shape = Object(&[
    HEAD,
    &[Field::required(
        "spec",
        Object(&[
            KubeFleetOverrideSpec::FIELDS,
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
    Field::optional("spec", MemberClusterSpec::SHAPE),
    Field::optional("status", MemberClusterStatus::SHAPE),
]]);

const PLACEMENT_SPEC: &[Field] = &[
    Field::required("resourceSelectors", List(1, &ResourceSelectorTerm::SHAPE)),
    Field::optional("policy", PlacementPolicy::SHAPE),
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
