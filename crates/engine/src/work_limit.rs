//! The limit of the work of each part of a run: the decisions of a control plane and what follows from them, manifests, the
//! passes of a check, an explanation, a scenario.
//!
//! A small repo can ask for work that is the product of two of its sizes: of policies and the templates that each of them selects,
//! or of scripts and their objects. Items are worked on in parallel, but in batches of a fixed size, so that a run that exceeds
//! the limit ends at the same item on every computer.

use rayon::prelude::*;

use federate_kubernetes::work::StepBudget;
use federate_kubernetes::{Finding, ObjectRef, Severity, work};
use federate_repo::Repo;

use federate_dialect::{DialectDecisions, ManifestVariant};

/// The code of the error about a limit that is exceeded.
pub const TOO_MUCH_WORK: &str = "too-much-work";

/// The steps that every run may take.
const BASE_STEPS: u64 = 60_000_000;
/// The further steps for each byte of the repo.
const STEPS_PER_BYTE: u64 = 100;
/// The steps that scenarios which the user has asked for together may take, if the size of the repo allows fewer.
const STEPS_TOGETHER: u64 = 2_000_000_000;
/// The items of a batch.
const BATCH_ITEMS: usize = 32;
/// The steps of a cluster of a placement, of a value in a scheduler state, and of a change by an override rule.
const STEPS_PER_CLUSTER: u64 = 20;
const STEPS_PER_VALUE: u64 = 54;
const STEPS_PER_CHANGE: u64 = 500;

/// How many steps each part of a run may take: about a hundred machine instructions each. A repo does not choose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepAllowance {
    /// As many as the size of the repo allows.
    #[default]
    BySize,
    /// As many as the size of the repo allows, but no more than these.
    BySizeUpTo(u64),
    /// As many as the user has chosen.
    Chosen(u64),
}

/// The limit of one part of a run.
#[derive(Clone, Copy, Debug)]
pub struct WorkLimit {
    steps: u64,
    /// What the limit is, in words.
    what: &'static str,
    /// Whether the user has chosen it.
    is_chosen: bool,
}

/// A part of a run takes more steps than the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {}", ADVICE)]
pub struct TooMuchWork {
    message: String,
}

/// What to do about a limit that is exceeded.
const ADVICE: &str = "let fewer policies and override rules apply to each object, write shorter lists in them, read less of the \
                      repo at a time with --path, or allow more steps with --work-limit";

/// The results of some items, in their order, and the item before which the limit was exceeded.
pub struct LimitedResults<R> {
    /// The results of the items before it, or of all.
    pub results: Vec<R>,
    /// The position of that item.
    pub stopped_at: Option<usize>,
}

