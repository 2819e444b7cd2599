//! What one replica knows of the others, and which lanes it may work on: a state machine without a clock, so that tests
//! can simulate it. Times are measured by any clock that does not go back.
//!
//! Two replicas never hold a lane at the same time:
//!
//! - A replica counts as alive for the others until its Lease has not changed for as long as it lasts. It stops writing
//!   earlier ([`Times::renew`]), counted from before it sent the last renewal, and never starts again: it must be
//!   replaced by one with another identity.
//! - A lane changes hands only by a write to its Lease that names the version that was read. It is taken if it was
//!   released, or if its holder is not alive.
//! - A lane that was released, or whose acquisition is uncertain, is not held until another write to its Lease has
//!   succeeded. This overtakes all requests that are still under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lease::{Lease, Observations};
use super::{LANES, owner};

/// What the names of Leases of replicas start with, behind the name of the leader's.
const REPLICA: &str = "-replica-";
/// The same for lanes.
const LANE: &str = "-lane-";

/// How long Leases last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// How long a Lease lasts.
    pub(crate) lease: Duration,
    /// How long it may stay without being renewed.
    pub(crate) renew: Duration,
}

/// A replica.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The name of the leader's Lease, with which those of replicas and lanes start.
    prefix: String,
    identity: String,
    times: Times,
    observed: Observations,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Duration>,
    /// Whether it has not been alive for a moment, and stops.
    lost: bool,
    /// The lanes that it holds.
    lanes: BTreeMap<u32, HeldLane>,
    /// The replicas that are alive.
    alive: BTreeSet<String>,
}

/// A lane that is held.
#[derive(Debug, Default)]
struct HeldLane {
    /// How many rounds work on it.
    busy: usize,
    /// Whether it belongs to another replica now, which gets it when no round works on it.
    leaving: bool,
}

/// A request that a replica wants to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Takes a lane.
    Take(u32, Lease),
    /// Releases a lane.
    Release(Lease),
    /// Deletes the Lease of a replica that has been gone for long.
    Delete(Lease),
}

impl Replica {
    pub(crate) fn new(prefix: &str, identity: &str, times: Times) -> Self {
        Self {
            prefix: prefix.to_owned(),
            identity: identity.to_owned(),
            times,
            observed: Observations::default(),
            renewed: None,
            lost: false,
            lanes: BTreeMap::new(),
            alive: BTreeSet::new(),
        }
    }

    fn lease_name(&self, replica: &str) -> String {
        format!("{}{REPLICA}{replica}", self.prefix)
    }

    fn seconds(&self) -> u64 {
        self.times.lease.as_secs().max(1)
    }

    /// The renewal of its own Lease, as a list of all Leases shows it; `None` if it has lost it.
    pub(crate) fn renewal(&mut self, list: &[Lease]) -> Option<Lease> {
        let name = self.lease_name(&self.identity);
        let found = list.iter().find(|lease| lease.name == name).cloned();
        if found.is_none() && self.renewed.is_some() {
            self.lost = true;
        }
        let lease = found.unwrap_or_else(|| Lease { name, ..Lease::default() });
        (!self.lost).then(|| lease.taken(&self.identity, self.seconds()))
    }

    /// Notes that a renewal has succeeded, which was sent at a time. Returns whether it is still alive.
    pub(crate) fn renewed(&mut self, sent: Duration, now: Duration) -> bool {
        let gap = self.renewed.is_some() && !self.is_alive(now);
        if gap || now.saturating_sub(sent) >= self.times.renew {
            self.lost = true;
        } else {
            self.renewed = Some(sent);
        }
        !self.lost
    }

    /// Whether no other replica can have taken its lanes.
    pub(crate) fn is_alive(&self, now: Duration) -> bool {
        !self.lost && self.renewed.is_some_and(|sent| now.saturating_sub(sent) < self.times.renew)
    }

    /// Whether it has lost its Lease, or was not able to renew it in time.
    pub(crate) fn is_lost(&self, now: Duration) -> bool {
        self.lost || (self.renewed.is_some() && !self.is_alive(now))
    }

