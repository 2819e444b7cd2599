//! The limits of a run: steps, bytes, active functions.
//!
//! Karmada stops a script after a second. Here a number of steps stands for that second, so that the same
//! script ends in the same way on every computer. Work on long strings counts as several steps.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Steps of one run. A script of a hundred lines over a large object takes some thousands.
const STEPS: u64 = 10_000_000;

/// Bytes of one machine.
pub(crate) const MEMORY: usize = 32 << 20;

/// Machines that may run at the same time.
pub(crate) const MOST_MACHINES: usize = 4;

/// The hook runs after this many instructions.
pub(crate) const STRIDE: u32 = 500;

/// Functions that may be active at the same time.
pub(crate) const DEPTH: usize = 256;

/// The longest string that string functions accept, in bytes.
pub(crate) const LONGEST: usize = 1_000_000;

/// With long strings any instruction may take a while: each instruction counts once more per this many bytes
/// of the longest string.
const HEAVY: u64 = 2048;

/// The steps that one run has used.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: AtomicU64,
    /// The length of the longest string so far.
    longest: AtomicU64,
    exhausted: AtomicBool,
    /// The time that scripts see; `i64::MIN` for none.
    now: AtomicI64,
}

impl Budget {
    /// Begins a run. `longest` is the length of the longest string in its arguments.
    pub(crate) fn begin(&self, longest: usize, now: Option<i64>) {
        self.now.store(now.unwrap_or(i64::MIN), Relaxed);
        self.used.store(0, Relaxed);
        self.longest.store(longest as u64, Relaxed);
        self.exhausted.store(false, Relaxed);
    }

    /// The time that scripts see.
    pub(crate) fn now(&self) -> Option<i64> {
        Some(self.now.load(Relaxed)).filter(|now| *now != i64::MIN)
    }

    /// Records the length of a new string.
    pub(crate) fn measure(&self, length: usize) {
        self.longest.fetch_max(length as u64, Relaxed);
    }

    /// Records instructions; returns whether the run may go on.
    pub(crate) fn step(&self, count: u64) -> bool {
        self.charge(count * (1 + self.longest.load(Relaxed) / HEAVY))
    }

    /// Records work; returns whether the run may go on.
    pub(crate) fn charge(&self, amount: u64) -> bool {
        if self.used.fetch_add(amount, Relaxed).saturating_add(amount) > STEPS {
            self.exhausted.store(true, Relaxed);
        }
        !self.is_exhausted()
    }

    /// Whether the run has used all its steps.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }
}
