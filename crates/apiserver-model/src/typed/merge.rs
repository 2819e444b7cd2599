//! Merges an applied object into the live one.

use serde_json::{Map, Value};

use super::super::fields::{PathElement, element_of};
use super::super::schema::{ListType, MergeShape, Type, TypeParts};
use super::is_empty_value;
use super::lists::{MergedItem, index_items, interleave_items};

/// The live object with the applied one merged into it.
pub fn merge_objects(ty: &Type, live: &Value, applied: Value) -> Value {
    if is_empty_value(live) && is_empty_value(&applied) {
        return applied;
    }
    let shape = ty.merge_shape(if applied.is_null() { live } else { &applied });
    match (ty.merge_shape(live), shape, applied) {
        (MergeShape::Map(_), MergeShape::Map(parts), Value::Object(applied)) => {
            Value::Object(merge_maps(parts, live, applied))
        }
        (MergeShape::List(..), MergeShape::List(ty, list_type), Value::Array(applied)) => {
            let live = live.as_array().map_or(&[][..], Vec::as_slice);
            Value::Array(merge_lists(ty, list_type, live, applied))
        }
        // Nothing is applied, and the live one is a mapping or a list.
        (MergeShape::Map(_), MergeShape::Map(_), _) | (MergeShape::List(..), MergeShape::List(..), _) => {
            live.clone()
        }
        (_, _, applied) => applied,
    }
}

fn merge_maps(parts: TypeParts<'_>, live: &Value, mut applied: Map<String, Value>) -> Map<String, Value> {
    let Some(live) = live.as_object() else { return applied };
    let mut merged = Map::with_capacity(live.len() + applied.len());
    for (key, live) in live {
        let below = match (applied.get_mut(key), parts.get(key)) {
            (Some(value), Some(ty)) => merge_objects(ty, live, value.take()),
            (Some(value), None) => value.take(),
            (None, _) => live.clone(),
        };
        merged.insert(key.clone(), below);
    }
    merged.extend(applied.into_iter().filter(|(key, _)| !live.contains_key(key)));
    merged
}

fn merge_lists(ty: &Type, list_type: &ListType, live: &[Value], mut applied: Vec<Value>) -> Vec<Value> {
    // Items without a key were refused in the applied list; in the live one they are dropped.
    let (Some(old), Some(new)) = (elements_of(live, ty, list_type), elements_of(&applied, ty, list_type))
    else {
        return applied;
    };
    let index = index_items(Some(live), ty, list_type);
    let picks = interleave_items(&old, &new).into_iter().filter_map(|pick| match pick {
        MergedItem::Old(place) => live.get(place).cloned(),
        MergedItem::New(place) => {
            let item = applied.get_mut(place)?.take();
            // An item with duplicates is not merged.
            match new.get(place).and_then(|mark| index.get(mark)).map(Vec::as_slice) {
                Some([one]) => Some(merge_objects(ty, one, item)),
                _ => Some(item),
            }
        }
    });
    picks.collect()
}

/// The elements of all items of a list; `None` if an item has none.
fn elements_of(items: &[Value], ty: &Type, list_type: &ListType) -> Option<Vec<PathElement>> {
    items.iter().map(|item| element_of(item, ty, list_type).ok()).collect()
}
