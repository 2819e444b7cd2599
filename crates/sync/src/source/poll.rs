//! Where the source is at the beginning of a reconciliation, and the revision that was fetched and verified.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use federate_dialect::Plan;
use federate_live::Interrupt;
use federate_publish::branch;
use federate_reconcile::RepoRef;
use federate_session::Session;
use federate_source::git::{AllowedSigners, GitRevision};
use federate_sync_api::stage::SyncStage;
use federate_sync_api::status::SyncReason;
use federate_sync_api::{SourceRef, SyncSource};

use crate::environment::CredentialsError;
use crate::outcome::ReconcileError;
use crate::plan::sessions::{Checkout, FormerSessions, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::source::credentials::{GitCredentials, SecretData};
use crate::source::{
    AdvertisedRefs, Error as SourceError, SourceAddress, SourceRemote, format_revision, normalize_folder,
};
use crate::state::SyncState;
use crate::sync_files;

impl Reconciliation<'_> {
    /// Polls the source and fetches what is new. `None` if nothing has changed and clusters are not compared. `is_overwritten` says
    /// whether another client has written what was pushed.
    pub(crate) fn poll_source(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        is_overwritten: bool,
    ) -> Result<Option<SourceState>, ReconcileError> {
        runtime.run_reading(|runtime| match &self.valid_sync.address {
            SourceAddress::Git(address) => self.poll_git(address, state, is_overwritten),
            SourceAddress::Folder(path) => self.poll_folder(path, runtime).map(Some),
        })
    }

    fn poll_git(
        &self,
        address: &str,
        state: &mut SyncState<'_>,
        is_overwritten: bool,
    ) -> Result<Option<SourceState>, ReconcileError> {
        let cache = state.git_cache();
        let credentials = self.read_credentials()?;
        let remote = self.build_remote(address, &cache, &credentials);
        let layout = self
            .spec
            .commit
            .as_ref()
            .map(sync_files::parse_layout)
            .transpose()
            .map_err(|error| branch_error(&error))?;
        let AdvertisedRefs { tip, reference, branches } =
            remote.poll_refs(&layout.map(|layout| layout.to_glob()).unwrap_or_default())?;
        let accepted = state.record.accepted.as_ref().filter(|_| state.record.stage == SyncStage::Idle);
        let of_repo = self.spec.inventory.is_repo() && !is_overwritten;
        if accepted.is_some_and(|a| a.is_for(&tip, Some(&branches))) && of_repo && !self.looks_for_drift() {
            return Ok(None);
        }
        self.fetch_revision(&remote, &tip, reference, state)
            .map(|source_state| Some(SourceState { branches: Some(branches), ..source_state }))
    }

    /// Runs what waits for clusters to become healthy, or to answer. The wait ends early, and the next reconciliation begins
    /// at once, when the source has another revision than `tip`: the new one may be what makes them healthy.
    pub(crate) fn interrupt_when_revised<T>(
        &self,
        cache: &Path,
        tip: &str,
        resume: &mut Option<Instant>,
        run: impl FnOnce(Option<Interrupt>) -> T,
    ) -> T {
        let (Some(interrupt), SourceAddress::Git(address)) = (self.interrupt, &self.valid_sync.address)
        else {
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

    /// Whether the source has another revision. A source that cannot be read has none: the next reconciliation reports it.
    fn has_other_revision(&self, address: &str, cache: &Path, tip: &str) -> bool {
        let Ok(credentials) = self.read_credentials() else { return false };
        let advertised = self.build_remote(address, cache, &credentials).poll_refs("");
        advertised.is_ok_and(|advertised| advertised.tip != tip)
    }

    /// Fetches and verifies a revision.
    fn fetch_revision(
        &self,
        remote: &SourceRemote<'_>,
        tip: &str,
        reference: Option<SourceRef>,
        state: &mut SyncState<'_>,
    ) -> Result<SourceState, ReconcileError> {
        let signers = self.read_signers()?;
        let signers = match &signers {
            Some(texts) => AllowedSigners::Texts(texts),
            None => self.env.allowed_signers.as_deref().into(),
        };
        // Of a range of versions, the tag that was chosen.
        let source = SyncSource { reference, ..self.spec.source.clone() };
        let fetched = remote.with_source(&source).fetch_revision(tip, signers)?;
        let commit = fetched.resolved.commit;
        let checkout =
            GitRevision::open_folder(fetched.location, &fetched.resolved).map_err(SourceError::from)?;
        let checkout = checkout.with_submodules(fetched.submodules);
        let name = format_revision(&source, commit);
        if let Some(before) = fetched.before.filter(|before| *before != commit) {
            let before = format_revision(&source, before);
            if fetched.rewritten {
                tracing::warn!(sync = self.name(), before, revision = name, "the history was rewritten");
            }
            state.record.status.rewritten = fetched.rewritten.then_some(before);
        }
        let checkout = Checkout::Revision(Box::new(checkout));
        Ok(SourceState { checkout, tip: fetched.tip, branches: None, name })
    }

    fn read_credentials(&self) -> Result<GitCredentials, ReconcileError> {
        self.env.services.source_credentials(self.valid_sync).map_err(credentials_error)
    }

    fn build_remote<'r>(
        &'r self,
        address: &'r str,
        cache: &'r Path,
        credentials: &GitCredentials,
    ) -> SourceRemote<'r> {
        SourceRemote {
            address,
            source: &self.spec.source,
            cache,
            timeout: self.spec.timeout(),
            variables: credentials.env_variables(),
            counters: Some(&self.env.counters),
        }
    }

    /// The keys that the Sync itself names, with how messages name each text.
    fn read_signers(&self) -> Result<Option<SecretData>, ReconcileError> {
        let keys = self.env.services.allowed_signers(self.valid_sync).map_err(credentials_error)?;
        Ok(keys.map(|keys| {
            keys.into_iter()
                .map(|(key, text)| (format!("`{key}` in the Secret of `source.verify`"), text))
                .collect()
        }))
    }

    fn poll_folder(&self, path: &Path, runtime: &mut SyncRuntime) -> Result<SourceState, ReconcileError> {
        let (checkout, tip) =
            Checkout::open_folder(&path.join(normalize_folder(&self.spec.source.path)), runtime)?;
        let name = format!("sha256:{tip}");
        Ok(SourceState { checkout, tip, branches: None, name })
    }
}

