//! The schemas of objects: their fields, how lists are merged, and which values are atomic.
//!
//! Facts: the `OpenAPI` document of Kubernetes (`x-kubernetes-list-type`, `-list-map-keys`, `-map-type`) and which
//! fields its Go types write when they are empty; `types.txt` has them for the built-in kinds. Custom resources have
//! them in their definition (`custom`), other kinds in the `OpenAPI` documents of the cluster (`openapi`).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::values::{text_below, texts_at};

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A string.
    Text,
    /// An integer or a float.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A quantity, such as `500m`.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// A point in time.
    Time,
    /// Any value; mappings in it are merged key by key.
    Any,
    /// Any value, atomic.
    Atomic,
    /// A built-in type, by its name.
    Named(&'static str),
    /// A mapping with fields.
    Struct(Struct),
    /// A mapping with arbitrary keys.
    Map {
        /// The type of its values.
        value: Box<Type>,
        /// Whether it is atomic.
        atomic: bool,
    },
    /// A list.
    List {
        /// The type of its items.
        item: Box<Type>,
        /// How two lists are merged.
        list_type: ListType,
    },
}

/// A mapping with fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct {
    /// The fields that are declared.
    pub fields: BTreeMap<String, StructField>,
    /// The type of undeclared fields; `None` where they are not allowed.
    pub rest: Option<Box<Type>>,
    /// Whether it is atomic.
    pub atomic: bool,
}

/// A field of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct StructField {
    /// Its type.
    pub ty: Type,
    /// When it is written.
    pub written: WhenWritten,
    /// The default, which also counts in keys of list items.
    pub default: Option<Value>,
}

/// When the server writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenWritten {
    /// Always; an absent value is written empty.
    Always,
    /// Always; an absent value is written as null.
    Nullable,
    /// When it is set, even to an empty value.
    Given,
    /// When it is not empty.
    Filled,
}

/// How two lists are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// One replaces the other.
    Atomic,
    /// Items are merged by their value.
    Set,
    /// Items are merged by the values of these fields.
    Keys(Vec<String>),
}

impl ListType {
    /// Reads `x-kubernetes-list-type` and `-list-map-keys` of the schema of a list.
    pub(super) fn from_schema(schema: &Value) -> Self {
        match text_below(schema, "x-kubernetes-list-type") {
            "set" => Self::Set,
            "map" => Self::Keys(texts_at(schema, "/x-kubernetes-list-map-keys")),
            _ => Self::Atomic,
        }
    }
}

/// The shape of a value of a type, for merging.
#[derive(Clone, Copy, Debug)]
pub(super) enum MergeShape<'t> {
    /// It has no parts with owners.
    Leaf,
    /// It has fields or keys.
    Map(TypeParts<'t>),
    /// It has items.
    List(&'t Type, &'t ListType),
}

/// The types of a mapping's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeParts<'t> {
    pub(super) fields: Option<&'t BTreeMap<String, StructField>>,
    pub(super) rest: Option<&'t Type>,
}

impl<'t> TypeParts<'t> {
    /// The type below a key, if there may be one.
    pub(super) fn get(self, key: &str) -> Option<&'t Type> {
        self.find_field(key).map(|f| &f.ty).or(self.rest)
    }

    /// The field that is declared.
    pub(super) fn find_field(self, key: &str) -> Option<&'t StructField> {
        self.fields.and_then(|fields| fields.get(key))
    }
}

impl Type {
    /// Resolves the name of a built-in type.
    pub fn resolve_name(&self) -> &Type {
        match self {
            Type::Named(name) => find_builtin(name).unwrap_or(&Type::Atomic),
            other => other,
        }
    }

    /// The shape of a value. A value of another type is a leaf.
    pub(super) fn merge_shape(&self, value: &Value) -> MergeShape<'_> {
        match (self.resolve_name(), value) {
            (Type::Struct(s), Value::Object(_) | Value::Null) if !s.atomic => {
                MergeShape::Map(TypeParts { fields: Some(&s.fields), rest: s.rest.as_deref() })
            }
            (Type::Map { value, atomic: false }, Value::Object(_) | Value::Null) => {
                MergeShape::Map(TypeParts { fields: None, rest: Some(value) })
            }
            (Type::Any, Value::Object(_)) => {
                MergeShape::Map(TypeParts { fields: None, rest: Some(&Type::Any) })
            }
            (Type::List { item, list_type }, Value::Array(_) | Value::Null)
                if *list_type != ListType::Atomic =>
            {
                MergeShape::List(item, list_type)
            }
            _ => MergeShape::Leaf,
        }
    }

    /// The types of its parts, whether or not they are merged one by one.
    pub(super) fn parts(&self) -> Option<TypeParts<'_>> {
        match self.resolve_name() {
            Type::Struct(s) => Some(TypeParts { fields: Some(&s.fields), rest: s.rest.as_deref() }),
            Type::Map { value, .. } => Some(TypeParts { fields: None, rest: Some(value) }),
            _ => None,
        }
    }

    /// The type at a path of fields.
    pub fn at_path(&self, path: &[&str]) -> Option<&Type> {
        path.iter().try_fold(self, |ty, key| match ty.resolve_name() {
            Type::List { item, .. } => item.parts()?.get(key),
            other => other.parts()?.get(key),
        })
    }
}

