//! What Federation v1 does about an object in one member cluster.
//!
//! Facts: only ready clusters are handled. Objects that were sent have no mark. So an existing object of the
//! name is updated, and one in a cluster that is not selected is deleted. Services retain allocated fields.

use serde_json::Value;

use super::super::KubeFedPlanner;
use super::super::member::OK_STATUS;
use super::manifest;
use federate_dialect::{ControlPlaneAction, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::object::{string_map, value_at};
use federate_kubernetes::{Cluster, Object};
use federate_repo::Template;

/// Decides what to do in a cluster; `None` where the cluster is not handled.
pub(in super::super) fn reconcile_member(
    plane: &KubeFedPlanner<'_>,
    row: &Placement,
    template: &Template,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    let cluster = plane.find_cluster(&cluster.name).filter(|cluster| cluster.ready)?;
    if row.unschedulable.is_some() {
        return None;
    }
    let variants = manifest::render_template(row, template).into_iter();
    let mut own = variants.filter(|variant| variant.clusters.contains(&cluster.name));
    let op = match (own.next().and_then(|variant| variant.rendered.ok()), live) {
        // A Job stays in a cluster that has no parallelism.
        (None, Some(live)) if template.object.id.kind != "Job" && !live.is_deleting() => {
            SyncOp::Delete(DeleteOptions::new())
        }
        (None, _) => return None,
        (Some(rendered), None) => SyncOp::Create(rendered.body),
        (Some(rendered), Some(live)) => {
            let body = retain_fields(rendered.body, live);
            if is_up_to_date(&body, live) { SyncOp::Nothing } else { SyncOp::Update(body) }
        }
    };
    Some(ControlPlaneAction { op, adopts: false, status: OK_STATUS, hint: None })
}

/// Whether the labels, the annotations and all other fields that are sent are equal in the live object.
fn is_up_to_date(body: &Value, live: &Object) -> bool {
    let identity = ["apiVersion", "kind", "metadata"];
    let mut sent =
        body.as_object().into_iter().flatten().filter(|(key, _)| !identity.contains(&key.as_str()));
    let [desired, current] = [body, &live.body].map(|object| {
        ["labels", "annotations"].map(|field| string_map(value_at(object, &["metadata", field])))
    });
    desired == current && sent.all(|(key, value)| live.body.get(key) == Some(value))
}

/// The object with the allocated fields of the live one.
fn retain_fields(mut body: Value, live: &Object) -> Value {
    if body.get("kind").is_none_or(|kind| kind != "Service") {
        return body;
    }
    let theirs = live.value_at(&["spec", "ports"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return body };
    for field in ["clusterIP", "externalIPs"] {
        if let Some(value) = live.value_at(&["spec", field]) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        let same = theirs
            .iter()
            .find(|other| ["name", "protocol", "port"].iter().all(|k| port.get(*k) == other.get(k)));
        if let Some(node_port) = same.and_then(|other| other.get("nodePort")) {
            port.insert("nodePort".to_owned(), node_port.clone());
        }
    }
    body
}
