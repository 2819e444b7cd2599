//! The clusters that a round works on: all of them, or this replica's share.

use std::collections::BTreeSet;
use std::fmt;

use federate_live::Fence;

use super::driver::Shares;
use super::lane_of;

/// The clusters that a round may work on, from its beginning to its end. Their lanes stay with this replica as long as
/// this exists and it is alive.
pub struct ClusterTurn<'s> {
    /// The lanes; `None` for all clusters.
    share: Option<(&'s Shares, BTreeSet<u32>)>,
    /// Whether this process leads, or works alone.
    leads: bool,
}

impl<'s> ClusterTurn<'s> {
    /// All clusters.
    pub const ALL: Self = Self { share: None, leads: true };

    pub(super) fn new(shares: &'s Shares, lanes: BTreeSet<u32>, leads: bool) -> Self {
        Self { share: Some((shares, lanes)), leads }
    }

    /// Whether this process polls, plans and publishes in this round; another replica only does its share.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Whether the round works on a cluster.
    pub(crate) fn has(&self, cluster: &str) -> bool {
        self.share.as_ref().is_none_or(|(_, lanes)| lanes.contains(&lane_of(cluster)))
    }

    /// The replicas that share the clusters, if some do.
    pub(crate) fn shares(&self) -> Option<&'s Shares> {
        self.share.as_ref().map(|(shares, _)| *shares)
    }

    /// What is checked before each write to a cluster.
    pub(crate) fn fence(&self) -> Option<Fence> {
        self.shares().map(Shares::fence)
    }
}

impl Drop for ClusterTurn<'_> {
    fn drop(&mut self) {
        if let Some((shares, lanes)) = &self.share {
            shares.leave(lanes);
        }
    }
}

impl fmt::Debug for ClusterTurn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.share {
            None => f.write_str("all clusters"),
            Some((_, lanes)) => write!(f, "the lanes {lanes:?}"),
        }
    }
}
