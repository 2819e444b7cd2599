//! What a reconciliation reads: a folder, or a fetched revision; and the [`Session`] over it. The session is kept from one
//! reconciliation to the next, so that a reconciliation reads and decides only what a new revision changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use git2::Oid;

use federate_dialect::{Dialects, Plan};
use federate_engine::{StepAllowance, previous};
use federate_reconcile::RepoRef;
use federate_repo::build::{Builder, Decryptor};
use federate_repo::{FileTree, ReadOptions, normalize_path};
use federate_session::{Provenance, Session, SessionOptions, UnreachableClusters, UpdateScope};
use federate_source::WorkTree;
use federate_source::git::{self, GitLocation, GitRevision};
use federate_sync_api::record::compute_digest;
use federate_sync_api::status::SyncReason;

use crate::environment::Environment;
use crate::member_clusters::tracker::ClusterTracker;
use crate::observe::inventory_status::InventoryStatus;
use crate::outcome::ReconcileError;
use crate::plan::changes::RenderedObjects;

/// A source that can be read.
pub(crate) enum Checkout {
    /// A folder, with the repository that it belongs to.
    Folder(WorkTree, Option<GitLocation>, String),
    /// A commit.
    Revision(Box<GitRevision>),
}

/// A source at the revision that it has now.
pub(crate) struct SourceState {
    pub(crate) checkout: Checkout,
    /// The commit, the tag object, or the digest of a folder.
    pub(crate) tip: String,
    /// Where the branches are that are committed to, if that is known.
    pub(crate) branches: Option<BTreeMap<String, String>>,
    /// The revision, as it is shown to people.
    pub(crate) name: String,
}

/// What the session of a Sync was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckoutVersion {
    /// The digest of a folder's files.
    Digest(String),
    /// A commit, and the folder of it that is read.
    Commit(Oid, String),
}

/// What a process knows of a Sync from one reconciliation to the next, and finds out again if it ends: the session, and what
/// is known of the clusters.
pub(crate) struct SyncRuntime {
    pub(crate) dialects: Dialects,
    builder: Option<Arc<dyn Builder>>,
    decryptor: Option<Arc<dyn Decryptor>>,
    allowance: StepAllowance,
    /// What of the source is read.
    read_options: ReadOptions,
    cached: Option<CachedSession>,
    /// The status of the clusters, if the repo does not say it.
    pub(crate) observed: Option<InventoryStatus>,
    /// What is known of the clusters.
    pub(crate) tracker: ClusterTracker,
    /// What clusters have that are at the revision before, if a new one only changes templates.
    pub(crate) rendered_before: Option<RenderedObjects>,
    /// The sessions over former revisions that clusters still have.
    pub(crate) formers: FormerSessions,
    /// When a rollout goes on, if it only waits for time.
    pub(crate) resume: Option<Instant>,
    /// Whether the thread of the Sync may be writing. A process that is to end does not wait long for one that only reads.
    pub(crate) writes: Arc<AtomicBool>,
}

/// A revision that is open: the session over it, and where its files are from.
#[derive(Clone, Copy)]
pub(crate) struct RevisionSession<'s> {
    pub(crate) session: &'s Session,
    pub(crate) repo: Option<&'s RepoRef>,
}

/// Sessions over former revisions.
pub(crate) type FormerSessions = BTreeMap<String, (Session, Option<RepoRef>)>;

/// What was carried out last, with all that is known of clusters.
pub(crate) struct CurrentSession<'c> {
    pub(crate) revision: RevisionSession<'c>,
    pub(crate) clusters: &'c mut ClusterTracker,
    pub(crate) formers: &'c mut FormerSessions,
}

struct CachedSession {
    session: Session,
    version: CheckoutVersion,
    /// The digest of the status of the clusters by which it plans, if the repo does not say it.
    inventory_digest: Option<String>,
    /// Whether its plan is accepted, so that it is the previous plan of the next reconciliation.
    accepted: bool,
    repo: Option<RepoRef>,
}