/// A built-in type.
pub fn find_builtin(name: &str) -> Option<&'static Type> {
    static TYPES: OnceLock<BTreeMap<&'static str, Type>> = OnceLock::new();
    TYPES.get_or_init(parse_types).get(name)
}

fn parse_types() -> BTreeMap<&'static str, Type> {
    let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, fields) = line.split_once(' ')?;
            let bare = name.trim_end_matches('!');
            let fields = fields.split(' ').filter_map(parse_field).collect();
            Some((bare, Type::Struct(Struct { fields, rest: None, atomic: bare != name })))
        })
        .collect()
}

fn parse_field(text: &'static str) -> Option<(String, StructField)> {
    let (name, rest) = text.split_once(':')?;
    let (rest, default) = match rest.split_once('=') {
        Some((rest, default)) => (rest, Some(Value::from(default))),
        None => (rest, None),
    };
    // A set ends with `*`; only a second mark is that of the field.
    let set = rest.starts_with('[');
    let (rest, written) = match rest.strip_suffix('?') {
        Some(rest) => (rest, WhenWritten::Filled),
        None => match rest.strip_suffix('*') {
            Some(rest) if !set || rest.ends_with('*') => (rest, WhenWritten::Given),
            _ => match rest.strip_suffix('^') {
                Some(rest) => (rest, WhenWritten::Nullable),
                None => (rest, WhenWritten::Always),
            },
        },
    };
    let ty = parse_type(rest);
    // A field that is always written counts as empty where it is absent.
    let default = default.or(match ty {
        Type::Text if written == WhenWritten::Always => Some(Value::from("")),
        Type::Number if written == WhenWritten::Always => Some(Value::from(0)),
        _ => None,
    });
    Some((name.to_owned(), StructField { ty, written, default }))
}

fn parse_type(text: &'static str) -> Type {
    if let Some((item, keys)) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
        let list_type = match keys {
            "" => ListType::Atomic,
            "*" => ListType::Set,
            keys => ListType::Keys(keys.split(',').map(str::to_owned).collect()),
        };
        return Type::List { item: Box::new(parse_type(item)), list_type };
    }
    if let Some((value, mark)) = text.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')) {
        return Type::Map { value: Box::new(parse_type(value)), atomic: mark == "!" };
    }
    match text {
        "s" => Type::Text,
        "n" => Type::Number,
        "b" => Type::Boolean,
        "q" => Type::Quantity,
        "p" => Type::IntOrString,
        "t" => Type::Time,
        "x" => Type::Any,
        "a" => Type::Atomic,
        name => Type::Named(name.trim_end_matches('!')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_table_is_defined() {
        let mut stack: Vec<&Type> = table_values();
        while let Some(ty) = stack.pop() {
            match ty {
                Type::Named(name) => assert!(find_builtin(name).is_some(), "{name} is not defined"),
                Type::Struct(s) => stack.extend(s.fields.values().map(|f| &f.ty)),
                Type::Map { value, .. } => stack.push(value),
                Type::List { item, .. } => stack.push(item),
                _ => {}
            }
        }
    }

    fn table_values() -> Vec<&'static Type> {
        ["Pod", "Deployment", "Service", "Job", "CronJob", "StatefulSet", "Ingress", "ObjectMeta"]
            .iter()
            .map(|name| find_builtin(name).unwrap())
            .collect()
    }

    #[test]
    fn ports_of_containers_are_told_apart_by_number_and_protocol() {
        let path = ["spec", "template", "spec", "containers", "ports"];
        let Some(Type::List { list_type, item }) = find_builtin("Deployment").unwrap().at_path(&path) else {
            panic!("a list")
        };
        assert_eq!(*list_type, ListType::Keys(vec!["containerPort".into(), "protocol".into()]));
        let protocol = item.parts().unwrap().find_field("protocol").unwrap();
        assert_eq!(protocol.default, Some(Value::from("TCP")));
        let finalizers =
            find_builtin("ObjectMeta").unwrap().parts().unwrap().find_field("finalizers").unwrap();
        assert!(matches!(&finalizers.ty, Type::List { list_type: ListType::Set, .. }));
        assert_eq!(finalizers.written, WhenWritten::Filled);
    }
}
