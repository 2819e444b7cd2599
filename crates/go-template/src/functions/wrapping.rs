//! Sprig's functions that shorten texts and break them into lines.

use super::FunctionParameter::{Int, Text};
use super::{GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::value::GoValue;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("abbrev", &[Int, Text], |a, budget| abbreviate(0, a.int(0), a.text(1), budget)),
    GoFunction::new("abbrevboth", &[Int, Int, Text], |a, budget| {
        let (left, right) = (a.int(0), a.int(1));
        if left > 0 && right < 7 {
            make_text(a.text(2), budget)
        } else {
            abbreviate(left, right, a.text(2), budget)
        }
    }),
    GoFunction::new("wrap", &[Int, Text], |a, budget| wrap(a.int(0), b"\n", false, a.text(1), budget)),
    GoFunction::new("wrapWith", &[Int, Text, Text], |a, budget| {
        let separator = if a.text(1).is_empty() { b"\n" } else { a.text(1) };
        wrap(a.int(0), separator, true, a.text(2), budget)
    }),
];

/// A text of at most `width` bytes, with `...` in place of what is left out at the end, and before `offset`.
fn abbreviate(
    offset: i64,
    width: i64,
    text: &[u8],
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let width = usize::try_from(width).unwrap_or(0);
    if width < 4 || text.len() <= width {
        return make_text(text, budget);
    }
    let kept = width - 3;
    let offset = usize::try_from(offset).unwrap_or(0).min(text.len() - kept);
    if offset <= 4 {
        return make_text([text.get(..kept).unwrap_or_default(), b"..."].concat(), budget);
    }
    if width < 7 {
        return make_text("", budget);
    }
    if offset + kept < text.len() {
        // The part from the offset on is abbreviated again, which takes at least four bytes.
        let part = text.get(offset..).unwrap_or_default();
        let part = part.get(..kept - 3).unwrap_or_default();
        return make_text([b"...", part, b"..."].concat(), budget);
    }
    make_text([b"...", text.get(text.len() - kept..).unwrap_or_default()].concat(), budget)
}

/// Lines of at most `width` bytes, broken at blanks, and in the middle of long words where `breaks_words`.
fn wrap(
    width: i64,
    separator: &[u8],
    breaks_words: bool,
    text: &[u8],
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let width = usize::try_from(width).unwrap_or(0).max(1);
    budget.spend_bytes((text.len() / width).min(text.len()).saturating_mul(separator.len()))?;
    budget.spend_steps(text.len())?;
    let mut out: Vec<u8> = Vec::new();
    let mut rest = text;
    while rest.len() > width {
        if let Some(after) = rest.strip_prefix(b" ") {
            rest = after;
            continue;
        }
        let line = rest.get(..=width).unwrap_or(rest);
        let blank = line.iter().rposition(|byte| *byte == b' ');
        let (end, skipped) = match blank {
            Some(at) => (at, 1),
            None if breaks_words => (width, 0),
            None => match rest.iter().skip(width).position(|byte| *byte == b' ') {
                Some(at) => (width + at, 1),
                None => break,
            },
        };
        out.extend_from_slice(rest.get(..end).unwrap_or_default());
        out.extend_from_slice(separator);
        rest = rest.get(end + skipped..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    make_text(out, budget)
}
