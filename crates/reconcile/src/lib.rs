//! The actions in a member cluster: for each object that is rendered for it, and each that was, the action that brings
//! the live object to the desired one, decided before anything is done.
//!
//! Everything here is a function of the desired and the live objects, whether those were read from an API server or
//! from files: `apply`, its dry runs and `drift` decide by the same code. The result of an apply is computed by the
//! rules of the API server ([`federate_apiserver_model`]).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use federate_engine::change::{diff_paths, hide_secret_values};
use federate_kubernetes::{ClusterName, ObjectRef};
pub use ownership::FIELD_MANAGER;
use ownership::PART_OF_LABEL;

pub mod apply_set;
mod autoscaled_fields;
pub mod blame;
mod cached_create;
pub mod cluster;
pub mod cluster_errors;
pub mod comparison;
mod correction;
mod decision;
mod decision_input;
mod desired_objects;
pub mod drift;
mod drift_ignore;
mod field_managers;
pub mod import;
mod keep_annotations;
pub mod listed_object;
mod live_object;
mod object_decision;
mod overlay;
mod owned_fields;
pub mod ownership;
mod path_steps;
mod placed_objects;
mod replacement;
pub mod repo_ref;
mod response;
mod settings;

pub use apply_set::ApplySet;
pub use cached_create::CachedCreate;
pub use decision::decide_object;
pub use decision_input::{ControlPlaneQuery, DecisionInput, KindLookup};
pub use desired_objects::{DesiredObject, DesiredObjects, parse_desired};
pub use field_managers::{FieldManagers, PERSON_MANAGERS, Writer};
pub use object_decision::{ObjectDecision, OwnershipTransfer, WriteRequest};
pub use placed_objects::PlacedObjects;
pub use replacement::ReplacedObject;
pub use repo_ref::RepoRef;
pub use settings::{AdoptionMode, DecisionSettings, DryRunStrategy};

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// The object does not exist, and is created.
    Create,
    /// The object is managed, differs, and is updated.
    Update,
    /// The object exists, is not managed, and is adopted.
    Adopt,
    /// The object is as it should be.
    Unchanged,
    /// The object exists, is not managed, and is not adopted.
    Conflict,
    /// Nothing is done for another reason.
    Skip,
    /// The object is managed, is no longer rendered, and is deleted.
    Delete,
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActionOutcome {
    /// Nothing was changed: the run only compares, or is a dry run.
    Planned,
    /// The cluster is as the action says.
    Done,
    /// The API server refused it, or would; or the object could not be read, or was not healthy in time.
    Failed,
    /// It was not tried; `reason` says why.
    NotTried,
}

impl ActionOutcome {
    /// The worst of some outcomes: one that failed, else one that was not tried; [`Done`](Self::Done) if there are none.
    pub fn find_worst(outcomes: impl Iterator<Item = Self>) -> Self {
        let severity = |outcome: &Self| match outcome {
            Self::Planned => 0,
            Self::Done => 1,
            Self::NotTried => 2,
            Self::Failed => 3,
        };
        outcomes.max_by_key(severity).unwrap_or(Self::Done)
    }

    /// Whether the cluster is not as the action says, and nothing is planned that would make it so.
    pub fn is_problem(self) -> bool {
        matches!(self, Self::Failed | Self::NotTried)
    }
}

/// An action about one object in one cluster, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// The cluster.
    #[schemars(with = "String")]
    pub cluster: ClusterName,
    /// The object.
    pub object: ObjectRef,
    /// The kind of the action.
    pub action: ActionKind,
    /// Whether it replaces pods.
    pub restarts_pods: bool,
    /// The fields that it changes.
    pub diffs: Vec<FieldDiff>,
    /// Why, where it is a conflict, skipped, or not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its outcome.
    pub outcome: ActionOutcome,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How the object was, if the action failed only because it was not healthy in time, and it may become so.
    #[serde(skip)]
    pub unhealthy: Option<String>,
    /// Whether nothing is done because the object is on its way out.
    #[serde(skip)]
    pub is_terminating: bool,
    /// The id of the other `ApplySet` that the object belongs to, if that is why it is a conflict.
    #[serde(skip)]
    pub other_apply_set: Option<String>,
    /// The resulting object; absent where the object is deleted, or where results are not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<Value>>,
}

impl Action {
    /// An action without details.
    fn new(cluster: &ClusterName, object: &ObjectRef, action: ActionKind) -> Self {
        Self {
            cluster: cluster.clone(),
            object: object.clone(),
            action,
            restarts_pods: false,
            diffs: Vec::new(),
            reason: None,
            outcome: ActionOutcome::Planned,
            error: None,
            unhealthy: None,
            is_terminating: false,
            other_apply_set: None,
            result: None,
        }
    }
}

