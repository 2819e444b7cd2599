//! The member clusters in a reconciliation: federate applies to them or compares them, logs one line for each action, and
//! counts the clusters by state.

pub(crate) mod change_queue;
pub(crate) mod cluster_counts;
pub(crate) mod comparison;
pub(crate) mod contention;
pub(crate) mod deletion;
pub(crate) mod selection;
pub(crate) mod tracker;
pub(crate) mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use federate_engine::deletions::PruneLimit;
use federate_kubernetes::finding::join_names;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_live::{
    ClusterHealth, ClusterOutcome, ClusterProgress, Interrupt, ProgressReporter, find_unreachable,
};
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::cluster::PruneOptions;
use federate_reconcile::cluster_errors::ClusterError;
use federate_reconcile::{
    Action, ActionKind, ActionOutcome, Actions, AdoptionMode, ApplySet, DryRunStrategy, RepoRef,
};
use federate_session::{AwaitingObjects, Purpose, ReconcileOptions, Reconciler, ServerOptions, Session};
use federate_sync_api::managed_scope::ManagedScope;
use federate_sync_api::status::{ClusterCounts, FailingCluster, MAX_FAILING_CLUSTERS, SyncStatus};
use federate_sync_api::{AdoptionRule, ApplySpec, DriftMode};

use crate::environment::Environment;
use crate::member_clusters::selection::selected_names;
use crate::member_clusters::tracker::{
    ClusterDrift, ClusterTracker, DriftedObject, FailureCause, FailureKind, RetryPauses, format_count,
};
use crate::outcome::ReconcileError;
use crate::reconciliation::Reconciliation;
use crate::rollout::policies::awaiting_objects;
use crate::state::SyncState;
use crate::sync_files::ValidSync;

/// About how many objects of clusters are in memory at a time; an object takes some 30 kB.
const MAX_OBJECTS_IN_MEMORY: usize = 3000;

/// How long a cluster may take to answer for the first time. The reconciliation of the others does not end before.
pub(crate) const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one check of the health of clusters takes at most.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a reconciliation says which clusters are still under way.
const PROGRESS_LOG_INTERVAL: Duration = Duration::from_secs(3);

/// The clusters of a session.
#[derive(Clone)]
pub(crate) struct MemberClusters<'m> {
    pub(crate) valid_sync: &'m ValidSync,
    pub(crate) env: &'m Environment<'m>,
    pub(crate) session: &'m Session,
    /// Where the session was read from, if that is known.
    pub(crate) repo: Option<RepoRef>,
    /// How many clusters the inventory has, at whatever revision.
    pub(crate) cluster_count: usize,
    /// Whether the Sync applied another repository before, whose `ApplySet` it keeps.
    pub(crate) moved: bool,
    /// What the Sync has sent, for clusters in which the parent of its `ApplySet` is gone.
    pub(crate) contents: Option<ApplySetContents>,
    /// The objects that may differ; `None` for all.
    pub(crate) only_objects: Option<&'m BTreeSet<ObjectRef>>,
    /// The objects that are left as they are, because it is not their turn.
    pub(crate) awaiting: Option<AwaitingObjects>,
    /// Whether comparisons put back what drifted.
    pub(crate) corrects: bool,
    /// Whether this is only about a part of what clusters have: nothing is pruned, and what is known of them stays.
    pub(crate) partial: bool,
    /// What ends waiting for health early; `None` if nothing can.
    pub(crate) interrupt: Option<Interrupt>,
}

/// What is done with which `ApplySet`.
struct MemberOperation<'r> {
    /// What is done, as the log says it.
    verb: &'static str,
    set: &'r ApplySet,
    /// What is known to be in it, besides what its parent says.
    contents: Option<&'r ApplySetContents>,
    dry_run: DryRunStrategy,
    wait: HealthWait,
}

