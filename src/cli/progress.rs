//! What a command does while it works for more than a second, and for how long: one line on the terminal, which is drawn again; a line
//! now and then in the log of a pipeline, while programs build.
//!
//! It is on standard error, and the line on the terminal goes before anything is printed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this time, the line appears on a terminal.
const DISPLAY_DELAY: Duration = Duration::from_secs(1);

/// The time between two updates of the line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// The time before and between the lines where there is no terminal.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// The environment variable that means no progress if it is `never`.
const PROGRESS_VARIABLE: &str = "FEDERATE_PROGRESS";

/// The state of the line.
struct State {
    /// What the command does; `None` if the line is off.
    phase: Option<&'static str>,
    /// How many builds of the phase are done, and of how many; none if all are.
    builds: Option<(usize, usize)>,
    /// Whether the line is on the screen.
    shown: bool,
    /// How often the line was switched on: a thread that draws for an earlier time ends.
    run: u32,
}

impl State {
    /// What the command does, in a few words.
    fn describe(&self) -> Option<String> {
        let phase = self.phase?;
        Some(match self.builds {
            Some((done, all)) => format!("building {done} of {all} kustomizations and charts"),
            None => phase.to_owned(),
        })
    }
}

static STATE: Mutex<State> = Mutex::new(State { phase: None, builds: None, shown: false, run: 0 });

/// Shows what the command does, until [`stop_line`] is called.
pub(super) fn start_line(phase: &'static str) {
    if std::env::var_os(PROGRESS_VARIABLE).is_some_and(|value| value == "never") {
        return;
    }
    let mut state = lock_state();
    if state.phase.replace(phase).is_some() {
        // The line is on already.
        return;
    }
    state.run += 1;
    let run = state.run;
    let draw = if io::stderr().is_terminal() { update_line } else { write_log };
    // Without a thread there is no line, which is not an error.
    let _ = thread::Builder::new().spawn(move || draw(run));
}

/// Names what the command does now, if the line is on.
pub(super) fn set_phase(phase: &'static str) {
    let mut state = lock_state();
    if state.phase.is_some() {
        state.phase = Some(phase);
    }
}

/// Says how many builds are done, of how many.
pub(super) fn count_builds(done: usize, all: usize) {
    let mut state = lock_state();
    // Threads may report in another order.
    let known = state.builds.filter(|(_, of)| *of == all && done > 0).map_or(0, |(known, _)| known);
    state.builds = (done < all).then_some((done.max(known), all));
}

/// Removes the line for good.
pub(super) fn stop_line() {
    let mut state = lock_state();
    state.phase = None;
    if std::mem::take(&mut state.shown) {
        let _ = io::stderr().lock().write_all(b"\r\x1b[K");
    }
}

fn update_line(run: u32) {
    let started = Instant::now();
    thread::sleep(DISPLAY_DELAY);
    loop {
        {
            let mut state = lock_state();
            let Some(what) = state.describe().filter(|_| state.run == run) else { return };
            let line = format!("\r{what}… ({} s)\x1b[K", started.elapsed().as_secs());
            let _ = io::stderr().lock().write_all(line.as_bytes());
            state.shown = true;
        }
        thread::sleep(UPDATE_INTERVAL);
    }
}

fn write_log(run: u32) {
    let started = Instant::now();
    loop {
        thread::sleep(LOG_INTERVAL);
        let state = lock_state();
        let Some(what) = state.describe().filter(|_| state.run == run) else { return };
        if state.builds.is_none() {
            continue;
        }
        let line = format!("{what}… ({} s)\n", started.elapsed().as_secs());
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn lock_state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
