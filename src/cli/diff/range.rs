//! The two revisions that `federate diff` compares, in the notation of `git diff`.
//!
//! | `--from` | compares |
//! |---|---|
//! | `main` | where the later side branched off `main`, so that commits that only `main` has are not shown |
//! | `main...feature` | the same, with `feature` as the later side |
//! | `main..feature`, `main..` | exactly these two; nothing after the dots is the work tree |

use std::path::{Path, PathBuf};

use federate_source::git::{self, GitLocation};

use crate::cli::CommandError;
use crate::cli::settings::RepoArgs;

/// The name of the work tree, where a revision would be named.
const WORK_TREE_NAME: &str = "work tree";

/// The two sides of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct RevisionRange {
    /// The earlier revision, as the user named it; `None` to compare releases over the later side alone.
    from: Option<String>,
    /// The later revision; `None` for the work tree.
    pub(in crate::cli) to: Option<String>,
    /// Whether the earlier side is exactly `from`, not where `to` branched off.
    exact: bool,
}

/// The earlier side, resolved.
pub(in crate::cli) struct EarlierSide {
    /// The revision to read.
    pub(in crate::cli) rev: String,
    /// Its name in the report.
    pub(in crate::cli) name: String,
}

impl RevisionRange {
    /// Reads `--from` and `--to`.
    pub(in crate::cli) fn parse(from: Option<&str>, to: Option<&str>) -> Result<Self, CommandError> {
        let Some(from) = from else {
            return Ok(Self { from: None, to: to.map(str::to_owned), exact: true });
        };
        let (from, dots, end) = match from.split_once("...") {
            Some((from, end)) => (from, 3, end),
            None => from.split_once("..").map_or((from, 0, ""), |(from, end)| (from, 2, end)),
        };
        if !end.is_empty() && to.is_some() {
            return Err(CommandError::Failed(format!(
                "--from names both revisions, {from} and {end}: leave --to out"
            )));
        }
        let to = to.map(str::to_owned).or_else(|| (!end.is_empty()).then(|| end.to_owned()));
        Ok(Self {
            from: Some(if from.is_empty() { "HEAD".to_owned() } else { from.to_owned() }),
            to,
            exact: dots == 2,
        })
    }

    /// The name of the later side.
    pub(in crate::cli) fn later_name(&self) -> &str {
        self.to.as_deref().unwrap_or(WORK_TREE_NAME)
    }

    /// Resolves the earlier side; `None` if there is no earlier revision.
    pub(super) fn resolve_earlier(&self, args: &RepoArgs) -> Result<Option<EarlierSide>, CommandError> {
        let Some(from) = &self.from else { return Ok(None) };
        let exactly = Ok(Some(EarlierSide { rev: from.clone(), name: from.clone() }));
        if self.exact {
            return exactly;
        }
        let location = GitLocation::discover_around(&args.repo).map_err(|error| to_command_error(&error))?;
        let repository = location.open_repository().map_err(|error| to_command_error(&error))?;
        let tip =
            location.resolve_revision(&repository, from).map_err(|error| to_command_error(&error))?.commit;
        let later = match &self.to {
            Some(to) => {
                location.resolve_revision(&repository, to).map_err(|error| to_command_error(&error))?.commit
            }
            // A work tree without a commit branched off nothing.
            None => match location.resolve_revision(&repository, "HEAD") {
                Ok(head) => head.commit,
                Err(_) => return exactly,
            },
        };
        match git::merge_base(&repository, tip, later) {
            Some(base) if base == tip => exactly,
            // Back to an older revision: a roll-back is wanted, and it differs in what the older one lacks.
            Some(base) if base == later && self.to.is_some() => exactly,
            Some(base) => {
                let rev = base.to_string();
                let name = format!("{from} (merge base {})", rev.get(..10).unwrap_or(&rev));
                Ok(Some(EarlierSide { rev, name }))
            }
            None => Err(no_merge_base(from, self.later_name(), repository.is_shallow())),
        }
    }
}

fn to_command_error(error: &git::Error) -> CommandError {
    CommandError::Failed(error.to_string())
}

