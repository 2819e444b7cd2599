//! The second part of a round: rendering, the checks that stop it, and the commit to a branch.

pub(crate) mod changes;
pub(crate) mod guard;
pub(crate) mod sessions;

use std::collections::BTreeSet;

use federate_dialect::Plan;
use federate_engine::deletions::PruneLimit;
use federate_publish::branch::{self, Remote as Pushed};
use federate_report::findings;
use federate_session::{CommitOutcome, Committed, Destination, Session, commit};
use federate_source::git::GitLocation;
use federate_sync_api::Commit;
use federate_sync_api::status::{Branch, Reason};

use crate::plan::sessions::{Opened, SessionCache};
use crate::read;
use crate::round::{Round, RoundError};
use crate::source::Address;
use crate::source::poll::{invalid, unauthorized};

impl Round<'_> {
    /// Renders. Returns an error if the repo has errors, or if too much would go.
    pub(crate) fn prepare(
        sessions: &mut SessionCache,
        opened: &Opened,
        kept: Option<&Plan>,
        limit: Option<PruneLimit>,
        destination: Destination,
    ) -> Result<Session, RoundError> {
        let session = sessions.take(opened, kept);
        match Self::refuses(&session, kept, limit, destination) {
            None => Ok(session),
            Some(stop) => {
                // The next revision may differ only a little from this one.
                sessions.put(opened, session);
                Err(stop)
            }
        }
    }

    /// Why the rendering is neither committed nor applied.
    pub(crate) fn refuses(
        session: &Session,
        kept: Option<&Plan>,
        limit: Option<PruneLimit>,
        destination: Destination,
    ) -> Option<RoundError> {
        let errors: Vec<_> = session
            .findings_for(destination)
            .into_iter()
            .filter(federate_kubernetes::Finding::is_error)
            .collect();
        if let Some(first) = findings::rows(session.repo(), &errors).into_iter().next() {
            let place = first.place().map(|place| place + ": ").unwrap_or_default();
            let more = match errors.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more errors)"),
            };
            return Some(RoundError::new(Reason::BuildFailed, format!("{place}{}{more}", first.message)));
        }
        let clusters: BTreeSet<&str> =
            session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let why = guard::refuses(kept?, session.plan(), &clusters, limit)?;
        Some(RoundError::new(Reason::PruneFailed, why))
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

    /// Commits the rendering. The memory is the plan on the branch, or else `kept`.
    pub(crate) fn commit(
        &self,
        commit: &Commit,
        sessions: &mut SessionCache,
        opened: &Opened,
        kept: Option<&Plan>,
    ) -> Result<(Session, Vec<Branch>), RoundError> {
        let layout = read::layout(commit).map_err(|error| invalid(&error))?;
        let place = opened.place().ok_or_else(|| {
            let message = "the folder is not in a git repository, so there is no branch to commit to";
            RoundError::new(Reason::BuildFailed, message)
        })?;
        let remote = match &self.loaded.address {
            Address::Git(address) => {
                forget_branches(place)?;
                Some(Pushed::new(address.clone()))
            }
            Address::Folder(_) => commit.push.unwrap_or(false).then(|| Pushed::new("origin")),
        };
        let credentials = self.env.world.credentials(self.loaded).map_err(unauthorized)?;
        let remote =
            remote.map(|remote| remote.with_connection(credentials.variables(), self.spec.timeout()));
        let own = prune_limit(commit.prune_limit);
        let limit = self.apply_limit().map_or(own, |limit| limit.min(own));
        let run = commit::Commit {
            place,
            layout: &layout,
            remote: remote.as_ref(),
            message: commit.message.as_deref(),
            author: None,
            clusters: &[],
            keep_going: false,
            prune_limit: limit,
        };
        let open = |on_branch: Option<&Plan>| {
            let session =
                Self::prepare(sessions, opened, on_branch.or(kept), Some(limit), self.destination())?;
            Ok((session, opened.provenance(place)))
        };
        let retrying = |error: &branch::Error| tracing::info!(sync = self.name(), %error, "committing again");
        let Committed { session, outcome } = run.run(open, retrying).map_err(|error| match error {
            commit::Error::Open(stop) => stop,
            error => RoundError::new(Reason::ReconciliationFailed, error.to_string()),
        })?;
        let branches = match outcome {
            CommitOutcome::Done(branches) => branches,
            CommitOutcome::Errors => Vec::new(),
            CommitOutcome::Refused(excess) => {
                // The next revision may differ only a little from this one.
                sessions.put(opened, session);
                return Err(RoundError::new(Reason::PruneFailed, guard::refusal(&excess)));
            }
        };
        if remote.is_some() && branches.iter().any(|branch| branch.commit.is_some()) {
            self.env.tally.git("push");
        }
        for branch in branches.iter().filter(|branch| branch.commit.is_some()) {
            let (name, commit) = (&branch.branch, branch.commit.as_deref());
            tracing::info!(sync = self.name(), branch = name, commit, changes = branch.summary, "committed");
        }
        let at = |branch: commit::Branch| {
            Some(Branch { commit: branch.commit.or(branch.base)?, branch: branch.branch })
        };
        Ok((session, branches.into_iter().filter_map(at).collect()))
    }
}

/// The limit of a Sync, or the default one.
fn prune_limit(percent: Option<u8>) -> PruneLimit {
    percent.map_or_else(PruneLimit::default, PruneLimit::new)
}

/// Removes the branches of the cache: only those of the remote count.
fn forget_branches(place: &GitLocation) -> Result<(), RoundError> {
    let forget = || {
        let repository = git2::Repository::open_bare(&place.git_dir)?;
        for branch in repository.references_glob("refs/heads/*")? {
            branch?.delete()?;
        }
        Ok(())
    };
    forget().map_err(|error: git2::Error| RoundError::new(Reason::GitOperationFailed, error.message()))
}
