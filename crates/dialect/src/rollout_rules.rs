//! How a control plane limits at how many clusters placements change at a time.

use federate_kubernetes::{ClusterName, ObjectRef};
use jiff::SignedDuration;

use crate::{PolicyRollout, RolloutMoment, RolloutStep};

/// Who carries a rollout out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutDriver {
    /// A loop in which only objects count that ask for one rollout, such as update runs.
    UpdateRuns,
    /// A loop in which the strategies of policies count as well.
    Placements,
    /// A scenario, in which update runs do not begin, and which says itself when resources are available.
    Scenario,
}

/// A policy that is rolled out, as a plan has it.
#[derive(Clone, Copy)]
pub struct RolloutSubject<'p> {
    /// The policy.
    pub policy: &'p ObjectRef,
    /// The clusters to which it sends its objects, sorted by name.
    pub clusters: &'p [ClusterName],
    /// Returns the clusters of another row of the plan, by its object.
    pub clusters_of: &'p dyn Fn(&ObjectRef) -> Option<Vec<ClusterName>>,
}

impl RolloutSubject<'_> {
    /// Whether the policy sends its objects to a cluster.
    pub fn has_cluster(&self, cluster: &ClusterName) -> bool {
        self.clusters.binary_search(cluster).is_ok()
    }
}

/// How a control plane limits at how many clusters placements change at a time. By default, it does not.
pub trait RolloutRules {
    /// Whether its rollouts limit at how many clusters a placement changes at a time. By default none does.
    fn has_rollout_limits(&self) -> bool {
        false
    }

    /// Whether a policy limits how its clusters are updated. By default, none does.
    fn controls_updates_of(&self, policy: &ObjectRef, driver: RolloutDriver) -> bool {
        let _ = (policy, driver);
        false
    }

    /// How long it takes in a scenario until the resources of a policy that are released to a cluster are available there.
    fn availability_delay(&self, policy: &ObjectRef) -> SignedDuration {
        let _ = policy;
        SignedDuration::ZERO
    }

    /// Advances the rollout of a policy as far as is possible now: notes the clusters to which it releases its
    /// resources, and those that it leaves. `None` if nothing limits it.
    fn advance_rollout(
        &self,
        subject: &RolloutSubject<'_>,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Option<RolloutStep> {
        let _ = (subject, rollout, moment);
        None
    }
}
