//! Sprig's functions for maps.

use std::collections::BTreeMap;

use super::FunctionParameter::{Any, Map, Text};
use super::{Arguments, GoFunction, reflection, strings};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::text::GoText;
use crate::value::{GoList, GoMap, GoValue, descend};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::with_rest("dict", &[], Any, make_map),
    GoFunction::new("get", &[Map, Text], |a, _| {
        Ok(a.map(0).get(a.text(1)).unwrap_or_else(|| GoValue::text("")))
    }),
    GoFunction::new("set", &[Map, Text, Any], |a, budget| {
        let map = a.map(0);
        if map.is_nil() {
            return Err(TemplateFailure::function("assignment to entry in nil map"));
        }
        budget.spend_bytes(a.text(1).len())?;
        map.insert(GoText::from(a.text(1)), a.any(2).clone());
        Ok(GoValue::Map(map))
    }),
    GoFunction::new("unset", &[Map, Text], |a, _| {
        let map = a.map(0);
        map.remove(&GoText::from(a.text(1)));
        Ok(GoValue::Map(map))
    }),
    GoFunction::new("hasKey", &[Map, Text], |a, _| Ok(GoValue::Bool(a.map(0).get(a.text(1)).is_some()))),
    GoFunction::with_rest("pluck", &[Text], Map, |a, _| {
        let maps = a.rest(1).iter().filter_map(|value| match value {
            GoValue::Map(map) => map.get(a.text(0)),
            _ => None,
        });
        Ok(GoValue::list(maps.collect()))
    }),
    GoFunction::with_rest("keys", &[], Map, |a, budget| {
        let mut keys = Vec::new();
        for value in a.rest(0) {
            if let GoValue::Map(map) = value {
                budget.spend_steps(map.len())?;
                keys.extend(map.entries().into_iter().map(|(key, _)| key));
            }
        }
        Ok(GoValue::texts(keys))
    }),
    GoFunction::new("values", &[Map], |a, budget| {
        budget.spend_steps(a.map(0).len())?;
        Ok(GoValue::list(a.map(0).entries().into_iter().map(|(_, value)| value).collect()))
    }),
    GoFunction::with_rest("pick", &[Map], Text, |a, budget| {
        let map = a.map(0);
        let keys = texts(a.rest(1));
        budget.spend_steps(keys.len())?;
        let picked = keys.into_iter().filter_map(|key| Some((key.clone(), map.get(key.bytes())?)));
        Ok(GoValue::Map(GoMap::new(picked.collect())))
    }),
    GoFunction::with_rest("omit", &[Map], Text, |a, budget| {
        let mut kept: BTreeMap<GoText, GoValue> = a.map(0).entries().into_iter().collect();
        budget.spend_steps(kept.len())?;
        for key in texts(a.rest(1)) {
            kept.remove(&key);
        }
        Ok(GoValue::Map(GoMap::new(kept)))
    }),
    GoFunction::with_rest("merge", &[Map], Map, |a, budget| merge_all(a, false, budget)),
    GoFunction::with_rest("mustMerge", &[Map], Map, |a, budget| merge_all(a, false, budget)),
    GoFunction::with_rest("mergeOverwrite", &[Map], Map, |a, budget| merge_all(a, true, budget)),
    GoFunction::with_rest("mustMergeOverwrite", &[Map], Map, |a, budget| merge_all(a, true, budget)),
    GoFunction::with_rest("dig", &[], Any, dig),
    GoFunction::new("deepCopy", &[Any], copy_argument),
    GoFunction::new("mustDeepCopy", &[Any], copy_argument),
];

