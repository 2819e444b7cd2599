//! The stages of a rollout across clusters: which clusters each updates, in which order, how many at a time. They are those
//! of `KubeFleet`'s update runs; the sync loop rolls out every dialect by them.
//!
//! Facts: a stage has the picked clusters that its selector matches. Every picked cluster must be in exactly
//! one stage. The label that sorts the clusters must be an integer on each of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use federate_kubernetes::{Cluster, ClusterName, Object, finding};

mod amount;
mod spec;

pub use amount::ClusterAmount;
pub use spec::{StageSpec, StagedSpec, UpdateStageTask};

/// What releases of the control plane know of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRules {
    /// Whether several clusters of a stage are updated at a time.
    pub max_concurrency: bool,
    /// Whether there are tasks before a stage.
    pub before_stage_tasks: bool,
}

impl StageRules {
    /// The rules of the newest release.
    pub const NEWEST: Self = Self { max_concurrency: true, before_stage_tasks: true };
}

/// A stage of an update run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateStage {
    /// Its name.
    pub name: String,
    /// Its clusters, in the order in which they are updated.
    pub clusters: Vec<ClusterName>,
    /// How many clusters are updated at a time.
    pub max_concurrency: i64,
}

/// Why an update run does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateRunFailure {
    /// A strategy that cannot be read.
    #[error("the strategy cannot be read: {0}")]
    Unreadable(String),
    /// An invalid task of a stage.
    #[error("stage `{stage}` has an invalid task: {why}")]
    InvalidStageTask {
        /// The stage.
        stage: String,
        /// Why.
        why: String,
    },
    /// An invalid selector.
    #[error("stage `{stage}` has an invalid label selector: {why}")]
    InvalidLabelSelector {
        /// The stage.
        stage: String,
        /// Why.
        why: String,
    },
    /// A cluster in two stages.
    #[error("cluster `{cluster}` is in stage `{first}` and in stage `{second}`")]
    ClusterInSeveralStages {
        /// The cluster.
        cluster: ClusterName,
        /// The first stage.
        first: String,
        /// The second stage.
        second: String,
    },
    /// A sorting label that is not an integer.
    #[error("stage `{stage}` sorts its clusters by label `{key}`, which is not an integer on `{cluster}`")]
    InvalidSortingLabel {
        /// The stage.
        stage: String,
        /// The label.
        key: String,
        /// The cluster.
        cluster: ClusterName,
    },
    /// Clusters that are in no stage.
    #[error("no stage selects {0}")]
    ClustersMissingFromStages(String),
}

impl UpdateRunFailure {
    /// The code.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "Unreadable",
            Self::InvalidStageTask { .. } => "InvalidStageTask",
            Self::InvalidLabelSelector { .. } => "InvalidLabelSelector",
            Self::ClusterInSeveralStages { .. } => "ClusterInSeveralStages",
            Self::InvalidSortingLabel { .. } => "InvalidSortingLabel",
            Self::ClustersMissingFromStages(_) => "ClustersMissingFromStages",
        }
    }
}

/// The stages of a strategy for the clusters that were picked; `clusters` sorted by name.
pub fn compute_stages(
    strategy: &Object,
    picked: &[&Cluster],
    rules: StageRules,
) -> Result<Vec<UpdateStage>, UpdateRunFailure> {
    let stages = compute_partial_stages(strategy, picked, rules)?;
    let picked = picked.iter().map(|cluster| &cluster.name);
    let missing = picked.filter(|name| !stages.iter().any(|stage| stage.clusters.contains(name)));
    let missing: Vec<&str> = missing.map(AsRef::as_ref).collect();
    if missing.is_empty() {
        Ok(stages)
    } else {
        Err(UpdateRunFailure::ClustersMissingFromStages(finding::join_names(&missing, 3)))
    }
}

/// The stages of a strategy, which may leave out some of the picked clusters.
pub fn compute_partial_stages(
    strategy: &Object,
    picked: &[&Cluster],
    rules: StageRules,
) -> Result<Vec<UpdateStage>, UpdateRunFailure> {
    let spec = strategy.value_at(&["spec"]).map_or(Ok(None), Option::deserialize);
    let spec: StagedSpec = spec.map_err(|e| UpdateRunFailure::Unreadable(e.to_string()))?.unwrap_or_default();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    let mut stages = Vec::with_capacity(spec.stages.len());
    for stage in &spec.stages {
        validate_tasks(stage, rules)
            .map_err(|why| UpdateRunFailure::InvalidStageTask { stage: stage.name.clone(), why })?;
        let mut members = Vec::new();
        for cluster in match_clusters(stage, picked)? {
            if let Some(first) = taken.insert(&cluster.name, &stage.name) {
                return Err(UpdateRunFailure::ClusterInSeveralStages {
                    cluster: cluster.name.clone(),
                    first: first.to_owned(),
                    second: stage.name.clone(),
                });
            }
            members.push((read_sort_key(stage, cluster)?, cluster.name.clone()));
        }
        members.sort();
        let total = i64::try_from(members.len()).unwrap_or(i64::MAX);
        stages.push(UpdateStage {
            name: stage.name.clone(),
            clusters: members.into_iter().map(|(_, name)| name).collect(),
            max_concurrency: stage
                .max_concurrency
                .filter(|_| rules.max_concurrency)
                .map_or(1, |amount| amount.rounded_down(total))
                .max(1),
        });
    }
    Ok(stages)
}

