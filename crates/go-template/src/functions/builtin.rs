//! The functions of `text/template`.

use super::FunctionParameter::{Any, Text};
use super::{Arguments, FunctionBody, GoFunction, make_text, urls};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::format::{print, print_format, print_line};
use crate::text::{GoText, chars, is_printable};
use crate::value::{GoList, GoValue, UintType};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction {
        name: "and",
        parameters: &[Any],
        rest: Some(Any),
        body: FunctionBody::Select { stops_at: false },
    },
    GoFunction {
        name: "or",
        parameters: &[Any],
        rest: Some(Any),
        body: FunctionBody::Select { stops_at: true },
    },
    GoFunction::new("not", &[Any], |a, _| Ok(GoValue::Bool(!a.any(0).is_true()))),
    GoFunction::new("len", &[Any], |a, _| length_of(a.any(0))),
    GoFunction::with_rest("index", &[Any], Any, |a, _| index_value(a.any(0), a.rest(1))),
    GoFunction::with_rest("slice", &[Any], Any, |a, budget| slice_value(a.any(0), a.rest(1), budget)),
    GoFunction::with_rest("call", &[Any], Any, |a, _| {
        Err(TemplateFailure::function(format!("a value of type {} is not a function", a.any(0).type_name())))
    }),
    GoFunction::with_rest("eq", &[Any], Any, |a, _| equals_any(a.any(0), a.rest(1)).map(GoValue::Bool)),
    GoFunction::new("ne", &[Any, Any], |a, _| Ok(GoValue::Bool(!equals_any(a.any(0), a.rest(1))?))),
    GoFunction::new("lt", &[Any, Any], |a, _| is_less(a.any(0), a.any(1)).map(GoValue::Bool)),
    GoFunction::new("le", &[Any, Any], |a, _| is_less_or_equal(a).map(GoValue::Bool)),
    GoFunction::new("gt", &[Any, Any], |a, _| Ok(GoValue::Bool(!is_less_or_equal(a)?))),
    GoFunction::new("ge", &[Any, Any], |a, _| Ok(GoValue::Bool(!is_less(a.any(0), a.any(1))?))),
    GoFunction::with_rest("print", &[], Any, |a, budget| print(a.rest(0), budget).map(GoValue::Text)),
    GoFunction::with_rest("println", &[], Any, |a, budget| print_line(a.rest(0), budget).map(GoValue::Text)),
    GoFunction::with_rest("printf", &[Text], Any, |a, budget| {
        print_format(a.text(0), a.rest(1), budget).map(GoValue::Text)
    }),
    GoFunction::with_rest("html", &[], Any, |a, budget| {
        let text = escape_html(join_arguments(a, budget)?.bytes());
        make_text(text, budget)
    }),
    GoFunction::with_rest("js", &[], Any, |a, budget| {
        let text = escape_script(join_arguments(a, budget)?.bytes());
        make_text(text, budget)
    }),
    GoFunction::with_rest("urlquery", &[], Any, |a, budget| {
        let text = urls::escape_query(join_arguments(a, budget)?.bytes());
        make_text(text, budget)
    }),
];

