//! What is refused in one object, gathered so that all of it is told at once.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Cursor, Shape, check};
use crate::selector::{LabelSelector, invalid_key, invalid_value};
use crate::{Finding, Object};

/// Rules about an object's `spec` that no shape can say.
pub type Rules = fn(&mut Refusals<'_>, &Cursor<'_>);

/// Everything in which an object differs from its shape, and what rules refuse of it. Where the shape has
/// found an error, no rule adds another.
pub fn check_by(
    rules: impl FnOnce(&mut Refusals<'_>, &Cursor<'_>),
    object: &Object,
    shape: &Shape,
    code: &'static str,
) -> Vec<Finding> {
    let mut findings = check(object, shape, code);
    let broken: BTreeSet<String> =
        findings.iter().filter(|f| f.is_error()).map(|f| f.pointer.clone()).collect();
    let mut refusals = Refusals::of(object, code);
    rules(&mut refusals, &Cursor::new(&object.body).field("spec"));
    findings.extend(refusals.findings.into_iter().filter(|f| !broken.contains(&f.pointer)));
    findings
}

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

    /// Refuses what is no label selector.
    pub fn label_selector(&mut self, at: &Cursor<'_>) {
        let invalid = LabelSelector::deserialize(at.value()).ok().and_then(|s| s.invalid());
        if let Some((below, why)) = invalid {
            let message = format!("this label selector is invalid: {why}");
            self.add(&at.below(&below), message, "write it as Kubernetes defines label selectors");
        }
    }

    /// Refuses what cannot be the key of a label.
    pub fn label_key(&mut self, at: &Cursor<'_>) {
        if let Some(why) = invalid_key(at.text()) {
            self.add(at, why, "write it like the key of a label");
        }
    }

    /// Refuses what cannot be the value of a label.
    pub fn label_value(&mut self, at: &Cursor<'_>) {
        if let Some(why) = invalid_value(at.text()) {
            self.add(at, why, "write it like the value of a label");
        }
    }
}
