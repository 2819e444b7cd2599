//! Rounds of several Syncs, in the order of their dependencies.

use crate::SessionCache;
use crate::read::Loaded;
use crate::round::{self, Environment, Outcome};
use crate::state::{Error, Record, StateFolder};

/// What became of a Sync.
#[derive(Debug)]
pub struct Done {
    /// Namespace and name.
    pub name: String,
    /// How its round ended; `None` where it is suspended.
    pub outcome: Option<Outcome>,
    /// What is kept of it.
    pub record: Record,
}

/// Does one round of each Sync, those that others depend on first.
pub fn once(syncs: &[Loaded], state: &StateFolder, env: &Environment<'_>) -> Result<Vec<Done>, Error> {
    let mut done: Vec<Done> = Vec::new();
    let mut open: Vec<&Loaded> = syncs.iter().collect();
    // No Sync depends on itself, so that there is always one whose turn it is.
    while let Some(at) = open
        .iter()
        .position(|next| next.sync.dependencies().all(|on| done.iter().any(|done| done.name == on)))
    {
        let next = open.remove(at);
        let mut own = state.of(&next.sync)?;
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
        done.push(Done { name: next.sync.metadata.full_name(), outcome, record: own.record });
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
