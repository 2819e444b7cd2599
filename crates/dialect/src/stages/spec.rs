//! The fields of update strategies.
//!
//! Facts: `StagedUpdateStrategy` and `ClusterStagedUpdateStrategy` of `placement.kubernetes-fleet.io/v1beta1`.

use serde::Deserialize;

use super::ClusterAmount;
use federate_kubernetes::schema::Shape;
use federate_kubernetes::selector::LabelSelector;

federate_kubernetes::crd! {
    /// A `StagedUpdateStrategy` or `ClusterStagedUpdateStrategy`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub struct StagedSpec {
        /// The stages, in order.
        pub stages: Vec<StageSpec> = optional("stages"),
    }
}

federate_kubernetes::crd! {
    /// A stage of an update run.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub struct StageSpec {
        /// Its name.
        pub name: String = required("name"),
        /// Selects its clusters; absent: none.
        pub label_selector: Option<LabelSelector> = optional("labelSelector"),
        /// The label that sorts them.
        pub sorting_label_key: Option<String> = optional("sortingLabelKey"),
        /// How many clusters are updated at a time.
        pub max_concurrency: Option<ClusterAmount> = optional("maxConcurrency"),
        /// The tasks before the stage.
        pub before_stage_tasks: Vec<UpdateStageTask> = optional("beforeStageTasks"),
        /// The tasks after the stage.
        pub after_stage_tasks: Vec<UpdateStageTask> = optional("afterStageTasks"),
    }
}

federate_kubernetes::crd! {
    /// A task before or after a stage.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub struct UpdateStageTask {
        /// `Approval` or `TimedWait`.
        pub kind: String = required("type", Shape::OneOf(&["Approval", "TimedWait"])),
        /// How long a `TimedWait` takes, as a Go duration.
        pub wait_time: Option<String> = optional("waitTime"),
    }
}
