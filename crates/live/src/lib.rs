//! Reads member clusters through their API servers, has the engine decide what to do, and does it.
//!
//! ```text
//!            one thread per cluster; 16 work at a time, once their servers answer
//! state ─► read (few lists) ─► decide (pure, in the engine) ─► carry out ─► wait
//!                 ▲                                          │ conflict
//!                 └──────────────────────────────────────────┘
//! ```
//!
//! Clusters are independent: each has its own connection, time limits, attempts and outcome. A run that is
//! killed leaves nothing that the next run does not find: the parent of the ApplySet names objects before they
//! are created, and stops naming them after they are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use federate_dialect::readiness::Readiness;
use federate_engine::actions::apply_set::ApplySetContents;
use federate_engine::actions::cluster::ClusterDecisions;
use federate_engine::actions::listed_object::ListedObject;
use federate_engine::actions::{
    Action, ActionKind, ActionOutcome, ApplySet, ObjectDecision, Orphans, RepoRef,
};
use federate_kubernetes::{ClusterName, Object, ObjectRef};

mod access;
mod answer;
mod client;
mod cluster_state;
pub mod compression;
mod counts;
mod dependencies;
mod discovery;
mod dry_run;
mod early_reads;
mod execution;
mod health;
mod hooks;
mod hub;
pub mod import;
mod items;
mod kinds;
mod kubeconfig;
mod object_requests;
mod order;
mod parent;
pub mod path;
mod proxy;
mod request;
mod send_results;
pub mod snapshot;
mod stored_plan;
mod survey;
mod target;
mod wait;
mod watch;
mod webhooks;

pub use access::{MissingAccess, check_access};
pub use answer::StatusError;
pub use cluster_state::ClusterState;
pub use counts::{AnswerCounts, AnswersByCode, ServerRole};
pub use early_reads::{EarlyReads, read_early};
pub use health::{ClusterHealth, read_health};
pub use hub::HubAccess;
pub use kinds::ClusterKinds;
pub use kubeconfig::Kubeconfig;
pub use stored_plan::{RememberedPlan, StoredPlan};
pub use survey::{SurveyOptions, SurveyResult, SurveyedCluster, find_unreachable, survey_clusters};
pub use target::Access;
pub use watch::{MemberWatch, WatchedObjects};

use client::Client;
use early_reads::{EarlyCluster, EarlyLists};
use execution::ApplyExecution;
use send_results::SendResults;
use target::Connections;
use wait::AppliedObjects;

/// The number of clusters that are connected to at a time; [`target`] limits how many are worked on.
const MAX_CONNECTED_CLUSTERS: usize = 256;
/// The number of times that a cluster is read because another client changed objects after they were decided about.
const MAX_ATTEMPTS: u32 = 6;
/// The pause before the second time; it doubles.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The time limit for what is done in a cluster, from its turn on and besides waiting for health, unless
/// [`Access::timeout`] says otherwise.
const CLUSTER_TIMEOUT: Duration = Duration::from_mins(10);

/// The objects that are rendered for a cluster.
#[derive(Clone, Debug)]
pub struct DesiredState<'j> {
    /// The cluster.
    pub cluster: ClusterName,
    /// The objects.
    pub objects: Vec<(&'j ObjectRef, &'j Value)>,
}

impl DesiredState<'_> {
    /// A cluster of which nothing is desired: it is only read.
    pub(crate) fn without_objects(cluster: ClusterName) -> Self {
        Self { cluster, objects: Vec::new() }
    }
}

/// Compares a listed object: if it is unchanged, a manifest of it that only says of which `ApplySet` it is a member.
pub type TextComparison<'d> = Box<dyn Fn(&ObjectRef, &ListedObject<'_>) -> Option<Value> + Sync + 'd>;

/// Decides what to do in clusters. Every method is a function of its arguments.
pub trait Decider: Sync {
    /// Prepares to say of listed objects whether they are unchanged by their text; `None` where values are needed. `first`
    /// has the objects that are read before.
    fn prepare_comparison<'d>(
        &'d self,
        cluster: &ClusterName,
        first: &[Object],
    ) -> Option<TextComparison<'d>>;

    /// Decides about every object of a cluster, before the API server is asked.
    fn decide_cluster(&self, cluster: &ClusterName, state: &ClusterState) -> ClusterDecisions;

    /// Decides about an object again, by the answer of the API server to a dry run: the object after the apply, or why
    /// the apply is refused.
    fn decide_again(
        &self,
        decision: &mut ObjectDecision,
        state: &ClusterState,
        live: Option<&Value>,
        answer: Result<Value, String>,
    );

    /// Completes the decisions after the API server has answered.
    fn finish_decisions(
        &self,
        cluster: &ClusterName,
        state: &ClusterState,
        decided: ClusterDecisions,
    ) -> ClusterDecisions;

    /// The wave in which an object is applied.
    fn find_wave(&self, object: &ObjectRef) -> u32;

    /// Whether a change has arrived at an object, by its control plane, its status and the health checks of the repo.
    fn assess_readiness(&self, object: &Object) -> Readiness;
}

