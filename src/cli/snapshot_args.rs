//! `--snapshot`: what `federate snapshot` wrote, as an input of other commands.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::CommandError;
use super::access::parse_duration;
use super::revision::{RepoSource, RevisionArgs};
use federate_dialects::DIALECTS;
use federate_engine::snapshot::StoredSnapshot;
use federate_report::clusters::SnapshotAge;
use federate_source::WorkTree;

/// The arguments about a snapshot.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repo options")]
pub(super) struct SnapshotArgs {
    /// The state of the clusters, as `federate snapshot` wrote it: a folder, or REV:PATH
    ///
    /// The inventory of the repo gets the status and the taints of the snapshot; a repo without inventory gets
    /// its clusters. The snapshot's placements are the scheduler's memory unless --previous or --fresh is
    /// given, its objects are those that run unless --observed is given, and its time is that of --now.
    #[arg(long, value_name = "DIR|REV:PATH")]
    snapshot: Option<PathBuf>,

    /// Refuse a snapshot that is older than this (36h, 7d)
    ///
    /// The age is counted until --now, or else until the current time.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "snapshot", hide_short_help = true)]
    max_age: Option<Duration>,

    /// The snapshot, once it is read.
    #[arg(skip)]
    read: OnceLock<Arc<StoredSnapshot>>,
}

impl SnapshotArgs {
    /// Whether a snapshot is given.
    pub(super) fn is_given(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Decides by a state that was just read, which is not stored.
    pub(super) fn observe_state(&self, stored: StoredSnapshot) {
        let _ = self.read.set(Arc::new(stored));
    }

    /// Reads the snapshot, once.
    pub(super) fn read_snapshot(
        &self,
        repo: &Path,
        revision: &RevisionArgs,
        now: Option<Timestamp>,
    ) -> Result<Option<Arc<StoredSnapshot>>, CommandError> {
        if let Some(stored) = self.read.get() {
            return Ok(Some(stored.clone()));
        }
        let Some(path) = &self.snapshot else { return Ok(None) };
        let opened = match revision.open_folder(repo, path.to_str().unwrap_or_default())? {
            Some(opened) => Ok(opened),
            None => WorkTree::open(path).map(RepoSource::WorkTree).map_err(|finding| finding.message),
        };
        let stored = opened.and_then(|opened| {
            let stored = StoredSnapshot::read_folder(DIALECTS, opened.source(), &path.to_string_lossy())?;
            if let Some(limit) = self.max_age {
                check_age(&stored, limit, now.unwrap_or_else(Timestamp::now))?;
            }
            Ok(stored)
        });
        let stored = stored.map_err(|why| {
            CommandError::Failed(format!("cannot read the snapshot {}: {why}", path.display()))
        })?;
        Ok(Some(self.read.get_or_init(|| Arc::new(stored)).clone()))
    }

    /// When the snapshot was taken, and how old it is at the time `now`; `None` for a state that was just read.
    pub(super) fn snapshot_age(&self, stored: &StoredSnapshot, now: Timestamp) -> Option<SnapshotAge> {
        let path = self.snapshot.as_ref()?.display().to_string();
        let age_seconds = stored.taken.map(|taken| now.duration_since(taken).as_secs());
        let taken = stored.taken.map(|taken| taken.to_string());
        Some(SnapshotAge { path, taken, age_seconds, failed: stored.failed.clone() })
    }

    /// The snapshot's folder within the repo, if it is there: its files are not part of the repo.
    pub(super) fn folder_in(&self, repo: &Path) -> Option<String> {
        path_within(repo, self.snapshot.as_deref()?)
    }
}

/// The path of a folder within the repo, if it is there and not the repo itself.
pub(super) fn path_within(repo: &Path, folder: &Path) -> Option<String> {
    let folder = WorkTree::open(repo).ok()?.relative_path(folder)?;
    Some(folder).filter(|folder| !folder.is_empty())
}

fn check_age(stored: &StoredSnapshot, limit: Duration, now: Timestamp) -> Result<(), String> {
    let Some(taken) = stored.taken else {
        return Err("it does not say when it was taken, so --max-age cannot be checked; take it with --now"
            .to_owned());
    };
    let age = now.duration_since(taken);
    if age.unsigned_abs() > limit && age.is_positive() {
        let limit = jiff::SignedDuration::try_from(limit).unwrap_or(jiff::SignedDuration::MAX);
        return Err(format!(
            "it was taken at {taken}, {age:#} ago, and --max-age is {limit:#}; take a new one"
        ));
    }
    Ok(())
}
