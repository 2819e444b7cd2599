//! The loop: each Sync has a thread of its own that does its rounds, at its interval or when something happens. The
//! supervisor starts them and ends them as the files say, and passes on what happens.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use notify::{Event as FileEvent, RecommendedWatcher, RecursiveMode, Watcher};

use crate::SessionCache;
use crate::api::Spec;
use crate::metrics::Metrics;
use crate::read::{self, Invalid, Loaded};
use crate::round::{self, Environment, Outcome};
use crate::run;
use crate::source::Address;
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

/// What a thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Now,
    End,
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
        let mut lanes = Lanes { scope, state, env, metrics, board: &board, running: BTreeMap::new() };
        lanes.set(first);
        watcher.follow(lanes.sources());
        while let Ok(event) = happens.recv() {
            match event {
                Event::End => break,
                Event::Source(name) => board.wake(&name),
                Event::Files => match read::read(files) {
                    Ok(syncs) => {
                        lanes.set(syncs);
                        watcher.follow(lanes.sources());
                    }
                    Err(found) => invalid(&found),
                },
            }
        }
        tracing::info!("ending when the rounds that are under way are over");
        lanes.set(Vec::new());
    });
    Ok(())
}

/// The threads.
struct Lanes<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    state: &'env StateFolder,
    env: &'env Environment<'env>,
    metrics: &'env Metrics,
    board: &'env Board,
    running: BTreeMap<String, (Loaded, ScopedJoinHandle<'scope, ()>)>,
}

impl<'scope> Lanes<'scope, '_> {
    /// Ends what is not wanted or not as it was, and starts what is not there.
    fn set(&mut self, syncs: Vec<Loaded>) {
        let wanted: BTreeMap<String, Loaded> =
            syncs.into_iter().map(|loaded| (loaded.sync.metadata.full_name(), loaded)).collect();
        let changed = |name: &String, loaded: &Loaded| wanted.get(name) != Some(loaded);
        let ended: Vec<String> = self
            .running
            .iter()
            .filter(|(name, (loaded, _))| changed(name, loaded))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &ended {
            self.board.end(name);
        }
        for name in &ended {
            if let Some((_, thread)) = self.running.remove(name)
                && thread.join().is_err()
            {
                tracing::error!(sync = name, "the thread of the Sync has failed");
            }
        }
        self.metrics.expect(wanted.keys().cloned());
        for (name, loaded) in wanted {
            if !self.running.contains_key(&name) {
                let wakes = self.board.join(&loaded);
                let lane = Lane {
                    loaded: loaded.clone(),
                    folder: self.state,
                    env: self.env,
                    metrics: self.metrics,
                    board: self.board,
                };
                let thread = self.scope.spawn(move || lane.run(&wakes));
                self.running.insert(name, (loaded, thread));
            }
        }
    }

    /// The folders that are read as they stand.
    fn sources(&self) -> Vec<(PathBuf, String)> {
        let folder = |(name, (loaded, _)): (&String, &(Loaded, _))| match &loaded.address {
            Address::Folder(path) => Some((path.clone(), name.clone())),
            Address::Git(_) => None,
        };
        self.running.iter().filter_map(folder).collect()
    }
}

/// What Syncs know of one another.
#[derive(Default)]
struct Board(Mutex<BTreeMap<String, Seat>>);

struct Seat {
    wake: Sender<Wake>,
    ready: bool,
    depends_on: Vec<String>,
}

impl Board {
    fn with<T>(&self, run: impl FnOnce(&mut BTreeMap<String, Seat>) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn join(&self, loaded: &Loaded) -> Receiver<Wake> {
        let (wake, wakes) = mpsc::channel();
        let seat = Seat { wake, ready: false, depends_on: loaded.sync.dependencies().collect() };
        self.with(|seats| seats.insert(loaded.sync.metadata.full_name(), seat));
        wakes
    }

    fn end(&self, name: &str) {
        if let Some(seat) = self.with(|seats| seats.remove(name)) {
            // One that has failed does not listen.
            let _ = seat.wake.send(Wake::End);
        }
    }

    fn wake(&self, name: &str) {
        self.with(|seats| {
            if let Some(seat) = seats.get(name) {
                let _ = seat.wake.send(Wake::Now);
            }
        });
    }

    /// The first that a Sync depends on and that is not ready.
    fn unready(&self, loaded: &Loaded) -> Option<String> {
        self.with(|seats| loaded.sync.dependencies().find(|on| !seats.get(on).is_some_and(|seat| seat.ready)))
    }

    /// Notes whether a Sync is ready; those that wait for it are woken when it becomes so.
    fn note(&self, name: &str, ready: bool) {
        self.with(|seats| {
            let Some(seat) = seats.get_mut(name) else { return };
            if std::mem::replace(&mut seat.ready, ready) == ready || !ready {
                return;
            }
            for other in seats.values().filter(|other| other.depends_on.iter().any(|on| on == name)) {
                let _ = other.wake.send(Wake::Now);
            }
        });
    }
}

/// One Sync.
struct Lane<'l> {
    loaded: Loaded,
    folder: &'l StateFolder,
    env: &'l Environment<'l>,
    metrics: &'l Metrics,
    board: &'l Board,
}

