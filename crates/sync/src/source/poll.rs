//! The first part of a round: where the source is now, and the revision that was fetched and verified.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use federate_dialect::Plan;
use federate_engine::actions::RepoRef;
use federate_live::Interrupt;
use federate_publish::branch;
use federate_session::{Options, Session};
use federate_source::git::{Revision, Signers};
use federate_sync_api::stage::SyncStage;
use federate_sync_api::status::Reason;
use federate_sync_api::{Reference, Source};

use crate::plan::sessions::{FormerSessions, Opened, SessionCache};
use crate::read;
use crate::round::{Round, RoundError};
use crate::source::credentials::{Credentials, Keys};
use crate::source::{Address, Advertised, Error as SourceError, Remote, folder, revision};
use crate::state::SyncState;

/// A source at the revision that it has now.
pub(crate) struct PolledSource {
    pub(crate) opened: Opened,
    /// The commit, the tag object, or the digest of a folder.
    pub(crate) tip: String,
    /// Where the branches are that are committed to, if that is known.
    pub(crate) branches: Option<BTreeMap<String, String>>,
    /// The revision, as it is shown to people.
    pub(crate) name: String,
}

impl Round<'_> {
    /// Polls the source and fetches what is new. `None` if nothing has changed and clusters are not compared.
    pub(crate) fn poll(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<Option<PolledSource>, RoundError> {
        match &self.loaded.address {
            Address::Git(address) => self.revision(address, state),
            Address::Folder(path) => self.folder(path, sessions).map(Some),
        }
    }

    fn revision(&self, address: &str, state: &mut SyncState<'_>) -> Result<Option<PolledSource>, RoundError> {
        let cache = state.cache();
        let credentials = self.credentials()?;
        let remote = self.remote(address, &cache, &credentials);
        let layout =
            self.spec.commit.as_ref().map(read::layout).transpose().map_err(|error| invalid(&error))?;
        let Advertised { tip, reference, branches } =
            remote.poll(&layout.map(|layout| layout.to_glob()).unwrap_or_default())?;
        let accepted = state.record.accepted.as_ref().filter(|_| state.record.stage == SyncStage::Idle);
        let of_repo = self.spec.inventory.is_repo();
        if accepted.is_some_and(|a| a.is_for(&tip, Some(&branches))) && of_repo && !self.looks_for_drift() {
            return Ok(None);
        }
        self.fetch(&remote, &tip, reference, state)
            .map(|polled| Some(PolledSource { branches: Some(branches), ..polled }))
    }

    /// Runs what waits for clusters to become healthy, or to answer. The wait ends early, and the next round begins at once, when the source
    /// has another revision than `tip`: the new one may be what makes them healthy.
    pub(crate) fn until_revised<T>(
        &self,
        cache: &Path,
        tip: &str,
        resume: &mut Option<Instant>,
        run: impl FnOnce(Option<Interrupt>) -> T,
    ) -> T {
        let (Some(interrupt), Address::Git(address)) = (self.interrupt, &self.loaded.address) else {
            return run(self.interrupt.cloned());
        };
        let revised = Arc::new(AtomicBool::new(false));
        let either = {
            let (interrupt, revised) = (interrupt.clone(), revised.clone());
            Arc::new(move || interrupt() || revised.load(Ordering::SeqCst))
        };
        let result = thread::scope(|scope| {
            // Dropping the sender at the end of the scope's work ends the thread.
            let (_ended, end) = mpsc::channel::<()>();
            let revised = revised.clone();
            scope.spawn(move || {
                while end.recv_timeout(self.spec.interval.0) == Err(RecvTimeoutError::Timeout) {
                    if self.has_other_revision(address, cache, tip) {
                        revised.store(true, Ordering::SeqCst);
                        return;
                    }
                }
            });
            run(Some(either))
        });
        if revised.load(Ordering::SeqCst) {
            *resume = Some(Instant::now());
        }
        result
    }

    /// Whether the source has another revision. A source that cannot be read has none: the next round reports it.
    fn has_other_revision(&self, address: &str, cache: &Path, tip: &str) -> bool {
        let Ok(credentials) = self.credentials() else { return false };
        let polled = self.remote(address, cache, &credentials).poll("");
        polled.is_ok_and(|advertised| advertised.tip != tip)
    }

    /// Fetches and verifies a revision.
    fn fetch(
        &self,
        remote: &Remote<'_>,
        tip: &str,
        reference: Option<Reference>,
        state: &mut SyncState<'_>,
    ) -> Result<PolledSource, RoundError> {
        let signers = self.signers()?;
        let signers = match &signers {
            Some(texts) => Signers::Texts(texts),
            None => self.env.allowed_signers.as_deref().into(),
        };
        // Of a range of versions, the tag that was chosen.
        let source = Source { reference, ..self.spec.source.clone() };
        let fetched = remote.of(&source).fetch(tip, signers)?;
        let commit = fetched.resolved.commit;
        let opened = Revision::open(fetched.place, &fetched.resolved).map_err(SourceError::from)?;
        let opened = opened.with_submodules(fetched.submodules);
        let name = revision(&source, commit);
        if let Some(before) = fetched.before.filter(|before| *before != commit) {
            let before = revision(&source, before);
            if fetched.rewritten {
                tracing::warn!(sync = self.name(), before, revision = name, "the history was rewritten");
            }
            state.record.status.rewritten = fetched.rewritten.then_some(before);
        }
        let opened = Opened::Revision(Box::new(opened));
        Ok(PolledSource { opened, tip: fetched.tip, branches: None, name })
    }

    fn credentials(&self) -> Result<Credentials, RoundError> {
        self.env.world.credentials(self.loaded).map_err(unauthorized)
    }

    fn remote<'r>(&'r self, address: &'r str, cache: &'r Path, credentials: &Credentials) -> Remote<'r> {
        Remote {
            address,
            source: &self.spec.source,
            cache,
            patience: self.spec.timeout(),
            variables: credentials.variables(),
            tally: Some(&self.env.tally),
        }
    }

    /// The keys that the Sync itself names, with how messages name each text.
    fn signers(&self) -> Result<Option<Keys>, RoundError> {
        let keys = self.env.world.signers(self.loaded).map_err(unauthorized)?;
        let named = |(key, text)| (format!("`{key}` in the Secret of `source.verify`"), text);
        Ok(keys.map(|keys| keys.into_iter().map(named).collect()))
    }

    fn folder(&self, path: &Path, sessions: &mut SessionCache) -> Result<PolledSource, RoundError> {
        let (opened, tip) = Opened::folder(&path.join(folder(&self.spec.source.path)), sessions)?;
        let name = format!("sha256:{tip}");
        Ok(PolledSource { opened, tip, branches: None, name })
    }
}

