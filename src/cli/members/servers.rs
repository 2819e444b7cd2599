//! The steps of `apply` and `drift` that reach member clusters.

use super::progress;
use super::{DryRun, Members, Servers, print_lines};
use crate::cli::Fault;
use crate::cli::progress as progress_line;
use federate_engine::actions::{Actions, Inventory};
use federate_live::EarlyReads;
use federate_session::{Reconciler, ServerOptions, Session, Surveyed};

impl Members<'_> {
    /// Reads what the plan is made from and only the clusters know.
    pub(super) fn survey(
        &self,
        servers: &Servers<'_>,
        session: &mut Session,
        inventory: &Inventory,
    ) -> Result<Surveyed, Fault> {
        if servers.check_access {
            return Ok(Surveyed::default());
        }
        progress_line::phase("reading the clusters");
        let access = servers.access.access(session);
        let surveyed = session
            .survey(&access, inventory, (self.remember, &self.args.clusters))
            .map_err(|error| Fault::Failed(self.args.without_access(error.to_string())))?;
        print_lines("warning", &surveyed.warnings);
        if !self.args.names_memory()
            && let Some(plan) = surveyed.plan().map_err(Fault::Failed)?
        {
            session.remember(plan);
        }
        Ok(surveyed)
    }

    /// Begins to read the clusters, where nothing else is read first. What keeps them from being read is reported after
    /// errors in the repo.
    pub(super) fn read_early(
        &self,
        servers: &Servers<'_>,
        session: &Session,
        inventory: &Inventory,
    ) -> Option<EarlyReads> {
        let reads = self.moved.is_none() && !servers.check_access;
        reads.then(|| {
            session.read_early(&servers.access.access(session), inventory, &self.args.clusters).ok()
        })?
    }
}

impl Servers<'_> {
    pub(super) fn reconcile(
        &self,
        session: &Session,
        reconciler: &Reconciler<'_>,
        (remember, without_memory): (Option<&Surveyed>, bool),
        early: Option<&EarlyReads>,
    ) -> Result<Actions, Fault> {
        progress_line::stop();
        let lines = progress::ProgressLines::new(self.quiet);
        let options = ServerOptions {
            dry_run: self.dry_run.map(|dry_run| match dry_run {
                DryRun::Client => federate_live::DryRun::Client,
                DryRun::Server => federate_live::DryRun::Server,
            }),
            wait: self.wait,
            interrupt: None,
            remember,
            without_memory,
            check_access: self.check_access,
            fence: None,
            contents: None,
            early,
            progress: &lines,
        };
        let reconciled = reconciler.servers(&self.access.access(session), &options);
        lines.clear();
        reconciled.map_err(|error| Fault::Failed(error.to_string()))
    }
}
