//! The second part of a round: rendering, the checks that stop it, and the commit to a branch. [`push`] pushes to a registry
//! instead.

pub(crate) mod changes;
pub(crate) mod guard;
mod push;
pub(crate) mod sessions;

use std::collections::BTreeSet;

use federate_dialect::Plan;
use federate_engine::deletions::PruneLimit;
use federate_publish::branch::GitRemote as Pushed;
use federate_report::findings;
use federate_session::{CommitOutcome, CommittedSession, Destination, Session, commit};
use federate_source::git::GitLocation;
use federate_sync_api::CommitSpec;
use federate_sync_api::status::{BranchStatus, SyncReason};

use crate::plan::sessions::{Checkout, LoopState};
use crate::reconciliation::{ReconcileError, Reconciliation};
use crate::source::SourceAddress;
use crate::source::poll::{branch_error, credentials_error};
use crate::sync_files;

impl Reconciliation<'_> {
    /// Renders. Returns an error if the repo has errors, or if too much would go.
    pub(crate) fn render_session(
        loop_state: &mut LoopState,
        checkout: &Checkout,
        accepted: Option<&Plan>,
        limit: Option<PruneLimit>,
        destination: Destination,
    ) -> Result<Session, ReconcileError> {
        let session = loop_state.take_session(checkout, accepted);
        match Self::find_refusal(&session, accepted, limit, destination) {
            None => Ok(session),
            Some(stop) => {
                // The next revision may differ only a little from this one.
                loop_state.put_session(checkout, session);
                Err(stop)
            }
        }
    }

    /// Why the rendering is neither committed nor applied.
    pub(crate) fn find_refusal(
        session: &Session,
        accepted: Option<&Plan>,
        limit: Option<PruneLimit>,
        destination: Destination,
    ) -> Option<ReconcileError> {
        let errors: Vec<_> = session
            .findings_for(destination)
            .into_iter()
            .filter(federate_kubernetes::Finding::is_error)
            .collect();
        if let Some(first) = findings::build_rows(session.repo(), &errors).into_iter().next() {
            let place = first.format_place().map(|place| place + ": ").unwrap_or_default();
            let more = match errors.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more errors)"),
            };
            return Some(ReconcileError::new(
                SyncReason::BuildFailed,
                format!("{place}{}{more}", first.message),
            ));
        }
        let clusters: BTreeSet<&str> =
            session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let why = guard::refuse_deletions(accepted?, session.plan(), &clusters, limit)?;
        Some(ReconcileError::new(SyncReason::PruneFailed, why))
    }

    /// Where the rendering goes.
    pub(crate) fn destination(&self) -> Destination {
        if self.spec.apply.is_some() { Destination::Clusters } else { Destination::Files }
    }

    /// The most that may go from clusters; `None` if nothing is deleted there.
    pub(crate) fn apply_limit(&self) -> Option<PruneLimit> {
        let apply = self.spec.apply.as_ref().filter(|apply| apply.prune);
        apply.map(|apply| prune_limit(apply.prune_limit))
    }

    /// Commits the rendering. The previous plan is that on the branch, or else that of the revision that was `accepted`.
    pub(crate) fn commit_rendering(
        &self,
        commit: &CommitSpec,
        loop_state: &mut LoopState,
        checkout: &Checkout,
        accepted: Option<&Plan>,
    ) -> Result<(Session, Vec<BranchStatus>), ReconcileError> {
        let layout = sync_files::parse_layout(commit).map_err(|error| branch_error(&error))?;
        let location = checkout.location().ok_or_else(|| {
            let message = "the folder is not in a git repository, so there is no branch to commit to";
            ReconcileError::new(SyncReason::BuildFailed, message)
        })?;
        let remote = match &self.valid_sync.address {
            SourceAddress::Git(address) => {
                forget_branches(location)?;
                Some(Pushed::new(address.clone()))
            }
            SourceAddress::Folder(_) => commit.push.unwrap_or(false).then(|| Pushed::new("origin")),
        };
        let credentials = self.env.services.source_credentials(self.valid_sync).map_err(credentials_error)?;
        let remote =
            remote.map(|remote| remote.with_connection(credentials.env_variables(), self.spec.timeout()));
        let own = prune_limit(commit.prune_limit);
        let limit = self.apply_limit().map_or(own, |limit| limit.min(own));
        let address = match &self.valid_sync.address {
            SourceAddress::Git(address) => Some(address.as_str()),
            SourceAddress::Folder(_) => None,
        };
        let run = commit::CommitRequest::new(location, &layout, limit)
            .with_remote(remote.as_ref())
            .with_source(address)
            .with_message(commit.message.as_deref());
        let committed = run.commit_rendering(
            |on_branch: Option<&Plan>| {
                let plan = on_branch.or(accepted);
                let session =
                    Self::render_session(loop_state, checkout, plan, Some(limit), self.destination())?;
                Ok((session, checkout.read_provenance(location)))
            },
            |error| tracing::info!(sync = self.name(), %error, "committing again"),
        );
        let CommittedSession { session, outcome } = committed.map_err(|error| match error {
            commit::Error::Open(stop) => stop,
            error => ReconcileError::failed(error.to_string()),
        })?;
        let branches = match outcome {
            CommitOutcome::Done(branches) => branches,
            CommitOutcome::Errors => Vec::new(),
            CommitOutcome::Refused(excess) => {
                // The next revision may differ only a little from this one.
                loop_state.put_session(checkout, session);
                return Err(ReconcileError::new(SyncReason::PruneFailed, guard::describe_excess(&excess)));
            }
        };
        if remote.is_some() && branches.iter().any(|branch| branch.commit.is_some()) {
            self.env.counters.count_git_command("push");
        }
        for branch in branches.iter().filter(|branch| branch.commit.is_some()) {
            let (name, commit) = (&branch.branch, branch.commit.as_deref());
            tracing::info!(sync = self.name(), branch = name, commit, changes = branch.summary, "committed");
        }
        let branches = branches.into_iter().filter_map(|branch| {
            Some(BranchStatus { commit: branch.commit.or(branch.base)?, branch: branch.branch })
        });
        Ok((session, branches.collect()))
    }
}

/// The limit of a Sync, or the default one.
pub(crate) fn prune_limit(percent: Option<u8>) -> PruneLimit {
    percent.map_or_else(PruneLimit::default, PruneLimit::new)
}

/// Removes the branches of the cache: only those of the remote count.
fn forget_branches(location: &GitLocation) -> Result<(), ReconcileError> {
    delete_branches(location)
        .map_err(|error| ReconcileError::new(SyncReason::GitOperationFailed, error.message()))
}

fn delete_branches(location: &GitLocation) -> Result<(), git2::Error> {
    let repository = git2::Repository::open_bare(&location.git_dir)?;
    for branch in repository.references_glob("refs/heads/*")? {
        branch?.delete()?;
    }
    Ok(())
}
