//! What a round reads: a folder as it is, or a fetched revision; and the [`Session`] over it, which is kept from one
//! round to the next, so that a new revision is read and decided about only as far as it differs.

use std::path::Path;

use git2::Oid;

use federate_dialect::Plan;
use federate_repo::Source;
use federate_session::{Options, Provenance, Session, Update};
use federate_source::WorkTree;
use federate_source::git::{self, Place, Revision};

use crate::backoff::Backoffs;
use crate::round::RoundError;
use crate::state::digest;
use crate::status::Reason;

/// A source that can be read.
pub(crate) enum Opened {
    /// A folder, with the repository that it belongs to.
    Folder(WorkTree, Option<Place>, String),
    /// A commit.
    Revision(Box<Revision>),
}

/// What the session of a Sync was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    /// The digest of a folder's files.
    Digest(String),
    /// A commit, and the folder of it that is read.
    Commit(Oid, String),
}

/// What a Sync keeps in memory from one round to the next: the session, and which clusters fail.
#[derive(Default)]
pub struct SessionCache {
    cached: Option<Cached>,
    pub(crate) backoffs: Backoffs,
}

struct Cached {
    session: Session,
    version: Version,
    /// Whether its plan is the scheduler's memory by now.
    accepted: bool,
}

impl Opened {
    /// Reads a folder as it is at this moment; with the digest of its files.
    pub(crate) fn folder(path: &Path, cache: &mut SessionCache) -> Result<(Self, String), RoundError> {
        let tree = WorkTree::open(path).map_err(|finding| {
            RoundError::new(Reason::GitOperationFailed, format!("{}: {}", path.display(), finding.message))
        })?;
        let session = Session::open(&tree, Options::default());
        let texts = &session.repo().texts;
        let tip = digest(texts.iter().flat_map(|(path, text)| [path.as_bytes(), text]));
        let version = Version::Digest(tip.clone());
        if cache.cached.as_ref().is_none_or(|cached| cached.version != version) {
            cache.cached = Some(Cached { session, version, accepted: false });
        }
        Ok((Self::Folder(tree, Place::of(path).ok(), tip.clone()), tip))
    }

    fn version(&self) -> Version {
        match self {
            Self::Folder(_, _, tip) => Version::Digest(tip.clone()),
            Self::Revision(revision) => Version::Commit(revision.commit(), revision.place().prefix.clone()),
        }
    }

    fn source(&self) -> &dyn Source {
        match self {
            Self::Folder(tree, ..) => tree,
            Self::Revision(revision) => revision.as_ref(),
        }
    }

    /// The repository, and the folder in it.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Self::Folder(_, place, _) => place.as_ref(),
            Self::Revision(revision) => Some(revision.place()),
        }
    }

    /// What a commit says about where its files come from.
    pub(crate) fn provenance(&self, place: &Place) -> Provenance {
        match self {
            Self::Revision(revision) => Provenance::of_commit(place, revision.commit()),
            Self::Folder(..) => Provenance::of_work_tree(place),
        }
    }
}

impl SessionCache {
    /// The session over a source, with a plan as the scheduler's memory. Of a new revision only what differs is read.
    pub(crate) fn take(&mut self, opened: &Opened, previous: Option<&Plan>) -> Session {
        let previous = previous.cloned().unwrap_or_default();
        let version = opened.version();
        let Some(Cached { mut session, version: before, .. }) = self.cached.take() else {
            return Session::open(opened.source(), Options { previous, ..Options::default() });
        };
        if before == version {
            session.remember(previous);
            return session;
        }
        // The commit before may be gone with the cache that held it.
        let Some(changed) = between(&before, &version, opened.place()) else {
            return Session::open(opened.source(), Options { previous, ..Options::default() });
        };
        session.remember(previous);
        match session.update(opened.source(), &changed) {
            Update::Templates(templates) => {
                tracing::info!(files = changed.len(), templates = templates.len(), "read only what changed");
            }
            Update::Everything(why) => tracing::info!(%why, "read everything again"),
        }
        session
    }

    /// Keeps a session for the next round; `accepted` says whether its plan is the scheduler's memory.
    pub(crate) fn put(&mut self, opened: &Opened, session: Session, accepted: bool) {
        self.cached = Some(Cached { session, version: opened.version(), accepted });
    }

    /// The session over a source that was carried out, if it is still here.
    pub(crate) fn accepted(&mut self, opened: &Opened) -> Option<Session> {
        let version = opened.version();
        self.cached
            .take_if(|cached| cached.accepted && cached.version == version)
            .map(|cached| cached.session)
    }
}

/// The files that differ between two versions, where that is known.
fn between(before: &Version, now: &Version, place: Option<&Place>) -> Option<Vec<String>> {
    match (before, now) {
        (Version::Commit(from, folder), Version::Commit(to, same)) if folder == same => {
            git::changed(place?, *from, *to).ok().flatten()
        }
        _ => None,
    }
}
