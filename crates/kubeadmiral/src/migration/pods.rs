//! The estimates of the auto-migration controller: how many replicas of a workload are scheduled in its
//! clusters. The controller writes them to the federated object for the scheduler.
//!
//! Facts: only pods of the newest `ReplicaSet` of a Deployment count. A pod counts against its cluster if it
//! has been unschedulable for as long as the policy's threshold. Scenarios count replicas instead of pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::CapacityEstimates;
use federate_dialect::probe::ClusterCondition;
use federate_kubernetes::Object;
use federate_kubernetes::selector::LabelSelector;

/// A Deployment in one member.
#[derive(Clone, Copy, Debug)]
pub struct MemberDeployment<'o> {
    /// The Deployment.
    pub deployment: &'o Object,
    /// The `ReplicaSet` objects of its namespace.
    pub replica_sets: &'o [Object],
    /// The pods of its namespace; `None` where they cannot be listed.
    pub pods: Option<&'o [Object]>,
}

impl MemberDeployment<'_> {
    fn number_at(&self, path: &[&str]) -> Option<i64> {
        self.deployment.value_at(path).and_then(Value::as_i64)
    }
}

/// The estimate over all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEstimate {
    /// The estimates for the scheduler.
    pub estimates: CapacityEstimates,
    /// When the next estimate is due, because a pod will exceed the threshold.
    pub again: Option<SignedDuration>,
    /// Whether a member could not be read, so that the controller retries.
    pub failed: bool,
}

/// Counts a Deployment's pods in the clusters that it is placed in and exists in.
pub fn estimate_capacity(
    members: &BTreeMap<&str, MemberDeployment<'_>>,
    threshold: SignedDuration,
    now: Timestamp,
) -> PodEstimate {
    let mut estimate = PodEstimate::default();
    for (cluster, workload) in members {
        let total = workload.number_at(&["status", "replicas"]).unwrap_or(0);
        if total == workload.number_at(&["status", "readyReplicas"]).unwrap_or(0) {
            estimate.estimates.scheduled_replicas.insert((*cluster).to_owned(), total);
            continue;
        }
        let Some(desired) = workload.number_at(&["spec", "replicas"]) else { continue };
        let Some(pods) = newest_pods(workload) else {
            estimate.failed = true;
            continue;
        };
        estimate.add_cluster(cluster, desired, PodStates::count_pods(&pods, threshold, now));
    }
    estimate
}

impl PodEstimate {
    /// Adds a cluster that is to run a number of replicas and has these pods.
    pub(super) fn add_cluster(&mut self, cluster: &str, desired: i64, pods: PodStates) {
        self.estimates.scheduled_replicas.insert(cluster.to_owned(), pods.scheduled);
        let capacity = pods.there.max(desired).saturating_sub(pods.stuck);
        if capacity < desired {
            self.estimates.estimated_capacity.insert(cluster.to_owned(), capacity.max(0));
        }
        self.again = [self.again, pods.next].into_iter().flatten().min();
    }
}

/// The pods of a workload in one cluster, by state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PodStates {
    /// The number of all pods.
    pub(super) there: i64,
    pub(super) scheduled: i64,
    /// Pods that have been unschedulable for as long as the threshold.
    pub(super) stuck: i64,
    /// When the next pod reaches the threshold.
    pub(super) next: Option<SignedDuration>,
}

impl PodStates {
    fn count_pods(pods: &[&Object], threshold: SignedDuration, now: Timestamp) -> Self {
        let there = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let mut counted = Self { there, ..Self::default() };
        for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            let conditions = ClusterCondition::read_all(&pod.body);
            let Some(condition) = conditions.iter().find(|c| c.kind == "PodScheduled") else { continue };
            match (condition.status.as_str(), condition.reason.as_str()) {
                ("True", _) => counted.scheduled += 1,
                ("False", "Unschedulable") => {
                    let since = condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH);
                    let left = (since + threshold).duration_since(now);
                    if left <= SignedDuration::ZERO {
                        counted.stuck += 1;
                    } else {
                        counted.next = Some(counted.next.map_or(left, |next| next.min(left)));
                    }
                }
                _ => {}
            }
        }
        counted
    }
}

/// The pods of the Deployment's newest `ReplicaSet`; `None` where they cannot be listed.
fn newest_pods<'o>(workload: &MemberDeployment<'o>) -> Option<Vec<&'o Object>> {
    let pods = workload.pods?;
    let deployment = workload.deployment;
    let selector = read_selector(deployment);
    let newest = workload
        .replica_sets
        .iter()
        .filter(|set| is_owned(set, deployment) && selector.matches(&set.labels()))
        .filter(|set| same_template(set, deployment))
        .min_by_key(|set| set.text_at(&["metadata", "creationTimestamp"]));
    let Some(newest) = newest else { return Some(Vec::new()) };
    Some(pods.iter().filter(|pod| is_owned(pod, newest) && selector.matches(&pod.labels())).collect())
}

fn read_selector(deployment: &Object) -> LabelSelector {
    let selector = deployment.value_at(&["spec", "selector"]);
    selector.and_then(|s| serde_json::from_value(s.clone()).ok()).unwrap_or_default()
}

/// Whether `owner` controls the object.
fn is_owned(object: &Object, owner: &Object) -> bool {
    let uid = owner.text_at(&["metadata", "uid"]);
    let owners = object.value_at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().any(|reference| {
        reference.get("controller") == Some(&Value::Bool(true))
            && reference.get("uid").and_then(Value::as_str) == Some(uid)
    })
}

/// Whether two pod templates are equal, except for the label that the Deployment controller adds.
fn same_template(set: &Object, deployment: &Object) -> bool {
    set.value_at(&["spec", "template"]).is_some() && pod_template(set) == pod_template(deployment)
}

/// The pod template without the label that the Deployment controller adds.
fn pod_template(object: &Object) -> Value {
    let mut template = object.value_at(&["spec", "template"]).cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.shift_remove("pod-template-hash");
    }
    template
}
