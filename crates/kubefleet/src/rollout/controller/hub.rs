//! The objects of a hub that an update run reads, made from what the loop knows.
//!
//! Every binding has generation 1, so that one that the run writes has another one.
//!
//! A run is not driven by plain values, on purpose. What control planes were recorded to decide is a sequence of hubs: which
//! objects a reconcile read, which it wrote, and which messages it put into the status of the run. Its checks are about these
//! objects, too (generations, labels, deletion timestamps, references between snapshots and bindings). A machine over values
//! would need a translation of recorded hubs into values, which no recorded case could verify, or a second machine for the
//! cases, so that what is verified would no longer be what runs.

use std::collections::BTreeSet;

use federate_dialect::{PolicyRollout, RolloutMoment};
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Role;
use serde_json::{Value, json};

use super::RolloutController;
use super::state::{RolloutControllerState, UpdateRunState};
use crate::api::{NAME, PlacementPolicy};
use crate::hub::PARENT_LABEL;
use crate::hub::snapshot::{LATEST_LABEL, scheduled_condition};
use crate::rollout::run::HubObjects;
use crate::rollout::run::initialization::{GROUP_HASH, RESOURCE_INDEX, apply_strategy};
use crate::rollout::run::kinds::RunKinds;
use crate::rollout::run::status::{RunStatus, StageStatus, TaskStatus};

const API: &str = "placement.kubernetes-fleet.io/v1beta1";

