//! The types of expressions.

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CelType {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    Type,
    List(Box<CelType>),
    Map(Box<CelType>, Box<CelType>),
    Optional(Box<CelType>),
    /// A type of a library.
    Library(&'static str),
}
