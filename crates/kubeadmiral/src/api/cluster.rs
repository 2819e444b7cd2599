//! `FederatedCluster`. How the control plane connects to it is not required, because an inventory in git may lack it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::crd;
use federate_kubernetes::schema::{Field, Shape};

use Shape::{Bool, Map, Object, Quantity, Text};

crd! {
    /// `spec` of a `FederatedCluster`.
    #[derive(Default, Deserialize)]
    pub(crate) struct FederatedClusterSpec {
        pub(crate) taints: Vec<FederatedClusterTaint> = optional("taints"),
    }
    unread {
        optional("apiEndpoint", Text),
        optional("insecure", Bool),
        optional("secretRef", Object(&[&[Field::optional("name", Text)]])),
        optional("useServiceAccount", Bool),
    }
}

crd! {
    /// A taint of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct FederatedClusterTaint {
        pub(crate) key: String = required("key"),
        pub(crate) value: String = optional("value"),
        pub(crate) effect: String = required("effect"),
    }
    unread {
        optional("timeAdded", Text),
    }
}

crd! {
    /// `status` of a `FederatedCluster`.
    #[derive(Default, Deserialize)]
    pub(crate) struct FederatedClusterStatus {
        pub(crate) api_resource_types: Vec<ListedApiType> = optional("apiResourceTypes"),
        pub(crate) conditions: Vec<FederatedClusterCondition> = optional("conditions"),
        pub(crate) resources: Option<FederatedClusterResources> = optional("resources"),
    }
    unread {
        optional("joinPerformed", Bool),
    }
}

impl FederatedClusterStatus {
    /// Whether the condition of this type is `True`.
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.conditions.iter().any(|c| c.kind == kind && c.status == "True")
    }
}

crd! {
    /// A kind that a cluster serves.
    #[derive(Default, Deserialize)]
    pub(crate) struct ListedApiType {
        pub(crate) group: String = optional("group"),
        pub(crate) version: String = required("version"),
        pub(crate) kind: String = required("kind"),
    }
    unread {
        optional("pluralName", Text),
        optional("scope", Text),
    }
}

crd! {
    /// A condition of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct FederatedClusterCondition {
        pub(crate) kind: String = required("type"),
        pub(crate) status: String = required("status"),
    }
    unread {
        optional("reason", Text),
        optional("message", Text),
        optional("lastProbeTime", Text),
        optional("lastTransitionTime", Text),
    }
}

crd! {
    /// The resources of the schedulable nodes of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct FederatedClusterResources {
        pub(crate) allocatable: BTreeMap<String, Value> = optional("allocatable", Map(&Quantity)),
        pub(crate) available: BTreeMap<String, Value> = optional("available", Map(&Quantity)),
    }
    unread {
        optional("schedulableNodes", Shape::Integer(i64::MIN, i64::MAX)),
    }
}
