//! What a run may use: steps of the machine, and what long strings make of them.
//!
//! Karmada stops a script after a second. A number of steps stands for it here, so that the same script
//! ends in the same way everywhere.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Steps of one run. A script of a hundred lines over a large object takes some thousands.
const STEPS: u64 = 10_000_000;

/// Bytes of one machine.
pub(crate) const MEMORY: usize = 40 << 20;

/// The machine is interrupted after so many of its instructions.
pub(crate) const STRIDE: u32 = 500;

/// Functions that may be active at once.
pub(crate) const DEPTH: usize = 256;

/// The longest string that string functions take, in bytes.
pub(crate) const LONGEST: usize = 1_000_000;

/// Where a string is so long that any instruction may take a while, each counts once more for so many bytes.
const HEAVY: u64 = 2048;

/// What one run has used.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: AtomicU64,
    /// The length of the longest string that was made.
    longest: AtomicU64,
    exhausted: AtomicBool,
    /// The time of the run; the smallest number for none.
    now: AtomicI64,
}

impl Budget {
    /// Begins a run at that time, whose arguments hold a string of that length.
    pub(crate) fn begin(&self, longest: usize, now: Option<i64>) {
        self.now.store(now.unwrap_or(i64::MIN), Relaxed);
        self.used.store(0, Relaxed);
        self.longest.store(longest as u64, Relaxed);
        self.exhausted.store(false, Relaxed);
    }

    /// The time of the run.
    pub(crate) fn now(&self) -> Option<i64> {
        Some(self.now.load(Relaxed)).filter(|now| *now != i64::MIN)
    }

    /// Notes the length of a string that was made.
    pub(crate) fn measure(&self, length: usize) {
        self.longest.fetch_max(length as u64, Relaxed);
    }

    /// Notes instructions.
    pub(crate) fn step(&self, count: u64) -> bool {
        self.charge(count * (1 + self.longest.load(Relaxed) / HEAVY))
    }

    /// Notes work; whether there is any left to do more.
    pub(crate) fn charge(&self, amount: u64) -> bool {
        if self.used.fetch_add(amount, Relaxed).saturating_add(amount) > STEPS {
            self.exhausted.store(true, Relaxed);
        }
        !self.is_exhausted()
    }

    /// Whether nothing is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }
}
