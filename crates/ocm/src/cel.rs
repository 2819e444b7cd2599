//! Expressions in CEL about a cluster, as far as they are reproduced exactly.
//!
//! ```text
//! parser ─► check (types, overloads) ─► evaluate over the cluster as JSON
//! ```
//!
//! Facts: an expression must give the boolean true; an error and any other value do not match. What the hub cannot compile
//! makes the placement misconfigured. Functions that the hub has and this module has not, and expressions that take very
//! many steps, are [unsupported](CompileError::Unsupported): then nothing is decided.

use cel::common::ast::IdedExpr;
use cel::parser::Parser;

mod check;
pub(crate) mod cluster;
mod evaluate;
mod functions;
mod network;
mod texts;
mod value;

pub(crate) use evaluate::ScoreSource;
pub(crate) use value::CelValue;

/// The name of the variable.
const VARIABLE: &str = "managedCluster";

/// The longest expression: what the parser makes of a longer one may not fit on the stack of a thread.
const MAX_LENGTH: usize = 1000;

/// The depth of a parsed expression, so that it fits on the stack of a thread.
const MAX_DEPTH: usize = 60;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    root: IdedExpr,
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
    pub(crate) fn compile(source: &str) -> Result<Self, CompileError> {
        if source.len() > MAX_LENGTH {
            return Err(CompileError::Unsupported(format!("it has more than {MAX_LENGTH} characters")));
        }
        let parsed = Parser::new().enable_optional_syntax(true).parse(source);
        let root = parsed.map_err(|error| CompileError::Invalid(format!("compilation failed: {error}")))?;
        check::check(&root).map_err(|error| match error {
            CompileError::Invalid(why) => CompileError::Invalid(format!("compilation failed: ERROR: {why}")),
            unsupported @ CompileError::Unsupported(_) => unsupported,
        })?;
        Ok(Self { root })
    }

    /// Whether a cluster matches; `None` if that takes too many steps.
    pub(crate) fn matches(&self, cluster: &CelValue, scores: &dyn ScoreSource) -> Option<bool> {
        evaluate::evaluate(&self.root, cluster, scores)
    }
}

#[cfg(test)]
mod tests;
