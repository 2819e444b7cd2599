//! Leases on the API server.
//!
//! Facts: `Lease` of `coordination.k8s.io/v1`. Resource versions are only
//! compared for equality.

use std::sync::Arc;

use federate_live::path::ApiPath;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::JSON;
use super::{Error, Hub};
use crate::shards::{Lease, Leases};

/// The label of the Leases of replicas and lanes, which names the leader's.
const LABEL: &str = "federate.dev/replicas-of";

/// The Leases of a namespace.
pub(crate) struct LeaseStore {
    hub: Arc<Hub>,
    namespace: String,
    /// The name of the leader's Lease.
    leader: String,
}

impl LeaseStore {
    pub(crate) fn new(hub: Arc<Hub>, namespace: &str, leader: &str) -> Self {
        Self { hub, namespace: namespace.to_owned(), leader: leader.to_owned() }
    }

    fn folder(&self) -> ApiPath {
        ApiPath::of_version("coordination.k8s.io/v1").in_namespace(&self.namespace).join("leases")
    }

    fn path(&self, name: &str) -> ApiPath {
        self.folder().join(name)
    }
}

impl Leases for LeaseStore {
    type Error = Error;

    fn find(&self, name: &str) -> Result<Option<Lease>, Error> {
        Ok(self.hub.find(&self.path(name))?.as_ref().map(read))
    }

    fn list(&self) -> Result<Vec<Lease>, Error> {
        let path = self.folder().query("labelSelector", &format!("{LABEL}={}", self.leader));
        let list = self.hub.find(&path)?.unwrap_or_default();
        Ok(list["items"].as_array().into_iter().flatten().map(read).collect())
    }

    fn put(&self, lease: &Lease) -> Result<bool, Error> {
        let now = format!("{:.6}", Timestamp::now());
        let mut body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": lease.name, "namespace": self.namespace},
            "spec": {
                "holderIdentity": lease.holder, "leaseDurationSeconds": lease.seconds.max(1),
                "acquireTime": lease.acquired.as_ref().unwrap_or(&now), "renewTime": now,
                "leaseTransitions": lease.transitions,
            },
        });
        if lease.name != self.leader {
            body["metadata"]["labels"] = json!({LABEL: self.leader});
        }
        let written = if lease.version.is_empty() {
            self.hub.send(&Method::POST, &self.folder(), JSON, Some(&body))
        } else {
            body["metadata"]["resourceVersion"] = lease.version.clone().into();
            self.hub.send(&Method::PUT, &self.path(&lease.name), JSON, Some(&body))
        };
        unchanged(written.map(drop))
    }

    fn delete(&self, lease: &Lease) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": lease.version},
        });
        let deleted = self.hub.send(&Method::DELETE, &self.path(&lease.name), JSON, Some(&options));
        unchanged(deleted.map(drop)).map(drop)
    }
}

/// Whether a write succeeded; a conflict means that another process was first.
fn unchanged(written: Result<(), Error>) -> Result<bool, Error> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.is_conflict() || error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

fn read(lease: &Value) -> Lease {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &lease["spec"];
    Lease {
        name: text(&lease["metadata"]["name"]),
        holder: text(&spec["holderIdentity"]),
        seconds: spec["leaseDurationSeconds"].as_u64().unwrap_or(1),
        acquired: spec["acquireTime"].as_str().map(str::to_owned),
        transitions: spec["leaseTransitions"].as_i64().unwrap_or_default(),
        version: text(&lease["metadata"]["resourceVersion"]),
    }
}
