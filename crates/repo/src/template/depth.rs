//! How deep the expressions of a template are, found from its tokens, before anything recurses into them.
//!
//! Parser, compiler and engine use the stack once or more for each operator that depends on another one and
//! for each `elif`; brackets and blocks they count themselves. A stack that overflows ends the process, so
//! templates that are too deep are refused here.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Operators that may depend on each other in one expression.
pub(super) const MAX_OPERATORS: usize = 100;

/// `elif` branches of one template.
pub(super) const MAX_ELIF: usize = 200;

/// What is too deep, and where it begins to be.
pub(super) struct TooDeep {
    pub(super) at: Span,
    pub(super) message: String,
}

/// Looks for the first place that is too deep. What is no token at all is left to the parser.
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
        if expression.take(&token) > MAX_OPERATORS {
            let message = format!(
                "an expression has more than {MAX_OPERATORS} operators that depend on each other: \
                 set a variable for a part of it"
            );
            return Err(TooDeep { at, message });
        }
    }
    Ok(())
}

/// The operators on the way from the root of an expression to the token that was read last.
#[derive(Default)]
struct Operators {
    count: usize,
    /// The count at each bracket that is open.
    open: Vec<usize>,
}

impl Operators {
    fn take(&mut self, token: &Token<'_>) -> usize {
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
