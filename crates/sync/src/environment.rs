//! What reconciliations need besides a Sync and its state: the dialects, and the world outside as files or an API server
//! provide it.

use std::path::PathBuf;
use std::sync::Arc;

use federate_dialect::Dialects;
use federate_engine::StepAllowance;
use federate_engine::change::DigestKey;
use federate_http_client::AddressPolicy;
use federate_live::{Access, Fence};
use federate_registry::ArtifactAddress;
use federate_repo::build::{Builder, Decryptor};
use federate_session::Session;

use crate::counters::MetricCounters;
use crate::private_files::PrivateFile;
use crate::registry_access::RegistryAccess;
use crate::source::credentials::{GitCredentials, SecretData};
use crate::sync_files::ValidSync;

/// The work of each part of a reconciliation, if the user has not chosen another limit: however large a repo is, other Syncs
/// get their turn.
pub const RECONCILIATION_ALLOWANCE: StepAllowance = StepAllowance::BySizeUpTo(2_000_000_000);

/// How a Sync's clusters are reached, with files that must exist for that long.
pub struct MemberAccess {
    /// How.
    pub access: Access,
    /// The files.
    pub files: Vec<PrivateFile>,
}

/// Why a Secret that a Sync names, or what it holds, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// There is no such Secret.
    #[error("the Secret {0} does not exist")]
    Missing(String),
    /// The API server does not give it.
    #[error("the Secret {secret} cannot be read: {error}")]
    Unreadable {
        /// Its namespace and name.
        secret: String,
        /// The answer.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What it holds is no kubeconfig or no credentials, or the Sync may not use it; in words, without values.
    #[error("{0}")]
    Unusable(String),
}

impl From<String> for CredentialsError {
    fn from(why: String) -> Self {
        Self::Unusable(why)
    }
}

/// What reconciliations need of the world.
pub trait SyncServices: std::marker::Sync {
    /// How a Sync's clusters are reached.
    fn member_access(
        &self,
        valid_sync: &ValidSync,
        session: &Session,
    ) -> Result<MemberAccess, CredentialsError>;

    /// The credentials of a Sync's source.
    fn source_credentials(&self, _: &ValidSync) -> Result<GitCredentials, CredentialsError> {
        Ok(GitCredentials::default())
    }

    /// How the registry is reached to which a Sync pushes.
    fn registry_access(
        &self,
        _: &ValidSync,
        _: &ArtifactAddress,
    ) -> Result<RegistryAccess, CredentialsError> {
        Ok(RegistryAccess::anonymous("docker login", None))
    }

    /// The keys that may sign revisions of a Sync's source, if the Sync names them itself.
    fn allowed_signers(&self, _: &ValidSync) -> Result<Option<SecretData>, CredentialsError> {
        Ok(None)
    }

    /// The addresses at which the servers that Syncs name may be.
    fn address_policy(&self) -> AddressPolicy {
        AddressPolicy::Any
    }

    /// The Sync that has an `ApplySet`, by its id.
    fn find_sync_of_set(&self, _: &str) -> Option<String> {
        None
    }

    /// A Secret beside a Sync.
    fn read_secret(&self, valid_sync: &ValidSync, name: &str) -> Result<SecretData, CredentialsError> {
        Err(CredentialsError::Missing(format!("{}/{name}", valid_sync.object.metadata.namespace)))
    }

    /// Whether no other process can lead at this moment.
    fn is_leading(&self) -> bool {
        true
    }

    /// What is checked before each write to a cluster, if another process could take over.
    fn write_fence(&self) -> Option<Fence> {
        None
    }
}

/// What reconciliations need besides a Sync and its state.
pub struct Environment<'e> {
    /// The dialects that may claim objects.
    pub dialects: Dialects,
    /// What builds kustomizations and charts; without it, they are not built.
    pub builder: Option<Arc<dyn Builder>>,
    /// What decrypts objects for member clusters.
    pub decryptor: Option<Arc<dyn Decryptor>>,
    /// How much work each part of a reconciliation of one Sync may be.
    pub allowance: StepAllowance,
    /// The world outside.
    pub services: &'e dyn SyncServices,
    /// The keys that may sign; those of git's configuration by default.
    pub allowed_signers: Option<PathBuf>,
    /// The key of the digests that stand for values of Secrets.
    pub digest_key: DigestKey,
    /// What is counted for the metrics.
    pub counters: MetricCounters,
}
