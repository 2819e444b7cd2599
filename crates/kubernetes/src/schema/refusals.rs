//! Collects everything that is invalid in one object, so that it is reported at once.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Cursor, Shape, check_shape};
use crate::selector::{LabelSelector, invalid_key, invalid_value};
use crate::{Finding, Object};

/// Rules about an object's `spec` that a shape cannot express.
pub type SpecRules = fn(&mut Refusals<'_>, &Cursor<'_>);

/// Checks an object against a shape and rules. Rules are only checked if the shape found no error.
pub fn check_by(
    rules: impl FnOnce(&mut Refusals<'_>, &Cursor<'_>),
    object: &Object,
    shape: &Shape,
    code: &'static str,
) -> Vec<Finding> {
    let mut findings = check_shape(object, shape, code);
    let broken: BTreeSet<String> =
        findings.iter().filter(|f| f.is_error()).map(|f| f.pointer.clone()).collect();
    let mut refusals = Refusals::for_object(object, code);
    rules(&mut refusals, &Cursor::new(&object.body).field("spec"));
    findings.extend(refusals.findings.into_iter().filter(|f| !broken.contains(&f.pointer)));
    findings
}

/// The findings for one object.
pub struct Refusals<'o> {
    /// The object.
    pub object: &'o Object,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
    code: &'static str,
}

impl<'o> Refusals<'o> {
    /// An empty collection, whose findings will have this code.
    pub fn for_object(object: &'o Object, code: &'static str) -> Self {
        Self { object, findings: Vec::new(), code }
    }

    /// Reports an error at the place `at`.
    pub fn add_error(&mut self, at: &Cursor<'_>, message: impl Into<String>, help: &str) {
        self.findings
            .push(Finding::error(self.code, self.object, message).with_pointer(at.pointer()).with_help(help));
    }

    /// Reports an invalid label selector.
    pub fn label_selector(&mut self, at: &Cursor<'_>) {
        let invalid = LabelSelector::deserialize(at.value()).ok().and_then(|s| s.find_mistake());
        if let Some((below, why)) = invalid {
            let message = format!("this label selector is invalid: {why}");
            self.add_error(&at.at_pointer(&below), message, "write it as Kubernetes defines label selectors");
        }
    }

    /// Reports an invalid label key.
    pub fn label_key(&mut self, at: &Cursor<'_>) {
        if let Some(why) = invalid_key(at.as_text()) {
            self.add_error(at, why, "use a valid label key");
        }
    }

    /// Reports an invalid label value.
    pub fn label_value(&mut self, at: &Cursor<'_>) {
        if let Some(why) = invalid_value(at.as_text()) {
            self.add_error(at, why, "use a valid label value");
        }
    }
}
