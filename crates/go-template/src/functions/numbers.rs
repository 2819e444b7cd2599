//! Sprig's functions for numbers.

use super::FunctionParameter::{Any, Float, Int, Text};
use super::decimal::Decimal;
use super::{Arguments, GoFunction, make_text, strings};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::number::{float_to_int, parse_float, parse_int, parse_int_in};
use crate::text::{GoText, to_valid_text};
use crate::value::GoValue;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("atoi", &[Text], |a, _| {
        Ok(GoValue::int(parse_int_in(&to_valid_text(a.text(0)), 10).unwrap_or(0)))
    }),
    GoFunction::new("int", &[Any], |a, _| Ok(GoValue::int(to_int(a.any(0))))),
    GoFunction::new("int64", &[Any], |a, _| Ok(GoValue::int64(to_int(a.any(0))))),
    GoFunction::new("float64", &[Any], |a, _| Ok(GoValue::Float(to_float(a.any(0))))),
    GoFunction::new("toDecimal", &[Any], |a, budget| {
        let text = strings::to_text(a.any(0), budget)?;
        Ok(GoValue::int64(parse_int_in(&text.to_valid(), 8).unwrap_or(0)))
    }),
    GoFunction::new("add1", &[Any], |a, _| Ok(GoValue::int64(to_int(a.any(0)).wrapping_add(1)))),
    GoFunction::with_rest("add", &[], Any, |a, _| {
        Ok(GoValue::int64(a.rest(0).iter().map(to_int).fold(0, i64::wrapping_add)))
    }),
    GoFunction::new("sub", &[Any, Any], |a, _| {
        Ok(GoValue::int64(to_int(a.any(0)).wrapping_sub(to_int(a.any(1)))))
    }),
    GoFunction::new("div", &[Any, Any], |a, _| divide(a, i64::wrapping_div)),
    GoFunction::new("mod", &[Any, Any], |a, _| divide(a, i64::wrapping_rem)),
    GoFunction::with_rest("mul", &[Any], Any, |a, _| {
        Ok(GoValue::int64(a.rest(0).iter().map(to_int).fold(1, i64::wrapping_mul)))
    }),
    GoFunction::with_rest("max", &[Any], Any, |a, _| Ok(largest(a))),
    GoFunction::with_rest("biggest", &[Any], Any, |a, _| Ok(largest(a))),
    GoFunction::with_rest("min", &[Any], Any, |a, _| {
        Ok(GoValue::int64(a.rest(0).iter().map(to_int).min().unwrap_or(0)))
    }),
    GoFunction::with_rest("maxf", &[Any], Any, |a, _| Ok(fold_floats(a, f64::max))),
    GoFunction::with_rest("minf", &[Any], Any, |a, _| Ok(fold_floats(a, f64::min))),
    GoFunction::new("floor", &[Any], |a, _| Ok(GoValue::Float(to_float(a.any(0)).floor()))),
    GoFunction::new("ceil", &[Any], |a, _| Ok(GoValue::Float(to_float(a.any(0)).ceil()))),
    GoFunction::with_rest("round", &[Any, Int], Float, |a, _| Ok(GoValue::Float(round(a)))),
    GoFunction::new("add1f", &[Any], |a, budget| {
        let values = [a.any(0).clone(), GoValue::int(1)];
        fold_decimals(&values, budget, Decimal::add)
    }),
    GoFunction::with_rest("addf", &[], Any, |a, budget| {
        let values = [&[GoValue::Float(0.0)], a.rest(0)].concat();
        fold_decimals(&values, budget, Decimal::add)
    }),
    GoFunction::with_rest("subf", &[Any], Any, |a, budget| {
        fold_decimals(a.rest(0), budget, Decimal::subtract)
    }),
    GoFunction::with_rest("mulf", &[Any], Any, |a, budget| {
        fold_decimals(a.rest(0), budget, Decimal::multiply)
    }),
    GoFunction::with_rest("divf", &[Any], Any, |a, budget| fold_decimals(a.rest(0), budget, Decimal::divide)),
    GoFunction::new("until", &[Int], |a, budget| {
        let end = a.int(0);
        Ok(strings::int_list(count_up(0, end, if end < 0 { -1 } else { 1 }, budget)?))
    }),
    GoFunction::new("untilStep", &[Int, Int, Int], |a, budget| {
        Ok(strings::int_list(count_up(a.int(0), a.int(1), a.int(2), budget)?))
    }),
    GoFunction::with_rest("seq", &[], Int, sequence),
];

/// A value as an integer; what is none is 0.
pub(super) fn to_int(value: &GoValue) -> i64 {
    match value {
        GoValue::Bool(bool) => i64::from(*bool),
        GoValue::Int(_, number) => *number,
        #[expect(clippy::cast_possible_wrap, reason = "as Go converts it")]
        GoValue::Uint(_, number) => *number as i64,
        GoValue::Float(number) => float_to_int(*number),
        GoValue::Text(text) => parse_whole(&text.to_valid()).unwrap_or(0),
        _ => 0,
    }
}

