//! What a decision about a rendered object starts from.

use std::borrow::Cow;

use serde_json::Value;

use super::cached_create::CachedCreate;
use super::overlay::project_values;
use super::strip_unapplied_fields;
use federate_apiserver_model::ResourceKind;
use federate_dialect::{ControlPlaneAction, SyncOp};
use federate_engine::autoscalers::Autoscalers;
use federate_engine::controlled_fields::to_applied_body;
use federate_kubernetes::{ClusterName, ObjectRef};

/// The status that control planes report where nothing is to be done.
const UP_TO_DATE: &str = "OK";

/// The kinds of a cluster.
pub type KindLookup<'k> = dyn Fn(&ObjectRef) -> Cow<'k, ResourceKind> + Sync + 'k;

/// Says what a control plane does about an object in a cluster; `None` if none places it.
pub trait ControlPlaneQuery {
    /// The action if the control plane manages the live object.
    fn action_for_managed(&self) -> Option<ControlPlaneAction>;

    /// The action by the marks that the live object has.
    fn action_by_marks(&self) -> Option<ControlPlaneAction>;
}

/// An object that is rendered for a cluster.
pub struct DecisionInput<'w> {
    /// The cluster.
    pub cluster: &'w ClusterName,
    /// Its identity.
    pub object: &'w ObjectRef,
    /// As it is rendered.
    pub body: &'w Value,
    /// Its kind.
    pub kind: &'w ResourceKind,
    /// The result of creating it.
    pub cached_create: &'w CachedCreate,
    /// The autoscalers of the cluster.
    pub(super) autoscalers: &'w Autoscalers,
    /// The live object as it was read, with fields that are not in the schema.
    pub live: Option<&'w Value>,
    /// Says what its control plane does about it.
    pub control_plane: &'w dyn ControlPlaneQuery,
    /// Whether its control plane surely leaves a managed object alone that is as it was applied.
    pub keeps_applied: bool,
}

/// Why the control plane sends nothing now.
pub(super) fn control_plane_hold(action: Option<&ControlPlaneAction>) -> Option<String> {
    let action = action?;
    let holds = matches!(action.op, SyncOp::Nothing) && action.status != UP_TO_DATE;
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    holds.then(|| format!("its control plane holds it back: {}{hint}", action.status))
}

/// The rendered object with the values that the control plane retains from the member: where it would send another
/// value of a field, that one is sent.
pub(super) fn retain_live_values(
    input: &DecisionInput<'_>,
    action: Option<&ControlPlaneAction>,
    live: &Value,
) -> Value {
    let Some(action) = action else { return input.body.clone() };
    match &action.op {
        SyncOp::Update(sent) | SyncOp::Create(sent) => {
            let mut sent = strip_unapplied_fields(sent);
            to_applied_body(&mut sent);
            project_values(input.body, &sent)
        }
        // It would send the live object.
        SyncOp::Nothing => project_values(input.body, &strip_unapplied_fields(live)),
        _ => input.body.clone(),
    }
}

/// No control plane places the object.
#[cfg(test)]
pub(super) struct NoControlPlane;

#[cfg(test)]
impl ControlPlaneQuery for NoControlPlane {
    fn action_for_managed(&self) -> Option<ControlPlaneAction> {
        None
    }

    fn action_by_marks(&self) -> Option<ControlPlaneAction> {
        None
    }
}
