//! The member clusters in a round: applying to them and looking for drift, one line of the log for each action, and
//! how many clusters are in which state.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use federate_engine::actions::cluster::Prune;
use federate_engine::actions::{self, Action, ActionKind, Actions, Inventory, Outcome};
use federate_kubernetes::ClusterName;
use federate_live::{DryRun, Progress, Step};
use federate_report::actions::errors;
use federate_session::{Purpose, ReconcileOptions, Reconciler, ServerOptions, Session};

use crate::api::{Adopt, Apply, DriftMode};
use crate::backoff::{Backoffs, Cause};
use crate::read::Loaded;
use crate::round::{Environment, PRUNE_LIMIT, RoundError};
use crate::status::{ClusterCounts, FailingCluster, Reason, SHOWN, Status};

/// The clusters of a session.
pub(crate) struct Members<'m> {
    pub(crate) loaded: &'m Loaded,
    pub(crate) env: &'m Environment<'m>,
    pub(crate) session: &'m Session,
}

impl Members<'_> {
    /// Applies everything in all clusters, or only in some. Says how many clusters there are.
    pub(crate) fn apply(
        &self,
        apply: &Apply,
        only: Option<&BTreeSet<String>>,
        backoffs: &mut Backoffs,
        status: &mut Status,
    ) -> Result<String, RoundError> {
        let purpose =
            Purpose::Apply { adopt: apply.adopt.map(Adopt::rule), force: apply.force, replace: false };
        let wait = apply.wait.then(|| self.loaded.sync.spec.timeout());
        let clusters = self.due(backoffs, |name| only.is_none_or(|only| only.contains(name)));
        let actions = self.reconcile(purpose, &clusters, None, wait)?;
        self.log(&actions, "applied");
        self.note(&actions, backoffs, true);
        let modified = status.clusters.filter(|_| only.is_some()).map_or(0, |counts| counts.modified);
        self.end(backoffs, modified, status)?;
        Ok(count(self.session.clusters().len(), "cluster"))
    }

    /// Reports what drifted, or puts it back. Says how many objects stay as they are.
    pub(crate) fn drift(&self, backoffs: &mut Backoffs, status: &mut Status) -> Result<usize, RoundError> {
        let correct = self.loaded.sync.spec.drift.mode == DriftMode::Correct;
        let dry_run = (!correct).then_some(DryRun::Client);
        let purpose = Purpose::Drift { full: false, correct };
        let clusters = self.due(backoffs, |_| true);
        let actions = self.reconcile(purpose, &clusters, dry_run, None)?;
        let stays =
            |action: &&Action| !correct || matches!(action.action, ActionKind::Skip | ActionKind::Conflict);
        let left: Vec<&Action> = actions.actions.iter().filter(stays).collect();
        self.log(&actions, if correct { "put back" } else { "drifted" });
        self.note(&actions, backoffs, false);
        let drifted: BTreeSet<&ClusterName> = left.iter().map(|action| &action.cluster).collect();
        let failing: BTreeSet<&str> = backoffs.causes().map(|(name, _)| name.as_str()).collect();
        let modified = drifted.iter().filter(|name| !failing.contains(name.as_ref())).count();
        self.end(backoffs, modified, status)?;
        Ok(left.len())
    }

    /// Deletes everything.
    pub(crate) fn remove(&self, status: &mut Status) -> Result<(), RoundError> {
        let mut backoffs = Backoffs::default();
        let clusters = self.due(&backoffs, |_| true);
        let actions = self.reconcile(Purpose::Remove, &clusters, None, None)?;
        self.log(&actions, "deleted");
        self.note(&actions, &mut backoffs, false);
        self.end(&backoffs, 0, status)
    }

    /// The clusters that are tried now.
    fn due(&self, backoffs: &Backoffs, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let now = Instant::now();
        let names = self.session.clusters().iter().map(|cluster| cluster.name.to_string());
        names.filter(|name| wanted(name) && backoffs.is_due(name, now)).collect()
    }

    fn reconcile(
        &self,
        purpose: Purpose,
        clusters: &[String],
        dry_run: Option<DryRun>,
        wait: Option<Duration>,
    ) -> Result<Actions, RoundError> {
        if clusters.is_empty() {
            return Ok(Actions::of(Vec::new(), Vec::new()));
        }
        let options = ServerOptions { dry_run, wait, remember: None, check_access: false, progress: &Silent };
        let (namespace, name) = self.loaded.sync.apply_set();
        let inventory = Inventory { namespace, name };
        let apply = self.loaded.sync.spec.apply.as_ref();
        let limit = apply.and_then(|apply| apply.prune_limit).unwrap_or(PRUNE_LIMIT);
        let (limit, prune) = match purpose {
            Purpose::Remove => (100, true),
            _ => (limit, apply.is_some_and(|apply| apply.prune)),
        };
        let reconcile = ReconcileOptions {
            purpose,
            inventory: &inventory,
            prune: prune.then(|| Prune { kinds: Vec::new(), limit: limit.into() }),
            results: false,
            clusters,
            key: &self.env.key,
        };
        let failed = |why: String| RoundError::new(Reason::ReconciliationFailed, why);
        let reached = self.env.world.access(self.loaded, self.session).map_err(failed)?;
        let actions = Reconciler::new(self.session, &reconcile).servers(&reached.access, &options);
        actions.map_err(|error| RoundError::new(Reason::ReconciliationFailed, error.to_string()))
    }

    fn log(&self, actions: &Actions, what: &str) {
        let sync = self.loaded.sync.metadata.full_name();
        for action in actions.actions.iter().filter(|action| action.action != ActionKind::Unchanged) {
            let Action { cluster, object, .. } = action;
            let deed = format!("{:?}", action.action).to_lowercase();
            let fields: Vec<&str> = action.diffs.iter().map(|diff| &*diff.path).collect();
            let fields = federate_kubernetes::finding::list(&fields, 5);
            let managers: BTreeSet<&str> =
                action.diffs.iter().filter_map(|diff| diff.manager.as_deref()).collect();
            let managers = managers.into_iter().collect::<Vec<_>>().join(", ");
            let why = action.error.as_deref().or(action.reason.as_deref());
            if action.outcome == Outcome::Failed {
                tracing::error!(sync, %cluster, %object, action = deed, why, "failed");
            } else {
                tracing::info!(sync, %cluster, %object, action = deed, fields, managers, why, "{what}");
            }
        }
        for cluster in &actions.clusters {
            if let Some(error) = &cluster.error {
                tracing::error!(sync, cluster = %cluster.name, "{error}");
            }
        }
    }

    /// Notes which clusters fail. What was left as it is does, where `everything` was to be done.
    fn note(&self, actions: &Actions, backoffs: &mut Backoffs, everything: bool) {
        let lines = errors(actions, everything);
        let spec = &self.loaded.sync.spec;
        for cluster in &actions.clusters {
            let prefix = format!("{}: ", cluster.name);
            let message = lines.iter().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned);
            let cause = |message| Cause { failed: cluster.outcome == Outcome::Failed, message };
            backoffs.note(&cluster.name, message.map(cause), (spec.retry_interval(), spec.interval.0));
        }
        backoffs.keep(&self.session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect());
    }

    /// Counts the clusters, and fails if any of them does.
    fn end(&self, backoffs: &Backoffs, modified: usize, status: &mut Status) -> Result<(), RoundError> {
        let failing: Vec<(&String, &Cause)> = backoffs.causes().collect();
        let failed = failing.iter().filter(|(_, cause)| cause.failed).count();
        let total = self.session.clusters().len();
        status.clusters = Some(ClusterCounts {
            ready: total.saturating_sub(failing.len() + modified),
            modified,
            out_of_sync: failing.len() - failed,
            err_applied: failed,
        });
        let shown = failing.iter().take(SHOWN);
        let shown = shown
            .map(|(name, cause)| FailingCluster { name: (*name).clone(), message: cause.message.clone() });
        status.failing = shown.collect();
        let Some((cluster, Cause { message, .. })) = failing.first() else { return Ok(()) };
        let more = match failing.len() - 1 {
            0 => String::new(),
            more => format!(" (and {} more)", count(more, "cluster")),
        };
        Err(RoundError::new(Reason::ReconciliationFailed, format!("{cluster}: {message}{more}")))
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl Adopt {
    fn rule(self) -> actions::Adopt {
        match self {
            Self::Never => actions::Adopt::Never,
            Self::IfNoDiff => actions::Adopt::IfNoDiff,
            Self::IfNoRestart => actions::Adopt::IfNoRestart,
            Self::Always => actions::Adopt::Always,
        }
    }
}

/// Shows nothing.
struct Silent;

impl Progress for Silent {
    fn at(&self, _: &ClusterName, _: Step) {}
}
