//! The fields of a `ManagedCluster` that the dialect reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::schema::Shape;

use super::EFFECTS;

use Shape::{Any, Bool, Filled, Integer, List, Text};

federate_kubernetes::crd! {
    /// The `spec` of a `ManagedCluster`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterSpec {
        pub taints: Vec<ManagedTaint> = optional("taints"),
    }
    unread {
        optional("hubAcceptsClient", Bool),
        optional("leaseDurationSeconds", Integer(i32::MIN as i64, i32::MAX as i64)),
        optional("managedClusterClientConfigs", List(0, &Any)),
    }
}

federate_kubernetes::crd! {
    /// A taint with the time at which it was added.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
    pub(crate) struct ManagedTaint {
        pub key: String = required("key", Filled),
        pub value: String = optional("value"),
        pub effect: String = required("effect", EFFECTS),
        pub time_added: String = optional("timeAdded"),
    }
}

federate_kubernetes::crd! {
    /// The `status` of a `ManagedCluster`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterStatus {
        pub claims: Vec<ClusterClaim> = optional("clusterClaims"),
        pub allocatable: BTreeMap<String, Value> = optional("allocatable", Shape::Map(&Shape::Quantity)),
        pub capacity: BTreeMap<String, Value> = optional("capacity", Shape::Map(&Shape::Quantity)),
        pub version: ClusterVersion = optional("version"),
    }
    unread {
        optional("conditions", List(0, &Any)),
        optional("managedNamespaces", List(0, &Any)),
    }
}

federate_kubernetes::crd! {
    /// What a cluster says of itself.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterClaim {
        pub name: String = optional("name", Text),
        pub value: String = optional("value", Text),
    }
}

federate_kubernetes::crd! {
    /// The versions that a cluster runs.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ClusterVersion {
        pub kubernetes: String = optional("kubernetes"),
    }
}
