//! Leader election by a Lease: one of several processes works, and another takes over when it is gone.
//!
//! Facts: the leader election of client-go, with the times of controller-runtime's users: a Lease lasts 35 s, a
//! process that cannot renew it for 30 s stops, and attempts are 5 s apart. Clocks of other machines do not count: a Lease has expired
//! when it has not changed for as long as it lasts, by our own clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::JSON;
use super::{Error, Hub};

/// Which Lease, and how long it lasts.
#[derive(Clone, Debug)]
pub struct LeaderOptions {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The identity of this process.
    pub identity: String,
    /// How long the Lease lasts.
    pub lease: Duration,
    /// How long it may stay without being renewed.
    pub renew: Duration,
    /// The pause between attempts.
    pub retry: Duration,
}

impl LeaderOptions {
    /// The Lease `federate-sync` of a namespace, with the usual times.
    pub fn new(namespace: &str) -> Self {
        let random = getrandom::u64().unwrap_or_default();
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        Self {
            namespace: namespace.to_owned(),
            name: "federate-sync".to_owned(),
            identity: format!("{}_{random:016x}", host.trim()),
            lease: Duration::from_secs(35),
            renew: Duration::from_secs(30),
            retry: Duration::from_secs(5),
        }
    }

    fn folder(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.folder(), self.name)
    }
}

/// The Lease, held by this process.
pub struct Leader {
    hub: Arc<Hub>,
    options: LeaderOptions,
    state: Arc<State>,
}

struct State {
    renewed: Mutex<Instant>,
    ended: AtomicBool,
}

/// The Lease of another process, as it was observed.
struct Observed {
    lease: Value,
    since: Instant,
}

impl Leader {
    /// Waits until this process has the Lease, and renews it from then on in a thread. `lost` is called when it could
    /// not be renewed in time. `end` says whether to stop waiting.
    pub fn elect(
        hub: &Arc<Hub>,
        options: LeaderOptions,
        end: &dyn Fn() -> bool,
        lost: impl FnOnce() + Send + 'static,
    ) -> Option<Self> {
        let mut observed = None;
        let mut waiting = false;
        let at = loop {
            let begun = Instant::now();
            match attempt(hub, &options, &mut observed) {
                Ok(true) => break begun,
                Ok(false) if !waiting => {
                    tracing::info!(lease = options.path(), "waiting: another process leads");
                    waiting = true;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the Lease cannot be taken"),
            }
            let until = Instant::now() + options.retry;
            while Instant::now() < until {
                if end() {
                    return None;
                }
                thread::sleep(Duration::from_millis(50).min(options.retry));
            }
        };
        tracing::info!(identity = options.identity, "leading");
        let state = Arc::new(State { renewed: Mutex::new(at), ended: AtomicBool::new(false) });
        let leader = Self { hub: hub.clone(), options: options.clone(), state: state.clone() };
        let hub = hub.clone();
        thread::spawn(move || renew(&hub, &options, &state, lost));
        Some(leader)
    }

    /// Whether no other process can hold the Lease at this moment.
    pub fn leads(&self) -> bool {
        leads(&self.state, &self.options)
    }

    /// Releases the Lease, so that another process can take it at once.
    pub fn release(&self) {
        self.state.ended.store(true, Ordering::SeqCst);
        let released = self.hub.find(&self.options.path()).and_then(|lease| {
            let Some(mut lease) = lease.filter(|lease| holder(lease) == self.options.identity) else {
                return Ok(());
            };
            lease["spec"]["holderIdentity"] = "".into();
            lease["spec"]["leaseDurationSeconds"] = 1.into();
            self.hub.send(&Method::PUT, &self.options.path(), JSON, Some(&lease)).map(drop)
        });
        if let Err(error) = released {
            tracing::warn!(%error, "the Lease could not be released");
        }
    }
}

fn leads(state: &State, options: &LeaderOptions) -> bool {
    state.renewed.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < options.renew
}

fn renew(hub: &Hub, options: &LeaderOptions, state: &State, lost: impl FnOnce()) {
    let mut observed = None;
    loop {
        thread::sleep(options.retry);
        if state.ended.load(Ordering::SeqCst) {
            return;
        }
        let begun = Instant::now();
        match attempt(hub, options, &mut observed) {
            Ok(true) => *state.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun,
            Ok(false) => {
                tracing::error!("another process has taken the Lease");
                return lost();
            }
            Err(error) => tracing::warn!(%error, "the Lease could not be renewed"),
        }
        if !leads(state, options) {
            tracing::error!("the Lease could not be renewed for {} s", options.renew.as_secs());
            return lost();
        }
    }
}

/// Takes or renews the Lease, unless another process has it.
fn attempt(hub: &Hub, options: &LeaderOptions, observed: &mut Option<Observed>) -> Result<bool, Error> {
    let now = format!("{:.6}", Timestamp::now());
    let Some(mut lease) = hub.find(&options.path())? else {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": options.name, "namespace": options.namespace},
            "spec": {
                "holderIdentity": options.identity, "leaseDurationSeconds": options.lease.as_secs().max(1),
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0,
            },
        });
        return won(hub.send(&Method::POST, &options.folder(), JSON, Some(&lease)));
    };
    let holder = holder(&lease);
    if holder != options.identity && !holder.is_empty() {
        let same = observed.as_ref().filter(|seen| seen.lease["spec"] == lease["spec"]);
        let since = same.map_or_else(Instant::now, |seen| seen.since);
        let lasts = lease["spec"]["leaseDurationSeconds"].as_u64().map_or(options.lease, Duration::from_secs);
        *observed = Some(Observed { lease: lease.clone(), since });
        if since.elapsed() < lasts {
            return Ok(false);
        }
    }
    let spec = &mut lease["spec"];
    if holder != options.identity {
        spec["acquireTime"] = now.clone().into();
        spec["leaseTransitions"] = (spec["leaseTransitions"].as_i64().unwrap_or(0) + 1).into();
    }
    spec["holderIdentity"] = options.identity.clone().into();
    spec["leaseDurationSeconds"] = options.lease.as_secs().max(1).into();
    spec["renewTime"] = now.into();
    won(hub.send(&Method::PUT, &options.path(), JSON, Some(&lease)))
}

/// Whether the write succeeded; a conflict means that another process was first.
fn won(written: Result<Value, Error>) -> Result<bool, Error> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

fn holder(lease: &Value) -> String {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}
