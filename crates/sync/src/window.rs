//! Maintenance windows in a round: outside of them, clusters are only compared. A revision that waits is rendered and checked
//! all the same, so that what is wrong with it is known before a window opens.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use federate_sync_api::progress::short_revision;
use federate_sync_api::status::{SyncReason, WindowStatus, find_commit};
use federate_sync_api::{DriftMode, SyncMetadata, WindowState, find_window_state};
use jiff::Timestamp;

use crate::cluster_tracker::format_count;
use crate::outcome::SyncOutcome;
use crate::reconciliation::{ReconcileError, Reconciliation};
use crate::session_cache::SessionCache;
use crate::source_state::SourceState;
use crate::state::SyncState;

impl Reconciliation<'_> {
    /// The state of the windows of the Sync, if it has any.
    pub(crate) fn find_window(&self, now: Timestamp) -> Option<WindowState> {
        find_window_state(&self.spec.windows, now)
    }

    /// Notes in the status whether a window is open, and when the round is repeated because that changes.
    pub(crate) fn note_window(&self, state: &mut SyncState<'_>, sessions: &mut SessionCache) {
        let window = self.window;
        state.record.status.window = window.map(|window| WindowStatus {
            open: window.is_open,
            closes: window.closes,
            opens: window.opens.filter(|_| !window.is_open),
            waiting: None,
        });
        let Some(window) = window else { return };
        let next = if window.is_open { window.closes } else { window.opens };
        let pause = next.map(|next| next.duration_since(Timestamp::now()));
        let pause = pause.map(|pause| Duration::try_from(pause).unwrap_or_default());
        if let Some(at) = pause.and_then(|pause| Instant::now().checked_add(pause)) {
            sessions.resume = Some(sessions.resume.map_or(at, |resume| resume.min(at)));
        }
    }

    /// Whether clusters may be changed now for a revision: a window is open, or a person does not wait for one.
    pub(crate) fn may_change(&self, revision: &str) -> bool {
        let ignored =
            self.loaded.sync.meta.as_ref().and_then(|meta: &SyncMetadata| meta.ignore_windows.as_deref());
        self.loaded.rolls_back
            || self.window.is_none_or(|window| window.is_open)
            || ignored == Some(short_revision(find_commit(revision)))
    }

    /// Whether drift from the revision that was carried out last may be put back now.
    pub(crate) fn may_correct(&self, state: &SyncState<'_>) -> bool {
        self.may_change(state.record.status.last_applied_revision.as_deref().unwrap_or_default())
    }

    /// Whether drift would be put back if a window were open.
    pub(crate) fn puts_off_correction(&self, state: &SyncState<'_>) -> bool {
        self.spec.drift.mode == DriftMode::Correct && !self.may_correct(state)
    }

    /// What is waited for outside of windows, as the end of a sentence.
    pub(crate) fn describe_wait(&self) -> String {
        match self.window.and_then(|window| window.opens) {
            Some(time) => format!("waits for the window that opens at {time:.0}"),
            None => "waits for a window, and none opens within years".to_owned(),
        }
    }

    /// Puts off what would change branches and clusters. `pending` are the clusters that lack a revision which was carried
    /// out elsewhere.
    pub(crate) fn await_window(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        SourceState { checkout: opened, name, .. }: &SourceState,
        pending: Option<&BTreeSet<String>>,
    ) -> Result<SyncOutcome, ReconcileError> {
        if let Some(window) = &mut state.record.status.window {
            window.waiting = Some(name.clone());
        }
        let what = if let Some(pending) = pending {
            let session = self.accepted_session(state, sessions, opened)?;
            let repo = self.find_repo(opened);
            self.compare_in_turn(state, sessions, (&session, repo.as_ref()));
            let members = self.member_clusters(&session, repo.clone(), state);
            let failing = members.update_status(&sessions.clusters, &mut state.record.status);
            sessions.put_accepted(opened, session, repo);
            failing.map_err(|ReconcileError { reason, message }| {
                ReconcileError::new(reason, format!("{message}; the next attempt {}", self.describe_wait()))
            })?;
            format!("{name} is not in {} yet, and", format_count(pending.len(), "cluster"))
        } else {
            let kept = state.read_plan()?;
            let (limit, destination) = (self.apply_limit(), self.destination());
            let session = Self::render_session(sessions, opened, kept.as_ref(), limit, destination)?;
            sessions.put_session(opened, session);
            if let Err(error) = self.compare_last_good(state, sessions) {
                tracing::warn!(sync = self.name(), %error, "clusters are not compared with the revision before");
            }
            name.clone()
        };
        let message = format!("{what} {}", self.describe_wait());
        Ok(SyncOutcome {
            reason: SyncReason::Progressing,
            message,
            drift: sessions.clusters.describe_drift(),
        })
    }
}
