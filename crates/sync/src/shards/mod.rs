//! Many replicas share the clusters. One of them leads: it polls sources, plans, commits and publishes. Every replica
//! applies what was published to its share of the clusters.
//!
//! ```text
//! Lease federate-sync                    the leader
//! Lease federate-sync-replica-<id>       a replica; it is alive as long as it renews this
//! Lease federate-sync-lane-<number>      who works on the clusters of a lane; written only when that changes
//! ConfigMap federate.<sync>.<id>         what a replica reports about the clusters of a Sync
//! ```
//!
//! A cluster belongs to one of `LANES` lanes by the hash of its name, and a lane to a live replica by rendezvous
//! hashing. A replica works on a lane only while it holds the lane's Lease, and checks that before each write. So a
//! cluster is never worked on by two replicas, even while they disagree about which replicas are alive.
//!
//! A plan is a function of a revision and the scheduler's memory. The leader publishes both with the digest of what they
//! render; a replica that renders anything else applies nothing.

mod driver;
mod lease;
mod policies;
mod replica;
mod report;
#[cfg(test)]
mod simulation;
mod turn;
mod work;

pub use driver::{ShareOptions, Shares};
pub(crate) use lease::Observations;
pub(crate) use lease::{Lease, Leases, claim};
pub(crate) use report::{ClusterReport, REMOVED, Report};
pub use turn::ClusterTurn;

use sha2::{Digest, Sha256};

/// The number of lanes. More of them divide clusters more evenly, and each is an object on the API server.
pub(crate) const LANES: u32 = 64;

/// The lane of a cluster.
pub(crate) fn lane_of(cluster: &str) -> u32 {
    u32::try_from(hash([cluster.as_bytes()]) % u64::from(LANES)).unwrap_or_default()
}

/// The replica that a lane belongs to, of those that are alive: the one with the highest hash. When a replica comes or
/// goes, only its own lanes move.
pub(crate) fn owner<'r>(lane: u32, alive: impl IntoIterator<Item = &'r String>) -> Option<&'r String> {
    alive.into_iter().max_by_key(|replica| (hash([&lane.to_be_bytes()[..], replica.as_bytes()]), *replica))
}

fn hash<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> u64 {
    let mut sha = Sha256::new();
    for text in texts {
        sha.update(text);
    }
    sha.finalize().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_the_lanes_of_a_replica_that_is_gone_move() {
        let names = |count: usize| (0..count).map(|at| format!("sync-{at}")).collect::<BTreeSet<_>>();
        let (three, four) = (names(3), names(4));
        let mut shares = [0; 4];
        for lane in 0..LANES {
            let of_four = owner(lane, &four).unwrap();
            shares[four.iter().position(|name| name == of_four).unwrap()] += 1;
            if of_four != "sync-3" {
                assert_eq!(owner(lane, &three), Some(of_four));
            }
        }
        assert!(shares.iter().all(|share| (8..=24).contains(share)), "{shares:?}");
    }

    #[test]
    fn clusters_are_spread_over_lanes() {
        let lanes: BTreeSet<u32> = (0..1000).map(|at| lane_of(&format!("member-{at}"))).collect();
        assert_eq!(lanes.len(), 64);
    }
}
