//! What people ask about a Sync besides its status: what a reconciliation would change, and how its objects are. The loop's
//! own code answers, and neither the state of the Sync nor clusters change.

use std::collections::BTreeMap;

use federate_dialect::readiness::Readiness;
use federate_kubernetes::ObjectRef;
use federate_reconcile::{Actions, RepoRef};
use federate_session::Session;
use federate_sync_api::NamespacedName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::environment::Environment;
use crate::hub::HubStates;
use crate::member_clusters::selection::selected_names;
use crate::outcome::ReconcileError;
use crate::plan::sessions::SyncRuntime;
use crate::reconciliation::Reconciliation;
use crate::state::{SyncState, SyncStates};
use crate::sync_files::ValidSync;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InspectionError(String);

impl From<ReconcileError> for InspectionError {
    fn from(error: ReconcileError) -> Self {
        Self(format!("{}: {error}", error.reason.name()))
    }
}

impl From<crate::state::Error> for InspectionError {
    fn from(error: crate::state::Error) -> Self {
        Self(error.to_string())
    }
}

/// What differs between a revision and the clusters.
#[derive(Debug)]
pub struct SyncDiff {
    /// The revision, as it is shown to people.
    pub revision: String,
    /// Why a reconciliation would not carry it out.
    pub refused: Option<String>,
    /// The differences.
    pub actions: Actions,
}

/// The objects of a Sync in each cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncTree {
    /// The Sync.
    pub metadata: NamespacedName,
    /// The revision that was carried out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The clusters, by name.
    pub clusters: Vec<TreeCluster>,
}

/// The objects of a Sync in a cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeCluster {
    /// Its name.
    pub name: String,
    /// The commit that it has, if it is not the newest one that was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The objects.
    pub objects: Vec<TreeObject>,
}

/// An object of a Sync in a cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeObject {
    /// The object.
    pub object: ObjectRef,
    /// Its health.
    pub health: TreeHealth,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The health of an object, in the words of kstatus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum TreeHealth {
    /// The change has arrived.
    Current,
    /// More time may help.
    InProgress,
    /// It never will arrive.
    Failed,
    /// The Sync has no such object in the cluster.
    NotFound,
}

impl TreeObject {
    fn new(object: ObjectRef, readiness: Option<Readiness>) -> Self {
        let (health, message) = match readiness {
            Some(Readiness::Ready) => (TreeHealth::Current, None),
            Some(Readiness::InProgress(why)) => (TreeHealth::InProgress, Some(why)),
            Some(Readiness::Failed(why)) => (TreeHealth::Failed, Some(why)),
            None => (TreeHealth::NotFound, None),
        };
        Self { object, health, message }
    }
}

/// Compares the clusters with a commit, or with the newest revision of the source.
pub fn diff_sync(
    valid_sync: &ValidSync,
    states: &HubStates,
    env: &Environment<'_>,
    commit: Option<&str>,
) -> Result<SyncDiff, InspectionError> {
    let reconciliation = Reconciliation { reads_only: true, ..Reconciliation::new(valid_sync, env) };
    let mut state = states.open_state(valid_sync)?;
    let mut runtime = SyncRuntime::new(env);
    runtime.select_paths(&valid_sync.object.spec.source.paths);
    let source_state = match commit {
        Some(_) => None,
        None => reconciliation.poll_source(&mut state, &mut runtime, false)?,
    };
    let (session, repo, revision) = if let Some(source_state) = source_state {
        reconciliation.observe_clusters(&mut state, &mut runtime, &source_state.checkout)?;
        let session = runtime.take_session(&source_state.checkout, state.read_plan()?.as_ref());
        (session, reconciliation.find_repo(&source_state.checkout), source_state.name)
    } else {
        let commit = commit.map(str::to_owned).or_else(|| accepted_tip(&state));
        let commit = commit.ok_or_else(|| nothing_accepted(valid_sync))?;
        let (session, repo) =
            reconciliation.open_planned(&state, &commit, state.read_plan()?.unwrap_or_default())?;
        (session, repo, format!("sha1:{commit}"))
    };
    let kept = state.read_plan()?;
    let refused = reconciliation.find_refusal(
        &session,
        kept.as_ref(),
        reconciliation.apply_limit(),
        reconciliation.destination(),
    );
    if let Some(error) = refused.as_ref().filter(|error| error.reason.name() == "BuildFailed") {
        return Err(InspectionError(format!("{revision}: {error}")));
    }
    let actions = reconciliation.member_clusters(&session, repo, &state).diff_clusters()?;
    Ok(SyncDiff { revision, refused: refused.map(|error| error.message), actions })
}

/// Reads the objects of a Sync with their health, in each cluster those of the revision that it has.
pub fn read_tree(
    valid_sync: &ValidSync,
    states: &HubStates,
    env: &Environment<'_>,
) -> Result<SyncTree, InspectionError> {
    let reconciliation = Reconciliation { reads_only: true, ..Reconciliation::new(valid_sync, env) };
    let state = states.open_state(valid_sync)?;
    let tip = accepted_tip(&state).ok_or_else(|| nothing_accepted(valid_sync))?;
    let (session, repo) =
        reconciliation.open_planned(&state, &tip, state.read_plan()?.unwrap_or_default())?;
    let mut by_revision: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for name in selected_names(&valid_sync.object.spec, &session) {
        // One that is being updated has the newest revision, and is not healthy yet.
        let known = state.record.clusters.get(name).filter(|cluster| !cluster.applied);
        let known = known.and_then(|cluster| cluster.revision.clone());
        by_revision.entry(known.filter(|revision| *revision != tip)).or_default().push(name.to_owned());
    }
    let mut formers = BTreeMap::new();
    let mut clusters = Vec::new();
    for (revision, names) in by_revision {
        let (session, repo): (&Session, Option<RepoRef>) = match &revision {
            None => (&session, repo.clone()),
            Some(former) => {
                reconciliation.open_former(&state, &mut formers, former)?;
                let Some((session, repo)) = formers.get(former) else { continue };
                (session, repo.clone())
            }
        };
        for health in reconciliation.member_clusters(session, repo, &state).read_health(&names)? {
            let (objects, error) = match health.objects {
                Ok(objects) => (objects, None),
                Err(error) => (BTreeMap::new(), Some(error.to_string())),
            };
            let objects = objects.into_iter().map(|(object, readiness)| TreeObject::new(object, readiness));
            let (name, objects) = (health.cluster.to_string(), objects.collect());
            clusters.push(TreeCluster { name, revision: revision.clone(), error, objects });
        }
    }
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    let revision = state.record.status.last_applied_revision;
    Ok(SyncTree { metadata: valid_sync.object.metadata.clone(), revision, clusters })
}

impl SyncTree {
    /// Whether every object is there and healthy.
    pub fn is_healthy(&self) -> bool {
        self.clusters.iter().all(|cluster| {
            cluster.error.is_none()
                && cluster.objects.iter().all(|object| object.health == TreeHealth::Current)
        })
    }
}

/// The revision that was accepted last.
fn accepted_tip(state: &SyncState<'_>) -> Option<String> {
    state.record.accepted.as_ref().map(|accepted| accepted.tip.clone())
}

fn nothing_accepted(valid_sync: &ValidSync) -> InspectionError {
    InspectionError(format!(
        "{} has carried out no revision yet: `federate sync get` shows why",
        valid_sync.object.full_name()
    ))
}