/// Receives the progress of clusters, from several threads.
pub trait ProgressReporter: Sync {
    /// Reports that a cluster has reached a step.
    fn report_progress(&self, cluster: &ClusterName, step: ClusterProgress);

    /// Reports what was done in a cluster, when it is done. Other clusters may still be under way.
    fn note_outcome(&self, _outcome: &ClusterOutcome) {}
}

/// The step that a cluster has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterProgress {
    /// It is being read.
    Reading,
    /// Objects are being applied and deleted.
    Applying {
        /// How many are done.
        done: usize,
        /// How many there are.
        of: usize,
    },
    /// Objects are being waited for.
    Waiting {
        /// How many.
        open: usize,
    },
    /// Everything is done.
    Done,
    /// Something failed; everything else is done.
    Failed,
}

/// How changes are made.
#[derive(Clone)]
pub struct ApplyOptions<'h> {
    /// The `ApplySet` of the managed objects.
    pub inventory: &'h ApplySet,
    /// The repo that the objects come from, where it is known.
    pub repo: Option<&'h RepoRef>,
    /// The `ApplySet` whose members are adopted. Where it is the same as `inventory`, the set itself moves to this
    /// repo.
    pub moved: Option<&'h ApplySet>,
    /// How far a dry run goes; `None` where changes are made.
    pub dry_run: Option<DryRun>,
    /// The plan that the clusters are to remember; `None` where they are to remember none.
    pub remember: Option<&'h RememberedPlan>,
    /// Whether the plan was decided without the memory of an earlier run.
    pub without_memory: bool,
    /// Whether applies are dry-run on the API servers before anything is written.
    pub dry_run_first: bool,
    /// Whether only the desired objects are read, although the `ApplySet` has other members.
    pub narrow: bool,
    /// How long to wait until everything is healthy; `None` to not wait.
    pub wait: Option<Duration>,
    /// What ends the wait for health, and for a server that has stopped answering, early; `None` if nothing does.
    pub interrupt: Option<Interrupt>,
    /// What is checked before each write.
    pub fence: Option<Fence>,
    /// What was begun to be read before it was known what is desired.
    pub early: Option<&'h EarlyReads>,
    /// What is known to be in the `ApplySet`, besides what its parent says.
    pub contents: Option<&'h ApplySetContents>,
    /// Whether the `ApplySet` ends: its parent is deleted when it has no members any more.
    pub ends: bool,
    /// Receives the progress.
    pub progress: &'h dyn ProgressReporter,
}

/// Whether something newer is to be done than to wait for what was applied: another revision, a request, or the end of the
/// process.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// Whether this process may still write to clusters: another one may lead by now.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

/// How far a dry run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Nothing is sent.
    Client,
    /// Everything is sent, and nothing stored.
    Server,
}

/// The result of a run in one cluster.
#[derive(Clone, Debug)]
pub struct ClusterOutcome {
    /// The cluster.
    pub cluster: ClusterName,
    /// Whether the cluster was read; otherwise nothing was decided about it.
    pub read: bool,
    /// The actions with their outcomes, sorted by object.
    pub actions: Vec<Action>,
    /// Why the cluster as a whole failed.
    pub error: Option<String>,
    /// Warnings about the cluster.
    pub notes: Vec<String>,
    /// What is left behind in the cluster; `None` if that was not looked at.
    pub orphans: Option<Orphans>,
    /// A digest of all that was looked at, if nothing was to be done and [early reads](EarlyReads) covered it. A run with
    /// the same inputs that reads the same has the same outcome.
    pub digest: Option<String>,
}

/// Why something failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not known how to reach the cluster, or the cluster does not admit the user.
    #[error("{0}")]
    Access(String),
    /// There is no answer, or none that an API server would give.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// A time limit has passed.
    #[error("{0}")]
    Late(String),
    /// The API server refuses the request.
    #[error("{}", .0.message)]
    Refused(StatusError),
}

impl Error {
    /// Adds the number of attempts.
    fn with_attempts(self, attempts: u32) -> Self {
        match self {
            Self::Access(_) | Self::Late(_) => self,
            Self::Unreachable(why) => Self::Unreachable(format!("{why} ({attempts} attempts)")),
            Self::Refused(refusal) => Self::Refused(StatusError {
                message: format!("{} ({attempts} attempts)", refusal.message),
                ..refusal
            }),
        }
    }

    /// The error about a time limit for what is done in a cluster.
    fn timed_out(time: Duration) -> Self {
        Self::Late(format!("gave up after {} s (--timeout)", time.as_secs()))
    }

    fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is_conflict())
    }

    fn is_absent(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is_absent())
    }
}

/// Brings clusters to their desired state. The outcomes are in the order of `desired_states`; only what keeps every cluster
/// from being reached is an error.
pub fn apply_desired_states(
    access: &Access,
    desired_states: &[DesiredState<'_>],
    decider: &dyn Decider,
    options: &ApplyOptions<'_>,
) -> Result<Vec<ClusterOutcome>, Error> {
    match options.early.and_then(|early| Some((early.runtime.as_ref()?, &early.connections))) {
        Some((runtime, connections)) => Ok(for_each_bounded(desired_states, |desired| {
            apply_to_cluster(runtime, connections, desired, decider, options)
        })),
        None => for_each_cluster(access, desired_states, |runtime, connections, desired| {
            apply_to_cluster(runtime, connections, desired, decider, options)
        }),
    }
}

/// Works on all clusters, some at a time.
fn for_each_cluster<'j, T: Send>(
    access: &Access,
    desired_states: &'j [DesiredState<'j>],
    one: impl Fn(&Runtime, &Arc<Connections>, &'j DesiredState<'j>) -> T + Sync,
) -> Result<Vec<T>, Error> {
    let connections = access.open_connections(desired_states.len())?;
    let runtime = build_runtime()?;
    let all = for_each_bounded(desired_states, |desired| one(&runtime, &connections, desired));
    // A credential plugin may still run although its time is over.
    runtime.shutdown_background();
    Ok(all)
}

fn build_runtime() -> Result<Runtime, Error> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| Error::Access(error.to_string()))
}

/// Works on all clusters, each in a thread. The results are in the order of the clusters.
fn for_each_bounded<'j, T: Send>(
    desired_states: &'j [DesiredState<'j>],
    one: impl Fn(&'j DesiredState<'j>) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..MAX_CONNECTED_CLUSTERS.min(desired_states.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(desired) = desired_states.get(at) else { return done };
                        done.push((at, one(desired)));
                    }
                })
            })
            .collect();
        let joined =
            workers.into_iter().map(|lane| lane.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        joined.flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

fn apply_to_cluster(
    runtime: &Runtime,
    connections: &Arc<Connections>,
    desired: &DesiredState<'_>,
    decider: &dyn Decider,
    options: &ApplyOptions<'_>,
) -> ClusterOutcome {
    let mut outcome = ClusterOutcome {
        cluster: desired.cluster.clone(),
        read: false,
        actions: Vec::new(),
        error: None,
        notes: Vec::new(),
        orphans: None,
        digest: None,
    };
    let mut carried = SendResults::default();
    let worked = runtime.block_on(limit_time(connections.timeout(), async {
        let early = options.early.and_then(|early| early.take_cluster(&desired.cluster));
        let (client, early) = match early {
            Some(early) => {
                let EarlyCluster { client, found } = early.await?;
                (client, Some(found))
            }
            None => (target::connect_member(connections, &desired.cluster).await?, None),
        };
        let client = client.with_dry_run(options.dry_run.is_some());
        let client = client.with_fence(options.fence.as_ref()).with_interrupt(options.interrupt.as_ref());
        let work = reconcile_cluster(&client, desired, decider, options, early, &mut outcome, &mut carried);
        match connections.timeout() {
            Some(_) => work.await,
            None => client.limit_time(CLUSTER_TIMEOUT + options.wait.unwrap_or_default(), work).await,
        }
    }));
    if let Err(error) = worked {
        let why = error.to_string();
        carried.mark_actions(&mut outcome.actions, options.dry_run.is_some(), &why, &why);
        outcome.error = Some(why);
    }
    outcome.actions.sort_by(|a, b| a.object.cmp(&b.object));
    let failed =
        outcome.error.is_some() || outcome.actions.iter().any(|a| a.outcome == ActionOutcome::Failed);
    options.progress.report_progress(
        &desired.cluster,
        if failed { ClusterProgress::Failed } else { ClusterProgress::Done },
    );
    options.progress.note_outcome(&outcome);
    outcome
}

/// Limits the time of some work.
async fn limit_time<T>(
    time: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(time) = time else { return work.await };
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(Error::timed_out(time)))
}