fn match_clusters<'c>(
    stage: &StageSpec,
    picked: &[&'c Cluster],
) -> Result<Vec<&'c Cluster>, UpdateRunFailure> {
    let Some(selector) = &stage.label_selector else { return Ok(Vec::new()) };
    if let Some((_, why)) = selector.find_mistake() {
        return Err(UpdateRunFailure::InvalidLabelSelector { stage: stage.name.clone(), why });
    }
    Ok(picked.iter().copied().filter(|cluster| selector.matches(&cluster.labels)).collect())
}

/// The sort key of a cluster within its stage, before its name.
fn read_sort_key(stage: &StageSpec, cluster: &Cluster) -> Result<i64, UpdateRunFailure> {
    let Some(key) = &stage.sorting_label_key else { return Ok(0) };
    let rank = cluster.labels.get(key).and_then(|value| value.parse().ok());
    rank.ok_or_else(|| UpdateRunFailure::InvalidSortingLabel {
        stage: stage.name.clone(),
        key: key.clone(),
        cluster: cluster.name.clone(),
    })
}

/// Checks the tasks of a stage.
fn validate_tasks(stage: &StageSpec, rules: StageRules) -> Result<(), String> {
    match stage.before_stage_tasks.as_slice() {
        _ if !rules.before_stage_tasks => {}
        [] => {}
        [UpdateStageTask { kind, wait_time: None }] if kind == "Approval" => {}
        [_] => return Err("the task before a stage must be an Approval without `waitTime`".to_owned()),
        _ => return Err("a stage has at most one task before it".to_owned()),
    }
    match stage.after_stage_tasks.as_slice() {
        [] | [_] => {}
        [first, second] if first.kind != second.kind => {}
        [first, _] => return Err(format!("a stage has at most one {} task after it", first.kind)),
        _ => return Err("a stage has at most two tasks after it".to_owned()),
    }
    for UpdateStageTask { kind, wait_time } in &stage.after_stage_tasks {
        match (kind.as_str(), wait_time) {
            ("Approval", None) => {}
            ("Approval", Some(_)) => return Err("an Approval must not have `waitTime`".to_owned()),
            ("TimedWait", Some(time)) if is_positive_duration(time) => {}
            ("TimedWait", _) => {
                return Err("a TimedWait must have a positive `waitTime`, such as `10m`".to_owned());
            }
            (other, _) => return Err(format!("`{other}` is neither Approval nor TimedWait")),
        }
    }
    Ok(())
}

/// Whether a text is a positive Go duration, such as `1h30m` or `1.5s`.
fn is_positive_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut some = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let is_number = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() < 2;
        if !is_number || !matches!(unit, "h" | "m" | "s" | "ms" | "us" | "µs" | "ns") {
            return false;
        }
        some |= number.bytes().any(|b| matches!(b, b'1'..=b'9'));
        rest = after;
    }
    some
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(kind: &str, wait_time: Option<&str>) -> UpdateStageTask {
        UpdateStageTask { kind: kind.into(), wait_time: wait_time.map(Into::into) }
    }

    #[test]
    fn concurrency_and_tasks_before_stages_came_later() {
        let cluster = |name: &str| {
            let body = json!({"metadata": {"name": name}});
            Cluster::from_object(&Object::from_path(
                "cluster.kubernetes-fleet.io/v1",
                "MemberCluster",
                name,
                body,
            ))
        };
        let clusters = ["a", "b", "c"].map(cluster);
        let wait = json!({"type": "TimedWait", "waitTime": "1h"});
        let stages_of = |max_concurrency, before_stage_tasks, before: serde_json::Value| {
            let stage =
                json!({"name": "all", "labelSelector": {}, "maxConcurrency": 2, "beforeStageTasks": before});
            let body = json!({"spec": {"stages": [stage]}});
            let strategy =
                Object::from_path("placement.kubernetes-fleet.io/v1", "StagedUpdateStrategy", "a/s", body);
            let rules = StageRules { max_concurrency, before_stage_tasks };
            compute_stages(&strategy, &clusters.each_ref(), rules).map(|stages| stages[0].max_concurrency)
        };
        assert_eq!(stages_of(false, false, json!([])), Ok(1));
        assert_eq!(stages_of(true, false, json!([wait])), Ok(2));
        assert!(stages_of(true, true, json!([wait])).is_err());
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, is) in [
            ("10m", true),
            ("1h30m", true),
            ("0.5s", true),
            ("0s", false),
            ("", false),
            ("-1m", false),
            ("10", false),
            ("1d", false),
            ("1..5s", false),
            ("m", false),
        ] {
            assert_eq!(is_positive_duration(text), is, "{text}");
        }
    }

    #[test]
    fn stages_wait_for_approvals_and_time() {
        let approval = || task("Approval", None);
        let wait = || task("TimedWait", Some("1h"));
        for (before, after, ok) in [
            (vec![approval()], vec![wait(), approval()], true),
            (vec![wait()], vec![], false),
            (vec![approval(), approval()], vec![], false),
            (vec![], vec![approval(), approval()], false),
            (vec![], vec![task("TimedWait", None)], false),
            (vec![], vec![task("TimedWait", Some("0s"))], false),
            (vec![], vec![task("Sleep", None)], false),
        ] {
            let stage =
                StageSpec { before_stage_tasks: before, after_stage_tasks: after, ..StageSpec::default() };
            assert_eq!(validate_tasks(&stage, StageRules::NEWEST).is_ok(), ok, "{stage:?}");
        }
    }
}
