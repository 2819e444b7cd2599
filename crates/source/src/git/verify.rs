//! Verifies that a revision is signed by an allowed signer, with `git`: by OpenSSH or `OpenPGP` keys.
//!
//! Facts: `gpg.ssh.allowedSignersFile` of git-config(1), ALLOWED SIGNERS of ssh-keygen(1), git-verify-commit(1).
//! Signatures by X.509 certificates do not count, because no list names them.
//!
//! Signatures must be good when the revision is read: a key that has expired since does not count, whatever time the
//! committer or the tagger wrote down.
//!
//! The object that is read is the object that is verified, by its id. libgit2 hashes every object that it
//! reads and compares the hash with the id, and both libgit2 and git detect SHA-1 collisions (sha1dc). The
//! user decides whose keys may sign; the repository's configuration and files have no influence.

use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Oid, Repository};

use super::openpgp;
use super::program::{self, GitCommand};
use super::signers::{AllowedSigners, KeyFiles};
use super::verify_error::NO_SIGNATURE;
pub use super::verify_error::VerifyError;
use super::{AnnotatedTag, Error, GitLocation, ResolvedRevision, resolve};

/// How long a signature may take: a compressed one could go on for very long.
const VERIFY_TIMEOUT: Duration = Duration::from_mins(1);

/// Refuses a revision unless its commit, or the annotated tag that names it, has a valid signature by a key
/// in `allowed`.
pub fn verify_revision(
    location: &GitLocation,
    resolved: &ResolvedRevision,
    allowed: AllowedSigners<'_>,
) -> Result<(), VerifyError> {
    let tag = match &resolved.tag {
        // Under another name, even a signed commit is not what the name promises.
        Some(tag) => {
            check_tag_name(tag, &resolved.rev).map_err(|why| not_signed(resolved, why))?;
            verify_tag(location, resolved, allowed)
        }
        None => Err(VerifyError::NoTag(resolved.rev.clone())),
    };
    match tag {
        Err(of_tag @ (VerifyError::NotSigned { .. } | VerifyError::NoTag(_))) => {
            verify_commit(location, resolved, allowed).map_err(|of_commit| {
                // What is wrong with a signature says more than that there is none.
                if of_commit.is_unsigned() && !of_tag.is_unsigned() { of_tag } else { of_commit }
            })
        }
        tag => tag,
    }
}

/// Refuses a revision unless it names an annotated tag with a valid signature.
pub fn verify_tag(
    location: &GitLocation,
    resolved: &ResolvedRevision,
    allowed: AllowedSigners<'_>,
) -> Result<(), VerifyError> {
    let Some(tag) = &resolved.tag else { return Err(VerifyError::NoTag(resolved.rev.clone())) };
    let (repository, allowed) = open_with_keys(location, resolved, allowed)?;
    check_tag_name(tag, &resolved.rev)
        .and_then(|()| check_signature(&repository, tag.id, "verify-tag", &allowed))
        .map_err(|why| not_signed(resolved, why))
}

/// Refuses a revision unless its commit has a valid signature.
pub fn verify_commit(
    location: &GitLocation,
    resolved: &ResolvedRevision,
    allowed: AllowedSigners<'_>,
) -> Result<(), VerifyError> {
    let (repository, allowed) = open_with_keys(location, resolved, allowed)?;
    check_signature(&repository, resolved.commit, "verify-commit", &allowed)
        .map_err(|why| not_signed(resolved, why))
}

/// The repository, and the keys of the allowed signers.
fn open_with_keys(
    location: &GitLocation,
    resolved: &ResolvedRevision,
    allowed: AllowedSigners<'_>,
) -> Result<(Repository, KeyFiles), VerifyError> {
    let repository = location.open_repository()?;
    let file = match allowed {
        AllowedSigners::Texts(texts) => return Ok((repository, KeyFiles::from_texts(texts)?)),
        AllowedSigners::File(file) => file.to_owned(),
        AllowedSigners::Configured => configured_signers_file(&repository)?,
    };
    let (allowed, text) = std::path::absolute(&file)
        .and_then(|allowed| std::fs::read(&allowed).map(|text| (allowed, text)))
        .map_err(|why| VerifyError::Unreadable { file: file.clone(), why: why.to_string() })?;
    match path_in_repository(&repository, location, &allowed, resolved.commit)? {
        Some(path) => Err(VerifyError::OwnList { file: allowed, path }),
        None => Ok((repository, KeyFiles::from_file(&allowed, &text)?)),
    }
}

fn not_signed(resolved: &ResolvedRevision, why: String) -> VerifyError {
    VerifyError::NotSigned { rev: resolved.rev.clone(), commit: resolved.commit, why }
}