impl<'r> MemberOperation<'r> {
    /// An operation that waits for nothing.
    fn new(verb: &'static str, set: &'r ApplySet, dry_run: DryRunStrategy) -> Self {
        Self { verb, set, contents: None, dry_run, wait: HealthWait::UntilTimeout(None) }
    }
}

/// How long an update waits for the health of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthWait {
    /// Until a time limit, if there is one; what is not healthy then has failed.
    UntilTimeout(Option<Duration>),
    /// Only for a moment: what is not healthy then is looked at again soon.
    Check,
}

/// What became of a deletion.
#[derive(Debug, Default)]
pub(crate) struct DeletionResult {
    /// The clusters in which something is left, and why.
    pub(crate) failed: Vec<(String, String)>,
    /// How many objects were asked to go, and may still exist.
    pub(crate) terminating: usize,
}

/// The clusters that were compared, and whether anything was found in each.
pub(crate) type ComparedClusters = BTreeMap<String, bool>;

impl Reconciliation<'_> {
    /// The clusters of a session.
    pub(crate) fn member_clusters<'m>(
        &'m self,
        session: &'m Session,
        repo: Option<RepoRef>,
        state: &SyncState<'_>,
    ) -> MemberClusters<'m> {
        let accepted = state.record.accepted.as_ref();
        let former = accepted.and_then(|accepted| accepted.repository.as_ref());
        let moved =
            former.is_some_and(|former| repo.as_ref().map(RepoRef::to_string).as_ref() != Some(former));
        let clusters = &state.record.clusters;
        let cluster_count = match clusters.len() {
            0 => selected_names(self.spec, session).count(),
            known => known,
        };
        MemberClusters {
            valid_sync: self.valid_sync,
            env: self.env,
            session,
            repo,
            cluster_count,
            moved,
            contents: state.record.status.managed_scope.as_ref().map(read_contents),
            only_objects: None,
            awaiting: accepted
                .map(|accepted| awaiting_objects(session, &state.record.policies, &accepted.tip)),
            corrects: self.spec.drift.mode == DriftMode::Correct && self.may_correct(state),
            partial: false,
            interrupt: self.interrupt.cloned(),
        }
    }
}

