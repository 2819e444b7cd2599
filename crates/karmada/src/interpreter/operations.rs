//! The operations of the scripts.

use federate_kubernetes::{Finding, Object, ObjectRef, work};
use federate_lua::{
    EmptyTable, FailureCategory, LuaPool, PathStyle, ScriptAnswer, ScriptArgument, ScriptCall, ScriptFailure,
    repair_empty_tables,
};
use serde_json::{Value, json};

use super::results::{self, CheckedResult};
use super::{CustomizationRule, Interpreter, InterpreterFailure, Script};

/// The machines of this process: a script compiles once for each, whoever asks.
static POOL: LuaPool = LuaPool::new();

/// The steps of a call besides those of the script, and of one that reaches the limits of scripts.
const STEPS_OF_CALL: u64 = 20_000;
const STEPS_OF_TIMEOUT: u64 = 10_000_000;
/// The steps of converting a value of a result to JSON and of reading it.
const STEPS_OF_VALUE: u64 = 40;

type Outcome = Option<Result<Value, InterpreterFailure>>;

impl Script<'_> {
    /// Calls the script's function.
    fn call_function(
        &self,
        arguments: &[ScriptArgument<'_>],
        now: Option<i64>,
    ) -> Result<Vec<ScriptAnswer>, ScriptFailure> {
        // Only replicas come with a second result.
        let results = if self.rule == CustomizationRule::Replicas { 2 } else { 1 };
        let (function, script) = (self.rule.function_name(), self.text);
        if work::is_exceeded() {
            let message = "the scripts of this run take too long together".to_owned();
            return Err(ScriptFailure { category: FailureCategory::Timeout, message, line: None });
        }
        let answers = POOL.call_function(&ScriptCall { script, function, arguments, results, now });
        let too_long = answers.as_ref().is_err_and(|failure| failure.category == FailureCategory::Timeout);
        work::charge_steps(if too_long { STEPS_OF_TIMEOUT } else { STEPS_OF_CALL });
        for answer in answers.iter().flatten() {
            if let ScriptAnswer::Table(Ok(table)) = answer {
                work::charge_steps(STEPS_OF_VALUE * work::count_values(table));
            }
        }
        answers
    }

    /// Why the script does not compile, if it does not.
    pub(super) fn find_compile_error(&self) -> Option<InterpreterFailure> {
        POOL.check_syntax(self.text).err().map(|failure| self.describe_failure(&failure))
    }

    /// The first result, which must be a table.
    fn call_for_table(&self, arguments: &[ScriptArgument<'_>], now: Option<i64>) -> CheckedResult {
        match self.call_function(arguments, now)?.into_iter().next() {
            Some(ScriptAnswer::Table(table)) => table,
            other => Err(wrong_type("table", other.as_ref())),
        }
    }

    /// The object that the script returns.
    fn call_for_object(
        &self,
        arguments: &[ScriptArgument<'_>],
        references: &[&Value],
        now: Option<i64>,
        paths: PathStyle,
    ) -> CheckedResult {
        let mut object = self.call_for_table(arguments, now)?;
        repair_empty_tables(&mut object, EmptyTable::Map, references, paths)?;
        let first = references.first().copied().unwrap_or(&Value::Null);
        results::check_object(results::in_order(object, first))
    }

    fn describe_failure(&self, failure: &ScriptFailure) -> InterpreterFailure {
        let place = Finding::error("interpreter-failed", self.customization, "")
            .with_pointer(format!("/spec/customizations/{}/luaScript", self.rule.field_name()))
            .in_line(failure.line);
        let message =
            format!("`{}` of {} fails: {failure}", self.rule.function_name(), self.customization.id);
        InterpreterFailure { category: failure.category.name(), message, customization: Box::new(place) }
    }
}

fn wrong_type(expected: &str, found: Option<&ScriptAnswer>) -> ScriptFailure {
    let found = found.map_or("nil", ScriptAnswer::type_name);
    ScriptFailure::new(
        FailureCategory::WrongType,
        format!("the result must be a {expected}, but is a {found}"),
    )
}

impl Interpreter<'_> {
    /// How the release takes the paths of results.
    fn script_paths(&self) -> PathStyle {
        if self.behaviour.escapes_script_paths { PathStyle::Escaped } else { PathStyle::Unescaped }
    }

    /// Asks the first script of a rule.
    fn ask_first_script(
        &self,
        id: &ObjectRef,
        rule: CustomizationRule,
        ask: impl FnOnce(&Script<'_>) -> CheckedResult,
    ) -> Outcome {
        let script = self.scripts_for_rule(id, rule).next()?;
        Some(ask(&script).map_err(|failure| script.describe_failure(&failure)))
    }

    /// `{"replicas": n, "requirements": {...} or null}`.
    pub(super) fn interpret_replicas(&self, object: &Object) -> Outcome {
        self.ask_first_script(&object.id, CustomizationRule::Replicas, |script| {
            let answers = script.call_function(&[ScriptArgument::Value(&object.body)], self.now)?;
            let Some(ScriptAnswer::Number(number)) = answers.first() else {
                return Err(wrong_type("number", answers.first()));
            };
            let number = federate_lua::to_int32(*number);
            let requirements = match answers.into_iter().nth(1) {
                None | Some(ScriptAnswer::Nil) => Value::Null,
                Some(ScriptAnswer::Table(table)) => {
                    let mut table = table?;
                    repair_empty_tables(&mut table, EmptyTable::Map, &[], self.script_paths())?;
                    results::read_requirements(&table)?
                }
                other => return Err(wrong_type("table", other.as_ref())),
            };
            Ok(json!({"replicas": number, "requirements": requirements}))
        })
    }

    pub(super) fn interpret_components(&self, object: &Object) -> Outcome {
        self.ask_first_script(&object.id, CustomizationRule::Components, |script| {
            match script.call_function(&[ScriptArgument::Value(&object.body)], self.now)?.into_iter().next() {
                None | Some(ScriptAnswer::Nil) => Ok(Value::Null),
                Some(ScriptAnswer::Table(table)) => {
                    let mut table = table?;
                    repair_empty_tables(&mut table, EmptyTable::List, &[], self.script_paths())?;
                    results::read_components(&table)
                }
                other => Err(wrong_type("table", other.as_ref())),
            }
        })
    }

    /// The object with a number of replicas written into it.
    pub(crate) fn revise_replicas(&self, object: &Object, replicas: i64) -> Outcome {
        let body = &object.body;
        self.ask_first_script(&object.id, CustomizationRule::Revision, |script| {
            script.call_for_object(
                &[ScriptArgument::Value(body), ScriptArgument::Number(replicas)],
                &[body],
                self.now,
                self.script_paths(),
            )
        })
    }

    /// The object that is sent instead of `desired`.
    pub(crate) fn retain_live_fields(&self, desired: &Value, live: &Value, id: &ObjectRef) -> Outcome {
        self.ask_first_script(id, CustomizationRule::Retention, |script| {
            script.call_for_object(
                &[ScriptArgument::Value(desired), ScriptArgument::Value(live)],
                &[desired, live],
                self.now,
                self.script_paths(),
            )
        })
    }

    pub(crate) fn is_healthy(&self, live: &Object) -> Option<Result<bool, InterpreterFailure>> {
        let script = self.scripts_for_rule(&live.id, CustomizationRule::Health).next()?;
        let answer = script.call_function(&[ScriptArgument::Value(&live.body)], self.now);
        let verdict = answer.and_then(|answers| match answers.first() {
            Some(ScriptAnswer::Boolean(healthy)) => Ok(*healthy),
            other => Err(wrong_type("boolean", other)),
        });
        Some(verdict.map_err(|failure| script.describe_failure(&failure)))
    }

    /// The references of an object by all scripts together, in order.
    pub(super) fn interpret_dependencies(
        &self,
        object: &Object,
    ) -> Option<Result<Vec<Value>, InterpreterFailure>> {
        let mut scripts = self.scripts_for_rule(&object.id, CustomizationRule::Dependencies).peekable();
        scripts.peek()?;
        let all: Result<Vec<Value>, InterpreterFailure> = scripts.try_fold(Vec::new(), |mut all, script| {
            let found = script.call_for_table(&[ScriptArgument::Value(&object.body)], self.now).and_then(
                |mut table| {
                    repair_empty_tables(&mut table, EmptyTable::List, &[], self.script_paths())?;
                    results::read_references(&table)
                },
            );
            all.extend(found.map_err(|failure| script.describe_failure(&failure))?);
            Ok(all)
        });
        Some(all.map(results::merge_references))
    }

    /// The status that the control plane collects from a member.
    pub(super) fn reflect_status(&self, object: &Object) -> Outcome {
        self.ask_first_script(&object.id, CustomizationRule::StatusReflection, |script| {
            let mut status = script.call_for_table(&[ScriptArgument::Value(&object.body)], self.now)?;
            repair_empty_tables(&mut status, EmptyTable::Map, &[], self.script_paths())?;
            Ok(status)
        })
    }

    /// The object with the reports of members, `items`, in its status.
    pub(super) fn aggregate_status(&self, object: &Object, items: Option<&Value>) -> Outcome {
        self.ask_first_script(&object.id, CustomizationRule::StatusAggregation, |script| {
            let items = items.map_or(ScriptArgument::Nil, ScriptArgument::Value);
            script.call_for_object(
                &[ScriptArgument::Value(&object.body), items],
                &[],
                self.now,
                self.script_paths(),
            )
        })
    }
}
