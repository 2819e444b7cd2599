//! Sprig's functions for regular expressions.

use regex::bytes::{NoExpand, Regex};

use super::FunctionParameter::{Int, Text};
use super::{Arguments, GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::{TemplateErrorKind, TemplateFailure};
use crate::regular_expression::{compile_expression, estimate_compilation};
use crate::text::GoText;
use crate::value::{GoList, GoValue, ItemType};

/// The code of a function under two names.
type Code = fn(&Arguments, &mut TemplateBudget) -> Result<GoValue, TemplateFailure>;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("regexMatch", &[Text, Text], |a, budget| match MATCH(a, budget) {
        Err(failure) if failure.kind == TemplateErrorKind::FunctionFailed => Ok(GoValue::Bool(false)),
        other => other,
    }),
    GoFunction::new("mustRegexMatch", &[Text, Text], MATCH),
    GoFunction::new("regexFind", &[Text, Text], FIND),
    GoFunction::new("mustRegexFind", &[Text, Text], FIND),
    GoFunction::new("regexFindAll", &[Text, Text, Int], find_all),
    GoFunction::new("mustRegexFindAll", &[Text, Text, Int], find_all),
    GoFunction::new("regexReplaceAll", &[Text, Text, Text], REPLACE),
    GoFunction::new("mustRegexReplaceAll", &[Text, Text, Text], REPLACE),
    GoFunction::new("regexReplaceAllLiteral", &[Text, Text, Text], REPLACE_LITERAL),
    GoFunction::new("mustRegexReplaceAllLiteral", &[Text, Text, Text], REPLACE_LITERAL),
    GoFunction::new("regexSplit", &[Text, Text, Int], split),
    GoFunction::new("mustRegexSplit", &[Text, Text, Int], split),
    GoFunction::new("regexQuoteMeta", &[Text], |a, budget| {
        let mut out = Vec::new();
        for byte in a.text(0) {
            if b"\\.+*?()|[]{}^$".contains(byte) {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        make_text(out, budget)
    }),
];

const MATCH: Code = |a, budget| Ok(GoValue::Bool(prepare(a, budget)?.is_match(a.text(1))));

const FIND: Code = |a, budget| {
    let found = prepare(a, budget)?.find(a.text(1)).map(|found| found.as_bytes()).unwrap_or_default();
    make_text(found, budget)
};

const REPLACE: Code = |a, budget| {
    let expression = prepare(a, budget)?;
    pay_replacement(a, &expression, budget)?;
    make_text(expression.replace_all(a.text(1), a.text(2)).as_ref(), budget)
};

const REPLACE_LITERAL: Code = |a, budget| {
    let expression = prepare(a, budget)?;
    pay_replacement(a, &expression, budget)?;
    make_text(expression.replace_all(a.text(1), NoExpand(a.text(2))).as_ref(), budget)
};

/// The compiled expression of the first argument for the text of the second.
fn prepare(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<Regex, TemplateFailure> {
    budget.spend_steps(estimate_compilation(arguments.text(0)).saturating_add(arguments.text(1).len()))?;
    compile_expression(arguments.text(0))
}

/// Pays for what replacements may write: each reference to a group at most what matched.
fn pay_replacement(
    arguments: &Arguments,
    expression: &Regex,
    budget: &mut TemplateBudget,
) -> Result<(), TemplateFailure> {
    let (text, replacement) = (arguments.text(1), arguments.text(2));
    let references = replacement.split(|byte| *byte == b'$').count() - 1;
    let matches = expression.find_iter(text).count();
    budget.spend_bytes(matches.saturating_mul(replacement.len()))?;
    budget.spend_bytes(references.saturating_mul(text.len()))
}

fn find_all(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let expression = prepare(arguments, budget)?;
    let limit = usize::try_from(arguments.int(2)).unwrap_or(usize::MAX);
    budget.spend_bytes(arguments.text(1).len())?;
    let found = expression.find_iter(arguments.text(1)).take(limit);
    let found: Vec<GoText> = found.map(|found| found.as_bytes().into()).collect();
    if found.is_empty() {
        return Ok(GoValue::List(GoList::nil(ItemType::Text)));
    }
    Ok(GoValue::texts(found))
}

fn split(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let expression = prepare(arguments, budget)?;
    let text = arguments.text(1);
    budget.spend_bytes(text.len())?;
    let Some(limit) =
        usize::try_from(arguments.int(2)).map_or(Some(usize::MAX), |limit| (limit > 0).then_some(limit))
    else {
        return Ok(GoValue::List(GoList::nil(ItemType::Text)));
    };
    if text.is_empty() && !arguments.text(0).is_empty() {
        return Ok(GoValue::texts([GoText::from("")]));
    }
    let mut parts: Vec<GoText> = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in expression.find_iter(text) {
        if parts.len() + 1 == limit {
            break;
        }
        end = found.start();
        // A match of nothing at the start has no part before it.
        if found.end() != 0 {
            parts.push(text.get(start..end).unwrap_or_default().into());
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(text.get(start..).unwrap_or_default().into());
    }
    Ok(GoValue::texts(parts))
}
