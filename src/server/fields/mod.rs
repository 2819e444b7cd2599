//! Sets of fields, as `managedFields` keep them: what a manager owns of an object.
//!
//! Facts: the format `FieldsV1` of Kubernetes: `f:name` is a field, `k:{…}` the item of a list with
//! these keys, `v:…` the item of a set, `i:n` an item by its place; `.` stands for the thing itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

mod element;
#[cfg(test)]
mod tests;

pub use element::Element;
pub(super) use element::{compare_values, element_of};

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the thing itself is in the set.
    own: bool,
    /// What is in the set below it.
    below: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// Reads `fieldsV1`; `None` when it is malformed.
    pub fn parse(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        let mut set = Self::default();
        for (key, value) in map {
            if key == "." {
                set.own = true;
                continue;
            }
            let mut below = Self::parse(value)?;
            below.own |= below.below.is_empty();
            set.below.insert(Element::parse(key)?, below);
        }
        Some(set)
    }

    /// Writes `fieldsV1`.
    pub fn write(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.extend(self.below.iter().map(|(element, below)| (element.key(), below.write())));
        Value::Object(map)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        !self.own && self.below.values().all(Self::is_empty)
    }

    /// Whether the thing itself is in it.
    pub fn has_own(&self) -> bool {
        self.own
    }

    /// Whether the item or field itself is in it.
    pub fn has(&self, element: &Element) -> bool {
        self.below.get(element).is_some_and(|below| below.own)
    }

    /// What is in it below an item or field.
    pub fn below(&self, element: &Element) -> Option<&FieldSet> {
        self.below.get(element)
    }

    /// What is in it, one by one.
    pub fn entries(&self) -> impl Iterator<Item = (&Element, &FieldSet)> {
        self.below.iter()
    }

    /// Adds the thing itself.
    pub fn own(&mut self) {
        self.own = true;
    }

    /// The set below an item or field, to add to it.
    pub fn enter(&mut self, element: Element) -> &mut FieldSet {
        self.below.entry(element).or_default()
    }

    /// Adds a path of fields.
    pub fn insert(&mut self, path: &[&str]) {
        let end = path.iter().fold(self, |set, key| set.enter(Element::Field((*key).to_owned())));
        end.own = true;
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.own |= other.own;
        for (element, below) in &other.below {
            let merged = match union.below.get(element) {
                Some(mine) => mine.union(below),
                None => below.clone(),
            };
            union.below.insert(element.clone(), merged);
        }
        union
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.below.iter().filter_map(|(element, below)| {
            let both = below.intersection(other.below.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { own: self.own && other.own, below: both.collect() }
    }

    /// What is in this and not in the other. What lies below something in the other stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let rest = self.below.iter().filter_map(|(element, below)| {
            let rest = match other.below.get(element) {
                Some(theirs) => below.difference(theirs),
                None => below.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { own: self.own && !other.own, below: rest.collect() }
    }

    /// What is in this and neither in the other nor below something that is.
    #[must_use]
    pub fn without_below(&self, other: &Self) -> Self {
        let rest = self.below.iter().filter_map(|(element, below)| {
            let rest = match other.below.get(element) {
                Some(theirs) if theirs.own => return None,
                Some(theirs) => below.without_below(theirs),
                None => below.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { own: self.own && !other.own, below: rest.collect() }
    }

    /// The paths in it as texts, as messages about conflicts name them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    fn collect(&self, path: &mut String, paths: &mut Vec<String>) {
        // First what is itself in the set, then what lies deeper.
        for (element, _) in self.below.iter().filter(|(_, below)| below.own) {
            paths.push(format!("{path}{element}"));
        }
        let length = path.len();
        for (element, below) in &self.below {
            path.push_str(&element.to_string());
            below.collect(path, paths);
            path.truncate(length);
        }
    }
}
