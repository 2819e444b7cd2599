//! A step of a path into an object: a field, or an item of a list.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use crate::schema::{ListType, Type};

/// A step of a path.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a mapping.
    Field(String),
    /// The item of a list with these values in its key fields, by name.
    Key(Vec<(String, Value)>),
    /// The item of a set.
    Item(Value),
    /// An item by its index.
    Place(usize),
}

impl PathElement {
    /// A field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads a key of `fieldsV1`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "f" => Self::Field(rest.to_owned()),
            "v" => Self::Item(serde_json::from_str(rest).ok()?),
            "i" => Self::Place(rest.parse().ok()?),
            "k" => {
                let map: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let mut keys: Vec<(String, Value)> = map.into_iter().collect();
                keys.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(keys)
            }
            _ => return None,
        })
    }

    /// The key of `fieldsV1`.
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Item(value) => format!("v:{value}"),
            Self::Place(place) => format!("i:{place}"),
            Self::Key(keys) => format!("k:{}", Value::Object(keys.iter().cloned().collect())),
        }
    }

    fn variant_rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Item(_) => 2,
            Self::Place(_) => 3,
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(value) => write!(f, "[={value}]"),
            Self::Place(place) => write!(f, "[{place}]"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
        }
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Item(a), Self::Item(b)) => compare_values(a, b),
            (Self::Place(a), Self::Place(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                compare_in_turn(a, b, |a, b| a.0.cmp(&b.0).then_with(|| compare_values(&a.1, &b.1)))
            }
            _ => self.variant_rank().cmp(&other.variant_rank()),
        }
    }
}

/// Orders JSON values; numbers are compared by value.
pub(crate) fn compare_values(a: &Value, b: &Value) -> Ordering {
    fn type_rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x.cmp(&y),
            _ => x.as_f64().unwrap_or_default().total_cmp(&y.as_f64().unwrap_or_default()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => compare_in_turn(a, b, compare_values),
        (Value::Object(a), Value::Object(b)) => {
            compare_in_turn(&sort_entries(a), &sort_entries(b), |a, b| {
                a.0.cmp(b.0).then_with(|| compare_values(a.1, b.1))
            })
        }
        _ => type_rank(a).cmp(&type_rank(b)),
    }
}

fn sort_entries(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    entries
}

/// Orders lists by the first items that differ; of two lists that begin alike, the shorter one comes first.
fn compare_in_turn<T>(a: &[T], b: &[T], order: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let first = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// The element that identifies an item of a list. The error is the reason why the item has none.
pub(crate) fn element_of(item: &Value, ty: &Type, list_type: &ListType) -> Result<PathElement, String> {
    match list_type {
        ListType::Atomic => Err("a list that is replaced as a whole has no items of its own".to_owned()),
        ListType::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            _ => Ok(PathElement::Item(item.clone())),
        },
        ListType::Keys(names) => {
            if item.is_null() {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            if !item.is_object() {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
            let parts = ty.parts();
            let mut keys: Vec<(String, Value)> = Vec::with_capacity(names.len());
            for name in names {
                let value = item.get(name).or_else(|| parts?.find_field(name)?.default.as_ref());
                keys.extend(value.map(|value| (name.clone(), value.clone())));
            }
            keys.sort_by(|a, b| a.0.cmp(&b.0));
            if keys.is_empty() {
                let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't \
                     have default values for any key fields)",
                    names.join(" ")
                ));
            }
            Ok(PathElement::Key(keys))
        }
    }
}
