//! Simulates replicas that share clusters: a virtual clock, requests that are delayed or lost, processes that are paused
//! or killed. Every run follows from its seed.
//!
//! Checked at every moment: no lane is held by two replicas, and no cluster goes back to something that was published
//! before. Checked at the end, some time after the last fault: every cluster is at what was published last.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use super::lease::{Lease, Leases, Observations, claim};
use super::replica::{Replica, Request, Times};
use super::{lane_of, owner};

const TIMES: Times = Times { lease: Duration::from_secs(35), renew: Duration::from_secs(30) };
const LEADER: &str = "sync";
const CLUSTERS: usize = 12;
/// How long faults happen, in milliseconds.
const FAULTS: u64 = 900_000;
/// How long a run goes on without faults.
const QUIET: u64 = 150_000;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// What was published: its number, and who did it.
type Published = (u64, String);

/// The API server of the Syncs, and the member clusters.
#[derive(Default)]
struct Servers {
    version: u64,
    leases: BTreeMap<String, Lease>,
    /// What is published, with its version.
    record: (u64, Published),
    /// What clusters have, with its version.
    clusters: BTreeMap<String, (u64, Published)>,
}

/// A request that writes.
#[derive(Clone, Debug)]
enum Write {
    Lease(Lease),
    DeleteLease(Lease),
    Record(u64, Published),
    Cluster(String, u64, Published),
}

impl Servers {
    /// Carries a request out, unless its version has passed. Returns whether it was.
    fn write(&mut self, write: &Write) -> bool {
        self.version += 1;
        let version = self.version;
        match write {
            Write::Lease(lease) => {
                let current = self.leases.get(&lease.name).map(|lease| lease.version.clone());
                if current.unwrap_or_default() != lease.version {
                    return false;
                }
                let lease = Lease { version: version.to_string(), ..lease.clone() };
                self.leases.insert(lease.name.clone(), lease);
            }
            Write::DeleteLease(lease) => {
                if self.leases.get(&lease.name).is_none_or(|current| current.version != lease.version) {
                    return false;
                }
                self.leases.remove(&lease.name);
            }
            Write::Record(read, published) => {
                if self.record.0 != *read {
                    return false;
                }
                self.record = (version, published.clone());
            }
            Write::Cluster(name, read, published) => {
                let cluster = self.clusters.entry(name.clone()).or_default();
                if cluster.0 != *read {
                    return false;
                }
                let before = &cluster.1;
                assert!(before.0 <= published.0, "{name} goes back from {before:?} to {published:?}");
                assert!(before.0 != published.0 || before == published, "{name}: {before:?}, {published:?}");
                *cluster = (version, published.clone());
            }
        }
        true
    }

    fn list(&self) -> Vec<Lease> {
        self.leases.values().filter(|lease| lease.name != LEADER).cloned().collect()
    }
}

/// The leader's Lease, as `claim` sees it: requests take no time, but may be lost.
struct LeaderLease<'s> {
    servers: RefCell<&'s mut Servers>,
    lost: bool,
}

impl Leases for LeaderLease<'_> {
    type Error = Infallible;

    fn find(&self, name: &str) -> Result<Option<Lease>, Infallible> {
        Ok(self.servers.borrow().leases.get(name).cloned())
    }

    fn list(&self) -> Result<Vec<Lease>, Infallible> {
        Ok(self.servers.borrow().list())
    }

    fn put(&self, lease: &Lease) -> Result<bool, Infallible> {
        let written = self.servers.borrow_mut().write(&Write::Lease(lease.clone()));
        Ok(written && !self.lost)
    }

    fn delete(&self, _: &Lease) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Where the thread is that renews Leases.
enum Renewing {
    Pause,
    Requested(u64),
    Answered { requested_at: u64, list: Vec<Lease> },
    Answering { requested_at: u64, answered_at: u64, list: Vec<Lease>, sent: u64 },
    Sending(Vec<Request>),
}

/// Where the thread is that works on clusters.
enum Working {
    Pause,
    Entered(BTreeSet<u32>),
    Applying { lanes: BTreeSet<u32>, published: Published, left: Vec<String>, read: Option<u64> },
}

/// A process.
struct Process {
    identity: String,
    replica: Replica,
    observed: Observations,
    /// When it last renewed the leader's Lease.
    leads: Option<u64>,
    /// What it has read, to publish on top of it.
    record: Option<(u64, u64)>,
    renewing: Renewing,
    working: Working,
    /// When each of its threads goes on.
    next: [u64; 3],
}

