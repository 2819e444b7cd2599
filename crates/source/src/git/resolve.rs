//! What a revision names. It is resolved once: whatever is read or verified of it afterwards goes by these
//! object ids, so that a branch which moves meanwhile cannot have one commit verified and another read.
//!
//! Facts: gitrevisions(7) for how revisions are named (libgit2 resolves them).

use git2::{ErrorCode, ObjectType, Oid, Repository};

use super::{Error, Place};

/// A revision, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The revision as it was named.
    pub rev: String,
    /// The commit that it names, through tags.
    pub commit: Oid,
    /// The annotated tag that it names.
    pub tag: Option<Tag>,
}

/// An annotated tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The tag object.
    pub id: Oid,
    /// The name that the tag object, and so its signature, says.
    pub name: String,
    /// The name under `refs/tags/` by which it was found; `None` where the revision names it otherwise.
    pub found_as: Option<String>,
}

impl Place {
    /// The commit that a revision names.
    pub fn resolve(&self, repository: &Repository, rev: &str) -> Result<Resolved, Error> {
        let found = repository.revparse_ext(rev).and_then(|(object, reference)| {
            let commit = object.peel_to_commit()?.id();
            let tag = object.as_tag().map(|tag| {
                let name = String::from_utf8_lossy(tag.name_bytes()).into_owned();
                let full = reference.as_ref().map(|r| String::from_utf8_lossy(r.name_bytes()).into_owned());
                let found_as = full.map(|full| full.strip_prefix("refs/tags/").unwrap_or(&full).to_owned());
                Tag { id: tag.id(), name, found_as }
            });
            Ok(Resolved { rev: rev.to_owned(), commit, tag })
        });
        found.map_err(|e| {
            let rev = rev.to_owned();
            if repository.is_shallow() && e.code() == ErrorCode::NotFound {
                return Error::Shallow { rev, repository: self.shown().to_owned() };
            }
            let why = match e.code() {
                ErrorCode::NotFound => remedy(repository, &rev),
                ErrorCode::UnbornBranch => "the branch has no commit yet".to_owned(),
                _ => e.message().to_owned(),
            };
            Error::NoRevision { rev, repository: self.shown().to_owned(), why }
        })
    }
}

/// What a reader may have meant.
fn remedy(repository: &Repository, rev: &str) -> String {
    let remote = format!("origin/{rev}");
    if repository.revparse_single(&remote).is_ok() {
        return format!("there is `{remote}`");
    }
    let Ok(names) = repository.references_glob("refs/heads/*") else { return String::new() };
    let names = names.filter_map(Result::ok).filter_map(|r| Some(r.shorthand().ok()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "it has no branch at all".to_owned(),
        names => format!("its branches are {}", federate_kubernetes::finding::list(names, 10)),
    }
}

/// Splits `REV:PATH`; `None` where no revision stands before the colon. Colons in braces, as in
/// `main@{2026-11-22 10:00}`, belong to the revision.
pub fn rev_and_path(spec: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let colon = spec.char_indices().find(|(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == ':' && depth == 0
    });
    let (at, _) = colon?;
    let (rev, path) = (spec.get(..at)?, spec.get(at + 1..)?);
    (!rev.is_empty() && !path.is_empty()).then_some((rev, path))
}

/// Whether a commit holds what is at a path, or a link or submodule on the way there.
pub(super) fn holds(repository: &Repository, commit: Oid, path: &str) -> Result<bool, git2::Error> {
    let mut tree = repository.find_commit(commit)?.tree()?;
    for part in path.split('/') {
        let found = tree.get_name(part).map(|entry| (entry.id(), entry.kind()));
        match found {
            None => return Ok(false),
            Some((id, Some(ObjectType::Tree))) => tree = repository.find_tree(id)?,
            Some(_) => return Ok(true),
        }
    }
    Ok(true)
}
