//! Limits the cost of all renderings of a repo together, because a few files and many clusters need many
//! renderings.
//!
//! Files are rendered in parallel, so the progress of each file when the limit is reached differs from run to
//! run. Whether the limit is reached does not: the cost of a file is always the same.

use std::sync::atomic::{AtomicU64, Ordering};

use federate_kubernetes::{Finding, Severity};

/// The work that is always allowed, in steps of the engine.
const BASE_STEPS: u64 = 10_000_000;
/// The additional work for each rendering.
const STEPS_PER_RENDERING: u64 = 1000;
/// The output that is always allowed, in bytes; equal output for several clusters counts once.
const BASE_OUTPUT_BYTES: u64 = 32 << 20;
/// The additional output for each rendering.
const OUTPUT_BYTES_PER_RENDERING: u64 = 4 << 10;
/// The share of the limit that one template may use, as a divisor.
const TEMPLATE_SHARE_DIVISOR: u64 = 4;

/// A cost or a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RenderingCost {
    /// Steps of the engine, including data that filters handle.
    pub(super) work: u64,
    /// Bytes of output.
    pub(super) output: u64,
}

impl RenderingCost {
    /// The limit that is exceeded, in words.
    fn describe_excess(self, limit: Self) -> Option<String> {
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
pub(crate) struct RenderingBudget {
    limit: RenderingCost,
    work: AtomicU64,
    output: AtomicU64,
}

impl RenderingBudget {
    /// The limit for this number of renderings.
    pub(super) fn new(templates: usize, clusters: usize) -> Self {
        let renderings = u64::try_from(templates.saturating_mul(clusters)).unwrap_or(u64::MAX);
        let limit = RenderingCost {
            work: BASE_STEPS.saturating_add(STEPS_PER_RENDERING.saturating_mul(renderings)),
            output: BASE_OUTPUT_BYTES.saturating_add(OUTPUT_BYTES_PER_RENDERING.saturating_mul(renderings)),
        };
        Self { limit, work: AtomicU64::new(0), output: AtomicU64::new(0) }
    }

    /// Adds a cost.
    pub(super) fn add_cost(&self, amount: RenderingCost) {
        self.work.fetch_add(amount.work, Ordering::Relaxed);
        self.output.fetch_add(amount.output, Ordering::Relaxed);
    }

    /// Whether the costs so far exceed the limit. Then nothing more is rendered.
    pub(super) fn is_exceeded(&self) -> bool {
        let (work, output) = (self.work.load(Ordering::Relaxed), self.output.load(Ordering::Relaxed));
        RenderingCost { work, output }.describe_excess(self.limit).is_some()
    }

    /// The limit for one template that is exceeded, in words.
    pub(super) fn part_exceeded(&self, taken: RenderingCost) -> Option<String> {
        taken.describe_excess(RenderingCost {
            work: self.limit.work / TEMPLATE_SHARE_DIVISOR,
            output: self.limit.output / TEMPLATE_SHARE_DIVISOR,
        })
    }

    /// An error if all templates together exceed the limit. It does not say which of the two limits, because the
    /// first that is reached depends on the order of files.
    pub(crate) fn report_excess(&self) -> Option<Finding> {
        if !self.is_exceeded() {
            return None;
        }
        let RenderingCost { work, output } = self.limit;
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
            cause: None,
        })
    }
}
