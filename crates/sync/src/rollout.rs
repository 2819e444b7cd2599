//! Rollouts: the rounds that bring a new revision to the clusters in stages, or as policies and update runs ask for.

pub(crate) mod carry_out;
pub(crate) mod placements;
pub(crate) mod policies;
mod start;
