//! Sets of fields, as `managedFields` has them.
//!
//! Facts: the format `FieldsV1` of Kubernetes: `f:name` is a field, `k:{…}` the item of a list with
//! these keys, `v:…` the item of a set, `i:n` an item by its index; `.` is the value itself.

use serde_json::{Map, Value};

mod element;
#[cfg(test)]
mod tests;

pub use element::PathElement;
pub(super) use element::{compare_values, element_of};

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the value itself is in the set.
    own: bool,
    /// The elements below it, sorted. Most values have few of them.
    below: Vec<(PathElement, FieldSet)>,
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
            *set.below_or_insert(PathElement::parse(key)?) = below;
        }
        Some(set)
    }

    /// Writes `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.extend(self.below.iter().map(|(element, below)| (element.to_key(), below.to_json())));
        Value::Object(map)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        !self.own && self.below.iter().all(|(_, below)| below.is_empty())
    }

    /// Whether the value itself is in it.
    pub fn has_own(&self) -> bool {
        self.own
    }

    /// The set below an item or field.
    pub fn find_below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.find_index(element).ok().and_then(|place| self.below.get(place)).map(|(_, below)| below)
    }

    fn find_index(&self, element: &PathElement) -> Result<usize, usize> {
        // Most elements are inserted in order.
        match self.below.last() {
            Some((last, _)) if last < element => Err(self.below.len()),
            _ => self.below.binary_search_by(|(other, _)| other.cmp(element)),
        }
    }

    /// The elements.
    pub fn entries(&self) -> impl Iterator<Item = (&PathElement, &FieldSet)> {
        self.below.iter().map(|(element, below)| (element, below))
    }

    /// Adds the value itself.
    pub fn insert_own(&mut self) {
        self.own = true;
    }

    /// The set below an item or field, to add to it.
    pub fn below_or_insert(&mut self, element: PathElement) -> &mut FieldSet {
        let place = self.find_index(&element).unwrap_or_else(|place| {
            self.below.insert(place, (element, Self::default()));
            place
        });
        &mut self.below[place].1
    }

    /// Adds a path of fields.
    pub fn insert_path(&mut self, path: &[&str]) {
        let end =
            path.iter().fold(self, |set, key| set.below_or_insert(PathElement::Field((*key).to_owned())));
        end.own = true;
    }

    /// The union.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.own |= other.own;
        if self.below.is_empty() {
            self.below = other.below;
            return self;
        }
        for (element, theirs) in other.below {
            let mine = self.below_or_insert(element);
            *mine = std::mem::take(mine).union(theirs);
        }
        self
    }

    /// The intersection.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.below.iter().filter_map(|(element, below)| {
            let both = below.intersection(other.find_below(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { own: self.own && other.own, below: both.collect() }
    }

    /// The difference. Fields below a field of the other set stay.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.own &= !other.own;
        self.map_shared(other, |mine, theirs| Some(mine.difference(theirs)))
    }

    /// The difference, also without fields below a field of the other set.
    #[must_use]
    pub fn without_below(mut self, other: &Self) -> Self {
        self.own &= !other.own;
        self.map_shared(other, |mine, theirs| (!theirs.own).then(|| mine.without_below(theirs)))
    }

    /// The set with `rest` applied to each part that the other set has, too.
    fn map_shared(mut self, other: &Self, rest: impl Fn(Self, &Self) -> Option<Self>) -> Self {
        for (element, theirs) in &other.below {
            let Ok(place) = self.find_index(element) else { continue };
            let (element, mine) = self.below.remove(place);
            if let Some(rest) = rest(mine, theirs).filter(|rest| !rest.is_empty()) {
                self.below.insert(place, (element, rest));
            }
        }
        self
    }

    /// Whether it is a subset of the other.
    pub fn is_within(&self, other: &Self) -> bool {
        (!self.own || other.own)
            && self.below.iter().all(|(element, below)| match other.find_below(element) {
                Some(theirs) => below.is_within(theirs),
                None => below.is_empty(),
            })
    }

    /// The paths as text, as messages about conflicts name them.
    pub fn format_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths(&mut String::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, path: &mut String, paths: &mut Vec<String>) {
        // First what is itself in the set, then what lies deeper.
        for (element, _) in self.below.iter().filter(|(_, below)| below.own) {
            paths.push(format!("{path}{element}"));
        }
        let length = path.len();
        for (element, below) in &self.below {
            path.push_str(&element.to_string());
            below.collect_paths(path, paths);
            path.truncate(length);
        }
    }
}
