//! `federate sync history`, and the revisions that a Sync can return to.

use clap::Args;
use serde::Serialize;

use super::get::{StateArgs, find_status};
use super::table::format_columns;
use super::target::SyncTarget;
use crate::cli::settings::OutputFormat;
use crate::cli::{CommandError, Exit, print_text, print_value};
use federate_sync_api::status::{HistoryEntry, SyncReason, SyncStatus, find_commit};

/// The characters that a commit has.
const COMMIT_LENGTH: usize = 40;
/// The characters that name a commit at least.
const MIN_PREFIX_LENGTH: usize = 4;

/// Show the last rounds, with their revisions
///
/// The status keeps the last ten rounds that ended differently than the one before. `federate sync rollback` returns to a
/// revision that succeeded.
#[derive(Debug, Args)]
pub(super) struct HistoryCommand {
    #[command(flatten)]
    target: SyncTarget,

    #[command(flatten)]
    state: StateArgs,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,
}

/// The rounds of a Sync.
#[derive(Serialize)]
struct HistoryList<'h> {
    name: String,
    history: &'h [HistoryEntry],
}

impl HistoryCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let (sync, status) = find_status(&self.target, &self.state)?;
        if self.output != OutputFormat::Table {
            let list = HistoryList { name: sync.full_name(), history: &status.history };
            return print_value(&list, self.output).map(|()| Exit::Clean);
        }
        let rows = status.history.iter().map(|entry| {
            let revision = entry.revision.clone().unwrap_or_default();
            [format!("{:.0}", entry.time), revision, entry.reason.clone(), entry.message.clone()]
        });
        print_text(&format_columns(["TIME", "REVISION", "REASON", "MESSAGE"], &rows.collect::<Vec<_>>()))?;
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
pub(super) fn find_rollback(status: &SyncStatus, requested: Option<&str>) -> Result<FormerRevision, String> {
    let succeeded = status.history.iter().filter(|entry| {
        entry.reason == SyncReason::ReconciliationSucceeded.name()
            && entry.revision.as_deref().is_some_and(|revision| revision.contains("sha1:"))
    });
    let mut known = succeeded.filter_map(|entry| entry.revision.as_deref());
    let Some(requested) = requested else {
        let now = status.last_applied_revision.as_deref().map(find_commit);
        let other = known.find(|shown| Some(find_commit(shown)) != now).ok_or_else(|| {
            "the history has no other revision that succeeded: name the full hash of a commit".to_owned()
        })?;
        return Ok(FormerRevision { commit: find_commit(other).to_owned(), shown: other.to_owned() });
    };
    let commit = find_commit(requested).to_ascii_lowercase();
    let is_hash = commit.len() >= MIN_PREFIX_LENGTH && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let matching = known.find(|shown| is_hash && find_commit(shown).starts_with(&commit));
    match matching {
        Some(shown) => Ok(FormerRevision { commit: find_commit(shown).to_owned(), shown: shown.to_owned() }),
        None if is_hash && commit.len() == COMMIT_LENGTH => {
            Ok(FormerRevision { shown: format!("sha1:{commit}"), commit })
        }
        None => Err(format!(
            "the history has no revision `{requested}` that succeeded: `federate sync history` lists them; any other \
             commit must be named by its full hash"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> SyncStatus {
        let entry = |letter: &str, reason: &str| HistoryEntry {
            time: jiff::Timestamp::UNIX_EPOCH,
            revision: Some(format!("main@sha1:{}", letter.repeat(COMMIT_LENGTH))),
            reason: reason.to_owned(),
            message: String::new(),
        };
        SyncStatus {
            history: vec![
                entry("d", "ReconciliationSucceeded"),
                entry("c", "BuildFailed"),
                entry("b", "ReconciliationSucceeded"),
                entry("a", "ReconciliationSucceeded"),
            ],
            last_applied_revision: Some(format!("main@sha1:{}", "d".repeat(COMMIT_LENGTH))),
            ..SyncStatus::default()
        }
    }

    #[test]
    fn a_sync_returns_to_a_revision_that_succeeded() {
        fn commit(wanted: Option<&str>) -> Result<String, String> {
            find_rollback(&status(), wanted).map(|found| found.commit)
        }
        assert_eq!(commit(None), Ok("b".repeat(COMMIT_LENGTH)));
        assert_eq!(commit(Some("aaaa")), Ok("a".repeat(COMMIT_LENGTH)));
        assert_eq!(
            commit(Some(&format!("main@sha1:{}", "a".repeat(COMMIT_LENGTH)))),
            Ok("a".repeat(COMMIT_LENGTH))
        );
        assert_eq!(commit(Some(&"e".repeat(COMMIT_LENGTH))), Ok("e".repeat(COMMIT_LENGTH)), "a full hash");
        for wrong in ["cccc", "aa", "eeee", "main", ""] {
            assert!(commit(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
