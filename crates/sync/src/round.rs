//! One round: poll → fetch → verify → render → guard → commit → remember → apply, or look for drift where nothing
//! has changed.
//!
//! Whatever keeps a revision from being carried out comes before the first branch or cluster is touched. The
//! memory is kept before clusters are: a round that is killed decides the same again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use federate_dialect::Plan;
use federate_engine::change::DigestKey;
use federate_live::Access;
use federate_publish::branch::{self, Remote as Pushed};
use federate_report::findings;
use federate_session::{Committed, Session, commit};
use federate_source::git::{Place, Revision};
use tempfile::NamedTempFile;

use crate::api::{Commit, DriftMode, Spec};
use crate::credentials::{Credentials, Keys, private_file};
use crate::guard;
use crate::members::Members;
use crate::opened::{Opened, SessionCache};
pub use crate::outcome::Outcome;
pub(crate) use crate::outcome::{RoundError, plain};
use crate::read::Loaded;
use crate::source::{Address, Advertised, Error as SourceError, Remote, folder, revision};
use crate::state::{Accepted, SyncState};
use crate::status::{Branch, Reason};

/// The most that may be taken away where nobody says otherwise, in percent.
pub(crate) const PRUNE_LIMIT: u8 = 30;

/// How a Sync's clusters are reached, with files that must be there for that long.
pub struct MemberAccess {
    /// How.
    pub access: Access,
    /// The files.
    pub kept: Vec<NamedTempFile>,
}

/// What rounds need of the world.
pub trait RoundContext: std::marker::Sync {
    /// How a Sync's clusters are reached.
    fn access(&self, loaded: &Loaded, session: &Session) -> Result<MemberAccess, String>;

    /// The credentials of a Sync's source.
    fn credentials(&self, _: &Loaded) -> Result<Credentials, String> {
        Ok(Credentials::default())
    }

    /// The keys that may sign revisions of a Sync's source, where it names them itself.
    fn signers(&self, _: &Loaded) -> Result<Option<Keys>, String> {
        Ok(None)
    }

    /// Whether no other process can be at work on the Syncs at this moment.
    fn leads(&self) -> bool {
        true
    }
}

/// What rounds need besides a Sync and its state.
pub struct Environment<'e> {
    /// The world outside.
    pub world: &'e dyn RoundContext,
    /// The keys that may sign; those of git's configuration by default.
    pub allowed_signers: Option<PathBuf>,
    /// The key of the digests that stand for values of Secrets.
    pub key: DigestKey,
}

/// Does one round, and keeps what became of it.
pub fn run(
    loaded: &Loaded,
    state: &mut SyncState<'_>,
    cache: &mut SessionCache,
    env: &Environment<'_>,
) -> Outcome {
    let ended = Round { loaded, spec: &loaded.sync.spec, env }.work(state, cache);
    let outcome = ended.unwrap_or_else(|stop| Outcome {
        reason: stop.reason,
        message: plain(&stop.message),
        drifted: false,
    });
    end(state, outcome)
}

/// Deletes what a Sync manages in member clusters.
pub(crate) fn remove(loaded: &Loaded, state: &mut SyncState<'_>, env: &Environment<'_>) -> Outcome {
    let round = Round { loaded, spec: &loaded.sync.spec, env };
    let outcome = round.remove(state, &mut SessionCache::default()).unwrap_or_else(|stop| {
        let message = format!("{}; `deletionPolicy: Orphan` leaves the objects where they are", stop.message);
        Outcome { reason: stop.reason, message: plain(&message), drifted: false }
    });
    end(state, outcome)
}

/// Puts a round off until another Sync is ready.
pub fn waits(state: &mut SyncState<'_>, on: &str) -> Outcome {
    let message = format!("{on} is not ready");
    end(state, Outcome { reason: Reason::DependencyNotReady, message, drifted: false })
}

fn end(state: &mut SyncState<'_>, outcome: Outcome) -> Outcome {
    let now = Timestamp::now();
    let status = &mut state.record.status;
    status.end(outcome.reason, &outcome.message, now);
    status.record(outcome.reason, &outcome.message, now);
    match state.save() {
        Ok(()) => outcome,
        Err(error) => Outcome::failed(&error),
    }
}

/// A source as it is now.
struct Read {
    opened: Opened,
    /// What tells whether it is another than before.
    tip: String,
    /// The branches that are committed to, where they are known.
    branches: Option<BTreeMap<String, String>>,
    /// The revision, as it is shown.
    name: String,
}