impl Round<'_> {
    /// Opens a former revision as it was carried out, unless that is done.
    pub(crate) fn open_former(
        &self,
        state: &SyncState<'_>,
        formers: &mut FormerSessions,
        revision: &str,
    ) -> Result<(), RoundError> {
        if formers.contains_key(revision) {
            return Ok(());
        }
        let lost = || {
            let message = format!("the scheduler's memory of the former revision {revision} is lost");
            RoundError::new(Reason::StateFailed, message)
        };
        let previous = state.former(revision)?.ok_or_else(lost)?;
        let opened = self.open_planned(state, revision, previous)?;
        formers.insert(revision.to_owned(), opened);
        Ok(())
    }

    /// Opens a revision that was fetched before, with the plan that was made of it.
    pub(crate) fn open_planned(
        &self,
        state: &SyncState<'_>,
        revision: &str,
        previous: Plan,
    ) -> Result<(Session, Option<RepoRef>), RoundError> {
        let lost = || RoundError::new(Reason::StateFailed, format!("the former revision {revision} is lost"));
        let Address::Git(address) = &self.loaded.address else { return Err(lost()) };
        let cache = state.cache();
        let credentials = self.credentials()?;
        let remote = self.remote(address, &cache, &credentials);
        let (place, resolved, submodules) = remote.former(revision)?;
        let opened = Revision::open(place, &resolved).map_err(SourceError::from)?;
        let opened = Opened::Revision(Box::new(opened.with_submodules(submodules)));
        let repo = self.repo(&opened);
        let mut sessions = SessionCache::new(self.env.dialects, self.env.builder.clone());
        sessions.select(&self.spec.source.paths);
        let session = Session::open(opened.source(), Options { previous, ..sessions.options() });
        match Self::refuses(&session, None, None, self.destination()) {
            Some(error) => Err(error),
            None => Ok((session, repo)),
        }
    }
}

/// The credentials that the Sync names cannot be used.
pub(crate) fn unauthorized(why: String) -> RoundError {
    RoundError::new(Reason::GitOperationFailed, why)
}

pub(crate) fn invalid(error: &branch::Error) -> RoundError {
    RoundError::new(Reason::BuildFailed, error.to_string())
}
