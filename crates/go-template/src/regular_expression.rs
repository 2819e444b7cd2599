//! Regular expressions in Go's syntax.
//!
//! Facts: `\d`, `\w`, `\s` and `\b` only know ASCII; `\Q…\E` quotes; `{` that begins no repetition, and `[`, `&` and `~`
//! within brackets, are ordinary characters.

use regex::bytes::{Regex, RegexBuilder};

use crate::error::TemplateFailure;

/// How large a compiled expression may be, in bytes.
const MAX_SIZE: usize = 1 << 20;

/// How many characters an expression may have.
const MAX_LENGTH: usize = 10_000;

/// Compiles an expression.
pub(crate) fn compile_expression(expression: &[u8]) -> Result<Regex, TemplateFailure> {
    let fail = |reason: &str| {
        let shown = String::from_utf8_lossy(expression).into_owned();
        TemplateFailure::function(format!("error parsing regexp: {reason}: `{shown}`"))
    };
    let text = std::str::from_utf8(expression).map_err(|_| fail("invalid UTF-8"))?;
    if text.len() > MAX_LENGTH {
        return Err(fail("expression too large"));
    }
    let translated = translate_expression(text);
    RegexBuilder::new(&translated).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().map_err(|error| {
        let reason = error.to_string();
        fail(reason.lines().last().unwrap_or_default().trim_start_matches("error: "))
    })
}

/// The expression in the syntax of the `regex` crate.
fn translate_expression(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = after;
        match c {
            '\\' => rest = translate_escape(after, in_class, &mut out),
            '[' if in_class => match after.find(":]").filter(|_| after.starts_with(':')) {
                Some(end) => {
                    out.push('[');
                    out.push_str(after.get(..end + 2).unwrap_or_default());
                    rest = after.get(end + 2..).unwrap_or_default();
                }
                None => out.push_str("\\["),
            },
            '[' => {
                in_class = true;
                out.push('[');
                if let Some(negated) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = negated;
                }
                // The first bracket within brackets is an ordinary character.
                if let Some(inside) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = inside;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '{' if !in_class && !begins_repetition(after) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

/// Appends what follows a backslash, and returns the rest.
fn translate_escape<'t>(after: &'t str, in_class: bool, out: &mut String) -> &'t str {
    let Some(c) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = after.get(c.len_utf8()..).unwrap_or_default();
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str(r"[\t\n\x0C\r ]"),
        'S' => out.push_str(r"[^\t\n\x0C\r ]"),
        'b' if !in_class => out.push_str(r"(?-u:\b)"),
        'B' if !in_class => out.push_str(r"(?-u:\B)"),
        'Q' => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        c if c.is_ascii_punctuation() => out.push_str(&format!("\\x{{{:x}}}", u32::from(c))),
        c => {
            out.push('\\');
            out.push(c);
        }
    }
    rest
}

/// Whether `{` before the text begins `{n}`, `{n,}` or `{n,m}`.
fn begins_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    !least.is_empty() && [least, most].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}
