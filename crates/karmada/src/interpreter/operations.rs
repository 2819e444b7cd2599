//! The operations of the scripts.

use federate_kubernetes::{Finding, Object, ObjectRef, work};
use federate_lua::{Answer, Argument, Call, Category, EmptyTable, Failure, LuaPool, Paths, repair};
use serde_json::{Value, json};

use super::results::{self, Checked};
use super::{Failed, Interpreter, Rule, Script};

/// The machines of this process: a script compiles once for each, whoever asks.
static POOL: LuaPool = LuaPool::new();

/// The steps of a call, and of one that reaches the limits of scripts.
const STEPS_OF_CALL: u64 = 20_000;
const STEPS_OF_TIMEOUT: u64 = 10_000_000;

type Outcome = Option<Result<Value, Failed>>;

impl Script<'_> {
    /// Calls the script's function.
    fn call(&self, arguments: &[Argument<'_>], now: Option<i64>) -> Result<Vec<Answer>, Failure> {
        // Only replicas come with a second result.
        let results = if self.rule == Rule::Replicas { 2 } else { 1 };
        let (function, script) = (self.rule.function(), self.text);
        if work::is_exceeded() {
            let message = "the scripts of this run take too long together".to_owned();
            return Err(Failure { category: Category::Timeout, message, line: None });
        }
        let answers = POOL.call(&Call { script, function, arguments, results, now });
        let too_long = answers.as_ref().is_err_and(|failure| failure.category == Category::Timeout);
        work::charge(if too_long { STEPS_OF_TIMEOUT } else { STEPS_OF_CALL });
        answers
    }

    /// Why the script does not compile, if it does not.
    pub(super) fn uncompiled(&self) -> Option<Failed> {
        POOL.compile(self.text).err().map(|failure| self.failed(&failure))
    }

    /// The first result, which must be a table.
    fn table(&self, arguments: &[Argument<'_>], now: Option<i64>) -> Checked {
        match self.call(arguments, now)?.into_iter().next() {
            Some(Answer::Table(table)) => table,
            other => Err(wrong_type("table", other.as_ref())),
        }
    }

    /// The object that the script returns.
    fn object(
        &self,
        arguments: &[Argument<'_>],
        references: &[&Value],
        now: Option<i64>,
        paths: Paths,
    ) -> Checked {
        let mut object = self.table(arguments, now)?;
        repair(&mut object, EmptyTable::Map, references, paths)?;
        let first = references.first().copied().unwrap_or(&Value::Null);
        results::object(results::in_order(object, first))
    }

    fn failed(&self, failure: &Failure) -> Failed {
        let place = Finding::error("interpreter-failed", self.customization, "")
            .at(format!("/spec/customizations/{}/luaScript", self.rule.field()))
            .in_line(failure.line);
        let message = format!("`{}` of {} fails: {failure}", self.rule.function(), self.customization.id);
        Failed { category: failure.category.name(), message, customization: Box::new(place) }
    }
}

fn wrong_type(expected: &str, found: Option<&Answer>) -> Failure {
    let found = found.map_or("nil", Answer::type_name);
    Failure::new(Category::WrongType, format!("the result must be a {expected}, but is a {found}"))
}

impl Interpreter<'_> {
    /// How the release takes the paths of results.
    fn script_paths(&self) -> Paths {
        if self.behaviour.escapes_script_paths { Paths::Escaped } else { Paths::Unescaped }
    }

    /// Asks the first script of a rule.
    fn first(&self, id: &ObjectRef, rule: Rule, ask: impl FnOnce(&Script<'_>) -> Checked) -> Outcome {
        let script = self.scripts(id, rule).next()?;
        Some(ask(&script).map_err(|failure| script.failed(&failure)))
    }

    /// `{"replicas": n, "requirements": {...} or null}`.
    pub(super) fn replicas(&self, object: &Object) -> Outcome {
        self.first(&object.id, Rule::Replicas, |script| {
            let answers = script.call(&[Argument::Value(&object.body)], self.now)?;
            let Some(Answer::Number(number)) = answers.first() else {
                return Err(wrong_type("number", answers.first()));
            };
            let number = federate_lua::int32(*number);
            let requirements = match answers.into_iter().nth(1) {
                None | Some(Answer::Nil) => Value::Null,
                Some(Answer::Table(table)) => {
                    let mut table = table?;
                    repair(&mut table, EmptyTable::Map, &[], self.script_paths())?;
                    results::requirements(&table)?
                }
                other => return Err(wrong_type("table", other.as_ref())),
            };
            Ok(json!({"replicas": number, "requirements": requirements}))
        })
    }

    pub(super) fn components(&self, object: &Object) -> Outcome {
        self.first(&object.id, Rule::Components, |script| {
            match script.call(&[Argument::Value(&object.body)], self.now)?.into_iter().next() {
                None | Some(Answer::Nil) => Ok(Value::Null),
                Some(Answer::Table(table)) => {
                    let mut table = table?;
                    repair(&mut table, EmptyTable::List, &[], self.script_paths())?;
                    results::components(&table)
                }
                other => Err(wrong_type("table", other.as_ref())),
            }
        })
    }

    /// The object with a number of replicas written into it.
    pub(crate) fn revised(&self, object: &Object, replicas: i64) -> Outcome {
        let body = &object.body;
        self.first(&object.id, Rule::Revision, |script| {
            script.object(
                &[Argument::Value(body), Argument::Number(replicas)],
                &[body],
                self.now,
                self.script_paths(),
            )
        })
    }

    /// The object that is sent instead of `desired`.
    pub(crate) fn retained(&self, desired: &Value, live: &Value, id: &ObjectRef) -> Outcome {
        self.first(id, Rule::Retention, |script| {
            script.object(
                &[Argument::Value(desired), Argument::Value(live)],
                &[desired, live],
                self.now,
                self.script_paths(),
            )
        })
    }

    pub(crate) fn is_healthy(&self, live: &Object) -> Option<Result<bool, Failed>> {
        let script = self.scripts(&live.id, Rule::Health).next()?;
        let answer = script.call(&[Argument::Value(&live.body)], self.now);
        let verdict = answer.and_then(|answers| match answers.first() {
            Some(Answer::Boolean(healthy)) => Ok(*healthy),
            other => Err(wrong_type("boolean", other)),
        });
        Some(verdict.map_err(|failure| script.failed(&failure)))
    }

    /// The references of an object by all scripts together, in order.
    pub(super) fn references(&self, object: &Object) -> Option<Result<Vec<Value>, Failed>> {
        let mut scripts = self.scripts(&object.id, Rule::Dependencies).peekable();
        scripts.peek()?;
        let all: Result<Vec<Value>, Failed> = scripts.try_fold(Vec::new(), |mut all, script| {
            let found = script.table(&[Argument::Value(&object.body)], self.now).and_then(|mut table| {
                repair(&mut table, EmptyTable::List, &[], self.script_paths())?;
                results::references(&table)
            });
            all.extend(found.map_err(|failure| script.failed(&failure))?);
            Ok(all)
        });
        Some(all.map(results::united))
    }

    /// The status that the control plane collects from a member.
    pub(super) fn reflected(&self, object: &Object) -> Outcome {
        self.first(&object.id, Rule::StatusReflection, |script| {
            let mut status = script.table(&[Argument::Value(&object.body)], self.now)?;
            repair(&mut status, EmptyTable::Map, &[], self.script_paths())?;
            Ok(status)
        })
    }

    /// The object with the reports of members, `items`, in its status.
    pub(super) fn aggregated(&self, object: &Object, items: Option<&Value>) -> Outcome {
        self.first(&object.id, Rule::StatusAggregation, |script| {
            let items = items.map_or(Argument::Nil, Argument::Value);
            script.object(&[Argument::Value(&object.body), items], &[], self.now, self.script_paths())
        })
    }
}
