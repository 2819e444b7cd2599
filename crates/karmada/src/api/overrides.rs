//! `OverridePolicy` and `ClusterOverridePolicy`.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::schema::Shape;
use federate_kubernetes::{Labels, crd};

use super::{KarmadaClusterAffinity, KarmadaResourceSelector};

const OPERATOR: Shape = Shape::OneOf(&["add", "remove", "replace"]);

crd! {
    /// `spec` of `OverridePolicy` and `ClusterOverridePolicy`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KarmadaOverrideSpec {
        pub resource_selectors: Vec<KarmadaResourceSelector> = optional("resourceSelectors"),
        pub override_rules: Vec<RuleWithCluster> = optional("overrideRules"),
        /// The old form: with `overriders` one rule, used when `overrideRules` is empty.
        pub target_cluster: Option<KarmadaClusterAffinity> = optional("targetCluster"),
        pub overriders: KarmadaOverriders = optional("overriders"),
    }
}

crd! {
    /// What is overridden in which clusters.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct RuleWithCluster {
        pub target_cluster: Option<KarmadaClusterAffinity> = optional("targetCluster"),
        pub overriders: KarmadaOverriders = required("overriders"),
    }
}

crd! {
    /// The overriders of one rule.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KarmadaOverriders {
        pub plaintext: Vec<PlaintextOverrider> = optional("plaintext"),
        pub image_overrider: Vec<KarmadaImageOverrider> = optional("imageOverrider"),
        pub command_overrider: Vec<ListOverrider> = optional("commandOverrider"),
        pub args_overrider: Vec<ListOverrider> = optional("argsOverrider"),
        pub labels_overrider: Vec<KarmadaMapOverrider> = optional("labelsOverrider"),
        pub annotations_overrider: Vec<KarmadaMapOverrider> = optional("annotationsOverrider"),
        pub field_overrider: Vec<FieldOverrider> = optional("fieldOverrider"),
    }
}

crd! {
    /// One operation of a JSON patch.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PlaintextOverrider {
        pub path: String = required("path"),
        pub operator: String = required("operator", OPERATOR),
        pub value: Option<Value> = optional("value"),
    }
}

crd! {
    /// One change of a part of image references.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KarmadaImageOverrider {
        pub predicate: Option<ImagePredicate> = optional("predicate"),
        pub component: String = required("component", Shape::OneOf(&["Registry", "Repository", "Tag"])),
        pub operator: String = required("operator", OPERATOR),
        pub value: String = optional("value"),
    }
}

crd! {
    /// Where the image reference is.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ImagePredicate {
        pub path: String = required("path"),
    }
}

crd! {
    /// `commandOverrider` and `argsOverrider`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ListOverrider {
        pub container_name: String = required("containerName"),
        pub operator: String = required("operator", Shape::OneOf(&["add", "remove"])),
        pub value: Vec<String> = optional("value"),
    }
}

crd! {
    /// `labelsOverrider` and `annotationsOverrider`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KarmadaMapOverrider {
        pub operator: String = required("operator", OPERATOR),
        pub value: Labels = required("value"),
    }
}

crd! {
    /// Operations inside the text of one field.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct FieldOverrider {
        pub field_path: String = required("fieldPath"),
        pub json: Vec<FieldPatch> = optional("json"),
        pub yaml: Vec<FieldPatch> = optional("yaml"),
    }
}

crd! {
    /// One operation inside the text of a field.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct FieldPatch {
        pub sub_path: String = required("subPath"),
        pub operator: String = required("operator", OPERATOR),
        pub value: Option<Value> = optional("value"),
    }
}
