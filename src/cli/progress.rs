//! A line on the terminal while a command works for more than a second: what it does, and for how long.
//!
//! The line is on standard error, only if that is a terminal, and goes before anything is printed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this time, the line appears.
const DISPLAY_DELAY: Duration = Duration::from_secs(1);

/// The time between two updates of the line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// The state of the line.
struct State {
    /// What the command does; `None` if the line is off.
    phase: Option<&'static str>,
    /// Whether the line is on the screen.
    shown: bool,
    /// How often the line was switched on: a thread that draws for an earlier time ends.
    run: u32,
}

static STATE: Mutex<State> = Mutex::new(State { phase: None, shown: false, run: 0 });

/// Shows what the command does, until [`stop`] is called.
pub(super) fn start_line(phase: &'static str) {
    if !io::stderr().is_terminal() {
        return;
    }
    let mut state = lock_state();
    if state.phase.replace(phase).is_some() {
        // The line is on already.
        return;
    }
    state.run += 1;
    let run = state.run;
    // Without a thread there is no line, which is not an error.
    let _ = thread::Builder::new().spawn(move || update_line(run));
}

/// Names what the command does now, if the line is on.
pub(super) fn set_phase(phase: &'static str) {
    let mut state = lock_state();
    if state.phase.is_some() {
        state.phase = Some(phase);
    }
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
            let Some(phase) = state.phase.filter(|_| state.run == run) else { return };
            let line = format!("\r{phase}… ({} s)\x1b[K", started.elapsed().as_secs());
            let _ = io::stderr().lock().write_all(line.as_bytes());
            state.shown = true;
        }
        thread::sleep(UPDATE_INTERVAL);
    }
}

fn lock_state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