impl MemberClusters<'_> {
    /// Applies everything in all clusters, or only in some. Returns how many clusters there are.
    pub(crate) fn apply_all(
        &self,
        apply: &ApplySpec,
        only: Option<&BTreeSet<String>>,
        tracker: &mut ClusterTracker,
        status: &mut SyncStatus,
    ) -> Result<String, ReconcileError> {
        let spec = &self.valid_sync.object.spec;
        let wait = HealthWait::UntilTimeout(spec.health_timeout(apply));
        let all = selected_names(spec, self.session).map(str::to_owned).collect();
        self.update_clusters(apply, only.unwrap_or(&all), wait, tracker);
        self.update_status(tracker, status)?;
        Ok(format_count(selected_names(spec, self.session).count(), "cluster"))
    }

    /// Applies everything in some clusters, and waits for health. Returns what was done.
    pub(crate) fn update_clusters(
        &self,
        apply: &ApplySpec,
        only: &BTreeSet<String>,
        wait: HealthWait,
        tracker: &mut ClusterTracker,
    ) -> Actions {
        let purpose =
            Purpose::Apply { adopt: apply.adopt.map(adoption_rule), force: apply.force, replace: false };
        let clusters = self.due_clusters(tracker, |name| only.contains(name));
        let set = self.apply_set();
        let what = MemberOperation { wait, ..MemberOperation::new("applied", &set, DryRunStrategy::None) };
        let actions = self.run_tracked_operation(purpose, &clusters, &what, tracker);
        self.note_failures(&actions, tracker, true);
        for cluster in clusters.iter().filter(|name| self.only_objects.is_none() && was_read(&actions, name))
        {
            tracker.note_drift(cluster, None);
        }
        actions
    }

    /// Compares all clusters, or only some, with what is rendered, and puts back what drifted if the Sync asks for it.
    pub(crate) fn compare_clusters(
        &self,
        only: Option<&BTreeSet<String>>,
        tracker: &mut ClusterTracker,
        status: &mut SyncStatus,
    ) -> Result<ComparedClusters, ReconcileError> {
        let correct = self.corrects;
        let dry_run = if correct { DryRunStrategy::None } else { DryRunStrategy::Server };
        let purpose = Purpose::Drift { full: false, correct };
        let clusters = self.due_clusters(tracker, |name| only.is_none_or(|only| only.contains(name)));
        let verb = if correct { "put back" } else { "drifted" };
        let set = self.apply_set();
        let what = MemberOperation::new(verb, &set, dry_run);
        let actions = self.run_tracked_operation(purpose, &clusters, &what, tracker);
        self.note_failures(&actions, tracker, false);
        if correct {
            let interval = self.valid_sync.object.spec.interval.0;
            tracker.contentions.note_corrections(&actions.actions, interval, Instant::now());
        }
        for action in &actions.actions {
            self.env.counters.count_drift(&self.valid_sync.object.full_name(), action);
        }
        let mut compared = ComparedClusters::new();
        for cluster in &clusters {
            let here = actions.actions.iter().filter(|action| *action.cluster == **cluster);
            let differs = here.clone().next().is_some();
            compared.insert(cluster.clone(), differs);
            // What drifted in a cluster that cannot be read is not known any more, and has not gone.
            if !was_read(&actions, cluster) {
                continue;
            }
            let left: Vec<&Action> = here
                .filter(|action| !correct || matches!(action.action, ActionKind::Skip | ActionKind::Conflict))
                .collect();
            let drifted = left.first().map(|first| ClusterDrift {
                objects: left.len(),
                first: describe_drift(first),
                changed: find_change_time(first).map(str::to_owned),
                shown: DriftedObject::first_of(&left),
            });
            if drifted.is_some() || !self.partial {
                tracker.note_drift(cluster, drifted);
            }
            if self.only_objects.is_none() && !differs {
                tracker.note_clean(cluster);
            }
        }
        self.update_status(tracker, status)?;
        Ok(compared)
    }

    /// Compares all clusters, whatever is known of them, and changes nothing.
    pub(crate) fn diff_clusters(&self) -> Result<Actions, ReconcileError> {
        let clusters: Vec<String> =
            selected_names(&self.valid_sync.object.spec, self.session).map(str::to_owned).collect();
        let set = self.apply_set();
        let what = MemberOperation::new("differs", &set, DryRunStrategy::Server);
        let purpose = Purpose::Drift { full: false, correct: false };
        self.run_operation(purpose, &clusters, &what, &ClusterTracker::default())
    }

    /// Reads how the objects in some clusters are.
    pub(crate) fn read_health(&self, clusters: &[String]) -> Result<Vec<ClusterHealth>, ReconcileError> {
        let mut reached =
            self.env.services.member_access(self.valid_sync, self.session).map_err(ReconcileError::failed)?;
        reached.access.first_answer = Some(FIRST_ANSWER_TIMEOUT);
        let (purpose, apply_set) = (Purpose::Drift { full: false, correct: false }, self.apply_set());
        let options =
            ReconcileOptions::new(purpose, &apply_set, &self.env.digest_key).with_clusters(clusters);
        let reconciler = Reconciler::new(self.session, &options);
        reconciler.read_health(&reached.access).map_err(|error| ReconcileError::failed(error.to_string()))
    }

    /// Compares the clusters that are due at the interval, and looks at whether the others can be reached: a watch says nothing
    /// of a cluster that is lost. Returns the clusters that are compared.
    pub(crate) fn compare_unwatched_clusters(
        &self,
        tracker: &mut ClusterTracker,
        status: &mut SyncStatus,
    ) -> (BTreeSet<String>, Result<(), ReconcileError>) {
        let (open, watched) = tracker.take_open(selected_names(&self.valid_sync.object.spec, self.session));
        self.check_reachability(&watched, tracker);
        let compared = self.compare_clusters(Some(&open), tracker, status).map(drop);
        (open, compared)
    }

    /// Notes which clusters do not answer, and which do again.
    pub(crate) fn check_reachability(&self, clusters: &BTreeSet<String>, tracker: &mut ClusterTracker) {
        if clusters.is_empty() {
            return;
        }
        match self.find_unreachable(clusters) {
            Ok(unreachable) => {
                for cluster in clusters {
                    match unreachable.get(cluster) {
                        Some(why) => self.record_unreachable(cluster, why, tracker),
                        None => tracker.clear_unreachable(cluster),
                    }
                }
            }
            Err(why) => {
                for cluster in clusters {
                    self.record_unreachable(cluster, &why.message, tracker);
                }
            }
        }
    }

    /// Asks clusters for an answer. Returns why some of them give none, or why none can be asked.
    fn find_unreachable(
        &self,
        clusters: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, ReconcileError> {
        let clusters: Vec<ClusterName> = clusters.iter().map(|name| ClusterName::from(&**name)).collect();
        let mut reached =
            self.env.services.member_access(self.valid_sync, self.session).map_err(ReconcileError::failed)?;
        reached.access = self.env.counters.count_answers(reached.access);
        reached.access.first_answer = Some(FIRST_ANSWER_TIMEOUT);
        let unreachable = find_unreachable(&reached.access, &clusters, &self.apply_set())
            .map_err(ReconcileError::failed)?;
        let unreachable = unreachable.into_iter();
        Ok(unreachable.map(|(cluster, error)| (cluster.to_string(), error.to_string())).collect())
    }

    /// Deletes the members of an `ApplySet` in some clusters, and its parent where none of them is left.
    pub(crate) fn delete_apply_set(
        &self,
        set: &ApplySet,
        contents: &ApplySetContents,
        clusters: &[String],
    ) -> Result<DeletionResult, ReconcileError> {
        let what = MemberOperation {
            contents: Some(contents),
            ..MemberOperation::new("deleted", set, DryRunStrategy::None)
        };
        let actions = self.run_operation(Purpose::Remove, clusters, &what, &ClusterTracker::default())?;
        let terminating = actions.actions.iter().filter(|action| {
            let was_asked = action.action == ActionKind::Delete && action.outcome == ActionOutcome::Done;
            was_asked || action.is_terminating
        });
        let failed = actions.cluster_errors(false).into_iter();
        Ok(DeletionResult {
            terminating: terminating.count(),
            failed: failed.map(|(cluster, error)| (cluster.to_string(), error.message)).collect(),
        })
    }

    /// The `ApplySet` of the Sync.
    fn apply_set(&self) -> ApplySet {
        let (namespace, name) = self.valid_sync.object.apply_set();
        ApplySet { namespace, name }
    }

    /// The clusters whose turn it is.
    fn due_clusters(&self, tracker: &ClusterTracker, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let now = Instant::now();
        let names = selected_names(&self.valid_sync.object.spec, self.session).map(str::to_owned);
        names.filter(|name| is_wanted(name) && tracker.is_due(name, now)).collect()
    }

    /// The same as `run_operation`; if it is not known how to reach clusters, each of them has failed.
    fn run_tracked_operation(
        &self,
        purpose: Purpose,
        clusters: &[String],
        what: &MemberOperation<'_>,
        tracker: &mut ClusterTracker,
    ) -> Actions {
        self.run_operation(purpose, clusters, what, tracker).unwrap_or_else(|error| {
            for cluster in clusters {
                self.record_unreachable(cluster, &error.message, tracker);
            }
            Actions::new(Vec::new(), Vec::new())
        })
    }

    /// Notes that a cluster cannot be reached.
    fn record_unreachable(&self, cluster: &str, why: &str, tracker: &mut ClusterTracker) {
        tracing::error!(sync = self.valid_sync.object.full_name(), cluster, "{why}");
        let cause = FailureCause { kind: FailureKind::Unreachable, message: why.to_owned() };
        tracker.record_attempt(cluster, Some(cause), RetryPauses::from_spec(&self.valid_sync.object.spec));
    }

    fn run_operation(
        &self,
        purpose: Purpose,
        clusters: &[String],
        what: &MemberOperation<'_>,
        tracker: &ClusterTracker,
    ) -> Result<Actions, ReconcileError> {
        if clusters.is_empty() {
            return Ok(Actions::new(Vec::new(), Vec::new()));
        }
        let sync = self.valid_sync.object.full_name();
        let under_way = MemberProgress {
            sync: &sync,
            verb: what.verb,
            is_health_check: what.wait == HealthWait::Check,
            clusters: Mutex::default(),
        };
        let options = ServerOptions::new(&under_way)
            .with_dry_run(what.dry_run)
            .with_wait(match what.wait {
                HealthWait::UntilTimeout(timeout) => timeout,
                HealthWait::Check => Some(HEALTH_CHECK_TIMEOUT),
            })
            .with_interrupt(self.interrupt.clone())
            .with_fence(self.env.services.write_fence())
            .with_contents(what.contents.or(self.contents.as_ref()));
        let apply_set = what.set.clone();
        let apply = self.valid_sync.object.spec.apply.as_ref();
        let limit =
            apply.and_then(|apply| apply.prune_limit).map_or_else(PruneLimit::default, PruneLimit::new);
        let (limit, prune) = match purpose {
            Purpose::Remove => (PruneLimit::new(100), true),
            _ => (limit.for_sync(), apply.is_some_and(|apply| apply.prune)),
        };
        let reconcile = ReconcileOptions::new(purpose, &apply_set, &self.env.digest_key)
            .with_prune((prune && !self.partial).then(|| PruneOptions { kinds: Vec::new(), limit }))
            .with_clusters(clusters)
            .with_only_objects(self.only_objects);
        let access = self.env.services.member_access(self.valid_sync, self.session);
        let mut reached = access.map_err(ReconcileError::failed)?;
        reached.access = self.env.counters.count_answers(reached.access);
        reached.access.at_once = Some(self.at_once());
        reached.access.first_answer = Some(FIRST_ANSWER_TIMEOUT);
        let frozen = match purpose {
            Purpose::Drift { correct: true, .. } => tracker.contentions.frozen_objects(Instant::now()),
            _ => BTreeMap::new(),
        };
        let reconciler = Reconciler::new(self.session, &reconcile).with_repo(self.repo.clone());
        let mut reconciler =
            reconciler.with_moved_from(self.moved.then(|| apply_set.clone())).with_frozen_objects(frozen);
        reconciler = reconciler.with_ignore_rules(&self.valid_sync.object.spec.drift.ignore);
        if let Some(awaiting) = &self.awaiting {
            reconciler = reconciler.with_awaiting_objects(awaiting);
        }
        let actions = thread::scope(|scope| {
            // Dropping the sender at the end of the work ends the thread.
            let (_ended, end) = mpsc::channel::<()>();
            scope.spawn(|| {
                let end = end;
                while end.recv_timeout(PROGRESS_LOG_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if let Some(clusters) = under_way.describe_clusters() {
                        tracing::info!(sync = under_way.sync, "still under way: {clusters}");
                    }
                }
            });
            reconciler.run_on_servers(&reached.access, &options)
        });
        actions.map_err(|error| ReconcileError::failed(error.to_string()))
    }

    /// How many clusters are worked on at a time.
    fn at_once(&self) -> usize {
        let placed = self.session.render().manifests.iter().map(|manifest| manifest.clusters.len());
        let objects = placed.sum::<usize>() / self.session.clusters().len().max(1);
        let objects = self.only_objects.map_or(objects, BTreeSet::len);
        (MAX_OBJECTS_IN_MEMORY / objects.max(1)).clamp(2, 16)
    }

    /// Notes which clusters fail. Where `everything` was to be done, a cluster in which something was skipped fails.
    fn note_failures(&self, actions: &Actions, tracker: &mut ClusterTracker, everything: bool) {
        let mut messages = self.describe_errors(actions, everything);
        let mut failed: BTreeMap<&ClusterName, FailureKind> = BTreeMap::new();
        for action in actions.actions.iter().filter(|action| action.outcome == ActionOutcome::Failed) {
            let kind = failed.entry(&action.cluster).or_insert(FailureKind::Unhealthy);
            if action.unhealthy.is_none() {
                *kind = FailureKind::Failed;
            }
        }
        let held = actions.actions.iter().filter(|action| {
            action.outcome == ActionOutcome::NotTried && action.action != ActionKind::Conflict
        });
        for action in held {
            if let Some(kind @ FailureKind::Unhealthy) = failed.get_mut(&action.cluster) {
                *kind = FailureKind::AwaitingHook;
            }
        }
        let spec = &self.valid_sync.object.spec;
        for cluster in &actions.clusters {
            let message = messages.remove(&cluster.name);
            let kind = match cluster.outcome {
                ActionOutcome::Failed if cluster.error.is_some() => FailureKind::Failed,
                ActionOutcome::Failed => failed.get(&cluster.name).copied().unwrap_or(FailureKind::Failed),
                _ => FailureKind::Skipped,
            };
            if let (Some(orphans), false) = (cluster.orphans, self.partial) {
                tracker.note_orphans(&cluster.name, orphans);
            }
            if self.partial && message.is_none() {
                continue;
            }
            tracker.record_attempt(
                &cluster.name,
                message.map(|message| FailureCause { kind, message }),
                RetryPauses::from_spec(spec),
            );
        }
    }

    /// The first error of each cluster that has one, with the Sync that objects belong to if that is why.
    pub(crate) fn describe_errors(
        &self,
        actions: &Actions,
        everything: bool,
    ) -> BTreeMap<ClusterName, String> {
        let errors = actions.cluster_errors(everything).into_iter();
        let described = errors.map(|(cluster, ClusterError { message, other_apply_set, .. })| {
            let set = other_apply_set.and_then(|set| self.env.services.find_sync_of_set(&set));
            let message = match set {
                Some(other) => format!("{message} (the ApplySet of the Sync {other})"),
                None => message,
            };
            (cluster, message)
        });
        described.collect()
    }

    /// Notes in the status how many clusters there are, which of them fail, and what is left behind. They are counted by
    /// state when the reconciliation ends (`count_clusters`). Returns an error if a cluster fails.
    pub(crate) fn update_status(
        &self,
        tracker: &ClusterTracker,
        status: &mut SyncStatus,
    ) -> Result<(), ReconcileError> {
        status.clusters = Some(ClusterCounts::all_ready(self.cluster_count));
        tracker.count_orphans(&mut status.orphans);
        let shown = tracker.failure_causes().take(MAX_FAILING_CLUSTERS);
        let shown =
            shown.map(|(name, cause)| FailingCluster { name: name.clone(), message: cause.message.clone() });
        status.failing = shown.collect();
        tracker.check_failures()
    }
}

