//! Rounds of several Syncs, in the order of their dependencies.

use std::time::{Duration, Instant};

use federate_sync_api::record::Record;
use federate_sync_api::stage::RoundEffect;
use federate_sync_api::status::{Reason, Status};
use jiff::Timestamp;

use crate::SessionCache;
use crate::environment::Environment;
use crate::hub::Invalid;
use crate::read::Loaded;
use crate::round::{self, Outcome};
use crate::state::{Error, StateFolder, StateStore, SyncState};

/// One run waits so long for the next step of a rollout.
const SOON: Duration = Duration::from_secs(5);

/// The result of a Sync's round.
#[derive(Debug)]
pub struct RoundResult {
    /// Namespace and name.
    pub name: String,
    /// How its round ended; `None` if it is suspended.
    pub outcome: Option<Outcome>,
    /// Its record.
    pub record: Record,
}

impl RoundResult {
    /// The result of an invalid Sync object.
    pub(crate) fn refused(name: String, invalid: &Invalid) -> Self {
        let outcome = Outcome { reason: Reason::InvalidSpec, message: invalid.message.clone(), drift: None };
        let mut status = Status::default();
        status.end(outcome.reason, &outcome.message, Timestamp::now());
        let record = Record::refused(&invalid.metadata, invalid.generation, status);
        Self { name, outcome: Some(outcome), record }
    }
}

/// Does one round of each Sync, those that others depend on first.
pub fn once(syncs: &[Loaded], state: &StateFolder, env: &Environment<'_>) -> Result<Vec<RoundResult>, Error> {
    each(syncs, state, env)
}

/// The same with any store of states. A Sync waits for a dependency that does not exist.
pub(crate) fn each(
    syncs: &[Loaded],
    states: &dyn StateStore,
    env: &Environment<'_>,
) -> Result<Vec<RoundResult>, Error> {
    let mut done: Vec<RoundResult> = Vec::new();
    let mut open: Vec<&Loaded> = syncs.iter().collect();
    while !open.is_empty() {
        let is_over = |on: &String| done.iter().any(|done| done.name == *on);
        // Syncs that depend on each other, or on one that does not exist, come last and are not ready.
        let turn = open.iter().position(|next| next.sync.dependencies().all(|on| is_over(&on)));
        let next = open.remove(turn.unwrap_or(0));
        let rolled_back = next.rolled_back();
        let next = rolled_back.as_ref().unwrap_or(next);
        let mut own = states.state(next)?;
        let unready = next
            .sync
            .dependencies()
            .find(|on| !done.iter().any(|done| done.name == *on && done.record.status.is_ready()));
        let outcome = match (round::begin(next, &own, env, unready.is_some()), unready) {
            _ if next.sync.spec.suspend => None,
            (RoundEffect::AwaitDependency, Some(on)) => Some(round::await_dependency(&mut own, &on)),
            (RoundEffect::Poll, _) => Some(to_the_end(next, &mut own, env)),
            (RoundEffect::DeleteObjects | RoundEffect::Release, _) => Some(Outcome {
                reason: Reason::Progressing,
                message:
                    "the Sync is being deleted, which only the loop does: run `federate sync` without --once"
                        .to_owned(),
                drift: None,
            }),
            _ => None,
        };
        log(&next.sync.metadata.full_name(), outcome.as_ref());
        done.push(RoundResult { name: next.sync.metadata.full_name(), outcome, record: own.record });
    }
    Ok(done)
}

/// Does rounds of a Sync until its rollout is over, fails, or waits for a person or a time.
fn to_the_end(sync: &Loaded, state: &mut SyncState<'_>, env: &Environment<'_>) -> Outcome {
    let mut sessions = SessionCache::new(env.dialects, env.builder.clone());
    loop {
        let outcome = round::run(sync, state, &mut sessions, env, None);
        let pause = sessions.resume.take().map(|at| at.saturating_duration_since(Instant::now()));
        match pause.filter(|pause| *pause <= SOON) {
            Some(pause) => std::thread::sleep(pause),
            None => return outcome,
        }
    }
}

pub(crate) fn log(sync: &str, outcome: Option<&Outcome>) {
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