impl Checkout {
    /// Reads a folder. Returns it with the digest of its files.
    pub(crate) fn open_folder(
        path: &Path,
        runtime: &mut SyncRuntime,
    ) -> Result<(Self, String), ReconcileError> {
        let tree = WorkTree::open(path).map_err(|finding| {
            ReconcileError::new(
                SyncReason::GitOperationFailed,
                format!("{}: {}", path.display(), finding.message),
            )
        })?;
        let session = Session::open(&tree, runtime.session_options());
        let texts = &session.repo().texts;
        // Charts have files that are not manifests.
        let others = session.repo().build_inputs.iter().filter(|path| !texts.contains_key(path.as_str()));
        let others: Vec<(&String, Vec<u8>)> =
            others.filter_map(|path| Some((path, tree.read_file(path).ok()?))).collect();
        let others = others.iter().flat_map(|(path, bytes)| [path.as_bytes(), bytes]);
        let tip = compute_digest(texts.iter().flat_map(|(path, text)| [path.as_bytes(), text]).chain(others));
        let version = CheckoutVersion::Digest(tip.clone());
        if runtime.cached.as_ref().is_none_or(|cached| cached.version != version) {
            runtime.cached =
                Some(CachedSession { session, version, inventory_digest: None, accepted: false, repo: None });
        }
        Ok((Self::Folder(tree, GitLocation::discover_around(path).ok(), tip.clone()), tip))
    }

    fn version(&self) -> CheckoutVersion {
        match self {
            Self::Folder(_, _, tip) => CheckoutVersion::Digest(tip.clone()),
            Self::Revision(revision) => {
                CheckoutVersion::Commit(revision.commit(), revision.location().prefix.clone())
            }
        }
    }

    pub(crate) fn as_source(&self) -> &dyn FileTree {
        match self {
            Self::Folder(tree, ..) => tree,
            Self::Revision(revision) => revision.as_ref(),
        }
    }

    /// The repository, and the folder in it.
    pub(crate) fn location(&self) -> Option<&GitLocation> {
        match self {
            Self::Folder(_, location, _) => location.as_ref(),
            Self::Revision(revision) => Some(revision.location()),
        }
    }

    /// The repository as its clones have it in common; `None` if that is not known. `url` is its address.
    pub(crate) fn find_repo(&self, url: &str) -> Option<RepoRef> {
        match self {
            Self::Folder(_, location, _) => {
                let location = location.as_ref()?;
                Provenance::from_work_tree(location).find_repo(location)
            }
            Self::Revision(revision) => {
                let commit = Some(revision.commit().to_string());
                Some(RepoRef::from_url(url, &revision.location().prefix, commit))
            }
        }
    }

    /// What a commit says about where its files come from.
    pub(crate) fn read_provenance(&self, location: &GitLocation) -> Provenance {
        match self {
            Self::Revision(revision) => Provenance::from_commit(location, revision.commit()),
            Self::Folder(..) => Provenance::from_work_tree(location),
        }
    }
}

impl SyncRuntime {
    /// Nothing is kept yet.
    pub(crate) fn new(env: &Environment<'_>) -> Self {
        Self {
            dialects: env.dialects,
            builder: env.builder.clone(),
            decryptor: env.decryptor.clone(),
            allowance: env.allowance,
            read_options: ReadOptions::default(),
            cached: None,
            observed: None,
            tracker: ClusterTracker::default(),
            rendered_before: None,
            formers: FormerSessions::new(),
            resume: None,
            writes: Arc::default(),
        }
    }

