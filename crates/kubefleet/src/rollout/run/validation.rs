//! The validation of a run before each step, and its current stage.
//!
//! Facts: any difference from what the run was initialized with ends it. Overrides and the strategy are not
//! validated again.

use federate_kubernetes::{Cluster, Object};
use serde_json::json;

use super::initialization::{RunClusters, attempt, check_all_in_stages};
use super::status::{RunStatus, StageStatus};
use super::{CurrentStage, Failure, Run};
use federate_dialect::stages::{self as staged, UpdateStage};

impl Run<'_> {
    /// The current stage, if nothing has changed.
    pub(super) fn validate_run(&mut self) -> Result<Result<CurrentStage, Failure>, serde_json::Error> {
        let mut now = RunStatus::default();
        let (latest, wanted) = attempt!(self.read_policy(&mut now)?);
        attempt!(self.check_start(&now, wanted));
        let selected = attempt!(self.select_clusters(latest, wanted));
        let stages = attempt!(self.check_stages(&selected));
        let at = attempt!(self.find_current_stage(&stages));
        Ok(self.check_deletions(&selected).map(|()| at))
    }

    fn check_start(&self, now: &RunStatus, wanted: Option<i64>) -> Result<(), Failure> {
        let then = &self.status;
        if now.applied_strategy != then.applied_strategy {
            return Err(Failure::client_error("the applyStrategy in the updateRun is outdated"));
        }
        if now.policy_snapshot_index_used != then.policy_snapshot_index_used {
            return Err(Failure::Abort(format!(
                "the policy snapshot index used in the updateRun is outdated, latest: {}, recorded: {}",
                now.policy_snapshot_index_used, then.policy_snapshot_index_used
            )));
        }
        if wanted.is_some_and(|wanted| wanted != then.policy_observed_cluster_count) {
            return Err(Failure::Abort("the cluster count used in the updateRun is outdated".to_owned()));
        }
        Ok(())
    }

    /// The stages computed again, if they are the same.
    fn check_stages(&self, selected: &RunClusters) -> Result<Vec<UpdateStage>, Failure> {
        let spec = self.status.staged_update_strategy_snapshot.clone().unwrap_or_default();
        let strategy =
            Object::from_manifest(json!({"metadata": {"name": self.strategy}, "spec": spec}), "hub");
        let clusters = self.read_clusters(selected);
        let picked: Vec<&Cluster> = clusters.iter().collect();
        let stages = staged::compute_partial_stages(&strategy, &picked, self.behaviour.stage_rules())
            .map_err(Failure::client_error)?;
        check_all_in_stages(&stages, selected)?;
        if stages.len() != self.status.stages.len() {
            return Err(Failure::Abort("the number of stages in the updateRun has changed".to_owned()));
        }
        for (index, (now, then)) in stages.iter().zip(&self.status.stages).enumerate() {
            if now.name != then.stage_name {
                return Err(Failure::Abort(format!("the name of the stage in index `{index}` has changed")));
            }
            if now.clusters.len() != then.clusters.len() {
                return Err(Failure::Abort(format!(
                    "the number of clusters in index `{index}` stage has changed, new: {}, existing: {}",
                    now.clusters.len(),
                    then.clusters.len()
                )));
            }
            if now.clusters.iter().zip(&then.clusters).any(|(now, then)| **now != *then.cluster_name) {
                return Err(Failure::Abort(format!("the clusters in index `{index}` stage have changed")));
            }
        }
        Ok(stages)
    }

    /// The stage that is being updated, else the first that is not finished.
    fn find_current_stage(&self, stages: &[UpdateStage]) -> Result<CurrentStage, Failure> {
        let (mut updating, mut finished) = (None, 0);
        for (index, stage) in self.status.stages.iter().enumerate() {
            match stage.find_condition("Succeeded") {
                Some(_) if stage.is_true("Succeeded") => {
                    if finished != index || updating.is_some() {
                        return inconsistent_status("stages finished out of order");
                    }
                    if !stage.clusters.iter().all(|cluster| cluster.is_true("Succeeded")) {
                        return inconsistent_status("a stage finished before its clusters");
                    }
                    finished += 1;
                }
                Some(result) if result.is_false() => return inconsistent_status("a stage has failed"),
                _ if stage.find_condition("Progressing").is_some() => {
                    if updating.replace(index).is_some() || index != finished {
                        return inconsistent_status("two stages are being updated");
                    }
                    let most = stages.get(index).map_or(1, |stage| stage.max_concurrency);
                    if i64::try_from(in_flight(stage)).unwrap_or(i64::MAX) > most {
                        return inconsistent_status("more clusters are being updated than may be");
                    }
                }
                _ => {}
            }
        }
        let index = updating.unwrap_or(finished);
        let deleted = self.status.deletion_stage.as_ref().and_then(|stage| stage.find_condition("Succeeded"));
        match (self.stage_at(index), deleted) {
            (CurrentStage::Deletion, Some(result)) if result.is_true() => Ok(CurrentStage::Done),
            (CurrentStage::Deletion, Some(result)) if result.is_false() => {
                inconsistent_status("the deletion stage has failed")
            }
            (at, _) => Ok(at),
        }
    }

    fn check_deletions(&self, selected: &RunClusters) -> Result<(), Failure> {
        let known = self.status.deletion_stage.iter().flat_map(|stage| &stage.clusters);
        let known: Vec<&str> = known.map(|cluster| cluster.cluster_name.as_str()).collect();
        match selected.to_delete.iter().find(|cluster| !known.contains(&cluster.as_str())) {
            None => Ok(()),
            Some(cluster) => Err(Failure::Abort(format!(
                "the cluster `{cluster}` to be deleted is new since the run began"
            ))),
        }
    }
}

fn inconsistent_status<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::unexpected_behavior(format!("the status of the run: {why}")))
}

/// The number of clusters of a stage whose update is in progress.
fn in_flight(stage: &StageStatus) -> usize {
    let open =
        stage.clusters.iter().filter(|cluster| cluster.is_true("Started") && !cluster.is_true("Succeeded"));
    open.count()
}
