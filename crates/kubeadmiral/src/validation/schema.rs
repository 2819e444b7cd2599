//! The definitions of `KubeAdmiral`'s objects; their parts are declared in `api` and `overrides::api`.

use crate::api::{
    FederatedClusterSpec, FederatedClusterStatus, KubeAdmiralTypeConfigSpec, PolicySpec, ProfileSpec,
};
use crate::overrides::api::OverrideSpec;
use federate_kubernetes::schema::{Field, Schema, Shape};

use Shape::{Any, Object, Text};

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
    &[
        Field::optional("spec", FederatedClusterSpec::SHAPE),
        Field::optional("status", FederatedClusterStatus::SHAPE),
    ],
]);

/// `SchedulingProfile`.
pub(super) const PROFILE: Shape = Object(&[HEAD, &[Field::required("spec", ProfileSpec::SHAPE)]]);

/// `FederatedTypeConfig`.
pub(super) const TYPE_CONFIG: Shape = Object(&[
    HEAD,
    &[Field::required("spec", KubeAdmiralTypeConfigSpec::SHAPE), Field::optional("status", Any)],
]);
