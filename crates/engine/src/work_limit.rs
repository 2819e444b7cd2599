//! The limit of the work of a run.
//!
//! A small repo can ask for work that is the product of two of its sizes: of policies and the templates that each of them selects,
//! or of scripts and their objects. Items are worked on in parallel, but in batches of a fixed size, so that a run that exceeds
//! the limit ends at the same item on every computer.

use rayon::prelude::*;

use federate_kubernetes::{Finding, ObjectRef, Severity, work};
use federate_repo::Repo;

use serde_json::Value;

use federate_dialect::{DialectDecisions, ManifestVariant};

/// The code of the error about a limit that is exceeded.
pub(crate) const TOO_MUCH_WORK: &str = "too-much-work";

/// The steps that every run may take.
const BASE_STEPS: u64 = 60_000_000;
/// The further steps for each byte of the repo.
const STEPS_PER_BYTE: u64 = 100;
/// The items of a batch.
const BATCH_ITEMS: usize = 32;
/// The steps of a cluster of a placement, of a value in the memory of a scheduler, and of a change by an override rule.
const STEPS_PER_CLUSTER: u64 = 20;
const STEPS_PER_VALUE: u64 = 54;
const STEPS_PER_CHANGE: u64 = 500;

/// The limit of one part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkLimit {
    steps: u64,
}

/// The results of some items, in their order, and the item before which the limit was exceeded.
pub(crate) struct LimitedResults<R> {
    pub(crate) results: Vec<R>,
    pub(crate) stopped_at: Option<usize>,
}

impl WorkLimit {
    /// The limit for a repo.
    pub(crate) fn for_repo(repo: &Repo) -> Self {
        let bytes: usize = repo.texts.values().map(|text| text.len()).sum();
        Self { steps: BASE_STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(bytes as u64)) }
    }

    /// Works on items until the limit is exceeded. `cost` counts the steps of a result, besides those that were charged.
    pub(crate) fn run_items<T: Sync, R: Send>(
        self,
        items: &[T],
        work: impl Fn(usize, &T) -> R + Sync,
        cost: impl Fn(&R) -> u64 + Sync,
    ) -> LimitedResults<R> {
        let mut results = Vec::with_capacity(items.len());
        let mut used = 0_u64;
        for (number, batch) in items.chunks(BATCH_ITEMS).enumerate() {
            let budget = work::StepBudget::new(self.steps - used);
            let done: Vec<(R, u64)> = batch
                .par_iter()
                .enumerate()
                .map(|(at, item)| {
                    let (result, steps) =
                        work::measure_steps(&budget, || work(number * BATCH_ITEMS + at, item));
                    let steps = steps.saturating_add(cost(&result));
                    (result, steps)
                })
                .collect();
            used = done.iter().fold(used, |used, (_, steps)| used.saturating_add(*steps));
            if used > self.steps {
                // What was done with too much work does not count, nor does what was done at the same time: how much of it
                // there was depends on the order.
                return LimitedResults { stopped_at: Some(number * BATCH_ITEMS), results };
            }
            results.extend(done.into_iter().map(|(result, _)| result));
        }
        LimitedResults { results, stopped_at: None }
    }

    /// The error about a limit that is exceeded before an object.
    pub(crate) fn exceeded_finding(self, what: &str, object: &ObjectRef) -> Finding {
        let message = format!(
            "{what} takes more than {} steps, the limit for a repo of this size: it was stopped before {object}",
            self.steps
        );
        let mut finding = Finding::of_run(Severity::Error, TOO_MUCH_WORK, message);
        finding.help = Some(
            "let fewer policies and override rules apply to each object, write shorter lists in them, or read less of the repo \
             at a time with --path"
                .to_owned(),
        );
        finding
    }
}

/// The steps of the values in a value.
fn count_values(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(map) => map.values().map(count_values).sum(),
        _ => 0,
    }
}

/// The steps of a decision.
pub(crate) fn decision_cost(decided: &DialectDecisions) -> u64 {
    let rows = decided.placements.iter().map(|row| {
        let memory: u64 = row.memory.values().map(count_values).sum();
        STEPS_PER_CLUSTER * row.clusters.len() as u64 + STEPS_PER_VALUE * memory
    });
    let findings = decided.findings.iter().map(|finding| finding.message.len() as u64);
    rows.sum::<u64>() + findings.sum::<u64>()
}

/// The steps of what clusters receive.
pub(crate) fn variants_cost(variants: &[ManifestVariant]) -> u64 {
    let changes = variants.iter().filter_map(|variant| variant.rendered.as_ref().ok());
    STEPS_PER_CHANGE * changes.map(|rendered| rendered.changes.len() as u64).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_exceeded_at_the_same_item_every_time() {
        let items: Vec<u64> = (0..1000).collect();
        let limit = WorkLimit { steps: 10_000 };
        for _ in 0..20 {
            let work = |_, item: &u64| {
                work::charge_steps(50);
                *item
            };
            let LimitedResults { results, stopped_at } = limit.run_items(&items, work, |_| 50);
            assert_eq!((results.len(), stopped_at), (96, Some(96)));
            assert_eq!(results, items[..96]);
        }
        let LimitedResults { results, stopped_at } = limit.run_items(&items, |_, item| *item, |_| 1);
        assert_eq!((results.len(), stopped_at), (1000, None));
        let endless = |_, _: &u64| {
            while !work::is_exceeded() {
                work::charge_steps(7);
            }
        };
        assert_eq!(limit.run_items(&items[..1], endless, |()| 0).stopped_at, Some(0), "the last item, too");
    }
}
