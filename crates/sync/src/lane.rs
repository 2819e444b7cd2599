//! The rounds of one Sync, in a thread of its own: at its interval, when something happens, and sooner after a failure.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::SessionCache;
use crate::api::Spec;
use crate::backoff;
use crate::board::{SyncRegistry, Wake};
use crate::hub::{self, Hub};
use crate::metrics::Metrics;
use crate::read::Loaded;
use crate::round::{self, Environment, Outcome};
use crate::run;
use crate::state::States;
use crate::status::Status;

/// Pauses differ by up to this share, so that many Syncs do not ask a server at the same moment.
const JITTER_PERCENT: u64 = 10;
/// Editors write a file in several steps: a round begins when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(100);
/// A round begins after this long even if files go on changing.
const PATIENCE: Duration = Duration::from_secs(2);

/// What threads are made of.
pub(crate) struct Workers<'scope, 'env> {
    pub(crate) scope: &'scope Scope<'scope, 'env>,
    pub(crate) world: Shared<'env>,
}

/// What all threads share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'l> {
    pub(crate) states: &'l dyn States,
    pub(crate) env: &'l Environment<'l>,
    pub(crate) metrics: &'l Metrics,
    pub(crate) board: &'l SyncRegistry,
    /// The API server that holds the Syncs, if one does.
    pub(crate) hub: Option<&'l Hub>,
}

impl Workers<'_, '_> {
    /// Makes these the Syncs that are run.
    pub(crate) fn set(&self, syncs: Vec<Loaded>) {
        self.world.metrics.expect(syncs.iter().map(|loaded| loaded.sync.metadata.full_name()));
        for (name, wakes) in self.world.board.set(syncs) {
            let lane = Lane { name, shared: self.world };
            self.scope.spawn(move || lane.run(&wakes));
        }
    }
}

/// The rounds of one Sync.
struct Lane<'l> {
    name: String,
    shared: Shared<'l>,
}

/// How a round ended: `None` where the Sync is suspended.
type Ended = (Option<Outcome>, Option<Status>);

impl Lane<'_> {
    /// Does its rounds until the Sync is gone or the process ends.
    fn run(&self, wakes: &Receiver<Wake>) {
        let Shared { board, metrics, .. } = self.shared;
        let mut failures = 0;
        let mut said: Option<Option<Outcome>> = None;
        let mut sessions = SessionCache::default();
        let mut requested = None;
        while let Some(loaded) = board.wanted(&self.name) {
            // Who asks for a round means all clusters.
            let asked = loaded.sync.meta.as_ref().and_then(|meta| meta.requested_at.clone());
            if asked != requested {
                requested = asked;
                sessions.backoffs.forget();
            }
            let begun = Instant::now();
            let (outcome, status) = self.round(&loaded, &mut sessions);
            // That nothing has changed is said once.
            if said.as_ref() != Some(&outcome) {
                run::log(&self.name, outcome.as_ref());
                if let (Some(hub), Some(outcome)) = (self.shared.hub, &outcome) {
                    let revision =
                        status.as_ref().and_then(|status| status.last_attempted_revision.as_deref());
                    hub.tell(&loaded, outcome, revision);
                }
            }
            metrics.observe(&self.name, outcome.as_ref(), status.as_ref(), begun.elapsed());
            board.note(&self.name, outcome.as_ref().is_some_and(Outcome::is_ready));
            failures = if outcome.as_ref().is_some_and(|o| !o.is_ready()) { failures + 1 } else { 0 };
            let spec = &loaded.sync.spec;
            let until = match sessions.backoffs.next_due().filter(|_| outcome.is_some()) {
                Some(due) => Some(due.min(Instant::now() + spec.interval.0)),
                None => pause(spec, outcome.as_ref(), failures).map(|pause| Instant::now() + jittered(pause)),
            };
            said = Some(outcome);
            if sleep(wakes, until) == Wake::End {
                return;
            }
        }
        tracing::info!(sync = self.name, "the Sync is gone");
    }

    fn round(&self, loaded: &Loaded, sessions: &mut SessionCache) -> Ended {
        let deleting = loaded.sync.meta.as_ref().is_some_and(|meta| meta.deleting);
        if loaded.sync.spec.suspend && !deleting {
            return (None, None);
        }
        match self.work(loaded, sessions, deleting) {
            Ok((outcome, status)) => (Some(outcome), Some(status)),
            Err(error) => (Some(Outcome::failed(&error)), None),
        }
    }

    fn work(
        &self,
        loaded: &Loaded,
        sessions: &mut SessionCache,
        deleting: bool,
    ) -> Result<(Outcome, Status), crate::state::Error> {
        let Shared { env, board, hub, .. } = self.shared;
        if let (Some(hub), false) = (hub, deleting) {
            hub.finalizer(&loaded.sync)?;
        }
        let mut state = self.shared.states.state(loaded)?;
        let outcome = match (deleting, board.unready(loaded)) {
            (true, _) => {
                let outcome = if loaded.sync.deletes() {
                    round::remove(loaded, &mut state, env)
                } else {
                    Outcome::done("the objects in member clusters stay where they are")
                };
                if let Some(hub) = hub.filter(|_| outcome.is_ready()) {
                    hub::release(hub, &loaded.sync)?;
                }
                outcome
            }
            (false, Some(on)) => round::waits(&mut state, &on),
            (false, None) => round::run(loaded, &mut state, sessions, env),
        };
        Ok((outcome, state.record.status.clone()))
    }
}

