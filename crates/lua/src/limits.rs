//! The limits of a run: steps, bytes, active functions.
//!
//! Karmada stops a script after a second. Here a number of steps stands for that second, so that the same
//! script ends in the same way on every computer. Work on long strings counts as several steps.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Steps of one run. A script of a hundred lines over a large object takes some thousands.
const MAX_STEPS: u64 = 5_000_000;

/// The steps of a run that are one step of the decision which asks for it: those of decisions are about a hundred machine
/// instructions.
const STEPS_PER_WORK_STEP: u64 = 2;

/// Bytes of one machine.
pub(crate) const MAX_MEMORY: usize = 32 << 20;

/// Lua states that may run at the same time.
pub(crate) const MAX_STATES: usize = 4;

/// The message of a script that has used all its steps.
pub(crate) const TOO_LONG: &str = "the script takes too long";

/// The message of a script that has used all its memory.
pub(crate) const NO_MEMORY: &str = "not enough memory";

/// The steps of a call of a function that is written in Rust.
pub(crate) const STEPS_PER_HOST_CALL: u64 = 80;

/// Walks over tables that a run may begin before each costs [`STEPS_PER_WALK`].
const FREE_WALKS: u64 = 100;

/// The steps for beginning a walk: it may have to pass many places that are empty by now.
const STEPS_PER_WALK: u64 = 1000;

/// The bytes that a run may allocate before a walk costs more than [`STEPS_PER_WALK`].
const FREE_ALLOCATION: u64 = 512 << 10;

/// The bytes of a table that a walk passes in one step.
const BYTES_PER_WALK_STEP: u64 = 160;

/// The instructions of a run from which on its walks count more for the decision: it may have built a large table by then.
const FREE_WALK_INSTRUCTIONS: u64 = 100_000;

/// A walk counts as one in so many of the instructions before it.
const INSTRUCTIONS_PER_WALK_STEP: u64 = 64;

/// The hook runs after this many instructions.
pub(crate) const HOOK_INTERVAL: u32 = 500;

/// Functions that may be active at the same time.
pub(crate) const MAX_CALL_DEPTH: usize = 256;

/// The longest string that string functions accept, in bytes.
pub(crate) const MAX_STRING_LENGTH: usize = 1_000_000;

/// With long strings any instruction may take a while: each instruction counts once more per this many bytes
/// of the longest string.
const STRING_BYTES_PER_STEP: u64 = 2048;

/// An operator can take a string for a number and read it digit by digit: each instruction counts once more per this many bytes
/// of the longest string that begins like a number.
const NUMERAL_BYTES_PER_STEP: u64 = 4;

/// The bytes of a numeral that an instruction reads in no time.
const MAX_FREE_NUMERAL: usize = 256;

/// The bytes at the beginning of a string that C reads when it takes the string for a number: blanks, then digits, or the words
/// `nan(...)` and `infinity`. Zero for what is read in no time.
pub(crate) fn numeral_length(text: &[u8]) -> usize {
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
    let rest = text.get(blanks..).unwrap_or_default();
    if !rest.first().is_some_and(|byte| byte.is_ascii_digit() || b"+-.nNiI".contains(byte)) {
        return if blanks > MAX_FREE_NUMERAL { blanks } else { 0 };
    }
    let numeral = rest.iter().take_while(|byte| {
        byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+-._()".contains(byte)
    });
    let read = numeral.count();
    if blanks + read > MAX_FREE_NUMERAL { blanks + read } else { 0 }
}

/// The steps that one run has used.
#[derive(Debug, Default)]
pub(crate) struct ScriptBudget {
    used: AtomicU64,
    /// Those of them that depend on the script and its arguments alone, and not on the memory that earlier runs have left: all
    /// that the decision which asks for the run is charged.
    counted: AtomicU64,
    /// The instructions so far.
    instructions: AtomicU64,
    /// The length of the longest string so far.
    longest: AtomicU64,
    /// The length of the longest numeral at the beginning of a string so far.
    numeral: AtomicU64,
    /// The walks over tables so far.
    walks: AtomicU64,
    /// The bytes in use before the script ran.
    memory: AtomicU64,
    exhausted: AtomicBool,
    out_of_memory: AtomicBool,
    /// The time that scripts see; `i64::MIN` for none.
    now: AtomicI64,
}

