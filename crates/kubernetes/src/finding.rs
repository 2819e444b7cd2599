//! Findings: errors and warnings about a repo, each with its place and a remedy.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::object::{Object, ObjectRef, Origin};
use federate_yaml::Position;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Prevents writing and applying.
    Error,
    /// Does not affect the result.
    Warning,
}

/// An error or a warning.
///
/// `code` is short and stable (`invalid-policy`, `override-failed`, `unmatched`, …), for scripts and
/// `--fail-on`. `message` says in a sentence what is wrong and why; `help` says what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    /// The object or file; `None` if the finding has no place.
    pub origin: Option<Origin>,
    /// The field in that object, as a JSON pointer; empty for the whole object.
    pub pointer: String,
    /// The line, from 1, within the text of the field.
    pub text_line: Option<u32>,
    /// The column, from 1, if the line of the origin is the exact place and not only the first line of the
    /// object.
    pub column: Option<u32>,
    /// The stable code.
    pub code: &'static str,
    /// The object concerned.
    pub object: Option<ObjectRef>,
    /// What is wrong, and why.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// What is wrong apart from the objects that it concerns, where several findings follow from one thing; else the message says it.
    pub cause: Option<String>,
}

impl Finding {
    /// An error about `object`.
    pub fn error(code: &'static str, object: &Object, message: impl Into<String>) -> Self {
        Self::about_object(Severity::Error, code, object, message.into())
    }

    /// A warning about `object`.
    pub fn warning(code: &'static str, object: &Object, message: impl Into<String>) -> Self {
        Self::about_object(Severity::Warning, code, object, message.into())
    }

    /// A finding about a file, at a place in it or as a whole.
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
            cause: None,
        }
    }

    /// A finding about the run, without a file.
    pub fn about_run(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
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
            cause: None,
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Sets the field of the object.
    #[must_use]
    pub fn with_pointer(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = pointer.into();
        self
    }

    /// Sets the line, from 1, of the text in the field.
    #[must_use]
    pub fn in_line(mut self, line: Option<usize>) -> Self {
        self.text_line = line.and_then(|line| u32::try_from(line).ok());
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    fn about_object(severity: Severity, code: &'static str, object: &Object, message: String) -> Self {
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
            cause: None,
        }
    }
}

/// `1 object`, `2 objects`
pub fn format_count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `1 object is`, `2 objects are`
pub fn count_with_verb(number: usize, noun: &str, [singular, plural]: [&str; 2]) -> String {
    format!("{} {}", format_count(number, noun), if number == 1 { singular } else { plural })
}

/// `1 replica`, `2 replicas`
pub fn count_replicas(number: i64) -> String {
    format!("{number} replica{}", if number == 1 { "" } else { "s" })
}

/// The first `most` names, and the number of the others: `a, b and 3 more`.
pub fn join_names(names: &[&str], most: usize) -> String {
    let shown = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
