//! Runs a [`Replica`] against an API server, in a thread.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use federate_kubernetes::ClusterName;
use federate_live::Fence;

use super::lease::{Lease, Leases};
use super::replica::{Replica, Request, Times};
use super::turn::ClusterTurn;
use super::{LANES, lane_of};
use crate::hub::{Error, Hub, LeaderOptions, LeaseStore};
use crate::watch::Event;

/// The longest identity in the names of objects.
const MOST_LETTERS: usize = 60;

/// How this process shares clusters with others.
pub struct ShareOptions {
    /// The Lease of the leader, with its times and the identity of this process.
    pub leader: LeaderOptions,
    /// Receives an event when the share changes.
    pub events: Sender<Event>,
}

/// This replica's share of the clusters.
pub struct Shares {
    pub(super) hub: Arc<Hub>,
    pub(super) identity: String,
    inner: Arc<Inner>,
}

struct Inner {
    store: LeaseStore,
    replica: Mutex<Replica>,
    begun: Instant,
    retry: Duration,
    ended: AtomicBool,
}

impl Inner {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn with<T>(&self, run: impl FnOnce(&mut Replica) -> T) -> T {
        run(&mut self.replica.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Renews the Lease, and takes and releases lanes. Returns whether the share has changed, and whether lanes are left
    /// to take or to release.
    fn tick(&self) -> Result<(bool, bool), Error> {
        let asked = self.now();
        let list = self.store.list()?;
        let answered = self.now();
        let Some(renewal) = self.with(|replica| replica.renewal(&list)) else { return Ok((false, false)) };
        let sent = self.now();
        if self.store.put(&renewal)? {
            self.with(|replica| replica.renewed(sent, self.now()));
        }
        let before = self.with(|replica| (replica.held(), replica.alive().clone()));
        let requests = self.with(|replica| replica.requests(&list, asked, answered));
        let mut done = 0;
        // Where writing takes long, the rest waits until the own Lease is renewed. It follows from the next list again.
        while done < requests.len() && self.now().saturating_sub(answered) < self.retry {
            self.send(&requests[done]);
            done += 1;
        }
        let after = self.with(|replica| (replica.held(), replica.alive().clone()));
        if before != after {
            let (lanes, replicas) = (after.0.len(), after.1.len());
            tracing::info!(lanes, of = LANES, replicas, "the share of clusters has changed");
        }
        Ok((before.0 != after.0, done < requests.len()))
    }

    fn send(&self, request: &Request) {
        let sent = match request {
            Request::Take(lane, lease) => match self.store.put(lease) {
                Ok(true) => {
                    self.with(|replica| replica.taken(*lane));
                    Ok(())
                }
                other => other.map(drop),
            },
            Request::Release(lease) => self.store.put(lease).map(drop),
            Request::Delete(lease) => self.store.delete(lease),
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "a Lease of the clusters could not be written");
        }
    }

    /// Goes on until the process ends, or has lost its Lease.
    fn run(&self, events: &Sender<Event>) {
        loop {
            let more = match self.tick() {
                Ok((changed, more)) => {
                    if changed {
                        drop(events.send(Event::Shares));
                    }
                    more
                }
                Err(error) => {
                    tracing::warn!(%error, "the Leases of the clusters cannot be read");
                    false
                }
            };
            let until = self.now() + if more { Duration::ZERO } else { self.retry };
            while !self.ended.load(Ordering::SeqCst) && self.now() < until {
                thread::sleep(Duration::from_millis(50).min(self.retry));
            }
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            if self.with(|replica| replica.is_lost(self.now())) {
                return;
            }
        }
    }
}

impl Shares {
    /// Joins the replicas that share the clusters. `lost` is called when others may have taken this one's share.
    pub fn join(hub: &Arc<Hub>, options: ShareOptions, lost: impl FnOnce() + Send + 'static) -> Self {
        let ShareOptions { leader, events } = options;
        let identity = name(&leader.identity);
        let times = Times { lease: leader.lease, renew: leader.renew };
        let inner = Arc::new(Inner {
            store: LeaseStore::new(hub.clone(), &leader.namespace, &leader.name),
            replica: Mutex::new(Replica::new(&leader.name, &identity, times)),
            begun: Instant::now(),
            retry: leader.retry,
            ended: AtomicBool::new(false),
        });
        let shares = Self { hub: hub.clone(), identity, inner: inner.clone() };
        thread::spawn(move || {
            inner.run(&events);
            if !inner.ended.load(Ordering::SeqCst) {
                tracing::error!("the Lease of this replica could not be renewed");
                lost();
            }
        });
        shares
    }

    /// Begins a round over the lanes that this replica holds.
    pub(crate) fn enter(&self, leads: bool) -> ClusterTurn<'_> {
        ClusterTurn::new(self, self.inner.with(Replica::enter), leads)
    }

    /// The replicas that are alive.
    pub(crate) fn alive(&self) -> BTreeSet<String> {
        self.inner.with(|replica| replica.alive().clone())
    }

    pub(super) fn leave(&self, lanes: &BTreeSet<u32>) {
        self.inner.with(|replica| replica.leave(lanes));
    }

    /// What is checked before each write to a cluster.
    pub(super) fn fence(&self) -> Fence {
        let inner = self.inner.clone();
        Arc::new(move |cluster: &ClusterName| {
            inner.with(|replica| replica.holds(lane_of(cluster), inner.now()))
        })
    }

    /// Leaves the replicas, which can take this one's share at once. Its rounds must be over.
    pub fn end(&self) {
        self.inner.ended.store(true, Ordering::SeqCst);
        let list = self.inner.store.list();
        let own = |lease: &Lease| lease.holder == self.identity && lease.name.ends_with(&self.identity);
        let left = list.and_then(|list| match list.into_iter().find(own) {
            Some(lease) => self.inner.store.delete(&lease),
            None => Ok(()),
        });
        if let Err(error) = left {
            tracing::warn!(%error, "the Lease of this replica could not be deleted");
        }
    }
}

/// An identity as a part of the names of objects.
fn name(identity: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: Vec<char> = identity.chars().map(plain).collect();
    let start = name.len().saturating_sub(MOST_LETTERS);
    name.into_iter().skip(start).collect::<String>().trim_matches('-').to_owned()
}
