//! Limits the depth of expressions, measured on the tokens, before anything recurses into them.
//!
//! Parser, compiler and engine recurse for each nested operator and each `elif`; they only count brackets and
//! blocks. A stack overflow ends the process, so templates that are too deep are refused here.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// The largest number of nested operators in an expression.
pub(super) const MAX_OPERATORS: usize = 100;

/// The largest number of `elif` branches in a template.
pub(super) const MAX_ELIF: usize = 200;

/// What is too deep, and where.
pub(super) struct TooDeep {
    pub(super) at: Span,
    pub(super) message: String,
}

/// Finds the first place that is too deep. Invalid tokens are left to the parser.
pub(super) fn check_depth(source: &str, syntax: &SyntaxConfig) -> Result<(), TooDeep> {
    let mut expression = Operators::default();
    let mut elif = 0;
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, at)) = token else { return Ok(()) };
        elif += usize::from(matches!(token, Token::Ident("elif")));
        if elif > MAX_ELIF {
            let message = format!("the template has more than {MAX_ELIF} `elif` branches: use a map");
            return Err(TooDeep { at, message });
        }
        if expression.count_token(&token) > MAX_OPERATORS {
            let message = format!(
                "an expression has more than {MAX_OPERATORS} operators that depend on each other: \
                 set a variable for a part of it"
            );
            return Err(TooDeep { at, message });
        }
    }
    Ok(())
}

/// Counts the operators from the root of an expression to the last token.
#[derive(Default)]
struct Operators {
    count: usize,
    /// The count at each open bracket.
    open: Vec<usize>,
}

impl Operators {
    fn count_token(&mut self, token: &Token<'_>) -> usize {
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
