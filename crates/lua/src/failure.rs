//! Failures of scripts.

use std::fmt;

/// A script that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFailure {
    /// The kind of failure.
    pub category: FailureCategory,
    /// The message.
    pub message: String,
    /// The line of the script, counted from 1, where there is one.
    pub line: Option<usize>,
}

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCategory {
    /// The script does not compile.
    Syntax,
    /// The global function is missing.
    FunctionMissing,
    /// The global of that name is not a function.
    NotAFunction,
    /// The script failed while it ran.
    Runtime,
    /// The script takes too long.
    Timeout,
    /// A result has the wrong type.
    WrongType,
    /// JSON has no form for a result.
    Encode,
    /// A result does not have the fields that it should have.
    Decode,
    /// A dependency is not valid.
    InvalidDependency,
}

impl FailureCategory {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::FunctionMissing => "function-missing",
            Self::NotAFunction => "not-a-function",
            Self::Runtime => "runtime",
            Self::Timeout => "timeout",
            Self::WrongType => "wrong-type",
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::InvalidDependency => "invalid-dependency",
        }
    }
}

impl ScriptFailure {
    /// A failure without a line of the script.
    pub fn new(category: FailureCategory, message: impl Into<String>) -> Self {
        Self { category, message: message.into(), line: None }
    }

    /// Reads the machine's message: `script:LINE: message`, with or without a traceback.
    pub(crate) fn parse_message(category: FailureCategory, said: &str) -> Self {
        let said = said.split("\nstack traceback:").next().unwrap_or(said).trim();
        let placed = said.strip_prefix("script:").and_then(|rest| rest.split_once(": "));
        let line = placed.and_then(|(line, _)| line.parse().ok());
        let message = match (line, placed) {
            (Some(_), Some((_, message))) => message.to_owned(),
            _ => said.to_owned(),
        };
        Self { category, message, line }
    }
}

impl fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ScriptFailure {}