/// Records an Event that says what was done, if anything was.
async fn record_event(
    client: &Client,
    options: &ApplyOptions<'_>,
    carried: &SendResults,
    actions: &[Action],
) {
    let mut counts: BTreeMap<ActionKind, usize> = BTreeMap::new();
    let mut failed = 0;
    for action in actions {
        match action.outcome {
            ActionOutcome::Failed => failed += 1,
            ActionOutcome::Done
                if !matches!(
                    action.action,
                    ActionKind::Unchanged | ActionKind::Conflict | ActionKind::Skip
                ) =>
            {
                *counts.entry(action.action).or_default() += 1;
            }
            _ => {}
        }
    }
    let (true, Some(uid)) =
        (options.dry_run.is_none() && (failed > 0 || !counts.is_empty()), &carried.parent)
    else {
        return;
    };
    let done = counts.iter().map(|(kind, count)| {
        let word = match kind {
            ActionKind::Create => "created",
            ActionKind::Update => "updated",
            ActionKind::Adopt => "adopted",
            _ => "deleted",
        };
        format!("{count} {word}")
    });
    let failures = (failed > 0).then(|| format!("{failed} failed"));
    let message = done.chain(failures).collect::<Vec<_>>().join(", ");
    parent::write_event(client, options, uid, failed > 0, &message).await;
}

/// Reads a cluster, decides about its objects and sends what is decided, again as long as there are conflicts. `early`
/// is what was listed before.
async fn reconcile_cluster(
    client: &Client,
    desired: &DesiredState<'_>,
    decider: &dyn Decider,
    options: &ApplyOptions<'_>,
    mut early: Option<EarlyLists>,
    outcome: &mut ClusterOutcome,
    carried: &mut SendResults,
) -> Result<(), Error> {
    // The objects that the round before did not finish; all objects in the first round.
    let mut open: Option<BTreeSet<ObjectRef>> = None;
    for attempt in 1..=MAX_ATTEMPTS {
        options.progress.report_progress(&desired.cluster, ClusterProgress::Reading);
        let mut state =
            cluster_state::read_cluster_state(client, desired, options, Some(decider), early.take()).await?;
        outcome.read = true;
        outcome.notes = parent::check_ownership(&state, options)?;
        let apply_sets = outcome.notes.len();
        outcome.notes.extend(stored_plan::warn_if_unused(client, &state, options).await?);
        let mut decided = decider.decide_cluster(&desired.cluster, &state);
        for decision in &mut decided.decisions {
            if let Some(why) = state.unreadable.get(&decision.action.object) {
                decision.mark_refused(why);
            }
        }
        let idle = options.wait.is_none() && decided.decisions.iter().all(|decision| decision.send.is_none());
        outcome.digest = state.digest.take().filter(|_| idle && !stored_plan::is_kept_in(&state));
        if !idle {
            state.read_rest(&desired.cluster)?;
        }
        let accepted = if options.dry_run_first {
            dry_run::dry_run(client, desired, &state, &mut decided.decisions, decider, options).await?
        } else {
            BTreeSet::new()
        };
        let ClusterDecisions { decisions, stopped, orphans } =
            decider.finish_decisions(&desired.cluster, &state, decided);
        let news = decisions.iter().map(|decision| &decision.action);
        match &open {
            None => outcome.actions = news.cloned().collect(),
            Some(open) => {
                outcome.actions.retain(|action| !open.contains(&action.object));
                outcome.actions.extend(news.filter(|action| open.contains(&action.object)).cloned());
            }
        }
        outcome.orphans = orphans.map(|objects| Orphans { objects, apply_sets });
        outcome.error = stopped;
        if outcome.error.is_some() || options.dry_run == Some(DryRun::Client) {
            return Ok(());
        }
        let run = ApplyExecution {
            client,
            desired,
            state: &state,
            decisions: &decisions,
            options,
            accepted: &accepted,
        };
        run.carry_out(decider, carried).await?;
        let again = carried.any_late() && attempt < MAX_ATTEMPTS;
        let late = format!("gave up after {attempt} conflicts: another client keeps modifying it");
        carried.mark_actions(&mut outcome.actions, options.dry_run.is_some(), &late, "");
        if !again {
            record_event(client, options, carried, &outcome.actions).await;
            if let (Some(patience), None) = (options.wait, options.dry_run) {
                // The objects are not needed any more, and another cluster may have some in memory.
                let applied = AppliedObjects::new(&decisions, state.kinds);
                drop((decisions, state.live));
                client.release_place();
                let cluster = &desired.cluster;
                let waited =
                    wait::wait_until_healthy(client, cluster, &applied, decider, options, patience).await?;
                for found in waited {
                    let action = outcome.actions.iter_mut().find(|action| action.object == found.object);
                    if let Some(action) = action.filter(|action| action.outcome == ActionOutcome::Done) {
                        (action.outcome, action.error) = (ActionOutcome::Failed, Some(found.why));
                        action.unhealthy = found.may_recover;
                    }
                }
            }
            return Ok(());
        }
        open = Some(carried.retry_objects());
        // A client that keeps changing an object may be done with it a moment later.
        tokio::time::sleep(FIRST_BACKOFF * 2_u32.pow(attempt - 1)).await;
    }
    Ok(())
}