/// The arguments as one text. A value that there is not prints as `<no value>`.
fn join_arguments(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoText, TemplateFailure> {
    let values = arguments.rest(0).iter().map(|value| match value {
        GoValue::Nil => GoValue::text("<no value>"),
        value => value.clone(),
    });
    print(&values.collect::<Vec<_>>(), budget)
}

fn length_of(value: &GoValue) -> Result<GoValue, TemplateFailure> {
    match value {
        GoValue::Text(text) => Ok(GoValue::length(text.bytes().len())),
        GoValue::List(list) => Ok(GoValue::length(list.items().len())),
        GoValue::Map(map) => Ok(GoValue::length(map.len())),
        GoValue::Nil => Err(TemplateFailure::function("len of nil pointer")),
        other => Err(TemplateFailure::function(format!("len of type {}", other.type_name()))),
    }
}

/// The position that an index stands for, up to `most`.
fn read_index(index: &GoValue, most: usize) -> Result<usize, TemplateFailure> {
    let position = match index {
        GoValue::Int(_, number) => usize::try_from(*number).ok(),
        GoValue::Uint(_, number) => usize::try_from(*number).ok(),
        GoValue::Nil => return Err(TemplateFailure::function("cannot index slice/array with nil")),
        other => {
            let message = format!("cannot index slice/array with type {}", other.type_name());
            return Err(TemplateFailure::function(message));
        }
    };
    position
        .filter(|position| *position <= most)
        .ok_or_else(|| TemplateFailure::function("index out of range"))
}

fn index_value(value: &GoValue, indexes: &[GoValue]) -> Result<GoValue, TemplateFailure> {
    let out_of_range = || TemplateFailure::function("index out of range");
    if matches!(value, GoValue::Nil) {
        return Err(TemplateFailure::function("index of untyped nil"));
    }
    let mut value = value.clone();
    for index in indexes {
        value = match &value {
            GoValue::Nil => return Err(TemplateFailure::function("index of nil pointer")),
            GoValue::Text(text) => {
                let at = read_index(index, text.bytes().len())?;
                let byte = text.bytes().get(at).ok_or_else(out_of_range)?;
                GoValue::Uint(UintType::Byte, u64::from(*byte))
            }
            GoValue::List(list) => {
                let at = read_index(index, list.items().len())?;
                list.items().get(at).ok_or_else(out_of_range)?.clone()
            }
            GoValue::Map(map) => match index {
                GoValue::Text(key) => map.get(key.bytes()).unwrap_or_else(|| map.zero()),
                GoValue::Nil => {
                    return Err(TemplateFailure::function("value is nil; should be of type string"));
                }
                other => {
                    let message = format!("value has type {}; should be string", other.type_name());
                    return Err(TemplateFailure::function(message));
                }
            },
            other => {
                let message = format!("can't index item of type {}", other.type_name());
                return Err(TemplateFailure::function(message));
            }
        };
    }
    Ok(value)
}

/// `slice` where sprig does not replace it.
fn slice_value(
    value: &GoValue,
    indexes: &[GoValue],
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let length = match value {
        GoValue::Text(_) if indexes.len() > 2 => {
            return Err(TemplateFailure::function("cannot 3-index slice a string"));
        }
        GoValue::Text(text) => text.bytes().len(),
        GoValue::List(list) => list.items().len(),
        GoValue::Nil => return Err(TemplateFailure::function("slice of untyped nil")),
        other => {
            let message = format!("can't slice item of type {}", other.type_name());
            return Err(TemplateFailure::function(message));
        }
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = read_index(index, length)?;
    }
    let [start, end, capacity] = bounds;
    if indexes.len() > 3 || start > end || end > capacity {
        return Err(TemplateFailure::function(format!("invalid slice index: {start} > {end}")));
    }
    match value {
        GoValue::List(list) => {
            let items = list.items().get(start..end).unwrap_or_default();
            budget.spend_steps(items.len())?;
            Ok(GoValue::List(GoList::new(list.item_type(), items.to_vec())))
        }
        GoValue::Text(text) => make_text(text.bytes().get(start..end).unwrap_or_default(), budget),
        _ => Ok(GoValue::Nil),
    }
}

/// Whether a value equals one of others.
fn equals_any(value: &GoValue, others: &[GoValue]) -> Result<bool, TemplateFailure> {
    if others.is_empty() {
        return Err(TemplateFailure::function("missing argument for comparison"));
    }
    for other in others {
        if equals(value, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[expect(clippy::float_cmp, reason = "as Go compares")]
fn equals(left: &GoValue, right: &GoValue) -> Result<bool, TemplateFailure> {
    Ok(match (left, right) {
        (GoValue::Bool(left), GoValue::Bool(right)) => left == right,
        (GoValue::Int(_, left), GoValue::Int(_, right)) => left == right,
        (GoValue::Uint(_, left), GoValue::Uint(_, right)) => left == right,
        (GoValue::Int(_, int), GoValue::Uint(_, uint)) | (GoValue::Uint(_, uint), GoValue::Int(_, int)) => {
            i128::from(*int) == i128::from(*uint)
        }
        (GoValue::Float(left), GoValue::Float(right)) => left == right,
        (GoValue::Text(left), GoValue::Text(right)) => left == right,
        (GoValue::Nil, other) | (other, GoValue::Nil) => is_nil(other),
        (GoValue::Time(left), GoValue::Time(right)) => left == right,
        (GoValue::Version(left), GoValue::Version(right)) => std::rc::Rc::ptr_eq(left, right),
        (GoValue::List(left), GoValue::List(right)) if left.is_nil() || right.is_nil() => {
            left.is_nil() == right.is_nil()
        }
        (GoValue::Map(left), GoValue::Map(right)) if left.is_nil() || right.is_nil() => {
            left.is_nil() == right.is_nil()
        }
        (GoValue::List(_), GoValue::List(_)) | (GoValue::Map(_), GoValue::Map(_)) => {
            return Err(TemplateFailure::function(format!("non-comparable type {}", right.type_name())));
        }
        _ => return Err(incompatible(left, right)),
    })
}

fn is_nil(value: &GoValue) -> bool {
    match value {
        GoValue::Nil => true,
        GoValue::List(list) => list.is_nil(),
        GoValue::Map(map) => map.is_nil(),
        _ => false,
    }
}

fn incompatible(left: &GoValue, right: &GoValue) -> TemplateFailure {
    let (left, right) = (left.type_name(), right.type_name());
    TemplateFailure::function(format!("incompatible types for comparison: {left} and {right}"))
}

fn is_less(left: &GoValue, right: &GoValue) -> Result<bool, TemplateFailure> {
    let is_basic = |value: &GoValue| {
        !matches!(
            value,
            GoValue::Nil | GoValue::List(_) | GoValue::Map(_) | GoValue::Time(_) | GoValue::Version(_)
        )
    };
    if !is_basic(left) || !is_basic(right) || matches!((left, right), (GoValue::Bool(_), GoValue::Bool(_))) {
        return Err(TemplateFailure::function("invalid type for comparison"));
    }
    Ok(match (left, right) {
        (GoValue::Int(_, left), GoValue::Int(_, right)) => left < right,
        (GoValue::Uint(_, left), GoValue::Uint(_, right)) => left < right,
        (GoValue::Int(_, left), GoValue::Uint(_, right)) => i128::from(*left) < i128::from(*right),
        (GoValue::Uint(_, left), GoValue::Int(_, right)) => i128::from(*left) < i128::from(*right),
        (GoValue::Float(left), GoValue::Float(right)) => left < right,
        (GoValue::Text(left), GoValue::Text(right)) => left < right,
        _ => return Err(incompatible(left, right)),
    })
}

fn is_less_or_equal(arguments: &Arguments) -> Result<bool, TemplateFailure> {
    let (left, right) = (arguments.any(0), arguments.any(1));
    Ok(is_less(left, right)? || equals(left, right)?)
}

fn escape_html(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in bytes {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            byte => out.push(*byte),
        }
    }
    out
}

fn escape_script(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (part, c) in chars(bytes) {
        match c {
            '\\' | '\'' | '"' => {
                out.push(b'\\');
                out.extend_from_slice(part);
            }
            '<' | '>' | '&' | '=' => out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes()),
            c if c < ' ' || (!c.is_ascii() && !is_printable(c)) => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes());
            }
            _ => out.extend_from_slice(part),
        }
    }
    out
}
