//! How a control plane limits at how many clusters placements change at a time.

use federate_kubernetes::ObjectRef;
use jiff::SignedDuration;

use crate::{PolicyRollout, RolloutDriver, RolloutMoment, RolloutStep, RolloutSubject};

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