/// Tells revisions and the folder of the repo apart among words. The folder is that of the repo, if it is named.
pub(super) fn split_words(words: &[String]) -> Result<(Vec<String>, Option<PathBuf>), CommandError> {
    let folder = words.iter().find(|word| Path::new(word).is_dir()).cloned();
    let location = GitLocation::discover_around(Path::new(folder.as_deref().unwrap_or("."))).ok();
    let repository = location.as_ref().and_then(|location| location.open_repository().ok());
    let (mut revisions, mut folders) = (Vec::new(), Vec::new());
    for word in words {
        // A path is written as one: `.`, `./deploy`, `/srv/deploy`.
        let is_path = word == "."
            || word == ".."
            || word.starts_with(['/'])
            || word.starts_with("./")
            || word.starts_with("../");
        // The revisions that a word names, if it names any.
        let named = match word.split_once("..") {
            _ if is_path => None,
            Some((from, to)) if from.is_empty() && to.trim_start_matches('.').is_empty() => None,
            Some((from, to)) => Some([from, to.strip_prefix('.').unwrap_or(to)]),
            None => Some([word.as_str(), ""]),
        };
        let is_revision = named.is_some_and(|revisions| {
            revisions.into_iter().filter(|rev| !rev.is_empty()).all(|rev| {
                let resolved = location.as_ref().zip(repository.as_ref());
                resolved
                    .is_some_and(|(location, repository)| location.resolve_revision(repository, rev).is_ok())
            })
        });
        match (Path::new(word).is_dir(), is_revision) {
            (true, false) => folders.push(PathBuf::from(word)),
            (false, true) => revisions.push(word.clone()),
            (true, true) => {
                return Err(CommandError::Failed(format!(
                    "`{word}` is both a folder and a revision: write `./{word}` for the folder, or `--from {word}` for the \
                     revision"
                )));
            }
            (false, false) => {
                return Err(CommandError::Failed(format!(
                    "`{word}` is neither a folder nor a revision{}; for a folder that only a revision has, name the revision \
                     with --from",
                    if repository.is_none() { " (there is no git repository here)" } else { "" }
                )));
            }
        }
    }
    match folders.as_slice() {
        [] => Ok((revisions, None)),
        [folder] => Ok((revisions, Some(folder.clone()))),
        [first, second, ..] => Err(CommandError::Failed(format!(
            "{} and {} are two folders: name one, and its parts with --path",
            first.display(),
            second.display()
        ))),
    }
}

/// The default base: the default branch of the remote.
pub(in crate::cli) fn default_base(args: &RepoArgs) -> Result<String, CommandError> {
    let repository = GitLocation::discover_around(&args.repo)
        .and_then(|location| location.open_repository())
        .map_err(|error| CommandError::Failed(error.to_string()))?;
    git::default_branch(&repository).ok_or_else(|| {
        if !git::has_commits(&repository) {
            return CommandError::Failed(
                "there is nothing to compare with: the repository has no commit yet (`git add -A` and `git commit` \
                 create one)"
                    .to_owned(),
            );
        }
        CommandError::Failed(
            "no default branch to compare with: neither origin/HEAD nor a branch main or master exists; name one \
             with --from"
                .to_owned(),
        )
    })
}

fn no_merge_base(from: &str, to: &str, shallow: bool) -> CommandError {
    let to = if to == WORK_TREE_NAME { "HEAD" } else { to };
    let why = if shallow {
        "the clone is shallow: fetch more with `git fetch --unshallow`, or clone with `fetch-depth: 0`"
    } else {
        "their histories have no commit in common"
    };
    CommandError::Failed(format!(
        "cannot find where {to} branched off {from}: {why}; to compare with {from} itself, write --from {from}.."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_git_diff() {
        for (from, to, expected) in [
            ("main", None, ("main", None, false)),
            ("main", Some("v2"), ("main", Some("v2"), false)),
            ("main...v2", None, ("main", Some("v2"), false)),
            ("main...", None, ("main", None, false)),
            ("main..v2", None, ("main", Some("v2"), true)),
            ("main..", None, ("main", None, true)),
            ("..v2", None, ("HEAD", Some("v2"), true)),
        ] {
            let range = RevisionRange::parse(Some(from), to).unwrap();
            assert_eq!(
                (range.from.as_deref(), range.to.as_deref(), range.exact),
                (Some(expected.0), expected.1, expected.2)
            );
        }
        assert!(RevisionRange::parse(Some("main..v1"), Some("v2")).is_err());
    }
}
