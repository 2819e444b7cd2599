//! Limits for all renderings of a repo together: a repo with a few files and many clusters has many renderings, each
//! within its own limits.
//!
//! Files are rendered concurrently, so the progress of each file when a limit is reached differs from run to run.
//! Whether a limit is reached does not differ, because the complete rendering of a file always uses the same resources.

use std::sync::atomic::{AtomicU64, Ordering};

use federate_kubernetes::{Finding, Severity};

/// The base limit for work, in steps of the template engine.
const WORK: u64 = 30_000_000;
/// The additional limit for each rendering.
const WORK_PER_RENDERING: u64 = 1000;
/// The base limit for output, in bytes. The same output for several clusters counts once.
const OUTPUT: u64 = 32 << 20;
/// The additional limit for each rendering.
const OUTPUT_PER_RENDERING: u64 = 4 << 10;
/// The divisor of the limits for a single template.
const TEMPLATE_SHARE: u64 = 4;

/// Used or allowed resources.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    /// Steps of the template engine, and data that filters processed.
    pub(super) work: u64,
    /// Output in bytes.
    pub(super) output: u64,
}

impl Amount {
    /// Returns a description of the exceeded limit, if any.
    fn excess(self, limit: Self) -> Option<String> {
        if self.output > limit.output {
            Some(format!("more than {} MiB of output", limit.output >> 20))
        } else if self.work > limit.work {
            Some(format!("more than {} steps", limit.work))
        } else {
            None
        }
    }
}

/// The resources that all templates may use, and have used.
pub(crate) struct Total {
    limit: Amount,
    work: AtomicU64,
    output: AtomicU64,
}

impl Total {
    /// Creates the limits for a number of templates and clusters.
    pub(super) fn new(templates: usize, clusters: usize) -> Self {
        let renderings = u64::try_from(templates.saturating_mul(clusters)).unwrap_or(u64::MAX);
        let limit = Amount {
            work: WORK.saturating_add(WORK_PER_RENDERING.saturating_mul(renderings)),
            output: OUTPUT.saturating_add(OUTPUT_PER_RENDERING.saturating_mul(renderings)),
        };
        Self { limit, work: AtomicU64::new(0), output: AtomicU64::new(0) }
    }

    /// Adds the resources that a template used. Returns whether the total is within the limits.
    pub(super) fn add(&self, amount: Amount) -> bool {
        self.work.fetch_add(amount.work, Ordering::Relaxed);
        self.output.fetch_add(amount.output, Ordering::Relaxed);
        self.excess().is_none()
    }

    /// Returns a description of the limit for one template that `used` exceeds, if any.
    pub(super) fn template_excess(&self, used: Amount) -> Option<String> {
        let (work, output) = (self.limit.work / TEMPLATE_SHARE, self.limit.output / TEMPLATE_SHARE);
        used.excess(Amount { work, output })
    }

    fn excess(&self) -> Option<String> {
        let (work, output) = (self.work.load(Ordering::Relaxed), self.output.load(Ordering::Relaxed));
        Amount { work, output }.excess(self.limit)
    }

    /// Returns an error if the total exceeds a limit.
    pub(crate) fn exceeded(&self) -> Option<Finding> {
        let excess = self.excess()?;
        Some(Finding {
            severity: Severity::Error,
            origin: None,
            pointer: String::new(),
            text_line: None,
            column: None,
            code: "invalid-template",
            object: None,
            message: format!("rendering the `.j2` templates for all clusters takes {excess} in total"),
            help: Some("simplify the templates, or render them for fewer clusters".to_owned()),
        })
    }
}
