//! The functions that templates call, by family.

mod argocd;
mod builtin;
mod cases;
mod dates;
mod decimal;
mod encoding;
mod lists;
mod maps;
mod numbers;
mod paths;
mod reflection;
mod refused;
mod regexes;
mod strings;
mod urls;
mod versions;
mod wrapping;

use std::collections::BTreeMap;
use std::fmt;

use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::text::GoText;
use crate::time::{PointInTime, ZERO_TIME};
use crate::value::{GoMap, GoValue};

/// A function.
#[derive(Debug)]
pub(crate) struct GoFunction {
    pub(crate) name: &'static str,
    /// The types of the arguments that must be given.
    pub(crate) parameters: &'static [FunctionParameter],
    /// The type of any number of arguments after them.
    pub(crate) rest: Option<FunctionParameter>,
    pub(crate) body: FunctionBody,
}

/// The code of a function.
type FunctionCode = fn(&Arguments, &mut TemplateBudget) -> Result<GoValue, TemplateFailure>;

/// What a function does.
#[derive(Clone, Copy)]
pub(crate) enum FunctionBody {
    /// It computes a value.
    Call(FunctionCode),
    /// `and` and `or`: the first argument whose truth is `stops_at`.
    Select { stops_at: bool },
    /// It is not carried out, for a reason.
    Refused(&'static str),
}

impl fmt::Debug for FunctionBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call(_) => "Call",
            Self::Select { .. } => "Select",
            Self::Refused(_) => "Refused",
        })
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionParameter {
    Any,
    Bool,
    Int,
    Float,
    Text,
    Map,
    Time,
}

impl FunctionParameter {
    /// The name of the type, as values have it.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Text => "string",
            Self::Map => "map[string]interface {}",
            Self::Time => "time.Time",
        }
    }
}

impl GoFunction {
    /// A function with a fixed number of arguments.
    const fn new(name: &'static str, parameters: &'static [FunctionParameter], code: FunctionCode) -> Self {
        Self { name, parameters, rest: None, body: FunctionBody::Call(code) }
    }

    /// A function with more arguments of a type.
    const fn with_rest(
        name: &'static str,
        parameters: &'static [FunctionParameter],
        rest: FunctionParameter,
        code: FunctionCode,
    ) -> Self {
        Self { name, parameters, rest: Some(rest), body: FunctionBody::Call(code) }
    }

    /// A function that is not carried out, with any arguments.
    const fn unavailable(name: &'static str, reason: &'static str) -> Self {
        Self {
            name,
            parameters: &[],
            rest: Some(FunctionParameter::Any),
            body: FunctionBody::Refused(reason),
        }
    }

    /// The type of an argument.
    pub(crate) fn parameter(&self, at: usize) -> FunctionParameter {
        self.parameters.get(at).copied().or(self.rest).unwrap_or(FunctionParameter::Any)
    }
}

/// The arguments of a call, whose types and number are those of the parameters.
pub(crate) struct Arguments(pub(crate) Vec<GoValue>);

impl Arguments {
    fn any(&self, at: usize) -> &GoValue {
        self.0.get(at).unwrap_or(&GoValue::Nil)
    }

    /// The arguments from one on.
    fn rest(&self, from: usize) -> &[GoValue] {
        self.0.get(from..).unwrap_or_default()
    }

    fn text(&self, at: usize) -> &[u8] {
        match self.any(at) {
            GoValue::Text(text) => text.bytes(),
            _ => &[],
        }
    }

    fn int(&self, at: usize) -> i64 {
        match self.any(at) {
            GoValue::Int(_, number) => *number,
            _ => 0,
        }
    }

    fn float(&self, at: usize) -> Option<f64> {
        match self.any(at) {
            GoValue::Float(number) => Some(*number),
            _ => None,
        }
    }

    fn bool(&self, at: usize) -> bool {
        matches!(self.any(at), GoValue::Bool(true))
    }

    fn map(&self, at: usize) -> GoMap {
        match self.any(at) {
            GoValue::Map(map) => map.clone(),
            _ => GoMap::nil(),
        }
    }

    fn time(&self, at: usize) -> PointInTime {
        match self.any(at) {
            GoValue::Time(time) => *time,
            _ => ZERO_TIME,
        }
    }
}

/// A text that a function makes, paid for.
fn make_text(bytes: impl Into<GoText>, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let text = bytes.into();
    budget.spend_bytes(text.bytes().len())?;
    Ok(GoValue::Text(text))
}

/// The functions that a program gives its templates.
#[derive(Clone, Debug)]
pub struct TemplateFunctions(BTreeMap<&'static str, &'static GoFunction>);

impl Default for TemplateFunctions {
    fn default() -> Self {
        Self::argo_cd()
    }
}

impl TemplateFunctions {
    /// The functions of `text/template` alone.
    pub fn builtin() -> Self {
        Self(BTreeMap::new()).with(&[builtin::FUNCTIONS])
    }

    /// Those of sprig, less what reads the environment or the network.
    pub fn sprig() -> Self {
        Self::builtin().with(&[
            strings::FUNCTIONS,
            cases::FUNCTIONS,
            wrapping::FUNCTIONS,
            lists::FUNCTIONS,
            maps::FUNCTIONS,
            numbers::FUNCTIONS,
            encoding::FUNCTIONS,
            reflection::FUNCTIONS,
            regexes::FUNCTIONS,
            versions::FUNCTIONS,
            urls::FUNCTIONS,
            paths::FUNCTIONS,
            dates::FUNCTIONS,
            refused::FUNCTIONS,
        ])
    }

    /// Those of Argo CD's `ApplicationSet`s: sprig's, and `normalize`, `slugify`, `toYaml`, `fromYaml`, `fromYamlArray`.
    pub fn argo_cd() -> Self {
        Self::sprig().with(&[argocd::FUNCTIONS])
    }

    /// The functions without some of them.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|name, _| !names.contains(name));
        self
    }

    /// Families that replace what has their names.
    fn with(mut self, families: &[&'static [GoFunction]]) -> Self {
        for family in families {
            self.0.extend(family.iter().map(|function| (function.name, function)));
        }
        self
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'static GoFunction> {
        self.0.get(name).copied()
    }
}
