//! Health checks in CEL, for kinds whose status does not follow the conventions of Kubernetes.
//!
//! A check names a kind and up to three expressions over the top-level fields of an object (`metadata`, `spec`, `status`,
//! `data`, …), as Flux's `healthCheckExprs` do: `failed` ends a wait, `inProgress` continues it, and `current` means that
//! the object is healthy. They are evaluated in this order; an object for which none is true is in progress. An expression
//! without a result, such as one about a field that the object lacks, is not true.
//!
//! Expressions come from the repo, which is untrusted: their length, their nesting and the number of steps that they can
//! take over an object are limited.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Env, ExecutionError, Program};
use federate_kubernetes::Object;
use federate_repo::config::HealthCheck;
use serde_json::Value;

use crate::health::Readiness;

/// The characters of an expression.
const MAX_LENGTH: usize = 1000;

/// The brackets of an expression that are open at once.
const MAX_OPEN_BRACKETS: usize = 20;

/// The depth of the parsed expression.
const MAX_DEPTH: usize = 60;

/// The comprehensions (`all`, `exists`, `filter`, `map`) inside each other.
const MAX_COMPREHENSIONS: u32 = 2;

/// The most checks of a repo: one for each kind that has no conditions.
const MAX_CHECKS: usize = 500;

/// The steps of an evaluation: the values of the object and the parts of the expression, to the power of nested
/// comprehensions.
const MAX_STEPS: u64 = 20_000_000;

/// Compiled health checks, by group and kind.
#[derive(Debug, Default)]
pub struct HealthChecks {
    checks: BTreeMap<(String, String), CompiledCheck>,
}

#[derive(Debug)]
struct CompiledCheck {
    current: CompiledExpression,
    in_progress: Option<CompiledExpression>,
    failed: Option<CompiledExpression>,
}

#[derive(Debug)]
struct CompiledExpression {
    program: Program,
    /// The parts of the expression.
    parts: u64,
    /// How deep comprehensions are nested.
    comprehensions: u32,
}

/// An expression that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidHealthCheck {
    /// The place below `apply.healthChecks`, as a JSON pointer.
    pub pointer: String,
    /// Why.
    pub message: String,
}

impl HealthChecks {
    /// Compiles configured checks.
    ///
    /// # Errors
    ///
    /// Every expression that cannot be used, with its place.
    pub fn from_config(configured: &[HealthCheck]) -> Result<Self, Vec<InvalidHealthCheck>> {
        if configured.len() > MAX_CHECKS {
            let message = format!("there are {} checks: at most {MAX_CHECKS} are read", configured.len());
            return Err(vec![InvalidHealthCheck { pointer: format!("/{MAX_CHECKS}"), message }]);
        }
        let mut invalid = Vec::new();
        let mut checks = BTreeMap::new();
        for (at, check) in configured.iter().enumerate() {
            let sources = [
                ("current", Some(&check.current)),
                ("inProgress", check.in_progress.as_ref()),
                ("failed", check.failed.as_ref()),
            ];
            let [current, in_progress, failed] = sources.map(|(field, source)| {
                let compiled = compile_expression(source?).map_err(|message| {
                    invalid.push(InvalidHealthCheck { pointer: format!("/{at}/{field}"), message });
                });
                compiled.ok()
            });
            let group = check.api_version.split_once('/').map_or("", |(group, _)| group);
            let key = (group.to_owned(), check.kind.clone());
            if let Some(current) = current {
                let check = CompiledCheck { current, in_progress, failed };
                if checks.insert(key, check).is_some() {
                    let message = "an earlier check is for the same kind".to_owned();
                    invalid.push(InvalidHealthCheck { pointer: format!("/{at}/kind"), message });
                }
            }
        }
        if invalid.is_empty() { Ok(Self { checks }) } else { Err(invalid) }
    }

    /// The readiness of an object by the check for its kind, if there is one.
    pub fn evaluate_object(&self, object: &Object) -> Option<Readiness> {
        if self.checks.is_empty() {
            return None;
        }
        let check = self.checks.get(&(object.id.group().to_owned(), object.id.kind.clone()))?;
        Some(check.evaluate_body(&object.body))
    }
}

