//! Evaluates expressions.
//!
//! Facts: `&&` and `||` absorb the error of one side if the other decides. An error in a step of a macro is a value of its
//! accumulator, so that `exists` and `all` absorb errors, too.

use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use federate_kubernetes::work;

use super::CelVariable;
use super::check::FunctionCall;
use super::functions::call_function;
use super::value::{CelValue, EvaluationError, Outcome};

/// The most steps of an evaluation. The hub's own limit is a cost that is not the number of steps.
const MAX_STEPS: u64 = 100_000;

/// The steps of an evaluation, besides its own.
const STEPS_OF_EVALUATION: u64 = 30;

/// Where the scores of a cluster come from.
pub(crate) trait ScoreSource {
    /// The scores of an object of that name, as a list; `None` if there is no such object.
    fn scores(&self, name: &str) -> Option<CelValue>;
}

/// Whether an expression gives true for an object. `Err` says what is not reproduced.
pub(super) fn evaluate(
    root: &IdedExpr,
    variable: CelVariable,
    object: &CelValue,
    scores: &dyn ScoreSource,
) -> Result<bool, &'static str> {
    let mut evaluator = Evaluator { variable, object, scores, variables: Vec::new(), steps: 0 };
    let outcome = evaluator.evaluate(root);
    work::charge_steps(STEPS_OF_EVALUATION + 6 * evaluator.steps);
    match outcome {
        _ if evaluator.steps > MAX_STEPS => Err("it takes too many steps"),
        Err(EvaluationError::Unsupported(what)) => Err(what),
        outcome => Ok(matches!(outcome, Ok(CelValue::Bool(true)))),
    }
}

struct Evaluator<'e> {
    variable: CelVariable,
    object: &'e CelValue,
    scores: &'e dyn ScoreSource,
    /// The variables of macros, the innermost last.
    variables: Vec<(&'e str, Outcome)>,
    steps: u64,
}

