//! The rendering of a revision, and its commit to a branch. [`guard`] refuses what has errors or deletes too much, and [`push`]
//! pushes to a registry instead.

pub(crate) mod changes;
pub(crate) mod guard;
mod push;
pub(crate) mod sessions;

use std::collections::BTreeSet;

use federate_dialect::Plan;
use federate_engine::deletions::PruneLimit;
use federate_kubernetes::ObjectRef;
use federate_publish::branch::GitRemote;
use federate_reconcile::RepoRef;
use federate_session::{CommitOutcome, CommittedSession, Destination, Session, commit};
use federate_source::git::GitLocation;
use federate_sync_api::CommitSpec;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::stage::SyncStage;
use federate_sync_api::status::{ArtifactStatus, BranchStatus, SyncReason};
use jiff::Timestamp;

use crate::member_clusters::selection::selected_names;
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::changes::RenderedObjects;
use crate::plan::guard::{describe_excess, prune_limit};
use crate::plan::sessions::{Checkout, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::source::SourceAddress;
use crate::source::poll::{branch_error, credentials_error};
use crate::state::SyncState;
use crate::sync_files;

/// A revision that was rendered, passed all checks, and was committed or pushed.
pub(crate) struct RenderedRevision {
    pub(crate) session: Session,
    /// Where the branches are that were committed to.
    pub(crate) branches: Vec<BranchStatus>,
    /// The plan that was pushed.
    pub(crate) artifact: Option<ArtifactStatus>,
    /// The previous plan.
    pub(crate) previous: Option<Plan>,
    /// The objects that it changes in clusters that have everything else; `None` for all.
    pub(crate) changed: Option<BTreeSet<ObjectRef>>,
}

impl Reconciliation<'_> {
    /// Renders a revision, checks it, and commits or pushes it. No cluster is touched.
    pub(crate) fn render_and_publish(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        source_state: &SourceState,
    ) -> Result<RenderedRevision, ReconcileError> {
        let SourceState { checkout, name, .. } = source_state;
        runtime.tracker.clear_failures();
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.set_progressing(&format!("carrying out {name}"), Timestamp::now());
        if self.spec.push.is_some() {
            // If this push stops halfway, some clusters have what it pushed, and the plan in the registry does not say so.
            state.record.accepted.iter_mut().for_each(|accepted| accepted.artifact = None);
        }
        state.save_record()?;
        let previous = state.read_plan()?;
        self.must_lead()?;
        runtime.rendered_before = None;
        let (mut branches, mut artifact) = (Vec::new(), None);
        let session = if let Some(commit) = &self.spec.commit {
            let (session, committed) = self.commit_rendering(commit, runtime, checkout, previous.as_ref())?;
            branches = committed;
            session
        } else if let Some(push) = &self.spec.push {
            let has_pushed = state.record.status.artifact.is_some();
            let (session, pushed) =
                self.push_rendering(push, runtime, source_state, previous.as_ref(), has_pushed)?;
            artifact = Some(pushed);
            session
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            self.render_session(runtime, checkout, previous.as_ref(), limit, destination)?
        };
        if self.spec.clusters.is_some() && selected_names(self.spec, &session).next().is_none() {
            runtime.put_session(checkout, session);
            return Err(ReconcileError::new(
                SyncReason::BuildFailed,
                "`spec.clusters` selects no cluster of the inventory",
            ));
        }
        let repo = self.find_repo(checkout);
        let changed =
            self.find_changed_objects(runtime.rendered_before.take(), &session, repo.as_ref(), &state.record);
        Ok(RenderedRevision { session, branches, artifact, previous, changed })
    }

    /// Renders and checks a revision that waits for a window, so that what is wrong with it is known before one opens.
    pub(crate) fn check_revision(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        SourceState { checkout, name, .. }: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        Self::note_waiting(state, name);
        let accepted = state.read_plan()?;
        let (limit, destination) = (self.apply_limit(), self.destination());
        let session = self.render_session(runtime, checkout, accepted.as_ref(), limit, destination)?;
        runtime.put_session(checkout, session);
        Ok(SyncOutcome::for_progress(format!("{name} {}", self.describe_wait())))
    }

    /// The session over what was carried out last.
    pub(crate) fn accepted_session(
        &self,
        state: &SyncState<'_>,
        runtime: &mut SyncRuntime,
        checkout: &Checkout,
    ) -> Result<Session, ReconcileError> {
        let session = if let Some(session) = runtime.take_accepted(checkout) {
            session
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            self.render_session(runtime, checkout, state.read_plan()?.as_ref(), limit, destination)?
        };
        runtime.tracker.retain_clusters(&selected_names(self.spec, &session).collect());
        Ok(session)
    }

    /// Renders. Returns an error if the repo has errors, or if too much would go.
    pub(crate) fn render_session(
        &self,
        runtime: &mut SyncRuntime,
        checkout: &Checkout,
        accepted: Option<&Plan>,
        limit: Option<PruneLimit>,
        destination: Destination,
    ) -> Result<Session, ReconcileError> {
        let session = runtime.take_session(checkout, accepted);
        session.render();
        match self.find_refusal(&session, accepted, limit, destination) {
            None => Ok(session),
            Some(stop) => {
                // The next revision may differ only a little from this one.
                runtime.put_session(checkout, session);
                Err(stop)
            }
        }
    }

    /// Commits the rendering. The previous plan is that on the branch, or else that of the revision that was `accepted`.
    pub(crate) fn commit_rendering(
        &self,
        commit: &CommitSpec,
        runtime: &mut SyncRuntime,
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
                Some(GitRemote::new(address.clone()))
            }
            SourceAddress::Folder(_) => commit.push.unwrap_or(false).then(|| GitRemote::new("origin")),
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
                    self.render_session(runtime, checkout, plan, Some(limit), self.destination())?;
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
                runtime.put_session(checkout, session);
                return Err(ReconcileError::new(SyncReason::PruneFailed, describe_excess(&excess)));
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

    /// The objects that a revision changes in clusters that are all at the revision before; `None` if that is to be
    /// found out by reading them.
    fn find_changed_objects(
        &self,
        rendered: Option<RenderedObjects>,
        session: &Session,
        repo: Option<&RepoRef>,
        record: &SyncRecord,
    ) -> Option<BTreeSet<ObjectRef>> {
        let former =
            record.accepted.as_ref().filter(|_| record.stage == SyncStage::Idle)?.repository.as_ref();
        // What others change meanwhile is found by comparisons.
        let rest = self.looks_for_drift();
        let same = former == repo.map(RepoRef::to_string).as_ref();
        rendered.filter(|_| rest && same)?.changed_objects(&RenderedObjects::from_session(session))
    }
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
