//! Deletes what a Sync manages, by its managed scope: without the source, and whatever it renders.

use std::collections::BTreeSet;

use federate_reconcile::apply_set::group_kind;
use federate_reconcile::{ApplySet, RepoRef};
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};
use federate_repo::{FileTree, ReadOptions, normalize_path};
use federate_session::Session;
use federate_sync_api::managed_scope::{AppliedCluster, InventoryRef, ManagedScope};
use federate_sync_api::status::{FailingCluster, MAX_FAILING_CLUSTERS, SyncReason};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::member_clusters::selection::selected_clusters;
use crate::member_clusters::tracker::format_count;
use crate::member_clusters::{DeletionResult, read_contents};
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::sessions::SyncRuntime;
use crate::reconciliation::Reconciliation;
use crate::source::normalize_folder;
use crate::state::SyncState;

/// A repo with nothing but recorded clusters and their contexts.
struct RecordedClusters {
    clusters: Vec<u8>,
    config: Vec<u8>,
}

const CLUSTERS_FILE: &str = "clusters.json";
const CONFIG_FILE: &str = "federate.yaml";

impl FileTree for RecordedClusters {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        if !folder.is_empty() {
            return Ok(Vec::new());
        }
        let files = [CLUSTERS_FILE, CONFIG_FILE];
        Ok(files.map(|name| TreeEntry { name: name.to_owned(), kind: EntryKind::File }).into())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        match path {
            CLUSTERS_FILE => Ok(self.clusters.clone()),
            CONFIG_FILE => Ok(self.config.clone()),
            _ => Err(TreeError::NotFound),
        }
    }
}

impl RecordedClusters {
    fn new(clusters: &[&AppliedCluster]) -> Self {
        // A cluster whose object is not known is reached by its name anyway.
        let plain = InventoryRef {
            api_version: "cluster.karmada.io/v1alpha1".to_owned(),
            kind: "Cluster".to_owned(),
            namespace: None,
        };
        let objects = clusters.iter().map(|cluster| {
            let object = cluster.object.as_ref().unwrap_or(&plain);
            let mut metadata = json!({"name": cluster.name});
            if let Some(namespace) = &object.namespace {
                metadata["namespace"] = namespace.as_str().into();
            }
            json!({"apiVersion": object.api_version, "kind": object.kind, "metadata": metadata, "spec": {}})
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<Value>>()});
        let contexts =
            clusters.iter().filter_map(|cluster| Some((cluster.name.clone(), cluster.context.clone()?)));
        let contexts: serde_json::Map<String, Value> =
            contexts.map(|(name, context)| (name, context.into())).collect();
        Self {
            clusters: list.to_string().into_bytes(),
            config: json!({"contexts": contexts}).to_string().into_bytes(),
        }
    }
}

