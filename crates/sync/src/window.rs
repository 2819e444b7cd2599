//! Maintenance windows in a reconciliation: outside of them, clusters are only compared. A revision that waits is rendered
//! and checked anyway, so that what is wrong with it is known before a window opens.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use federate_sync_api::DriftMode;
use federate_sync_api::stage::{StageEvent, SyncStage};
use federate_sync_api::status::WindowStatus;
use jiff::Timestamp;

use crate::member_clusters::MemberClusters;
use crate::member_clusters::tracker::format_count;
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::sessions::{RevisionSession, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::state::SyncState;

impl Reconciliation<'_> {
    /// Notes in the status whether a window is open, and when the reconciliation is repeated because that changes.
    pub(crate) fn note_window(&self, state: &mut SyncState<'_>, runtime: &mut SyncRuntime) {
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
            runtime.resume = Some(runtime.resume.map_or(at, |resume| resume.min(at)));
        }
    }

    /// Whether drift from the revision that was carried out last may be put back now.
    pub(crate) fn may_correct(&self, state: &SyncState<'_>) -> bool {
        let revision = state.record.status.last_applied_revision.as_deref().unwrap_or_default();
        self.build_stage_inputs(&state.record, StageEvent::Waiting, revision).may_change()
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

    /// Puts off what would change clusters. `stage` says what waits.
    pub(crate) fn await_window(
        &self,
        stage: SyncStage,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        SourceState { checkout, tip, name, .. }: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        Self::note_waiting(state, name);
        let session = self.accepted_session(state, runtime, checkout)?;
        let repo = self.find_repo(checkout);
        let revision = RevisionSession { session: &session, repo: repo.as_ref() };
        let ended = match stage {
            SyncStage::RollingOut => self.await_window_between_steps(state, runtime, revision, name),
            SyncStage::RollingOutPolicies => {
                self.start_policies(state, &session, Some(session.plan()), Some(tip), tip);
                Ok(SyncOutcome::for_progress(format!("rolling out {name}: it {}", self.describe_wait())))
            }
            _ => {
                let members = self.member_clusters(&session, repo.clone(), state);
                self.await_window_to_retry(state, runtime, &members, name)
            }
        };
        runtime.put_accepted(checkout, session, repo);
        ended
    }

    /// The outcome of a reconciliation outside of all windows while some clusters lack a revision.
    fn await_window_to_retry(
        &self,
        state: &mut SyncState<'_>,
        runtime: &SyncRuntime,
        members: &MemberClusters<'_>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let waits = self.describe_wait();
        let failing = members.update_status(&runtime.tracker, &mut state.record.status);
        failing.map_err(|ReconcileError { reason, message }| {
            ReconcileError::new(reason, format!("{message}; the next attempt {waits}"))
        })?;
        let lacking = state.record.accepted.as_ref().and_then(|accepted| accepted.lacking.as_ref());
        let lacking = format_count(lacking.map_or(0, BTreeSet::len), "cluster");
        Ok(SyncOutcome::for_progress(format!("{name} is not in {lacking} yet, and {waits}")))
    }

    /// Notes in the status which revision waits for a window.
    pub(crate) fn note_waiting(state: &mut SyncState<'_>, name: &str) {
        if let Some(window) = &mut state.record.status.window {
            window.waiting = Some(name.to_owned());
        }
    }
}
