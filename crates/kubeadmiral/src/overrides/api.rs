//! `spec` of an `OverridePolicy` or `ClusterOverridePolicy`.

use serde::Deserialize;
use serde_json::Value;

use super::super::api::PolicyAffinityTerm;
use federate_kubernetes::Labels;
use federate_kubernetes::schema::{Field, Shape};

const CHANGE_OPERATORS: Shape = Shape::OneOf(&["addIfAbsent", "overwrite", "delete"]);

/// A variable. `valueFrom` is validated when the container is read.
const ENV_VAR: Shape = Shape::Object(&[&[
    Field::required("name", Shape::Text),
    Field::optional("value", Shape::Text),
    Field::optional("valueFrom", Shape::Any),
]]);

federate_kubernetes::crd! {
    /// The rules, in order.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(in super::super) struct OverrideSpec {
        pub(in super::super) override_rules: Vec<OverrideRule> = optional("overrideRules"),
    }
}

federate_kubernetes::crd! {
    /// One rule: the changes for some clusters.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(in super::super) struct OverrideRule {
        /// All clusters when absent.
        pub(super) target_clusters: Option<TargetClusters> = optional("targetClusters"),
        pub(super) overriders: Option<Overriders> = optional("overriders"),
    }
}

federate_kubernetes::crd! {
    /// Selects clusters. All given parts must match.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct TargetClusters {
        pub(super) clusters: Vec<String> = optional("clusters"),
        pub(super) cluster_selector: Labels = optional("clusterSelector"),
        pub(super) cluster_affinity: Vec<PolicyAffinityTerm> = optional("clusterAffinity"),
    }
}

federate_kubernetes::crd! {
    /// The changes, by type.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct Overriders {
        pub(super) image: Vec<ImageOverrider> = optional("image"),
        pub(super) command: Vec<CommandOverrider> = optional("command"),
        pub(super) args: Vec<CommandOverrider> = optional("args"),
        pub(super) envs: Vec<EnvOverrider> = optional("envs"),
        pub(super) annotations: Vec<MapOverrider> = optional("annotations"),
        pub(super) labels: Vec<MapOverrider> = optional("labels"),
        pub(super) jsonpatch: Vec<PatchOverrider> = optional("jsonpatch"),
    }
}

federate_kubernetes::crd! {
    /// Changes parts of image references: of the named containers, of all containers, or at a path.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ImageOverrider {
        pub(super) container_names: Vec<String> = optional("containerNames"),
        pub(super) image_path: String = optional("imagePath"),
        pub(super) operations: Vec<ImageOperation> = required("operations"),
    }
}

federate_kubernetes::crd! {
    /// A change of one part of an image reference.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct ImageOperation {
        /// `Registry`, `Repository`, `Tag` or `Digest`.
        pub(super) image_component: String = required("imageComponent", Shape::OneOf(&["Registry", "Repository", "Tag", "Digest"])),
        /// `overwrite` (also when absent), `addIfAbsent` or `delete`.
        pub(super) operator: String = optional("operator", CHANGE_OPERATORS),
        pub(super) value: String = optional("value"),
    }
}

federate_kubernetes::crd! {
    /// Changes a container's command or arguments.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct CommandOverrider {
        pub(super) container_name: String = required("containerName"),
        /// `append`, `overwrite` or `delete`.
        pub(super) operator: String = optional("operator", Shape::OneOf(&["append", "overwrite", "delete"])),
        pub(super) value: Option<Vec<String>> = required("value"),
    }
}

federate_kubernetes::crd! {
    /// Changes a container's environment.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct EnvOverrider {
        pub(super) container_name: String = required("containerName"),
        /// `overwrite` (also when absent), `addIfAbsent` or `delete`.
        pub(super) operator: String = optional("operator", CHANGE_OPERATORS),
        pub(super) value: Vec<k8s_openapi::api::core::v1::EnvVar> = required("value", Shape::List(0, &ENV_VAR)),
    }
}

federate_kubernetes::crd! {
    /// Changes labels or annotations.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct MapOverrider {
        /// `overwrite` (also when absent), `addIfAbsent` or `delete`.
        pub(super) operator: String = optional("operator", CHANGE_OPERATORS),
        pub(super) value: Labels = required("value"),
    }
}

federate_kubernetes::crd! {
    /// An operation of a JSON patch.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(super) struct PatchOverrider {
        /// `replace` when absent.
        pub(super) operator: String = optional("operator"),
        pub(super) path: String = required("path"),
        pub(super) value: Value = optional("value"),
    }
}
