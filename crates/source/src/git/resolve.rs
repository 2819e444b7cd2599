//! Resolves revisions. A revision is resolved once, and everything is read and verified by these object ids,
//! so that a branch that moves in the meantime cannot cause one commit to be verified and another to be read.
//!
//! Facts: gitrevisions(7) for the names of revisions, which libgit2 resolves.

use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository};

use super::{Error, GitLocation};

/// A resolved revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRevision {
    /// The revision as given.
    pub rev: String,
    /// The commit, through tags.
    pub commit: Oid,
    /// The annotated tag, if the revision names one.
    pub tag: Option<AnnotatedTag>,
}

/// An annotated tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedTag {
    /// The id of the tag object.
    pub id: Oid,
    /// The name in the tag object, which its signature covers.
    pub name: String,
    /// The name under `refs/tags/` by which it was found; `None` if the revision names it in another way.
    pub found_as: Option<String>,
}

impl GitLocation {
    /// The commit of a revision.
    pub fn resolve_revision(&self, repository: &Repository, rev: &str) -> Result<ResolvedRevision, Error> {
        let found = repository.revparse_ext(rev).and_then(|(object, reference)| {
            let commit = object.peel_to_commit()?.id();
            let tag = object.as_tag().map(|tag| {
                let name = String::from_utf8_lossy(tag.name_bytes()).into_owned();
                let full = reference.as_ref().map(|r| String::from_utf8_lossy(r.name_bytes()).into_owned());
                let found_as = full.map(|full| full.strip_prefix("refs/tags/").unwrap_or(&full).to_owned());
                AnnotatedTag { id: tag.id(), name, found_as }
            });
            Ok(ResolvedRevision { rev: rev.to_owned(), commit, tag })
        });
        found.map_err(|e| {
            let rev = rev.to_owned();
            if repository.is_shallow() && e.code() == ErrorCode::NotFound {
                return Error::Shallow { rev, repository: self.display_folder().to_owned() };
            }
            let why = match e.code() {
                _ if !has_commits(repository) => {
                    "the repository has no commit yet: `git add -A` and `git commit` create one".to_owned()
                }
                ErrorCode::NotFound => suggest_revision(repository, &rev),
                ErrorCode::UnbornBranch => "the branch has no commit yet".to_owned(),
                _ => e.message().to_owned(),
            };
            Error::NoRevision { rev, repository: self.display_folder().to_owned(), why }
        })
    }
}

/// Whether anything names a commit.
pub fn has_commits(repository: &Repository) -> bool {
    let mut references = repository.references().into_iter().flatten().flatten();
    repository.head().is_ok() || references.any(|reference| reference.peel_to_commit().is_ok())
}

/// The likely intended name.
fn suggest_revision(repository: &Repository, rev: &str) -> String {
    let remote = format!("origin/{rev}");
    if repository.revparse_single(&remote).is_ok() {
        return format!("did you mean `{remote}`?");
    }
    let Ok(names) = repository.references_glob("refs/heads/*") else { return String::new() };
    let names = names.filter_map(Result::ok).filter_map(|r| Some(r.shorthand().ok()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "the repository has no branches".to_owned(),
        names => format!("its branches are {}", federate_kubernetes::finding::join_names(names, 10)),
    }
}

/// Splits `REV:PATH`; `None` if there is no revision before the colon. A colon in braces, as in
/// `main@{2026-11-22 10:00}`, belongs to the revision.
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

/// Whether a commit contains the path, or a link or submodule above it.
pub(super) fn contains_path(repository: &Repository, commit: Oid, path: &str) -> Result<bool, git2::Error> {
    let mut tree = repository.find_commit(commit)?.tree()?;
    for part in path.split('/') {
        let found = tree.get_path(Path::new(part)).ok().map(|entry| (entry.id(), entry.kind()));
        match found {
            None => return Ok(false),
            Some((id, Some(ObjectType::Tree))) => tree = repository.find_tree(id)?,
            Some(_) => return Ok(true),
        }
    }
    Ok(true)
}
