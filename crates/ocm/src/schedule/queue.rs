//! The order in which placements are evaluated.
//!
//! Facts: one worker takes placements from a queue. A placement whose decisions changed is queued again at the end; others
//! are not, although the change may count for them. So the order can matter, and some groups of placements never settle.

use std::collections::VecDeque;

use federate_kubernetes::{ClusterName, work};

use crate::schedule::score::Usage;
use crate::schedule::{Evaluation, Hub, PlacementSubject, evaluate};
use crate::state::Decisions;

/// The most evaluations of one placement in a queue, on average.
const MAX_EVALUATIONS: usize = 40;

/// What came of a queue.
pub(crate) struct QueueRun {
    /// The decisions at the end.
    pub decisions: Decisions,
    /// The last evaluation of each placement; `None` for those that are skipped.
    pub evaluations: Vec<Option<Evaluation>>,
    /// The evaluations in the order made: the index of the placement, and its clusters.
    pub history: Vec<(usize, Vec<ClusterName>)>,
    /// Whether the queue was empty at the end.
    pub settles: bool,
}

/// Evaluates placements in an order, given by indexes, until nothing changes or `limit` evaluations are made.
pub(crate) fn run_queue(
    hub: &Hub<'_>,
    subjects: &[PlacementSubject<'_>],
    order: impl IntoIterator<Item = usize>,
    decisions: Decisions,
    limit: usize,
) -> QueueRun {
    let mut usage = Usage::count(hub, &decisions);
    let mut run =
        QueueRun { decisions, evaluations: vec![None; subjects.len()], history: Vec::new(), settles: true };
    let mut queue: VecDeque<usize> = order.into_iter().collect();
    while let Some(at) = queue.pop_front() {
        let Some(subject) = subjects.get(at).filter(|subject| subject.skipped().is_none()) else { continue };
        if run.history.len() >= limit || work::is_exceeded() {
            run.settles = false;
            break;
        }
        let evaluation = evaluate(hub, subject, &run.decisions, &usage);
        let old = run.decisions.of(&subject.key);
        let mut sorted: Vec<&ClusterName> = old.iter().collect();
        sorted.sort();
        let mut selected = sorted.clone();
        if !evaluation.keeps_decisions() {
            selected = evaluation.decided().collect();
            selected.sort();
        }
        let new: Vec<ClusterName> = selected.iter().copied().cloned().collect();
        // The first record of decisions is a change, even if it is empty.
        let is_first = !run.decisions.has(&subject.key);
        if !evaluation.keeps_decisions() && (is_first || sorted != selected) {
            usage.replace(hub, old, &new);
            run.decisions.set(subject.key.clone(), new.clone());
            queue.push_back(at);
        }
        run.history.push((at, new));
        run.evaluations[at] = Some(evaluation);
    }
    run
}

/// The most evaluations of so many placements.
pub(crate) fn evaluation_limit(placements: usize) -> usize {
    placements.saturating_mul(MAX_EVALUATIONS).max(MAX_EVALUATIONS)
}