impl Reconciliation<'_> {
    /// Notes in the record where objects are about to be applied, and forgets clusters that people have given up.
    pub(crate) fn note_managed_scope(&self, state: &mut SyncState<'_>, session: &Session) {
        if self.spec.apply.is_none() {
            // What was applied before stays, and is no longer managed.
            if let Some(scope) = &mut state.record.status.managed_scope {
                scope.leave_clusters(Timestamp::now());
                self.forget_clusters(state);
                state.record.status.clusters = None;
            }
            return;
        }
        let config = &session.repo().config;
        let objects = session.inventory_objects();
        let clusters = selected_clusters(self.spec, session).map(|cluster| {
            let name = cluster.name.to_string();
            let object = objects.get(&name).map(|known| InventoryRef {
                api_version: known.object.api_version.clone(),
                kind: known.object.kind.clone(),
                namespace: known.object.namespace.clone(),
            });
            AppliedCluster {
                context: config.contexts.get(&name).cloned(),
                object,
                name,
                ..AppliedCluster::default()
            }
        });
        let (namespace, name) = self.valid_sync.object.apply_set();
        let scope = state.record.status.managed_scope.get_or_insert_default();
        scope.note_clusters(&format!("{namespace}/{name}"), clusters.collect(), Timestamp::now());
        let sent = session.render().manifests.iter().map(|manifest| &manifest.object);
        scope.note_objects(sent.map(|object| (group_kind(object), object.namespace.as_deref())));
        self.forget_clusters(state);
        state.record.valid_spec = Some(Box::new(self.spec.clone()));
    }

    /// Forgets the clusters that have left and people have given up, and counts the others.
    fn forget_clusters(&self, state: &mut SyncState<'_>) {
        let Some(scope) = &mut state.record.status.managed_scope else { return };
        let forgotten = &self.valid_sync.object.server_metadata.forget;
        let left: BTreeSet<String> = scope.left_clusters().map(str::to_owned).collect();
        scope.remove_clusters(|name| forgotten.contains(name) && left.contains(name));
        state.record.status.orphans.clusters = scope.left_clusters().map(str::to_owned).collect();
    }

    /// Deletes the Sync's objects in clusters that have left, if the Sync asks for it. A cluster that cannot be reached stays
    /// in the managed scope, and is tried again at the next reconciliation. Returns why nothing is deleted, if more clusters
    /// have left than may.
    pub(crate) fn prune_clusters(&self, state: &mut SyncState<'_>) -> Option<String> {
        let prunes = self.spec.apply.as_ref().is_some_and(|apply| apply.prune_clusters);
        if !prunes || !self.may_correct(state) || self.must_lead().is_err() {
            return None;
        }
        let scope = state.record.status.managed_scope.clone()?;
        let left: Vec<&AppliedCluster> =
            scope.clusters.iter().filter(|cluster| cluster.left.is_some()).collect();
        if left.is_empty() {
            return None;
        }
        let limit = self.apply_limit().unwrap_or_default();
        if limit.is_share_exceeded(left.len(), scope.clusters.len()) {
            let have = if left.len() == 1 { "has" } else { "have" };
            return Some(format!(
                "{} of {} {have} left the inventory, more than `apply.pruneLimit` allows, and what the Sync has applied \
                 there stays",
                left.len(),
                format_count(scope.clusters.len(), "cluster")
            ));
        }
        let gone = self.delete_in(&left, &scope, state);
        for (name, why) in &gone.failed {
            tracing::warn!(
                sync = self.name(),
                cluster = name,
                why,
                "the cluster has left, and its objects stay"
            );
        }
        let failed: BTreeSet<&str> = gone.failed.iter().map(|(name, _)| name.as_str()).collect();
        let done: BTreeSet<String> = left
            .iter()
            .map(|cluster| cluster.name.clone())
            .filter(|name| !failed.contains(name.as_str()))
            .collect();
        for name in &done {
            tracing::info!(
                sync = self.name(),
                cluster = name,
                "deleted everything in a cluster that has left"
            );
        }
        if let Some(scope) = &mut state.record.status.managed_scope {
            scope.remove_clusters(|name| done.contains(name));
            state.record.status.orphans.clusters = scope.left_clusters().map(str::to_owned).collect();
        }
        None
    }

    /// Deletes what the Sync manages in all clusters of its managed scope.
    pub(crate) fn delete_all(&self, state: &mut SyncState<'_>) -> Result<SyncOutcome, ReconcileError> {
        self.must_lead()?;
        let scope = match state.record.status.managed_scope.clone() {
            Some(scope) => scope,
            None => self.planned_scope(state)?,
        };
        let all: Vec<&AppliedCluster> = scope.clusters.iter().collect();
        let result = self.delete_in(&all, &scope, state);
        if let Some((cluster, why)) = result.failed.first() {
            let more = match result.failed.len() - 1 {
                0 => String::new(),
                more => format!(" (and {} more)", format_count(more, "cluster")),
            };
            let failing = result.failed.iter().take(MAX_FAILING_CLUSTERS);
            let failing = failing
                .map(|(name, message)| FailingCluster { name: name.clone(), message: message.clone() });
            state.record.status.failing = failing.collect();
            let message = format!("{cluster}: {why}{more}");
            return Err(ReconcileError::new(SyncReason::ReconciliationFailed, message));
        }
        if result.terminating > 0 {
            let verb = if result.terminating == 1 { "is" } else { "are" };
            let message =
                format!("{} {verb} still being deleted", format_count(result.terminating, "object"));
            return Err(ReconcileError::new(SyncReason::Progressing, message));
        }
        state.record.status.managed_scope = None;
        state.record.status.failing.clear();
        Ok(SyncOutcome::for_success("deleted everything that the Sync managed"))
    }

    /// The managed scope by the previous plan, for a Sync that was applied before its status had one.
    fn planned_scope(&self, state: &SyncState<'_>) -> Result<ManagedScope, ReconcileError> {
        let mut scope = ManagedScope::default();
        let Some(plan) = state.read_plan()? else { return Ok(scope) };
        let names: BTreeSet<String> = plan
            .placements
            .iter()
            .flat_map(|row| row.clusters.iter().map(|placed| placed.name.to_string()))
            .collect();
        let clusters = names.into_iter().map(|name| AppliedCluster { name, ..AppliedCluster::default() });
        let (namespace, name) = self.valid_sync.object.apply_set();
        scope.note_clusters(&format!("{namespace}/{name}"), clusters.collect(), Timestamp::now());
        let objects = plan.placements.iter().map(|row| &row.object);
        scope.note_objects(objects.map(|object| (group_kind(object), object.namespace.as_deref())));
        Ok(scope)
    }

    /// A session over recorded clusters, which need no source to be reached.
    pub(crate) fn open_recorded(&self, clusters: &[&AppliedCluster]) -> Session {
        let source = RecordedClusters::new(clusters);
        let common = SyncRuntime::new(self.env).session_options();
        Session::open(&source, common.with_read(ReadOptions::default()))
    }

    /// Deletes the objects of all `ApplySet`s of the Sync in some clusters.
    fn delete_in(
        &self,
        clusters: &[&AppliedCluster],
        scope: &ManagedScope,
        state: &SyncState<'_>,
    ) -> DeletionResult {
        let session = self.open_recorded(clusters);
        let contents = read_contents(scope);
        let path = normalize_folder(&self.spec.source.path);
        let repo = RepoRef::from_url(&self.spec.source.url, &path, None);
        let paths = self.spec.source.paths.iter().filter_map(|path| normalize_path(path).ok());
        let repo = repo.narrowed_to(&paths.collect::<Vec<_>>());
        let members = self.member_clusters(&session, Some(repo), state);
        let known: BTreeSet<&str> = session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let (names, unknown): (Vec<String>, Vec<String>) = clusters
            .iter()
            .map(|cluster| cluster.name.clone())
            .partition(|name| known.contains(name.as_str()));
        let mut result = DeletionResult::default();
        let why = "the record of how it is reached is damaged";
        result.failed.extend(unknown.into_iter().map(|name| (name, why.to_owned())));
        for set in &scope.apply_sets {
            let Some((namespace, name)) = set.split_once('/') else { continue };
            let set = ApplySet { namespace: namespace.to_owned(), name: name.to_owned() };
            match members.delete_apply_set(&set, &contents, &names) {
                Ok(deleted) => {
                    result.failed.extend(deleted.failed);
                    result.terminating += deleted.terminating;
                }
                Err(error) => {
                    let all = names.iter().map(|name| (name.clone(), error.message.clone()));
                    result.failed.extend(all);
                }
            }
        }
        result
    }
}
