//! Leases on the API server: who holds them, and since when they have not changed.
//!
//! Facts: `Lease` of `coordination.k8s.io/v1`; the leader election of client-go. Clocks of other machines do not count: a
//! Lease has expired when it has not changed for as long as it lasts, by our own clock. Resource versions are only
//! compared for equality.

use std::sync::Arc;
use std::time::{Duration, Instant};

use federate_kubernetes::object::field_text;
use federate_live::path::ApiPath;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::JSON;
use super::{Error, HubClient};

/// A Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Who holds it; empty if it was released.
    pub(crate) holder: String,
    /// How long it lasts, in seconds.
    pub(crate) seconds: u64,
    /// When its holder acquired it; the store writes the time of a Lease that has none.
    acquired: Option<String>,
    /// How often another holder has acquired it.
    transitions: i64,
    /// The version that is replaced; empty if the Lease does not exist.
    version: String,
}

impl Lease {
    /// The Lease with another holder, who has just acquired it.
    fn with_holder(mut self, holder: &str, seconds: u64) -> Self {
        if self.holder != holder {
            self.transitions += i64::from(!self.version.is_empty());
            self.acquired = None;
        }
        holder.clone_into(&mut self.holder);
        self.seconds = seconds;
        self
    }

    /// The Lease without a holder, so that another process can take it at once.
    pub(crate) fn without_holder(self) -> Self {
        Self { holder: String::new(), seconds: 1, ..self }
    }
}

/// Since when a Lease has not changed, by our own clock.
#[derive(Debug, Default)]
pub(crate) struct LeaseObservation(Option<(String, Instant)>);

impl LeaseObservation {
    /// Notes a Lease that was read, and returns whether it had expired when it was asked for. It had not changed since
    /// the first answer that showed it as it is.
    fn is_expired(&mut self, lease: &Lease, asked: Instant, answered: Instant) -> bool {
        let since = match &self.0 {
            Some((version, since)) if *version == lease.version => *since,
            _ => {
                self.0 = Some((lease.version.clone(), answered));
                answered
            }
        };
        asked.saturating_duration_since(since) >= Duration::from_secs(lease.seconds)
    }
}

/// One Lease on an API server.
#[derive(Clone)]
pub(crate) struct LeaseStore {
    hub: Arc<HubClient>,
    namespace: String,
    name: String,
}

impl LeaseStore {
    pub(crate) fn new(hub: Arc<HubClient>, namespace: &str, name: &str) -> Self {
        Self { hub, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn list_path(&self) -> ApiPath {
        ApiPath::from_version("coordination.k8s.io/v1").in_namespace(&self.namespace).join("leases")
    }

    /// The Lease; `None` if it does not exist.
    pub(crate) fn find_lease(&self) -> Result<Option<Lease>, Error> {
        Ok(self.hub.find_object(&self.list_path().join(&self.name))?.as_ref().map(parse_lease))
    }

    /// Takes or renews the Lease, unless another process holds it. Returns whether it is held now.
    pub(crate) fn claim_lease(
        &self,
        identity: &str,
        seconds: u64,
        observation: &mut LeaseObservation,
    ) -> Result<bool, Error> {
        let asked = Instant::now();
        let lease = self.find_lease()?.unwrap_or_default();
        let is_free = lease.holder.is_empty() || lease.holder == identity;
        if !is_free && !observation.is_expired(&lease, asked, Instant::now()) {
            return Ok(false);
        }
        self.write_lease(&lease.with_holder(identity, seconds))
    }

    /// Writes the Lease, with the present time as that of its renewal. Returns `false` if it has changed meanwhile.
    pub(crate) fn write_lease(&self, lease: &Lease) -> Result<bool, Error> {
        let now = format!("{:.6}", Timestamp::now());
        let mut body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "holderIdentity": lease.holder, "leaseDurationSeconds": lease.seconds.max(1),
                "acquireTime": lease.acquired.as_ref().unwrap_or(&now), "renewTime": now,
                "leaseTransitions": lease.transitions,
            },
        });
        let written = if lease.version.is_empty() {
            self.hub.send_request(&Method::POST, &self.list_path(), JSON, Some(&body))
        } else {
            body["metadata"]["resourceVersion"] = lease.version.clone().into();
            self.hub.send_request(&Method::PUT, &self.list_path().join(&self.name), JSON, Some(&body))
        };
        match written {
            Ok(_) => Ok(true),
            // Another process was first.
            Err(error) if error.is_conflict() || error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn parse_lease(lease: &Value) -> Lease {
    let spec = &lease["spec"];
    Lease {
        holder: field_text(spec, "holderIdentity").to_owned(),
        seconds: spec["leaseDurationSeconds"].as_u64().unwrap_or(1),
        acquired: spec["acquireTime"].as_str().map(str::to_owned),
        transitions: spec["leaseTransitions"].as_i64().unwrap_or_default(),
        version: field_text(&lease["metadata"], "resourceVersion").to_owned(),
    }
}
