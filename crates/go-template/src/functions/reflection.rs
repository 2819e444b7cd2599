//! Sprig's functions for defaults, and for types of values.

use super::FunctionParameter::{Any, Bool, Text};
use super::GoFunction;
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::value::{GoValue, descend};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::with_rest("default", &[Any], Any, |a, _| {
        let given = a.rest(1).first().filter(|given| !is_empty(given));
        Ok(given.unwrap_or(a.any(0)).clone())
    }),
    GoFunction::new("empty", &[Any], |a, _| Ok(GoValue::Bool(is_empty(a.any(0))))),
    GoFunction::with_rest("coalesce", &[], Any, |a, _| {
        Ok(a.rest(0).iter().find(|value| !is_empty(value)).cloned().unwrap_or(GoValue::Nil))
    }),
    GoFunction::with_rest("all", &[], Any, |a, _| Ok(GoValue::Bool(!a.rest(0).iter().any(is_empty)))),
    GoFunction::with_rest("any", &[], Any, |a, _| Ok(GoValue::Bool(!a.rest(0).iter().all(is_empty)))),
    GoFunction::new("ternary", &[Any, Any, Bool], |a, _| Ok(a.any(usize::from(!a.bool(2))).clone())),
    GoFunction::new("fail", &[Text], |a, _| {
        Err(TemplateFailure::function(crate::text::to_valid_text(a.text(0)).into_owned()))
    }),
    GoFunction::new("typeOf", &[Any], |a, _| Ok(GoValue::text(a.any(0).type_name()))),
    GoFunction::new("typeIs", &[Text, Any], |a, _| {
        Ok(GoValue::Bool(a.text(0) == a.any(1).type_name().as_bytes()))
    }),
    GoFunction::new("typeIsLike", &[Text, Any], |a, _| {
        let name = a.any(1).type_name().as_bytes();
        Ok(GoValue::Bool(name == a.text(0) || name.strip_prefix(b"*") == Some(a.text(0))))
    }),
    GoFunction::new("kindOf", &[Any], |a, _| Ok(GoValue::text(a.any(0).kind_name()))),
    GoFunction::new("kindIs", &[Text, Any], |a, _| {
        Ok(GoValue::Bool(a.text(0) == a.any(1).kind_name().as_bytes()))
    }),
    GoFunction::new("deepEqual", &[Any, Any], |a, budget| {
        is_deeply_equal(a.any(0), a.any(1), 0, budget).map(GoValue::Bool)
    }),
];

/// Whether a value counts as not given.
pub(super) fn is_empty(value: &GoValue) -> bool {
    !value.is_true()
}

/// Whether two values have the same types and the same content.
#[expect(clippy::float_cmp, reason = "as Go compares")]
pub(super) fn is_deeply_equal(
    left: &GoValue,
    right: &GoValue,
    depth: usize,
    budget: &mut TemplateBudget,
) -> Result<bool, TemplateFailure> {
    budget.spend_steps(1)?;
    Ok(match (left, right) {
        (GoValue::Nil, GoValue::Nil) => true,
        (GoValue::Bool(left), GoValue::Bool(right)) => left == right,
        (GoValue::Int(left_type, left), GoValue::Int(right_type, right)) => {
            left_type == right_type && left == right
        }
        (GoValue::Uint(left_type, left), GoValue::Uint(right_type, right)) => {
            left_type == right_type && left == right
        }
        (GoValue::Float(left), GoValue::Float(right)) => left == right,
        (GoValue::Text(left), GoValue::Text(right)) => left == right,
        (GoValue::Time(left), GoValue::Time(right)) => left == right,
        (GoValue::Version(left), GoValue::Version(right)) => {
            left.numbers == right.numbers
                && (&left.pre, &left.metadata, &left.original)
                    == (&right.pre, &right.metadata, &right.original)
        }
        (GoValue::List(left), GoValue::List(right)) => {
            let (items, others) = (left.items(), right.items());
            if left.item_type() != right.item_type()
                || left.is_nil() != right.is_nil()
                || items.len() != others.len()
            {
                return Ok(false);
            }
            let deeper = descend(depth)?;
            for (item, other) in items.iter().zip(others).filter(|_| !left.is_same(right)) {
                if !is_deeply_equal(item, other, deeper, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (GoValue::Map(left), GoValue::Map(right)) => {
            if left.is_of_texts() != right.is_of_texts()
                || left.is_nil() != right.is_nil()
                || left.len() != right.len()
            {
                return Ok(false);
            }
            if left.is_same(right) {
                return Ok(true);
            }
            let deeper = descend(depth)?;
            for (key, value) in left.entries() {
                let Some(other) = right.get(key.bytes()) else { return Ok(false) };
                if !is_deeply_equal(&value, &other, deeper, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => false,
    })
}
