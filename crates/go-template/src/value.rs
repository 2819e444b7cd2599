//! The values that templates work on, with the types that they have in Go: a template prints, compares and passes an
//! `int` otherwise than a `float64`, and a map of texts otherwise than a map of anything.

use federate_semver::SemanticVersion;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use serde_json::Value;

use crate::budget::limit_failure;
use crate::error::TemplateFailure;
use crate::text::GoText;
use crate::time::PointInTime;

/// How deeply values may be nested where they are printed, compared, copied or merged.
pub(crate) const MAX_DEPTH: usize = 200;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum GoValue {
    /// `nil` in an interface.
    Nil,
    Bool(bool),
    Int(IntType, i64),
    /// `uint64`, or `uint8` if it is a byte of a text.
    Uint(UintType, u64),
    Float(f64),
    Text(GoText),
    List(GoList),
    Map(GoMap),
    Time(PointInTime),
    Version(Rc<SemanticVersion>),
}

/// A signed type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntType {
    Int,
    Int64,
}

/// An unsigned type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UintType {
    Byte,
    Uint64,
}

/// The type of a list's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemType {
    Any,
    Text,
    Int,
    /// Lists of anything.
    List,
}

/// A list that does not change.
#[derive(Clone, Debug)]
pub(crate) struct GoList(Rc<ListContent>);

#[derive(Debug)]
struct ListContent {
    item_type: ItemType,
    /// Whether it is `nil`, which is empty and JSON's `null`.
    nil: bool,
    items: Vec<GoValue>,
}

/// A map from texts, which `set` and `unset` change for all who hold it.
#[derive(Clone, Debug)]
pub(crate) struct GoMap(Rc<MapContent>);

#[derive(Debug)]
struct MapContent {
    /// Whether the values are texts: `map[string]string`.
    of_texts: bool,
    nil: bool,
    entries: RefCell<BTreeMap<GoText, GoValue>>,
}

impl GoList {
    pub(crate) fn new(item_type: ItemType, items: Vec<GoValue>) -> Self {
        Self(Rc::new(ListContent { item_type, nil: false, items }))
    }

    /// The list that is `nil`.
    pub(crate) fn nil(item_type: ItemType) -> Self {
        Self(Rc::new(ListContent { item_type, nil: true, items: Vec::new() }))
    }

    pub(crate) fn item_type(&self) -> ItemType {
        self.0.item_type
    }

    pub(crate) fn is_nil(&self) -> bool {
        self.0.nil
    }

    pub(crate) fn items(&self) -> &[GoValue] {
        &self.0.items
    }

    /// Whether both are the same list in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl GoMap {
    pub(crate) fn new(entries: BTreeMap<GoText, GoValue>) -> Self {
        Self(Rc::new(MapContent { of_texts: false, nil: false, entries: RefCell::new(entries) }))
    }

    /// A map of texts.
    pub(crate) fn of_texts(entries: impl IntoIterator<Item = (GoText, GoText)>) -> Self {
        let entries = entries.into_iter().map(|(key, text)| (key, GoValue::Text(text))).collect();
        Self(Rc::new(MapContent { of_texts: true, nil: false, entries: RefCell::new(entries) }))
    }

    /// The map that is `nil`.
    pub(crate) fn nil() -> Self {
        Self(Rc::new(MapContent { of_texts: false, nil: true, entries: RefCell::default() }))
    }

    pub(crate) fn is_of_texts(&self) -> bool {
        self.0.of_texts
    }

    pub(crate) fn is_nil(&self) -> bool {
        self.0.nil
    }

    pub(crate) fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<GoValue> {
        // A key is looked up by its text, which is what it is ordered by.
        self.0.entries.borrow().get(&GoText::from(key)).cloned()
    }

    /// The value of a key that the map does not have, where Go gives the zero value.
    pub(crate) fn zero(&self) -> GoValue {
        if self.is_of_texts() { GoValue::Text(GoText::from("")) } else { GoValue::Nil }
    }