struct Round<'r> {
    loaded: &'r Loaded,
    spec: &'r Spec,
    env: &'r Environment<'r>,
}

impl Round<'_> {
    fn work(&self, state: &mut SyncState<'_>, sessions: &mut SessionCache) -> Result<Outcome, RoundError> {
        let read = match &self.loaded.address {
            Address::Git(address) => self.revision(address, state)?,
            Address::Folder(path) => Some(self.folder(path, sessions)?),
        };
        let Some(Read { opened, tip, branches, name }) = read else { return Ok(unchanged(state)) };
        let accepted = state.record.accepted.as_ref();
        let same = accepted.is_some_and(|accepted| accepted.is_at(&tip, branches.as_ref()));
        state.record.status.last_attempted_revision = Some(name.clone());
        if same {
            return self.drift(state, sessions, &opened);
        }
        let accepted = accepted.filter(|accepted| accepted.is_for(&tip, branches.as_ref()));
        if let Some(pending) = accepted.and_then(|accepted| accepted.pending.clone()) {
            return self.retry(state, sessions, &opened, &pending, &name);
        }
        sessions.backoffs.forget();
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.begin(&format!("carrying out {name}"), Timestamp::now());
        state.save()?;
        self.carry_out(state, sessions, &opened, &tip, &name)
    }

    /// Deletes what the Sync manages in all clusters of its source's inventory.
    fn remove(&self, state: &mut SyncState<'_>, sessions: &mut SessionCache) -> Result<Outcome, RoundError> {
        // Nothing has changed for this round.
        state.record.accepted = None;
        let read = match &self.loaded.address {
            Address::Git(address) => self.revision(address, state)?,
            Address::Folder(path) => Some(self.folder(path, sessions)?),
        };
        let Some(Read { opened, .. }) = read else { return Ok(unchanged(state)) };
        let session = sessions.take(&opened, None);
        self.must_lead()?;
        if let Some(stop) = Self::refuses(&session, None, None) {
            return Err(stop);
        }
        let members = Members { loaded: self.loaded, env: self.env, session: &session };
        members.remove(&mut state.record.status)?;
        let message = "deleted everything that the Sync managed".to_owned();
        Ok(Outcome { reason: Reason::ReconciliationSucceeded, message, drifted: false })
    }

    /// The revision that the source is at; `None` where nothing has changed and nobody asks about the clusters.
    fn revision(&self, address: &str, state: &mut SyncState<'_>) -> Result<Option<Read>, RoundError> {
        let cache = state.cache();
        let credentials = self.env.world.credentials(self.loaded).map_err(unauthorized)?;
        let remote = Remote {
            address,
            source: &self.spec.source,
            cache: &cache,
            patience: self.spec.timeout(),
            variables: credentials.variables(),
        };
        let layout =
            self.spec.commit.as_ref().map(Commit::layout).transpose().map_err(|error| invalid(&error))?;
        let Advertised { tip, branches } =
            remote.poll(&layout.map(|layout| layout.glob()).unwrap_or_default())?;
        let accepted = state.record.accepted.as_ref();
        if accepted.is_some_and(|a| a.is_at(&tip, Some(&branches))) && !self.looks_for_drift() {
            return Ok(None);
        }
        let signers = self.signers()?;
        let signers = signers.as_ref().map(NamedTempFile::path).or(self.env.allowed_signers.as_deref());
        let fetched = remote.fetch(&tip, signers)?;
        let commit = fetched.resolved.commit;
        let opened = Revision::open(fetched.place, &fetched.resolved).map_err(SourceError::from)?;
        let name = revision(&self.spec.source, commit);
        if let Some(before) = fetched.before.filter(|before| *before != commit) {
            let before = revision(&self.spec.source, before);
            if fetched.rewritten {
                tracing::warn!(sync = self.name(), before, revision = name, "the history was rewritten");
            }
            state.record.status.rewritten = fetched.rewritten.then_some(before);
        }
        Ok(Some(Read { opened: Opened::Revision(Box::new(opened)), tip, branches: Some(branches), name }))
    }

    /// The keys that the Sync itself names, in a file.
    fn signers(&self) -> Result<Option<NamedTempFile>, RoundError> {
        let Some(keys) = self.env.world.signers(self.loaded).map_err(unauthorized)? else { return Ok(None) };
        let text = keys.values().fold(Vec::new(), |mut text, lines| {
            text.extend_from_slice(lines);
            text.push(b'\n');
            text
        });
        private_file(&text).map(Some).map_err(|error| unauthorized(error.to_string()))
    }

    /// A folder as it is.
    fn folder(&self, path: &Path, sessions: &mut SessionCache) -> Result<Read, RoundError> {
        let (opened, tip) = Opened::folder(&path.join(folder(&self.spec.source.path)), sessions)?;
        let name = format!("sha256:{tip}");
        Ok(Read { opened, tip, branches: None, name })
    }

    /// Another process may have taken over while this one stood still.
    fn must_lead(&self) -> Result<(), RoundError> {
        if self.env.world.leads() {
            return Ok(());
        }
        Err(RoundError::new(Reason::ReconciliationFailed, "another process may lead: nothing is written"))
    }

    fn name(&self) -> String {
        self.loaded.sync.metadata.full_name()
    }

    fn looks_for_drift(&self) -> bool {
        self.spec.drift.mode != DriftMode::Ignore && (self.spec.apply.is_some() || self.spec.commit.is_none())
    }

    /// Brings branches and clusters to a revision.
    fn carry_out(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
        tip: &str,
        name: &str,
    ) -> Result<Outcome, RoundError> {
        let kept = state.memory()?;
        self.must_lead()?;
        let (session, branches) = match &self.spec.commit {
            Some(commit) => self.commit(commit, sessions, opened, kept.as_ref())?,
            None => (Self::prepare(sessions, opened, kept.as_ref(), self.apply_limit())?, Vec::new()),
        };
        state.remember(session.plan())?;
        let unschedulable =
            session.plan().placements.iter().filter(|row| row.unschedulable.is_some()).count();
        state.record.status.unschedulable = unschedulable;
        state.record.status.branches.clone_from(&branches);
        let branches = branches.into_iter().map(|branch| (branch.branch, branch.commit)).collect();
        let accepted = Accepted { tip: tip.to_owned(), branches, done: false, pending: None };
        state.record.accepted = Some(accepted);
        state.save()?;
        let mut said =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        let applied = self.spec.apply.as_ref().map(|apply| {
            let members = Members { loaded: self.loaded, env: self.env, session: &session };
            members.apply(apply, None, &mut sessions.backoffs, &mut state.record.status)
        });
        sessions.put(opened, session, true);
        if applied.is_some() {
            Self::note_pending(state, sessions);
        }
        if let Some(clusters) = applied.transpose()? {
            let also = said.map_or_else(
                || format!("applied {name} to {clusters}"),
                |said| format!("{said}, applied it to {clusters}"),
            );
            said = Some(also);
        }
        if let Some(accepted) = &mut state.record.accepted {
            (accepted.done, accepted.pending) = (true, None);
        }
        state.record.status.last_applied_revision = Some(name.to_owned());
        let message = said.unwrap_or_else(|| format!("read {name}"));
        Ok(Outcome { reason: Reason::ReconciliationSucceeded, message, drifted: false })
    }

    /// Notes which clusters are still to be brought to the revision.
    fn note_pending(state: &mut SyncState<'_>, sessions: &SessionCache) {
        let failing: BTreeSet<String> = sessions.backoffs.causes().map(|(name, _)| name.clone()).collect();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.pending = (!failing.is_empty()).then_some(failing);
        }
    }

    /// Applies to those clusters that have failed and whose turn it is; the others are only compared, at the interval.
    fn retry(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
        pending: &BTreeSet<String>,
        name: &str,
    ) -> Result<Outcome, RoundError> {
        let session = match sessions.accepted(opened) {
            Some(session) => session,
            None => Self::prepare(sessions, opened, state.memory()?.as_ref(), self.apply_limit())?,
        };
        self.must_lead()?;
        let members = Members { loaded: self.loaded, env: self.env, session: &session };
        let (backoffs, status) = (&mut sessions.backoffs, &mut state.record.status);
        let mut ended = match &self.spec.apply {
            Some(apply) => members.apply(apply, Some(pending), backoffs, status),
            None => Ok(String::new()),
        };
        if self.looks_for_drift() && backoffs.compares(self.spec.interval.0) {
            ended = ended.and(members.drift(backoffs, status).map(|_| String::new()));
        }
        sessions.put(opened, session, true);
        Self::note_pending(state, sessions);
        ended?;
        if let Some(accepted) = &mut state.record.accepted {
            accepted.done = true;
        }
        state.record.status.last_applied_revision = Some(name.to_owned());
        Ok(Outcome::done(&format!("every cluster is at {name}")))
    }

    /// Looks for drift, where that is asked for.
    fn drift(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
    ) -> Result<Outcome, RoundError> {
        if !self.looks_for_drift() {
            return Ok(unchanged(state));
        }
        let session = match sessions.accepted(opened) {
            Some(session) => session,
            None => Self::prepare(sessions, opened, state.memory()?.as_ref(), self.apply_limit())?,
        };
        let members = Members { loaded: self.loaded, env: self.env, session: &session };
        sessions.backoffs.compares(std::time::Duration::ZERO);
        let drifted = members.drift(&mut sessions.backoffs, &mut state.record.status);
        sessions.put(opened, session, true);
        Ok(Outcome { drifted: drifted? > 0, ..unchanged(state) })
    }

    /// Renders, and refuses what is in error or may be a mistake.
    fn prepare(
        sessions: &mut SessionCache,
        opened: &Opened,
        kept: Option<&Plan>,
        limit: Option<u8>,
    ) -> Result<Session, RoundError> {
        let session = sessions.take(opened, kept);
        match Self::refuses(&session, kept, limit) {
            None => Ok(session),
            Some(stop) => {
                // The next revision differs from this one in little.
                sessions.put(opened, session, false);
                Err(stop)
            }
        }
    }

    /// Why what is rendered is neither committed nor applied.
    fn refuses(session: &Session, kept: Option<&Plan>, limit: Option<u8>) -> Option<RoundError> {
        let errors: Vec<_> =
            session.findings().into_iter().filter(federate_kubernetes::Finding::is_error).collect();
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

    /// The most that may go from clusters; `None` where nothing is deleted there.
    fn apply_limit(&self) -> Option<u8> {
        let apply = self.spec.apply.as_ref().filter(|apply| apply.prune);
        apply.map(|apply| apply.prune_limit.unwrap_or(PRUNE_LIMIT))
    }

    /// Commits what is rendered, given the memory that the branch holds.
    fn commit(
        &self,
        commit: &Commit,
        sessions: &mut SessionCache,
        opened: &Opened,
        kept: Option<&Plan>,
    ) -> Result<(Session, Vec<Branch>), RoundError> {
        let layout = commit.layout().map_err(|error| invalid(&error))?;
        let place = opened.place().ok_or_else(|| {
            let message = "the folder is in no git repository, so that there is no branch to commit to";
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
        let remote = remote.map(|remote| remote.with(credentials.variables(), self.spec.timeout()));
        let own = commit.prune_limit.unwrap_or(PRUNE_LIMIT);
        let limit = self.apply_limit().map_or(own, |limit| limit.min(own));
        let run = commit::Commit {
            place,
            layout: &layout,
            remote: remote.as_ref(),
            message: commit.message.as_deref(),
            author: None,
            clusters: &[],
            keep_going: false,
        };
        let open = |on_branch: Option<&Plan>| {
            let session = Self::prepare(sessions, opened, on_branch.or(kept), Some(limit))?;
            Ok((session, opened.provenance(place)))
        };
        let retrying = |error: &branch::Error| tracing::info!(sync = self.name(), %error, "committing again");
        let Committed { session, branches } = run.run(open, retrying).map_err(|error| match error {
            commit::Error::Open(stop) => stop,
            error => RoundError::new(Reason::ReconciliationFailed, error.to_string()),
        })?;
        let branches = branches.unwrap_or_default();
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

/// What the Sync names to get at its source is not there.
fn unauthorized(why: String) -> RoundError {
    RoundError::new(Reason::GitOperationFailed, why)
}

fn invalid(error: &branch::Error) -> RoundError {
    RoundError::new(Reason::BuildFailed, error.to_string())
}

/// What is there already is all that is wanted.
fn unchanged(state: &SyncState<'_>) -> Outcome {
    let at = state.record.status.last_applied_revision.as_deref().unwrap_or("the source");
    let message = state.record.status.condition("Ready").filter(|ready| ready.status == "True");
    let message = message.map_or_else(|| format!("everything is at {at}"), |ready| ready.message.clone());
    Outcome { reason: Reason::ReconciliationSucceeded, message, drifted: false }
}

/// Removes the branches of the cache: those of the remote are what counts.
fn forget_branches(place: &Place) -> Result<(), RoundError> {
    let forget = || {
        let repository = git2::Repository::open_bare(&place.git_dir)?;
        for branch in repository.references_glob("refs/heads/*")? {
            branch?.delete()?;
        }
        Ok(())
    };
    forget().map_err(|error: git2::Error| RoundError::new(Reason::GitOperationFailed, error.message()))
}
