//! Errors of templates, with their place.

/// Why a template cannot be parsed or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column} of the template)")]
pub struct TemplateError {
    /// What is wrong.
    pub kind: TemplateErrorKind,
    /// The reason, which names the function, the field or the word.
    pub message: String,
    /// The line in the template, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// What is wrong with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TemplateErrorKind {
    /// The text is not a template.
    Syntax,
    /// The template calls a function that does not exist.
    UnknownFunction,
    /// The template calls a function whose result is not the same from run to run, or that needs more than the
    /// parameters.
    RefusedFunction,
    /// A map has no such key, and the option says that this is an error.
    MissingKey,
    /// A field of a value that is null.
    FieldOfNull,
    /// A value does not fit its use: a field of a text, an argument of a wrong type, a range over a text.
    WrongType,
    /// A function failed.
    FunctionFailed,
    /// The template takes too many steps, writes too much text or is nested too deeply.
    LimitExceeded,
}

/// Why an option is not one of Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized template option {0:?}; the options are missingkey=default, =invalid, =zero and =error")]
pub struct UnknownTemplateOption(pub String);

/// An error whose place is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateFailure {
    pub(crate) kind: TemplateErrorKind,
    pub(crate) message: String,
    /// The offset of the node in the template, where it is already known.
    pub(crate) offset: Option<usize>,
}

impl TemplateFailure {
    pub(crate) fn new(kind: TemplateErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), offset: None }
    }

    /// The failure of a function.
    pub(crate) fn function(message: impl Into<String>) -> Self {
        Self::new(TemplateErrorKind::FunctionFailed, message)
    }

    /// A value of a wrong type.
    pub(crate) fn wrong_type(message: impl Into<String>) -> Self {
        Self::new(TemplateErrorKind::WrongType, message)
    }

    /// The same failure at an offset, unless it already has one.
    pub(crate) fn at(mut self, offset: usize) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// The error with its line and column in the template's text.
    pub(crate) fn locate(self, text: &str) -> TemplateError {
        let before = text.get(..self.offset.unwrap_or(0)).unwrap_or(text);
        let lines = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before.get(start..).map_or(0, |line| line.chars().count());
        let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
        TemplateError { kind: self.kind, message: self.message, line: number(lines), column: number(column) }
    }
}
