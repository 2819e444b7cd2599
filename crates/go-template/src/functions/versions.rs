//! Sprig's functions for semantic versions.

use federate_semver::{SemanticVersion, VersionConstraint};
use std::rc::Rc;

use super::FunctionParameter::Text;
use super::GoFunction;
use crate::error::TemplateFailure;
use crate::text::to_valid_text;
use crate::value::GoValue;

/// How long a constraint may be.
const MAX_LENGTH: usize = 1_000;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("semver", &[Text], |a, _| Ok(GoValue::Version(Rc::new(parse_version(a.text(0))?)))),
    GoFunction::new("semverCompare", &[Text, Text], |a, _| {
        let text = to_valid_text(a.text(0));
        let constraint = VersionConstraint::parse(&text).filter(|_| text.len() <= MAX_LENGTH);
        let Some(constraint) = constraint else {
            return Err(TemplateFailure::function(format!("improper constraint: {text}")));
        };
        Ok(GoValue::Bool(constraint.fits(&parse_version(a.text(1))?)))
    }),
];

fn parse_version(text: &[u8]) -> Result<SemanticVersion, TemplateFailure> {
    SemanticVersion::parse(&to_valid_text(text))
        .ok_or_else(|| TemplateFailure::function("invalid semantic version"))
}
