//! The member clusters in a round: applying to them and looking for drift, one line of the log for each action, and
//! how many clusters are in which state.

use std::collections::{BTreeMap, BTreeSet};

use federate_engine::actions::cluster::Prune;
use federate_engine::actions::{self, Action, Actions, Deed, Inventory, Outcome};
use federate_kubernetes::ClusterName;
use federate_live::{DryRun, Progress, Step};
use federate_report::actions::errors;
use federate_session::{Purpose, ReconcileOptions, Reconciler, ServerOptions, Session};

use crate::api::{Adopt, Apply, DriftMode};
use crate::read::Loaded;
use crate::round::{Environment, PRUNE_LIMIT, Stop};
use crate::status::{ClusterCounts, FailingCluster, Reason, SHOWN, Status};

/// The clusters of a session.
pub(crate) struct Members<'m> {
    pub(crate) loaded: &'m Loaded,
    pub(crate) env: &'m Environment<'m>,
    pub(crate) session: &'m Session,
}

impl Members<'_> {
    /// Applies everything. Says how many clusters there are.
    pub(crate) fn apply(&self, apply: &Apply, status: &mut Status) -> Result<String, Stop> {
        let purpose =
            Purpose::Apply { adopt: apply.adopt.map(Adopt::rule), force: apply.force, replace: false };
        let wait = apply.wait.then(|| self.loaded.sync.spec.timeout());
        let actions = self.reconcile(
            purpose,
            ServerOptions { dry_run: None, wait, check_access: false, progress: &Silent },
        )?;
        self.log(&actions, "applied");
        self.end(&actions, &BTreeSet::new(), status, true)?;
        Ok(count(self.session.clusters().len(), "cluster"))
    }

    /// Reports what drifted, or puts it back. Says how many objects stay as they are.
    pub(crate) fn drift(&self, status: &mut Status) -> Result<usize, Stop> {
        let correct = self.loaded.sync.spec.drift.mode == DriftMode::Correct;
        let dry_run = (!correct).then_some(DryRun::Client);
        let purpose = Purpose::Drift { full: false, correct };
        let actions = self.reconcile(
            purpose,
            ServerOptions { dry_run, wait: None, check_access: false, progress: &Silent },
        )?;
        let stays = |action: &&Action| !correct || matches!(action.action, Deed::Skip | Deed::Conflict);
        let left: Vec<&Action> = actions.actions.iter().filter(stays).collect();
        self.log(&actions, if correct { "put back" } else { "drifted" });
        let drifted = left.iter().map(|action| &action.cluster).collect();
        self.end(&actions, &drifted, status, false)?;
        Ok(left.len())
    }

    fn reconcile(&self, purpose: Purpose, options: ServerOptions<'_>) -> Result<Actions, Stop> {
        let (namespace, name) = self.loaded.sync.apply_set();
        let inventory = Inventory { namespace, name };
        let apply = self.loaded.sync.spec.apply.as_ref();
        let limit = apply.and_then(|apply| apply.prune_limit).unwrap_or(PRUNE_LIMIT);
        let prune = apply.is_some_and(|apply| apply.prune);
        let reconcile = ReconcileOptions {
            purpose,
            inventory: &inventory,
            prune: prune.then(|| Prune { kinds: Vec::new(), limit: limit.into() }),
            results: false,
            clusters: &[],
            key: &self.env.key,
        };
        let access = (self.env.access)(self.session);
        let actions = Reconciler::new(self.session, &reconcile).servers(&access, &options);
        actions.map_err(|error| Stop::new(Reason::ReconciliationFailed, error))
    }

    fn log(&self, actions: &Actions, what: &str) {
        let sync = self.loaded.sync.metadata.full_name();
        for action in actions.actions.iter().filter(|action| action.action != Deed::Unchanged) {
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

    /// Counts the clusters, and fails where anything went wrong. What was left as it is did, where `everything` was
    /// to be done.
    fn end(
        &self,
        actions: &Actions,
        drifted: &BTreeSet<&ClusterName>,
        status: &mut Status,
        everything: bool,
    ) -> Result<(), Stop> {
        let lines = errors(actions, everything);
        let mut failing: BTreeMap<&ClusterName, String> = BTreeMap::new();
        let mut counts = ClusterCounts::default();
        for cluster in &actions.clusters {
            let name = &cluster.name;
            let prefix = format!("{name}: ");
            if let Some(first) = lines.iter().find_map(|line| line.strip_prefix(&prefix)) {
                failing.insert(name, first.to_owned());
            }
            *match (failing.contains_key(name), cluster.outcome) {
                (true, Outcome::Failed) => &mut counts.err_applied,
                (true, _) => &mut counts.out_of_sync,
                (false, _) if drifted.contains(name) => &mut counts.modified,
                (false, _) => &mut counts.ready,
            } += 1;
        }
        status.clusters = Some(counts);
        let shown = failing.iter().take(SHOWN);
        status.failing = shown
            .map(|(name, message)| FailingCluster { name: name.to_string(), message: message.clone() })
            .collect();
        let Some((cluster, message)) = failing.first_key_value() else { return Ok(()) };
        let more = match failing.len() - 1 {
            0 => String::new(),
            more => format!(" (and {} more)", count(more, "cluster")),
        };
        Err(Stop::new(Reason::ReconciliationFailed, format!("{cluster}: {message}{more}")))
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
