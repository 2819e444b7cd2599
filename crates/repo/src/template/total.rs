//! Limits the cost of all renderings of a repo together, because a few files and many clusters need many
//! renderings.
//!
//! Files are rendered in parallel, so the progress of each file when the limit is reached differs from run to
//! run. Whether the limit is reached does not: the cost of a file is always the same.

use std::sync::atomic::{AtomicU64, Ordering};

use federate_kubernetes::{Finding, Severity};

/// The work that is always allowed, in steps of the engine.
const WORK: u64 = 10_000_000;
/// The additional work for each rendering.
const WORK_EACH: u64 = 1000;
/// The output that is always allowed, in bytes; equal output for several clusters counts once.
const OUTPUT: u64 = 32 << 20;
/// The additional output for each rendering.
const OUTPUT_EACH: u64 = 4 << 10;
/// The share of the limit that one template may use, as a divisor.
const PART: u64 = 4;

/// A cost or a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    /// Steps of the engine, including data that filters handle.
    pub(super) work: u64,
    /// Bytes of output.
    pub(super) output: u64,
}

impl Amount {
    /// The limit that is exceeded, in words.
    fn exceeds(self, limit: Self) -> Option<String> {
        if self.output > limit.output {
            Some(format!("more than {} MiB of output", limit.output >> 20))
        } else if self.work > limit.work {
            Some(format!("more than {} steps", limit.work))
        } else {
            None
        }
    }
}

/// The limit and the cost of all templates.
pub(crate) struct Total {
    limit: Amount,
    work: AtomicU64,
    output: AtomicU64,
}

impl Total {
    /// The limit for this number of renderings.
    pub(super) fn new(templates: usize, clusters: usize) -> Self {
        let renderings = u64::try_from(templates.saturating_mul(clusters)).unwrap_or(u64::MAX);
        let limit = Amount {
            work: WORK.saturating_add(WORK_EACH.saturating_mul(renderings)),
            output: OUTPUT.saturating_add(OUTPUT_EACH.saturating_mul(renderings)),
        };
        Self { limit, work: AtomicU64::new(0), output: AtomicU64::new(0) }
    }

    /// Adds a cost.
    pub(super) fn add(&self, amount: Amount) {
        self.work.fetch_add(amount.work, Ordering::Relaxed);
        self.output.fetch_add(amount.output, Ordering::Relaxed);
    }

    /// Whether the costs so far exceed the limit. Then nothing more is rendered.
    pub(super) fn is_exceeded(&self) -> bool {
        let (work, output) = (self.work.load(Ordering::Relaxed), self.output.load(Ordering::Relaxed));
        Amount { work, output }.exceeds(self.limit).is_some()
    }

    /// The limit for one template that is exceeded, in words.
    pub(super) fn part_exceeded(&self, taken: Amount) -> Option<String> {
        taken.exceeds(Amount { work: self.limit.work / PART, output: self.limit.output / PART })
    }

    /// An error if all templates together exceed the limit. It does not say which of the two limits, because the
    /// first that is reached depends on the order of files.
    pub(crate) fn exceeded(&self) -> Option<Finding> {
        if !self.is_exceeded() {
            return None;
        }
        let Amount { work, output } = self.limit;
        let what = format!("more than {work} steps or {} MiB of output", output >> 20);
        Some(Finding {
            severity: Severity::Error,
            origin: None,
            pointer: String::new(),
            text_line: None,
            column: None,
            code: "invalid-template",
            object: None,
            message: format!("rendering the `.j2` templates for all clusters takes {what} in total"),
            help: Some("make the templates smaller, or render them for fewer clusters".to_owned()),
        })
    }
}
