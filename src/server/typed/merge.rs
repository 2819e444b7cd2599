//! How what is applied goes into what is there.

use serde_json::{Map, Value};

use super::super::fields::element_of;
use super::super::schema::{Relation, Shape, Type};
use super::hollow;
use super::lists::{Pick, indexed, interleave};

/// The live object with what is applied in its place.
pub fn merge(ty: &Type, live: &Value, applied: &Value) -> Value {
    if hollow(live) && hollow(applied) {
        return applied.clone();
    }
    let any = if applied.is_null() { live } else { applied };
    match (ty.shape(live), ty.shape(any)) {
        (Shape::Map(_), Shape::Map(parts)) => {
            let mut merged: Map<String, Value> = live.as_object().cloned().unwrap_or_default();
            for (key, value) in applied.as_object().into_iter().flatten() {
                let below = match (merged.get(key), parts.get(key)) {
                    (Some(live), Some(ty)) => merge(ty, live, value),
                    _ => value.clone(),
                };
                merged.insert(key.clone(), below);
            }
            Value::Object(merged)
        }
        (Shape::List(..), Shape::List(ty, relation)) => {
            let none = Vec::new();
            let lists = (live.as_array().unwrap_or(&none), applied.as_array().unwrap_or(&none));
            Value::Array(merge_lists(ty, relation, lists.0, lists.1))
        }
        _ => applied.clone(),
    }
}

fn merge_lists(ty: &Type, relation: &Relation, live: &Vec<Value>, applied: &Vec<Value>) -> Vec<Value> {
    // What cannot be told apart was refused for the applied list; in the live one it stays out.
    let marked = |items: &Vec<Value>| {
        let marks = items.iter().map(|item| element_of(item, ty, relation).ok());
        marks.collect::<Option<Vec<_>>>()
    };
    let (Some(old), Some(new)) = (marked(live), marked(applied)) else { return applied.clone() };
    let index = indexed(Some(live), ty, relation);
    let picks = interleave(&old, &new).into_iter().filter_map(|pick| match pick {
        Pick::Old(place) => live.get(place).cloned(),
        Pick::New(place) => {
            let item = applied.get(place)?;
            // An item that is there more than once is no one's to merge with.
            match new.get(place).and_then(|mark| index.get(mark)).map(Vec::as_slice) {
                Some([one]) => Some(merge(ty, one, item)),
                _ => Some(item.clone()),
            }
        }
    });
    picks.collect()
}
