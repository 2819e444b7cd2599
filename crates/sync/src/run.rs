//! Rounds of several Syncs, in the order of their dependencies.

use jiff::Timestamp;

use crate::SessionCache;
use crate::hub::Invalid;
use crate::read::Loaded;
use crate::round::{self, Environment, Outcome};
use crate::state::{Error, Record, StateFolder, States};
use crate::status::{Reason, Status};

/// What became of a Sync.
#[derive(Debug)]
pub struct RoundResult {
    /// Namespace and name.
    pub name: String,
    /// How its round ended; `None` where it is suspended.
    pub outcome: Option<Outcome>,
    /// What is kept of it.
    pub record: Record,
}

impl RoundResult {
    /// A Sync object that cannot be carried out.
    pub(crate) fn refused(name: String, invalid: &Invalid) -> Self {
        let outcome =
            Outcome { reason: Reason::InvalidSpec, message: invalid.message.clone(), drifted: false };
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

/// The same with states wherever they are kept. A Sync whose dependency is not there waits for it.
pub(crate) fn each(
    syncs: &[Loaded],
    states: &dyn States,
    env: &Environment<'_>,
) -> Result<Vec<RoundResult>, Error> {
    let mut done: Vec<RoundResult> = Vec::new();
    let mut open: Vec<&Loaded> = syncs.iter().collect();
    while !open.is_empty() {
        let is_over = |on: &String| done.iter().any(|done| done.name == *on);
        // Those that depend on each other, or on what is not there, have no turn; they come last, and are not ready.
        let turn = open.iter().position(|next| next.sync.dependencies().all(|on| is_over(&on)));
        let next = open.remove(turn.unwrap_or(0));
        let mut own = states.state(next)?;
        let unready = next
            .sync
            .dependencies()
            .find(|on| !done.iter().any(|done| done.name == *on && done.record.status.is_ready()));
        let outcome = match unready {
            _ if next.sync.spec.suspend => None,
            Some(on) => Some(round::waits(&mut own, &on)),
            None => Some(round::run(next, &mut own, &mut SessionCache::default(), env)),
        };
        log(&next.sync.metadata.full_name(), outcome.as_ref());
        done.push(RoundResult { name: next.sync.metadata.full_name(), outcome, record: own.record });
    }
    Ok(done)
}

pub(crate) fn log(sync: &str, outcome: Option<&Outcome>) {
    match outcome {
        None => tracing::info!(sync, "suspended"),
        Some(outcome) if outcome.is_ready() => {
            tracing::info!(sync, reason = outcome.reason.name(), "{}", outcome.message);
        }
        Some(outcome) => tracing::error!(sync, reason = outcome.reason.name(), "{}", outcome.message),
    }
}