/// The kinds and namespaces of what a Sync has sent.
pub(crate) fn read_contents(scope: &ManagedScope) -> ApplySetContents {
    ApplySetContents { group_kinds: scope.group_kinds.clone(), namespaces: scope.namespaces.clone() }
}

/// Whether a cluster was read, so that the actions in it are all that there are.
fn was_read(actions: &Actions, cluster: &str) -> bool {
    actions.clusters.iter().any(|one| *one.name == *cluster && one.error.is_none())
}

/// An object that drifted, with its fields and who changed them.
fn describe_drift(action: &Action) -> String {
    let fields: Vec<&str> = action.diffs.iter().map(|diff| &*diff.path).collect();
    let managers: BTreeSet<&str> = action.diffs.iter().filter_map(|diff| diff.manager.as_deref()).collect();
    let fields = if fields.is_empty() { String::new() } else { format!(" ({})", join_names(&fields, 3)) };
    let managers: Vec<&str> = managers.into_iter().collect();
    let by = if managers.is_empty() {
        String::new()
    } else {
        format!(", changed by {}", join_names(&managers, 3))
    };
    format!("{}{fields}{by}", action.object)
}

/// When an object was changed last, as far as its managed fields say so.
fn find_change_time(action: &Action) -> Option<&str> {
    action.diffs.iter().filter_map(|diff| diff.time.as_deref()).max()
}

