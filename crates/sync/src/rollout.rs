//! Rollouts: the reconciliations that bring a new revision to the clusters in stages, or as policies and update runs ask for.

pub(crate) mod policies;
pub(crate) mod policy_rollout;
pub(crate) mod staged_rollout;
mod start;
