//! Reads the previous plan of a Karmada control plane, its `ResourceBinding`s and `ClusterResourceBinding`s, as rows
//! of a plan, and its release.
//!
//! Facts: a binding names its template in its spec; its own name has no meaning. An annotation holds the
//! placement that the last scheduling used; one that is not readable counts as unchanged. The template of a binding
//! that is being deleted is gone. A cluster with an eviction task is not a candidate until the task is done, and keeps
//! its copy as it is unless the task purges it directly.

use std::sync::Arc;

use federate_dialect::release::{NamedRelease, UnknownRelease};
use federate_dialect::{HubKinds, Placed, Placement, UnreadableObject, Unschedulable, release};
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{ClusterName, Object, ObjectRef};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::api::read_section;
use crate::state::KarmadaState;
use crate::{NAME, RELEASES};

/// The annotation with the placement that was scheduled last.
pub(crate) const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// The kinds that the previous plan is read from, and the inventory.
pub(crate) const HUB_KINDS: [HubKinds; 3] = [
    HubKinds { group: "cluster.karmada.io", kinds: &["Cluster"] },
    HubKinds { group: "work.karmada.io", kinds: &["ResourceBinding", "ClusterResourceBinding"] },
    HubKinds { group: "operator.karmada.io", kinds: &["Karmada"] },
];

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
    suspension: Option<Suspension>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Suspension {
    scheduling: Option<bool>,
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
    #[serde(default)]
    purge_mode: String,
}

