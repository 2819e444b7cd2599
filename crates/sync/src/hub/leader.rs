//! Leader election by a Lease: one of several processes works, and another takes over when it is gone.
//!
//! Facts: the leader election of client-go, with the times of controller-runtime's users: a Lease lasts 35 s, a
//! process that cannot renew it for 30 s stops, and attempts are 5 s apart.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use federate_sync_api::NamespacedName;
use federate_sync_api::record::compute_digest;

use super::leases::{LeaseObservation, LeaseStore};
use super::{Error, HubClient};

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

    /// These options for an installation that only runs the Syncs with some labels: it has a Lease of its own.
    #[must_use]
    pub fn for_selector(mut self, selector: Option<&str>) -> Self {
        if let Some(selector) = selector {
            let short: String = compute_digest([selector.as_bytes()]).chars().take(10).collect();
            self.name = format!("{}-{short}", self.name);
        }
        self
    }

    /// These options with another duration of the Lease; the other times keep their proportions.
    #[must_use]
    pub fn with_lease_duration(self, lease: Duration) -> Self {
        Self { lease, renew: lease * 6 / 7, retry: lease / 7, ..self }
    }
}

/// The Lease, held by this process.
pub struct Leader {
    store: LeaseStore,
    options: LeaderOptions,
    state: Arc<LeaderState>,
}

struct LeaderState {
    renewed: Mutex<Instant>,
    ended: AtomicBool,
}

impl Leader {
    /// Waits until this process has the Lease, and renews it from then on in a thread. `lost` is called when another
    /// process has taken it. `end` says whether to stop waiting.
    pub fn wait_for_lease(
        hub: &Arc<HubClient>,
        options: LeaderOptions,
        end: &dyn Fn() -> bool,
        lost: impl FnOnce() + Send + 'static,
    ) -> Option<Self> {
        let store = LeaseStore::new(hub.clone(), &options.namespace, &options.name);
        let mut attempts = LeaseAttempts::new(store.clone(), &options);
        let mut waiting = false;
        let at = loop {
            let begun = Instant::now();
            match attempts.try_acquire() {
                Ok(true) => break begun,
                Ok(false) if !waiting => {
                    tracing::info!(
                        lease = format!("{}/{}", options.namespace, options.name),
                        "waiting: another process leads"
                    );
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
        let (namespace, name) = (options.namespace.clone(), options.name.clone());
        hub.lease.get_or_init(|| NamespacedName { namespace, name });
        let state = Arc::new(LeaderState { renewed: Mutex::new(at), ended: AtomicBool::new(false) });
        let leader = Self { store, options: options.clone(), state: state.clone() };
        thread::spawn(move || renew_until_lost(&mut attempts, &options, &state, lost));
        Some(leader)
    }

    /// Whether no other process can hold the Lease at this moment.
    pub fn is_leading(&self) -> bool {
        is_leading(&self.state, &self.options)
    }

    /// Releases the Lease, so that another process can take it at once.
    pub fn release_lease(&self) {
        self.state.ended.store(true, Ordering::SeqCst);
        let released = self.store.find_lease().and_then(|lease| {
            let Some(lease) = lease.filter(|lease| lease.holder == self.options.identity) else {
                return Ok(true);
            };
            self.store.write_lease(&lease.without_holder())
        });
        if let Err(error) = released {
            tracing::warn!(%error, "the Lease could not be released");
        }
    }
}

/// Attempts to take or renew the Lease.
struct LeaseAttempts {
    store: LeaseStore,
    identity: String,
    seconds: u64,
    observation: LeaseObservation,
}

impl LeaseAttempts {
    fn new(store: LeaseStore, options: &LeaderOptions) -> Self {
        let seconds = options.lease.as_secs().max(1);
        Self { store, identity: options.identity.clone(), seconds, observation: LeaseObservation::default() }
    }

    /// Whether this process holds the Lease now.
    fn try_acquire(&mut self) -> Result<bool, Error> {
        self.store.claim_lease(&self.identity, self.seconds, &mut self.observation)
    }
}

fn is_leading(state: &LeaderState, options: &LeaderOptions) -> bool {
    state.renewed.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < options.renew
}

/// Renews the Lease until another process has taken it. While the API server cannot be reached, nothing is written
/// ([`Leader::is_leading`]), and the process goes on when it can be reached again, unless another one has taken over.
fn renew_until_lost(
    attempts: &mut LeaseAttempts,
    options: &LeaderOptions,
    state: &LeaderState,
    lost: impl FnOnce(),
) {
    let mut led = true;
    loop {
        thread::sleep(options.retry);
        if state.ended.load(Ordering::SeqCst) {
            return;
        }
        let begun = Instant::now();
        match attempts.try_acquire() {
            Ok(true) => *state.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun,
            Ok(false) => {
                tracing::error!("another process has taken the Lease");
                return lost();
            }
            Err(error) => tracing::warn!(%error, "the Lease could not be renewed"),
        }
        let leads = is_leading(state, options);
        match (std::mem::replace(&mut led, leads), leads) {
            (true, false) => {
                let seconds = options.renew.as_secs();
                tracing::error!(
                    "the Lease could not be renewed for {seconds} s: nothing is written until it is"
                );
            }
            (false, true) => tracing::info!(identity = options.identity, "leading again"),
            _ => {}
        }
    }
}