/// A field that differs from the desired one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldDiff {
    /// The field, as `paths` names it.
    pub path: String,
    /// The desired value; absent where the field should be absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Value>,
    /// The live value; absent where the field is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// The manager that wrote it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// The time of that write, in RFC 3339 notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What the manager is; absent where the field is absent, because `managedFields` does not say who removed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer>,
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
    /// The clusters of the run, sorted by name.
    pub clusters: Vec<ClusterReport>,
}

/// The result of a run in one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Its name.
    #[schemars(with = "String")]
    pub name: ClusterName,
    /// `failed` where the cluster could not be read or an action failed, `not-tried` where an action was not tried.
    pub outcome: ActionOutcome,
    /// Why the cluster as a whole failed; objects without an action were not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the actions are a prediction, because no API server dry-ran them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
    /// Warnings about the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What is left behind; `None` if that was not looked at.
    #[serde(skip)]
    pub orphans: Option<Orphans>,
}

/// What is left behind in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphans {
    /// Managed objects that are no longer rendered and stay.
    pub objects: usize,
    /// Other `ApplySet`s of the repo, which are no longer applied.
    pub apply_sets: usize,
}

impl ClusterReport {
    /// The report of a cluster with these actions, and with an error of the cluster as a whole.
    pub fn from_actions(name: ClusterName, actions: &[Action], error: Option<String>) -> Self {
        let outcomes = actions.iter().map(|action| action.outcome);
        let outcome =
            if error.is_some() { ActionOutcome::Failed } else { ActionOutcome::find_worst(outcomes) };
        Self { name, outcome, error, predicted: false, notes: Vec::new(), orphans: None }
    }
}

impl Actions {
    /// These actions in these clusters.
    pub fn new(actions: Vec<Action>, clusters: Vec<ClusterReport>) -> Self {
        Self { api_version: federate_dialect::plan::API_VERSION, kind: "Actions", actions, clusters }
    }
}

/// An object without its status and the fields that controllers own.
pub fn strip_unapplied_fields(object: &Value) -> Value {
    let mut object = strip_controlled_fields(object);
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    object
}

/// An object without the fields that controllers own.
fn strip_controlled_fields(object: &Value) -> Value {
    let mut object = object.clone();
    federate_engine::controlled_fields::remove_controlled(&mut object);
    object
}

/// The fields in which the live object differs from the result, with who wrote them last. Values of Secrets, and those that
/// are named like credentials, are digests.
pub fn diff_fields(live: &Value, result: &Value, settings: &DecisionSettings<'_>) -> Vec<FieldDiff> {
    compare_fields(live, strip_unapplied_fields(live), strip_unapplied_fields(result), settings)
}

/// The fields in which the live object differs from `rendered`, including the status and fields that are not rendered.
pub fn all_diffs(live: &Value, rendered: &Value, settings: &DecisionSettings<'_>) -> Vec<FieldDiff> {
    compare_fields(live, strip_controlled_fields(live), strip_controlled_fields(rendered), settings)
}

fn compare_fields(
    live: &Value,
    mut from: Value,
    mut to: Value,
    settings: &DecisionSettings<'_>,
) -> Vec<FieldDiff> {
    hide_secret_values(&mut [&mut from, &mut to], settings.key);
    let blame = blame::Blame::from_live(live);
    diff_paths(&from, &to)
        .into_iter()
        .map(|change| {
            // `managedFields` does not say who removed a field.
            let last = change.from.as_ref().and_then(|_| blame.last_writer(&change.path));
            let (manager, time) = last.unzip();
            let writer = settings.managers.classify_writer(manager.as_deref(), change.from.is_some());
            let time = time.flatten();
            FieldDiff { path: change.path, desired: change.to, live: change.from, manager, time, writer }
        })
        .collect()
}

/// The difference without the label of the `ApplySet`.
fn without_label(diff: FieldDiff) -> Option<FieldDiff> {
    without_key(diff, "/metadata/labels", PART_OF_LABEL)
}

/// The difference without the annotation of `kubectl apply`, which has no meaning once the object is managed by
/// federate.
fn without_last_applied(diff: FieldDiff) -> Option<FieldDiff> {
    without_key(diff, "/metadata/annotations", "kubectl.kubernetes.io/last-applied-configuration")
}

/// The difference without a key of a map.
fn without_key(mut diff: FieldDiff, map: &str, key: &str) -> Option<FieldDiff> {
    let below = diff.path.strip_prefix(map).and_then(|rest| rest.strip_prefix('/'));
    if below == Some(&federate_kubernetes::pointer::escape(key)) {
        return None;
    }
    if diff.path == map {
        // Where one side has no such map, the map is one difference.
        for side in [&mut diff.desired, &mut diff.live] {
            if let Some(map) = side.as_mut().and_then(Value::as_object_mut) {
                map.remove(key);
            }
        }
        let mut maps = [&diff.desired, &diff.live].into_iter().flatten().filter_map(Value::as_object);
        if maps.all(serde_json::Map::is_empty) {
            return None;
        }
    }
    Some(diff)
}
