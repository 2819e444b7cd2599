//! What callers of a run pass, and what it returns: the options, the progress and the outcomes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::client::{Fence, Interrupt};
use super::early_reads::EarlyReads;
use super::stored_plan::StoredPlan;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::{Action, ApplySet, DryRunStrategy, Orphans, RepoRef};

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

/// How the servers of clusters are dealt with.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions<'s> {
    /// Whether writes are made, and where a dry run is decided.
    pub dry_run: DryRunStrategy,
    /// How long to wait until every object is healthy; `None` not to wait.
    pub wait: Option<Duration>,
    /// What ends the wait for health, and for a server that has stopped answering, early; `None` if nothing does.
    pub interrupt: Option<Interrupt>,
    /// The plan that the clusters are to store; `None` where they are to store none.
    pub plan_to_store: Option<&'s StoredPlan>,
    /// Whether the plan was decided without a previous plan.
    pub without_previous: bool,
    /// What is checked before each write.
    pub fence: Option<Fence>,
    /// What was begun to be read before it was known what is desired.
    pub early: Option<&'s EarlyReads>,
    /// What is known to be in the `ApplySet`, besides what its parent says. It counts where the `ApplySet` ends, or has no parent.
    pub contents: Option<&'s ApplySetContents>,
    /// Receives the progress of each cluster.
    pub progress: &'s dyn ProgressReporter,
}

impl<'s> ServerOptions<'s> {
    /// A run that makes writes, waits for nothing, and leaves no plan in the clusters.
    pub fn new(progress: &'s dyn ProgressReporter) -> Self {
        Self {
            dry_run: DryRunStrategy::None,
            wait: None,
            interrupt: None,
            plan_to_store: None,
            without_previous: false,
            fence: None,
            early: None,
            contents: None,
            progress,
        }
    }

    /// With another [`dry_run`](Self::dry_run).
    #[must_use]
    pub fn with_dry_run(self, dry_run: DryRunStrategy) -> Self {
        Self { dry_run, ..self }
    }

    /// With another [`wait`](Self::wait).
    #[must_use]
    pub fn with_wait(self, wait: Option<Duration>) -> Self {
        Self { wait, ..self }
    }

    /// With another [`interrupt`](Self::interrupt).
    #[must_use]
    pub fn with_interrupt(self, interrupt: Option<Interrupt>) -> Self {
        Self { interrupt, ..self }
    }

    /// With another [`plan_to_store`](Self::plan_to_store).
    #[must_use]
    pub fn with_plan_to_store(self, plan_to_store: Option<&'s StoredPlan>) -> Self {
        Self { plan_to_store, ..self }
    }

    /// With another [`without_previous`](Self::without_previous).
    #[must_use]
    pub fn with_without_previous(self, without_previous: bool) -> Self {
        Self { without_previous, ..self }
    }

    /// With another [`fence`](Self::fence).
    #[must_use]
    pub fn with_fence(self, fence: Option<Fence>) -> Self {
        Self { fence, ..self }
    }

    /// With another [`early`](Self::early).
    #[must_use]
    pub fn with_early(self, early: Option<&'s EarlyReads>) -> Self {
        Self { early, ..self }
    }

    /// With another [`contents`](Self::contents).
    #[must_use]
    pub fn with_contents(self, contents: Option<&'s ApplySetContents>) -> Self {
        Self { contents, ..self }
    }
}

/// How the changes of a run are made.
#[derive(Clone, Copy)]
pub struct ApplyOptions<'h> {
    /// How the servers are dealt with.
    pub server: &'h ServerOptions<'h>,
    /// The `ApplySet` of the managed objects.
    pub apply_set: &'h ApplySet,
    /// The repo that the objects come from, where it is known.
    pub repo: Option<&'h RepoRef>,
    /// The `ApplySet` whose members are adopted. Where it is the same as `apply_set`, the set itself moves to this
    /// repo.
    pub moved_from: Option<&'h ApplySet>,
    /// Whether only the desired objects are read, although the `ApplySet` has other members.
    pub only_objects: bool,
    /// The objects that SOPS encrypted: nothing that an API server says about them is shown.
    pub encrypted: &'h BTreeSet<ObjectRef>,
    /// Whether the `ApplySet` ends: its parent is deleted when it has no members any more.
    pub ends: bool,
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
}
