//! The work of decisions, in steps: about a hundred machine instructions, or a byte that is kept.
//!
//! Code whose run time does not show in its result, such as a script or a patch, counts its steps with [`charge_steps`].
//! The caller of decisions counts their steps with [`measure_steps`], and limits the steps of several decisions together
//! by a [`StepBudget`]. When they exceed it, [`is_exceeded`] becomes true, long computations end at once, and their results
//! do not count. The numbers depend on the input only, so that a limit is reached at the same place on every computer.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// The steps between two reports of a thread.
const STEPS_BETWEEN_REPORTS: u64 = 4096;

/// The values that the copies of a decision may have at a step each, and the steps of each of more values.
const MAX_CHEAP_SIZE: u64 = 200_000;
const STEPS_PER_LARGE_SIZE: u64 = 40;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// The steps at which the thread reports.
    static NEXT_REPORT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The values in copies that the decision keeps.
    static COPIED: Cell<u64> = const { Cell::new(0) };
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
    static BUDGET: RefCell<Option<Arc<StepBudget>>> = const { RefCell::new(None) };
}

/// The steps that several decisions may take together.
#[derive(Debug)]
pub struct StepBudget {
    limit: u64,
    /// The steps that were reported.
    used: AtomicU64,
}

impl StepBudget {
    /// A budget of some steps.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Whether more steps were taken than it allows.
    pub fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }
}

/// The budget that this thread charges its steps to, for work that it hands to other threads.
pub fn current_budget() -> Option<Arc<StepBudget>> {
    BUDGET.with_borrow(Clone::clone)
}

/// Counts steps of the decision that this thread is taking.
pub fn charge_steps(steps: u64) {
    let done = STEPS.get().saturating_add(steps);
    STEPS.set(done);
    if done >= NEXT_REPORT.get() {
        report_steps(done);
    }
}

/// Adds the steps of this thread since its last report to the budget.
fn report_steps(done: u64) {
    let reported = NEXT_REPORT.get() - STEPS_BETWEEN_REPORTS;
    NEXT_REPORT.set(done.saturating_add(STEPS_BETWEEN_REPORTS));
    BUDGET.with_borrow(|budget| {
        let Some(budget) = budget else { return };
        let more = done.saturating_sub(reported);
        let used = budget.used.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        EXCEEDED.set(used > budget.limit);
    });
}

/// Counts the steps of looking at some of many items, or at each of them for a moment: one for eight.
pub fn charge_items(count: usize) {
    charge_steps(1 + count as u64 / 8);
}

/// Counts the steps of copying or comparing a value.
pub fn charge_value(value: &Value) {
    charge_steps(count_values(value));
}

/// The number of values in a value.
pub fn count_values(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(map) => map.values().map(count_values).sum(),
        _ => 0,
    }
}

/// Counts the steps of a copy that is kept until the decision ends. Copies of many values cost more, for the memory.
pub fn charge_copy(value: &Value) {
    let size = measure_size(value);
    let copied = COPIED.get().saturating_add(size);
    COPIED.set(copied);
    charge_steps(if copied > MAX_CHEAP_SIZE { STEPS_PER_LARGE_SIZE * size } else { size });
}

/// The values in a value; long texts count for several.
fn measure_size(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(measure_size).sum(),
        Value::Object(map) => map.values().map(measure_size).sum(),
        Value::String(text) => text.len() as u64 / 64,
        _ => 0,
    }
}

/// Whether the decisions under way have taken more steps than they may. Their results do not count.
pub fn is_exceeded() -> bool {
    EXCEEDED.get()
}

/// Takes a decision, and returns the steps that it has counted on this thread.
///
/// ```
/// use federate_kubernetes::work::{StepBudget, charge_steps, is_exceeded, measure_steps};
/// fn work() -> bool {
///     charge_steps(10_000);
///     is_exceeded()
/// }
/// assert_eq!(measure_steps(&StepBudget::new(10_000), work), (false, 10_000));
/// assert_eq!(measure_steps(&StepBudget::new(9_999), work), (true, 10_000));
/// ```
pub fn measure_steps<T>(budget: &Arc<StepBudget>, work: impl FnOnce() -> T) -> (T, u64) {
    // Another decision may be under way on this thread, which waits for this one.
    let steps = STEPS.replace(0);
    let next_report = NEXT_REPORT.replace(STEPS_BETWEEN_REPORTS);
    let exceeded = EXCEEDED.replace(budget.is_exceeded());
    let copied = COPIED.replace(0);
    let other = BUDGET.replace(Some(Arc::clone(budget)));
    let result = work();
    let done = STEPS.get();
    report_steps(done);
    BUDGET.set(other);
    EXCEEDED.set(exceeded);
    COPIED.set(copied);
    NEXT_REPORT.set(next_report);
    STEPS.set(steps);
    (result, done)
}
