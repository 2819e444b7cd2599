//! A round of the rolling strategy, for the newest revision.

use federate_dialect::rollout::RolloutDecision;
use federate_dialect::{ClusterRollout, PolicyRollout, RolloutMoment, RolloutProgress, RolloutStep};

use super::{RolloutController, format_cluster_count};
use crate::rollout::rolling_update::{self, RollingStep};
use crate::rollout::row::{BindingResources, BindingRow, BindingState};

impl RolloutController<'_> {
    /// Releases the newest revision to the clusters of the next round. Clusters of the round that are no longer picked
    /// are marked as leaving.
    fn release_next_round(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Result<RolloutDecision, serde_json::Error> {
        rollout.keep_unchanged(&self.subject, moment);
        let rows = self.build_rows(rollout, moment);
        let round =
            match rolling_update::compute_next_step(self.placement, &rows, moment.now, &self.behaviour)? {
                RollingStep::Round(round) => round,
                RollingStep::Cleanup => RolloutDecision {
                    recheck: Some(rolling_update::CLEANUP_WAIT),
                    ..RolloutDecision::default()
                },
            };
        for name in round.starting() {
            rollout.release(name, &self.subject, moment);
        }
        Ok(round)
    }

    pub(super) fn advance_rolling_update(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> RolloutStep {
        let id = &self.placement.id;
        let round = match self.release_next_round(rollout, moment) {
            Ok(round) => round,
            Err(error) => {
                let step = self.progress_step(rollout, moment.revision);
                let message = format!("{id}: its strategy cannot be read: {error}");
                return RolloutStep { progress: RolloutProgress::Halted, message, ..step };
            }
        };
        let step = self.progress_step(rollout, moment.revision);
        let open = rollout.clusters.values().any(ClusterRollout::is_open);
        let all = format_cluster_count(self.subject.clusters.len());
        let (progress, message) = match rollout.first_failure() {
            Some(why) => (RolloutProgress::Halted, format!("{id}: {why}; {} of {all} updated", step.updated)),
            None if open || !round.is_done => {
                (RolloutProgress::Going, format!("{id}: {} of {all} updated", step.updated))
            }
            None => (RolloutProgress::Done, String::new()),
        };
        let wait = round.recheck.filter(|wait| !round.is_done && wait.is_positive());
        let next = wait.and_then(|wait| moment.now.checked_add(wait).ok());
        RolloutStep { progress, message, next, ..step }
    }

    /// The bindings, in the order of their clusters.
    fn build_rows(&self, rollout: &PolicyRollout, moment: &RolloutMoment<'_>) -> Vec<BindingRow> {
        let picked = self.subject.clusters.iter();
        let new = picked.filter(|name| !rollout.clusters.contains_key(*name)).map(|name| BindingRow {
            cluster: name.clone(),
            state: BindingState::Scheduled,
            resources: BindingResources::Old,
            deleting: false,
            generation: 0,
            conditions: Vec::new(),
        });
        let old = rollout.clusters.iter().map(|(name, cluster)| BindingRow {
            cluster: name.clone(),
            state: if self.subject.has_cluster(name) {
                BindingState::Bound
            } else {
                BindingState::Unscheduled
            },
            resources: if cluster.revision == moment.revision {
                BindingResources::Latest
            } else {
                BindingResources::Old
            },
            deleting: cluster.leaving,
            generation: 0,
            conditions: self.binding_conditions(cluster, 0),
        });
        let mut rows: Vec<BindingRow> = new.chain(old).collect();
        rows.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        rows
    }
}