    /// Sets a key of a map that is not `nil`.
    pub(crate) fn insert(&self, key: GoText, value: GoValue) {
        // What is replaced is dropped after the borrow: it may hold this map.
        let replaced = self.0.entries.borrow_mut().insert(key, value);
        drop(replaced);
    }

    pub(crate) fn remove(&self, key: &GoText) {
        let removed = self.0.entries.borrow_mut().remove(key);
        drop(removed);
    }

    /// The entries as they are now, sorted by key.
    pub(crate) fn entries(&self) -> Vec<(GoText, GoValue)> {
        self.0.entries.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Whether both are the same map in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

// Values are dropped one after the other, because a template can nest them more deeply than a stack allows.
impl Drop for ListContent {
    fn drop(&mut self) {
        drop_values(mem::take(&mut self.items));
    }
}

impl Drop for MapContent {
    fn drop(&mut self) {
        drop_values(mem::take(self.entries.get_mut()).into_values().collect());
    }
}

fn drop_values(mut pending: Vec<GoValue>) {
    while let Some(value) = pending.pop() {
        match value {
            GoValue::List(mut list) => {
                if let Some(content) = Rc::get_mut(&mut list.0) {
                    pending.append(&mut content.items);
                }
            }
            GoValue::Map(mut map) => {
                if let Some(content) = Rc::get_mut(&mut map.0) {
                    pending.extend(mem::take(content.entries.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

impl GoValue {
    pub(crate) fn text(text: impl Into<GoText>) -> Self {
        Self::Text(text.into())
    }

    /// An `int`.
    pub(crate) fn int(number: i64) -> Self {
        Self::Int(IntType::Int, number)
    }

    /// An `int64`.
    pub(crate) fn int64(number: i64) -> Self {
        Self::Int(IntType::Int64, number)
    }

    /// The `int` of a length.
    pub(crate) fn length(length: usize) -> Self {
        Self::int(i64::try_from(length).unwrap_or(i64::MAX))
    }

    pub(crate) fn list(items: Vec<GoValue>) -> Self {
        Self::List(GoList::new(ItemType::Any, items))
    }

    /// A list of texts.
    pub(crate) fn texts(texts: impl IntoIterator<Item = GoText>) -> Self {
        Self::List(GoList::new(ItemType::Text, texts.into_iter().map(Self::Text).collect()))
    }

    /// A JSON value, with all numbers as `float64`.
    pub(crate) fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => Self::text(text.as_str()),
            Value::Array(items) => Self::list(items.iter().map(Self::from_json).collect()),
            Value::Object(map) => {
                let entries = map.iter().map(|(key, value)| (key.as_str().into(), Self::from_json(value)));
                Self::Map(GoMap::new(entries.collect()))
            }
        }
    }

    /// Whether the value is not the zero value of its type, as `if` decides it.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(bool) => *bool,
            Self::Int(_, number) => *number != 0,
            Self::Uint(_, number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.bytes().is_empty(),
            Self::List(list) => !list.items().is_empty(),
            Self::Map(map) => map.len() > 0,
            Self::Time(_) | Self::Version(_) => true,
        }
    }

    /// The name of its type, as `%T` prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(IntType::Int, _) => "int",
            Self::Int(IntType::Int64, _) => "int64",
            Self::Uint(UintType::Byte, _) => "uint8",
            Self::Uint(UintType::Uint64, _) => "uint64",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(list) => match list.item_type() {
                ItemType::Any => "[]interface {}",
                ItemType::Text => "[]string",
                ItemType::Int => "[]int",
                ItemType::List => "[][]interface {}",
            },
            Self::Map(map) if map.is_of_texts() => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
        }
    }

    /// The kind of its type, as `kindOf` names it.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) => "struct",
            Self::Version(_) => "ptr",
            other => other.type_name(),
        }
    }
}

/// One level more, up to the deepest that is looked at.
pub(crate) fn descend(depth: usize) -> Result<usize, TemplateFailure> {
    if depth >= MAX_DEPTH {
        return Err(limit_failure("nests values too deeply"));
    }
    Ok(depth + 1)
}
