//! The definitions of `KubeFed`'s objects. What the dialect reads of them is declared in `api`. Connection details
//! are not required here.

use crate::api::{ConfigSpec, FederatedSpec, PreferenceSpec, TypeConfigSpec};
use federate_kubernetes::schema::{Field, Schema, Shape};

use Shape::{Any, Bool, Filled, Integer, List, Map, Object, OneOf, Text};

const INT64: Shape = Integer(i64::MIN, i64::MAX);
const TEXTS: Shape = List(0, &Text);
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
pub(super) const TYPE_CONFIG: Shape = Object(&[HEAD, &[Field::required("spec", TypeConfigSpec::SHAPE)]]);

/// `KubeFedConfig`.
pub(super) const CONFIG: Shape = Object(&[HEAD, &[Field::required("spec", ConfigSpec::SHAPE)]]);

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
