//! The definitions of `KubeFed`'s objects. What the dialect reads of them is declared in `api`. Connection details
//! are not required here.

use crate::api::{
    ConfigSpec, Domain, FederatedSpec, IngressRecordSpec, KubeFedClusterStatus, KubeFedTypeConfigSpec,
    PreferenceSpec, ServiceRecordSpec,
};
use federate_kubernetes::schema::{Field, Schema, Shape};

use Shape::{Any, Filled, List, Map, Object, OneOf, Text};

const ANY_MAP: Shape = Map(&Any);

const HEAD: &[Field] = &[
    Field::optional("apiVersion", Text),
    Field::optional("kind", Text),
    Field::optional("metadata", Any),
    Field::optional("status", Any),
];

/// Every federated kind.
pub(super) const FEDERATED: Shape = Object(&[HEAD, &[Field::optional("spec", FederatedSpec::SHAPE)]]);

/// `ReplicaSchedulingPreference`.
pub(super) const PREFERENCE: Shape = Object(&[HEAD, &[Field::required("spec", PreferenceSpec::SHAPE)]]);

/// `KubeFedCluster`.
pub(super) const CLUSTER: Shape = Object(&[
    HEAD_WITHOUT_STATUS,
    &[
        Field::optional("spec", Object(&[CLUSTER_SPEC])),
        Field::optional("status", KubeFedClusterStatus::SHAPE),
    ],
]);

/// Federation v1's `Cluster`.
pub(super) const V1_CLUSTER: Shape = Object(&[
    HEAD_WITHOUT_STATUS,
    &[Field::optional("spec", ANY_MAP), Field::optional("status", KubeFedClusterStatus::SHAPE)],
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

/// `FederatedTypeConfig`.
pub(super) const TYPE_CONFIG: Shape =
    Object(&[HEAD, &[Field::required("spec", KubeFedTypeConfigSpec::SHAPE)]]);

/// `KubeFedConfig`.
pub(super) const CONFIG: Shape = Object(&[HEAD, &[Field::required("spec", ConfigSpec::SHAPE)]]);

/// `Domain`.
pub(super) const DOMAIN: Shape = Object(&[HEAD, Domain::FIELDS]);

/// `ServiceDNSRecord`.
pub(super) const SERVICE_RECORD: Shape =
    Object(&[HEAD, &[Field::required("spec", ServiceRecordSpec::SHAPE)]]);

/// `IngressDNSRecord`.
pub(super) const INGRESS_RECORD: Shape =
    Object(&[HEAD, &[Field::optional("spec", IngressRecordSpec::SHAPE)]]);
