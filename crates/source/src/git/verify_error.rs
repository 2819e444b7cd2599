//! Why a revision is not accepted as signed.

use std::io;
use std::path::PathBuf;

use git2::Oid;

use super::{Error, program};

/// Why a revision without a signature is refused.
pub(super) const NO_SIGNATURE: &str = "there is no signature";

/// Why a revision is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// There is no list of allowed signers.
    #[error(
        "no allowed signers: name the file with --allowed-signers, or set git's `gpg.ssh.allowedSignersFile` \
         in your own configuration (`git config --global`); the repository's does not count"
    )]
    NoList,
    /// The list cannot be read.
    #[error("cannot read the allowed signers {}: {why}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// The list is a file in the repository.
    #[error(
        "the allowed signers {} are the file `{path}` in the repository itself, so anyone who can push could add a key: \
         keep them outside of it", .file.display()
    )]
    OwnList {
        /// The file.
        file: PathBuf,
        /// Its path in the repository.
        path: String,
    },
    /// A key in the list cannot be used.
    #[error("{place}: {why}")]
    Key {
        /// Where it is.
        place: String,
        /// Why not.
        why: String,
    },
    /// The `gpg` program cannot be started.
    #[error(
        "cannot run `gpg`: {0}; install GnuPG, which is needed where the allowed signers have OpenPGP keys"
    )]
    Gpg(io::Error),
    /// The keys cannot be written to a temporary folder.
    #[error("the keys of the allowed signers cannot be written to a temporary folder: {0}")]
    Folder(#[from] io::Error),
    /// Neither the commit nor the tag has a valid signature.
    #[error("revision `{rev}` ({commit}) has no valid signature by an allowed signer: {why}")]
    NotSigned {
        /// The revision as given.
        rev: String,
        /// The commit.
        commit: Oid,
        /// The reason.
        why: String,
    },
    /// The revision is not an annotated tag; only annotated tags can be signed.
    #[error("revision `{0}` has no signed tag: it does not name an annotated tag")]
    NoTag(String),
    /// The revision cannot be found.
    #[error(transparent)]
    Git(#[from] Error),
    /// The `git` program failed.
    #[error(transparent)]
    Program(#[from] program::Error),
}

impl VerifyError {
    /// Whether there is nothing to verify.
    pub(super) fn is_unsigned(&self) -> bool {
        match self {
            Self::NotSigned { why, .. } => why == NO_SIGNATURE,
            other => matches!(other, Self::NoTag(_)),
        }
    }
}
