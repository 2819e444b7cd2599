//! Waits until the applied objects are healthy: by the rules of their control plane, or else by their status.
//!
//! Facts: the API conventions of Kubernetes (`observedGeneration`, the conditions `Ready`, `Available`,
//! `Reconciling`, `Stalled`), and what the controllers of built-in kinds write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::carry_out::is_applied;
use super::client::Client;
use super::listed;
use super::read::{ClusterState, List, list_all};
use super::{ApplyOptions, Decider, Error, Step};
use federate_apiserver::managed::read_fields;
use federate_dialect::{Health, HealthState};
use federate_engine::actions::Decision;
use federate_engine::actions::ownership::PART_OF;
use federate_kubernetes::{ClusterName, Object, ObjectRef};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// An object that is not healthy.
pub(super) struct Unhealthy {
    /// The object.
    pub(super) object: ObjectRef,
    /// Why.
    pub(super) why: String,
    /// Whether more time may help.
    pub(super) may_recover: bool,
}

/// Waits until everything is healthy, something has failed for good, or the time is over. Returns the objects that
/// are not healthy then.
pub(super) async fn wait(
    client: &Client,
    state: &ClusterState,
    decisions: &[Decision],
    decider: &dyn Decider,
    options: &ApplyOptions<'_>,
    patience: Duration,
) -> Result<Vec<Unhealthy>, Error> {
    let begun = Instant::now();
    let end = begun + patience;
    let there = decisions.iter().map(|decision| &decision.action).filter(|action| is_applied(action.action));
    let mut open: BTreeMap<&ObjectRef, String> = BTreeMap::new();
    let mut cluster = ClusterName::from("");
    for action in there {
        cluster = action.cluster.clone();
        open.insert(&action.object, "it does not exist".to_owned());
    }
    let selector = format!("{PART_OF}={}", options.inventory.id());
    let mut failed: BTreeMap<ObjectRef, String> = BTreeMap::new();
    while !open.is_empty() {
        options.progress.at(&cluster, Step::Waiting { open: open.len() });
        // A kind is listed as long as anything of it is open.
        let kinds: BTreeSet<(&str, &str)> =
            open.keys().map(|object| (object.api_version.as_str(), object.kind.as_str())).collect();
        let lists = kinds.iter().filter_map(|kind| {
            let object = open.keys().find(|o| (o.api_version.as_str(), o.kind.as_str()) == *kind)?;
            let kind = state.kinds.of(object)?.clone();
            Some(List { kind, namespace: None, selector: Some(selector.clone()) })
        });
        let lists: Vec<List> = lists.collect();
        let namespaces = open.keys().filter_map(|object| object.namespace.clone()).collect();
        let items = list_all(client, lists, &namespaces, None).await?.items;
        for mut object in listed::objects(items, &cluster, None)?.0 {
            read_fields(&mut object.body);
            if let Some(why) = failure(&object).filter(|_| open.contains_key(&object.id)) {
                open.remove(&object.id);
                failed.insert(object.id, why);
                continue;
            }
            match health(decider, &object) {
                Health { state: HealthState::Healthy, .. } => drop(open.remove(&object.id)),
                Health { reason, .. } => {
                    if let Some(why) = open.get_mut(&object.id) {
                        *why = reason;
                    }
                }
            }
        }
        // More time changes nothing.
        if Instant::now() >= end || !failed.is_empty() {
            break;
        }
        if !open.is_empty() {
            sleep(PAUSE.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
    let waited = begun.elapsed().min(patience).as_secs();
    let late = open.into_iter().map(|(object, why)| Unhealthy {
        object: object.clone(),
        why: format!("not healthy after {waited} s: {why}"),
        may_recover: true,
    });
    let failed = failed.into_iter().map(|(object, why)| Unhealthy { object, why, may_recover: false });
    Ok(failed.chain(late).collect())
}

/// Why an object will never become healthy.
fn failure(object: &Object) -> Option<String> {
    let message = |kind: &str, status: &str| Some(condition(object, kind, status)?.1.to_owned());
    let why = match (object.id.group(), object.id.kind.as_str()) {
        ("batch", "Job") => message("Failed", "True"),
        ("apps", "Deployment") => match condition(object, "Progressing", "False") {
            Some(("ProgressDeadlineExceeded", message)) => Some(message.to_owned()),
            _ => None,
        },
        ("apiextensions.k8s.io", "CustomResourceDefinition") => message("NamesAccepted", "False"),
        ("", "Pod") if object.text(&["status", "phase"]) == "Failed" => {
            Some(object.text(&["status", "message"]).to_owned())
        }
        ("", "PersistentVolumeClaim") if object.text(&["status", "phase"]) == "Lost" => {
            Some("its volume is lost".to_owned())
        }
        _ => message("Stalled", "True"),
    };
    why.map(|why| format!("it failed: {why}"))
}

fn health(decider: &dyn Decider, object: &Object) -> Health {
    let own = decider.health(object);
    if own.state == HealthState::Unknown { of_status(object) } else { own }
}

/// The health of an object by its status.
fn of_status(object: &Object) -> Health {
    if object.deleting() {
        return Health::unhealthy("it is being deleted");
    }
    let number = |path: &[&str]| object.at(path).and_then(Value::as_i64);
    if let (Some(generation), Some(observed)) =
        (number(&["metadata", "generation"]), number(&["status", "observedGeneration"]))
        && observed < generation
    {
        return Health::unhealthy("its controller has not seen it yet");
    }
    if let Some((_, message)) = condition(object, "Stalled", "True") {
        return Health::unhealthy(format!("it is stalled: {message}"));
    }
    match (object.id.group(), object.id.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("", "ReplicationController") => {
            replicas(object)
        }
        ("apps", "DaemonSet") => {
            let wanted = number(&["status", "desiredNumberScheduled"]);
            let (updated, available) =
                (number(&["status", "updatedNumberScheduled"]), number(&["status", "numberAvailable"]));
            let seen = number(&["status", "observedGeneration"]).is_some();
            let wanted = wanted.unwrap_or(0);
            counted(seen, wanted, &[("updated", updated), ("available", available)])
        }
        ("batch", "Job") => match condition(object, "Failed", "True") {
            Some((_, message)) => Health::unhealthy(format!("it failed: {message}")),
            None => Health::of(condition(object, "Complete", "True").is_some(), "it is not complete"),
        },
        ("", "Pod") => {
            let done = object.text(&["status", "phase"]) == "Succeeded";
            Health::of(done || condition(object, "Ready", "True").is_some(), "it is not ready")
        }
        ("", "PersistentVolumeClaim") => {
            Health::of(object.text(&["status", "phase"]) == "Bound", "it is not bound")
        }
        ("", "Service") if object.text(&["spec", "type"]) == "LoadBalancer" => {
            let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
            Health::of(ingress.is_some_and(|list| !list.is_empty()), "it has no address yet")
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            Health::of(condition(object, "Established", "True").is_some(), "it is not established")
        }
        _ => by_conditions(object),
    }
}

/// Objects of other kinds are healthy unless a condition says otherwise.
fn by_conditions(object: &Object) -> Health {
    for (kind, bad) in
        [("Reconciling", "True"), ("Ready", "False"), ("Ready", "Unknown"), ("Available", "False")]
    {
        if let Some((_, message)) = condition(object, kind, bad) {
            return Health::unhealthy(format!("its condition {kind} is {bad}: {message}"));
        }
    }
    Health::healthy()
}

fn replicas(object: &Object) -> Health {
    let number = |field: &str| object.at(&["status", field]).and_then(Value::as_i64);
    let wanted = object.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
    let seen = number("observedGeneration").is_some();
    if let Some(("ProgressDeadlineExceeded", message)) = condition(object, "Progressing", "False") {
        return Health::unhealthy(format!("it makes no progress: {message}"));
    }
    match object.id.kind.as_str() {
        "Deployment" => {
            let all = number("replicas").unwrap_or(0);
            let updated = number("updatedReplicas").unwrap_or(0);
            if seen && all > updated {
                return Health::unhealthy(format!("{} old pods remain", all - updated));
            }
            counted(seen, wanted, &[("updated", Some(updated)), ("available", number("availableReplicas"))])
        }
        "StatefulSet" => {
            let parts = object.at(&["spec", "updateStrategy", "rollingUpdate", "partition"]);
            let kept = parts.and_then(Value::as_i64).unwrap_or(0).min(wanted);
            let on_delete = object.text(&["spec", "updateStrategy", "type"]) == "OnDelete";
            let newest =
                object.text(&["status", "currentRevision"]) == object.text(&["status", "updateRevision"]);
            let updated = if newest { Some(wanted) } else { number("updatedReplicas").map(|n| n + kept) };
            let updated = if on_delete { Some(wanted) } else { updated };
            counted(seen, wanted, &[("updated", updated), ("ready", number("readyReplicas"))])
        }
        _ => counted(seen, wanted, &[("ready", number("readyReplicas"))]),
    }
}

/// Whether each number reaches the desired one.
fn counted(seen: bool, wanted: i64, numbers: &[(&str, Option<i64>)]) -> Health {
    if !seen {
        return Health::unhealthy("its controller has not seen it yet");
    }
    let short = numbers.iter().find(|(_, number)| number.unwrap_or(0) < wanted);
    match short {
        Some((what, number)) => {
            Health::unhealthy(format!("{} of {wanted} pods are {what}", number.unwrap_or(0)))
        }
        None => Health::healthy(),
    }
}

/// Reason and message of a condition, if it has that status.
fn condition<'o>(object: &'o Object, kind: &str, status: &str) -> Option<(&'o str, &'o str)> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array)?;
    let text =
        |condition: &'o Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
    let found = conditions.iter().find(|c| text(c, "type") == kind && text(c, "status") == status)?;
    Some((text(found, "reason"), text(found, "message")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn health_of(api_version: &str, kind: &str, body: Value) -> String {
        let health = of_status(&Object::named(api_version, kind, "a/b", body));
        if health.state == HealthState::Healthy { "healthy".to_owned() } else { health.reason }
    }

    #[test]
    fn pods_are_counted() {
        let deployment = |status: Value| {
            let body = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status});
            health_of("apps/v1", "Deployment", body)
        };
        assert_eq!(deployment(json!({})), "its controller has not seen it yet");
        assert_eq!(deployment(json!({"observedGeneration": 1})), "its controller has not seen it yet");
        let status = |all: i64, updated: i64, available: i64| json!({"observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "availableReplicas": available});
        assert_eq!(deployment(status(4, 3, 3)), "1 old pods remain");
        assert_eq!(deployment(status(3, 3, 2)), "2 of 3 pods are available");
        assert_eq!(deployment(status(3, 3, 3)), "healthy");
        let set = json!({"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}, "status":
            {"observedGeneration": 1, "currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1, "readyReplicas": 3}});
        assert_eq!(health_of("apps/v1", "StatefulSet", set), "healthy", "two stay as they are");
        let daemons = json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2}});
        assert_eq!(health_of("apps/v1", "DaemonSet", daemons), "0 of 2 pods are available");
    }

    #[test]
    fn other_kinds_are_healthy_unless_a_condition_says_otherwise() {
        assert_eq!(health_of("v1", "ConfigMap", json!({})), "healthy");
        let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": "no disk"}]}});
        assert_eq!(health_of("example.com/v1", "Store", ready("True")), "healthy");
        assert_eq!(
            health_of("example.com/v1", "Store", ready("False")),
            "its condition Ready is False: no disk"
        );
        assert_eq!(health_of("batch/v1", "Job", json!({"status": {}})), "it is not complete");
    }
}
