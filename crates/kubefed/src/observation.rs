//! The replicas that a workload runs in a member cluster, and the number that can run there.
//!
//! Facts: if all replicas are ready, that number counts. Otherwise the pods count: each `Ready` condition of a
//! running pod, whatever its status. Each pod that has been unschedulable for a minute reduces the capacity.

use jiff::Timestamp;
use serde_json::Value;

use super::manifest;
use super::state::KubeFedState;
use federate_dialect::Placement;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{LiveObjects, Object, ObjectRef};

/// How long a pod must have been unschedulable to count, in seconds.
const MIN_UNSCHEDULABLE_SECONDS: i64 = 60;

/// The observation of a workload in one cluster; empty where it does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObservedReplicas {
    /// Whether it exists.
    pub exists: bool,
    /// The desired replicas.
    pub wanted: i64,
    /// The replicas that run.
    pub current: Option<i64>,
    /// The replicas that can run, where that is limited.
    pub capacity: Option<i64>,
    /// Whether some pods are unschedulable, but too young to count; `None` where pods are not counted.
    pub waiting: Option<bool>,
}

/// Observes a workload in the member clusters.
#[derive(Clone, Copy)]
pub(super) struct Observer<'o> {
    pub live: &'o LiveObjects,
    /// Its row of the previous plan, for clusters without observations.
    pub previous: Option<&'o Placement>,
    /// The clock, in seconds; without it every unschedulable pod counts.
    pub now: Option<i64>,
    /// The workload.
    pub target: &'o ObjectRef,
    /// Whether only managed objects count.
    pub managed_only: bool,
}

impl Observer<'_> {
    /// Observes the workload in a cluster.
    pub(super) fn observe_cluster(&self, cluster: &str) -> ObservedReplicas {
        if !self.live.knows_cluster(cluster) {
            let placed = self.previous.and_then(|p| p.clusters.find_cluster(cluster));
            let withdrawn = self.previous.is_some_and(|p| p.withdrawn.iter().any(|c| c.as_ref() == cluster));
            let mut current = placed.and_then(|placed| placed.replicas);
            if placed.is_some() && current.is_none() {
                let state = self.previous.map(KubeFedState::from_row).unwrap_or_default();
                current = state.running.get(cluster).copied();
            }
            let current = current.or(withdrawn.then_some(0));
            return ObservedReplicas {
                exists: placed.is_some() || withdrawn,
                wanted: current.unwrap_or(0),
                current,
                ..ObservedReplicas::default()
            };
        }
        match self.find_workload(cluster) {
            Some(workload) => self.count_pods(cluster, workload),
            None => ObservedReplicas::default(),
        }
    }

    /// Returns an error if the pods of a workload must be counted and its selector has no `matchLabels`.
    pub(super) fn check_selectors<'c>(&self, clusters: impl Iterator<Item = &'c str>) -> Result<(), String> {
        for cluster in clusters {
            let Some(workload) = self.find_workload(cluster) else { continue };
            let wanted = number_at(workload, &["spec", "replicas"]);
            if wanted != number_at(workload, &["status", "readyReplicas"])
                && workload.value_at(&["spec", "selector", "matchLabels"]).is_none_or(Value::is_null)
            {
                return Err(format!("the selector of {} in {cluster} has no `matchLabels`", workload.id));
            }
        }
        Ok(())
    }

    fn find_workload(&self, cluster: &str) -> Option<&Object> {
        let id = self.target;
        let groups = match id.group() {
            "extensions" => ["extensions", "apps"],
            group => [group, "extensions"],
        };
        let found = groups
            .into_iter()
            .find_map(|group| self.live.get(cluster, group, &id.kind, id.namespace.as_deref(), &id.name))?;
        (!self.managed_only || is_managed(found)).then_some(found)
    }

    fn count_pods(&self, cluster: &str, workload: &Object) -> ObservedReplicas {
        let wanted = number_at(workload, &["spec", "replicas"]);
        if wanted == number_at(workload, &["status", "readyReplicas"]) {
            return ObservedReplicas {
                exists: true,
                wanted,
                current: Some(wanted),
                ..ObservedReplicas::default()
            };
        }
        let (mut running, mut stuck, mut young) = (0, 0, false);
        for pod in self.selected_pods(cluster, workload) {
            let is_running = pod.text_at(&["status", "phase"]) == "Running";
            let conditions = pod.value_at(&["status", "conditions"]).and_then(Value::as_array);
            for condition in conditions.into_iter().flatten() {
                if is_running && string_at(condition, "type") == "Ready" {
                    running += 1;
                } else if !is_running && is_unschedulable(condition) {
                    let waited = self.is_old_enough(condition);
                    stuck += i64::from(waited);
                    young |= !waited;
                }
            }
        }
        let capacity = (stuck > 0).then(|| wanted.saturating_sub(stuck));
        ObservedReplicas { exists: true, wanted, current: Some(running), capacity, waiting: Some(young) }
    }

    /// The pods that the workload selects. `KubeFed` reads only `matchLabels`, Federation v1 the whole
    /// selector.
    fn selected_pods<'o>(&'o self, cluster: &str, workload: &Object) -> impl Iterator<Item = &'o Object> {
        let selector = workload.value_at(&["spec", "selector"]);
        let mut selector: LabelSelector =
            selector.and_then(|s| serde_json::from_value(s.clone()).ok()).unwrap_or_default();
        if self.managed_only {
            selector.match_expressions.clear();
        }
        let pods = self.live.list_kind(cluster, "", "Pod", self.target.namespace.as_deref());
        pods.iter().filter(move |pod| selector.matches(&pod.labels()))
    }

    /// Whether the condition is old enough to count.
    fn is_old_enough(&self, condition: &Value) -> bool {
        let since = string_at(condition, "lastTransitionTime").parse().ok().map(Timestamp::as_second);
        since.zip(self.now).is_none_or(|(since, now)| now - since > MIN_UNSCHEDULABLE_SECONDS)
    }
}

