//! The steps of `apply` and `drift` that reach member clusters.

use super::progress;
use crate::cli::CommandError;
use crate::cli::members::{MemberRun, ServerAccess, print_lines};
use crate::cli::progress as progress_line;
use crate::cli::settings::RepoArgs;
use federate_live::EarlyReads;
use federate_reconcile::{Actions, ApplySet};
use federate_session::{Reconciler, ServerOptions, Session, Surveyed};

impl MemberRun<'_> {
    /// Begins to read the clusters, where nothing else is read first. What keeps them from being read is reported after
    /// errors in the repo.
    pub(in crate::cli) fn read_early(
        &self,
        servers: &ServerAccess<'_>,
        session: &Session,
        apply_set: &ApplySet,
    ) -> Option<EarlyReads> {
        let reads = self.moved.is_none() && !servers.check_access;
        reads.then(|| {
            session.read_early(&servers.access.build_access(session), apply_set, &self.args.clusters).ok()
        })?
    }
}

impl ServerAccess<'_> {
    /// Reads what the plan is made from and only the clusters know; with `remember`, also the plan that they store.
    pub(in crate::cli) fn survey_clusters(
        &self,
        args: &RepoArgs,
        session: &mut Session,
        apply_set: &ApplySet,
        remember: bool,
    ) -> Result<Surveyed, CommandError> {
        if self.check_access {
            return Ok(Surveyed::default());
        }
        progress_line::set_phase("reading the clusters");
        let access = self.access.build_access(session);
        let surveyed = session
            .survey_clusters(&access, apply_set, remember, &args.clusters)
            .map_err(|error| CommandError::Failed(args.without_access(error.to_string())))?;
        print_lines("warning", &surveyed.warnings);
        if !args.names_previous()
            && let Some(plan) = surveyed.newest_plan().map_err(CommandError::Failed)?
        {
            session.set_previous(plan);
        }
        Ok(surveyed)
    }

    pub(in crate::cli) fn apply_or_compare(
        &self,
        session: &Session,
        reconciler: &Reconciler<'_>,
        remember: Option<&Surveyed>,
        without_previous: bool,
        early: Option<&EarlyReads>,
    ) -> Result<Actions, CommandError> {
        progress_line::stop_line();
        let access = self.access.build_access(session);
        if self.check_access {
            return reconciler.check_rights(&access).map_err(|error| CommandError::Failed(error.to_string()));
        }
        let lines = progress::ProgressLines::new(self.quiet);
        let plan = remember.map(|surveyed| surveyed.next_plan(session));
        let options = ServerOptions::new(&lines)
            .with_dry_run(self.dry_run)
            .with_wait(self.wait)
            .with_plan_to_store(plan.as_ref())
            .with_without_previous(without_previous)
            .with_early(early);
        let reconciled = reconciler.run_on_servers(&access, &options);
        lines.clear_lines();
        reconciled.map_err(|error| CommandError::Failed(error.to_string()))
    }
}
