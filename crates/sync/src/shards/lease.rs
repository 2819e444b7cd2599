//! Leases: who holds them, and since when they have not changed.
//!
//! Facts: `Lease` of `coordination.k8s.io/v1`; the leader election of client-go. Clocks of other machines do not count:
//! a Lease has expired when it has not changed for as long as it lasts, by our own clock.

use std::collections::BTreeMap;
use std::time::Duration;

/// A Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Its name.
    pub(crate) name: String,
    /// Who holds it; empty if it was released.
    pub(crate) holder: String,
    /// How long it lasts, in seconds.
    pub(crate) seconds: u64,
    /// When its holder acquired it; the store writes the time of a Lease that has none.
    pub(crate) acquired: Option<String>,
    /// How often another holder has acquired it.
    pub(crate) transitions: i64,
    /// The version that is replaced; empty if the Lease does not exist.
    pub(crate) version: String,
}

/// Where Leases are stored. Each write is about one version: it changes nothing if the Lease has changed meanwhile.
pub(crate) trait Leases {
    /// Why a request failed. It may have been carried out all the same.
    type Error: std::fmt::Display;

    /// A Lease.
    fn find(&self, name: &str) -> Result<Option<Lease>, Self::Error>;

    /// All Leases of replicas and lanes, as they are at one moment.
    fn list(&self) -> Result<Vec<Lease>, Self::Error>;

    /// Writes a Lease, with the present time as that of its renewal. Returns `false` if it has changed meanwhile.
    fn put(&self, lease: &Lease) -> Result<bool, Self::Error>;

    /// Deletes a Lease, unless it has changed meanwhile.
    fn delete(&self, lease: &Lease) -> Result<(), Self::Error>;
}

impl Lease {
    /// The Lease with another holder, who has just acquired it.
    pub(crate) fn taken(mut self, holder: &str, seconds: u64) -> Self {
        if self.holder != holder {
            self.transitions += i64::from(!self.version.is_empty());
            self.acquired = None;
        }
        holder.clone_into(&mut self.holder);
        self.seconds = seconds;
        self
    }
}

/// Since when Leases have not changed, by our own clock.
#[derive(Debug, Default)]
pub(crate) struct Observations(BTreeMap<String, (String, Duration)>);

impl Observations {
    /// Notes a Lease that was read, and returns whether it had expired when it was asked for. It had not changed since
    /// the first answer that showed it as it is.
    pub(crate) fn expired(&mut self, lease: &Lease, asked: Duration, answered: Duration) -> bool {
        let seen = self.0.entry(lease.name.clone()).or_default();
        if seen.0 != lease.version {
            *seen = (lease.version.clone(), answered);
        }
        asked.saturating_sub(seen.1) >= Duration::from_secs(lease.seconds)
    }

    /// Forgets Leases that no longer exist.
    pub(crate) fn keep(&mut self, exists: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| exists(name));
    }
}

/// Takes or renews a Lease, unless another process holds it. Returns whether it is held now.
pub(crate) fn claim<L: Leases>(
    leases: &L,
    (name, identity, seconds): (&str, &str, u64),
    observed: &mut Observations,
    now: impl Fn() -> Duration,
) -> Result<bool, L::Error> {
    let asked = now();
    let lease = leases.find(name)?.unwrap_or_else(|| Lease { name: name.to_owned(), ..Lease::default() });
    let is_free = lease.holder.is_empty() || lease.holder == identity;
    if !is_free && !observed.expired(&lease, asked, now()) {
        return Ok(false);
    }
    leases.put(&lease.taken(identity, seconds))
}
