//! What is to be done in a member cluster: for each object that is rendered for it, and each that was,
//! the action that brings what runs to what is wanted, decided before anything is done.
//!
//! Everything here is a function of what is wanted and of what runs, whether that was read from an API
//! server or from files: `apply`, its dry runs and `drift` decide by the same code. What an apply makes
//! of an object is computed by the server's own rules ([`federate_apiserver`]).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::change::{DigestKey, hide, paths};
use federate_kubernetes::{ClusterName, ObjectRef};
use ownership::PART_OF;

mod answer;
mod autoscaled;
pub mod blame;
pub mod cluster;
pub mod controlled;
mod correct;
pub mod decide;
pub mod drift;
pub mod import;
pub mod inventory;
mod overlay;
pub mod ownership;
mod replace;
pub mod repo_ref;
pub mod restart;
mod steps;
mod unchanged;

pub use decide::{Adopt, CachedCreate, Decision, Rules, Send, Target, decide};
pub use inventory::Inventory;
pub use replace::Replaced;
pub use repo_ref::RepoRef;

/// The field manager that everything is applied as.
pub const MANAGER: &str = "federate";

/// What is done about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// It is not there, and is created.
    Create,
    /// It is ours, and differs.
    Update,
    /// It is there, but not ours: it is taken over.
    Adopt,
    /// Nothing is to be done.
    Unchanged,
    /// It is there, and must not be taken over.
    Conflict,
    /// Nothing is done, for another reason.
    Skip,
    /// It is ours, and no longer wanted.
    Delete,
}

/// What became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing was changed: the run only compares, or is a dry run.
    Planned,
    /// The cluster is as the action says.
    Done,
    /// The API server refused it, or would.
    Failed,
    /// It should have been done and was not; `reason` says why.
    NotTried,
}

/// What is done about one object in one cluster, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// The cluster.
    #[schemars(with = "String")]
    pub cluster: ClusterName,
    /// The object.
    pub object: ObjectRef,
    /// What is done.
    pub action: ActionKind,
    /// Whether pods are replaced by it.
    pub restarts_pods: bool,
    /// The fields that it changes.
    pub diffs: Vec<FieldDiff>,
    /// Why, where it is a conflict, skipped, or not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// What the API server said, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The object as it will stand afterwards; absent where it will be gone, or where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<Value>>,
}

/// A field that is not as it is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldDiff {
    /// The field, as [`paths`] names it.
    pub path: String,
    /// What it should be; absent where it should not be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Value>,
    /// What it is; absent where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// Who wrote it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// When, in RFC 3339 notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// Actions, for machines.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actions {
    /// `federate.dev/v1alpha1`
    pub api_version: &'static str,
    /// `Actions`
    pub kind: &'static str,
    /// Sorted by cluster and object.
    pub actions: Vec<Action>,
    /// The clusters that the run was about, sorted by name.
    pub clusters: Vec<ClusterReport>,
}

/// How a run ended in one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Its name.
    #[schemars(with = "String")]
    pub name: ClusterName,
    /// `failed` where the cluster could not be read or an action failed, `not-tried` where an action was not tried.
    pub outcome: Outcome,
    /// Why the cluster as a whole failed: nothing is known of objects that no action names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the actions are a prediction: no API server was asked what it makes of the objects.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
    /// What is worth knowing about the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ClusterReport {
    /// What follows from the actions in a cluster, and from what concerns the cluster as a whole.
    pub fn of(name: ClusterName, actions: &[Action], error: Option<String>) -> Self {
        let outcomes = || actions.iter().map(|action| action.outcome);
        let outcome = match &error {
            Some(_) => Outcome::Failed,
            None if outcomes().any(|outcome| outcome == Outcome::Failed) => Outcome::Failed,
            None => outcomes().max().unwrap_or(Outcome::Done),
        };
        Self { name, outcome, error, predicted: false, notes: Vec::new() }
    }
}

impl Actions {
    /// These actions in these clusters.
    pub fn of(actions: Vec<Action>, clusters: Vec<ClusterReport>) -> Self {
        Self { api_version: federate_dialect::plan::API_VERSION, kind: "Actions", actions, clusters }
    }
}

/// An object without what is a controller's, and without its status.
pub fn plain(object: &Value) -> Value {
    let mut object = specified(object);
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    object
}

/// An object without what is a controller's.
fn specified(object: &Value) -> Value {
    let mut object = object.clone();
    controlled::remove_controlled(&mut object);
    object
}

/// The fields in which what runs differs from what it will be, Secrets' values as digests, with who wrote
/// them last.
pub fn diffs(live: &Value, result: &Value, key: &DigestKey) -> Vec<FieldDiff> {
    compared(live, (plain(live), plain(result)), key)
}

/// The fields in which what runs differs from `rendered`, those that nobody rendered and the status too.
pub fn all_diffs(live: &Value, rendered: &Value, key: &DigestKey) -> Vec<FieldDiff> {
    compared(live, (specified(live), specified(rendered)), key)
}

fn compared(live: &Value, (mut from, mut to): (Value, Value), key: &DigestKey) -> Vec<FieldDiff> {
    hide(&mut [&mut from, &mut to], key);
    let blame = blame::Blame::of(live);
    let diff = |change: crate::change::PathChange| {
        // Whoever removed a field left no trace.
        let last = change.from.as_ref().and_then(|_| blame.last(&change.path));
        let (manager, time) = last.unzip();
        FieldDiff { path: change.path, desired: change.to, live: change.from, manager, time: time.flatten() }
    };
    paths(&from, &to).into_iter().map(diff).collect()
}

/// The difference without the label of our inventory, which is none to anybody.
fn unmarked(diff: FieldDiff) -> Option<FieldDiff> {
    without(diff, "/metadata/labels", PART_OF)
}

/// The difference without what `kubectl apply` remembers: nobody reads it when the object is ours.
fn unremembered(diff: FieldDiff) -> Option<FieldDiff> {
    without(diff, "/metadata/annotations", "kubectl.kubernetes.io/last-applied-configuration")
}

/// The difference without a key of a map.
fn without(mut diff: FieldDiff, map: &str, key: &str) -> Option<FieldDiff> {
    let below = diff.path.strip_prefix(map).and_then(|rest| rest.strip_prefix('/'));
    if below == Some(&federate_kubernetes::patch::escape(key)) {
        return None;
    }
    if diff.path == map {
        // Where one side has no such map, it is reported as one.
        for side in [&mut diff.desired, &mut diff.live] {
            if let Some(map) = side.as_mut().and_then(Value::as_object_mut) {
                map.remove(key);
            }
        }
        let none = |map: &Option<Value>| {
            map.as_ref().and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
        };
        if none(&diff.desired) && none(&diff.live) {
            return None;
        }
    }
    Some(diff)
}