fn adoption_rule(adopt: AdoptionRule) -> AdoptionMode {
    match adopt {
        AdoptionRule::Never => AdoptionMode::Never,
        AdoptionRule::IfNoDiff => AdoptionMode::IfNoDiff,
        AdoptionRule::IfNoRestart => AdoptionMode::IfNoRestart,
        AdoptionRule::Always => AdoptionMode::Always,
    }
}

/// The clusters that a reconciliation is working on, and how far each is. What was done in a cluster is logged when it is done.
struct MemberProgress<'p> {
    sync: &'p str,
    /// What is done.
    verb: &'static str,
    /// Whether objects that are not healthy are looked at again soon, and are no failures yet.
    is_health_check: bool,
    clusters: Mutex<BTreeMap<ClusterName, ClusterProgress>>,
}

impl ProgressReporter for MemberProgress<'_> {
    fn report_progress(&self, cluster: &ClusterName, step: ClusterProgress) {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            ClusterProgress::Done | ClusterProgress::Failed => drop(clusters.remove(cluster)),
            step => drop(clusters.insert(cluster.clone(), step)),
        }
    }

    fn note_outcome(&self, outcome: &ClusterOutcome) {
        outcome
            .actions
            .iter()
            .filter(|action| action.action != ActionKind::Unchanged)
            .for_each(|action| self.log_action(action));
        if let Some(error) = &outcome.error {
            tracing::error!(sync = self.sync, cluster = %outcome.cluster, "{error}");
        }
        for note in &outcome.notes {
            tracing::warn!(sync = self.sync, cluster = %outcome.cluster, "{note}");
        }
    }
}

