//! What a rendering may use: steps, and bytes of texts.

use crate::error::{TemplateErrorKind, TemplateFailure};

/// The work that renderings may still do. One budget can be passed to several renderings, which share it.
#[derive(Clone, Debug)]
pub struct TemplateBudget {
    steps: u64,
    bytes: u64,
}

impl TemplateBudget {
    /// A budget of `steps` (each node of a template and each value that a function looks at is one) and of `bytes`,
    /// which are those written and those of all texts and lists on the way.
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self { steps, bytes }
    }

    /// The steps that are left.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The bytes that are left.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn spend_steps(&mut self, steps: usize) -> Result<(), TemplateFailure> {
        let left = u64::try_from(steps).ok().and_then(|steps| self.steps.checked_sub(steps));
        self.steps = left.ok_or_else(|| limit_failure("takes too many steps"))?;
        Ok(())
    }

    pub(crate) fn spend_bytes(&mut self, bytes: usize) -> Result<(), TemplateFailure> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.bytes.checked_sub(bytes));
        self.bytes = left.ok_or_else(|| limit_failure("writes too much text"))?;
        Ok(())
    }
}

/// The failure of a template that exceeds a limit.
pub(crate) fn limit_failure(what: &str) -> TemplateFailure {
    TemplateFailure::new(TemplateErrorKind::LimitExceeded, format!("the template {what}"))
}
