//! `Cluster`. `syncMode` and the Secrets say how Karmada reaches a cluster: rendering does not need
//! them, so they are not required of an inventory that is kept in git.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::crd;
use federate_kubernetes::schema::{Field, Shape};

use Shape::{Any, Bool, Filled, List, Map, Object, OneOf, Text};

crd! {
    /// `spec` of a `Cluster`.
    #[derive(Default, Deserialize)]
    pub(crate) struct KarmadaClusterSpec {
        pub provider: String = optional("provider"),
        pub region: String = optional("region"),
        pub zone: String = optional("zone"),
        pub zones: Vec<String> = optional("zones"),
        pub taints: Vec<KarmadaTaint> = optional("taints"),
        pub resource_models: Vec<ResourceModel> = optional("resourceModels"),
    }
    unread {
        optional("id", Text),
        optional("syncMode", OneOf(&["Push", "Pull"])),
        optional("apiEndpoint", Text),
        optional("secretRef", SECRET),
        optional("impersonatorSecretRef", SECRET),
        optional("insecureSkipTLSVerification", Bool),
        optional("proxyURL", Text),
        optional("proxyHeader", Map(&Text)),
    }
}

const SECRET: Shape = Object(&[&[Field::required("namespace", Filled), Field::required("name", Filled)]]);

crd! {
    /// A taint of a cluster.
    #[derive(Default, Deserialize)]
    pub(crate) struct KarmadaTaint {
        pub key: String = required("key", Filled),
        pub value: String = optional("value"),
        pub effect: String = required("effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
    }
    unread {
        optional("timeAdded", Text),
    }
}

crd! {
    /// A grade of nodes: between which amounts of each resource they have.
    #[derive(Clone, Default, Deserialize)]
    pub(crate) struct ResourceModel {
        pub grade: u64 = required("grade"),
        pub ranges: Vec<ResourceRange> = required("ranges"),
    }
}

crd! {
    /// The range of one resource.
    #[derive(Clone, Default, Deserialize)]
    pub(crate) struct ResourceRange {
        pub name: String = required("name"),
        pub min: Value = required("min", Shape::Quantity),
    }
    unread {
        required("max", Shape::Quantity),
    }
}

crd! {
    /// `status` of a `Cluster`.
    #[derive(Default, Deserialize)]
    pub(crate) struct KarmadaClusterStatus {
        pub api_enablements: Vec<ApiEnablement> = optional("apiEnablements"),
        pub conditions: Vec<UntypedCondition> = optional("conditions", Any),
        pub resource_summary: Option<ResourceSummary> = optional("resourceSummary"),
    }
    unread {
        optional("kubernetesVersion", Text),
        optional("nodeSummary", Any),
        optional("remedyActions", List(0, &Text)),
    }
}

crd! {
    /// A condition: read whatever its fields are.
    #[derive(Default, Deserialize)]
    pub(crate) struct UntypedCondition {
        pub r#type: Value = optional("type"),
        pub status: Value = optional("status"),
    }
}

crd! {
    /// The kinds of one API group and version that a cluster serves.
    #[derive(Default, Deserialize)]
    pub(crate) struct ApiEnablement {
        pub group_version: String = required("groupVersion"),
        pub resources: Vec<KarmadaApiResource> = optional("resources"),
    }
}

crd! {
    /// One kind.
    #[derive(Default, Deserialize)]
    pub(crate) struct KarmadaApiResource {
        pub kind: String = required("kind"),
    }
    unread {
        optional("name", Text),
    }
}

const QUANTITIES: Shape = Map(&Shape::Quantity);

crd! {
    /// What a cluster has and what is taken of it.
    #[derive(Default, Deserialize)]
    pub(crate) struct ResourceSummary {
        pub allocatable: BTreeMap<String, Value> = optional("allocatable", QUANTITIES),
        pub allocated: BTreeMap<String, Value> = optional("allocated", QUANTITIES),
        pub allocating: BTreeMap<String, Value> = optional("allocating", QUANTITIES),
        pub allocatable_modelings: Vec<AllocatableModeling> = optional("allocatableModelings"),
    }
}

crd! {
    /// How many nodes are of a grade.
    #[derive(Default, Deserialize)]
    pub(crate) struct AllocatableModeling {
        pub grade: u64 = required("grade"),
        pub count: i64 = required("count"),
    }
}
