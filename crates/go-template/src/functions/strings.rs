//! Sprig's functions for texts.

use super::FunctionParameter::{Any, Int, Text};
use super::{Arguments, GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::format::display_value;
use crate::literal::quote_text;
use crate::text::{GoText, chars, find, replace, split, to_lower, to_upper, trim};
use crate::value::{GoList, GoMap, GoValue, ItemType};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("hello", &[], |_, _| Ok(GoValue::text("Hello!"))),
    GoFunction::new("trim", &[Text], |a, budget| make_text(trim(a.text(0), char::is_whitespace), budget)),
    GoFunction::new("trimall", &[Text, Text], trim_all),
    GoFunction::new("trimAll", &[Text, Text], trim_all),
    GoFunction::new("trimSuffix", &[Text, Text], |a, budget| {
        let text = a.text(1);
        make_text(text.strip_suffix(a.text(0)).unwrap_or(text), budget)
    }),
    GoFunction::new("trimPrefix", &[Text, Text], |a, budget| {
        let text = a.text(1);
        make_text(text.strip_prefix(a.text(0)).unwrap_or(text), budget)
    }),
    GoFunction::new("contains", &[Text, Text], |a, budget| {
        budget.spend_steps(a.text(0).len() + a.text(1).len())?;
        Ok(GoValue::Bool(find(a.text(1), a.text(0)).is_some()))
    }),
    GoFunction::new("hasPrefix", &[Text, Text], |a, _| Ok(GoValue::Bool(a.text(1).starts_with(a.text(0))))),
    GoFunction::new("hasSuffix", &[Text, Text], |a, _| Ok(GoValue::Bool(a.text(1).ends_with(a.text(0))))),
    GoFunction::new("repeat", &[Int, Text], |a, budget| repeat(a.int(0), a.text(1), budget)),
    GoFunction::new("replace", &[Text, Text, Text], |a, budget| {
        let (old, new, text) = (a.text(0), a.text(1), a.text(2));
        budget.spend_steps(text.len())?;
        // What it may become is paid before it is made.
        let most = (text.len() + 1).saturating_mul(new.len().max(1)) / old.len().max(1);
        if most > text.len().saturating_mul(4) {
            let count = if old.is_empty() { text.len() + 1 } else { split(text, old, usize::MAX).len() };
            budget.spend_bytes(count.saturating_mul(new.len()))?;
        }
        make_text(replace(text, old, new), budget)
    }),
    GoFunction::new("trunc", &[Int, Text], |a, budget| make_text(truncate(a.int(0), a.text(1)), budget)),
    GoFunction::new("substr", &[Int, Int, Text], |a, budget| {
        make_text(cut(a.int(0), a.int(1), a.text(2))?, budget)
    }),
    GoFunction::new("indent", &[Int, Text], |a, budget| indent(a.int(0), a.text(1), b"", budget)),
    GoFunction::new("nindent", &[Int, Text], |a, budget| indent(a.int(0), a.text(1), b"\n", budget)),
    GoFunction::with_rest("quote", &[], Any, |a, budget| {
        join_values(a.rest(0), budget, |value, budget| {
            let mut quoted = Vec::new();
            quote_text(to_text(value, budget)?.bytes(), false, &mut quoted);
            Ok(quoted)
        })
    }),
    GoFunction::with_rest("squote", &[], Any, |a, budget| {
        join_values(a.rest(0), budget, |value, budget| {
            Ok([b"'", display_value(value, budget)?.as_slice(), b"'"].concat())
        })
    }),
    GoFunction::with_rest("cat", &[], Any, |a, budget| join_values(a.rest(0), budget, display_value)),
    GoFunction::new("plural", &[Text, Text, Int], |a, budget| {
        make_text(if a.int(2) == 1 { a.text(0) } else { a.text(1) }, budget)
    }),
    GoFunction::new("toString", &[Any], |a, budget| {
        let text = to_text(a.any(0), budget)?;
        make_text(text, budget)
    }),
    GoFunction::new("toStrings", &[Any], |a, budget| Ok(GoValue::texts(to_texts(a.any(0), budget)?))),
    GoFunction::new("split", &[Text, Text], |a, budget| number_parts(a.text(0), a.text(1), -1, budget)),
    GoFunction::new("splitn", &[Text, Int, Text], |a, budget| {
        number_parts(a.text(0), a.text(2), a.int(1), budget)
    }),
    GoFunction::new("splitList", &[Text, Text], |a, budget| {
        let parts = split_text(a.text(1), a.text(0), -1, budget)?;
        Ok(GoValue::texts(parts))
    }),
    GoFunction::new("join", &[Text, Any], |a, budget| {
        let texts = to_texts(a.any(1), budget)?;
        budget.spend_bytes(texts.len().saturating_mul(a.text(0).len()))?;
        let texts: Vec<&[u8]> = texts.iter().map(GoText::bytes).collect();
        make_text(texts.join(a.text(0)), budget)
    }),
    GoFunction::new("sortAlpha", &[Any], |a, budget| {
        let mut texts = match a.any(0) {
            list @ GoValue::List(_) => to_texts(list, budget)?,
            other => vec![to_text(other, budget)?],
        };
        texts.sort();
        Ok(GoValue::texts(texts))
    }),
];

