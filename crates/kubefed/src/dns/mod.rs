//! Multi-cluster DNS: `ServiceDNSRecord` and `IngressDNSRecord`, and the `DNSEndpoint` that the host gets for
//! each.
//!
//! ```text
//! record ─► status (load balancers of the ready clusters) ─► endpoints (names, types, targets)
//! ```

use serde_json::{Map, Value, json};

use super::api::{IngressRecordSpec, ServiceRecordSpec, spec};
use super::memory::{Memory, RecordStatus};
use super::{KubeFedPlane, NAME};
use federate_dialect::{
    ClusterVerdict, Decided, Explanation, HOST, Placed, Placement, Rendered, Unschedulable, Variant,
};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};

mod endpoints;
mod status;

/// Why a record has no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    reason: &'static str,
    message: String,
    help: &'static str,
}

/// A record, by its kind.
#[derive(Clone, Debug)]
enum Kind {
    Service(ServiceRecordSpec),
    Ingress(IngressRecordSpec),
}

impl Kind {
    /// Reads a record that passed validation.
    fn of(record: &Object) -> Self {
        if record.id.kind == SERVICE_RECORD {
            Self::Service(spec(record).unwrap_or_default())
        } else {
            Self::Ingress(spec(record).unwrap_or_default())
        }
    }
}

const SERVICE_RECORD: &str = "ServiceDNSRecord";

/// Whether an object is a record.
pub(super) fn is_record(object: &Object) -> bool {
    matches!(object.id.kind.as_str(), SERVICE_RECORD | "IngressDNSRecord")
}

/// The endpoint of a record.
pub(super) fn target(record: &Object) -> ObjectRef {
    let prefix = if record.id.kind == SERVICE_RECORD { "service" } else { "ingress" };
    ObjectRef {
        api_version: record.id.api_version.clone(),
        kind: "DNSEndpoint".to_owned(),
        namespace: record.id.namespace.clone(),
        name: format!("{prefix}-{}", record.id.name),
    }
}

/// The outcome for a record.
struct Outcome {
    status: Option<RecordStatus>,
    endpoints: Result<Vec<Value>, Failure>,
}

fn outcome(plane: &KubeFedPlane<'_>, record: &Object) -> Outcome {
    match status::of(plane, record) {
        Err(failure) => Outcome { status: None, endpoints: Err(failure) },
        Ok(status) => Outcome {
            endpoints: endpoints::of(record, &status, plane.input.hosts),
            status: Some(status.written()),
        },
    }
}

/// Decides about one record.
pub(super) fn decide(plane: &KubeFedPlane<'_>, record: &Object) -> Decided {
    let (row, failure) = row(plane, record);
    let finding = failure.map(|failure| {
        let message = format!("{} is not written: {}: {}", row.object, failure.reason, failure.message);
        let mut finding = Finding::warning("unschedulable", record, message).help(failure.help);
        finding.object = Some(row.object.clone());
        finding
    });
    Decided { placements: vec![row], findings: finding.into_iter().collect(), ..Decided::default() }
}

fn row(plane: &KubeFedPlane<'_>, record: &Object) -> (Placement, Option<Failure>) {
    let outcome = outcome(plane, record);
    let mut row = Placement::new(NAME, target(record), Some(record.id.clone()));
    Memory { record_status: outcome.status, ..Memory::default() }.write(&mut row);
    match outcome.endpoints {
        Ok(_) => {
            row.clusters = vec![Placed { name: HOST.into(), replicas: None }].into();
            (row, None)
        }
        Err(failure) => {
            row.unschedulable =
                Some(Unschedulable { reason: failure.reason.to_owned(), message: failure.message.clone() });
            (row, Some(failure))
        }
    }
}

/// The variants of the endpoint; none if it is not written.
pub(super) fn variants(plane: &KubeFedPlane<'_>, row: &Placement, record: &Object) -> Vec<Variant> {
    let Ok(endpoints) = outcome(plane, record).endpoints else { return Vec::new() };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), row.object.name.as_str().into());
    metadata.insert("namespace".to_owned(), row.object.namespace.as_deref().into());
    let spec = if endpoints.is_empty() { json!({}) } else { json!({"endpoints": endpoints}) };
    let body = json!({"apiVersion": row.object.api_version, "kind": row.object.kind, "metadata": metadata, "spec": spec});
    let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
    vec![Variant { clusters, rendered: Ok(Rendered { body, changes: Vec::new() }) }]
}

/// Explains a record.
pub(super) fn explain(plane: &KubeFedPlane<'_>, record: &Object, placed: Option<&Placement>) -> Explanation {
    let (own, failure) = row(plane, record);
    let mut policy = vec![format!("{} ({}) asks for it", record.id, record.origin)];
    policy.extend(failure.map(|failure| format!("{}: {}", failure.reason, failure.message)));
    let verdict = |cluster: &Cluster| ClusterVerdict {
        cluster: cluster.name.clone(),
        chosen: false,
        refused_by: None,
        score: None,
        replicas: None,
        why: contribution(plane, &own, cluster),
    };
    Explanation {
        dialect: NAME,
        policy,
        steps: Vec::new(),
        clusters: plane.input.clusters.iter().map(verdict).collect(),
        placement: placed.cloned().unwrap_or_else(|| own.clone()),
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    }
}

/// What a cluster contributes to the addresses, in a sentence.
fn contribution(plane: &KubeFedPlane<'_>, row: &Placement, cluster: &Cluster) -> String {
    let status = Memory::of(row).record_status.unwrap_or_default();
    let entry = status.dns.iter().find(|entry| *entry.cluster == *cluster.name);
    let addresses: Vec<&str> = entry
        .into_iter()
        .flat_map(|entry| &entry.load_balancer.ingress)
        .flat_map(|address| [address.ip.as_str(), address.hostname.as_str()])
        .filter(|address| !address.is_empty())
        .collect();
    match entry {
        None if plane.cluster(&cluster.name).is_none() => {
            format!("KubeFed sees only clusters in its namespace `{}`", plane.config.namespace)
        }
        None if !cluster.ready => "it is not ready, so the record skips it".to_owned(),
        None => "the record fails as a whole".to_owned(),
        Some(_) if addresses.is_empty() => "it has no load balancer, or no endpoints".to_owned(),
        Some(_) => format!("answers at {}", addresses.join(", ")),
    }
}
