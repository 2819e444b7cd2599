//! One machine: a Lua state with the scripts that it has compiled.
//!
//! Facts: a run executes the script's text, then looks up the global function and calls it; 256 functions
//! may be active at the same time; one more is an error that a script can catch, unlike a time-out.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use federate_kubernetes::work;
use mlua::{DebugEvent, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};

use super::conversion::ArgumentSize;
use super::limits::{
    self, HOOK_INTERVAL, MAX_CALL_DEPTH, MAX_MEMORY, ScriptBudget, TOO_LONG, numeral_length,
};
use super::{
    FailureCategory, ScriptAnswer, ScriptArgument, ScriptCall, ScriptFailure, conversion, host, source,
};

/// The name of the script in messages.
const CHUNK_NAME: &str = "=script";

/// The steps of a call, besides its instructions.
const STEPS_PER_CALL: u64 = 20;

/// The steps for counting the functions of a deep stack.
const STEPS_PER_STACK_COUNT: u64 = 2000;

/// The bytes of arguments that are converted in one step of a decision.
const BYTES_PER_WORK_STEP: u64 = 16;

/// The most compiled scripts that a machine keeps.
const MAX_SCRIPTS: usize = 500;

/// A Lua state.
pub(crate) struct LuaState {
    lua: Lua,
    budget: Arc<ScriptBudget>,
    /// Makes fresh globals.
    globals: Function,
    /// The operand of `..` that joins strings.
    joiner: Table,
    scripts: HashMap<String, Result<CompiledScript, ScriptFailure>>,
    spent: bool,
}

/// A script that compiles.
#[derive(Clone)]
pub(crate) struct CompiledScript {
    /// The function that runs its text.
    chunk: Function,
    /// The length of the longest numeral among its literals.
    numeral: usize,
}

/// The length of the longest literal of a script that may be a numeral.
fn longest_numeral(script: &str) -> usize {
    // Any byte can be escaped.
    let plain = script.replace('\\', "0");
    plain.split(['"', '\'', '[', ']']).map(|text| numeral_length(text.as_bytes())).max().unwrap_or_default()
}

impl fmt::Debug for LuaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl LuaState {
    pub(crate) fn new() -> Result<Self, ScriptFailure> {
        Self::create_state()
            .map_err(|error| ScriptFailure::parse_message(FailureCategory::Runtime, &error.to_string()))
    }

    fn create_state() -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
        let budget = Arc::new(ScriptBudget::default());
        let functions = host::create_host_table(&lua, &budget)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude").into_function()?;
        let (joiner, globals) = prelude.call(functions)?;
        lua.set_memory_limit(MAX_MEMORY)?;
        Ok(Self { lua, budget, globals, joiner, scripts: HashMap::new(), spent: false })
    }

    /// Begins to count the steps of a run. The machine counts from here, so that a run takes as many steps on one that has run others
    /// before as on a new one. Nothing may be counted for the run before: setting a hook is a call itself.
    fn begin_run(&self, size: ArgumentSize, numeral: usize, now: Option<i64>) -> mlua::Result<()> {
        self.budget.begin_run(size.longest, size.numeral.max(numeral), now);
        self.budget.record_memory_before(self.lua.used_memory());
        let watched = Arc::clone(&self.budget);
        let triggers = HookTriggers::new().on_calls().every_nth_instruction(HOOK_INTERVAL);
        self.lua.set_hook(triggers, move |lua, debug| {
            let goes_on = match debug.event() {
                DebugEvent::Count => watched.charge_instructions(u64::from(HOOK_INTERVAL)),
                // Calls in tail position do not count as active, but counting the stack costs steps.
                DebugEvent::Call if lua.inspect_stack(MAX_CALL_DEPTH, |_| ()).is_some() => {
                    let goes_on = watched.charge_work(STEPS_PER_STACK_COUNT);
                    if goes_on && is_too_deep(lua) {
                        return Err(mlua::Error::runtime("stack overflow"));
                    }
                    goes_on
                }
                DebugEvent::Call => watched.charge_work(STEPS_PER_CALL),
                _ => true,
            };
            if goes_on { Ok(VmState::Continue) } else { Err(mlua::Error::runtime(TOO_LONG)) }
        })
    }

    /// Whether the machine must not be used again.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// The script as a function that runs its text.
    pub(crate) fn compile_script(&mut self, script: &str) -> Result<CompiledScript, ScriptFailure> {
        if let Some(known) = self.scripts.get(script) {
            return known.clone();
        }
        if self.scripts.len() == MAX_SCRIPTS {
            self.scripts.clear();
        }
        let text = source::prepare_script(script);
        let chunk = self.lua.load(text).set_name(CHUNK_NAME).set_mode(mlua::ChunkMode::Text);
        let compiled = chunk.into_function().map_err(|error| syntax_failure(&error));
        let compiled = compiled.map(|chunk| CompiledScript { chunk, numeral: longest_numeral(script) });
        self.scripts.insert(script.to_owned(), compiled.clone());
        compiled
    }

    pub(crate) fn call_function(
        &mut self,
        call: &ScriptCall<'_>,
    ) -> Result<Vec<ScriptAnswer>, ScriptFailure> {
        self.lua.remove_hook();
        let CompiledScript { chunk, numeral } = self.compile_script(call.script)?;
        let size = ArgumentSize::from_arguments(call.arguments);
        self.begin_run(size, numeral, call.now).map_err(|error| self.note_failure(&error))?;
        let called = self.run_chunk(&chunk, call, size);
        work::charge_steps(self.budget.work_steps() + size.bytes as u64 / BYTES_PER_WORK_STEP);
        if self.budget.is_out_of_memory() {
            self.spent = true;
            return Err(ScriptFailure::new(FailureCategory::Runtime, limits::NO_MEMORY));
        }
        if self.budget.is_exhausted() {
            self.spent = true;
            return Err(ScriptFailure::new(FailureCategory::Timeout, TOO_LONG));
        }
        let values = called?;
        let results =
            (0..call.results).map(|at| conversion::to_answer(values.get(at).unwrap_or(&Value::Nil)));
        conversion::without_limit(&self.lua, || results.collect()).map_err(|error| runtime_failure(&error))
    }

    fn run_chunk(
        &mut self,
        chunk: &Function,
        call: &ScriptCall<'_>,
        size: ArgumentSize,
    ) -> Result<MultiValue, ScriptFailure> {
        let function = match self.load_function(chunk, call.function).map_err(|e| self.note_failure(&e))? {
            Value::Function(function) => function,
            Value::Nil => {
                let message = format!("the script has no global function `{}`", call.function);
                return Err(ScriptFailure::new(FailureCategory::FunctionMissing, message));
            }
            other => {
                let message = format!("`{}` is not a function, but a {}", call.function, other.type_name());
                return Err(ScriptFailure::new(FailureCategory::NotAFunction, message));
            }
        };
        let arguments = convert_arguments(&self.lua, call, size).map_err(|e| self.note_failure(&e))?;
        self.budget.record_memory_before(self.lua.used_memory());
        function.call(MultiValue::from_vec(arguments)).map_err(|e| self.note_failure(&e))
    }

    /// Runs a script in a new environment, and returns what its global `name` is.
    fn load_function(&self, chunk: &Function, name: &str) -> mlua::Result<Value> {
        let globals: Table = self.globals.call(())?;
        chunk.set_environment(globals.clone())?;
        chunk.call::<()>(self.joiner.clone())?;
        globals.raw_get(name)
    }

    fn note_failure(&mut self, error: &mlua::Error) -> ScriptFailure {
        // A machine whose memory is used up is not kept.
        self.spent |= matches!(root_cause(error), mlua::Error::MemoryError(_));
        runtime_failure(error)
    }
}

