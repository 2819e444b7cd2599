//! Approvals: a run creates a request, and a user approves it in its status.
//!
//! Facts: only an approval of the request's generation counts. An accepted approval cannot be revoked.

use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::TaskStatus;
use super::world::{self, Write};
use super::{Failure, Run};

/// Whether a task comes before or after its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

impl When {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "beforeStage",
            Self::After => "afterStage",
        }
    }
}

impl Run<'_> {
    /// Whether a task is approved. Creates the request where there is none.
    pub(super) fn approved(
        &mut self,
        task: &mut TaskStatus,
        stage: &str,
        when: When,
    ) -> Result<bool, Failure> {
        if task.is("ApprovalRequestApproved") {
            return Ok(true);
        }
        let (now, name) = (self.now, task.approval_request_name.clone());
        let namespace = self.namespace.clone();
        let (kind, run) = (self.kinds.approval, self.name.clone());
        let known = self.world.get_mut(kind, namespace.as_deref(), &name);
        let is_new = known.is_none();
        let message = "ApprovalRequest object is created";
        task.condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", message, now);
        let Some(request) = known else {
            let request = self.request(&name, stage, when);
            self.world.put(request);
            self.world.note(Write::NewApproval(name));
            return Ok(!is_new);
        };
        let about = |key| request.text(&["spec", key]);
        if about("parentStageRollout") != run || about("targetStage") != stage {
            return Err(Failure::unexpected(format!(
                "the approval request `{name}` is about another update run or stage"
            )));
        }
        let conditions = request.at(&["status", "conditions"]).filter(|c| !c.is_null());
        let mut conditions: Vec<Condition> =
            conditions.and_then(|c| Vec::deserialize(c).ok()).unwrap_or_default();
        let generation = request.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        let is = |kind| condition::current(&conditions, kind, generation).is_some_and(Condition::is_true);
        match (is("Approved"), is("ApprovalAccepted")) {
            (false, false) => return Ok(false),
            (true, false) => {
                let message = "The approval request has been approved and cannot be reverted";
                let accepted =
                    Condition::new("ApprovalAccepted", "True", "ApprovalRequestApprovalAccepted", message);
                condition::set(&mut conditions, accepted.at_generation(generation), now);
                request.body["status"]["conditions"] = json!(conditions);
                self.world.note(Write::Approval(name));
            }
            (_, true) => {}
        }
        let message = "ApprovalRequest object is approved";
        task.condition("ApprovalRequestApproved", "True", "StageTaskApprovalRequestApproved", message, now);
        Ok(true)
    }

    fn request(&self, name: &str, stage: &str, when: When) -> Object {
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
        labels[world::target_run(&self.behaviour)] = self.name.as_str().into();
        if self.behaviour.approvals_have_task_type {
            labels["kubernetes-fleet.io/taskType"] = when.name().into();
        }
        if let Some(namespace) = &self.namespace {
            body["metadata"]["namespace"] = namespace.as_str().into();
        }
        Object::of(body, "hub")
    }
}
