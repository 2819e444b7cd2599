//! The fields of `ManifestWork` and `ManifestWorkReplicaSet` that the dialect reads.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::schema::{Schema as _, Shape};

use super::INT32;

use Shape::{Any, Integer, List, OneOf, Text};

federate_kubernetes::crd! {
    /// The `spec` of a `ManifestWorkReplicaSet`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ReplicaSetSpec {
        pub template: WorkSpec = optional("manifestWorkTemplate"),
        pub placements: Vec<PlacementReference> = required("placementRefs", List(1, &PlacementReference::SHAPE)),
    }
    unread {
        optional("cascadeDeletionPolicy", OneOf(&["Background", "Foreground"])),
    }
}

federate_kubernetes::crd! {
    /// A placement whose clusters get the work.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PlacementReference {
        pub name: String = required("name"),
        pub strategy: RolloutStrategy = optional("rolloutStrategy"),
    }
}

federate_kubernetes::crd! {
    /// How a change reaches the clusters of a placement.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct RolloutStrategy {
        /// `All` if absent.
        pub kind: String = optional("type", OneOf(&["All", "Progressive", "ProgressivePerGroup"])),
        pub all: RolloutConfig = optional("all"),
        pub progressive: RolloutConfig = optional("progressive"),
        pub per_group: RolloutConfig = optional("progressivePerGroup"),
    }
}

federate_kubernetes::crd! {
    /// The settings of a rollout. Not each strategy has all of them.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct RolloutConfig {
        /// How long a cluster must have succeeded.
        pub min_success_time: Value = optional("minSuccessTime"),
        /// After which time a cluster without success has failed; `None` for never.
        pub progress_deadline: String = optional("progressDeadline"),
        pub max_failures: Value = optional("maxFailures"),
        pub max_concurrency: Value = optional("maxConcurrency"),
        pub mandatory: Vec<MandatoryGroup> = optional("mandatoryDecisionGroups"),
    }
}

federate_kubernetes::crd! {
    /// A decision group that must succeed before others begin.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct MandatoryGroup {
        pub name: String = optional("groupName"),
        pub index: i64 = optional("groupIndex", INT32),
    }
}

federate_kubernetes::crd! {
    /// The `spec` of a `ManifestWork`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct WorkSpec {
        pub workload: Workload = optional("workload"),
        pub delete_option: DeleteOption = optional("deleteOption"),
        pub configs: Vec<ManifestConfig> = optional("manifestConfigs"),
    }
    unread {
        optional("executor", Executor::SHAPE),
    }
}

federate_kubernetes::crd! {
    /// The manifests of a work.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct Workload {
        pub manifests: Vec<Value> = optional("manifests"),
    }
}

federate_kubernetes::crd! {
    /// What happens to objects when their work goes.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct DeleteOption {
        /// `Foreground` if absent.
        pub policy: String = optional("propagationPolicy", OneOf(&["Foreground", "Orphan", "SelectivelyOrphan"])),
        pub selective: SelectivelyOrphan = optional("selectivelyOrphans"),
    }
    unread {
        optional("ttlSecondsAfterFinished", Integer(i64::MIN, i64::MAX)),
    }
}

federate_kubernetes::crd! {
    /// The objects that stay.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct SelectivelyOrphan {
        pub rules: Vec<OrphaningRule> = optional("orphaningRules"),
    }
}

federate_kubernetes::crd! {
    /// An object that stays.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct OrphaningRule {
        pub group: String = optional("group"),
        pub resource: String = required("resource"),
        pub namespace: String = optional("namespace"),
        pub name: String = required("name"),
    }
}

federate_kubernetes::crd! {
    /// How one manifest, or several, are applied.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ManifestConfig {
        pub resource: ResourceIdentifier = required("resourceIdentifier"),
        pub strategy: Option<UpdateStrategy> = optional("updateStrategy"),
        pub conditions: Vec<ConditionRule> = optional("conditionRules"),
    }
    unread {
        optional("feedbackRules", List(0, &Any)),
        optional("feedbackScrapeType", OneOf(&["Poll", "Watch"])),
    }
}

federate_kubernetes::crd! {
    /// Names manifests; `*` stands for any text in names and namespaces.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ResourceIdentifier {
        pub group: String = optional("group"),
        pub resource: String = required("resource"),
        pub namespace: String = optional("namespace"),
        pub name: String = required("name"),
    }
}

federate_kubernetes::crd! {
    /// How a manifest is applied.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct UpdateStrategy {
        /// `Update` if absent.
        pub kind: String = optional("type", OneOf(&["Update", "CreateOnly", "ServerSideApply", "ReadOnly"])),
        pub server_side: ServerSideApply = optional("serverSideApply"),
    }
}

federate_kubernetes::crd! {
    /// The settings of server-side apply.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ServerSideApply {
        pub force: bool = optional("force"),
        /// `work-agent` if absent.
        pub field_manager: String = optional("fieldManager"),
        pub ignored: Vec<IgnoreField> = optional("ignoreFields"),
    }
}

federate_kubernetes::crd! {
    /// Fields that are not sent again.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct IgnoreField {
        /// `OnSpokePresent` if absent.
        pub condition: String = optional("condition", OneOf(&["OnSpokePresent", "OnSpokeChange"])),
        pub json_paths: Vec<String> = optional("jsonPaths"),
        pub json_pointers: Vec<String> = optional("jsonPointers"),
        pub jq_paths: Vec<String> = optional("jqPathExpressions"),
    }
}

federate_kubernetes::crd! {
    /// When an object has a condition.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ConditionRule {
        pub condition: String = optional("condition"),
        pub kind: String = required("type", OneOf(&["WellKnownConditions", "CEL"])),
        /// All of them must be true.
        pub expressions: Vec<String> = optional("celExpressions"),
    }
    unread {
        optional("message", Text),
        optional("messageExpression", Text),
    }
}

federate_kubernetes::crd! {
    /// With whose rights the agent applies the manifests.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct Executor {
        pub subject: Option<ExecutorSubject> = optional("subject"),
    }
}

federate_kubernetes::crd! {
    /// The subject whose rights count.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ExecutorSubject {
        pub kind: String = required("type", OneOf(&["ServiceAccount"])),
        pub account: Option<ServiceAccount> = optional("serviceAccount"),
    }
}

federate_kubernetes::crd! {
    /// A service account of the member.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ServiceAccount {
        pub namespace: String = required("namespace"),
        pub name: String = required("name"),
    }
}
