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
use federate_source::git::{Place, Revision, verify};

use crate::api::{Commit, DriftMode, Spec};
use crate::guard;
use crate::members::Members;
use crate::opened::{Opened, SessionCache};
use crate::read::Loaded;
use crate::source::{Address, Advertised, Error as SourceError, Remote, folder, revision};
use crate::state::{Accepted, Error as StateError, SyncState};
use crate::status::{Branch, Reason};

/// The most that may be taken away where nobody says otherwise, in percent.
pub(crate) const PRUNE_LIMIT: u8 = 30;

/// What rounds need of the world.
pub struct Environment<'e> {
    /// How a session's clusters are reached.
    pub access: &'e (dyn Fn(&Session) -> Access + std::marker::Sync),
    /// The keys that may sign; those of git's configuration by default.
    pub allowed_signers: Option<PathBuf>,
    /// The key of the digests that stand for values of Secrets.
    pub key: DigestKey,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// In a word.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
    /// Whether clusters differ from what is rendered, and are left so.
    pub drifted: bool,
}

impl Outcome {
    /// A round that ended before it could do anything.
    pub(crate) fn failed(reason: Reason, error: &dyn std::error::Error) -> Self {
        Self { reason, message: plain(&error.to_string()), drifted: false }
    }

    /// Whether all went well.
    pub fn is_ready(&self) -> bool {
        self.reason == Reason::ReconciliationSucceeded
    }
}

/// Why a round ends before its end.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Stop {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Stop {
    pub(crate) fn new(reason: Reason, message: impl ToString) -> Self {
        Self { reason, message: message.to_string() }
    }
}

impl From<StateError> for Stop {
    fn from(error: StateError) -> Self {
        Self::new(Reason::StateFailed, error)
    }
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        let reason = match &error {
            SourceError::Refused(verify::Refused::Program(_)) => Reason::GitOperationFailed,
            SourceError::Refused(_) => Reason::VerificationError,
            _ => Reason::GitOperationFailed,
        };
        Self::new(reason, error)
    }
}

