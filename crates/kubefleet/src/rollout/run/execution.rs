//! The execution of a stage: the tasks before it, its clusters, the tasks after it.
//!
//! Facts: a cluster that succeeds frees its place in the same pass; one that fails keeps it, and others start. If
//! another client changes a binding that is being updated, the run ends.

use federate_kubernetes::condition::{self, Condition};
use jiff::SignedDuration;
use serde_json::Value;

use super::approval::TaskTiming;
use super::binding::DesiredBinding;
use super::status::{ClusterUpdatingStatus, StageStatus};
use super::{APPROVAL_POLL_INTERVAL, Failure, MAX_CLUSTER_UPDATE_TIME, POLL_INTERVAL, Progress, Run};
use federate_dialect::rollout::stage::{ActiveStage, TasksAfterStage};
use federate_dialect::stages::ClusterAmount;

/// The result of a pass over the clusters of a stage.
#[derive(Default)]
struct Pass {
    failures: Vec<Failure>,
    stuck: Vec<String>,
    /// The number of updated clusters. A cluster that is up to date when it is started counts from the next
    /// pass on.
    done: usize,
}

impl Run<'_> {
    pub(super) fn run_stage(&mut self, index: usize) -> Result<Progress, Failure> {
        self.set_progressing();
        let Some(mut stage) = self.status.stages.get(index).cloned() else {
            return Err(Failure::unexpected_behavior("there is no such stage"));
        };
        let progress = self.execute_stage(index, &mut stage);
        if let Some(place) = self.status.stages.get_mut(index) {
            *place = stage;
        }
        progress
    }

    fn execute_stage(&mut self, index: usize, stage: &mut StageStatus) -> Result<Progress, Failure> {
        if stage.clusters.is_empty() && self.behaviour.empty_stages_are_skipped {
            stage.mark_skipped(self.now);
            return Ok(Progress::Wait(SignedDuration::ZERO));
        }
        if !self.run_tasks_before(stage)? {
            return Ok(Progress::Wait(APPROVAL_POLL_INTERVAL));
        }
        let pass = self.update_clusters(index, stage);
        if pass.stuck.is_empty() {
            self.mark_progressing();
        }
        self.report_stuck(&pass.stuck, &stage.stage_name);
        if let Some(failure) = Failure::aggregate_failures(pass.failures) {
            return Err(failure);
        }
        if pass.done < stage.clusters.len() {
            return Ok(Progress::Wait(POLL_INTERVAL));
        }
        self.run_tasks_after(index, stage)
    }

    /// Whether the tasks before the stage are complete.
    fn run_tasks_before(&mut self, stage: &mut StageStatus) -> Result<bool, Failure> {
        let name = stage.stage_name.clone();
        let mut tasks = std::mem::take(&mut stage.before);
        let mut done = Ok(true);
        for task in &mut tasks {
            done = match (done, self.check_approval(task, &name, TaskTiming::Before)) {
                (Ok(all), Ok(one)) => Ok(all && one),
                (Err(failure), _) | (_, Err(failure)) => Err(failure),
            };
        }
        stage.before = tasks;
        if matches!(done, Ok(false)) {
            let message = "Not all before-stage tasks are completed, waiting for approval";
            stage.set_condition("Progressing", "False", "StageUpdatingWaiting", message, self.now);
            self.set_waiting("before", &name);
        }
        done
    }

    fn set_waiting(&mut self, when: &str, stage: &str) {
        let message = format!("The updateRun is waiting for {when}-stage tasks in stage {stage} to complete");
        self.set_condition("Progressing", "False", "UpdateRunWaiting", &message);
    }

    /// The stage in the strategy.
    fn strategy_stage(&self, index: usize) -> Option<&Value> {
        self.status.staged_update_strategy_snapshot.as_ref()?.get("stages")?.get(index)
    }

    fn max_concurrency(&self, index: usize, clusters: usize) -> i64 {
        let amount = self
            .strategy_stage(index)
            .and_then(|stage| ClusterAmount::from_value(stage.get("maxConcurrency")?));
        let amount = amount.filter(|_| self.behaviour.max_concurrency);
        let total = i64::try_from(clusters).unwrap_or(i64::MAX);
        amount.map_or(1, |amount| amount.rounded_down(total)).max(1)
    }

    /// One pass over the clusters: those that are being updated are checked, and others start in their place.
    fn update_clusters(&mut self, index: usize, stage: &mut StageStatus) -> Pass {
        let most = self.max_concurrency(index, stage.clusters.len());
        let wanted = DesiredBinding {
            snapshot: format!("{}-{}-snapshot", self.placement, self.status.resource_snapshot_index_used),
            apply_strategy: self.status.applied_strategy.clone().unwrap_or_default(),
        };
        let mut pass = Pass::default();
        let mut clusters = std::mem::take(&mut stage.clusters);
        for cluster in clusters.iter_mut().filter(|cluster| !cluster.is_true("Succeeded")) {
            if cluster.find_condition("Succeeded").is_some_and(Condition::is_false) {
                pass.failures.push(Failure::unexpected_behavior(format!(
                    "the cluster `{}` in the stage {} has failed",
                    cluster.cluster_name, stage.stage_name
                )));
            } else if cluster.is_true("Started") {
                self.check_cluster(stage, cluster, &wanted, &mut pass);
            }
        }
        pass.done = clusters.iter().filter(|cluster| cluster.is_true("Succeeded")).count();
        let active = ActiveStage {
            clusters: clusters.iter().map(ClusterUpdatingStatus::to_update).collect(),
            max_concurrency: usize::try_from(most).unwrap_or(1),
            halts_on_failure: false,
        };
        for name in active.advance().starting() {
            if let Some(cluster) = clusters.iter_mut().find(|cluster| *cluster.cluster_name == **name) {
                self.start_cluster(stage, cluster, &wanted, &mut pass);
            }
        }
        stage.clusters = clusters;
        pass
    }

    /// Starts a cluster. One that is up to date may be done at once.
    fn start_cluster(
        &mut self,
        stage: &mut StageStatus,
        cluster: &mut ClusterUpdatingStatus,
        wanted: &DesiredBinding,
        pass: &mut Pass,
    ) {
        let Some(binding) = self.find_binding(&cluster.cluster_name) else { return };
        let name = binding.object.id.name.clone();
        let changes = !binding.is_in_sync(wanted, cluster) || binding.state() != "Bound";
        if changes || !binding.has_rollout_started() {
            self.write_binding(&name, wanted, cluster, changes);
        } else {
            match binding.check_updated(&stage.stage_name, &self.name, &self.behaviour) {
                Ok(true) => cluster.mark_succeeded(self.now),
                Ok(false) => {}
                Err(failure) => pass.failures.push(failure),
            }
        }
        cluster.mark_started(self.now);
        cluster.conditions.sort_by_key(|condition| condition.kind != "Started");
        stage.mark_started(self.now);
    }

    /// Checks a cluster that was started.
    fn check_cluster(
        &self,
        stage: &StageStatus,
        cluster: &mut ClusterUpdatingStatus,
        wanted: &DesiredBinding,
        pass: &mut Pass,
    ) {
        let Some(binding) = self.find_binding(&cluster.cluster_name) else { return };
        if !binding.is_in_sync(wanted, cluster)
            || !binding.has_rollout_started()
            || binding.state() != "Bound"
        {
            let failure = format!(
                "the binding of the updating cluster `{}` in the stage `{}` is not up-to-date with the desired \
                 status, please check the status of binding `{}` and see if there is a concurrent updateRun \
                 referencing the same placement and updating the same cluster",
                cluster.cluster_name,
                stage.stage_name,
                binding.object.id.namespaced_name()
            );
            let failure = Failure::client_error(failure);
            if let Failure::Abort(why) = &failure {
                cluster.set_condition("Succeeded", "False", "ClusterUpdatingFailed", why, self.now);
            }
            pass.failures.push(failure);
            return;
        }
        match binding.check_updated(&stage.stage_name, &self.name, &self.behaviour) {
            Ok(true) => return cluster.mark_succeeded(self.now),
            Ok(false) => {}
            Err(failure) => pass.failures.push(failure),
        }
        if self.is_stuck(cluster) {
            pass.stuck.push(cluster.cluster_name.clone());
        }
    }

    /// Whether a cluster has been in progress for too long.
    pub(super) fn is_stuck(&self, cluster: &ClusterUpdatingStatus) -> bool {
        let since = cluster.find_condition("Started").and_then(|started| started.last_transition_time);
        since.is_some_and(|since| self.now.duration_since(since) > MAX_CLUSTER_UPDATE_TIME)
    }

    /// Runs the tasks after a stage whose clusters are updated.
    fn run_tasks_after(&mut self, index: usize, stage: &mut StageStatus) -> Result<Progress, Failure> {
        let name = stage.stage_name.clone();
        self.set_waiting("after", &name);
        let message = "All clusters in the stage are updated, waiting for after-stage tasks to complete";
        stage.set_condition("Progressing", "False", "StageUpdatingWaiting", message, self.now);
        let since =
            condition::find_condition(&stage.conditions, "Progressing").and_then(|c| c.last_transition_time);
        let (mut wait, mut is_approved, mut failed) = (SignedDuration::ZERO, true, None);
        let mut tasks = std::mem::take(&mut stage.after);
        for (number, task) in tasks.iter_mut().enumerate() {
            if task.kind == "TimedWait" {
                wait = self.wait_time(index, number);
                continue;
            }
            match self.check_approval(task, &name, TaskTiming::After) {
                Ok(approved) => is_approved &= approved,
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        let open =
            TasksAfterStage { since: since.unwrap_or(self.now), wait, is_approved }.find_open(self.now);
        let left = open.map(|open| open.left).filter(SignedDuration::is_positive);
        for task in tasks.iter_mut().filter(|task| task.kind == "TimedWait" && left.is_none()) {
            let reason = "AfterStageTaskWaitTimeElapsed";
            task.set_condition("WaitTimeElapsed", "True", reason, "Wait time elapsed", self.now);
        }
        stage.after = tasks;
        if let Some(failure) = failed {
            return Err(failure);
        }
        if open.is_some() {
            return Ok(Progress::Wait(left.unwrap_or(APPROVAL_POLL_INTERVAL)));
        }
        self.mark_progressing();
        stage.mark_succeeded(self.now);
        Ok(Progress::Wait(SignedDuration::ZERO))
    }

    fn wait_time(&self, stage: usize, task: usize) -> SignedDuration {
        let task = self.strategy_stage(stage).and_then(|stage| stage.get("afterStageTasks")?.get(task));
        let text = task.and_then(|task| task.get("waitTime")?.as_str());
        text.and_then(federate_dialect::goduration::parse).unwrap_or_default()
    }
}
