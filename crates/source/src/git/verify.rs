//! Whether a revision is signed by somebody who may: `git` verifies, with OpenSSH's keys.
//!
//! Facts: `gpg.ssh.allowedSignersFile` of git-config(1), ALLOWED SIGNERS of ssh-keygen(1). A signature
//! of another kind (`OpenPGP`, X.509) is by no key of that file and does not count.
//!
//! What is verified is the object that is read, by its id. libgit2 hashes every object that it reads and
//! compares that with the id, and both it and git detect SHA-1 collisions (sha1dc). Whose keys may sign is
//! the user's to say: neither the repository's configuration nor a file in it does.

use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::program::{self, Git};
use super::{Error, Place, Resolved, Tag, resolve};

/// Why a revision is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no list of keys.
    #[error(
        "no allowed signers: name the file with --allowed-signers, or set git's `gpg.ssh.allowedSignersFile` \
         in your own configuration (`git config --global`); the repository's does not count"
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
    /// The list of keys is a file of the repository.
    #[error(
        "the allowed signers {} are `{path}` of the repository itself, so whoever writes to it could sign: \
         keep them outside of it", .file.display()
    )]
    OwnList {
        /// The file.
        file: PathBuf,
        /// Its path in the repository.
        path: String,
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
    /// The revision is not an annotated tag, which alone can be signed.
    #[error("revision `{0}` has no signed tag: it does not name an annotated tag")]
    NoTag(String),
    /// The revision cannot be found.
    #[error(transparent)]
    Git(#[from] Error),
    /// The `git` program failed.
    #[error(transparent)]
    Program(#[from] program::Error),
}

/// Refuses a revision unless its commit, or the annotated tag that names it, has a good signature by
/// a key of `allowed` (of the user's git configuration where `None`).
pub fn verify(place: &Place, resolved: &Resolved, allowed: Option<&Path>) -> Result<(), Refused> {
    let tag = match &resolved.tag {
        // Under another name, not even a signed commit is what the name promises.
        Some(tag) => {
            named_by(tag, &resolved.rev).map_err(|why| refused(resolved, why))?;
            verify_tag(place, resolved, allowed)
        }
        None => Err(Refused::NoTag(resolved.rev.clone())),
    };
    match tag {
        Err(Refused::NotSigned { .. } | Refused::NoTag(_)) => verify_commit(place, resolved, allowed),
        tag => tag,
    }
}

/// Refuses a revision unless it names an annotated tag that has a good signature.
pub fn verify_tag(place: &Place, resolved: &Resolved, allowed: Option<&Path>) -> Result<(), Refused> {
    let Some(tag) = &resolved.tag else { return Err(Refused::NoTag(resolved.rev.clone())) };
    let (repository, allowed) = prepare(place, resolved, allowed)?;
    named_by(tag, &resolved.rev)
        .and_then(|()| check(&repository, tag.id, "verify-tag", &allowed))
        .map_err(|why| refused(resolved, why))
}

/// Refuses a revision unless its commit has a good signature.
pub fn verify_commit(place: &Place, resolved: &Resolved, allowed: Option<&Path>) -> Result<(), Refused> {
    let (repository, allowed) = prepare(place, resolved, allowed)?;
    check(&repository, resolved.commit, "verify-commit", &allowed).map_err(|why| refused(resolved, why))
}

/// The repository, and the list of keys.
fn prepare(
    place: &Place,
    resolved: &Resolved,
    allowed: Option<&Path>,
) -> Result<(Repository, PathBuf), Refused> {
    let repository = place.open()?;
    let allowed = signers(&repository, allowed)?;
    match own(&repository, place, &allowed, resolved.commit)? {
        Some(path) => Err(Refused::OwnList { file: allowed, path }),
        None => Ok((repository, allowed)),
    }
}

fn refused(resolved: &Resolved, why: String) -> Refused {
    Refused::NotSigned { rev: resolved.rev.clone(), commit: resolved.commit, why }
}

/// A tag object says its name, which its signature covers. Under another name it is not what was signed:
/// whoever can move tags could give an old release a new name.
fn named_by(tag: &Tag, rev: &str) -> Result<(), String> {
    let by_id = || rev.len() >= 7 && tag.id.to_string().starts_with(&rev.to_ascii_lowercase());
    match &tag.found_as {
        Some(name) if *name == tag.name => Ok(()),
        None if by_id() => Ok(()),
        found => Err(format!(
            "the tag object calls itself `{}`, but `{}` leads to it; name the tag itself, and fetch it anew if \
             that is what you did",
            tag.name,
            found.as_deref().unwrap_or(rev)
        )),
    }
}

fn signers(repository: &Repository, named: Option<&Path>) -> Result<PathBuf, Refused> {
    let file = if let Some(file) = named {
        file.to_owned()
    } else {
        let git = Git::new(repository, "config").arg("--type=path").arg("--get");
        match git.arg("gpg.ssh.allowedSignersFile").run() {
            Ok(said) => PathBuf::from(said.trim_end_matches('\n')),
            Err(program::Error::Failed { code: Some(1), .. }) => return Err(Refused::NoList),
            Err(error) => return Err(error.into()),
        }
    };
    let absolute = std::path::absolute(&file).and_then(|file| std::fs::File::open(&file).map(|_| file));
    absolute.map_err(|e| Refused::Unreadable { file, why: e.to_string() })
}

/// The path of a file that is one of the repository's own: of the revision, or of what is checked out.
fn own(repository: &Repository, place: &Place, file: &Path, commit: Oid) -> Result<Option<String>, Error> {
    let Some(work_tree) = &place.work_tree else { return Ok(None) };
    let head = repository.head().and_then(|head| head.peel_to_commit()).map(|commit| commit.id()).ok();
    let parent = file.parent().and_then(|parent| parent.canonicalize().ok());
    let beside = parent.zip(file.file_name()).map(|(parent, name)| parent.join(name));
    for path in [Some(file.to_owned()), beside, file.canonicalize().ok()].into_iter().flatten() {
        let Ok(path) = path.strip_prefix(work_tree) else { continue };
        let path = path.to_string_lossy().into_owned();
        for commit in head.into_iter().chain([commit]) {
            if resolve::holds(repository, commit, &path).map_err(|e| place.unreadable(&e))? {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

fn check(repository: &Repository, oid: Oid, what: &str, allowed: &Path) -> Result<(), String> {
    let raw = repository.odb().and_then(|odb| Ok(odb.read(oid)?.data().to_vec()));
    let raw = raw.map_err(|e| e.message().to_owned())?;
    if !String::from_utf8_lossy(&raw).contains("-----BEGIN ") {
        return Err("it is not signed".to_owned());
    }
    let git = Git::new(repository, what)
        .config("gpg.ssh.allowedSignersFile", &allowed.to_string_lossy())
        // Keys of other kinds are in no such file.
        .config("gpg.program", "false")
        .config("gpg.openpgp.program", "false")
        .config("gpg.x509.program", "false");
    git.arg(oid.to_string()).run().map(drop).map_err(|e| e.to_string())
}
