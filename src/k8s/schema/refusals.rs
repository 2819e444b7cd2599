//! What is refused in one object, gathered so that all of it is told at once.

use super::Cursor;
use crate::k8s::{Finding, Object};

/// The refusals of one object so far.
pub struct Refusals<'o> {
    /// The object.
    pub object: &'o Object,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
    code: &'static str,
}

impl<'o> Refusals<'o> {
    /// None yet; each will carry this code.
    pub fn of(object: &'o Object, code: &'static str) -> Self {
        Self { object, findings: Vec::new(), code }
    }

    /// Refuses the object for what stands at `at`.
    pub fn add(&mut self, at: &Cursor<'_>, message: impl Into<String>, help: &str) {
        self.findings.push(Finding::error(self.code, self.object, message).at(at.pointer()).help(help));
    }
}