    /// Whether it may write to the clusters of a lane.
    pub(crate) fn holds(&self, lane: u32, now: Duration) -> bool {
        self.is_alive(now) && self.lanes.contains_key(&lane)
    }

    /// The lanes that it holds.
    pub(crate) fn held(&self) -> BTreeSet<u32> {
        self.lanes.keys().copied().collect()
    }

    /// The replicas that are alive.
    pub(crate) fn alive(&self) -> &BTreeSet<String> {
        &self.alive
    }

    /// A round begins. Returns the lanes that it may work on until [`Replica::leave`].
    pub(crate) fn enter(&mut self) -> BTreeSet<u32> {
        let open = self.lanes.iter_mut().filter(|(_, held)| !held.leaving);
        open.map(|(lane, held)| {
            held.busy += 1;
            *lane
        })
        .collect()
    }

    /// A round ends.
    pub(crate) fn leave(&mut self, lanes: &BTreeSet<u32>) {
        for lane in lanes {
            if let Some(held) = self.lanes.get_mut(lane) {
                held.busy = held.busy.saturating_sub(1);
            }
        }
    }

    /// What is to be sent, as a list of all Leases shows them, which was asked for and answered at these times. Lanes that
    /// are released are no longer held.
    pub(crate) fn requests(&mut self, list: &[Lease], asked: Duration, answered: Duration) -> Vec<Request> {
        // Others would take lanes away from a replica whose Lease does not exist.
        if !self.is_alive(answered) {
            return Vec::new();
        }
        self.observed.keep(|name| list.iter().any(|lease| lease.name == name));
        self.alive.clear();
        let mut expired = Vec::new();
        let replicas = format!("{}{REPLICA}", self.prefix);
        for lease in list {
            let Some(replica) = lease.name.strip_prefix(&replicas) else { continue };
            if replica != self.identity && self.observed.expired(lease, asked, answered) {
                expired.push(lease);
            } else {
                self.alive.insert(replica.to_owned());
            }
        }
        self.alive.insert(self.identity.clone());
        let holders: BTreeSet<&str> = list
            .iter()
            .filter(|lease| !lease.name.starts_with(&replicas))
            .map(|lease| lease.holder.as_str())
            .collect();
        // A replica whose Lease is gone can take no lane any more, and must hold none.
        let gone = expired.into_iter().filter(|lease| !holders.contains(lease.holder.as_str()));
        let mut requests: Vec<Request> = gone.map(|lease| Request::Delete(lease.clone())).collect();
        for lane in 0..LANES {
            let name = format!("{}{LANE}{lane}", self.prefix);
            let lease = list.iter().find(|lease| lease.name == name).cloned();
            let lease = lease.unwrap_or_else(|| Lease { name, ..Lease::default() });
            requests.extend(self.request(lane, lease));
        }
        requests
    }

    /// What is to be sent about a lane.
    fn request(&mut self, lane: u32, lease: Lease) -> Option<Request> {
        let is_ours = owner(lane, &self.alive) == Some(&self.identity);
        let holder = &lease.holder;
        if *holder != self.identity {
            // It may have been taken while this process was paused.
            self.lanes.remove(&lane);
            let is_free = holder.is_empty() || !self.alive.contains(holder);
            return (is_ours && is_free)
                .then(|| Request::Take(lane, lease.taken(&self.identity, self.seconds())));
        }
        match self.lanes.get_mut(&lane) {
            Some(held) => {
                held.leaving = !is_ours;
                if held.leaving && held.busy == 0 {
                    self.lanes.remove(&lane);
                    return Some(Request::Release(released(lease)));
                }
                None
            }
            // The answer to a request about it was lost.
            None if is_ours => Some(Request::Take(lane, lease.taken(&self.identity, self.seconds()))),
            None => Some(Request::Release(released(lease))),
        }
    }

    /// Notes that a lane was taken.
    pub(crate) fn taken(&mut self, lane: u32) {
        if !self.lost {
            self.lanes.entry(lane).or_default();
        }
    }
}

fn released(lease: Lease) -> Lease {
    Lease { holder: String::new(), ..lease }
}
