//! `FederatedTypeConfig`.

use serde::Deserialize;

use federate_kubernetes::crd;
use federate_kubernetes::schema::Shape;

use Shape::{Any, Text};

crd! {
    /// `spec` of a `FederatedTypeConfig`.
    #[derive(Default, Deserialize)]
    pub(crate) struct KubeAdmiralTypeConfigSpec {
        pub(crate) source_type: SourceType = required("sourceType"),
        pub(crate) path_definition: TypeConfigPaths = optional("pathDefinition"),
        /// Groups of controllers, in the order in which they act.
        pub(crate) controllers: Vec<Vec<String>> = optional("controllers"),
        pub(crate) auto_migration: TypeMigration = optional("autoMigration"),
    }
    unread {
        optional("statusAggregation", Any),
        optional("statusCollection", Any),
    }
}

crd! {
    /// Whether replicas of the kind are migrated.
    #[derive(Default, Deserialize)]
    pub(crate) struct TypeMigration {
        pub(crate) enabled: bool = optional("enabled"),
    }
}

crd! {
    /// The kind that is federated.
    #[derive(Default, Deserialize)]
    pub(crate) struct SourceType {
        pub(crate) group: String = optional("group"),
        pub(crate) version: String = required("version"),
        pub(crate) kind: String = required("kind"),
    }
    unread {
        required("pluralName", Text),
        required("scope", Text),
    }
}

crd! {
    /// The places of fields, as dotted paths.
    #[derive(Default, Deserialize)]
    pub(crate) struct TypeConfigPaths {
        pub(crate) replicas_spec: String = optional("replicasSpec"),
    }
    unread {
        optional("availableReplicasStatus", Text),
        optional("labelSelector", Text),
        optional("readyReplicasStatus", Text),
        optional("replicasStatus", Text),
    }
}
