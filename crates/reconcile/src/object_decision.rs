//! A decision about an object: the action as it is shown, and the request.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::replacement::ReplacedObject;
use super::{Action, ActionKind, ActionOutcome, DecisionSettings};
use federate_apiserver_model::{ApiError, shorten_message};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::pointer::escape;

/// A decision about an object.
#[derive(Clone, Debug)]
pub struct ObjectDecision {
    /// The action, as it is shown.
    pub action: Action,
    /// The request; `None` where nothing is sent.
    pub request: Option<WriteRequest>,
    /// Whether nothing is sent because an API server would refuse it: the object must be corrected.
    pub refused: bool,
    /// Whether the object is not adopted, and stays its owner's.
    pub is_left: bool,
}

/// A request about an object.
#[derive(Clone, Debug)]
pub enum WriteRequest {
    /// The object is applied.
    Apply {
        /// The body.
        body: Arc<Value>,
        /// What is written first, so that the apply removes fields of other managers.
        transfer: Option<OwnershipTransfer>,
        /// The object that is deleted first.
        replaces: Option<ReplacedObject>,
    },
    /// The object is deleted unless it has changed.
    Delete {
        /// Its uid.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
}

impl ObjectDecision {
    /// Sends nothing and marks the action as failed, because the object cannot be read or applied.
    pub fn mark_refused(&mut self, why: &str) {
        (self.request, self.refused) = (None, true);
        let action = &mut self.action;
        action.action = ActionKind::Skip;
        action.outcome = ActionOutcome::Failed;
        action.restarts_pods = false;
        action.diffs.clear();
        action.result = None;
        action.reason = Some(why.to_owned());
        action.error = Some(why.to_owned());
    }

    /// Sends nothing, although something should be done.
    pub fn withhold_request(&mut self, why: &str) {
        if self.request.take().is_some() {
            self.action.action = ActionKind::Skip;
            self.action.outcome = ActionOutcome::NotTried;
            self.action.restarts_pods = false;
            self.action.result = None;
            self.action.reason = Some(why.to_owned());
        }
    }
}

/// A write before an apply that transfers the ownership of fields from other managers to federate.
#[derive(Clone, Debug)]
pub struct OwnershipTransfer {
    /// The entries of `managedFields`.
    pub entries: Value,
    /// The resource version at which they were read.
    pub resource_version: String,
    /// The operations of a JSON patch that has the result of both writes, for a dry run of them.
    pub preview: Value,
}

impl OwnershipTransfer {
    /// The transfer that makes the live object `transferred`, before an apply that has this result.
    pub(super) fn new(live: &Value, transferred: &Value, result: &Value) -> Self {
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        Self {
            entries: transferred.pointer("/metadata/managedFields").cloned().unwrap_or_else(|| json!([])),
            resource_version: version.to_owned(),
            preview: preview_operations(live, result),
        }
    }
}

/// The operations that make the result of a live object, as far as an apply may change it.
fn preview_operations(live: &Value, result: &Value) -> Value {
    let mut operations =
        diff_keys(live, result, "", |key| !["apiVersion", "kind", "metadata", "status"].contains(&key));
    let [live, result] = [live, result].map(|object| object.get("metadata").unwrap_or(&Value::Null));
    operations.extend(diff_keys(live, result, "/metadata", |key| {
        ["labels", "annotations", "finalizers", "ownerReferences"].contains(&key)
    }));
    Value::Array(operations)
}

/// The operations that turn the chosen keys of one map into those of the other. `at` is the path of the map.
fn diff_keys(live: &Value, result: &Value, at: &str, is_chosen: impl Fn(&str) -> bool) -> Vec<Value> {
    let mut operations = Vec::new();
    let keys = live.as_object().into_iter().chain(result.as_object()).flat_map(Map::keys);
    for key in keys.filter(|key| is_chosen(key)).collect::<BTreeSet<_>>() {
        let path = format!("{at}/{}", escape(key));
        match (live.get(key), result.get(key)) {
            (Some(_), None) => operations.push(json!({"op": "remove", "path": path})),
            (before, Some(after)) if before != Some(after) => {
                operations.push(json!({"op": "add", "path": path, "value": after}));
            }
            _ => {}
        }
    }
    operations
}

/// Why an API server would refuse an object. Messages about a Secret, and about what SOPS encrypted, may contain its values.
pub(super) fn describe_refusal(
    object: &ObjectRef,
    failure: &ApiError,
    settings: &DecisionSettings<'_>,
) -> String {
    let is_encrypted = settings.encrypted.contains(object);
    let why = if object.kind.contains("Secret") || is_encrypted {
        let causes = failure.details.get("causes").and_then(Value::as_array);
        let fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
        let fields: Vec<&str> = fields.collect();
        let owner = if is_encrypted { "values that SOPS encrypted" } else { "values of the Secret" };
        format!("{} (the message may contain {owner} and is not shown)", fields.join(", "))
    } else {
        shorten_message(&failure.message, &failure.details)
    };
    format!("an API server would refuse it: {why}")
}
