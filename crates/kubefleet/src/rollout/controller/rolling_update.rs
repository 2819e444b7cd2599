//! A round of the rolling strategy, for the newest revision.

use federate_dialect::{ClusterRollout, PolicyRollout, RolloutMoment, RolloutProgress, RolloutStep};
use federate_kubernetes::ClusterName;

use super::{RolloutController, first_failure, format_cluster_count};
use crate::rollout::rolling_update::{self, RollingStep, RolloutBatch};
use crate::rollout::row::{BindingResources, BindingRow, BindingState};

impl RolloutController<'_> {
    /// Releases the newest revision to the clusters of the next batch. Clusters of the batch that are no longer picked
    /// are marked as leaving.
    pub(in crate::rollout) fn release_next_batch(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Result<RolloutBatch, serde_json::Error> {
        for (name, cluster) in &mut rollout.clusters {
            // The revision changes nothing in this cluster.
            if cluster.resources == resource_digest(moment, name) && self.row.clusters.contains_cluster(name)
            {
                moment.revision.clone_into(&mut cluster.revision);
            }
        }
        let rows = self.build_rows(rollout, moment);
        let round =
            match rolling_update::compute_next_step(self.placement, &rows, moment.now, &self.behaviour)? {
                RollingStep::Round(round) => round,
                RollingStep::Cleanup => RolloutBatch {
                    need_roll: true,
                    wait: rolling_update::CLEANUP_WAIT,
                    ..RolloutBatch::default()
                },
            };
        for name in &round.update {
            let is_picked = self.row.clusters.contains_cluster(name);
            match rollout.clusters.get_mut(name) {
                Some(cluster) if !is_picked => (cluster.leaving, cluster.since) = (true, Some(moment.now)),
                _ => {
                    let digest = resource_digest(moment, name);
                    let released = ClusterRollout::from_release(moment.revision, digest, moment.now);
                    rollout.clusters.insert(name.clone(), released);
                }
            }
        }
        Ok(round)
    }

    pub(super) fn carry_out_rolling(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> RolloutStep {
        let id = &self.placement.id;
        let round = match self.release_next_batch(rollout, moment) {
            Ok(round) => round,
            Err(error) => {
                let step = self.progress_step(rollout, moment.revision);
                let message = format!("{id}: its strategy cannot be read: {error}");
                return RolloutStep { progress: RolloutProgress::Halted, message, ..step };
            }
        };
        let step = self.progress_step(rollout, moment.revision);
        let open = rollout.clusters.values().any(ClusterRollout::is_open);
        let all = format_cluster_count(self.row.clusters.len());
        let (progress, message) = match first_failure(rollout) {
            Some(why) => (RolloutProgress::Halted, format!("{id}: {why}; {} of {all} updated", step.updated)),
            None if open || round.need_roll => {
                (RolloutProgress::Going, format!("{id}: {} of {all} updated", step.updated))
            }
            None => (RolloutProgress::Done, String::new()),
        };
        let waits = round.need_roll && round.wait.is_positive();
        let next = moment.now.checked_add(round.wait).ok().filter(|_| waits);
        RolloutStep { progress, message, next, ..step }
    }

    /// The bindings, in the order of their clusters.
    fn build_rows(&self, rollout: &PolicyRollout, moment: &RolloutMoment<'_>) -> Vec<BindingRow> {
        let placed = self.row.clusters.iter().map(|placed| &placed.name);
        let new = placed.filter(|name| !rollout.clusters.contains_key(*name)).map(|name| BindingRow {
            cluster: name.clone(),
            state: BindingState::Scheduled,
            resources: BindingResources::Old,
            deleting: false,
            generation: 0,
            conditions: Vec::new(),
        });
        let old = rollout.clusters.iter().map(|(name, cluster)| BindingRow {
            cluster: name.clone(),
            state: if self.row.clusters.contains_cluster(name) {
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

/// The digest of what the newest revision sends to a cluster; empty if it sends nothing.
fn resource_digest<'m>(moment: &RolloutMoment<'m>, cluster: &ClusterName) -> &'m str {
    moment.resources.clusters.get(cluster).map_or("", String::as_str)
}
