//! Multi-cluster DNS: `ServiceDNSRecord` and `IngressDNSRecord`, and the `DNSEndpoint` that the host gets for
//! each.
//!
//! ```text
//! record ─► status (load balancers of the ready clusters) ─► endpoints (names, types, targets)
//! ```

use serde_json::{Map, Value, json};

use super::api::{IngressRecordSpec, ServiceRecordSpec, read_spec};
use super::state::{KubeFedState, RecordStatus};
use super::{KubeFedPlanner, NAME};
use federate_dialect::{
    ClusterVerdict, DialectDecisions, Explanation, HUB, ManifestVariant, Placed, Placement, RenderedManifest,
    Unschedulable,
};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};

mod endpoints;
mod status;

/// Why a record has no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordFailure {
    reason: &'static str,
    message: String,
    help: &'static str,
}

/// A record, by its kind.
#[derive(Clone, Debug)]
enum RecordKind {
    Service(ServiceRecordSpec),
    Ingress(IngressRecordSpec),
}

impl RecordKind {
    /// Reads a record that passed validation.
    fn from_record(record: &Object) -> Self {
        if record.id.kind == SERVICE_RECORD {
            Self::Service(read_spec(record).unwrap_or_default())
        } else {
            Self::Ingress(read_spec(record).unwrap_or_default())
        }
    }
}

const SERVICE_RECORD: &str = "ServiceDNSRecord";

/// Whether an object is a record.
pub(super) fn is_record(object: &Object) -> bool {
    matches!(object.id.kind.as_str(), SERVICE_RECORD | "IngressDNSRecord")
}

/// The endpoint of a record.
pub(super) fn endpoint_ref(record: &Object) -> ObjectRef {
    let prefix = if record.id.kind == SERVICE_RECORD { "service" } else { "ingress" };
    ObjectRef {
        api_version: record.id.api_version.clone(),
        kind: "DNSEndpoint".to_owned(),
        namespace: record.id.namespace.clone(),
        name: format!("{prefix}-{}", record.id.name),
    }
}

/// The outcome for a record.
struct RecordOutcome {
    status: Option<RecordStatus>,
    endpoints: Result<Vec<Value>, RecordFailure>,
}

fn compute_outcome(plane: &KubeFedPlanner<'_>, record: &Object) -> RecordOutcome {
    match status::resolve_record(plane, record) {
        Err(failure) => RecordOutcome { status: None, endpoints: Err(failure) },
        Ok(status) => RecordOutcome {
            endpoints: endpoints::compute_endpoints(record, &status, plane.input.hosts),
            status: Some(status.to_record_status()),
        },
    }
}

/// Decides about one record.
pub(super) fn decide_record(plane: &KubeFedPlanner<'_>, record: &Object) -> DialectDecisions {
    let (row, failure) = build_row(plane, record);
    let finding = failure.map(|failure| {
        let message = format!("{} is not written: {}: {}", row.object, failure.reason, failure.message);
        let mut finding = Finding::warning("unschedulable", record, message).with_help(failure.help);
        finding.object = Some(row.object.clone());
        finding
    });
    DialectDecisions {
        placements: vec![row],
        findings: finding.into_iter().collect(),
        ..DialectDecisions::default()
    }
}

fn build_row(plane: &KubeFedPlanner<'_>, record: &Object) -> (Placement, Option<RecordFailure>) {
    let outcome = compute_outcome(plane, record);
    let mut row = Placement::new(NAME, endpoint_ref(record), Some(record.id.clone()));
    KubeFedState { record_status: outcome.status, ..KubeFedState::default() }.write_to(&mut row);
    match outcome.endpoints {
        Ok(_) => {
            row.clusters = vec![Placed { name: HUB.into(), replicas: None }].into();
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
pub(super) fn render_endpoint(
    plane: &KubeFedPlanner<'_>,
    row: &Placement,
    record: &Object,
) -> Vec<ManifestVariant> {
    let Ok(endpoints) = compute_outcome(plane, record).endpoints else { return Vec::new() };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), row.object.name.as_str().into());
    metadata.insert("namespace".to_owned(), row.object.namespace.as_deref().into());
    let spec = if endpoints.is_empty() { json!({}) } else { json!({"endpoints": endpoints}) };
    let body = json!({"apiVersion": row.object.api_version, "kind": row.object.kind, "metadata": metadata, "spec": spec});
    let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
    vec![ManifestVariant { clusters, rendered: Ok(RenderedManifest { body, changes: Vec::new() }) }]
}

/// Explains a record.
pub(super) fn explain_record(
    plane: &KubeFedPlanner<'_>,
    record: &Object,
    placed: Option<&Placement>,
) -> Explanation {
    let (own, failure) = build_row(plane, record);
    let mut policy = vec![format!("{} ({}) asks for it", record.id, record.origin)];
    policy.extend(failure.map(|failure| format!("{}: {}", failure.reason, failure.message)));
    let verdicts = plane.input.clusters.iter().map(|cluster| ClusterVerdict {
        cluster: cluster.name.clone(),
        chosen: false,
        refused_by: None,
        score: None,
        replicas: None,
        why: describe_contribution(plane, &own, cluster),
        // A record is written on the hub: the clusters are those that it points to.
        causes: Vec::new(),
    });
    Explanation {
        dialect: NAME,
        policy,
        steps: Vec::new(),
        clusters: verdicts.collect(),
        placement: placed.cloned().unwrap_or_else(|| own.clone()),
        fulfilled: None,
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    }
}

/// What a cluster contributes to the addresses, in a sentence.
fn describe_contribution(plane: &KubeFedPlanner<'_>, row: &Placement, cluster: &Cluster) -> String {
    let status = KubeFedState::from_row(row).record_status.unwrap_or_default();
    let entry = status.dns.iter().find(|entry| *entry.cluster == *cluster.name);
    let addresses: Vec<&str> = entry
        .into_iter()
        .flat_map(|entry| &entry.load_balancer.ingress)
        .flat_map(|address| [address.ip.as_str(), address.hostname.as_str()])
        .filter(|address| !address.is_empty())
        .collect();
    match entry {
        None if plane.find_cluster(&cluster.name).is_none() => {
            format!("KubeFed sees only clusters in its namespace `{}`", plane.config.namespace)
        }
        None if !cluster.ready => "it is not ready, so the record skips it".to_owned(),
        None => "the record fails as a whole".to_owned(),
        Some(_) if addresses.is_empty() => "it has no load balancer, or no endpoints".to_owned(),
        Some(_) => format!("answers at {}", addresses.join(", ")),
    }
}