/// Does one round, and keeps what became of it.
pub fn run(
    loaded: &Loaded,
    state: &mut SyncState,
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

/// Puts a round off until another Sync is ready.
pub fn waits(state: &mut SyncState, on: &str) -> Outcome {
    let message = format!("{on} is not ready");
    end(state, Outcome { reason: Reason::DependencyNotReady, message, drifted: false })
}

fn end(state: &mut SyncState, outcome: Outcome) -> Outcome {
    let now = Timestamp::now();
    let status = &mut state.record.status;
    status.end(outcome.reason, &outcome.message, now);
    status.record(outcome.reason, &outcome.message, now);
    match state.save() {
        Ok(()) => outcome,
        Err(error) => Outcome::failed(Reason::StateFailed, &error),
    }
}

/// On one line, and without what commands a terminal.
fn plain(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
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
    fn work(&self, state: &mut SyncState, sessions: &mut SessionCache) -> Result<Outcome, Stop> {
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
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.begin(&format!("carrying out {name}"), Timestamp::now());
        state.save()?;
        self.carry_out(state, sessions, &opened, &tip, &name)
    }

    /// The revision that the source is at; `None` where nothing has changed and nobody asks about the clusters.
    fn revision(&self, address: &str, state: &mut SyncState) -> Result<Option<Read>, Stop> {
        let cache = state.cache();
        let remote =
            Remote { address, source: &self.spec.source, cache: &cache, patience: self.spec.timeout() };
        let layout = self.spec.commit.as_ref().map(Commit::layout).transpose().map_err(invalid)?;
        let Advertised { tip, branches } =
            remote.poll(&layout.map(|layout| layout.glob()).unwrap_or_default())?;
        let accepted = state.record.accepted.as_ref();
        if accepted.is_some_and(|a| a.is_at(&tip, Some(&branches))) && !self.looks_for_drift() {
            return Ok(None);
        }
        let fetched = remote.fetch(&tip, self.env.allowed_signers.as_deref())?;
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

    /// A folder as it is.
    fn folder(&self, path: &Path, sessions: &mut SessionCache) -> Result<Read, Stop> {
        let (opened, tip) = Opened::folder(&path.join(folder(&self.spec.source.path)), sessions)?;
        let name = format!("sha256:{tip}");
        Ok(Read { opened, tip, branches: None, name })
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
        state: &mut SyncState,
        sessions: &mut SessionCache,
        opened: &Opened,
        tip: &str,
        name: &str,
    ) -> Result<Outcome, Stop> {
        let kept = state.memory()?;
        let (session, branches) = match &self.spec.commit {
            Some(commit) => self.commit(commit, sessions, opened, kept.as_ref())?,
            None => (self.prepare(sessions, opened, kept.as_ref(), self.apply_limit())?, Vec::new()),
        };
        state.remember(session.plan())?;
        let unschedulable =
            session.plan().placements.iter().filter(|row| row.unschedulable.is_some()).count();
        state.record.status.unschedulable = unschedulable;
        state.record.status.branches = branches.clone();
        let branches = branches.into_iter().map(|branch| (branch.branch, branch.commit)).collect();
        let accepted = Accepted { tip: tip.to_owned(), branches, done: false };
        state.record.accepted = Some(accepted);
        state.save()?;
        let mut said =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        let applied = self.spec.apply.as_ref().map(|apply| {
            let members = Members { loaded: self.loaded, env: self.env, session: &session };
            members.apply(apply, &mut state.record.status)
        });
        sessions.put(opened, session, true);
        if let Some(clusters) = applied.transpose()? {
            let also = said.map_or_else(
                || format!("applied {name} to {clusters}"),
                |said| format!("{said}, applied it to {clusters}"),
            );
            said = Some(also);
        }
        if let Some(accepted) = &mut state.record.accepted {
            accepted.done = true;
        }
        state.record.status.last_applied_revision = Some(name.to_owned());
        let message = said.unwrap_or_else(|| format!("read {name}"));
        Ok(Outcome { reason: Reason::ReconciliationSucceeded, message, drifted: false })
    }

    /// Looks for drift, where that is asked for.
    fn drift(
        &self,
        state: &mut SyncState,
        sessions: &mut SessionCache,
        opened: &Opened,
    ) -> Result<Outcome, Stop> {
        if !self.looks_for_drift() {
            return Ok(unchanged(state));
        }
        let session = match sessions.accepted(opened) {
            Some(session) => session,
            None => self.prepare(sessions, opened, state.memory()?.as_ref(), self.apply_limit())?,
        };
        let members = Members { loaded: self.loaded, env: self.env, session: &session };
        let drifted = members.drift(&mut state.record.status);
        sessions.put(opened, session, true);
        Ok(Outcome { drifted: drifted? > 0, ..unchanged(state) })
    }

    /// Renders, and refuses what is in error or may be a mistake.
    fn prepare(
        &self,
        sessions: &mut SessionCache,
        opened: &Opened,
        kept: Option<&Plan>,
        limit: Option<u8>,
    ) -> Result<Session, Stop> {
        let session = sessions.take(opened, kept);
        match self.refuses(&session, kept, limit) {
            None => Ok(session),
            Some(stop) => {
                // The next revision differs from this one in little.
                sessions.put(opened, session, false);
                Err(stop)
            }
        }
    }

    /// Why what is rendered is neither committed nor applied.
    fn refuses(&self, session: &Session, kept: Option<&Plan>, limit: Option<u8>) -> Option<Stop> {
        let errors: Vec<_> =
            session.findings().into_iter().filter(federate_kubernetes::Finding::is_error).collect();
        if let Some(first) = findings::rows(session.repo(), &errors).into_iter().next() {
            let place = first.place().map(|place| place + ": ").unwrap_or_default();
            let more = match errors.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more errors)"),
            };
            return Some(Stop::new(Reason::BuildFailed, format!("{place}{}{more}", first.message)));
        }
        let clusters: BTreeSet<&str> =
            session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let why = guard::refuses(kept?, session.plan(), &clusters, limit)?;
        Some(Stop::new(Reason::PruneFailed, why))
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
    ) -> Result<(Session, Vec<Branch>), Stop> {
        let layout = commit.layout().map_err(invalid)?;
        let place = opened.place().ok_or_else(|| {
            let message = "the folder is in no git repository, so that there is no branch to commit to";
            Stop::new(Reason::BuildFailed, message)
        })?;
        let remote = match &self.loaded.address {
            Address::Git(address) => {
                forget_branches(place)?;
                Some(Pushed(address.clone()))
            }
            Address::Folder(_) => commit.push.unwrap_or(false).then(|| Pushed("origin".to_owned())),
        };
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
            let session = self.prepare(sessions, opened, on_branch.or(kept), Some(limit))?;
            Ok((session, opened.provenance(place)))
        };
        let retrying = |error: &branch::Error| tracing::info!(sync = self.name(), %error, "committing again");
        let Committed { session, branches } = run.run(open, retrying).map_err(|error| match error {
            commit::Error::Open(stop) => stop,
            error => Stop::new(Reason::ReconciliationFailed, error),
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

fn invalid(error: branch::Error) -> Stop {
    Stop::new(Reason::BuildFailed, error)
}

/// What is there already is all that is wanted.
fn unchanged(state: &SyncState) -> Outcome {
    let at = state.record.status.last_applied_revision.as_deref().unwrap_or("the source");
    let message = state.record.status.condition("Ready").filter(|ready| ready.status == "True");
    let message = message.map_or_else(|| format!("everything is at {at}"), |ready| ready.message.clone());
    Outcome { reason: Reason::ReconciliationSucceeded, message, drifted: false }
}

/// Removes the branches of the cache: those of the remote are what counts.
fn forget_branches(place: &Place) -> Result<(), Stop> {
    let forget = || {
        let repository = git2::Repository::open_bare(&place.git_dir)?;
        for branch in repository.references_glob("refs/heads/*")? {
            branch?.delete()?;
        }
        Ok(())
    };
    forget().map_err(|error: git2::Error| Stop::new(Reason::GitOperationFailed, error.message()))
}
