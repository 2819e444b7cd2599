//! Rollout across clusters: a new revision reaches one stage of clusters after the other, and waits in between.
//!
//! Fields are those of `KubeFleet`'s `ClusterStagedUpdateStrategy`, for every control plane.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use federate_dialect::stages::{
    self as staged, ClusterAmount, StageRules, UpdateRunFailure, UpdateStage as Clusters,
};
use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use federate_kubernetes::{Cluster, Object};
use federate_repo::Repo;

use crate::Interval;

/// How a revision reaches the clusters.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutSpec {
    /// The stages, one after the other. Each cluster of the inventory is in exactly one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<RolloutStage>,
    /// The `ClusterStagedUpdateStrategy` of the repo that has the stages, instead of `stages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_rollout_strategy_name: Option<String>,
    /// Update the clusters as the placements of the repo ask for, instead of `stages`: by their rolling strategies, and
    /// by update runs. Without `rollout`, only update runs count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_placements: bool,
}

/// A stage of a rollout.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutStage {
    /// Its name.
    pub name: String,
    /// The clusters of the stage, by the labels that they have in the inventory. An empty selector selects all.
    pub label_selector: ClusterLabelSelector,
    /// The label that orders the clusters; its values are whole numbers. Clusters are ordered by name without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sorting_label_key: Option<String>,
    /// How many clusters are updated at a time: a number, or a share of the stage's clusters such as `25%`; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percentage")]
    pub max_concurrency: Option<Value>,
    /// What has to happen before the stage starts: at most one `Approval`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_stage_tasks: Vec<StageTask>,
    /// What has to happen after the stage, before the next one starts: at most one `Approval` and one `TimedWait`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_stage_tasks: Vec<StageTask>,
}

impl RolloutStage {
    /// How long the stage lasts after its last cluster became healthy.
    pub(crate) fn after_stage_wait(&self) -> SignedDuration {
        let waits = self.after_stage_tasks.iter().filter(|task| task.r#type == StageTaskType::TimedWait);
        let waits = waits.filter_map(|task| SignedDuration::try_from(task.wait_time?.0).ok());
        waits.max().unwrap_or_default()
    }
}

/// A selector of clusters by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterLabelSelector {
    /// Labels that a cluster must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorExpression>,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorExpression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl ClusterLabelSelector {
    /// The selector as Kubernetes evaluates it.
    pub fn to_label_selector(&self) -> LabelSelector {
        LabelSelector {
            match_labels: self.match_labels.clone().into_iter().collect(),
            match_expressions: self
                .match_expressions
                .iter()
                .map(|one| SelectorRequirement {
                    key: one.key.clone(),
                    operator: one.operator.clone(),
                    values: one.values.clone(),
                })
                .collect(),
        }
    }
}

/// Something that a rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StageTask {
    /// What it waits for.
    pub r#type: StageTaskType,
    /// How long a `TimedWait` lasts after the last cluster of the stage became healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_time: Option<Interval>,
}

/// What a rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StageTaskType {
    /// Some time.
    TimedWait,
    /// The annotation `federate.dev/approve`.
    Approval,
}

fn count_or_percentage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true})
}

impl RolloutSpec {
    /// The rollout with its stages, which may be in the repo.
    pub fn resolve_stages(&self, repo: &Repo) -> Result<Self, String> {
        let Some(name) = &self.staged_rollout_strategy_name else { return Ok(self.clone()) };
        let mut claimed = repo.claimed.iter().map(|claimed| &claimed.object);
        let found =
            claimed.find(|object| object.id.kind == "ClusterStagedUpdateStrategy" && object.id.name == *name);
        let found = found.ok_or_else(|| format!("the repo has no ClusterStagedUpdateStrategy `{name}`"))?;
        let spec = found.body.get("spec").cloned().unwrap_or_default();
        let rollout: Self = serde_json::from_value(spec)
            .map_err(|error| format!("the ClusterStagedUpdateStrategy `{name}`: {error}"))?;
        rollout.validate().map(|()| rollout)
    }

    /// The clusters of each stage.
    pub fn clusters_by_stage(&self, clusters: &[&Cluster]) -> Result<Vec<Clusters>, UpdateRunFailure> {
        let mut picked = clusters.to_vec();
        picked.sort_by(|a, b| a.name.cmp(&b.name));
        let body = serde_json::json!({"spec": serde_json::to_value(self).unwrap_or_default()});
        let strategy = Object::from_path(
            "placement.kubernetes-fleet.io/v1beta1",
            "ClusterStagedUpdateStrategy",
            "rollout",
            body,
        );
        staged::compute_stages(&strategy, &picked, StageRules::NEWEST)
    }

    /// What is wrong with it, whatever the clusters are.
    pub fn validate(&self) -> Result<(), String> {
        if self.by_placements {
            if self.staged_rollout_strategy_name.is_some() || !self.stages.is_empty() {
                return Err("`byPlacements` takes the place of stages: name one of both".to_owned());
            }
            return Ok(());
        }
        match (&self.staged_rollout_strategy_name, self.stages.is_empty()) {
            (Some(_), true) => return Ok(()),
            (Some(_), false) => {
                return Err("name either `stages` or `stagedRolloutStrategyName`".to_owned());
            }
            (None, true) => return Err("a rollout needs a stage".to_owned()),
            (None, false) => {}
        }
        for (at, stage) in self.stages.iter().enumerate() {
            if stage.name.is_empty() || !stage.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                return Err(format!(
                    "`{}` is not the name of a stage: use letters, digits and `-`",
                    stage.name
                ));
            }
            if self.stages.iter().take(at).any(|other| other.name == stage.name) {
                return Err(format!("there are two stages `{}`", stage.name));
            }
            if stage
                .max_concurrency
                .as_ref()
                .is_some_and(|amount| ClusterAmount::from_value(amount).is_none())
            {
                let name = &stage.name;
                return Err(format!(
                    "`maxConcurrency` of stage `{name}` is neither a number nor a percentage"
                ));
            }
        }
        self.clusters_by_stage(&[]).map(drop).map_err(|failure| failure.to_string())
    }
}