impl WorkLimit {
    /// The limit for a repo.
    pub fn new(repo: &Repo, allowance: StepAllowance) -> Self {
        let bytes: usize = repo.texts.values().map(|text| text.len()).sum();
        let by_size = BASE_STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(bytes as u64));
        Self::without_size(allowance)
            .filter(|limit| limit.is_chosen || limit.steps < by_size)
            .unwrap_or(Self { steps: by_size, what: "the limit for a repo of this size", is_chosen: false })
    }

    /// The limit that does not depend on the size of the repo, if there is one.
    pub fn without_size(allowance: StepAllowance) -> Option<Self> {
        let (steps, what) = match allowance {
            StepAllowance::BySize => return None,
            StepAllowance::Chosen(steps) => (steps, "--work-limit"),
            StepAllowance::BySizeUpTo(most) => (most, "the limit for one Sync"),
        };
        Some(Self { steps, what, is_chosen: matches!(allowance, StepAllowance::Chosen(_)) })
    }

    /// Checks the steps that a part of a run has taken.
    ///
    /// # Errors
    ///
    /// If they are more than the limit.
    pub fn check_steps(self, what: &str, steps: u64) -> Result<(), TooMuchWork> {
        if steps > self.steps { Err(TooMuchWork { message: self.describe_excess(what) }) } else { Ok(()) }
    }

    /// Carries out a part of a run. A part of a part counts for the whole. `what` says what takes the work.
    ///
    /// # Errors
    ///
    /// If it takes more steps than the limit.
    pub fn run_part<R>(self, what: &str, work: impl FnOnce() -> R) -> Result<R, TooMuchWork> {
        let budget = work::current_budget().unwrap_or_else(|| StepBudget::new(self.steps));
        let (result, _) = work::measure_steps(&budget, work);
        if budget.is_exceeded() {
            return Err(TooMuchWork { message: self.describe_excess(what) });
        }
        Ok(result)
    }

    /// The limit of several parts together that the user has asked for at once, such as the loss of each cluster.
    #[must_use]
    pub fn for_parts_together(self) -> Self {
        if self.is_chosen || self.steps >= STEPS_TOGETHER {
            return self;
        }
        Self { steps: STEPS_TOGETHER, what: "the limit for all of them together", is_chosen: false }
    }

    fn describe_excess(self, what: &str) -> String {
        format!("{what} takes more than {} steps, {}", self.steps, self.what)
    }

    /// Works on items until the limit is exceeded. `cost` counts the steps of a result, besides those that were charged.
    pub fn run_items<T: Sync, R: Send>(
        self,
        items: &[T],
        work: impl Fn(usize, &T) -> R + Sync,
        cost: impl Fn(&R) -> u64 + Sync,
    ) -> LimitedResults<R> {
        let mut results = Vec::with_capacity(items.len());
        let mut used = 0_u64;
        for (number, batch) in items.chunks(BATCH_ITEMS).enumerate() {
            let budget = StepBudget::new(self.steps - used);
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
    pub fn exceeded_finding(self, what: &str, object: &ObjectRef) -> Finding {
        let message = format!("{}: it was stopped before {object}", self.describe_excess(what));
        TooMuchWork { message }.into_finding()
    }
}

impl TooMuchWork {
    /// The error as a finding.
    pub fn into_finding(self) -> Finding {
        let mut finding = Finding::about_run(Severity::Error, TOO_MUCH_WORK, self.message);
        finding.help = Some(ADVICE.to_owned());
        finding
    }
}

/// Works on items in parallel, and charges their steps to the budget of the caller.
pub fn map_charged<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    match work::current_budget() {
        Some(budget) => items.par_iter().map(|item| work::measure_steps(&budget, || work(item)).0).collect(),
        None => items.par_iter().map(&work).collect(),
    }
}

/// The steps of a decision.
pub fn decision_cost(decided: &DialectDecisions) -> u64 {
    let rows = decided.placements.iter().map(|row| {
        let values: u64 = row.scheduler_state.values().map(work::count_values).sum();
        STEPS_PER_CLUSTER * row.clusters.len() as u64 + STEPS_PER_VALUE * values
    });
    let findings = decided.findings.iter().map(|finding| finding.message.len() as u64);
    rows.sum::<u64>() + findings.sum::<u64>()
}

/// The steps of what clusters receive.
pub fn variants_cost(variants: &[ManifestVariant]) -> u64 {
    let changes = variants.iter().filter_map(|variant| variant.rendered.as_ref().ok());
    STEPS_PER_CHANGE * changes.map(|rendered| rendered.changes.len() as u64).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_exceeded_at_the_same_item_every_time() {
        let items: Vec<u64> = (0..1000).collect();
        let limit = WorkLimit { steps: 10_000, what: "the limit", is_chosen: false };
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
    #[test]
    fn a_part_counts_the_steps_of_all_threads_and_of_its_parts() {
        let items: Vec<u64> = (0..100).collect();
        let limit = WorkLimit { steps: 10_000, what: "--work-limit", is_chosen: true };
        let whole = |steps: u64| {
            limit.run_part("counting", || {
                map_charged(&items, |_| work::charge_steps(steps));
                limit.run_part("a part", || work::charge_steps(1000)).is_ok()
            })
        };
        assert_eq!(whole(90), Ok(true));
        let exceeded = whole(91).unwrap_err().to_string();
        assert!(exceeded.starts_with("counting takes more than 10000 steps, --work-limit: "), "{exceeded}");
    }
}
