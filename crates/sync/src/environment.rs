//! What rounds need besides a Sync and its state: the dialects, and the world outside as files or an API server provide it.

use std::path::PathBuf;
use std::sync::Arc;

use federate_dialect::Dialects;
use federate_engine::change::DigestKey;
use federate_live::{Access, Fence};
use federate_repo::build::Builder;
use federate_session::Session;

use crate::private::PrivateFile;
use crate::read::Loaded;
use crate::source::credentials::{Credentials, Keys};
use crate::tally::Tally;

/// How a Sync's clusters are reached, with files that must exist for that long.
pub struct MemberAccess {
    /// How.
    pub access: Access,
    /// The files.
    pub kept: Vec<PrivateFile>,
}

/// What rounds need of the world.
pub trait RoundContext: std::marker::Sync {
    /// How a Sync's clusters are reached.
    fn access(&self, loaded: &Loaded, session: &Session) -> Result<MemberAccess, String>;

    /// The credentials of a Sync's source.
    fn credentials(&self, _: &Loaded) -> Result<Credentials, String> {
        Ok(Credentials::default())
    }

    /// The keys that may sign revisions of a Sync's source, if the Sync names them itself.
    fn signers(&self, _: &Loaded) -> Result<Option<Keys>, String> {
        Ok(None)
    }

    /// The Sync that has an `ApplySet`, by its id.
    fn sync_of(&self, _: &str) -> Option<String> {
        None
    }

    /// A Secret beside a Sync.
    fn secret(&self, _: &Loaded, name: &str) -> Result<Keys, String> {
        Err(format!("there is no Secret {name}"))
    }

    /// Whether no other process can lead at this moment.
    fn leads(&self) -> bool {
        true
    }

    /// What is checked before each write to a cluster, if another process could take over.
    fn fence(&self) -> Option<Fence> {
        None
    }
}

/// What rounds need besides a Sync and its state.
pub struct Environment<'e> {
    /// The dialects that may claim objects.
    pub dialects: Dialects,
    /// What builds kustomizations and charts; without it, they are not built.
    pub builder: Option<Arc<dyn Builder>>,
    /// The world outside.
    pub world: &'e dyn RoundContext,
    /// The keys that may sign; those of git's configuration by default.
    pub allowed_signers: Option<PathBuf>,
    /// The key of the digests that stand for values of Secrets.
    pub key: DigestKey,
    /// What is counted for the metrics.
    pub tally: Tally,
}