impl<'e> Evaluator<'e> {
    fn evaluate(&mut self, expression: &'e IdedExpr) -> Outcome {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(EvaluationError::Failed);
        }
        match &expression.expr {
            Expr::Literal(literal) => Ok(read_literal(literal)),
            Expr::Ident(name) => self.read_variable(name),
            Expr::Select(select) => self.select(select),
            Expr::List(list) => {
                let items = list.elements.iter().map(|element| self.evaluate(element));
                Ok(CelValue::List(items.collect::<Result<Vec<_>, _>>()?.into()))
            }
            Expr::Map(map) => {
                let mut entries: Vec<(CelValue, CelValue)> = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(EvaluationError::Failed) };
                    let key = self.evaluate(&entry.key)?;
                    if entries.iter().any(|(known, _)| known.equals(&key)) {
                        return Err(EvaluationError::Failed);
                    }
                    let value = self.evaluate(&entry.value)?;
                    entries.push((key, value));
                }
                Ok(CelValue::Map(entries.into()))
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehend(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Err(EvaluationError::Failed),
        }
    }

    fn read_variable(&self, name: &str) -> Outcome {
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return value.clone();
        }
        if name == self.variable.name() {
            return Ok(self.object.clone());
        }
        super::check::type_of_name(name).map(CelValue::Type).ok_or(EvaluationError::Failed)
    }

    fn select(&mut self, select: &'e SelectExpr) -> Outcome {
        let operand = self.evaluate(&select.operand)?;
        let key = CelValue::text(select.field.as_str());
        if let CelValue::Optional(inner) = operand {
            let found = inner.and_then(|inner| inner.entry(&key).cloned());
            return Ok(if select.test {
                CelValue::Bool(found.is_some())
            } else {
                CelValue::Optional(found.map(Box::new))
            });
        }
        if !matches!(operand, CelValue::Map(_)) {
            return Err(EvaluationError::Failed);
        }
        match (operand.entry(&key), select.test) {
            (found, true) => Ok(CelValue::Bool(found.is_some())),
            (found, false) => found.cloned().ok_or(EvaluationError::Failed),
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> Outcome {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::LOGICAL_AND, [a, b]) => return self.decide(a, b, false),
            (op::LOGICAL_OR, [a, b]) => return self.decide(a, b, true),
            (op::NOT_STRICTLY_FALSE, [value]) => {
                let is_false = matches!(self.evaluate(value), Ok(CelValue::Bool(false)));
                return Ok(CelValue::Bool(!is_false));
            }
            (op::CONDITIONAL, [condition, a, b]) => {
                return match self.evaluate(condition)? {
                    CelValue::Bool(true) => self.evaluate(a),
                    CelValue::Bool(false) => self.evaluate(b),
                    _ => Err(EvaluationError::Failed),
                };
            }
            (name @ ("optMap" | "optFlatMap"), [variable, mapped]) => {
                return self.map_optional(call, name == "optMap", variable, mapped);
            }
            // The other value is only looked at if it is needed.
            (name @ ("or" | "orValue"), [other]) if call.target.is_some() => {
                return self.choose_optional(call, name == "or", other);
            }
            _ => {}
        }
        let FunctionCall { name, target } = FunctionCall::from_call(call);
        let mut values = Vec::with_capacity(call.args.len() + 1);
        for value in target.into_iter().chain(&call.args) {
            values.push(self.evaluate(value)?);
        }
        if let ("scores", true, [_, CelValue::Text(name)]) = (name, target.is_some(), values.as_slice()) {
            return self.scores.scores(name).ok_or(EvaluationError::Failed);
        }
        let is_size_counted = |value: &CelValue| match value {
            CelValue::List(items) => items.len(),
            CelValue::Text(text) => text.len() / 10,
            _ => 0,
        };
        self.steps += values.iter().map(is_size_counted).sum::<usize>() as u64;
        call_function(name, target.is_some(), &values)
    }

    /// `&&` or `||`, which `decisive` decides whatever the other side is.
    fn decide(&mut self, a: &'e IdedExpr, b: &'e IdedExpr, decisive: bool) -> Outcome {
        let first = self.evaluate(a);
        if matches!(first, Ok(CelValue::Bool(value)) if value == decisive) {
            return Ok(CelValue::Bool(decisive));
        }
        let second = self.evaluate(b);
        if matches!(second, Ok(CelValue::Bool(value)) if value == decisive) {
            return Ok(CelValue::Bool(decisive));
        }
        match (first, second) {
            (Ok(CelValue::Bool(_)), Ok(CelValue::Bool(_))) => Ok(CelValue::Bool(!decisive)),
            (Err(first), Err(second)) => Err(first.join(second)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Err(EvaluationError::Failed),
        }
    }

    /// The value of an optional, or another one. `wraps` says whether the result is an optional.
    fn choose_optional(&mut self, call: &'e CallExpr, wraps: bool, other: &'e IdedExpr) -> Outcome {
        let target = call.target.as_deref().ok_or(EvaluationError::Failed)?;
        match self.evaluate(target)? {
            CelValue::Optional(Some(inner)) if wraps => Ok(CelValue::Optional(Some(inner))),
            CelValue::Optional(Some(inner)) => Ok(*inner),
            CelValue::Optional(None) => match self.evaluate(other)? {
                other @ CelValue::Optional(_) => Ok(other),
                _ if wraps => Err(EvaluationError::Failed),
                other => Ok(other),
            },
            _ => Err(EvaluationError::Failed),
        }
    }

    /// Maps the value of an optional, if it has one. `wraps` says whether the result is made an optional.
    fn map_optional(
        &mut self,
        call: &'e CallExpr,
        wraps: bool,
        variable: &'e IdedExpr,
        mapped: &'e IdedExpr,
    ) -> Outcome {
        let (Some(target), Expr::Ident(name)) = (&call.target, &variable.expr) else {
            return Err(EvaluationError::Failed);
        };
        let CelValue::Optional(inner) = self.evaluate(target)? else { return Err(EvaluationError::Failed) };
        let Some(inner) = inner else { return Ok(CelValue::Optional(None)) };
        self.variables.push((name, Ok(*inner)));
        let result = self.evaluate(mapped);
        self.variables.pop();
        let result = result?;
        Ok(if wraps { CelValue::Optional(Some(Box::new(result))) } else { result })
    }

    fn comprehend(&mut self, comprehension: &'e ComprehensionExpr) -> Outcome {
        let items: Vec<CelValue> = match self.evaluate(&comprehension.iter_range)? {
            CelValue::List(items) => items.to_vec(),
            CelValue::Map(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
            _ => return Err(EvaluationError::Failed),
        };
        let mut accumulated = self.evaluate(&comprehension.accu_init);
        for item in items {
            self.variables.push((&comprehension.accu_var, accumulated.clone()));
            self.variables.push((&comprehension.iter_var, Ok(item)));
            let goes_on = self.evaluate(&comprehension.loop_cond);
            if matches!(goes_on, Ok(CelValue::Bool(true))) {
                accumulated = self.evaluate(&comprehension.loop_step);
            }
            self.variables.truncate(self.variables.len() - 2);
            if !matches!(goes_on, Ok(CelValue::Bool(true))) {
                break;
            }
        }
        self.variables.push((&comprehension.accu_var, accumulated));
        let result = self.evaluate(&comprehension.result);
        self.variables.pop();
        result
    }
}

fn read_literal(literal: &LiteralValue) -> CelValue {
    match literal {
        LiteralValue::Boolean(value) => CelValue::Bool(*value.inner()),
        LiteralValue::Bytes(value) => CelValue::Bytes(value.inner().into()),
        LiteralValue::Double(value) => CelValue::Double(*value.inner()),
        LiteralValue::Int(value) => CelValue::Int(*value.inner()),
        LiteralValue::Null => CelValue::Null,
        LiteralValue::String(value) => CelValue::text(value.inner()),
        LiteralValue::UInt(value) => CelValue::Uint(*value.inner()),
    }
}
