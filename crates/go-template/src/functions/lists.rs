//! Sprig's functions for lists. Those with `must` fail as the others do: a failure of either stops the template.

use super::FunctionParameter::{Any, Int};
use super::{Arguments, GoFunction, numbers, reflection};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::value::{GoList, GoValue, ItemType};

/// The code of a function under two names.
type Code = fn(&Arguments, &mut TemplateBudget) -> Result<GoValue, TemplateFailure>;

const LIST: Code = |a, budget| {
    budget.spend_steps(a.rest(0).len())?;
    Ok(GoValue::list(a.rest(0).to_vec()))
};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::with_rest("list", &[], Any, LIST),
    GoFunction::with_rest("tuple", &[], Any, LIST),
    GoFunction::new("append", &[Any, Any], APPEND),
    GoFunction::new("push", &[Any, Any], APPEND),
    GoFunction::new("mustAppend", &[Any, Any], APPEND),
    GoFunction::new("mustPush", &[Any, Any], APPEND),
    GoFunction::new("prepend", &[Any, Any], PREPEND),
    GoFunction::new("mustPrepend", &[Any, Any], PREPEND),
    GoFunction::new("first", &[Any], FIRST),
    GoFunction::new("mustFirst", &[Any], FIRST),
    GoFunction::new("last", &[Any], LAST),
    GoFunction::new("mustLast", &[Any], LAST),
    GoFunction::new("rest", &[Any], REST),
    GoFunction::new("mustRest", &[Any], REST),
    GoFunction::new("initial", &[Any], INITIAL),
    GoFunction::new("mustInitial", &[Any], INITIAL),
    GoFunction::new("reverse", &[Any], REVERSE),
    GoFunction::new("mustReverse", &[Any], REVERSE),
    GoFunction::new("compact", &[Any], COMPACT),
    GoFunction::new("mustCompact", &[Any], COMPACT),
    GoFunction::new("uniq", &[Any], UNIQ),
    GoFunction::new("mustUniq", &[Any], UNIQ),
    GoFunction::with_rest("without", &[Any], Any, WITHOUT),
    GoFunction::with_rest("mustWithout", &[Any], Any, WITHOUT),
    GoFunction::new("has", &[Any, Any], HAS),
    GoFunction::new("mustHas", &[Any, Any], HAS),
    GoFunction::with_rest("slice", &[Any], Any, SLICE),
    GoFunction::with_rest("mustSlice", &[Any], Any, SLICE),
    GoFunction::with_rest("concat", &[], Any, concat),
    GoFunction::new("chunk", &[Int, Any], chunk),
    GoFunction::new("mustChunk", &[Int, Any], chunk),
];

const APPEND: Code = |a, budget| {
    let mut items = take_items(a.any(0), "push on", budget)?;
    items.push(a.any(1).clone());
    Ok(GoValue::list(items))
};

const PREPEND: Code = |a, budget| {
    let mut items = take_items(a.any(0), "prepend on", budget)?;
    items.insert(0, a.any(1).clone());
    Ok(GoValue::list(items))
};

const FIRST: Code = |a, _| {
    let list = as_list(a.any(0), "find first on")?;
    Ok(list.items().first().cloned().unwrap_or(GoValue::Nil))
};

const LAST: Code = |a, _| {
    let list = as_list(a.any(0), "find last on")?;
    Ok(list.items().last().cloned().unwrap_or(GoValue::Nil))
};

const REST: Code = |a, budget| {
    let mut items = take_items(a.any(0), "find rest on", budget)?;
    if items.is_empty() {
        return Ok(GoValue::List(GoList::nil(ItemType::Any)));
    }
    items.remove(0);
    Ok(GoValue::list(items))
};

const INITIAL: Code = |a, budget| {
    let mut items = take_items(a.any(0), "find initial on", budget)?;
    match items.pop() {
        Some(_) => Ok(GoValue::list(items)),
        None => Ok(GoValue::List(GoList::nil(ItemType::Any))),
    }
};

const REVERSE: Code = |a, budget| {
    let mut items = take_items(a.any(0), "find reverse on", budget)?;
    items.reverse();
    Ok(GoValue::list(items))
};

const COMPACT: Code = |a, budget| {
    let items = take_items(a.any(0), "compact on", budget)?;
    Ok(GoValue::list(items.into_iter().filter(|item| !reflection::is_empty(item)).collect()))
};

const UNIQ: Code = |a, budget| {
    let mut kept = Vec::new();
    for item in take_items(a.any(0), "find uniq on", budget)? {
        if !has_item(&kept, &item, budget)? {
            kept.push(item);
        }
    }
    Ok(GoValue::list(kept))
};

const WITHOUT: Code = |a, budget| {
    let mut kept = Vec::new();
    for item in take_items(a.any(0), "find without on", budget)? {
        if !has_item(a.rest(1), &item, budget)? {
            kept.push(item);
        }
    }
    Ok(GoValue::list(kept))
};

const HAS: Code = |a, budget| {
    if matches!(a.any(1), GoValue::Nil) {
        return Ok(GoValue::Bool(false));
    }
    let list = as_list(a.any(1), "find has on")?;
    has_item(list.items(), a.any(0), budget).map(GoValue::Bool)
};

const SLICE: Code = |a, budget| {
    let list = as_list(a.any(0), "slice")?;
    let length = list.items().len();
    if length == 0 {
        return Ok(GoValue::Nil);
    }
    let start = a.rest(1).first().map_or(0, numbers::to_int);
    let end = a.rest(2).first().map_or(i64::try_from(length).unwrap_or(i64::MAX), numbers::to_int);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let Some(items) = range.and_then(|(start, end)| list.items().get(start..end)) else {
        return Err(TemplateFailure::function("slice bounds out of range"));
    };
    budget.spend_steps(items.len())?;
    Ok(GoValue::List(GoList::new(list.item_type(), items.to_vec())))
};

/// The list that a value is.
fn as_list<'v>(value: &'v GoValue, doing: &str) -> Result<&'v GoList, TemplateFailure> {
    match value {
        GoValue::List(list) => Ok(list),
        other => {
            let message = format!("Cannot {doing} type {}", other.kind_name());
            Err(TemplateFailure::function(message))
        }
    }
}

/// A copy of the items of a list.
fn take_items(
    value: &GoValue,
    doing: &str,
    budget: &mut TemplateBudget,
) -> Result<Vec<GoValue>, TemplateFailure> {
    let items = as_list(value, doing)?.items();
    budget.spend_steps(items.len())?;
    Ok(items.to_vec())
}

fn has_item(
    items: &[GoValue],
    wanted: &GoValue,
    budget: &mut TemplateBudget,
) -> Result<bool, TemplateFailure> {
    for item in items {
        if reflection::is_deeply_equal(item, wanted, 0, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn concat(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let mut all = Vec::new();
    for list in arguments.rest(0) {
        all.append(&mut take_items(list, "concat", budget)?);
    }
    if all.is_empty() {
        return Ok(GoValue::List(GoList::nil(ItemType::Any)));
    }
    Ok(GoValue::list(all))
}

fn chunk(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let items = take_items(arguments.any(1), "chunk", budget)?;
    let size = usize::try_from(arguments.int(0)).ok().filter(|size| *size > 0);
    let Some(size) = size else {
        return Err(TemplateFailure::function("the size of a chunk must be positive"));
    };
    let chunks = items.chunks(size).map(|chunk| GoValue::list(chunk.to_vec())).collect();
    Ok(GoValue::List(GoList::new(ItemType::List, chunks)))
}