/// Whether arguments are so small that they can be made without the limit of memory.
fn is_small(size: ArgumentSize, used: usize) -> bool {
    size.bytes.saturating_add(used) < MAX_MEMORY / 2
}

/// The arguments of a call as values of Lua.
fn convert_arguments(lua: &Lua, call: &ScriptCall<'_>, size: ArgumentSize) -> mlua::Result<Vec<Value>> {
    if is_small(size, lua.used_memory()) {
        return conversion::without_limit(lua, || call.arguments.iter().map(|a| a.to_lua(lua)).collect())?;
    }
    call.arguments.iter().map(|argument| argument.to_lua(lua)).collect()
}

impl ScriptArgument<'_> {
    fn to_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Value(value) => conversion::to_lua(lua, value),
            #[expect(clippy::cast_precision_loss, reason = "all numbers of Lua 5.1 are floats")]
            Self::Number(number) => Ok(Value::Number(number as f64)),
            Self::Nil => Ok(Value::Nil),
        }
    }
}

/// Whether too many functions are active. Calls in tail position leave marks in the stack, which do not count.
fn is_too_deep(lua: &Lua) -> bool {
    if is_tail_call(lua, MAX_CALL_DEPTH).is_none() {
        return false;
    }
    let levels = (0..2 * MAX_CALL_DEPTH).map_while(|level| is_tail_call(lua, level));
    levels.filter(|is_tail| !is_tail).count() > MAX_CALL_DEPTH
}

/// Whether a level of the stack is the mark of a call in tail position; `None` if there is no such level.
fn is_tail_call(lua: &Lua, level: usize) -> Option<bool> {
    lua.inspect_stack(level, |frame| frame.source().what == "tail")
}

/// The innermost cause of an error.
fn root_cause(error: &mlua::Error) -> &mlua::Error {
    match error {
        mlua::Error::CallbackError { cause, .. } => root_cause(cause),
        other => other,
    }
}

/// The message of an error.
pub(crate) fn error_message(error: &mlua::Error) -> String {
    match root_cause(error) {
        mlua::Error::RuntimeError(message)
        | mlua::Error::MemoryError(message)
        | mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

fn runtime_failure(error: &mlua::Error) -> ScriptFailure {
    let mut failure = ScriptFailure::parse_message(FailureCategory::Runtime, &error_message(error));
    if failure.line.is_none()
        && let mlua::Error::CallbackError { traceback, .. } = error
    {
        failure.line = line_of(traceback);
    }
    failure
}

/// The innermost line of the script in a traceback.
fn line_of(traceback: &str) -> Option<usize> {
    let placed = traceback.lines().find_map(|line| line.trim().strip_prefix("script:"))?;
    placed.split(':').next()?.parse().ok()
}

fn syntax_failure(error: &mlua::Error) -> ScriptFailure {
    ScriptFailure::parse_message(FailureCategory::Syntax, &error_message(error))
}
