//! Reconciles several Syncs without threads, in the order of their dependencies, each until it is done or waits for long.

use std::time::{Duration, Instant};

use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::{SyncReason, SyncStatus};
use jiff::Timestamp;

use crate::environment::Environment;
use crate::hub::InvalidSync;
use crate::outcome::SyncOutcome;
use crate::plan::sessions::SyncRuntime;
use crate::reconciliation::reconcile_sync;
use crate::state::{Error, SyncState, SyncStates};
use crate::sync_files::ValidSync;

/// One run waits so long for the next step of a rollout.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The result of a Sync's reconciliation.
#[derive(Debug)]
pub struct SyncResult {
    /// Namespace and name.
    pub name: String,
    /// How its reconciliation ended; `None` if it is suspended.
    pub outcome: Option<SyncOutcome>,
    /// Its record.
    pub record: SyncRecord,
}

impl SyncResult {
    /// The result of an invalid Sync object.
    pub(crate) fn for_invalid(name: String, invalid: &InvalidSync) -> Self {
        let outcome =
            SyncOutcome { reason: SyncReason::InvalidSpec, message: invalid.message.clone(), drift: None };
        let mut status = SyncStatus::default();
        status.set_outcome(outcome.reason, &outcome.message, Timestamp::now());
        let record = SyncRecord::for_invalid(&invalid.metadata, invalid.generation, status);
        Self { name, outcome: Some(outcome), record }
    }
}

/// Reconciles each Sync until it is done or waits for long, those that others depend on first. A Sync waits for a dependency that does not exist.
pub fn reconcile_once(
    syncs: &[ValidSync],
    states: &dyn SyncStates,
    env: &Environment<'_>,
) -> Result<Vec<SyncResult>, Error> {
    let mut done: Vec<SyncResult> = Vec::new();
    let mut open: Vec<&ValidSync> = syncs.iter().collect();
    while !open.is_empty() {
        // Syncs that depend on each other, or on one that does not exist, come last and are not ready.
        let turn = open.iter().position(|next| {
            next.object.dependency_full_names().all(|on| done.iter().any(|done| done.name == on))
        });
        let next = open.remove(turn.unwrap_or(0));
        let rolled_back = next.rolled_back();
        let next = rolled_back.as_ref().unwrap_or(next);
        let mut own = states.open_state(next)?;
        let unready = next
            .object
            .dependency_full_names()
            .find(|on| !done.iter().any(|done| done.name == *on && done.record.status.is_ready()));
        let outcome = if next.object.spec.suspend {
            None
        } else {
            reconcile_to_the_end(next, &mut own, env, unready.as_deref())?
        };
        log_outcome(&next.object.full_name(), outcome.as_ref());
        done.push(SyncResult { name: next.object.full_name(), outcome, record: own.record });
    }
    Ok(done)
}

/// Reconciles a Sync until its rollout is over, fails, or waits for a person or a time.
fn reconcile_to_the_end(
    sync: &ValidSync,
    state: &mut SyncState<'_>,
    env: &Environment<'_>,
    unready: Option<&str>,
) -> Result<Option<SyncOutcome>, Error> {
    let (mut runtime, mut last) = (SyncRuntime::new(env), None);
    while let Some(outcome) = reconcile_sync(sync, state, &mut runtime, env, unready, None)? {
        last = Some(outcome);
        let pause = runtime.resume.take().map(|at| at.saturating_duration_since(Instant::now()));
        let Some(pause) = pause.filter(|pause| *pause <= MAX_PAUSE) else { break };
        std::thread::sleep(pause);
    }
    Ok(last)
}

pub(crate) fn log_outcome(sync: &str, outcome: Option<&SyncOutcome>) {
    if let Some(drift) = outcome.and_then(|outcome| outcome.drift.as_deref()) {
        tracing::warn!(sync, "{drift}");
    }
    match outcome {
        None => tracing::info!(sync, "suspended"),
        Some(outcome) if outcome.is_ready() || outcome.is_waiting() => {
            tracing::info!(sync, reason = outcome.reason.name(), "{}", outcome.message);
        }
        Some(outcome) => tracing::error!(sync, reason = outcome.reason.name(), "{}", outcome.message),
    }
}