fn texts(values: &[GoValue]) -> Vec<GoText> {
    let texts = values.iter().filter_map(|value| match value {
        GoValue::Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// A map of keys and values in turn; the last key may lack its value.
fn make_map(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let mut entries = BTreeMap::new();
    for pair in arguments.rest(0).chunks(2) {
        budget.spend_steps(1)?;
        if let Some(key) = pair.first() {
            let value = pair.get(1).cloned().unwrap_or_else(|| GoValue::text(""));
            entries.insert(strings::to_text(key, budget)?, value);
        }
    }
    Ok(GoValue::Map(GoMap::new(entries)))
}

fn merge_all(
    arguments: &Arguments,
    overwrites: bool,
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let target = match arguments.map(0) {
        map if map.is_nil() => GoMap::new(BTreeMap::new()),
        map => map,
    };
    for source in arguments.rest(1) {
        if let GoValue::Map(source) = source {
            merge_maps(&target, source, overwrites, 0, budget)?;
        }
    }
    Ok(GoValue::Map(target))
}

/// Merges a map into another one: what is empty there is filled, and with `overwrites` what is not empty is replaced.
fn merge_maps(
    target: &GoMap,
    source: &GoMap,
    overwrites: bool,
    depth: usize,
    budget: &mut TemplateBudget,
) -> Result<(), TemplateFailure> {
    let depth = descend(depth)?;
    if target.is_nil() {
        return Ok(());
    }
    for (key, value) in source.entries() {
        budget.spend_steps(1)?;
        let known = target.get(key.bytes());
        let is_filled = known.as_ref().is_some_and(|known| !reflection::is_empty(known));
        match (&known, &value) {
            (Some(_), GoValue::Nil) if !overwrites => {}
            (None, GoValue::Nil) if !overwrites => {}
            (Some(GoValue::Map(known)), GoValue::Map(inner)) if is_filled => {
                if known.is_of_texts() == inner.is_of_texts() {
                    merge_maps(known, inner, overwrites, depth, budget)?;
                } else if overwrites {
                    return Err(TemplateFailure::function("maps of different types cannot be merged"));
                }
            }
            _ if overwrites || !is_filled => target.insert(key, value),
            _ => {}
        }
    }
    Ok(())
}

/// The value at the end of a path of keys, or a default where a key is missing.
fn dig(arguments: &Arguments, _: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let [keys @ .., default, GoValue::Map(map)] = arguments.rest(0) else {
        return Err(TemplateFailure::function(
            "dig needs at least three arguments, the last of which is a map",
        ));
    };
    if keys.is_empty() || map.is_of_texts() {
        return Err(TemplateFailure::function("dig needs keys, a default and a map of anything"));
    }
    let mut value = GoValue::Map(map.clone());
    for key in keys {
        let GoValue::Text(key) = key else {
            return Err(TemplateFailure::function(format!("a key of type {} is no text", key.type_name())));
        };
        let map = match &value {
            GoValue::Map(map) if !map.is_of_texts() => map,
            other => {
                let message = format!("the value before {key:?} is of type {}, not a map", other.type_name());
                return Err(TemplateFailure::function(message));
            }
        };
        match map.get(key.bytes()) {
            Some(inner) => value = inner,
            None => return Ok(default.clone()),
        }
    }
    Ok(value)
}

fn copy_argument(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    match arguments.any(0) {
        // Go's copy of nothing fails, and that of a version lacks its numbers.
        value @ (GoValue::Nil | GoValue::Version(_)) => {
            let message = format!("a value of type {} cannot be copied", value.type_name());
            Err(TemplateFailure::function(message))
        }
        value => copy_deeply(value, 0, budget),
    }
}

/// A copy that shares no map with the original.
fn copy_deeply(
    value: &GoValue,
    depth: usize,
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    budget.spend_steps(1)?;
    Ok(match value {
        GoValue::List(list) if !list.is_nil() => {
            let deeper = descend(depth)?;
            let items = list.items().iter().map(|item| copy_deeply(item, deeper, budget));
            GoValue::List(GoList::new(list.item_type(), items.collect::<Result<_, _>>()?))
        }
        GoValue::Map(map) if !map.is_nil() && !map.is_of_texts() => {
            let deeper = descend(depth)?;
            let mut entries = BTreeMap::new();
            for (key, value) in map.entries() {
                entries.insert(key, copy_deeply(&value, deeper, budget)?);
            }
            GoValue::Map(GoMap::new(entries))
        }
        other => other.clone(),
    })
}