impl Process {
    fn new(identity: &str, now: u64) -> Self {
        Self {
            identity: identity.to_owned(),
            replica: Replica::new(LEADER, identity, TIMES),
            observed: Observations::default(),
            leads: None,
            record: None,
            renewing: Renewing::Pause,
            working: Working::Pause,
            next: [now; 3],
        }
    }
}

fn time(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

struct World {
    random: Random,
    now: u64,
    servers: Servers,
    /// Requests that are under way, with the time of their arrival.
    under_way: Vec<(u64, Write)>,
    processes: Vec<Process>,
    started: usize,
}

impl World {
    fn new(seed: u64, replicas: usize) -> Self {
        let mut world = Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: 1,
            servers: Servers::default(),
            under_way: Vec::new(),
            processes: Vec::new(),
            started: 0,
        };
        for _ in 0..replicas {
            world.start();
        }
        world
    }

    fn start(&mut self) {
        self.started += 1;
        let at = self.now + self.random.below(3_000);
        self.processes.push(Process::new(&format!("p{}", self.started), at));
    }

    fn faulty(&self) -> bool {
        self.now < FAULTS
    }

    /// How long until a thread goes on. Processes are paused now and then.
    fn delay(&mut self) -> u64 {
        if self.faulty() && self.random.one_in(150) {
            return self.random.below(120_000);
        }
        1 + self.random.below(300)
    }

    /// Sends a write. `None` if it is not known whether it was carried out.
    fn send(&mut self, write: Write) -> Option<bool> {
        if !self.faulty() || !self.random.one_in(12) {
            return Some(self.servers.write(&write));
        }
        match self.random.below(3) {
            0 => {}
            1 => drop(self.servers.write(&write)),
            _ => {
                let arrival = self.now + self.random.below(90_000);
                self.under_way.push((arrival, write));
            }
        }
        None
    }

    fn run(&mut self) {
        while self.now < FAULTS + QUIET {
            let next = self.processes.iter().flat_map(|process| process.next).min().unwrap_or(self.now);
            let arrival = self.under_way.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
            self.now = self.now.max(next.min(arrival));
            let (due, later): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.under_way).into_iter().partition(|(at, _)| *at <= self.now);
            self.under_way = later;
            for (_, write) in due {
                self.servers.write(&write);
            }
            for at in 0..self.processes.len() {
                for thread in 0..3 {
                    if self.processes[at].next[thread] <= self.now {
                        self.step(at, thread);
                        // Other threads acquire nothing.
                        if thread == 0 {
                            self.check();
                        }
                    }
                }
            }
            self.processes.retain(|process| process.next[0] != u64::MAX);
            if self.faulty() && self.random.one_in(4_000) {
                let victim = self.random.below(self.processes.len().max(1) as u64);
                if !self.processes.is_empty() {
                    self.processes.remove(usize::try_from(victim).unwrap());
                }
            }
            while self.processes.len() < 3 {
                self.start();
            }
        }
    }

    fn step(&mut self, at: usize, thread: usize) {
        let mut process = std::mem::replace(&mut self.processes[at], Process::new("", u64::MAX));
        let pause = match thread {
            0 => self.renew(&mut process),
            1 => self.work(&mut process),
            _ => self.lead(&mut process),
        };
        process.next[thread] = self.now + pause;
        let lost_lead = process.leads.is_some_and(|sent| time(self.now - sent) >= TIMES.renew);
        if process.replica.is_lost(time(self.now)) || lost_lead {
            // The process exits, and another one is started.
            process.next = [u64::MAX; 3];
        }
        self.processes[at] = process;
    }

    fn renew(&mut self, process: &mut Process) -> u64 {
        let now = self.now;
        process.renewing = match std::mem::replace(&mut process.renewing, Renewing::Pause) {
            Renewing::Pause => Renewing::Requested(now),
            Renewing::Requested(requested_at) => {
                Renewing::Answered { requested_at, list: self.servers.list() }
            }
            Renewing::Answered { requested_at, list } => {
                Renewing::Answering { requested_at, answered_at: now, list, sent: now }
            }
            Renewing::Answering { requested_at, answered_at, list, sent } => {
                let renewal = process.replica.renewal(&list);
                if let Some(true) = renewal.and_then(|lease| self.send(Write::Lease(lease))) {
                    process.replica.renewed(time(sent), time(now));
                }
                let requests = process.replica.requests(&list, time(requested_at), time(answered_at));
                Renewing::Sending(requests)
            }
            Renewing::Sending(mut requests) => {
                if requests.is_empty() {
                    return if matches!(process.renewing, Renewing::Pause) { 5_000 } else { 0 };
                }
                let request = requests.remove(0);
                let write = match &request {
                    Request::Take(_, lease) | Request::Release(lease) => Write::Lease(lease.clone()),
                    Request::Delete(lease) => Write::DeleteLease(lease.clone()),
                };
                let sent = self.send(write);
                if let (Request::Take(lane, _), Some(true)) = (request, sent) {
                    process.replica.taken(lane);
                }
                process.renewing = Renewing::Sending(requests);
                return if self.faulty() && self.random.one_in(400) { self.random.below(60_000) } else { 1 };
            }
        };
        self.delay()
    }

    fn work(&mut self, process: &mut Process) -> u64 {
        process.working = match std::mem::replace(&mut process.working, Working::Pause) {
            Working::Pause => Working::Entered(process.replica.enter()),
            Working::Entered(lanes) => {
                let published = self.servers.record.1.clone();
                let names = (0..CLUSTERS).map(|at| format!("c{at}"));
                let left = names.filter(|name| lanes.contains(&lane_of(name))).collect();
                Working::Applying { lanes, published, left, read: None }
            }
            Working::Applying { lanes, left, .. } if left.is_empty() => {
                process.replica.leave(&lanes);
                return 1_000;
            }
            Working::Applying { lanes, published, left, read: None } => {
                let read = self.servers.clusters.get(&left[0]).map_or(0, |cluster| cluster.0);
                Working::Applying { lanes, published, left, read: Some(read) }
            }
            Working::Applying { lanes, published, mut left, read: Some(read) } => {
                let name = left.remove(0);
                // A request that was checked may arrive any time later.
                if process.replica.holds(lane_of(&name), time(self.now)) {
                    self.send(Write::Cluster(name, read, published.clone()));
                }
                Working::Applying { lanes, published, left, read: None }
            }
        };
        self.delay()
    }

    /// Takes and renews the leader's Lease, and publishes something now and then.
    fn lead(&mut self, process: &mut Process) -> u64 {
        let now = self.now;
        if let Some((version, number)) = process.record.take() {
            if process.leads.is_some_and(|sent| time(now - sent) < TIMES.renew) {
                let published = (number + 1, format!("{} at {now}", process.identity));
                self.send(Write::Record(version, published));
            }
            return self.delay();
        }
        if process.leads.is_some() && self.random.one_in(3) {
            process.record = Some((self.servers.record.0, self.servers.record.1.0));
            return self.delay();
        }
        let lost = self.faulty() && self.random.one_in(12);
        let leases = LeaderLease { servers: RefCell::new(&mut self.servers), lost };
        let claimed = (LEADER, process.identity.as_str(), TIMES.lease.as_secs());
        if claim(&leases, claimed, &mut process.observed, || time(now)) == Ok(true) {
            process.leads = Some(now);
        }
        5_000 + self.delay()
    }

    fn check(&self) {
        let mut holders = BTreeMap::new();
        for process in self.processes.iter().filter(|process| process.replica.is_alive(time(self.now))) {
            for lane in process.replica.held() {
                let (now, who) = (self.now, &process.identity);
                let other = holders.insert(lane, who);
                assert!(other.is_none(), "at {now} ms, lane {lane} is held by {who} and {other:?}");
            }
        }
    }
}

#[test]
fn no_cluster_is_worked_on_twice_or_goes_back_whatever_happens() {
    // `FEDERATE_TEST_SIMULATIONS` asks for more runs.
    let runs = std::env::var("FEDERATE_TEST_SIMULATIONS").ok().and_then(|runs| runs.parse().ok());
    let mut published = 0;
    for seed in 0..runs.unwrap_or(15_u64) {
        let mut world = World::new(seed, 3);
        world.run();
        let alive: BTreeSet<String> =
            world.processes.iter().map(|process| process.identity.clone()).collect();
        let last = &world.servers.record.1;
        published += last.0;
        for at in 0..CLUSTERS {
            let name = format!("c{at}");
            let lane = lane_of(&name);
            let holder = world.processes.iter().find(|process| process.replica.holds(lane, time(world.now)));
            let holder = holder.map(|process| &process.identity);
            assert_eq!(holder, owner(lane, &alive), "seed {seed}: the lane of {name}");
            let has = &world.servers.clusters[&name].1;
            assert!(last.0 - has.0 <= 2, "seed {seed}: {name} is at {has:?} of {last:?}");
        }
    }
    assert!(published > 300, "only {published} publications");
}
