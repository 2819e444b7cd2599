//! A run that is stopped: it waits for updates in progress, and starts no others.

use jiff::SignedDuration;

use super::status::StageStatus;
use super::{CurrentStage, Failure, POLL_INTERVAL, Run};

impl Run<'_> {
    /// How long to wait for updates in progress; `None` when the run has stopped.
    pub(super) fn stop_run(&mut self, at: CurrentStage) -> Result<Option<SignedDuration>, Failure> {
        let message = "The update run is the process of stopping, waiting for all the updating/deleting clusters to \
                       finish updating before completing the stop process";
        self.set_condition("Progressing", "Unknown", "UpdateRunStopping", message);
        let Some(mut stage) = self.stage_mut(at).cloned() else { return Ok(None) };
        let message =
            "Waiting for all the updating clusters to finish updating before completing the stop process";
        stage.set_condition("Progressing", "Unknown", "StageUpdatingStopping", message, self.now);
        let stopped = if at == CurrentStage::Deletion {
            self.stop_deletions(&mut stage)
        } else {
            self.finish_updates(&mut stage)
        };
        if let Some(place) = self.stage_mut(at) {
            *place = stage;
        }
        if !stopped? {
            return Ok(Some(POLL_INTERVAL));
        }
        let message = "The update run has been stopped";
        self.set_condition("Progressing", "False", "UpdateRunStopped", message);
        Ok(None)
    }

    /// Whether no update is in progress.
    fn finish_updates(&mut self, stage: &mut StageStatus) -> Result<bool, Failure> {
        let (mut failures, mut stuck, mut open) = (Vec::new(), Vec::new(), false);
        for cluster in &mut stage.clusters {
            if !cluster.is_true("Started") || cluster.find_condition("Succeeded").is_some() {
                continue;
            }
            let Some(binding) = self.find_binding(&cluster.cluster_name) else { continue };
            match binding.check_updated(&stage.stage_name, &self.name, &self.behaviour) {
                Ok(true) => {
                    cluster.mark_succeeded(self.now);
                    continue;
                }
                Ok(false) => {}
                Err(failure) => failures.push(failure),
            }
            open = true;
            if self.is_stuck(cluster) {
                stuck.push(cluster.cluster_name.clone());
            }
        }
        self.report_stuck(&stuck, &stage.stage_name);
        if let Some(failure) = Failure::aggregate_failures(failures) {
            return Err(failure);
        }
        if !open {
            mark_stopped(stage, self.now);
        }
        Ok(!open)
    }

    /// Whether no unscheduled binding is left.
    fn stop_deletions(&mut self, stage: &mut StageStatus) -> Result<bool, Failure> {
        let unscheduled = self.unscheduled_bindings();
        self.delete_bindings(stage, &unscheduled, false)?;
        if !unscheduled.iter().any(|(_, _, deleting)| *deleting) {
            mark_stopped(stage, self.now);
        }
        Ok(unscheduled.is_empty())
    }
}

fn mark_stopped(stage: &mut StageStatus, now: jiff::Timestamp) {
    let message =
        "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed";
    stage.set_condition("Progressing", "False", "StageUpdatingStopped", message, now);
}