impl Reconciliation<'_> {
    /// Opens a former revision as it was carried out, unless that is done.
    pub(crate) fn open_former(
        &self,
        state: &SyncState<'_>,
        formers: &mut FormerSessions,
        revision: &str,
    ) -> Result<(), ReconcileError> {
        if formers.contains_key(revision) {
            return Ok(());
        }
        let previous = state.read_former_plan(revision)?.ok_or_else(|| {
            let message = format!("the scheduler's memory of the former revision {revision} is lost");
            ReconcileError::new(SyncReason::StateFailed, message)
        })?;
        let checkout = self.open_planned(state, revision, previous)?;
        formers.insert(revision.to_owned(), checkout);
        Ok(())
    }

    /// Opens a revision that was fetched before, with the plan that was made of it.
    pub(crate) fn open_planned(
        &self,
        state: &SyncState<'_>,
        revision: &str,
        previous: Plan,
    ) -> Result<(Session, Option<RepoRef>), ReconcileError> {
        let SourceAddress::Git(address) = &self.valid_sync.address else {
            let message = format!("the former revision {revision} is lost");
            return Err(ReconcileError::new(SyncReason::StateFailed, message));
        };
        let cache = state.git_cache();
        let credentials = self.read_credentials()?;
        let remote = self.build_remote(address, &cache, &credentials);
        let (location, resolved, submodules) = remote.open_former(revision)?;
        let checkout = GitRevision::open_folder(location, &resolved).map_err(SourceError::from)?;
        let checkout = Checkout::Revision(Box::new(checkout.with_submodules(submodules)));
        let repo = self.find_repo(&checkout);
        let mut runtime = SyncRuntime::new(self.env);
        runtime.select_paths(&self.spec.source.paths);
        let session = Session::open(checkout.as_source(), runtime.session_options().with_previous(previous));
        match self.find_refusal(&session, None, None, self.destination()) {
            Some(error) => Err(error),
            None => Ok((session, repo)),
        }
    }
}

/// The credentials that the Sync names cannot be used.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(crate) fn credentials_error(why: CredentialsError) -> ReconcileError {
    ReconcileError::new(SyncReason::GitOperationFailed, why.to_string())
}

pub(crate) fn branch_error(error: &branch::Error) -> ReconcileError {
    ReconcileError::new(SyncReason::BuildFailed, error.to_string())
}
