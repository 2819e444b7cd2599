//! A `ResourceBinding` as the controllers of failover and the scheduler read and write it.

use std::collections::BTreeMap;

use federate_dialect::{Plan, PreviousPlan};
use federate_engine::EngineSettings;
use federate_karmada::capacity::taints::ClusterTaint;
use federate_karmada::failover::{FailoverOptions, ReportedStatus, ResourceBinding};
use federate_karmada::hub;
use federate_kubernetes::{Object, ObjectRef};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ModelOptions;
use super::application::ApplicationFailover;
use crate::run;

/// The annotation with the placement that was scheduled last.
const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// A binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HubBinding {
    pub(crate) id: ObjectRef,
    /// What decides about evictions.
    pub(crate) state: ResourceBinding,
    /// The affinity group that was used last.
    pub(crate) affinity: Option<String>,
    /// Why the last scheduling failed, if it did.
    pub(crate) unschedulable: Option<String>,
    pub(super) application: Option<ApplicationFailover>,
    /// Since when it has been unhealthy, by cluster; kept in memory only.
    pub(super) unhealthy_since: BTreeMap<String, Timestamp>,
    /// When application failover looks again.
    pub(super) application_next: Option<SignedDuration>,
    /// The binding as it was recorded. What changes is in the other fields.
    pub(super) body: Value,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    replicas: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedStatus {
    cluster_name: String,
    #[serde(default)]
    health: Option<String>,
    status: Option<Value>,
}

fn read<T: Default + DeserializeOwned>(value: &Value) -> T {
    Option::deserialize(value).expect("a part of a binding").unwrap_or_default()
}

impl HubBinding {
    pub(super) fn from_object(object: &Object) -> Self {
        let body = &object.body;
        let (spec, status) = (&body["spec"], &body["status"]);
        let clusters: Vec<Target> = read(&spec["clusters"]);
        let reported: Vec<AggregatedStatus> = read(&status["aggregatedStatus"]);
        let reported = reported.into_iter().map(|one| {
            (one.cluster_name, ReportedStatus { health: one.health.unwrap_or_default(), status: one.status })
        });
        let applied = object.annotation(APPLIED_PLACEMENT);
        Self {
            id: object.id.clone(),
            state: ResourceBinding {
                clusters: clusters.into_iter().map(|target| (target.name, target.replicas)).collect(),
                tasks: read(&spec["gracefulEvictionTasks"]),
                reported: reported.collect(),
                applied: applied.and_then(|text| serde_json::from_str(text).ok()),
                failover: read(&spec["failover"]),
                is_scheduled: body["metadata"]["generation"].as_i64().unwrap_or(0)
                    == status["schedulerObservedGeneration"].as_i64().unwrap_or(0),
            },
            affinity: status["schedulerObservingAffinityName"].as_str().map(str::to_owned),
            unschedulable: None,
            application: read(&spec["failover"]["application"]),
            unhealthy_since: BTreeMap::new(),
            application_next: None,
            body: body.clone(),
        }
    }

