//! What all renderings of a repo may take together: a repo of a few files and many clusters is many
//! renderings, each within its own limits.
//!
//! Files are rendered at the same time, so how far each came when the limit is reached differs from run to
//! run. That it is reached does not: what a file takes when nothing stops it is always the same.

use std::sync::atomic::{AtomicU64, Ordering};

use federate_kubernetes::{Finding, Severity};

/// The work that is always allowed, in steps of the engine.
const WORK: u64 = 10_000_000;
/// The work that each rendering adds to it.
const WORK_EACH: u64 = 1000;
/// The output that is always allowed, in bytes; what several clusters get alike counts once.
const OUTPUT: u64 = 32 << 20;
/// The output that each rendering adds to it.
const OUTPUT_EACH: u64 = 4 << 10;
/// The part of all this that a single template may take.
const PART: u64 = 4;

/// What was taken, or may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    /// Steps of the engine, and data that filters handled.
    pub(super) work: u64,
    /// Bytes.
    pub(super) output: u64,
}

impl Amount {
    /// The limit that this exceeds, in words.
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

/// What all templates may take, and have taken.
pub(crate) struct Total {
    limit: Amount,
    work: AtomicU64,
    output: AtomicU64,
}

impl Total {
    /// For so many renderings.
    pub(super) fn new(templates: usize, clusters: usize) -> Self {
        let renderings = u64::try_from(templates.saturating_mul(clusters)).unwrap_or(u64::MAX);
        let limit = Amount {
            work: WORK.saturating_add(WORK_EACH.saturating_mul(renderings)),
            output: OUTPUT.saturating_add(OUTPUT_EACH.saturating_mul(renderings)),
        };
        Self { limit, work: AtomicU64::new(0), output: AtomicU64::new(0) }
    }

    /// Adds what a template took; whether it may go on.
    pub(super) fn add(&self, amount: Amount) -> bool {
        self.work.fetch_add(amount.work, Ordering::Relaxed);
        self.output.fetch_add(amount.output, Ordering::Relaxed);
        self.exceeds().is_none()
    }

    /// The limit for one template that it exceeds with what it took, in words.
    pub(super) fn part_exceeded(&self, taken: Amount) -> Option<String> {
        taken.exceeds(Amount { work: self.limit.work / PART, output: self.limit.output / PART })
    }

    fn exceeds(&self) -> Option<String> {
        let (work, output) = (self.work.load(Ordering::Relaxed), self.output.load(Ordering::Relaxed));
        Amount { work, output }.exceeds(self.limit)
    }

    /// An error if all of them took more than they may.
    pub(crate) fn exceeded(&self) -> Option<Finding> {
        let what = self.exceeds()?;
        Some(Finding {
            severity: Severity::Error,
            origin: None,
            pointer: String::new(),
            text_line: None,
            column: None,
            code: "invalid-template",
            object: None,
            message: format!("rendering the `.j2` templates for all clusters takes {what} in total"),
            help: Some("make them smaller, or render them for fewer clusters".to_owned()),
        })
    }
}
