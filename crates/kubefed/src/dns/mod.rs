//! Multi-cluster DNS: `ServiceDNSRecord` and `IngressDNSRecord`, and the `DNSEndpoint` that each
//! becomes on the host.
//!
//! ```text
//! record ─► status (load balancers of the ready clusters) ─► endpoints (names, types, targets)
//! ```

use serde_json::{Map, Value, json};

use super::{KubeFeds, NAME};
use federate_dialect::{
    ClusterVerdict, Decided, Explanation, HOST, Placed, Placement, Rendered, Unschedulable, Variant,
};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};

mod endpoints;
mod status;

/// The status of a record in its row of the plan.
const STATUS: &str = "recordStatus";

/// Why a record does not become an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    reason: &'static str,
    message: String,
    help: &'static str,
}

/// A record of services or of ingresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Service,
    Ingress,
}

impl Kind {
    fn of(record: &Object) -> Self {
        if record.id.kind == "ServiceDNSRecord" { Self::Service } else { Self::Ingress }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Ingress => "ingress",
        }
    }
}

/// Whether an object is a record.
pub(super) fn is_record(object: &Object) -> bool {
    matches!(object.id.kind.as_str(), "ServiceDNSRecord" | "IngressDNSRecord")
}

/// The endpoint that a record becomes.
pub(super) fn target(record: &Object) -> ObjectRef {
    ObjectRef {
        api_version: record.id.api_version.clone(),
        kind: "DNSEndpoint".to_owned(),
        namespace: record.id.namespace.clone(),
        name: format!("{}-{}", Kind::of(record).prefix(), record.id.name),
    }
}

/// What comes of a record.
struct Outcome {
    status: Option<Value>,
    endpoints: Result<Vec<Value>, Failure>,
}

fn outcome(plane: &KubeFeds<'_>, record: &Object) -> Outcome {
    match status::of(plane, record) {
        Err(failure) => Outcome { status: None, endpoints: Err(failure) },
        Ok(status) => Outcome {
            endpoints: endpoints::of(record, &status, plane.input.hosts),
            status: Some(status.written()),
        },
    }
}

/// Decides about one record.
pub(super) fn decide(plane: &KubeFeds<'_>, record: &Object) -> Decided {
    let (row, failure) = row(plane, record);
    let finding = failure.map(|failure| {
        let message = format!("{} is not written: {}: {}", row.object, failure.reason, failure.message);
        let mut finding = Finding::warning("unschedulable", record, message).help(failure.help);
        finding.object = Some(row.object.clone());
        finding
    });
    Decided { placements: vec![row], findings: finding.into_iter().collect(), ..Decided::default() }
}

fn row(plane: &KubeFeds<'_>, record: &Object) -> (Placement, Option<Failure>) {
    let outcome = outcome(plane, record);
    let mut row = Placement::new(NAME, target(record), Some(record.id.clone()));
    if let Some(status) = outcome.status {
        row.memory.insert(STATUS.to_owned(), status);
    }
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

/// The endpoint, if one is written.
pub(super) fn variants(plane: &KubeFeds<'_>, row: &Placement, record: &Object) -> Vec<Variant> {
    let Ok(endpoints) = outcome(plane, record).endpoints else { return Vec::new() };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), row.object.name.as_str().into());
    metadata.insert("namespace".to_owned(), row.object.namespace.as_deref().into());
    let spec = if endpoints.is_empty() { json!({}) } else { json!({"endpoints": endpoints}) };
    let body = json!({"apiVersion": row.object.api_version, "kind": row.object.kind, "metadata": metadata, "spec": spec});
    let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
    vec![Variant { clusters, rendered: Ok(Rendered { body, changes: Vec::new() }) }]
}

/// Why a record becomes what it does.
pub(super) fn explain(plane: &KubeFeds<'_>, record: &Object, placed: Option<&Placement>) -> Explanation {
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
    }
}

/// What a cluster adds to the record's addresses.
fn contribution(plane: &KubeFeds<'_>, row: &Placement, cluster: &Cluster) -> String {
    let entries = row.memory.get(STATUS).and_then(|status| status.get("dns")).and_then(Value::as_array);
    let entry = entries.into_iter().flatten().find(|e| e["cluster"] == cluster.name.as_ref());
    let addresses: Vec<&str> = entry
        .and_then(|e| e.pointer("/loadBalancer/ingress"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .flat_map(|ingress| [ingress.get("ip"), ingress.get("hostname")])
        .filter_map(|address| address?.as_str())
        .collect();
    match entry {
        None if plane.cluster(&cluster.name).is_none() => {
            format!("KubeFed sees only clusters in its namespace `{}`", plane.config.namespace)
        }
        None if !cluster.ready => "it is not ready, so it is left out".to_owned(),
        None => "the record fails as a whole".to_owned(),
        Some(_) if addresses.is_empty() => {
            "nothing there answers: no load balancer, or no endpoints".to_owned()
        }
        Some(_) => format!("answers at {}", addresses.join(", ")),
    }
}
