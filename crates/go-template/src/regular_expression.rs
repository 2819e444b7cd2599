//! Regular expressions in Go's syntax.
//!
//! Facts: `\d`, `\w`, `\s` and `\b` only know ASCII; `\Q…\E` quotes; `{` that begins no repetition, and `[`, `&` and `~`
//! within brackets, are ordinary characters.

use regex::bytes::{Regex, RegexBuilder};

use crate::error::TemplateFailure;

/// How large a compiled expression may be, in bytes.
const MAX_SIZE: usize = 1 << 20;

/// The largest count of a repetition, as in Go.
const MAX_REPETITION: usize = 1_000;

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
    let translated = translate_expression(text).map_err(fail)?;
    RegexBuilder::new(&translated).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().map_err(|error| {
        let reason = error.to_string();
        fail(reason.lines().last().unwrap_or_default().trim_start_matches("error: "))
    })
}

/// The steps that compiling an expression takes: its size once repetitions are written out.
pub(crate) fn estimate_compilation(expression: &[u8]) -> usize {
    /// A character class of Unicode is many ranges of bytes.
    const CLASS: usize = 10;
    let mut groups = vec![0_usize];
    let mut last = 0;
    let mut rest = std::str::from_utf8(expression).unwrap_or_default().chars();
    while let Some(c) = rest.next() {
        let top = groups.last().copied().unwrap_or(0);
        let added = match c {
            '(' => {
                groups.push(0);
                continue;
            }
            ')' if groups.len() > 1 => {
                groups.pop();
                last = top;
                top
            }
            '{' => last.saturating_mul(read_repetition(rest.as_str()).unwrap_or(1).min(MAX_REPETITION)),
            '.' | '[' | '\\' => {
                last = CLASS;
                CLASS
            }
            _ => {
                last = 1;
                1
            }
        };
        if let Some(top) = groups.last_mut() {
            *top = top.saturating_add(added);
        }
    }
    groups.into_iter().fold(200, usize::saturating_add)
}

/// The expression in the syntax of the `regex` crate.
fn translate_expression(text: &str) -> Result<String, &'static str> {
    let mut out = String::new();
    let mut repetition = Repetition::None;
    let mut rest = text;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = after;
        let count = if c == '{' && !in_class { read_repetition(after) } else { None };
        let repeats = !in_class && (matches!(c, '*' | '+' | '?') || count.is_some());
        repetition = match (repetition, c) {
            _ if !repeats => Repetition::None,
            (Repetition::None, _) => Repetition::Greedy,
            (Repetition::Greedy, '?') => Repetition::Lazy,
            _ => return Err("invalid nested repetition operator"),
        };
        if count.is_some_and(|count| count > MAX_REPETITION) {
            return Err("invalid repeat count");
        }
        match c {
            '{' if count.is_some() => {
                let end = after.find('}').map_or(0, |end| end + 1);
                out.push('{');
                out.push_str(after.get(..end).unwrap_or_default());
                rest = after.get(end..).unwrap_or_default();
            }
            '-' if in_class && after.starts_with('-') => {
                out.push_str("-\\-");
                rest = after.get(1..).unwrap_or_default();
            }
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
            '{' if !in_class => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// What the last character was of a repetition.
#[derive(Clone, Copy)]
enum Repetition {
    None,
    Greedy,
    /// With a `?` behind it.
    Lazy,
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

/// The largest number of `{n}`, `{n,}` or `{n,m}` whose `{` is before the text.
fn read_repetition(after: &str) -> Option<usize> {
    let (inside, _) = after.split_once('}')?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !are_digits(least) || !are_digits(most) {
        return None;
    }
    let read = |part: &str| if part.is_empty() { 0 } else { part.parse().unwrap_or(usize::MAX) };
    Some(read(least).max(read(most)))
}
