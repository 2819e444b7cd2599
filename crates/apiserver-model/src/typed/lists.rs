//! Lists with keys or unique values: indexed, and merged in order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::fields::{PathElement, element_of};
use super::super::schema::{ListType, Type};

/// The items by their key or value; duplicates are together.
pub(super) fn index_items<'v>(
    items: Option<&'v [Value]>,
    ty: &Type,
    list_type: &ListType,
) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut index: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in items.into_iter().flatten() {
        if let Ok(element) = element_of(item, ty, list_type) {
            index.entry(element).or_default().push(item);
        }
    }
    index
}

/// An item of the merged list.
pub(super) enum MergedItem {
    /// An item that only the old list has, by its index there.
    Old(usize),
    /// An item of the new list, by its index there.
    New(usize),
}

/// The order of a merged list: the new items in their order, and each item that only the old list has before the
/// items that followed it there, as far as both orders allow.
///
/// `old` and `new` are the keys of the items; `old` may contain duplicates.
pub(super) fn interleave_items(old: &[PathElement], new: &[PathElement]) -> Vec<MergedItem> {
    let (in_old, in_new): (BTreeSet<&PathElement>, BTreeSet<&PathElement>) =
        (old.iter().collect(), new.iter().collect());
    let shared: Vec<&PathElement> = new.iter().filter(|e| in_old.contains(e)).collect();
    let (mut awaited, mut at, mut next) = (0, 0, 0);
    let mut placed: BTreeSet<&PathElement> = BTreeSet::new();
    let mut picks = Vec::new();
    loop {
        match (old.get(at), new.get(next)) {
            (None, None) => return picks,
            (Some(mine), _) if !in_new.contains(mine) => {
                picks.push(MergedItem::Old(at));
                at += 1;
            }
            (Some(mine), Some(theirs)) if mine == theirs => {
                placed.insert(theirs);
                picks.push(MergedItem::New(next));
                (at, next, awaited) = (at + 1, next + 1, awaited + 1);
            }
            // Out of order: it keeps its place in the new list.
            (Some(mine), Some(_)) if shared.get(awaited).is_some_and(|awaited| *awaited != mine) => at += 1,
            (mine, Some(theirs)) => {
                if mine.is_some_and(|mine| placed.contains(mine)) {
                    at += 1;
                }
                placed.insert(theirs);
                picks.push(MergedItem::New(next));
                next += 1;
                if shared.get(awaited).is_some_and(|awaited| *awaited == theirs) {
                    awaited += 1;
                }
            }
            (Some(_), None) => at += 1,
        }
    }
}
