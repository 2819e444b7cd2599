//! `federate sync history`, and the revisions that a Sync can return to.

use clap::Args;
use serde::Serialize;

use super::failed;
use super::get::{StateArgs, find_status};
use super::table::format_columns;
use super::target::Target;
use crate::cli::settings::Format;
use crate::cli::{Exit, Fault, print, print_value};
use federate_sync_api::status::{Entry, Reason, Status, commit_of};

/// The characters that a commit has.
const COMMIT: usize = 40;
/// The characters that name a commit at least.
const PREFIX: usize = 4;

/// Show the last rounds, with their revisions
///
/// The status keeps the last ten rounds that ended differently than the one before. `federate sync rollback` returns to a
/// revision that succeeded.
#[derive(Debug, Args)]
pub(super) struct History {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    state: StateArgs,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

/// The rounds of a Sync.
#[derive(Serialize)]
struct HistoryList<'h> {
    name: String,
    history: &'h [Entry],
}

impl History {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let (sync, status) = find_status(&self.target, &self.state)?;
        if self.output != Format::Table {
            let list = HistoryList { name: sync.full_name(), history: &status.history };
            return print_value(&list, self.output).map(|()| Exit::Clean);
        }
        let rows = status.history.iter().map(|entry| {
            let revision = entry.revision.clone().unwrap_or_default();
            [format!("{:.0}", entry.time), revision, entry.reason.clone(), entry.message.clone()]
        });
        print(&format_columns(["TIME", "REVISION", "REASON", "MESSAGE"], &rows.collect::<Vec<_>>()))?;
        Ok(Exit::Clean)
    }
}

/// A revision to return to.
pub(super) struct FormerRevision {
    /// Its commit.
    pub(super) commit: String,
    /// As it is shown to people.
    pub(super) shown: String,
}

/// The revision that a Sync returns to: one that succeeded, or any commit that is named in full.
pub(super) fn find_rollback(status: &Status, wanted: Option<&str>) -> Result<FormerRevision, String> {
    let succeeded = status.history.iter().filter(|entry| {
        entry.reason == Reason::ReconciliationSucceeded.name()
            && entry.revision.as_deref().is_some_and(|revision| revision.contains("sha1:"))
    });
    let mut known = succeeded.filter_map(|entry| entry.revision.as_deref());
    let found = |shown: &str| FormerRevision { commit: commit_of(shown).to_owned(), shown: shown.to_owned() };
    let Some(wanted) = wanted else {
        let now = status.last_applied_revision.as_deref().map(commit_of);
        return known.find(|shown| Some(commit_of(shown)) != now).map(found).ok_or_else(|| {
            "the history has no other revision that succeeded: name the full hash of a commit".to_owned()
        });
    };
    let commit = commit_of(wanted).to_ascii_lowercase();
    let is_hash = commit.len() >= PREFIX && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let matching = known.find(|shown| is_hash && commit_of(shown).starts_with(&commit));
    match matching {
        Some(shown) => Ok(found(shown)),
        None if is_hash && commit.len() == COMMIT => {
            Ok(FormerRevision { shown: format!("sha1:{commit}"), commit })
        }
        None => Err(format!(
            "the history has no revision `{wanted}` that succeeded: `federate sync history` lists them; any other \
             commit must be named by its full hash"
        )),
    }
}

/// The error about a Sync that has no status.
pub(super) fn no_status(name: &str) -> Fault {
    failed(format!("there is no status of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let entry = |letter: &str, reason: &str| Entry {
            time: jiff::Timestamp::UNIX_EPOCH,
            revision: Some(format!("main@sha1:{}", letter.repeat(COMMIT))),
            reason: reason.to_owned(),
            message: String::new(),
        };
        Status {
            history: vec![
                entry("d", "ReconciliationSucceeded"),
                entry("c", "BuildFailed"),
                entry("b", "ReconciliationSucceeded"),
                entry("a", "ReconciliationSucceeded"),
            ],
            last_applied_revision: Some(format!("main@sha1:{}", "d".repeat(COMMIT))),
            ..Status::default()
        }
    }

    #[test]
    fn a_sync_returns_to_a_revision_that_succeeded() {
        fn commit(wanted: Option<&str>) -> Result<String, String> {
            find_rollback(&status(), wanted).map(|found| found.commit)
        }
        assert_eq!(commit(None), Ok("b".repeat(COMMIT)));
        assert_eq!(commit(Some("aaaa")), Ok("a".repeat(COMMIT)));
        assert_eq!(commit(Some(&format!("main@sha1:{}", "a".repeat(COMMIT)))), Ok("a".repeat(COMMIT)));
        assert_eq!(commit(Some(&"e".repeat(COMMIT))), Ok("e".repeat(COMMIT)), "a full hash");
        for wrong in ["cccc", "aa", "eeee", "main", ""] {
            assert!(commit(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
