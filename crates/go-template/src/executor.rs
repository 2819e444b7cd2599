//! Carries out a template: the rules of `text/template` for pipelines, fields, variables and calls.
//!
//! Facts: a value of a pipeline is `None` where Go has no value at all: the field of a missing key, or `nil` in an
//! interface once a command has returned it. It prints as `<no value>`, and its fields are no values again. `nil` in
//! an interface that a field was read from (`GoValue::Nil`) is different: its fields are errors.

use crate::ast::{
    Branches, NumberLiteral, OperandKind, TemplateCommand, TemplateNode, TemplateOperand, TemplatePipeline,
};
use crate::budget::{TemplateBudget, limit_failure};
use crate::error::{TemplateErrorKind, TemplateFailure};
use crate::format::display_value;
use crate::functions::{Arguments, FunctionBody, FunctionParameter, GoFunction};
use crate::parser::ParsedTemplate;
use crate::text::GoText;
use crate::value::{GoMap, GoValue};
use crate::{MissingKey, methods};

/// How deeply calls, actions and operands may be nested while a template runs.
const MAX_DEPTH: usize = 300;

/// A value, or none.
type Slot = Option<GoValue>;

/// Appends what a template writes for `data`.
pub(crate) fn execute_template(
    template: &ParsedTemplate,
    missing_key: MissingKey,
    data: GoValue,
    budget: &mut TemplateBudget,
    out: &mut Vec<u8>,
) -> Result<(), TemplateFailure> {
    let data = Some(data);
    let variables = vec![("$".to_owned(), data.clone())];
    let mut executor = Executor { template, missing_key, budget, out, variables, depth: 0 };
    executor.run_nodes(&data, &template.root).map(|_| ())
}

struct Executor<'t, 'e> {
    template: &'t ParsedTemplate,
    missing_key: MissingKey,
    budget: &'e mut TemplateBudget,
    out: &'e mut Vec<u8>,
    /// The variables that are in scope, the latest last.
    variables: Vec<(String, Slot)>,
    depth: usize,
}

/// How a list of nodes ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Done,
    Break,
    Continue,
}

