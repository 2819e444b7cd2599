//! Rollouts as a loop carries them out: the rolling strategy of a placement, or its update runs.
//!
//! The loop keeps which clusters have the resources of which revision. From that, the bindings are made that the rollout
//! controller and update runs read; what these write to bindings is noted for the loop. So the rules are those of
//! [`rolling_update`](super::rolling_update) and [`run`](super::run).

use federate_dialect::{
    ClusterRollout, PolicyRollout, RolloutDriver, RolloutMoment, RolloutStep, RolloutSubject,
};
use federate_kubernetes::condition::Condition;
use federate_kubernetes::{Cluster, Object};
use federate_repo::Repo;

use super::api::is_external;
use crate::KubeFleetBehaviour;

mod hub;
mod report;
mod rolling_update;
mod runs;
mod state;

/// A placement that is rolled out.
pub(crate) struct RolloutController<'c> {
    pub(crate) repo: &'c Repo,
    /// The inventory.
    pub(crate) clusters: &'c [Cluster],
    pub(crate) placement: &'c Object,
    pub(crate) subject: RolloutSubject<'c>,
    /// Whether the availability of all its objects can be tracked.
    pub(crate) trackable: bool,
    pub(crate) behaviour: KubeFleetBehaviour,
}

/// Whether a placement limits how its clusters are updated.
pub(crate) fn limits_rollout(placement: &Object, driver: RolloutDriver) -> bool {
    driver != RolloutDriver::UpdateRuns || is_external(placement)
}

impl RolloutController<'_> {
    /// Advances the rollout as far as is possible now.
    pub(crate) fn advance(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Option<RolloutStep> {
        match (is_external(self.placement), moment.driver) {
            (true, RolloutDriver::Scenario) => Some(self.describe_idle(rollout, moment)),
            (true, _) => Some(self.advance_runs(rollout, moment)),
            (false, RolloutDriver::UpdateRuns) => None,
            (false, _) => Some(self.advance_rolling_update(rollout, moment)),
        }
    }

    /// The conditions of a binding whose resources are released.
    fn binding_conditions(&self, cluster: &ClusterRollout, generation: i64) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if cluster.failed.is_some() {
            conditions.push(Condition::new("Applied", "False", "NotAllWorkHaveBeenApplied", ""));
        } else if let Some(since) = cluster.available {
            let reason =
                if self.trackable { "AllWorkAreAvailable" } else { "NotAllWorkAreAvailabilityTrackable" };
            let available = Condition::new("Available", "True", reason, "");
            conditions.push(Condition { last_transition_time: Some(since), ..available });
        }
        conditions.into_iter().map(|condition| condition.at_generation(generation)).collect()
    }

    /// A step that says how many of the placement's clusters are at a revision.
    fn progress_step(&self, rollout: &PolicyRollout, revision: &str) -> RolloutStep {
        let updated = self.subject.clusters.iter().filter(|name| {
            let cluster = rollout.clusters.get(*name);
            cluster.is_some_and(|cluster| cluster.revision == revision && !cluster.is_open())
        });
        RolloutStep {
            object: self.placement.id.clone(),
            progress: federate_dialect::RolloutProgress::Done,
            message: String::new(),
            stage: String::new(),
            revision: revision.to_owned(),
            updated: updated.count(),
            next: None,
        }
    }
}

/// A number of clusters, in words.
fn format_cluster_count(number: usize) -> String {
    format!("{number} cluster{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
