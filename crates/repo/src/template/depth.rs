//! Checks the depth of expressions in a template by its tokens, before anything recurses into them.
//!
//! The parser, the compiler and the engine use at least one stack frame for each nested operator and for each `elif`;
//! they limit brackets and blocks themselves. A stack overflow aborts the process, so templates that are too deep are
//! refused here.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// The maximum number of nested operators in one expression.
pub(super) const MAX_OPERATORS: usize = 100;

/// The maximum number of `elif` branches in one template.
pub(super) const MAX_ELIF: usize = 200;

/// An expression or a block that is too deep, with the position of the first excess token.
pub(super) struct TooDeep {
    pub(super) at: Span,
    pub(super) message: String,
}

/// Checks a template. Invalid tokens are left to the parser.
pub(super) fn check(source: &str, syntax: &SyntaxConfig) -> Result<(), TooDeep> {
    let mut expression = Operators::default();
    let mut elif = 0;
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, at)) = token else { return Ok(()) };
        elif += usize::from(matches!(token, Token::Ident("elif")));
        if elif > MAX_ELIF {
            let message = format!("the template has more than {MAX_ELIF} `elif` branches: use a map");
            return Err(TooDeep { at, message });
        }
        if expression.add(&token) > MAX_OPERATORS {
            let message = format!(
                "an expression has more than {MAX_OPERATORS} operators that depend on each other: \
                 set a variable for a part of it"
            );
            return Err(TooDeep { at, message });
        }
    }
    Ok(())
}

/// The number of operators from the root of an expression to the last token.
#[derive(Default)]
struct Operators {
    count: usize,
    /// The count at each open bracket.
    open: Vec<usize>,
}

impl Operators {
    /// Counts a token. Returns the current depth.
    fn add(&mut self, token: &Token<'_>) -> usize {
        match token {
            Token::VariableStart | Token::BlockStart | Token::VariableEnd | Token::BlockEnd => {
                *self = Self::default();
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                self.count += 1;
                self.open.push(self.count);
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                self.count = self.open.pop().unwrap_or_default();
            }
            Token::Comma => self.count = self.open.last().copied().unwrap_or_default(),
            Token::Ident("not" | "and" | "or" | "is" | "in" | "if" | "else")
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::FloorDiv
            | Token::Pow
            | Token::Mod
            | Token::Dot
            | Token::Tilde
            | Token::Pipe
            | Token::Eq
            | Token::Ne
            | Token::Gt
            | Token::Gte
            | Token::Lt
            | Token::Lte => self.count += 1,
            _ => {}
        }
        self.count
    }
}
