//! From a template's text to tokens.

use crate::error::{TemplateErrorKind, TemplateFailure};

/// Where actions begin and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateDelimiters {
    /// What begins an action: `{{` in most programs.
    pub left: &'static str,
    /// What ends an action.
    pub right: &'static str,
}

impl Default for TemplateDelimiters {
    fn default() -> Self {
        Self { left: "{{", right: "}}" }
    }
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateToken<'t> {
    pub(crate) offset: usize,
    pub(crate) kind: TokenKind,
    pub(crate) text: &'t str,
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Text between actions.
    Text,
    LeftDelimiter,
    RightDelimiter,
    /// Blanks within an action.
    Space,
    /// A name, or one of the words such as `if`.
    Word,
    /// `.name`.
    Field,
    /// `$name`.
    Variable,
    Dot,
    Number,
    /// `'c'`.
    Char,
    /// `"text"`.
    Quoted,
    /// `` `text` ``.
    RawQuoted,
    /// `:=`.
    Declare,
    /// `=`.
    Assign,
    Pipe,
    LeftParenthesis,
    RightParenthesis,
    Comma,
    /// Another character of ASCII, which has no meaning.
    Other,
    End,
}

/// Splits a text into tokens. After an error, the tokens before it come with it, since an earlier mistake counts first.
pub(crate) fn read_tokens<'t>(
    text: &'t str,
    delimiters: &TemplateDelimiters,
) -> (Vec<TemplateToken<'t>>, Option<TemplateFailure>) {
    let mut lexer = Lexer { text, delimiters, offset: 0, tokens: Vec::new() };
    let failure = lexer.read_all().err();
    (lexer.tokens, failure)
}

struct Lexer<'t, 'd> {
    text: &'t str,
    delimiters: &'d TemplateDelimiters,
    offset: usize,
    tokens: Vec<TemplateToken<'t>>,
}