/// Waits until something happens, or until a time.
fn sleep(wakes: &Receiver<Wake>, until: Option<Instant>) -> Wake {
    let woken = match until {
        None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(until) => wakes.recv_timeout(until.saturating_duration_since(Instant::now())),
    };
    match woken {
        Err(RecvTimeoutError::Timeout) => Wake::Now,
        Err(RecvTimeoutError::Disconnected) | Ok(Wake::End) => Wake::End,
        Ok(Wake::Now) => {
            let first = Instant::now();
            while first.elapsed() < PATIENCE {
                match wakes.recv_timeout(QUIET) {
                    Ok(Wake::Now) => {}
                    Err(RecvTimeoutError::Timeout) => break,
                    Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => return Wake::End,
                }
            }
            Wake::Now
        }
    }
}

/// How long until the next round; `None` where only a change of the Sync begins it. What fails is tried again
/// soon, and then less and less often, up to the interval; what is stalled waits for a new revision.
fn pause(spec: &Spec, outcome: Option<&Outcome>, failures: u32) -> Option<Duration> {
    let outcome = outcome?;
    if outcome.is_ready() || outcome.reason.is_stalled() {
        return Some(spec.interval.0);
    }
    Some(backoff::wait(spec.retry_interval(), spec.interval.0, failures))
}

fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or_default();
    let share = u64::from(random) * JITTER_PERCENT / u64::from(u32::MAX);
    pause + pause.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Reason;

    #[test]
    fn failures_are_tried_again_less_and_less_often() {
        let text = r#"{"source": {"url": "r"}, "interval": "10m", "retryInterval": "1m", "commit": {"branch": "b"}}"#;
        let spec: Spec = serde_json::from_str(text).unwrap();
        let outcome = |reason| Outcome { reason, message: String::new(), drifted: false };
        let minutes =
            |reason, failures| pause(&spec, Some(&outcome(reason)), failures).unwrap().as_secs() / 60;
        assert_eq!(minutes(Reason::ReconciliationSucceeded, 0), 10);
        let failed = [1, 2, 3, 4, 5, 60].map(|failures| minutes(Reason::GitOperationFailed, failures));
        assert_eq!(failed, [1, 2, 4, 8, 10, 10]);
        assert_eq!(minutes(Reason::BuildFailed, 1), 10, "only a new revision helps");
        assert_eq!(pause(&spec, None, 0), None, "one that is suspended sleeps");
    }

    #[test]
    fn pauses_differ_by_a_tenth_at_most() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(100));
            assert!((100..=110).contains(&pause.as_secs()), "{pause:?}");
        }
    }
}