impl Task {
    /// Whether the copy in the cluster is removed at once.
    fn purges_directly(&self) -> bool {
        matches!(self.purge_mode.as_str(), "Directly" | "Immediately")
    }
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

/// The bindings of a control plane as rows of a plan, sorted by object. Bindings that are being deleted, and those
/// that exist only because other bindings refer to them, are left out.
pub fn read_placements(objects: &[Object]) -> Result<Vec<Placement>, UnreadableObject> {
    let mut rows = Vec::new();
    for binding in filter_bindings(objects).filter(|binding| !binding.is_deleting()) {
        let spec: Spec =
            read_section(binding, "spec").map_err(|error| UnreadableObject::new(binding, error))?;
        let status: Status =
            read_section(binding, "status").map_err(|error| UnreadableObject::new(binding, error))?;
        if spec.placement.is_some() {
            rows.push(row_from_binding(binding, spec, &status));
        }
    }
    rows.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(rows)
}

fn filter_bindings(objects: &[Object]) -> impl Iterator<Item = &Object> {
    objects.iter().filter(|object| {
        object.id.group() == "work.karmada.io"
            && matches!(object.id.kind.as_str(), "ResourceBinding" | "ClusterResourceBinding")
    })
}

/// The bindings that [`read_placements`] leaves out, each with the reason.
pub fn find_left_out(objects: &[Object]) -> Vec<(&ObjectRef, &'static str)> {
    let mut left_out = Vec::new();
    for binding in filter_bindings(objects) {
        if binding.is_deleting() {
            left_out.push((&binding.id, "being deleted"));
        } else if binding.value_at(&["spec", "placement"]).is_none_or(Value::is_null) {
            left_out.push((&binding.id, "without `spec.placement`, as for objects that follow others"));
        }
    }
    left_out
}

fn row_from_binding(binding: &Object, spec: Spec, status: &Status) -> Placement {
    let Resource { api_version, kind, namespace, name } = spec.resource;
    let object = ObjectRef { api_version, kind, namespace: Some(namespace).filter(|n| !n.is_empty()), name };
    let mut row = Placement::new(NAME, object, claiming_policy(binding));
    let workload = spec.replicas > 0
        || spec.replica_requirements.is_some_and(|r| !r.is_null())
        || !spec.components.is_empty();
    let placed = spec
        .clusters
        .into_iter()
        .map(|target| Placed { name: target.name.into(), replicas: workload.then_some(target.replicas) });
    let mut clusters: Vec<Placed> = placed.collect();
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    row.clusters = clusters.into_iter().collect();
    row.unschedulable = read_unschedulable(&status.conditions);
    let left = spec.graceful_eviction_tasks.iter().filter(|task| !task.purges_directly());
    row.withdrawn = left.map(|task| ClusterName::from(task.from_cluster.as_str())).collect();
    row.withdrawn.retain(|name| !row.clusters.contains_cluster(name));
    let written = binding.annotation(APPLIED_PLACEMENT).filter(|text| !text.is_empty());
    let read = written.map(serde_json::from_str::<Value>);
    let unreadable = match &read {
        // The control plane reads it as its type.
        Some(Ok(value)) => !value.is_null() && crate::api::KarmadaPlacement::deserialize(value).is_err(),
        Some(Err(_)) => true,
        None => false,
    };
    let requested = spec.reschedule_triggered_at.zip(status.last_scheduled_time);
    let state = KarmadaState {
        affinity: Some(status.affinity.clone()).filter(|name| !name.is_empty()),
        rebalanced: Vec::new(),
        applied_placement: read.and_then(|read| read.ok().or(spec.placement)).map(Arc::new),
        unreadable,
        suspended: spec.suspension.is_some_and(|suspension| suspension.scheduling == Some(true)),
        reschedule: requested.is_some_and(|(requested, last)| requested > last),
        evicting: spec.graceful_eviction_tasks.into_iter().map(|task| task.from_cluster).collect(),
        ..KarmadaState::default()
    };
    row.scheduler_state = state.into_scheduler_state();
    row
}

/// The policy that claims a binding.
fn claiming_policy(binding: &Object) -> Option<ObjectRef> {
    const CLAIMS: [(&str, &str, Option<&str>); 2] = [
        (
            "PropagationPolicy",
            "propagationpolicy.karmada.io/name",
            Some("propagationpolicy.karmada.io/namespace"),
        ),
        ("ClusterPropagationPolicy", "clusterpropagationpolicy.karmada.io/name", None),
    ];
    CLAIMS.into_iter().find_map(|(kind, name, namespace)| {
        Some(ObjectRef {
            api_version: "policy.karmada.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            name: filled_annotation(binding, name)?,
            namespace: namespace.and_then(|key| filled_annotation(binding, key)),
        })
    })
}

/// The value of an annotation, unless it is empty.
fn filled_annotation(object: &Object, key: &str) -> Option<String> {
    object.annotation(key).filter(|value| !value.is_empty()).map(str::to_owned)
}

/// Why the last scheduling failed, if it did.
fn read_unschedulable(conditions: &[Condition]) -> Option<Unschedulable> {
    let scheduled = condition::find_condition(conditions, "Scheduled").filter(|c| c.is_false())?;
    Some(Unschedulable { reason: scheduled.reason.clone(), message: scheduled.message.clone() })
}

/// The parts of an installation whose images say its release, the scheduler's first: it decides.
const COMPONENTS: [(&str, &str); 2] =
    [("karmada-scheduler", "karmadaScheduler"), ("karmada-controller-manager", "karmadaControllerManager")];

/// The release that runs, by the image tags of the installation's Deployments or Pods, or by the `Karmada`
/// object of the operator. A tag that is not a known release is an error.
pub(crate) fn read_installed_release(objects: &[&Object]) -> Option<Result<NamedRelease, UnknownRelease>> {
    let running = release::image_tags(objects, COMPONENTS.map(|(image, _)| image));
    let tags = COMPONENTS.iter().zip(running).flat_map(|((_, component), running)| {
        let operated =
            objects.iter().filter(|o| o.id.group() == "operator.karmada.io" && o.id.kind == "Karmada");
        let operated =
            operated.filter_map(|o| o.value_at(&["spec", "components", component, "imageTag"])?.as_str());
        running.into_iter().chain(operated.map(str::to_owned)).collect::<Vec<_>>()
    });
    let mut read = tags.map(|tag| RELEASES.parse_named(&tag));
    let first = read.next()?;
    // A tag such as `latest` says less than another component's number.
    Some(first.or_else(|unknown| read.find_map(Result::ok).ok_or(unknown)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(image: &str) -> Object {
        let body = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        Object::from_path("apps/v1", "Deployment", "karmada-system/d", body)
    }

    fn release(objects: &[Object]) -> Option<Result<String, UnknownRelease>> {
        read_installed_release(&objects.iter().collect::<Vec<_>>()).map(|found| found.map(|named| named.name))
    }

    #[test]
    fn the_installation_says_which_release_runs() {
        let scheduler = deployment("docker.io/karmada/karmada-scheduler:v1.16.2");
        let manager = deployment("registry.example.com:5000/mirror/karmada-controller-manager:v1.17.1");
        let spec = json!({"spec": {"components": {"karmadaScheduler": {"imageTag": "v1.15.3"}}}});
        let operated = Object::from_path("operator.karmada.io/v1alpha1", "Karmada", "karmada-system/k", spec);
        assert_eq!(release(&[manager.clone(), scheduler]), Some(Ok("1.16.2".to_owned())));
        assert_eq!(release(std::slice::from_ref(&manager)), Some(Ok("1.17.1".to_owned())));
        assert_eq!(release(&[operated]), Some(Ok("1.15.3".to_owned())));
        assert_eq!(release(&[deployment("nginx:1.16.2")]), None);
        let newer = deployment("karmada/karmada-scheduler:v1.99.0");
        assert_eq!(release(&[newer, manager.clone()]), Some(Ok("1.99.0".to_owned())));
        let latest = deployment("karmada/karmada-scheduler:latest");
        assert_eq!(release(&[latest.clone(), manager]), Some(Ok("1.17.1".to_owned())));
        assert_eq!(release(&[latest]).unwrap().unwrap_err().name, "latest");
    }
}
