//! Findings: everything the person who keeps the repo should know, each with its place and a remedy.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::object::{Object, ObjectRef, Origin};
use federate_yaml::Position;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is written or applied.
    Error,
    /// Worth knowing; the result stands.
    Warning,
}

/// One thing that is wrong or worth knowing.
///
/// `code` is stable and short (`invalid-policy`, `override-failed`, `unmatched`, …): scripts and
/// `--fail-on` name it. `message` says what and why in a sentence; `help` what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    /// Where, as an object in a file; `None` when no place is to blame.
    pub origin: Option<Origin>,
    /// Where inside that object, as a JSON pointer; empty for the object as a whole.
    pub pointer: String,
    /// The line, from 1, within the text at the pointer.
    pub text_line: Option<u32>,
    /// The column, from 1, when the origin's line is the very place and not just the object's first.
    pub column: Option<u32>,
    /// The stable short name of this sort of finding.
    pub code: &'static str,
    /// The object it is about.
    pub object: Option<ObjectRef>,
    /// What is wrong, and why.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Finding {
    /// An error about `object`.
    pub fn error(code: &'static str, object: &Object, message: impl Into<String>) -> Self {
        Self::about(Severity::Error, code, object, message.into())
    }

    /// A warning about `object`.
    pub fn warning(code: &'static str, object: &Object, message: impl Into<String>) -> Self {
        Self::about(Severity::Warning, code, object, message.into())
    }

    /// A finding about a file: at a place in it, or about the file as a whole.
    pub fn in_file(
        severity: Severity,
        code: &'static str,
        file: &Arc<str>,
        at: Option<Position>,
        message: impl Into<String>,
    ) -> Self {
        let line = at.map_or(0, |at| at.line);
        Self {
            severity,
            origin: Some(Origin { file: file.clone(), document: 0, item: None, line }),
            pointer: String::new(),
            text_line: None,
            column: at.map(|at| at.column),
            code,
            object: None,
            message: message.into(),
            help: None,
        }
    }

    /// A finding about the run as a whole: no file is to blame.
    pub fn of_run(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity,
            origin: None,
            pointer: String::new(),
            text_line: None,
            column: None,
            code,
            object: None,
            message: message.into(),
            help: None,
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The same finding, pointing at a field of its object.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = pointer.into();
        self
    }

    /// The same finding, pointing at a line, from 1, of the text that the field holds.
    #[must_use]
    pub fn in_line(mut self, line: Option<usize>) -> Self {
        self.text_line = line.and_then(|line| u32::try_from(line).ok());
        self
    }

    /// The same finding with a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    fn about(severity: Severity, code: &'static str, object: &Object, message: String) -> Self {
        Self {
            severity,
            origin: Some(object.origin.clone()),
            pointer: String::new(),
            text_line: None,
            column: None,
            code,
            object: Some(object.id.clone()),
            message,
            help: None,
        }
    }
}

/// The first `most` names, and how many more there are: `a, b and 3 more`.
pub fn list(names: &[&str], most: usize) -> String {
    let shown = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