    /// Runs what writes nothing.
    pub(crate) fn run_reading<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.writes.swap(false, Ordering::SeqCst);
        let result = run(self);
        self.writes.store(before, Ordering::SeqCst);
        result
    }

    /// Reads only these paths of the source from now on; all if there are none.
    pub(crate) fn select_paths(&mut self, paths: &[String]) {
        let paths: Vec<String> = paths.iter().filter_map(|path| normalize_path(path).ok()).collect();
        if self.read_options.paths != paths {
            self.cached = None;
            self.read_options.paths = paths;
        }
    }

    /// The options of a session over the source.
    pub(crate) fn session_options(&self) -> SessionOptions {
        SessionOptions::new(self.dialects)
            .with_read(self.read_options.clone())
            .with_builder(self.builder.clone())
            .with_decryptor(self.decryptor.clone())
            .with_allowance(self.allowance)
    }

    /// The session over a source, with a previous plan. Only what a new revision changes is read.
    pub(crate) fn take_session(&mut self, checkout: &Checkout, previous: Option<&Plan>) -> Session {
        self.run_reading(|runtime| runtime.read_session(checkout, previous))
    }

    fn read_session(&mut self, checkout: &Checkout, previous: Option<&Plan>) -> Session {
        let previous = previous.cloned().unwrap_or_default();
        let version = checkout.version();
        let options = self
            .session_options()
            .with_snapshot(self.observed.as_ref().map(|observed| observed.stored.clone()))
            .with_unreachable(self.observed.as_ref().and_then(|observed| observed.lost.clone()));
        let inventory_digest = self.inventory_digest().cloned();
        let cached = self.cached.take().filter(|cached| cached.inventory_digest == inventory_digest);
        let Some(CachedSession { mut session, version: before, accepted, .. }) = cached else {
            return Session::open(checkout.as_source(), options.with_previous(previous));
        };
        if before == version {
            session.set_previous(previous);
            return session;
        }
        // The commit before may be gone with the cache that held it.
        let Some(changed) = changed_files(&before, &version, checkout.location()) else {
            return Session::open(checkout.as_source(), options.with_previous(previous));
        };
        let rendered = accepted.then(|| RenderedObjects::from_session(&session));
        session.set_previous(previous);
        match session.update_files(checkout.as_source(), &changed) {
            UpdateScope::Templates(templates) => {
                self.rendered_before = rendered;
                tracing::info!(files = changed.len(), templates = templates.len(), "read only what changed");
            }
            UpdateScope::Everything(why) => tracing::info!(%why, "read everything again"),
        }
        session
    }

    /// Lets everything in all clusters be tried again and compared at once.
    pub(crate) fn forget_comparisons(&mut self) {
        self.tracker.forget_comparisons();
    }

    /// Keeps a session whose plan is not accepted for the next reconciliation.
    pub(crate) fn put_session(&mut self, checkout: &Checkout, session: Session) {
        let inventory_digest = self.inventory_digest().cloned();
        self.cached = Some(CachedSession {
            session,
            version: checkout.version(),
            inventory_digest,
            accepted: false,
            repo: None,
        });
    }

    /// Keeps a session whose plan is accepted for the next reconciliation, with the repo that it came from.
    pub(crate) fn put_accepted(&mut self, checkout: &Checkout, session: Session, repo: Option<RepoRef>) {
        let inventory_digest = self.inventory_digest().cloned();
        self.cached = Some(CachedSession {
            session,
            version: checkout.version(),
            inventory_digest,
            accepted: true,
            repo,
        });
    }

    /// The session over a source that was carried out, if it is still here.
    pub(crate) fn take_accepted(&mut self, checkout: &Checkout) -> Option<Session> {
        let (version, inventory_digest) = (checkout.version(), self.inventory_digest().cloned());
        self.cached
            .take_if(|cached| {
                cached.accepted && cached.version == version && cached.inventory_digest == inventory_digest
            })
            .map(|cached| cached.session)
    }

    /// The session over a source that is in memory, whatever its plan is.
    pub(crate) fn find_session(&self, checkout: &Checkout) -> Option<&Session> {
        let cached = self.cached.as_ref().filter(|cached| cached.version == checkout.version())?;
        Some(&cached.session)
    }

    /// The digest of the status of the clusters, if the repo does not say it.
    pub(crate) fn inventory_digest(&self) -> Option<&String> {
        self.observed.as_ref().map(|observed| &observed.digest)
    }

    /// The members that cannot be reached, if their control planes act on it.
    pub(crate) fn unreachable_members(&self) -> Option<&UnreachableClusters> {
        self.observed.as_ref()?.lost.as_ref()
    }

    /// The session whose plan is accepted, with where it was read from.
    pub(crate) fn current_session(&mut self) -> Option<CurrentSession<'_>> {
        let cached = self.cached.as_ref().filter(|cached| cached.accepted)?;
        Some(CurrentSession {
            revision: RevisionSession { session: &cached.session, repo: cached.repo.as_ref() },
            clusters: &mut self.tracker,
            formers: &mut self.formers,
        })
    }
}

/// The files that differ between two versions; `None` if that is not known.
fn changed_files(
    before: &CheckoutVersion,
    now: &CheckoutVersion,
    location: Option<&GitLocation>,
) -> Option<Vec<String>> {
    match (before, now) {
        (CheckoutVersion::Commit(from, folder), CheckoutVersion::Commit(to, same)) if folder == same => {
            git::changed_files(location?, *from, *to).ok().flatten()
        }
        _ => None,
    }
}

/// The digest of all that a session renders.
pub(crate) fn digest_rendering(session: &Session) -> String {
    let plan = previous::serialize_plan(session.plan());
    let manifests = session.render().manifests.iter();
    let texts = manifests.flat_map(|manifest| {
        let clusters = manifest.clusters.iter().map(|cluster| cluster.as_bytes());
        clusters.chain([manifest.text.as_bytes()]).collect::<Vec<_>>()
    });
    compute_digest(std::iter::once(plan.as_bytes()).chain(texts))
}
