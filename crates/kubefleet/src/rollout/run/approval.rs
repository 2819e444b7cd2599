//! Approvals: a run creates a request, and a user approves it in its status.
//!
//! Facts: only an approval of the request's generation counts. An accepted approval cannot be revoked.

use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use super::hub_objects::{self, RunWrite};
use super::status::TaskStatus;
use super::{Failure, Run};

/// Whether a task comes before or after its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskTiming {
    Before,
    After,
}

impl TaskTiming {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "beforeStage",
            Self::After => "afterStage",
        }
    }
}

impl Run<'_> {
    /// Whether a task is approved. Creates the request where there is none.
    pub(super) fn check_approval(
        &mut self,
        task: &mut TaskStatus,
        stage: &str,
        when: TaskTiming,
    ) -> Result<bool, Failure> {
        if task.is_true("ApprovalRequestApproved") {
            return Ok(true);
        }
        let (now, name) = (self.now, task.approval_request_name.clone());
        let namespace = self.namespace.clone();
        let (kind, run) = (self.kinds.approval, self.name.clone());
        let known = self.hub.get_mut(kind, namespace.as_deref(), &name);
        let is_new = known.is_none();
        let message = "ApprovalRequest object is created";
        task.set_condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", message, now);
        let Some(request) = known else {
            let request = self.build_request(&name, stage, when);
            self.hub.put_object(request);
            self.hub.record_write(RunWrite::NewApproval(name));
            return Ok(!is_new);
        };
        if request.text_at(&["spec", "parentStageRollout"]) != run
            || request.text_at(&["spec", "targetStage"]) != stage
        {
            return Err(Failure::unexpected_behavior(format!(
                "the approval request `{name}` is about another update run or stage"
            )));
        }
        let conditions = request.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
        let mut conditions: Vec<Condition> =
            conditions.and_then(|c| Vec::deserialize(c).ok()).unwrap_or_default();
        let generation = request.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        let [approved, accepted] = ["Approved", "ApprovalAccepted"].map(|kind| {
            condition::find_current_condition(&conditions, kind, generation).is_some_and(Condition::is_true)
        });
        match (approved, accepted) {
            (false, false) => return Ok(false),
            (true, false) => {
                let message = "The approval request has been approved and cannot be reverted";
                let accepted =
                    Condition::new("ApprovalAccepted", "True", "ApprovalRequestApprovalAccepted", message);
                condition::set_condition(&mut conditions, accepted.at_generation(generation), now);
                request.body["status"]["conditions"] = json!(conditions);
                self.hub.record_write(RunWrite::Approval(name));
            }
            (_, true) => {}
        }
        let message = "ApprovalRequest object is approved";
        task.set_condition(
            "ApprovalRequestApproved",
            "True",
            "StageTaskApprovalRequestApproved",
            message,
            now,
        );
        Ok(true)
    }

    fn build_request(&self, name: &str, stage: &str, when: TaskTiming) -> Object {
        let mut body = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": self.kinds.approval,
            "metadata": {
                "generation": 1,
                "labels": {
                    "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
                    "kubernetes-fleet.io/targetUpdatingStage": stage,
                },
                "name": name,
            },
            "spec": {"parentStageRollout": self.name, "targetStage": stage},
        });
        let labels = &mut body["metadata"]["labels"];
        labels[hub_objects::target_run(&self.behaviour)] = self.name.as_str().into();
        if self.behaviour.approvals_have_task_type {
            labels["kubernetes-fleet.io/taskType"] = when.name().into();
        }
        if let Some(namespace) = &self.namespace {
            body["metadata"]["namespace"] = namespace.as_str().into();
        }
        Object::from_manifest(body, "hub")
    }
}
