//! Expressions in CEL about a cluster or an object, as far as they are reproduced exactly.
//!
//! ```text
//! parser ─► check (types, overloads) ─► evaluate over JSON
//! ```
//!
//! Facts: an expression must give the boolean true; an error and any other value do not match. What the hub cannot compile
//! makes the placement misconfigured. Functions that the hub has and this module has not are
//! [unsupported](CompileError::Unsupported), and so are expressions that take very many steps, or reach a value that is not
//! reproduced: then nothing is decided.

use cel::common::ast::IdedExpr;
use cel::parser::Parser;

mod cel_type;
mod check;
pub(crate) mod cluster;
mod evaluate;
mod format;
mod functions;
mod network;
mod texts;
mod value;

pub(crate) use evaluate::ScoreSource;
pub(crate) use value::CelValue;

/// What an expression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CelVariable {
    /// A cluster on the hub.
    ManagedCluster,
    /// An object in a member.
    Object,
}

impl CelVariable {
    /// The name of the variable.
    fn name(self) -> &'static str {
        match self {
            Self::ManagedCluster => "managedCluster",
            Self::Object => "object",
        }
    }
}

/// The longest expression: what the parser makes of a longer one may not fit on the stack of a thread.
const MAX_LENGTH: usize = 1000;

/// The depth of a parsed expression, so that it fits on the stack of a thread.
const MAX_DEPTH: usize = 60;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    root: IdedExpr,
    variable: CelVariable,
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompileError {
    /// The hub cannot compile it, either.
    Invalid(String),
    /// What is not reproduced.
    Unsupported(String),
}

impl Expression {
    /// Compiles an expression.
    pub(crate) fn compile(source: &str, variable: CelVariable) -> Result<Self, CompileError> {
        if source.len() > MAX_LENGTH {
            return Err(CompileError::Unsupported(format!("it has more than {MAX_LENGTH} characters")));
        }
        let parsed = Parser::new().enable_optional_syntax(true).parse(source);
        let root = parsed.map_err(|error| CompileError::Invalid(format!("compilation failed: {error}")))?;
        check::check(&root, variable).map_err(|error| match error {
            CompileError::Invalid(why) => CompileError::Invalid(format!("compilation failed: ERROR: {why}")),
            unsupported @ CompileError::Unsupported(_) => unsupported,
        })?;
        Ok(Self { root, variable })
    }

    /// Whether an object matches. `Err` says what is not reproduced.
    pub(crate) fn matches(&self, object: &CelValue, scores: &dyn ScoreSource) -> Result<bool, &'static str> {
        evaluate::evaluate(&self.root, self.variable, object, scores)
    }
}

#[cfg(test)]
mod tests;