impl MemberProgress<'_> {
    fn log_action(&self, action: &Action) {
        let Action { cluster, object, .. } = action;
        let (sync, kind) = (self.sync, format!("{:?}", action.action).to_lowercase());
        let why = action.error.as_deref().or(action.reason.as_deref());
        if action.outcome == ActionOutcome::Failed && action.unhealthy.is_some() && self.is_health_check {
            tracing::debug!(sync, %cluster, %object, action = kind, why, "not healthy yet");
        } else if action.outcome == ActionOutcome::Failed {
            tracing::error!(sync, %cluster, %object, action = kind, why, "failed");
        } else {
            let fields: Vec<&str> = action.diffs.iter().map(|diff| &*diff.path).collect();
            let fields = join_names(&fields, 5);
            let managers: BTreeSet<&str> =
                action.diffs.iter().filter_map(|diff| diff.manager.as_deref()).collect();
            let managers = managers.into_iter().collect::<Vec<_>>().join(", ");
            let (verb, changed) = (self.verb, find_change_time(action));
            tracing::info!(sync, %cluster, %object, action = kind, fields, managers, changed, why, "{verb}");
        }
    }

    /// The first clusters, with what is done in each; `None` if there are none.
    fn describe_clusters(&self) -> Option<String> {
        let clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let shown: Vec<String> = clusters
            .iter()
            .take(MAX_FAILING_CLUSTERS)
            .map(|(name, step)| match step {
                ClusterProgress::Applying { done, of } => format!("{name} (applying, {done} of {of})"),
                ClusterProgress::Waiting { open } => {
                    format!("{name} (waiting for {})", format_count(*open, "object"))
                }
                _ => format!("{name} (reading)"),
            })
            .collect();
        let more = clusters.len() - shown.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!shown.is_empty()).then(|| shown.join(", ") + &more)
    }
}
