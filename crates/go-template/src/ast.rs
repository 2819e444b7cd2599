//! Parsed templates.

use crate::functions::GoFunction;
use crate::text::GoText;

/// A part of a template.
#[derive(Debug)]
pub(crate) enum TemplateNode {
    /// Text that is written as it is.
    Text(String),
    /// `{{pipeline}}`.
    Action(TemplatePipeline),
    If(Branches),
    With(Branches),
    Range(Branches),
    /// `{{template "name" pipeline}}`, and what a `block` leaves in its place.
    Call {
        offset: usize,
        name: GoText,
        pipeline: Option<TemplatePipeline>,
    },
    Break,
    Continue,
}

/// A pipeline and what follows from its value.
#[derive(Debug)]
pub(crate) struct Branches {
    pub(crate) pipeline: TemplatePipeline,
    pub(crate) then: Vec<TemplateNode>,
    pub(crate) otherwise: Vec<TemplateNode>,
}

/// `$variable := command | command`.
#[derive(Debug)]
pub(crate) struct TemplatePipeline {
    pub(crate) offset: usize,
    /// The variables that are declared or assigned, with `$`.
    pub(crate) variables: Vec<String>,
    /// Whether they are assigned with `=`.
    pub(crate) assigns: bool,
    pub(crate) commands: Vec<TemplateCommand>,
}

/// An operand and its arguments.
#[derive(Debug)]
pub(crate) struct TemplateCommand {
    pub(crate) first: TemplateOperand,
    pub(crate) arguments: Vec<TemplateOperand>,
}

/// An operand at its place.
#[derive(Debug)]
pub(crate) struct TemplateOperand {
    pub(crate) offset: usize,
    pub(crate) kind: OperandKind,
}

/// The kinds of operands.
#[derive(Debug)]
pub(crate) enum OperandKind {
    Dot,
    Nil,
    Bool(bool),
    Text(GoText),
    Number(NumberLiteral),
    /// `.a.b`.
    Field(Vec<String>),
    /// `$x.a.b`.
    Variable(String, Vec<String>),
    Function(&'static GoFunction),
    /// `(pipeline)`.
    Pipeline(Box<TemplatePipeline>),
    /// Fields of any other operand.
    Chain(Box<TemplateOperand>, Vec<String>),
}

/// A number that takes the type of the parameter that it is passed to.
#[derive(Clone, Debug)]
pub(crate) struct NumberLiteral {
    /// Its text, for messages.
    pub(crate) text: String,
    /// Its value, if it is whole and fits.
    pub(crate) int: Option<i64>,
    pub(crate) float: f64,
    /// Whether it is a `float64` where no type is asked for.
    pub(crate) is_float: bool,
}

impl OperandKind {
    /// How a message names the operand.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Dot => ".".to_owned(),
            Self::Nil => "nil".to_owned(),
            Self::Bool(bool) => bool.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::Number(number) => number.text.clone(),
            Self::Field(names) => format!(".{}", names.join(".")),
            Self::Variable(name, fields) if fields.is_empty() => name.clone(),
            Self::Variable(name, fields) => format!("{name}.{}", fields.join(".")),
            Self::Function(function) => function.name.to_owned(),
            Self::Pipeline(_) => "(…)".to_owned(),
            Self::Chain(operand, fields) => format!("{}.{}", operand.kind.describe(), fields.join(".")),
        }
    }
}
