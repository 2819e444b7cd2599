//! The last stage: removes the resources from all clusters that are no longer picked.

use super::binding::BindingView;
use super::status::StageStatus;
use super::{Failure, POLL_INTERVAL, Progress, Run, RunWrite};
use crate::hub::PARENT_LABEL;

impl Run<'_> {
    /// The unscheduled bindings: name, cluster, whether they are being deleted.
    pub(super) fn unscheduled_bindings(&self) -> Vec<(String, String, bool)> {
        let all = self.hub.list_objects(self.kinds.binding, self.namespace.as_deref());
        let own =
            all.filter(|o| o.label(PARENT_LABEL) == Some(self.placement.as_str())).map(BindingView::new);
        let unscheduled = own.filter(|binding| binding.state() == "Unscheduled");
        unscheduled
            .map(|b| (b.object.id.name.clone(), b.cluster().to_owned(), b.object.is_deleting()))
            .collect()
    }

    pub(super) fn execute_deletion(&mut self) -> Result<Progress, Failure> {
        let Some(mut stage) = self.status.deletion_stage.take() else { return Ok(Progress::Finished) };
        stage.mark_started(self.now);
        let unscheduled = self.unscheduled_bindings();
        let outcome = self.delete_bindings(&mut stage, &unscheduled, true);
        let now = self.now;
        if outcome.is_ok() && unscheduled.is_empty() {
            stage.mark_succeeded(now);
        }
        self.status.deletion_stage = Some(stage);
        outcome?;
        Ok(if unscheduled.is_empty() { Progress::Finished } else { Progress::Wait(POLL_INTERVAL) })
    }

    /// Records the bindings that are gone. If `start` is true, deletes those that are not being deleted yet.
    pub(super) fn delete_bindings(
        &mut self,
        stage: &mut StageStatus,
        unscheduled: &[(String, String, bool)],
        start: bool,
    ) -> Result<(), Failure> {
        let now = self.now;
        for (name, cluster, deleting) in unscheduled {
            let Some(status) = stage.clusters.iter_mut().find(|c| c.cluster_name == *cluster) else {
                return Err(Failure::unexpected_behavior(format!(
                    "the deletion stage has no cluster `{cluster}`"
                )));
            };
            if status.is_true("Succeeded") {
                return Err(Failure::unexpected_behavior(format!(
                    "the deleted binding of `{cluster}` is there again"
                )));
            }
            if status.is_true("Started") {
                if !deleting {
                    return Err(Failure::unexpected_behavior(format!(
                        "the binding of `{cluster}` should be being deleted, and is not"
                    )));
                }
            } else if start {
                let namespace = self.namespace.clone();
                self.hub.delete_object(self.kinds.binding, namespace.as_deref(), name, now);
                self.hub.record_write(RunWrite::DeletedBinding(name.clone()));
                status.mark_started(now);
            }
        }
        for cluster in &mut stage.clusters {
            let is_gone = !unscheduled.iter().any(|(_, unscheduled, _)| *unscheduled == cluster.cluster_name);
            if is_gone && !cluster.is_true("Succeeded") {
                cluster.mark_started(now);
                cluster.mark_succeeded(now);
            }
        }
        Ok(())
    }
}
