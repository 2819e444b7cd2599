//! Whether a revision is signed by somebody who may: `git` verifies, with OpenSSH's keys.
//!
//! Facts: `gpg.ssh.allowedSignersFile` of git-config(1), ALLOWED SIGNERS of ssh-keygen(1). A signature
//! of another kind (`OpenPGP`, X.509) is by no key of that file and does not count.

use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository};

use super::program::Git;
use super::{Error, Place};

/// Why a revision is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no list of keys.
    #[error(
        "no allowed signers: name the file with --allowed-signers, or set git's `gpg.ssh.allowedSignersFile`"
    )]
    NoList,
    /// The list of keys cannot be read.
    #[error("the allowed signers {} cannot be read: {why}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// Neither commit nor tag has a good signature.
    #[error("revision `{rev}` ({commit}) has no good signature by a key of the allowed signers: {why}")]
    NotSigned {
        /// The revision as it was named.
        rev: String,
        /// The commit.
        commit: Oid,
        /// What is wrong.
        why: String,
    },
    /// The revision cannot be found.
    #[error(transparent)]
    Git(#[from] Error),
}

/// Refuses a revision unless its commit, or the annotated tag that names it, has a good signature by
/// a key of `allowed` (git's configuration where `None`).
pub fn verify(place: &Place, rev: &str, allowed: Option<&Path>) -> Result<(), Refused> {
    let repository = place.open()?;
    let commit = place.resolve(&repository, rev)?;
    let allowed = signers(&repository, allowed)?;
    let tag = repository.revparse_single(rev).ok().filter(|object| object.kind() == Some(ObjectType::Tag));
    let tag = tag.map(|tag| check(&repository, place, tag.id(), "verify-tag", &allowed));
    let verdict = match tag {
        Some(Ok(())) => Ok(()),
        _ => check(&repository, place, commit, "verify-commit", &allowed),
    };
    verdict.map_err(|why| Refused::NotSigned { rev: rev.to_owned(), commit, why })
}

fn signers(repository: &Repository, named: Option<&Path>) -> Result<PathBuf, Refused> {
    let file = if let Some(file) = named {
        file.to_owned()
    } else {
        let config = repository.config().and_then(|config| config.get_path("gpg.ssh.allowedSignersFile"));
        config.map_err(|_| Refused::NoList)?
    };
    let absolute = std::path::absolute(&file).and_then(|file| std::fs::File::open(&file).map(|_| file));
    absolute.map_err(|e| Refused::Unreadable { file, why: e.to_string() })
}

fn check(repository: &Repository, place: &Place, oid: Oid, what: &str, allowed: &Path) -> Result<(), String> {
    let raw = repository.odb().and_then(|odb| Ok(odb.read(oid)?.data().to_vec()));
    let raw = raw.map_err(|e| e.message().to_owned())?;
    if !String::from_utf8_lossy(&raw).contains("-----BEGIN ") {
        return Err("it is not signed".to_owned());
    }
    let git = Git::new(&place.git_dir, what)
        .config("gpg.ssh.allowedSignersFile", &allowed.to_string_lossy())
        // Keys of other kinds are in no such file.
        .config("gpg.program", "false")
        .config("gpg.openpgp.program", "false")
        .config("gpg.x509.program", "false");
    git.arg(oid.to_string()).run().map(drop).map_err(|e| e.to_string())
}
