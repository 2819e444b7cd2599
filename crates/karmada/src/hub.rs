//! What a Karmada control plane remembers: `ResourceBinding` and `ClusterResourceBinding`, read as the rows
//! of a plan.
//!
//! Facts: a binding names its template in its spec; its own name means nothing. The placement that the last
//! scheduling used stands in an annotation. A binding that is being deleted has lost its template. Clusters
//! that are being emptied are barred as long as there is a task for them.

use federate_dialect::{Placed, Placement, Unschedulable};
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Object, ObjectRef};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::NAME;
use crate::decide::{AFFINITY, APPLIED, EVICTING, RESCHEDULE};

/// The annotation with the placement that was scheduled last.
pub(crate) const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// Why a binding cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0} cannot be read: {1}")]
pub struct Error(ObjectRef, serde_json::Error);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "null_default")]
    resource: Resource,
    #[serde(deserialize_with = "null_default")]
    clusters: Vec<Target>,
    replicas: i64,
    replica_requirements: Option<Value>,
    #[serde(deserialize_with = "null_default")]
    components: Vec<Value>,
    placement: Option<Value>,
    reschedule_triggered_at: Option<Timestamp>,
    #[serde(deserialize_with = "null_default")]
    graceful_eviction_tasks: Vec<Task>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    api_version: String,
    kind: String,
    #[serde(deserialize_with = "null_default")]
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    replicas: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    from_cluster: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(rename = "schedulerObservingAffinityName")]
    affinity: String,
    last_scheduled_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_default")]
    conditions: Vec<Condition>,
}

/// What the bindings of a control plane remember, as rows of a plan, sorted by object. Bindings that are being
/// deleted, and those that only other bindings need, are left out.
pub fn memory_of(objects: &[Object]) -> Result<Vec<Placement>, Error> {
    let bindings = objects.iter().filter(|o| {
        o.id.group() == "work.karmada.io"
            && matches!(o.id.kind.as_str(), "ResourceBinding" | "ClusterResourceBinding")
            && !o.deleting()
    });
    let mut rows = Vec::new();
    for binding in bindings {
        let error = |error| Error(binding.id.clone(), error);
        let spec: Spec = part(binding, "spec").map_err(error)?;
        let status: Status = part(binding, "status").map_err(error)?;
        if spec.placement.is_some() {
            rows.push(row(binding, spec, &status));
        }
    }
    rows.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(rows)
}

fn part<T: Default + for<'de> Deserialize<'de>>(object: &Object, key: &str) -> Result<T, serde_json::Error> {
    object.at(&[key]).filter(|value| !value.is_null()).map_or(Ok(T::default()), T::deserialize)
}

fn row(binding: &Object, spec: Spec, status: &Status) -> Placement {
    let Resource { api_version, kind, namespace, name } = spec.resource;
    let object = ObjectRef { api_version, kind, namespace: Some(namespace).filter(|n| !n.is_empty()), name };
    let mut row = Placement::new(NAME, object, policy(binding));
    let workload = spec.replicas > 0
        || spec.replica_requirements.is_some_and(|r| !r.is_null())
        || !spec.components.is_empty();
    let placed =
        |target: Target| Placed { name: target.name.into(), replicas: workload.then_some(target.replicas) };
    let mut clusters: Vec<Placed> = spec.clusters.into_iter().map(placed).collect();
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    row.clusters = clusters.into_iter().collect();
    row.unschedulable = unschedulable(&status.conditions);
    if !status.affinity.is_empty() {
        row.memory.insert(AFFINITY.to_owned(), status.affinity.as_str().into());
    }
    if let Some(written) = binding.annotation(APPLIED_PLACEMENT).filter(|text| !text.is_empty()) {
        // What cannot be read counts as unchanged.
        let applied = serde_json::from_str(written).ok().or(spec.placement);
        row.memory.insert(APPLIED.to_owned(), applied.unwrap_or_default());
    }
    let asked = spec.reschedule_triggered_at.zip(status.last_scheduled_time);
    if asked.is_some_and(|(asked, last)| asked > last) {
        row.memory.insert(RESCHEDULE.to_owned(), true.into());
    }
    let evicting: Vec<Value> =
        spec.graceful_eviction_tasks.into_iter().map(|task| task.from_cluster.into()).collect();
    if !evicting.is_empty() {
        row.memory.insert(EVICTING.to_owned(), evicting.into());
    }
    row
}

/// The policy that claims a binding.
fn policy(binding: &Object) -> Option<ObjectRef> {
    let of = |key: &str| binding.annotation(key).filter(|name| !name.is_empty());
    let id = |kind: &str, namespace: Option<&str>, name: &str| ObjectRef {
        api_version: "policy.karmada.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    if let Some(name) = of("propagationpolicy.karmada.io/name") {
        return Some(id("PropagationPolicy", of("propagationpolicy.karmada.io/namespace"), name));
    }
    of("clusterpropagationpolicy.karmada.io/name").map(|name| id("ClusterPropagationPolicy", None, name))
}

/// Why the last scheduling failed, if it did.
fn unschedulable(conditions: &[Condition]) -> Option<Unschedulable> {
    let scheduled = condition::find(conditions, "Scheduled").filter(|c| c.is_false())?;
    Some(Unschedulable { reason: scheduled.reason.clone(), message: scheduled.message.clone() })
}
