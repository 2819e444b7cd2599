//! `KubeFed`'s objects as its Go types read them: absent, `null` and empty are equal where they are in Go.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use federate_kubernetes::schema::{self, Field, Schema, Shape};
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Object};

const ANY_MAP: Shape = Shape::Map(&Shape::Any);
const SCOPE: Shape = Shape::OneOf(&["Cluster", "Namespaced"]);
const SWITCH: Shape = Shape::OneOf(&["Enabled", "Disabled"]);

federate_kubernetes::crd! {
    /// The `spec` of a federated object, without its template.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct FederatedSpec {
        pub placement: PlacementSpec = optional("placement"),
        pub overrides: Vec<ClusterOverrides> = optional("overrides"),
    }
    unread {
        optional("template", ANY_MAP),
        optional("retainReplicas", Shape::Bool),
    }
}

federate_kubernetes::crd! {
    /// The placement of a federated object: by names if there is a list, even an empty one, else by labels.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct PlacementSpec {
        pub clusters: Option<Vec<ClusterReference>> = optional("clusters"),
        pub cluster_selector: Option<LabelSelector> = optional("clusterSelector"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ClusterReference {
        pub name: String = required("name"),
    }
}

federate_kubernetes::crd! {
    /// The overrides for one cluster.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ClusterOverrides {
        pub cluster_name: String = optional("clusterName"),
        pub cluster_overrides: Vec<OverrideOperation> = optional("clusterOverrides"),
    }
}

federate_kubernetes::crd! {
    /// One operation of a JSON patch.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(super) struct OverrideOperation {
        pub op: String = optional("op"),
        pub path: String = required("path"),
        pub value: Option<Value> = optional("value"),
    }
}

federate_kubernetes::crd! {
    /// `spec` of a `ReplicaSchedulingPreference`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct PreferenceSpec {
        pub target_kind: String = required("targetKind"),
        pub total_replicas: i64 = required("totalReplicas", i32::SHAPE),
        pub rebalance: bool = optional("rebalance"),
        pub intersect_with_cluster_selector: bool = optional("intersectWithClusterSelector"),
        pub clusters: BTreeMap<String, ClusterPreference> = optional("clusters"),
    }
}

federate_kubernetes::crd! {
    /// The preferences for one cluster.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
    pub(super) struct ClusterPreference {
        pub weight: i64 = optional("weight"),
        pub min_replicas: i64 = optional("minReplicas"),
        pub max_replicas: Option<i64> = optional("maxReplicas"),
    }
}

federate_kubernetes::crd! {
    /// `spec` of a `KubeFedConfig`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ConfigSpec {
        pub scope: String = required("scope", SCOPE),
        pub feature_gates: Vec<FeatureGate> = optional("featureGates"),
        pub sync_controller: SyncController = optional("syncController", ANY_MAP),
    }
    unread {
        optional("controllerDuration", ANY_MAP),
        optional("leaderElect", ANY_MAP),
        optional("clusterHealthCheck", ANY_MAP),
        optional("statusController", ANY_MAP),
    }
}

impl ConfigSpec {
    /// Whether a feature is enabled, which it is unless its gate is `Disabled`.
    pub(super) fn is_enabled(&self, feature: &str) -> bool {
        !self.feature_gates.iter().any(|gate| gate.name == feature && gate.configuration == "Disabled")
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct SyncController {
        pub adopt_resources: String = optional("adoptResources"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct FeatureGate {
        pub name: String = required("name", Shape::OneOf(&["PushReconciler", "SchedulerPreferences", "RawResourceStatusCollection", "CrossClusterServiceDiscovery", "FederatedIngress"])),
        pub configuration: String = required("configuration", SWITCH),
    }
}

federate_kubernetes::crd! {
    /// `spec` of a `FederatedTypeConfig`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct KubeFedTypeConfigSpec {
        pub target_type: ConfiguredApiResource = required("targetType"),
        pub federated_type: ConfiguredApiResource = required("federatedType", Shape::Object(&[&[Field::required("group", Shape::Filled)], ConfiguredApiResource::FIELDS])),
        pub propagation: String = required("propagation", SWITCH),
    }
    unread {
        optional("statusCollection", SWITCH),
        optional("statusType", ConfiguredApiResource::SHAPE),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ConfiguredApiResource {
        pub group: String = optional("group"),
        pub version: String = required("version", Shape::Filled),
        pub kind: String = required("kind", Shape::Filled),
        pub scope: String = required("scope", SCOPE),
    }
    unread {
        optional("pluralName", Shape::Text),
    }
}

federate_kubernetes::crd! {
    /// The `status` of a cluster.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct KubeFedClusterStatus {
        pub conditions: Vec<KubeFedClusterCondition> = optional("conditions", Shape::List(0, &ANY_MAP)),
        pub region: String = optional("region"),
        pub zones: Vec<String> = optional("zones"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct KubeFedClusterCondition {
        pub kind: String = optional("type"),
        pub status: String = optional("status"),
    }
}

federate_kubernetes::crd! {
    /// A `Domain`; its fields are at the top level.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct Domain {
        pub domain: String = required("domain"),
    }
    unread {
        optional("nameServer", Shape::Text),
    }
}

federate_kubernetes::crd! {
    /// `spec` of a `ServiceDNSRecord`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ServiceRecordSpec {
        pub domain_ref: String = required("domainRef"),
        pub record_ttl: i64 = optional("recordTTL"),
        pub dns_prefix: String = optional("dnsPrefix"),
        pub external_name: String = optional("externalName"),
        pub allow_service_without_endpoints: bool = optional("allowServiceWithoutEndpoints"),
    }
}

federate_kubernetes::crd! {
    /// `spec` of an `IngressDNSRecord`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct IngressRecordSpec {
        pub hosts: Vec<String> = optional("hosts"),
        pub record_ttl: i64 = optional("recordTTL"),
    }
}

/// An object's `spec`; one that is absent reads as empty.
pub(super) fn read_spec<T: Default + DeserializeOwned>(object: &Object) -> Result<T, Finding> {
    schema::read_field(object, "spec", "invalid-policy")
}