impl CompiledCheck {
    fn evaluate_body(&self, body: &Value) -> Readiness {
        if self.failed.as_ref().is_some_and(|failed| failed.is_true(body) == Ok(true)) {
            return Readiness::Failed("its health check `failed` is true".to_owned());
        }
        if self.in_progress.as_ref().is_some_and(|in_progress| in_progress.is_true(body) == Ok(true)) {
            return Readiness::InProgress("its health check `inProgress` is true".to_owned());
        }
        match self.current.is_true(body) {
            Ok(true) => Readiness::Ready,
            Ok(false) => Readiness::InProgress("its health check `current` is false".to_owned()),
            Err(why) => Readiness::InProgress(format!("its health check `current` has no result: {why}")),
        }
    }
}

impl CompiledExpression {
    /// Evaluates the expression over the fields of an object.
    fn is_true(&self, body: &Value) -> Result<bool, String> {
        let sizes = self.parts.saturating_add(count_values(body));
        if sizes.saturating_pow(self.comprehensions.max(1)) > MAX_STEPS {
            return Err(format!("it would take more than {MAX_STEPS} steps over this object"));
        }
        let mut context = Context::default();
        for (field, value) in body.as_object().into_iter().flatten() {
            context.add_variable(field.as_str(), value).map_err(|error| error.to_string())?;
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(verdict)) => Ok(verdict),
            Ok(other) => Err(format!("it is of type {}, not a boolean", other.type_of())),
            // The message of the error could quote values of the object.
            Err(ExecutionError::NoSuchKey(key)) => Err(format!("the object has no `{key}`")),
            Err(ExecutionError::UndeclaredReference(name)) => Err(format!("the object has no `{name}`")),
            Err(_) => Err("it cannot be evaluated over this object".to_owned()),
        }
    }
}

fn compile_expression(source: &str) -> Result<CompiledExpression, String> {
    if source.trim().is_empty() {
        return Err("the expression is empty".to_owned());
    }
    if source.chars().count() > MAX_LENGTH {
        return Err(format!("the expression is longer than {MAX_LENGTH} characters"));
    }
    let too_deep = format!("the expression is nested more deeply than {MAX_OPEN_BRACKETS} brackets");
    if most_open_brackets(source) > MAX_OPEN_BRACKETS {
        return Err(too_deep);
    }
    let program = Arc::new(Env::stdlib()).compile(source).map_err(|errors| {
        let first = errors.errors.first().map_or_else(|| errors.to_string(), |error| error.msg.clone());
        format!("the expression is not valid CEL: {first}")
    })?;
    let shape = ExpressionShape::measure_expression(program.expression(), 0).ok_or(too_deep)?;
    if shape.comprehensions > MAX_COMPREHENSIONS {
        return Err(format!(
            "the expression has more than {MAX_COMPREHENSIONS} comprehensions inside each other"
        ));
    }
    Ok(CompiledExpression { program, parts: shape.parts, comprehensions: shape.comprehensions })
}

/// The highest number of brackets that are open at once. Conditionals and prefix operators nest without brackets: two of
/// them count as one.
fn most_open_brackets(source: &str) -> usize {
    let (mut open, mut most, mut operators) = (0_usize, 0, 0);
    for character in source.chars() {
        match character {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '!' | '-' | '?' => operators += 1,
            _ => {}
        }
        most = most.max(open);
    }
    most.max(operators / 2)
}

/// What limits the evaluation of an expression.
#[derive(Clone, Copy, Default)]
struct ExpressionShape {
    parts: u64,
    comprehensions: u32,
}