    /// Runs all controllers once; returns the clusters that the binding was evicted from.
    pub(super) fn run_controllers(
        &mut self,
        options: &ModelOptions,
        clusters: &[Value],
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Vec<String> {
        let mut evicted = self.state.evict_tainted(&options.rules, taints, now);
        self.schedule(clusters);
        self.state.assess_tasks(&options.rules, now);
        evicted.extend(self.fail_over(options, now));
        evicted
    }

    /// When the next timer ends.
    pub(super) fn next_timer(
        &self,
        options: &FailoverOptions,
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let (taint, task) = (self.state.next_taint(options, taints, now), self.state.next_task(options, now));
        let timers = [taint, task, self.application_next].into_iter().flatten();
        timers.filter(|left| *left > SignedDuration::ZERO).min()
    }

    /// Runs the scheduler: the plan with the binding as the previous plan.
    fn schedule(&mut self, clusters: &[Value]) {
        let binding = Object::from_manifest(self.to_object(), "hub");
        let mut placements = hub::read_placements(&[binding]).expect("a binding");
        for row in &mut placements {
            // A plan remembers an order that is not that of the names.
            let order: Vec<&str> = self.state.clusters.iter().map(|(name, _)| name.as_str()).collect();
            let mut state = json!(row.scheduler_state);
            state["order"] = if order.is_sorted() { json!([]) } else { json!(order) };
            row.scheduler_state = serde_json::from_value(state).expect("a state");
        }
        let settings = EngineSettings {
            strict_inventory: true,
            previous: PreviousPlan::new(Plan { placements, ..Plan::default() }),
            ..EngineSettings::default()
        };
        let mut files = clusters.to_vec();
        files.extend([self.template(), self.policy()]);
        let plan = run::compute_plan(&files.into(), &settings);
        let name = self.body["spec"]["resource"]["name"].as_str().expect("a name");
        let row = plan.placements.iter().find(|row| row.object.name == name).expect("a row of the template");
        self.unschedulable = row.unschedulable.as_ref().map(|unschedulable| unschedulable.reason.clone());
        let placed = row.clusters.iter().map(|placed| (placed.name.to_string(), placed.replicas));
        let mut placed: Vec<(String, Option<i64>)> = placed.collect();
        let mut before = self.state.clusters.clone();
        before.sort();
        let is_same = before == placed;
        let order = row.scheduler_state.get("order").and_then(Value::as_array).into_iter().flatten();
        placed.sort_by_key(|(name, _)| order.clone().position(|ordered| *ordered == name.as_str()));
        let is_refused = self.unschedulable.is_some();
        if !is_refused || placed.is_empty() {
            self.state.applied = Some(self.body["spec"]["placement"].clone());
        }
        if !is_refused {
            let affinity = row.scheduler_state.get("affinity").and_then(Value::as_str);
            self.affinity = affinity.map(str::to_owned).or(self.affinity.take());
        }
        self.state.is_scheduled = !is_refused || (self.state.is_scheduled && is_same);
        self.state.clusters = placed;
    }

    /// The binding as it is on the hub now.
    fn to_object(&self) -> Value {
        let mut body = self.body.clone();
        let clusters = self.state.clusters.iter();
        body["spec"]["clusters"] =
            clusters.map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        body["spec"]["gracefulEvictionTasks"] = json!(self.state.tasks);
        if let Some(applied) = &self.state.applied {
            body["metadata"]["annotations"][APPLIED_PLACEMENT] = applied.to_string().into();
        }
        body["status"] = json!({"schedulerObservingAffinityName": self.affinity.clone().unwrap_or_default()});
        body
    }

    /// The template of the binding.
    fn template(&self) -> Value {
        let spec = &self.body["spec"];
        let resource = &spec["resource"];
        let mut metadata = json!({"name": resource["name"], "uid": resource["uid"]});
        if let Some(namespace) = resource["namespace"].as_str() {
            metadata["namespace"] = namespace.into();
        }
        let mut template =
            json!({"apiVersion": resource["apiVersion"], "kind": resource["kind"], "metadata": metadata});
        if resource["kind"] == "Deployment" {
            let requests = &spec["replicaRequirements"]["resourceRequest"];
            let container = json!({"name": "c", "image": "c", "resources": {"requests": requests}});
            let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}});
            template["spec"] = json!({
                "replicas": spec["replicas"], "selector": {"matchLabels": {"app": "a"}}, "template": pod,
            });
        }
        template
    }

    /// The policy that placed it.
    fn policy(&self) -> Value {
        let resource = &self.body["spec"]["resource"];
        let namespace = resource["namespace"].as_str();
        let selector =
            json!({"apiVersion": resource["apiVersion"], "kind": resource["kind"], "name": resource["name"]});
        let mut metadata = json!({"name": "policy"});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": if namespace.is_some() { "PropagationPolicy" } else { "ClusterPropagationPolicy" },
            "metadata": metadata,
            "spec": {"resourceSelectors": [selector], "placement": self.body["spec"]["placement"]},
        })
    }
}