fn is_unschedulable(condition: &Value) -> bool {
    [("type", "PodScheduled"), ("status", "False"), ("reason", "Unschedulable")]
        .iter()
        .all(|(key, wanted)| string_at(condition, key) == *wanted)
}

/// Whether a live object is managed by the control plane.
pub(super) fn is_managed(object: &Object) -> bool {
    object.label(manifest::MANAGED_LABEL) == Some("true")
}

fn number_at(object: &Object, path: &[&str]) -> i64 {
    object.value_at(path).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn string_at<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(api_version: &str, kind: &str, name: &str, rest: &Value) -> Object {
        let mut body = json!({"metadata": {"labels": {"kubefed.io/managed": "true", "app": "web"}}});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        Object::from_path(api_version, kind, &format!("shop/{name}"), body)
    }

    fn observed(workload: &Value, pods: &[Value], now: Option<i64>) -> ObservedReplicas {
        let mut objects = vec![object("apps/v1", "Deployment", "web", workload)];
        objects
            .extend(pods.iter().enumerate().map(|(at, pod)| object("v1", "Pod", &format!("web-{at}"), pod)));
        let target = objects[0].id.clone();
        let mut live = LiveObjects::default();
        live.insert("a".into(), objects);
        let observer = Observer { live: &live, previous: None, now, target: &target, managed_only: true };
        assert_eq!(observer.observe_cluster("unknown"), ObservedReplicas::default());
        observer.observe_cluster("a")
    }

    fn pod(phase: &str, condition: &Value) -> Value {
        json!({"status": {"phase": phase, "conditions": [condition]}})
    }

    #[test]
    fn what_is_all_ready_runs() {
        let workload = json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 3}});
        assert_eq!(observed(&workload, &[], None).current, Some(3));
        assert_eq!(observed(&json!({}), &[], None).current, Some(0));
    }

    #[test]
    fn otherwise_pods_are_counted() {
        let workload = json!({"spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}}});
        let stuck = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": "2024-05-01T10:00:00Z"});
        let pods = [
            pod("Running", &json!({"type": "Ready", "status": "False"})),
            pod("Running", &json!({"type": "PodScheduled", "status": "True"})),
            pod("Pending", &stuck),
        ];
        let moment = "2024-05-01T10:01:00Z".parse().map(Timestamp::as_second).unwrap();
        let seen = |now| observed(&workload, &pods, now);
        let counted = ObservedReplicas {
            exists: true,
            wanted: 4,
            current: Some(1),
            capacity: Some(3),
            waiting: Some(false),
        };
        assert_eq!(seen(None), counted);
        assert_eq!((seen(Some(moment)).capacity, seen(Some(moment)).waiting), (None, Some(true)));
        assert_eq!(seen(Some(moment + 1)).capacity, Some(3));
    }
}