impl RolloutController<'_> {
    pub(super) fn run_kinds(&self) -> RunKinds {
        RunKinds::for_scope(self.placement.id.namespace.is_some())
    }

    /// The hub of a run.
    pub(super) fn build_hub(
        &self,
        run: &Object,
        known: &UpdateRunState,
        controller_state: &RolloutControllerState,
        rollout: &PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> HubObjects {
        let kinds = self.run_kinds();
        let strategies = self.repo.claimed_objects(NAME, Role::Other);
        let strategies =
            strategies.filter(|o| o.id.kind == kinds.strategy && o.id.namespace == run.id.namespace).cloned();
        let members = self.clusters.iter().map(|cluster| {
            let metadata = json!({"name": *cluster.name, "labels": cluster.labels});
            let body = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
                "metadata": metadata});
            Object::from_manifest(body, "hub")
        });
        let mut this = run.clone();
        if let Some(body) = this.body.as_object_mut() {
            body.insert("status".to_owned(), json!(known.status));
        }
        let objects = strategies.chain(members).chain([self.placement.clone(), this]);
        let mut hub = HubObjects::new(objects);
        hub.put_object(self.policy_snapshot(controller_state));
        let last = controller_state.snapshots.last().map(|last| last.index);
        for snapshot in &controller_state.snapshots {
            let mut labels = json!({RESOURCE_INDEX: snapshot.index.to_string()});
            if Some(snapshot.index) == last {
                labels[LATEST_LABEL] = "true".into();
            }
            let name = format!("{}-{}-snapshot", self.placement.id.name, snapshot.index);
            let mut object = self.own_object(kinds.resource_snapshot, &name, labels, json!({"spec": {}}));
            object.body["metadata"]["annotations"] = json!({GROUP_HASH: snapshot.digest});
            hub.put_object(object);
        }
        self.build_bindings(controller_state, rollout).for_each(|binding| hub.put_object(binding));
        self.approval_requests(run, known, moment.approvals).for_each(|request| hub.put_object(request));
        hub
    }

    /// An object that belongs to the placement.
    fn own_object(&self, kind: &str, name: &str, mut labels: Value, rest: Value) -> Object {
        labels[PARENT_LABEL] = self.placement.id.name.as_str().into();
        self.build_object(kind, name, &labels, rest)
    }

    fn build_object(&self, kind: &str, name: &str, labels: &Value, mut body: Value) -> Object {
        body["apiVersion"] = API.into();
        body["kind"] = kind.into();
        body["metadata"] = json!({"name": name, "generation": 1, "labels": labels});
        if let Some(namespace) = &self.placement.id.namespace {
            body["metadata"]["namespace"] = namespace.as_str().into();
        }
        Object::from_manifest(body, "hub")
    }

    fn policy_name(&self, controller_state: &RolloutControllerState) -> String {
        format!("{}-{}", self.placement.id.name, controller_state.policy_index)
    }

    /// The policy, and whether the scheduler found all clusters that it asks for.
    fn policy_snapshot(&self, controller_state: &RolloutControllerState) -> Object {
        let policy = self.placement.value_at(&["spec", "policy"]).cloned().unwrap_or_default();
        let read = PlacementPolicy::from_json(Some(&policy)).unwrap_or_default();
        let status = scheduled_condition(&read, self.subject.clusters.len()).status;
        let condition = json!({"type": "Scheduled", "status": status, "observedGeneration": 1});
        let labels = json!({LATEST_LABEL: "true", "kubernetes-fleet.io/policy-index": controller_state.policy_index.to_string()});
        let rest = json!({"spec": {"policy": policy}, "status": {"conditions": [condition]}});
        let mut object = self.own_object(
            self.run_kinds().policy_snapshot,
            &self.policy_name(controller_state),
            labels,
            rest,
        );
        if let Some(number) = read.number_of_clusters {
            object.set_annotation("kubernetes-fleet.io/number-of-clusters", &number.to_string());
        }
        object
    }

    fn build_bindings<'h>(
        &'h self,
        controller_state: &'h RolloutControllerState,
        rollout: &'h PolicyRollout,
    ) -> impl Iterator<Item = Object> + 'h {
        let names: BTreeSet<_> = self.subject.clusters.iter().chain(rollout.clusters.keys()).collect();
        let apply_strategy = apply_strategy(self.placement);
        names.into_iter().map(move |name| {
            let known = rollout.clusters.get(name);
            let state = match known {
                _ if !self.subject.has_cluster(name) => "Unscheduled",
                None => "Scheduled",
                Some(_) => "Bound",
            };
            let mut spec = json!({
                "state": state, "targetCluster": **name, "schedulingPolicySnapshotName": self.policy_name(controller_state),
                "applyStrategy": apply_strategy,
            });
            let mut conditions = Vec::new();
            if let Some(known) = known {
                let index = controller_state.find_index(&known.revision).unwrap_or_default();
                let snapshot = format!("{}-{index}-snapshot", self.placement.id.name);
                spec["resourceSnapshotName"] = snapshot.into();
                conditions = self.binding_conditions(known, 1);
                let started = json!({"type": "RolloutStarted", "status": "True", "observedGeneration": 1});
                conditions.extend(serde_json::from_value(started).ok());
            }
            let rest = json!({"spec": spec, "status": {"conditions": conditions}});
            let name = format!("{}-{name}", self.placement.id.name);
            let mut binding = self.own_object(self.run_kinds().binding, &name, json!({}), rest);
            // The resources are removed first.
            binding.body["metadata"]["finalizers"] = json!(["kubernetes-fleet.io/work-cleanup"]);
            if let Some(since) = known.filter(|known| known.leaving).and_then(|known| known.since) {
                binding.body["metadata"]["deletionTimestamp"] = json!(since);
            }
            binding
        })
    }

    /// The approval requests that a run has made.
    fn approval_requests<'h>(
        &'h self,
        run: &'h Object,
        known: &'h UpdateRunState,
        approvals: &'h BTreeSet<String>,
    ) -> impl Iterator<Item = Object> + 'h {
        requested_tasks(&known.status).map(move |(stage, task)| {
            let name = &task.approval_request_name;
            let is_approved = approvals.contains(&approval_token(&run.id, known, name));
            let approved = json!({"type": "Approved", "status": "True", "observedGeneration": 1});
            let conditions = if is_approved { json!([approved]) } else { json!([]) };
            let rest = json!({
                "spec": {"parentStageRollout": run.id.name, "targetStage": stage.stage_name},
                "status": {"conditions": conditions},
            });
            self.build_object(self.run_kinds().approval, name, &json!({}), rest)
        })
    }
}

/// The tasks for which a run has made an approval request, with their stages.
fn requested_tasks(status: &RunStatus) -> impl Iterator<Item = (&StageStatus, &TaskStatus)> {
    let tasks = status
        .stages
        .iter()
        .flat_map(|stage| stage.before.iter().chain(&stage.after).map(move |task| (stage, task)));
    tasks.filter(|(_, task)| task.is_true("ApprovalRequestCreated"))
}

/// The tasks that wait for approval.
pub(super) fn open_requests(status: &RunStatus) -> impl Iterator<Item = &TaskStatus> {
    let requested = requested_tasks(status).map(|(_, task)| task);
    requested.filter(|task| !task.is_true("ApprovalRequestApproved"))
}

/// What approves a request.
pub(super) fn approval_token(run: &ObjectRef, known: &UpdateRunState, request: &str) -> String {
    let revision = known.revision.get(..8).unwrap_or(&known.revision);
    match &run.namespace {
        None => format!("{revision}-{request}"),
        Some(namespace) => format!("{revision}-{namespace}/{request}"),
    }
}