impl ScriptBudget {
    /// Begins a run. `longest` is the length of the longest string in its arguments, `numeral` that of the longest numeral.
    pub(crate) fn begin_run(&self, longest: usize, numeral: usize, now: Option<i64>) {
        self.now.store(now.unwrap_or(i64::MIN), Relaxed);
        for counter in [&self.used, &self.counted, &self.instructions] {
            counter.store(0, Relaxed);
        }
        self.longest.store(longest as u64, Relaxed);
        self.numeral.store(numeral as u64, Relaxed);
        self.walks.store(0, Relaxed);
        self.exhausted.store(false, Relaxed);
        self.out_of_memory.store(false, Relaxed);
    }

    /// The time that scripts see.
    pub(crate) fn script_time(&self) -> Option<i64> {
        Some(self.now.load(Relaxed)).filter(|now| *now != i64::MIN)
    }

    /// Records the length of a new string.
    pub(crate) fn record_length(&self, length: usize) {
        self.longest.fetch_max(length as u64, Relaxed);
    }

    /// Records a new string.
    pub(crate) fn measure_text(&self, text: &[u8]) {
        self.record_length(text.len());
        self.numeral.fetch_max(numeral_length(text) as u64, Relaxed);
    }

    /// Records instructions; returns whether the run may go on.
    pub(crate) fn charge_instructions(&self, count: u64) -> bool {
        let reads = self.numeral.load(Relaxed) / NUMERAL_BYTES_PER_STEP;
        self.instructions.fetch_add(count, Relaxed);
        self.charge_work(count * (1 + self.longest.load(Relaxed) / STRING_BYTES_PER_STEP + reads))
    }

    /// Records work; returns whether the run may go on.
    pub(crate) fn charge_work(&self, amount: u64) -> bool {
        self.counted.fetch_add(amount.min(MAX_STEPS), Relaxed);
        self.use_steps(amount)
    }

    fn use_steps(&self, amount: u64) -> bool {
        if self.used.fetch_add(amount, Relaxed).saturating_add(amount) > MAX_STEPS {
            self.exhausted.store(true, Relaxed);
        }
        !self.is_exhausted()
    }

    /// The work of the run so far, in the steps of decisions.
    pub(crate) fn work_steps(&self) -> u64 {
        self.counted.load(Relaxed) / STEPS_PER_WORK_STEP
    }

    /// Records the bytes in use before the script, or its function, runs.
    pub(crate) fn record_memory_before(&self, memory: usize) {
        self.memory.store(memory as u64, Relaxed);
    }

    /// Records the beginning of a walk over a table; returns whether the run may go on. `memory` is the number of
    /// bytes in use: the table cannot have more places than the run has allocated.
    pub(crate) fn charge_table_walk(&self, memory: usize) -> bool {
        let instructions = self.instructions.load(Relaxed);
        if instructions > FREE_WALK_INSTRUCTIONS {
            self.counted.fetch_add(instructions / INSTRUCTIONS_PER_WALK_STEP, Relaxed);
        }
        if self.walks.fetch_add(1, Relaxed) < FREE_WALKS {
            return self.charge_work(1);
        }
        let allocated = (memory as u64).saturating_sub(self.memory.load(Relaxed));
        self.charge_work(STEPS_PER_WALK);
        self.use_steps(allocated.saturating_sub(FREE_ALLOCATION) / BYTES_PER_WALK_STEP)
    }

    /// Ends the run, because its memory is used up.
    pub(crate) fn end_of_memory(&self) {
        self.out_of_memory.store(true, Relaxed);
        self.exhausted.store(true, Relaxed);
    }

    /// Whether the run has used all its memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.out_of_memory.load(Relaxed)
    }

    /// Whether the run has used all its steps.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }
}
