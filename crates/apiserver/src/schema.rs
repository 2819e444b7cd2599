//! What the types of objects look like: which fields there are, which lists are merged item by item
//! and by what, what is replaced as a whole.
//!
//! Facts: the `OpenAPI` document of Kubernetes (`x-kubernetes-list-type`, `-list-map-keys`, `-map-type`)
//! and which fields its Go types write when they are empty; `types.txt` has them for the built-in
//! kinds. Custom kinds say them in their definition (`server::custom`).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

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
    /// Anything; mappings in it are merged key by key.
    Any,
    /// Anything, replaced as a whole.
    Atomic,
    /// A built-in type, by its name.
    Named(&'static str),
    /// A mapping with fields.
    Struct(Struct),
    /// A mapping with keys of one's own choice.
    Map {
        /// What each key holds.
        value: Box<Type>,
        /// Whether it is replaced as a whole.
        whole: bool,
    },
    /// A list.
    List {
        /// What each item is.
        item: Box<Type>,
        /// How two lists become one.
        relation: ListType,
    },
}

/// A mapping with fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct {
    /// The fields that are declared.
    pub fields: BTreeMap<String, Field>,
    /// What undeclared fields hold; `None` where there are none.
    pub rest: Option<Box<Type>>,
    /// Whether it is replaced as a whole.
    pub whole: bool,
}

/// A field of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its type.
    pub ty: Type,
    /// When it is written.
    pub written: Written,
    /// The value that tells items apart where none is given.
    pub default: Option<Value>,
}

/// When the server writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Always; what was not given is written empty.
    Always,
    /// Always; what was not given is written as null.
    Nullable,
    /// When it was given, even when it is empty.
    Given,
    /// When it is not empty.
    Filled,
}

/// How two lists become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// One replaces the other.
    Atomic,
    /// Items are united by their value.
    Set,
    /// Items are united by the values of these fields.
    Keys(Vec<String>),
}

/// A type as the merge sees it together with a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'t> {
    /// Has no parts that anybody could own.
    Leaf,
    /// Has fields or keys.
    Map(Parts<'t>),
    /// Has items.
    List(&'t Type, &'t ListType),
}

/// The types of a mapping's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'t> {
    pub(super) fields: Option<&'t BTreeMap<String, Field>>,
    pub(super) rest: Option<&'t Type>,
}

impl<'t> Parts<'t> {
    /// The type below a key, if there may be one.
    pub(super) fn get(self, key: &str) -> Option<&'t Type> {
        self.field(key).map(|f| &f.ty).or(self.rest)
    }

    /// The field that is declared.
    pub(super) fn field(self, key: &str) -> Option<&'t Field> {
        self.fields.and_then(|fields| fields.get(key))
    }
}

impl Type {
    /// The type itself, where this is only its name.
    pub fn resolve(&self) -> &Type {
        match self {
            Type::Named(name) => builtin(name).unwrap_or(&Type::Atomic),
            other => other,
        }
    }

    /// How it is merged, given one of the values. What is of another kind than it should be is a leaf.
    pub(super) fn shape(&self, value: &Value) -> Shape<'_> {
        match (self.resolve(), value) {
            (Type::Struct(s), Value::Object(_) | Value::Null) if !s.whole => {
                Shape::Map(Parts { fields: Some(&s.fields), rest: s.rest.as_deref() })
            }
            (Type::Map { value, whole: false }, Value::Object(_) | Value::Null) => {
                Shape::Map(Parts { fields: None, rest: Some(value) })
            }
            (Type::Any, Value::Object(_)) => Shape::Map(Parts { fields: None, rest: Some(&Type::Any) }),
            (Type::List { item, relation }, Value::Array(_) | Value::Null)
                if *relation != ListType::Atomic =>
            {
                Shape::List(item, relation)
            }
            _ => Shape::Leaf,
        }
    }

    /// The types of its parts, whether or not they are merged one by one.
    pub(super) fn parts(&self) -> Option<Parts<'_>> {
        match self.resolve() {
            Type::Struct(s) => Some(Parts { fields: Some(&s.fields), rest: s.rest.as_deref() }),
            Type::Map { value, .. } => Some(Parts { fields: None, rest: Some(value) }),
            _ => None,
        }
    }

    /// The type at a path of fields.
    pub fn at(&self, path: &[&str]) -> Option<&Type> {
        path.iter().try_fold(self, |ty, key| match ty.resolve() {
            Type::List { item, .. } => item.parts()?.get(key),
            other => other.parts()?.get(key),
        })
    }
}

/// A built-in type.
pub fn builtin(name: &str) -> Option<&'static Type> {
    static TYPES: OnceLock<BTreeMap<&'static str, Type>> = OnceLock::new();
    TYPES.get_or_init(table).get(name)
}

fn table() -> BTreeMap<&'static str, Type> {
    let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, fields) = line.split_once(' ')?;
            let bare = name.trim_end_matches('!');
            let fields = fields.split(' ').filter_map(field).collect();
            Some((bare, Type::Struct(Struct { fields, rest: None, whole: bare != name })))
        })
        .collect()
}

fn field(text: &'static str) -> Option<(String, Field)> {
    let (name, rest) = text.split_once(':')?;
    let (rest, default) = match rest.split_once('=') {
        Some((rest, default)) => (rest, Some(Value::from(default))),
        None => (rest, None),
    };
    // A set ends with the mark of what is given; only a second one, or another, is the field's.
    let set = rest.starts_with('[');
    let (rest, written) = match rest.strip_suffix('?') {
        Some(rest) => (rest, Written::Filled),
        None => match rest.strip_suffix('*') {
            Some(rest) if !set || rest.ends_with('*') => (rest, Written::Given),
            _ => match rest.strip_suffix('^') {
                Some(rest) => (rest, Written::Nullable),
                None => (rest, Written::Always),
            },
        },
    };
    let ty = parse(rest);
    // What is always there counts as empty where it is not given.
    let default = default.or(match ty {
        Type::Text if written == Written::Always => Some(Value::from("")),
        Type::Number if written == Written::Always => Some(Value::from(0)),
        _ => None,
    });
    Some((name.to_owned(), Field { ty, written, default }))
}

fn parse(text: &'static str) -> Type {
    if let Some((item, keys)) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
        let relation = match keys {
            "" => ListType::Atomic,
            "*" => ListType::Set,
            keys => ListType::Keys(keys.split(',').map(str::to_owned).collect()),
        };
        return Type::List { item: Box::new(parse(item)), relation };
    }
    if let Some((value, mark)) = text.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')) {
        return Type::Map { value: Box::new(parse(value)), whole: mark == "!" };
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
                Type::Named(name) => assert!(builtin(name).is_some(), "{name} is not defined"),
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
            .map(|name| builtin(name).unwrap())
            .collect()
    }

    #[test]
    fn ports_of_containers_are_told_apart_by_number_and_protocol() {
        let path = ["spec", "template", "spec", "containers", "ports"];
        let Some(Type::List { relation, item }) = builtin("Deployment").unwrap().at(&path) else {
            panic!("a list")
        };
        assert_eq!(*relation, ListType::Keys(vec!["containerPort".into(), "protocol".into()]));
        let protocol = item.parts().unwrap().field("protocol").unwrap();
        assert_eq!(protocol.default, Some(Value::from("TCP")));
        let finalizers = builtin("ObjectMeta").unwrap().parts().unwrap().field("finalizers").unwrap();
        assert!(matches!(&finalizers.ty, Type::List { relation: ListType::Set, .. }));
        assert_eq!(finalizers.written, Written::Filled);
    }
}