impl ExpressionShape {
    /// Measures an expression; `None` if it is too deep.
    fn measure_expression(expression: &IdedExpr, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut children: Vec<&IdedExpr> = Vec::new();
        let mut comprehension = 0;
        match &expression.expr {
            Expr::Call(call) => children.extend(call.target.as_deref().into_iter().chain(&call.args)),
            Expr::Comprehension(parts) => {
                comprehension = 1;
                children.extend([
                    &parts.iter_range,
                    &parts.accu_init,
                    &parts.loop_cond,
                    &parts.loop_step,
                    &parts.result,
                ]);
            }
            Expr::List(list) => children.extend(&list.elements),
            Expr::Map(map) => children.extend(map.entries.iter().flat_map(|entry| entry_parts(&entry.expr))),
            Expr::Struct(fields) => {
                children.extend(fields.entries.iter().flat_map(|entry| entry_parts(&entry.expr)));
            }
            Expr::Select(select) => children.push(&select.operand),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        }
        let mut shape = Self { parts: 1, comprehensions: 0 };
        for child in children {
            let child = Self::measure_expression(child, depth + 1)?;
            shape.parts += child.parts;
            shape.comprehensions = shape.comprehensions.max(child.comprehensions);
        }
        shape.comprehensions += comprehension;
        Some(shape)
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn count_values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<u64>(),
        Value::Object(fields) => 1 + fields.values().map(count_values).sum::<u64>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(current: &str) -> HealthCheck {
        HealthCheck {
            api_version: "db.example.com/v1".to_owned(),
            kind: "Database".to_owned(),
            current: current.to_owned(),
            in_progress: None,
            failed: Some("has(status.phase) && status.phase == 'Broken'".to_owned()),
        }
    }

    fn readiness_of(current: &str, status: &Value) -> Readiness {
        let checks = HealthChecks::from_config(&[check(current)]).unwrap();
        let body = json!({"apiVersion": "db.example.com/v2", "kind": "Database",
            "metadata": {"name": "a"}, "spec": {"members": 3}, "status": status});
        checks.evaluate_object(&Object::from_manifest(body, "a.yaml")).unwrap()
    }

    #[test]
    fn expressions_decide() {
        let all_run = "status.members.size() == spec.members && status.members.all(m, m.phase == 'Running')";
        let members =
            |phase: &str| json!({"members": [{"phase": "Running"}, {"phase": "Running"}, {"phase": phase}]});
        assert_eq!(readiness_of(all_run, &members("Running")), Readiness::Ready);
        assert!(matches!(readiness_of(all_run, &members("Pending")), Readiness::InProgress(_)));
        assert!(matches!(readiness_of(all_run, &json!({"phase": "Broken"})), Readiness::Failed(_)));
        let unknown = readiness_of(all_run, &json!({}));
        assert!(matches!(&unknown, Readiness::InProgress(why) if why.contains("`members`")), "{unknown:?}");
        let no_boolean = readiness_of("spec.members", &json!({}));
        assert!(
            matches!(&no_boolean, Readiness::InProgress(why) if why.contains("not a boolean")),
            "{no_boolean:?}"
        );
        let other = Object::from_manifest(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            "a.yaml",
        );
        assert_eq!(HealthChecks::from_config(&[check("true")]).unwrap().evaluate_object(&other), None);
    }

    #[test]
    fn expressions_that_cannot_be_used_are_refused_with_their_place() {
        for source in [
            "",
            "status.",
            "status.phase == 'a",
            &"(".repeat(900),
            &"!".repeat(900),
            &"-".repeat(900),
            &format!("{}a", "a ? b : ".repeat(100)),
            &format!("a{}", " + a".repeat(240)),
            &format!("a{}", ".a".repeat(400)),
            &format!("a{}", "[0]".repeat(300)),
            &"a".repeat(1001),
            "a.all(x, x.all(y, y.all(z, z)))",
        ] {
            let invalid = HealthChecks::from_config(&[check("true"), check(source)]).unwrap_err();
            assert_eq!(invalid[0].pointer, "/1/current", "{source}: {invalid:?}");
        }
        let twice = HealthChecks::from_config(&[check("true"), check("true")]).unwrap_err();
        assert_eq!(twice[0].pointer, "/1/kind");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(source in "[a-c0-9.,()\\[\\]{}!?:&|<>='\\\\rbeu\"%/ +*-]{0,60}|(a|1|\\.|\\(|\\)|has|all|map|,|-|!|<|&&|\\[|\\]|\\?|:){0,30}") {
            if let Ok(compiled) = compile_expression(&source) {
                let _ = compiled.is_true(&json!({"a": [1, -1, "x", {"b": null}], "b": {"a": 9_223_372_036_854_775_807_i64}}));
            }
        }
    }

    #[test]
    fn an_evaluation_ends() {
        let values: Vec<Value> = (0..20_000).map(Value::from).collect();
        let slow = "status.values.all(a, status.values.all(b, a + b >= 0))";
        let readiness = readiness_of(slow, &json!({"values": values}));
        assert!(matches!(&readiness, Readiness::InProgress(why) if why.contains("steps")), "{readiness:?}");
    }
}
