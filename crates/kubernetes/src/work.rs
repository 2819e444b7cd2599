//! The work of a decision, in steps: about a hundred machine instructions, or a byte that is kept.
//!
//! What can take long in ways that its result does not show, such as a script, counts its steps with [`charge`]. Who asks for a
//! decision counts those of the whole decision with [`measure`]. The numbers depend on the input only, so that a limit is
//! reached at the same place on every computer.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts steps of the decision that this thread is taking.
pub fn charge(steps: u64) {
    STEPS.with(|done| done.set(done.get().saturating_add(steps)));
}

/// Does something, and returns the steps that it has counted on this thread.
///
/// ```
/// use federate_kubernetes::work::{charge, measure};
/// assert_eq!(measure(|| charge(3)), ((), 3));
/// ```
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, u64) {
    // Another decision may be under way on this thread, which waits for this one.
    let before = STEPS.with(|done| done.replace(0));
    let result = work();
    let steps = STEPS.with(|done| done.replace(before));
    (result, steps)
}
