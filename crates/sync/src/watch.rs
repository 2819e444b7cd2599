//! The loop: each Sync has a thread of its own that does its rounds, at its interval or when something happens. The
//! supervisor starts them and ends them as the files say, and passes on what happens.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::SessionCache;
use crate::api::Spec;
use crate::board::{Board, Wake};
use crate::files::FileWatcher;
use crate::metrics::Metrics;
use crate::read::{self, Invalid, Loaded};
use crate::round::{self, Environment, Outcome};
use crate::run;
use crate::state::StateFolder;
use crate::status::{Reason, Status};

/// Pauses differ by up to this share, so that many Syncs do not ask a server at the same moment.
const JITTER_PERCENT: u64 = 10;
/// Editors write a file in several steps: a round begins when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(100);
/// A round begins after this long even if files go on changing.
const PATIENCE: Duration = Duration::from_secs(2);

/// What happens outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process is to end.
    End,
    /// The files with the Syncs may have changed.
    Files,
    /// The source of a Sync may have changed.
    Source(String),
}

/// Runs the Syncs of some files until the process is to end. `invalid` is shown what is wrong with files that have
/// changed; the Syncs then go on as they were.
pub fn watch(
    files: &[PathBuf],
    state: &StateFolder,
    env: &Environment<'_>,
    metrics: &Metrics,
    (events, happens): (Sender<Event>, Receiver<Event>),
    invalid: impl Fn(&Invalid),
) -> Result<(), Invalid> {
    let first = read::read(files)?;
    let mut watcher = FileWatcher::start(files, events);
    let board = Board::default();
    std::thread::scope(|scope| {
        let lanes = Lanes { scope, state, env, metrics, board: &board };
        lanes.set(first);
        watcher.follow(board.folders());
        while let Ok(event) = happens.recv() {
            match event {
                Event::End => break,
                Event::Source(name) => board.wake(&name),
                Event::Files => match read::read(files) {
                    Ok(syncs) => {
                        lanes.set(syncs);
                        watcher.follow(board.folders());
                    }
                    Err(found) => invalid(&found),
                },
            }
        }
        tracing::info!("ending when the rounds that are under way are over");
        board.end();
    });
    Ok(())
}

/// What threads are made of.
struct Lanes<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    state: &'env StateFolder,
    env: &'env Environment<'env>,
    metrics: &'env Metrics,
    board: &'env Board,
}

impl Lanes<'_, '_> {
    /// Makes these the Syncs that are run.
    fn set(&self, syncs: Vec<Loaded>) {
        self.metrics.expect(syncs.iter().map(|loaded| loaded.sync.metadata.full_name()));
        for (name, wakes) in self.board.set(syncs) {
            let lane =
                Lane { name, folder: self.state, env: self.env, metrics: self.metrics, board: self.board };
            self.scope.spawn(move || lane.run(&wakes));
        }
    }
}

/// The rounds of one Sync.
struct Lane<'l> {
    name: String,
    folder: &'l StateFolder,
    env: &'l Environment<'l>,
    metrics: &'l Metrics,
    board: &'l Board,
}

impl Lane<'_> {
    /// Does its rounds until the Sync is gone or the process ends.
    fn run(&self, wakes: &Receiver<Wake>) {
        let mut failures = 0;
        let mut said = None;
        let mut sessions = SessionCache::default();
        while let Some(loaded) = self.board.wanted(&self.name) {
            let begun = Instant::now();
            let (outcome, status) = self.round(&loaded, &mut sessions);
            // That nothing has changed is said once.
            if said.as_ref() != Some(&outcome) {
                run::log(&self.name, outcome.as_ref());
            }
            self.metrics.observe(&self.name, outcome.as_ref(), status.as_ref(), begun.elapsed());
            self.board.note(&self.name, outcome.as_ref().is_some_and(Outcome::is_ready));
            failures = if outcome.as_ref().is_some_and(|o| !o.is_ready()) { failures + 1 } else { 0 };
            let pause = pause(&loaded.sync.spec, outcome.as_ref(), failures);
            let until = pause.map(|pause| Instant::now() + jittered(pause));
            said = Some(outcome);
            if sleep(wakes, until) == Wake::End {
                return;
            }
        }
        tracing::info!(sync = self.name, "the Sync is gone");
    }

    fn round(&self, loaded: &Loaded, sessions: &mut SessionCache) -> (Option<Outcome>, Option<Status>) {
        let mut state = match self.folder.of(&loaded.sync) {
            _ if loaded.sync.spec.suspend => return (None, None),
            Err(error) => return (Some(Outcome::failed(Reason::StateFailed, &error)), None),
            Ok(state) => state,
        };
        let outcome = match self.board.unready(loaded) {
            Some(on) => round::waits(&mut state, &on),
            None => round::run(loaded, &mut state, sessions, self.env),
        };
        (Some(outcome), Some(state.record.status))
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
    let retry = spec.retry_interval();
    let most = spec.interval.0.max(retry);
    Some(retry.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(most))
}

fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or_default();
    let share = u64::from(random) * JITTER_PERCENT / u64::from(u32::MAX);
    pause + pause.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