/// A blank between words of an action.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// A character of a name.
fn is_name_char(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl<'t> Lexer<'t, '_> {
    fn rest(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, TemplateFailure> {
        Err(TemplateFailure::new(TemplateErrorKind::Syntax, message).at(self.offset))
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        let text = self.rest().get(..length).unwrap_or_default();
        self.tokens.push(TemplateToken { offset: self.offset, kind, text });
        self.offset += length;
    }

    fn read_all(&mut self) -> Result<(), TemplateFailure> {
        let left = self.delimiters.left;
        while let Some(length) = self.rest().find(left) {
            let after = self.rest().get(length + left.len()..).unwrap_or_default();
            let trims =
                after.starts_with('-') && after.get(1..).is_some_and(|rest| rest.starts_with(is_space));
            let text = self.rest().get(..length).unwrap_or_default();
            let kept = if trims { text.trim_end_matches(is_space) } else { text };
            if !kept.is_empty() {
                self.push(TokenKind::Text, kept.len());
            }
            self.offset += length - kept.len();
            let marker = if trims { 2 } else { 0 };
            if after.get(marker..).is_some_and(|after| after.starts_with("/*")) {
                self.offset += left.len() + marker;
                self.skip_comment()?;
                continue;
            }
            self.push(TokenKind::LeftDelimiter, left.len());
            self.offset += marker;
            self.read_action()?;
        }
        if !self.rest().is_empty() {
            self.push(TokenKind::Text, self.rest().len());
        }
        self.push(TokenKind::End, 0);
        Ok(())
    }

    /// Whether the action ends here, and the length of the marker that trims what follows.
    fn right_delimiter(&self) -> Option<usize> {
        let rest = self.rest();
        if rest.starts_with(is_space)
            && let Some(after) = rest.get(1..).and_then(|rest| rest.strip_prefix('-'))
            && after.starts_with(self.delimiters.right)
        {
            return Some(2);
        }
        rest.starts_with(self.delimiters.right).then_some(0)
    }

    /// Moves over the blanks that a marker trims.
    fn skip_trimmed(&mut self, marker: usize) {
        if marker > 0 {
            self.offset += self.rest().len() - self.rest().trim_start_matches(is_space).len();
        }
    }

    fn skip_comment(&mut self) -> Result<(), TemplateFailure> {
        let Some(length) = self.rest().get(2..).and_then(|rest| rest.find("*/")) else {
            return self.fail("unclosed comment");
        };
        self.offset += length + 4;
        let Some(marker) = self.right_delimiter() else {
            return self.fail("comment ends before closing delimiter");
        };
        self.offset += marker + self.delimiters.right.len();
        self.skip_trimmed(marker);
        Ok(())
    }

    fn read_action(&mut self) -> Result<(), TemplateFailure> {
        let mut parentheses = 0_usize;
        loop {
            if let Some(marker) = self.right_delimiter() {
                if parentheses > 0 {
                    return self.fail("unclosed left paren");
                }
                self.offset += marker;
                self.push(TokenKind::RightDelimiter, self.delimiters.right.len());
                self.skip_trimmed(marker);
                return Ok(());
            }
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return self.fail("unclosed action") };
            let second = rest.chars().nth(1);
            match first {
                c if is_space(c) => self.read_space(),
                '=' => self.push(TokenKind::Assign, 1),
                ':' if second == Some('=') => self.push(TokenKind::Declare, 2),
                ':' => return self.fail("expected :="),
                '|' => self.push(TokenKind::Pipe, 1),
                '"' => self.read_quoted('"', TokenKind::Quoted, "unterminated quoted string")?,
                '\'' => self.read_quoted('\'', TokenKind::Char, "unterminated character constant")?,
                '`' => {
                    let Some(length) = rest.get(1..).and_then(|rest| rest.find('`')) else {
                        return self.fail("unterminated raw quoted string");
                    };
                    self.push(TokenKind::RawQuoted, length + 2);
                }
                '$' => self.read_name(TokenKind::Variable, TokenKind::Variable)?,
                '.' if !second.is_some_and(|c| c.is_ascii_digit()) => {
                    self.read_name(TokenKind::Field, TokenKind::Dot)?;
                }
                '.' | '+' | '-' | '0'..='9' => self.read_number()?,
                c if is_name_char(c) => self.read_name(TokenKind::Word, TokenKind::Word)?,
                '(' => {
                    parentheses += 1;
                    self.push(TokenKind::LeftParenthesis, 1);
                }
                ')' => {
                    let Some(left) = parentheses.checked_sub(1) else {
                        return self.fail("unexpected right paren");
                    };
                    parentheses = left;
                    self.push(TokenKind::RightParenthesis, 1);
                }
                ',' => self.push(TokenKind::Comma, 1),
                c if c.is_ascii_graphic() => self.push(TokenKind::Other, 1),
                c => return self.fail(format!("unrecognized character in action: {c:?}")),
            }
        }
    }

    /// Blanks, but not the one that belongs to ` -}}`.
    fn read_space(&mut self) {
        let length = self.rest().len() - self.rest().trim_start_matches(is_space).len();
        let last = self.offset + length - 1;
        let end = Lexer { offset: last, tokens: Vec::new(), ..*self }.right_delimiter();
        let length = if end == Some(2) { length - 1 } else { length };
        if length > 0 {
            self.push(TokenKind::Space, length);
        }
    }

    /// What is between two equal quotes, in which `\` quotes the next character.
    fn read_quoted(&mut self, quote: char, kind: TokenKind, unclosed: &str) -> Result<(), TemplateFailure> {
        let mut quoted = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if quoted => quoted = false,
                '\\' => quoted = true,
                c if c == quote => {
                    self.push(kind, at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.fail(unclosed)
    }

    /// A name after its first character, which must be followed by something that ends a name.
    fn read_name(&mut self, kind: TokenKind, alone: TokenKind) -> Result<(), TemplateFailure> {
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let name = rest.get(first..).unwrap_or_default();
        let length = first + name.len() - name.trim_start_matches(is_name_char).len();
        let after = rest.get(length..).unwrap_or_default();
        let ends = after.is_empty()
            || after.starts_with(is_space)
            || after.starts_with(['.', ',', '|', ':', ')', '('])
            || after.starts_with(self.delimiters.right);
        if !ends {
            let c = after.chars().next().unwrap_or_default();
            self.offset += length;
            return self.fail(format!("bad character {c:?}"));
        }
        self.push(if length == first { alone } else { kind }, length);
        Ok(())
    }

    /// What may be a number; the parser reads it.
    fn read_number(&mut self) -> Result<(), TemplateFailure> {
        let rest = self.rest();
        let unsigned = rest.trim_start_matches(['+', '-']);
        let sign = rest.len() - unsigned.len();
        let lower = unsigned.get(..2).unwrap_or_default().to_ascii_lowercase();
        let exponents = if lower == "0x" { "pP" } else { "eE" };
        let mut length = sign.min(1);
        let mut before = ' ';
        for c in rest.chars().skip(sign.min(1)) {
            let after_exponent = exponents.contains(before) && before != ' ';
            if !(is_name_char(c) || c == '.' || (matches!(c, '+' | '-') && after_exponent)) {
                break;
            }
            length += c.len_utf8();
            before = c;
        }
        if rest.get(length..).is_some_and(|after| after.starts_with(['+', '-'])) {
            return self.fail(format!("bad number syntax: {:?}", rest.get(..=length).unwrap_or(rest)));
        }
        self.push(TokenKind::Number, length);
        Ok(())
    }
}