impl Lane<'_> {
    /// Does its rounds until it is told to end.
    fn run(&self, wakes: &Receiver<Wake>) {
        let name = self.loaded.sync.metadata.full_name();
        let spec = &self.loaded.sync.spec;
        let mut failures = 0;
        let mut said = None;
        let mut sessions = SessionCache::default();
        loop {
            let begun = Instant::now();
            let (outcome, status) = self.round(&mut sessions);
            // That nothing has changed is said once.
            if said.as_ref() != Some(&outcome) {
                run::log(&name, outcome.as_ref());
            }
            self.metrics.observe(&name, outcome.as_ref(), status.as_ref(), begun.elapsed());
            self.board.note(&name, outcome.as_ref().is_some_and(Outcome::is_ready));
            failures = if outcome.as_ref().is_some_and(|o| !o.is_ready()) { failures + 1 } else { 0 };
            let until = pause(spec, outcome.as_ref(), failures).map(|pause| Instant::now() + jittered(pause));
            said = Some(outcome);
            if sleep(wakes, until) == Wake::End {
                return;
            }
        }
    }

    fn round(&self, sessions: &mut SessionCache) -> (Option<Outcome>, Option<Status>) {
        let mut state = match self.folder.of(&self.loaded.sync) {
            _ if self.loaded.sync.spec.suspend => return (None, None),
            Err(error) => return (Some(Outcome::failed(Reason::StateFailed, &error)), None),
            Ok(state) => state,
        };
        let outcome = match self.board.unready(&self.loaded) {
            Some(on) => round::waits(&mut state, &on),
            None => round::run(&self.loaded, &mut state, sessions, self.env),
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

/// Tells of files that change. Where the operating system does not, they are looked at at the interval.
struct FileWatcher {
    watcher: Option<RecommendedWatcher>,
    folders: std::sync::Arc<Mutex<Vec<(PathBuf, String)>>>,
    followed: BTreeSet<PathBuf>,
}

impl FileWatcher {
    fn start(files: &[PathBuf], events: Sender<Event>) -> Self {
        let folders = std::sync::Arc::new(Mutex::new(Vec::<(PathBuf, String)>::new()));
        let known = folders.clone();
        let own: BTreeSet<PathBuf> =
            files.iter().filter_map(|file| absolute(file)?.parent().map(Path::to_owned)).collect();
        let of = own.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<FileEvent>| {
            let Ok(event) = event else { return };
            if event.kind.is_access() {
                return;
            }
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            for path in &event.paths {
                if path.parent().is_some_and(|parent| of.contains(parent)) {
                    let _ = events.send(Event::Files);
                }
                for (_, name) in known.iter().filter(|(folder, _)| is_input(folder, path)) {
                    let _ = events.send(Event::Source(name.clone()));
                }
            }
        });
        let mut watcher =
            watcher.inspect_err(|error| tracing::warn!(%error, "changes of files are seen late")).ok();
        for folder in &own {
            follow(&mut watcher, folder, RecursiveMode::NonRecursive);
        }
        Self { watcher, folders, followed: BTreeSet::new() }
    }

    /// Watches these folders from now on, too.
    fn follow(&mut self, folders: Vec<(PathBuf, String)>) {
        let real =
            folders.into_iter().filter_map(|(path, name)| Some((std::fs::canonicalize(path).ok()?, name)));
        let real: Vec<(PathBuf, String)> = real.collect();
        for (path, _) in &real {
            if self.followed.insert(path.clone()) {
                follow(&mut self.watcher, path, RecursiveMode::Recursive);
            }
        }
        *self.folders.lock().unwrap_or_else(PoisonError::into_inner) = real;
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(path).ok()?;
    Some(std::fs::canonicalize(folder.parent()?).ok()?.join(folder.file_name()?))
}

fn follow(watcher: &mut Option<RecommendedWatcher>, folder: &Path, mode: RecursiveMode) {
    if let Some(watcher) = watcher
        && let Err(error) = watcher.watch(folder, mode)
    {
        tracing::warn!(folder = %folder.display(), %error, "changes of files are seen late");
    }
}

/// Whether a file of a source is read: what is hidden is not.
fn is_input(folder: &Path, path: &Path) -> bool {
    path.strip_prefix(folder).is_ok_and(|below| {
        let hidden = below.iter().any(|part| part.to_string_lossy().starts_with('.'));
        !hidden || below.ends_with(".federateignore") || below.ends_with(".gitignore")
    })
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

    #[test]
    fn hidden_files_are_no_input() {
        let folder = Path::new("/r");
        assert!(is_input(folder, Path::new("/r/a/b.yaml")) && is_input(folder, Path::new("/r/.gitignore")));
        assert!(!is_input(folder, Path::new("/r/.git/index")) && !is_input(folder, Path::new("/s/a.yaml")));
    }
}
