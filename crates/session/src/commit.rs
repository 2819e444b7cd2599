//! Commits the rendering of a session to branches of a git repository.

use std::collections::BTreeSet;

use git2::{Oid, Repository};
use serde::Serialize;

use federate_dialect::{HUB, Plan};
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};
use federate_engine::{any_error, previous};
use federate_publish::OutputTree;
use federate_publish::branch::{
    self, BranchContent, BranchLayout, BranchTip, BranchUpdate, BuiltBranch, DryCommit, FileLayout,
    GitRemote, Identity, NOTES_REF, PushResult, RemoteBranches,
};
use federate_publish::tree::PathCollision;
use federate_source::git::{self, GitLocation};

use crate::attempts::{MAX_ATTEMPTS, wait_before_attempt};
use crate::left_out::{ClusterOutput, LeftOutCluster, check_left_out};
use crate::provenance::{Provenance, UnknownCommit, with_trailers};
use crate::{Destination, Session};

/// Why nothing was committed. No branch has moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The session could not be opened.
    #[error(transparent)]
    Open(E),
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] git::Error),
    /// The rendering cannot be laid out as files.
    #[error(transparent)]
    Layout(#[from] Box<PathCollision>),
    /// A branch cannot be read or written.
    #[error(transparent)]
    Branch(#[from] branch::Error),
    /// The layout needs the commit that is rendered.
    #[error(transparent)]
    UnknownCommit(#[from] UnknownCommit),
    /// A cluster receives nothing any more, and is not among those that are committed.
    #[error(transparent)]
    LeftOut(#[from] LeftOutCluster),
    /// A branch moved during every attempt.
    #[error("{0}; gave up after {MAX_ATTEMPTS} attempts")]
    GaveUp(branch::Error),
}

/// Where and how to commit a rendering.
#[non_exhaustive]
pub struct CommitRequest<'c> {
    /// The repository.
    pub location: &'c GitLocation,
    /// The branches.
    pub layout: &'c BranchLayout,
    /// The remote to push to. If a branch has moved there, the commit is created again on top of it.
    pub remote: Option<&'c GitRemote>,
    /// The address of the repository that is rendered, for metadata; that of its remote `origin` by default.
    pub source: Option<&'c str>,
    /// The message that replaces the default one; trailers are appended.
    pub message: Option<&'c str>,
    /// The author as `Name <address>`; git's by default.
    pub author: Option<&'c str>,
    /// The clusters whose branches are written; empty for all.
    pub clusters: &'c [String],
    /// Whether to skip objects with errors instead of committing nothing.
    pub keep_going: bool,
    /// The largest share of the objects on the branches, in total and of each cluster, that may be deleted.
    pub prune_limit: PruneLimit,
}

impl<'c> CommitRequest<'c> {
    /// A commit of all clusters that is not pushed, with the default message and git's author.
    pub fn new(location: &'c GitLocation, layout: &'c BranchLayout, prune_limit: PruneLimit) -> Self {
        Self {
            location,
            layout,
            remote: None,
            source: None,
            message: None,
            author: None,
            clusters: &[],
            keep_going: false,
            prune_limit,
        }
    }

    /// With another [`remote`](Self::remote).
    #[must_use]
    pub fn with_remote(self, remote: Option<&'c GitRemote>) -> Self {
        Self { remote, ..self }
    }

    /// With another [`source`](Self::source).
    #[must_use]
    pub fn with_source(self, source: Option<&'c str>) -> Self {
        Self { source, ..self }
    }

    /// With another [`message`](Self::message).
    #[must_use]
    pub fn with_message(self, message: Option<&'c str>) -> Self {
        Self { message, ..self }
    }

    /// With another [`author`](Self::author).
    #[must_use]
    pub fn with_author(self, author: Option<&'c str>) -> Self {
        Self { author, ..self }
    }

    /// With another [`clusters`](Self::clusters).
    #[must_use]
    pub fn with_clusters(self, clusters: &'c [String]) -> Self {
        Self { clusters, ..self }
    }

    /// With another [`keep_going`](Self::keep_going).
    #[must_use]
    pub fn with_keep_going(self, keep_going: bool) -> Self {
        Self { keep_going, ..self }
    }
}

/// A session that was rendered, and what became of it.
pub struct CommittedSession {
    /// The session that was rendered.
    pub session: Session,
    /// What became of it.
    pub outcome: CommitOutcome,
}

/// What became of a rendering. Only [`Done`](Self::Done) has changed anything.
#[derive(Debug)]
pub enum CommitOutcome {
    /// Every branch holds it. The result for each branch.
    Done(Vec<CommittedBranch>),
    /// The repo has errors.
    Errors,
    /// More would be deleted from the branches than the limit allows.
    Refused(ExcessiveDeletions),
}

/// The result for one branch.
#[derive(Clone, Debug, Serialize)]
pub struct CommittedBranch {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The new commit; `null` if there was nothing to commit.
    pub commit: Option<String>,
    /// The previous commit of the branch.
    pub base: Option<String>,
    /// Whether it was pushed.
    pub pushed: bool,
    /// Whether a note was written that the branch holds what the commit of the source renders; only the layout of hydrators has
    /// notes.
    pub noted: bool,
    /// New files.
    pub created: usize,
    /// Changed files.
    pub updated: usize,
    /// Deleted files.
    pub removed: usize,
    /// The number of unchanged files.
    pub unchanged: usize,
    /// The numbers as text.
    #[serde(skip)]
    pub summary: String,
}

impl CommitRequest<'_> {
    /// Commits what `open` renders from the plan on the branch, which is the previous plan. If a branch
    /// moves in the meantime, calls `retrying` and starts over.
    pub fn commit_rendering<E>(
        &self,
        mut open: impl FnMut(Option<&Plan>) -> Result<(Session, Provenance), E>,
        mut retrying: impl FnMut(&branch::Error),
    ) -> Result<CommittedSession, Error<E>> {
        let repository = self.location.open_repository()?;
        let mut attempt = 1;
        loop {
            match self.try_commit(&repository, &mut open)? {
                Ok(committed) => return Ok(committed),
                Err(error) if attempt == MAX_ATTEMPTS => return Err(Error::GaveUp(error)),
                Err(error) => retrying(&error),
            }
            wait_before_attempt(attempt);
            attempt += 1;
        }
    }

    /// The branches and notes of the remote, fetched; none without a remote.
    fn fetch_branches(&self, repository: &Repository) -> Result<RemoteBranches, branch::Error> {
        let Some(remote) = self.remote else { return Ok(RemoteBranches::default()) };
        let pattern = self.layout.to_glob();
        let mut others: Vec<String> =
            self.layout.find_origin(&pattern).map(str::to_owned).into_iter().collect();
        if self.layout.files() == FileLayout::Hydrator {
            others.push(NOTES_REF.to_owned());
        }
        remote.fetch_branches(repository, &pattern, &others)
    }

    /// The commit on which the next one of a branch is based: its own, or that of the branch from which it starts.
    fn find_tip(
        &self,
        repository: &Repository,
        remote_branches: &RemoteBranches,
        branch: &str,
    ) -> Result<Option<BranchTip>, branch::Error> {
        let find_commit = |branch: &str| match self.remote {
            Some(remote) => remote.find_base(repository, branch, remote_branches.tips.get(branch).copied()),
            None => branch::find_tip(repository, branch),
        };
        if let Some(commit) = find_commit(branch)? {
            return Ok(Some(BranchTip { commit, exists: true }));
        }
        let origin = self.layout.find_origin(branch).map(find_commit).transpose()?.flatten();
        Ok(origin.map(|commit| BranchTip { commit, exists: false }))
    }

    /// One attempt; the inner error says that a branch moved in the meantime.
    fn try_commit<E>(
        &self,
        repository: &Repository,
        open: &mut impl FnMut(Option<&Plan>) -> Result<(Session, Provenance), E>,
    ) -> Result<Result<CommittedSession, branch::Error>, Error<E>> {
        let remote_branches = self.fetch_branches(repository)?;
        branch::not_checked_out(repository, &self.layout.host_branch())?;
        self.check_names(repository, &remote_branches, [self.layout.host_branch()])?;
        let home = self
            .layout
            .read_home(repository, |branch| self.find_tip(repository, &remote_branches, branch))?;
        let (session, provenance) = open(home.previous_plan()).map_err(Error::Open)?;
        let source = match self.layout.files() {
            FileLayout::Hydrator => {
                Some(provenance.read_dry_commit(repository, self.location, self.source)?)
            }
            FileLayout::Plain => None,
        };
        if any_error(&session.findings_for(Destination::Files)) && !self.keep_going {
            return Ok(Ok(CommittedSession { session, outcome: CommitOutcome::Errors }));
        }
        if let Some(before) = home.previous_plan() {
            check_left_out(session.plan(), before, self.clusters, ClusterOutput::Branch)?;
        }
        let clusters = self.affected_clusters(session.plan(), &home);
        if self.layout.is_spread() {
            let branches = clusters.iter().map(|cluster| self.layout.branch_of_cluster(cluster));
            self.check_names(repository, &remote_branches, branches.collect::<Result<Vec<_>, _>>()?)?;
        }
        let bases = self.layout.read_branches(repository, home, &clusters, |branch| {
            self.find_tip(repository, &remote_branches, branch)
        })?;
        let manifests = session
            .render()
            .with_retained(|object, cluster| bases.read_previous_manifest(repository, object, cluster));
        let plan = previous::serialize_plan(session.plan());
        let trailers = provenance.format_trailers(&plan);
        let tree = OutputTree::new(plan, manifests)?;
        let built = bases.write_trees(repository, self.layout, &tree, session.plan(), source.as_ref())?;
        let deletions: Deletions = built.iter().flat_map(|built| built.summary.cluster_deletions()).collect();
        if let Some(excess) = deletions.check_limit(session.prune_limit(self.prune_limit), |_| true) {
            return Ok(Ok(CommittedSession { session, outcome: CommitOutcome::Refused(excess) }));
        }
        match self.carry_out(repository, &remote_branches, built, source.as_ref(), |built| {
            match self.message {
                Some(message) => with_trailers(message, &trailers),
                None => with_trailers(&provenance.format_message(&built.summary), &trailers),
            }
        }) {
            Ok(branches) => Ok(Ok(CommittedSession { session, outcome: CommitOutcome::Done(branches) })),
            Err(error @ (branch::Error::Moved(_) | branch::Error::Locked(_))) => Ok(Err(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses branches that cannot be stored together with one that exists here or on the remote.
    fn check_names(
        &self,
        repository: &Repository,
        theirs: &RemoteBranches,
        branches: impl IntoIterator<Item = String>,
    ) -> Result<(), branch::Error> {
        let branches: Vec<String> = branches.into_iter().collect();
        if let Some(remote) = self.remote {
            remote.check_names(theirs, branches.iter().map(String::as_str))?;
        }
        branch::check_local_names(repository, branches.iter().map(String::as_str))
    }

    /// The clusters that receive objects now or did before.
    fn affected_clusters(&self, plan: &Plan, home: &BranchContent) -> BTreeSet<String> {
        let mut names = plan.affected_clusters();
        names.extend(home.previous_plan().into_iter().flat_map(Plan::affected_clusters));
        let receiving = names
            .into_iter()
            .map(AsRef::<str>::as_ref)
            .filter(|name| self.clusters.is_empty() || self.clusters.iter().any(|cluster| cluster == name));
        receiving.chain([HUB]).map(str::to_owned).collect()
    }

    /// Creates the commits and notes, pushes them, and moves the branches.
    fn carry_out(
        &self,
        repository: &Repository,
        theirs: &RemoteBranches,
        built: Vec<BuiltBranch>,
        source: Option<&DryCommit>,
        message: impl Fn(&BuiltBranch) -> String,
    ) -> Result<Vec<CommittedBranch>, branch::Error> {
        for built in built.iter().filter(|built| built.tree.is_some()) {
            branch::not_checked_out(repository, &built.branch)?;
        }
        let commits = source.is_some() || built.iter().any(|built| built.tree.is_some());
        let identity = commits.then(|| Identity::read_identity(repository, self.author)).transpose()?;
        let (mut branches, mut pushes, mut moves) = (Vec::new(), Vec::new(), Vec::new());
        let mut hydrated = Vec::new();
        for built in built {
            let commit = match (built.tree, &identity) {
                (Some(tree), Some(identity)) => {
                    let message = message(&built);
                    let commit =
                        branch::CommitContent { tree, parent: built.base, identity, message: &message };
                    Some(branch::create_commit(repository, &commit)?)
                }
                _ => None,
            };
            let tip_here = branch::find_tip(repository, &built.branch)?;
            if let Some(to) = commit.or(built.base) {
                hydrated.push(to);
                let remotely = theirs.tips.get(&built.branch).copied();
                if self.remote.is_some() && remotely != Some(to) {
                    pushes.push(built.to_update(remotely, to));
                }
                // Without a remote, the branch is where it was read; with a remote, the local branch may be
                // behind.
                let from = if self.remote.is_some() { tip_here } else { built.current };
                if from != Some(to) {
                    moves.push(built.to_update(from, to));
                }
            }
            branches.push(CommittedBranch::from_built(&built, commit));
        }
        let notes = match (source, &identity) {
            (Some(source), Some(identity)) => Some(NoteRequest { commits: &hydrated, source, identity }),
            _ => None,
        };
        let noted = if let Some(remote) = self.remote {
            self.push_updates(repository, remote, theirs, &pushes, notes.as_ref())?
        } else {
            let before = branch::find_tip(repository, NOTES_REF)?;
            let noted = notes.map(|notes| notes.write_notes(repository, before)).transpose()?.flatten();
            NotesTip { commit: noted.or(before), is_new: noted.is_some() }
        };
        for branch in &mut branches {
            branch.pushed = pushes.iter().any(|push| push.branch == branch.branch);
            branch.noted = noted.is_new;
        }
        if let Some(to) = noted.commit.filter(|_| source.is_some()) {
            // The notes of the remote are the right ones here, too; a run that was killed may have pushed them.
            let from = branch::find_tip(repository, NOTES_REF)?;
            // Notes that only this repository has are not given up.
            let keeps_notes = from.map_or(Ok(true), |from| repository.graph_descendant_of(to, from));
            if from != Some(to) && keeps_notes.unwrap_or(false) {
                moves.push(BranchUpdate { branch: NOTES_REF.to_owned(), from, to });
            }
        }
        branch::update_branches(repository, &moves, "federate commit")?;
        Ok(branches)
    }

    /// Moves the branches of the remote together with its notes. Others add notes all the time, so that notes that have moved are
    /// written again on top; a branch that has moved ends the attempt.
    fn push_updates(
        &self,
        repository: &Repository,
        remote: &GitRemote,
        theirs: &RemoteBranches,
        pushes: &[BranchUpdate],
        notes: Option<&NoteRequest<'_>>,
    ) -> Result<NotesTip, branch::Error> {
        let mut before = theirs.notes;
        let mut attempt = 1;
        loop {
            let noted = notes.map(|notes| notes.write_notes(repository, before)).transpose()?.flatten();
            let note = noted.map(|to| BranchUpdate { branch: NOTES_REF.to_owned(), from: before, to });
            let updates: Vec<BranchUpdate> = pushes.iter().cloned().chain(note).collect();
            if updates.is_empty() || remote.push_updates(repository, &updates)? == PushResult::Done {
                return Ok(NotesTip { commit: noted.or(before), is_new: noted.is_some() });
            }
            if noted.is_none() || attempt == MAX_ATTEMPTS {
                return Err(branch::Error::Moved(self.layout.pattern().to_owned()));
            }
            wait_before_attempt(attempt);
            attempt += 1;
            let now = self.fetch_branches(repository)?;
            if now.tips != theirs.tips {
                return Err(branch::Error::Moved(self.layout.pattern().to_owned()));
            }
            before = now.notes;
        }
    }
}

/// The notes after an attempt.
struct NotesTip {
    commit: Option<Oid>,
    is_new: bool,
}

/// Notes to write: that `commits` hold what `source` renders.
struct NoteRequest<'n> {
    commits: &'n [Oid],
    source: &'n DryCommit,
    identity: &'n Identity,
}

impl NoteRequest<'_> {
    fn write_notes(
        &self,
        repository: &Repository,
        before: Option<Oid>,
    ) -> Result<Option<Oid>, branch::Error> {
        branch::write_notes(repository, before, self.commits, &self.source.id, self.identity)
    }
}

impl CommittedBranch {
    fn from_built(built: &BuiltBranch, commit: Option<Oid>) -> Self {
        let summary = &built.summary;
        Self {
            branch: built.branch.clone(),
            commit: commit.map(|id| id.to_string()),
            base: built.base.map(|id| id.to_string()),
            pushed: false,
            noted: false,
            created: summary.count_created(),
            updated: summary.count_updated(),
            removed: summary.count_removed(),
            unchanged: summary.count_unchanged(),
            summary: summary.to_string(),
        }
    }
}