/// Checks the tag's name, which its signature covers: otherwise anyone who can move tags could give an old
/// release a new name.
fn check_tag_name(tag: &AnnotatedTag, rev: &str) -> Result<(), String> {
    match &tag.found_as {
        Some(name) if *name == tag.name => Ok(()),
        None if rev.len() >= 7 && tag.id.to_string().starts_with(&rev.to_ascii_lowercase()) => Ok(()),
        found => Err(format!(
            "the tag object is named `{}`, but the ref is `{}`; use the tag's own name, and fetch it again if \
             that is what you did",
            tag.name,
            found.as_deref().unwrap_or(rev)
        )),
    }
}

/// The file with allowed signers in the user's git configuration.
fn configured_signers_file(repository: &Repository) -> Result<PathBuf, VerifyError> {
    let git = GitCommand::new(repository, "config").arg("--type=path").arg("--get");
    match git.arg("gpg.ssh.allowedSignersFile").run() {
        Ok(said) => Ok(PathBuf::from(said.trim_end_matches('\n'))),
        Err(program::Error::Failed { code: Some(1), .. }) => Err(VerifyError::NoList),
        Err(error) => Err(error.into()),
    }
}

/// The program of the user's git configuration that verifies signatures by SSH keys.
fn ssh_keygen(repository: &Repository) -> String {
    let git = GitCommand::new(repository, "config").arg("--type=path").arg("--get").arg("gpg.ssh.program");
    let named = git.run().ok().map(|said| said.trim_end_matches('\n').to_owned());
    named.filter(|named| !named.is_empty()).unwrap_or_else(|| "ssh-keygen".to_owned())
}

/// The path of a file within the repository: in the revision, or in the work tree.
fn path_in_repository(
    repository: &Repository,
    location: &GitLocation,
    file: &Path,
    commit: Oid,
) -> Result<Option<String>, Error> {
    let Some(work_tree) = &location.work_tree else { return Ok(None) };
    let head = repository.head().and_then(|head| head.peel_to_commit()).map(|commit| commit.id()).ok();
    let parent = file.parent().and_then(|parent| parent.canonicalize().ok());
    let beside = parent.zip(file.file_name()).map(|(parent, name)| parent.join(name));
    for path in [Some(file.to_owned()), beside, file.canonicalize().ok()].into_iter().flatten() {
        let Ok(path) = path.strip_prefix(work_tree) else { continue };
        let path = path.to_string_lossy().into_owned();
        for commit in head.into_iter().chain([commit]) {
            if resolve::contains_path(repository, commit, &path).map_err(|e| location.to_unreadable(&e))? {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

fn check_signature(repository: &Repository, oid: Oid, what: &str, allowed: &KeyFiles) -> Result<(), String> {
    let raw = repository.odb().and_then(|odb| Ok(odb.read(oid)?.data().to_vec()));
    let raw = raw.map_err(|e| e.message().to_owned())?;
    let raw = String::from_utf8_lossy(&raw);
    if !raw.contains("-----BEGIN ") {
        return Err(NO_SIGNATURE.to_owned());
    }
    let ssh_program = allowed.ssh_program(&ssh_keygen(repository)).map_err(|error| error.to_string())?;
    let keyring = allowed.openpgp.as_ref();
    let gpg = keyring.map_or("false", |_| openpgp::GPG_PROGRAM);
    let mut git = GitCommand::new(repository, what)
        .override_config("gpg.ssh.allowedSignersFile", &allowed.ssh.to_string_lossy())
        .override_config("gpg.ssh.program", &ssh_program.to_string_lossy())
        .override_config("gpg.program", gpg)
        .override_config("gpg.openpgp.program", gpg)
        // Nothing lists certificates.
        .override_config("gpg.x509.program", "false");
    if let Some(keyring) = keyring {
        // The list says whom to trust, and gpg nothing about it.
        let trusting = git.override_config("gpg.minTrustLevel", "undefined");
        git = trusting.env(openpgp::GPG_HOME_VARIABLE, keyring.home()).with_timeout(VERIFY_TIMEOUT);
    }
    match (git.arg("--raw").arg(oid.to_string()).run_with_messages(), keyring) {
        (Ok((_, said)), Some(keyring)) => keyring.check_signer(&said),
        (Ok(_), None) => Ok(()),
        (Err(_), None) if raw.contains(openpgp::SIGNATURE_MARK) => Err(openpgp::NO_KEYS.to_owned()),
        (Err(error), _) => {
            Err(openpgp::explain_refusal(&error.to_string()).unwrap_or_else(|| error.to_string()))
        }
    }
}