/// A value as a text.
pub(super) fn to_text(value: &GoValue, budget: &mut TemplateBudget) -> Result<GoText, TemplateFailure> {
    match value {
        GoValue::Text(text) => Ok(text.clone()),
        other => display_value(other, budget).map(GoText::from),
    }
}

/// The items of a list as texts, without those that are nil; of another value, itself.
pub(super) fn to_texts(value: &GoValue, budget: &mut TemplateBudget) -> Result<Vec<GoText>, TemplateFailure> {
    match value {
        GoValue::Nil => Ok(Vec::new()),
        GoValue::List(list) => {
            budget.spend_steps(list.items().len())?;
            let items = list.items().iter().filter(|item| !matches!(item, GoValue::Nil));
            items.map(|item| to_text(item, budget)).collect()
        }
        other => Ok(vec![to_text(other, budget)?]),
    }
}

/// The values that are not nil, written and joined by blanks.
fn join_values(
    values: &[GoValue],
    budget: &mut TemplateBudget,
    write: impl Fn(&GoValue, &mut TemplateBudget) -> Result<Vec<u8>, TemplateFailure>,
) -> Result<GoValue, TemplateFailure> {
    let mut texts = Vec::new();
    for value in values.iter().filter(|value| !matches!(value, GoValue::Nil)) {
        texts.push(write(value, budget)?);
    }
    make_text(texts.join(b" ".as_slice()), budget)
}

fn trim_all(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let cut: Vec<char> = chars(arguments.text(0)).map(|(_, c)| c).collect();
    budget.spend_steps(cut.len().saturating_mul(arguments.text(1).len()))?;
    make_text(trim(arguments.text(1), |c| cut.contains(&c)), budget)
}

fn repeat(count: i64, text: &[u8], budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let Ok(count) = usize::try_from(count) else {
        return Err(TemplateFailure::function("strings: negative Repeat count"));
    };
    budget.spend_bytes(count.saturating_mul(text.len()))?;
    Ok(GoValue::text(if text.is_empty() { Vec::new() } else { text.repeat(count) }))
}

/// The first bytes, or with a negative number the last ones.
fn truncate(count: i64, text: &[u8]) -> &[u8] {
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if length >= text.len() {
        return text;
    }
    let range = if count < 0 { text.get(text.len() - length..) } else { text.get(..length) };
    range.unwrap_or(text)
}

fn cut(start: i64, end: i64, text: &[u8]) -> Result<&[u8], TemplateFailure> {
    let end_in_text = usize::try_from(end).ok().filter(|end| *end <= text.len());
    let part = match usize::try_from(start) {
        // A negative start is the start, and then the end must be within the text.
        Err(_) => end_in_text.and_then(|end| text.get(..end)),
        Ok(start) => text.get(start..end_in_text.unwrap_or(text.len())),
    };
    part.ok_or_else(|| TemplateFailure::function("slice bounds out of range"))
}

fn indent(
    count: i64,
    text: &[u8],
    before: &[u8],
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let Ok(count) = usize::try_from(count) else {
        return Err(TemplateFailure::function("strings: negative Repeat count"));
    };
    let lines = text.split(|byte| *byte == b'\n').count();
    budget.spend_bytes(count.saturating_mul(lines))?;
    let blanks = vec![b' '; count];
    let text = replace(text, b"\n", &[b"\n", blanks.as_slice()].concat());
    make_text([before, &blanks, &text].concat(), budget)
}

/// The parts between separators; a negative limit is none.
fn split_text(
    text: &[u8],
    separator: &[u8],
    limit: i64,
    budget: &mut TemplateBudget,
) -> Result<Vec<GoText>, TemplateFailure> {
    budget.spend_steps(text.len())?;
    budget.spend_bytes(text.len())?;
    if limit == 0 {
        return Ok(Vec::new());
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(split(text, separator, limit).into_iter().map(GoText::from).collect())
}

/// The parts as a map from `_0`.
fn number_parts(
    separator: &[u8],
    text: &[u8],
    limit: i64,
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let parts = split_text(text, separator, limit, budget)?;
    let parts = parts.into_iter().enumerate().map(|(at, part)| (format!("_{at}").into(), part));
    Ok(GoValue::Map(GoMap::of_texts(parts)))
}

/// A list of `int`s.
pub(super) fn int_list(numbers: impl IntoIterator<Item = i64>) -> GoValue {
    GoValue::List(GoList::new(ItemType::Int, numbers.into_iter().map(GoValue::int).collect()))
}

/// The text in upper or lower case.
pub(super) fn change_case(
    arguments: &Arguments,
    upper: bool,
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    make_text(crate::text::map_chars(arguments.text(0), if upper { to_upper } else { to_lower }), budget)
}