impl Executor<'_, '_> {
    /// Counts a step, one level deeper. The caller leaves the level again unless it fails.
    fn enter(&mut self, offset: usize) -> Result<(), TemplateFailure> {
        self.budget.spend_steps(1).map_err(|failure| failure.at(offset))?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(limit_failure("is nested or calls templates too deeply").at(offset));
        }
        Ok(())
    }

    fn run_nodes(&mut self, dot: &Slot, nodes: &[TemplateNode]) -> Result<Flow, TemplateFailure> {
        for node in nodes {
            let flow = self.run_node(dot, node)?;
            if flow != Flow::Done {
                return Ok(flow);
            }
        }
        Ok(Flow::Done)
    }

    fn run_node(&mut self, dot: &Slot, node: &TemplateNode) -> Result<Flow, TemplateFailure> {
        match node {
            TemplateNode::Text(text) => {
                self.budget.spend_bytes(text.len())?;
                self.out.extend_from_slice(text.as_bytes());
            }
            TemplateNode::Action(pipeline) => {
                let value = self.evaluate_pipeline(dot, pipeline)?;
                if pipeline.variables.is_empty() {
                    self.write_value(value.as_ref()).map_err(|failure| failure.at(pipeline.offset))?;
                }
            }
            TemplateNode::If(branches) => return self.run_branches(dot, branches, false),
            TemplateNode::With(branches) => return self.run_branches(dot, branches, true),
            TemplateNode::Range(branches) => return self.run_range(dot, branches),
            TemplateNode::Call { offset, name, pipeline } => {
                self.call_template(dot, *offset, name, pipeline.as_ref())?;
            }
            TemplateNode::Break => return Ok(Flow::Break),
            TemplateNode::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Done)
    }

    fn write_value(&mut self, value: Option<&GoValue>) -> Result<(), TemplateFailure> {
        let text = match value {
            None => b"<no value>".to_vec(),
            Some(value) => display_value(value, self.budget)?,
        };
        self.budget.spend_bytes(text.len())?;
        self.out.extend_from_slice(&text);
        Ok(())
    }

    fn run_branches(
        &mut self,
        dot: &Slot,
        branches: &Branches,
        sets_dot: bool,
    ) -> Result<Flow, TemplateFailure> {
        self.enter(branches.pipeline.offset)?;
        let scope = self.variables.len();
        let value = self.evaluate_pipeline(dot, &branches.pipeline)?;
        let flow = if value.as_ref().is_some_and(GoValue::is_true) {
            self.run_nodes(if sets_dot { &value } else { dot }, &branches.then)?
        } else {
            self.run_nodes(dot, &branches.otherwise)?
        };
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok(flow)
    }

    fn run_range(&mut self, dot: &Slot, range: &Branches) -> Result<Flow, TemplateFailure> {
        let pipeline = &range.pipeline;
        self.enter(pipeline.offset)?;
        let scope = self.variables.len();
        let flow = match self.evaluate_pipeline(dot, pipeline)? {
            None | Some(GoValue::Nil) => None,
            Some(GoValue::List(list)) => {
                let items = list.items().iter().cloned().enumerate();
                self.run_items(range, items.map(|(at, item)| (Some(GoValue::length(at)), item)))?
            }
            Some(GoValue::Map(map)) => {
                self.budget.spend_steps(map.len())?;
                let entries = map.entries().into_iter();
                self.run_items(range, entries.map(|(key, value)| (Some(GoValue::Text(key)), value)))?
            }
            Some(value @ (GoValue::Int(..) | GoValue::Uint(..))) => {
                if pipeline.variables.len() > 1 {
                    let message = "can't use a number to iterate over more than one variable";
                    return Err(TemplateFailure::wrong_type(message).at(pipeline.offset));
                }
                match value {
                    GoValue::Int(int_type, end) => {
                        self.run_items(range, (0..end).map(|at| (None, GoValue::Int(int_type, at))))?
                    }
                    GoValue::Uint(uint_type, end) => {
                        self.run_items(range, (0..end).map(|at| (None, GoValue::Uint(uint_type, at))))?
                    }
                    _ => None,
                }
            }
            Some(other) => {
                let message = format!("range can't iterate over a value of type {}", other.type_name());
                return Err(TemplateFailure::wrong_type(message).at(pipeline.offset));
            }
        };
        let flow = match flow {
            Some(flow) => flow,
            None => self.run_nodes(dot, &range.otherwise)?,
        };
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok(flow)
    }

    /// Runs the body for each item; `None` if there is none. `break` and `continue` end here.
    fn run_items(
        &mut self,
        range: &Branches,
        items: impl Iterator<Item = (Slot, GoValue)>,
    ) -> Result<Option<Flow>, TemplateFailure> {
        let names = &range.pipeline.variables;
        let scope = self.variables.len();
        let mut ran = None;
        for (index, item) in items {
            ran = Some(Flow::Done);
            self.budget.spend_steps(1).map_err(|failure| failure.at(range.pipeline.offset))?;
            // With one variable it is the item, with two the first is the index.
            let item = Some(item);
            match names.as_slice() {
                [name] => self.set_range_variable(range, scope, 1, name, &item),
                [key, name] => {
                    self.set_range_variable(range, scope, 2, key, &index);
                    self.set_range_variable(range, scope, 1, name, &item);
                }
                _ => {}
            }
            let flow = self.run_nodes(&item, &range.then)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(ran)
    }

    /// Sets a variable of a range: the one that its pipeline has declared, or an earlier one of that name.
    fn set_range_variable(
        &mut self,
        range: &Branches,
        scope: usize,
        from_end: usize,
        name: &str,
        value: &Slot,
    ) {
        let declared = scope.checked_sub(from_end).filter(|_| !range.pipeline.assigns);
        let at = declared.or_else(|| self.variables.iter().rposition(|(known, _)| known == name));
        if let Some((_, slot)) = at.and_then(|at| self.variables.get_mut(at)) {
            slot.clone_from(value);
        }
    }

    fn call_template(
        &mut self,
        dot: &Slot,
        offset: usize,
        name: &GoText,
        pipeline: Option<&TemplatePipeline>,
    ) -> Result<(), TemplateFailure> {
        self.enter(offset)?;
        let template = self.template;
        let Some(nodes) = template.definitions.get(name) else {
            let message = format!("template {name:?} not defined");
            return Err(TemplateFailure::new(TemplateErrorKind::FunctionFailed, message).at(offset));
        };
        let dot = match pipeline {
            Some(pipeline) => self.evaluate_pipeline(dot, pipeline)?,
            None => None,
        };
        let outside = std::mem::replace(&mut self.variables, vec![("$".to_owned(), dot.clone())]);
        self.run_nodes(&dot, nodes)?;
        self.variables = outside;
        self.depth -= 1;
        Ok(())
    }

    fn evaluate_pipeline(
        &mut self,
        dot: &Slot,
        pipeline: &TemplatePipeline,
    ) -> Result<Slot, TemplateFailure> {
        self.enter(pipeline.offset)?;
        let mut last: Option<Slot> = None;
        for command in &pipeline.commands {
            let value = self.evaluate_command(dot, command, last)?;
            last = Some(value.filter(|value| !matches!(value, GoValue::Nil)));
        }
        let value = last.flatten();
        for name in &pipeline.variables {
            if !pipeline.assigns {
                self.variables.push((name.clone(), value.clone()));
            } else if let Some((_, slot)) = self.variables.iter_mut().rev().find(|(known, _)| known == name) {
                slot.clone_from(&value);
            } else {
                let message = format!("undefined variable: {name}");
                return Err(TemplateFailure::new(TemplateErrorKind::Syntax, message).at(pipeline.offset));
            }
        }
        self.depth -= 1;
        Ok(value)
    }

    /// A command with the value of the one before, which is its last argument.
    fn evaluate_command(
        &mut self,
        dot: &Slot,
        command: &TemplateCommand,
        last: Option<Slot>,
    ) -> Result<Slot, TemplateFailure> {
        let first = &command.first;
        let has_arguments = !command.arguments.is_empty() || last.is_some();
        match &first.kind {
            OperandKind::Function(function) => {
                self.call_function(dot, first.offset, function, &command.arguments, last)
            }
            OperandKind::Field(names) => self.read_fields(first, dot.clone(), names, has_arguments),
            OperandKind::Variable(name, fields) if !fields.is_empty() => {
                let value = self.variable(name);
                self.read_fields(first, value, fields, has_arguments)
            }
            OperandKind::Chain(operand, names) => {
                let value = self.evaluate_chained(dot, operand)?;
                self.read_fields(first, value, names, has_arguments)
            }
            _ if has_arguments => {
                let message = format!("can't give argument to non-function {}", first.kind.describe());
                Err(TemplateFailure::wrong_type(message).at(first.offset))
            }
            OperandKind::Nil => Err(TemplateFailure::wrong_type("nil is not a command").at(first.offset)),
            OperandKind::Pipeline(pipeline) => self.evaluate_pipeline(dot, pipeline),
            OperandKind::Variable(name, _) => Ok(self.variable(name)),
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Bool(bool) => Ok(Some(GoValue::Bool(*bool))),
            OperandKind::Text(text) => Ok(Some(GoValue::Text(text.clone()))),
            OperandKind::Number(number) => number_value(number, first.offset).map(Some),
        }
    }

    fn variable(&self, name: &str) -> Slot {
        self.variables.iter().rev().find(|(known, _)| known == name).and_then(|(_, slot)| slot.clone())
    }

    /// The operand whose fields are read.
    fn evaluate_chained(&mut self, dot: &Slot, operand: &TemplateOperand) -> Result<Slot, TemplateFailure> {
        match &operand.kind {
            OperandKind::Pipeline(pipeline) => self.evaluate_pipeline(dot, pipeline),
            OperandKind::Function(function) => self.call_function(dot, operand.offset, function, &[], None),
            other => {
                let message = format!("can't read fields of {}", other.describe());
                Err(TemplateFailure::wrong_type(message).at(operand.offset))
            }
        }
    }

    /// The field of a field, and so on.
    fn read_fields(
        &mut self,
        operand: &TemplateOperand,
        value: Slot,
        names: &[String],
        has_arguments: bool,
    ) -> Result<Slot, TemplateFailure> {
        let mut value = value;
        for (at, name) in names.iter().enumerate() {
            let has_arguments = has_arguments && at + 1 == names.len();
            value = self.read_field(value, name, has_arguments).map_err(|f| f.at(operand.offset))?;
        }
        Ok(value)
    }

    fn read_field(&mut self, value: Slot, name: &str, has_arguments: bool) -> Result<Slot, TemplateFailure> {
        self.budget.spend_steps(1)?;
        let Some(value) = value else {
            return match self.missing_key {
                MissingKey::Error => Err(TemplateFailure::new(
                    TemplateErrorKind::MissingKey,
                    format!("nil data; no entry for key {name:?}"),
                )),
                _ => Ok(None),
            };
        };
        let map = match &value {
            GoValue::Map(map) => map,
            GoValue::Nil => {
                return Err(TemplateFailure::new(
                    TemplateErrorKind::FieldOfNull,
                    format!("nil pointer evaluating interface {{}}.{name}"),
                ));
            }
            other => {
                return match methods::call_method(other, name) {
                    Some(_) if has_arguments => Err(TemplateFailure::wrong_type(format!(
                        "{name} has arguments, which federate does not carry out"
                    ))),
                    Some(result) => result.map(Some),
                    None => Err(TemplateFailure::wrong_type(format!(
                        "can't evaluate field {name} in type {}",
                        other.type_name()
                    ))),
                };
            }
        };
        if has_arguments {
            return Err(TemplateFailure::wrong_type(format!("{name} is not a method but has arguments")));
        }
        match (map.get(name.as_bytes()), self.missing_key) {
            (Some(value), _) => Ok(Some(value)),
            (None, MissingKey::Invalid) => Ok(None),
            (None, MissingKey::Zero) => Ok(Some(map.zero())),
            (None, MissingKey::Error) => Err(TemplateFailure::new(
                TemplateErrorKind::MissingKey,
                format!("map has no entry for key {name:?}"),
            )),
        }
    }

    fn call_function(
        &mut self,
        dot: &Slot,
        offset: usize,
        function: &GoFunction,
        arguments: &[TemplateOperand],
        last: Option<Slot>,
    ) -> Result<Slot, TemplateFailure> {
        self.enter(offset)?;
        check_count(function, arguments.len() + usize::from(last.is_some())).map_err(|f| f.at(offset))?;
        let value = match function.body {
            FunctionBody::Select { stops_at } => self.select_argument(dot, arguments, last, stops_at)?,
            FunctionBody::Call(body) => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for (at, argument) in arguments.iter().enumerate() {
                    values.push(self.evaluate_argument(dot, function.parameter(at), argument)?);
                }
                if let Some(last) = last {
                    let value = convert(last, function.parameter(values.len()));
                    values.push(value.map_err(|failure| failure.at(offset))?);
                }
                let result = body(&Arguments(values), self.budget);
                Some(result.map_err(|failure| name_function(failure, function).at(offset))?)
            }
            FunctionBody::Refused(reason) => {
                let message = format!("{}: {reason}", function.name);
                return Err(TemplateFailure::new(TemplateErrorKind::RefusedFunction, message).at(offset));
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// `and` and `or`: the first argument whose truth is `stops_at`, else the last one.
    fn select_argument(
        &mut self,
        dot: &Slot,
        arguments: &[TemplateOperand],
        last: Option<Slot>,
        stops_at: bool,
    ) -> Result<Slot, TemplateFailure> {
        let mut value = None;
        for argument in arguments {
            value = Some(self.evaluate_argument(dot, FunctionParameter::Any, argument)?);
            if value.as_ref().is_some_and(GoValue::is_true) == stops_at {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// An argument in the type of its parameter. Literals take it, values must have it.
    fn evaluate_argument(
        &mut self,
        dot: &Slot,
        parameter: FunctionParameter,
        argument: &TemplateOperand,
    ) -> Result<GoValue, TemplateFailure> {
        let offset = argument.offset;
        let value = match &argument.kind {
            OperandKind::Bool(_) | OperandKind::Text(_) | OperandKind::Number(_) | OperandKind::Nil => {
                return convert_literal(&argument.kind, parameter, offset);
            }
            OperandKind::Dot => dot.clone(),
            OperandKind::Field(names) => self.read_fields(argument, dot.clone(), names, false)?,
            OperandKind::Variable(name, fields) => {
                let value = self.variable(name);
                self.read_fields(argument, value, fields, false)?
            }
            OperandKind::Pipeline(pipeline) => self.evaluate_pipeline(dot, pipeline)?,
            OperandKind::Function(function) => self.call_function(dot, offset, function, &[], None)?,
            OperandKind::Chain(operand, names) => {
                let value = self.evaluate_chained(dot, operand)?;
                self.read_fields(argument, value, names, false)?
            }
        };
        convert(value, parameter).map_err(|failure| failure.at(offset))
    }
}

/// The failure of a function, with its name.
fn name_function(failure: TemplateFailure, function: &GoFunction) -> TemplateFailure {
    match failure.kind {
        TemplateErrorKind::FunctionFailed => {
            let message = format!("error calling {}: {}", function.name, failure.message);
            TemplateFailure { message, ..failure }
        }
        _ => failure,
    }
}

fn check_count(function: &GoFunction, given: usize) -> Result<(), TemplateFailure> {
    let wanted = function.parameters.len();
    let name = function.name;
    let message = match function.rest {
        Some(_) if given < wanted => {
            format!("wrong number of args for {name}: want at least {wanted} got {given}")
        }
        None if given != wanted => format!("wrong number of args for {name}: want {wanted} got {given}"),
        _ => return Ok(()),
    };
    Err(TemplateFailure::wrong_type(message))
}

/// A number where no type is asked for.
fn number_value(number: &NumberLiteral, offset: usize) -> Result<GoValue, TemplateFailure> {
    match number.int {
        _ if number.is_float => Ok(GoValue::Float(number.float)),
        Some(int) => Ok(GoValue::int(int)),
        None => Err(TemplateFailure::wrong_type(format!("{} overflows int", number.text)).at(offset)),
    }
}

/// A literal in the type of a parameter.
fn convert_literal(
    literal: &OperandKind,
    parameter: FunctionParameter,
    offset: usize,
) -> Result<GoValue, TemplateFailure> {
    Ok(match (parameter, literal) {
        (FunctionParameter::Any, OperandKind::Nil) => GoValue::Nil,
        (FunctionParameter::Map, OperandKind::Nil) => GoValue::Map(GoMap::nil()),
        (FunctionParameter::Any | FunctionParameter::Bool, OperandKind::Bool(bool)) => GoValue::Bool(*bool),
        (FunctionParameter::Any | FunctionParameter::Text, OperandKind::Text(text)) => {
            GoValue::Text(text.clone())
        }
        (FunctionParameter::Any, OperandKind::Number(number)) => number_value(number, offset)?,
        (FunctionParameter::Int, OperandKind::Number(NumberLiteral { int: Some(int), .. })) => {
            GoValue::int(*int)
        }
        (FunctionParameter::Float, OperandKind::Number(number)) => GoValue::Float(number.float),
        (parameter, literal) => {
            let message = format!("expected {}; found {}", parameter.type_name(), literal.describe());
            return Err(TemplateFailure::wrong_type(message).at(offset));
        }
    })
}

/// A value that must have the type of a parameter.
fn convert(value: Slot, parameter: FunctionParameter) -> Result<GoValue, TemplateFailure> {
    let Some(value) = value else {
        return match parameter {
            FunctionParameter::Any => Ok(GoValue::Nil),
            FunctionParameter::Map => Ok(GoValue::Map(GoMap::nil())),
            other => {
                let message = format!("invalid value; expected {}", other.type_name());
                Err(TemplateFailure::wrong_type(message))
            }
        };
    };
    let fits = match (parameter, &value) {
        (FunctionParameter::Any, _) => true,
        (_, GoValue::Nil) => false,
        (parameter, value) => value.type_name() == parameter.type_name(),
    };
    if fits {
        return Ok(value);
    }
    let given = if matches!(value, GoValue::Nil) { "interface {}" } else { value.type_name() };
    let message = format!("wrong type for value; expected {}; got {given}", parameter.type_name());
    Err(TemplateFailure::wrong_type(message))
}