/// The integer before the point of a text.
fn parse_whole(text: &str) -> Option<i64> {
    let Some((whole, fraction)) = text.split_once('.') else { return parse_int(text) };
    let digits = whole.trim_start_matches(['-', '+']);
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() - digits.len() > 1 || !is_plain(digits) || !is_plain(fraction) {
        return None;
    }
    if digits.is_empty() { Some(0) } else { parse_int(whole) }
}

/// A value as a floating-point number; what is none is 0.
pub(super) fn to_float(value: &GoValue) -> f64 {
    match value {
        GoValue::Bool(bool) => f64::from(u8::from(*bool)),
        #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
        GoValue::Int(_, number) => *number as f64,
        #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
        GoValue::Uint(_, number) => *number as f64,
        GoValue::Float(number) => *number,
        GoValue::Text(text) => parse_float(&text.to_valid()).unwrap_or(0.0),
        _ => 0.0,
    }
}

fn divide(arguments: &Arguments, operation: fn(i64, i64) -> i64) -> Result<GoValue, TemplateFailure> {
    let divisor = to_int(arguments.any(1));
    if divisor == 0 {
        return Err(TemplateFailure::function("integer divide by zero"));
    }
    Ok(GoValue::int64(operation(to_int(arguments.any(0)), divisor)))
}

fn largest(arguments: &Arguments) -> GoValue {
    GoValue::int64(arguments.rest(0).iter().map(to_int).max().unwrap_or(0))
}

fn fold_floats(arguments: &Arguments, choose: fn(f64, f64) -> f64) -> GoValue {
    let numbers: Vec<f64> = arguments.rest(0).iter().map(to_float).collect();
    if numbers.iter().any(|number| number.is_nan()) {
        return GoValue::Float(f64::NAN);
    }
    GoValue::Float(numbers.into_iter().reduce(choose).unwrap_or(0.0))
}

/// Computes with decimal digits, so that `0.1` and `0.2` are `0.3`.
fn fold_decimals(
    values: &[GoValue],
    budget: &mut TemplateBudget,
    operation: fn(&Decimal, &Decimal) -> Result<Decimal, TemplateFailure>,
) -> Result<GoValue, TemplateFailure> {
    let mut result: Option<Decimal> = None;
    for value in values {
        let number = Decimal::from_float(to_float(value))?;
        result = Some(match result {
            None => number,
            Some(before) => {
                budget.spend_steps(before.cost_with(&number))?;
                operation(&before, &number)?
            }
        });
    }
    Ok(GoValue::Float(result.map_or(0.0, |result| result.to_float())))
}

/// A number rounded to places, up from `.5` or from a third argument on.
fn round(arguments: &Arguments) -> f64 {
    let limit = arguments.float(2).unwrap_or(0.5);
    #[expect(clippy::cast_precision_loss, reason = "places are few")]
    let scale = 10_f64.powf(arguments.int(1) as f64);
    let scaled = scale * to_float(arguments.any(0));
    let rounded = if scaled.fract() >= limit { scaled.ceil() } else { scaled.floor() };
    rounded / scale
}

/// The numbers from `start` to before `end`.
fn count_up(
    start: i64,
    end: i64,
    step: i64,
    budget: &mut TemplateBudget,
) -> Result<Vec<i64>, TemplateFailure> {
    let distance = i128::from(end) - i128::from(start);
    if step == 0 || distance == 0 || (distance > 0) != (step > 0) {
        return Ok(Vec::new());
    }
    let step_length = u128::from(step.unsigned_abs());
    let count = usize::try_from(distance.unsigned_abs().div_ceil(step_length)).unwrap_or(usize::MAX);
    budget.spend_steps(count)?;
    budget.spend_bytes(count.saturating_mul(8))?;
    Ok(std::iter::successors(Some(start), |number| number.checked_add(step)).take(count).collect())
}

/// Numbers as the program `seq` prints them: up to a number, between two, or in steps; separated by blanks.
fn sequence(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let numbers: Vec<i64> = arguments.rest(0).iter().map(to_int).collect();
    let (start, step, end) = match numbers.as_slice() {
        [end] => (1, None, *end),
        [start, end] => (*start, None, *end),
        [start, step, end] => (*start, Some(*step), *end),
        _ => return Ok(GoValue::text("")),
    };
    let direction = if end < start { -1 } else { 1 };
    if direction < 0 && step.is_some_and(|step| step > 0) {
        return Ok(GoValue::text(""));
    }
    let numbers = count_up(start, end.saturating_add(direction), step.unwrap_or(direction), budget)?;
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    make_text(GoText::from(texts.join(" ")), budget)
}
