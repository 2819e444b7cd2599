//! Values of expressions.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use federate_kubernetes::quantity::Quantity;

use super::network::{Network, ParsedUrl};
use super::texts::Version;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum CelValue {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<[CelValue]>),
    /// Keys are unique.
    Map(Arc<[(CelValue, CelValue)]>),
    Time(Timestamp),
    Span(SignedDuration),
    Type(&'static str),
    Optional(Option<Box<CelValue>>),
    Quantity(Quantity, Option<u64>),
    Version(Version),
    Address(IpAddr),
    Network(Network),
    Url(Arc<ParsedUrl>),
}

/// Why an evaluation has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvaluationError {
    /// An error on the hub, too. What it is does not matter, because the cluster does not match.
    Failed,
    /// The hub has a value, which is not reproduced.
    Unsupported(&'static str),
}

impl EvaluationError {
    /// The error of an operation of which both sides failed: what is not reproduced might be a value.
    pub(super) fn join(self, other: Self) -> Self {
        if self == Self::Failed { other } else { self }
    }
}

/// A value or an error.
pub(crate) type Outcome = Result<CelValue, EvaluationError>;

impl CelValue {
    /// A text.
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// A list.
    pub(crate) fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self::List(items.into_iter().collect())
    }

    /// A JSON value.
    pub(crate) fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::Int(integer),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Self::text(text.as_str()),
            Value::Array(items) => Self::list(items.iter().map(Self::from_json)),
            Value::Object(map) => {
                let entries =
                    map.iter().map(|(key, value)| (Self::text(key.as_str()), Self::from_json(value)));
                Self::Map(entries.collect())
            }
        }
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Span(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(..) => "kubernetes.Quantity",
            Self::Version(_) => "kubernetes.Semver",
            Self::Address(_) => "net.IP",
            Self::Network(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
        }
    }

    /// The value of a key of a map.
    pub(super) fn entry(&self, key: &Self) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value)
    }

    /// Whether two values are equal. Values of different types are not, but numbers are compared as numbers.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Map(a), Self::Map(_)) => {
                let Self::Map(entries) = other else { return false };
                a.len() == entries.len()
                    && a.iter().all(|(key, value)| other.entry(key).is_some_and(|found| found.equals(value)))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b),
                _ => false,
            },
            (Self::Quantity(a, _), Self::Quantity(b, _)) => a == b,
            (Self::Version(a), Self::Version(b)) => a.compare(b) == Ordering::Equal,
            (Self::Address(a), Self::Address(b)) => a == b,
            (Self::Network(a), Self::Network(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a.text == b.text,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// The order of two values; `None` if they have none.
    #[expect(clippy::cast_precision_loss, reason = "numbers of different types are compared as the hub does")]
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Int(a), Self::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Double(a), Self::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Uint(a), Self::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Double(a), Self::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Time(a), Self::Time(b)) => Some(a.cmp(b)),
            (Self::Span(a), Self::Span(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}
