//! A sandboxed Lua 5.1 for scripts over Kubernetes objects, such as those of Karmada's interpreter
//! customizations.
//!
//! ```text
//! script ─► source (`..` on numbers) ─► machine (fresh globals, limits) ─► answer
//! object ─► convert ─────────────────────┘            └─► convert, empties ─► value
//! ```
//!
//! A [`LuaPool`] keeps a few Lua states for any number of threads, each with the scripts that it has
//! compiled. A run gets globals of its own, so that no script sees what another one left. Nothing in here
//! reads a clock or a file: the limits are numbers of steps and bytes, the same on every computer.
//!
//! ```
//! use federate_lua::{LuaPool, ScriptAnswer, ScriptArgument, ScriptCall};
//! use serde_json::json;
//!
//! let pool = LuaPool::default();
//! let script = "function GetReplicas(o) return o.spec.replicas, { cpu = o.spec.cpu } end";
//! let object = json!({"spec": {"replicas": 3, "cpu": "1"}});
//! let arguments = &[ScriptArgument::Value(&object)];
//! let call = ScriptCall { script, function: "GetReplicas", arguments, results: 2, now: None };
//! let answers = pool.call_function(&call).unwrap();
//! assert!(matches!(answers[0], ScriptAnswer::Number(n) if n == 3.0));
//! ```

mod arguments;
mod clock;
mod conversion;
mod empty_tables;
mod failure;
mod format;
mod host;
pub mod kube;
mod limits;
mod machine;
mod numbers;
mod pattern;
mod source;
mod strings;
mod type_check;

use std::sync::{Condvar, Mutex, PoisonError};

use serde_json::Value;

pub use empty_tables::{EmptyTable, PathStyle, repair_empty_tables};
pub use failure::{FailureCategory, ScriptFailure};
use limits::MAX_STATES;
use machine::LuaState;
pub use numbers::to_int32;
pub use type_check::check_type;

/// A function of a script that is called.
#[derive(Clone, Copy, Debug)]
pub struct ScriptCall<'c> {
    /// The script's text.
    pub script: &'c str,
    /// The name of the global function.
    pub function: &'c str,
    /// Its arguments.
    pub arguments: &'c [ScriptArgument<'c>],
    /// The number of results that are read.
    pub results: usize,
    /// The time for `os.time`, in seconds since 1970. Without it `os.time` is an error.
    pub now: Option<i64>,
}

/// An argument of a function.
#[derive(Clone, Copy, Debug)]
pub enum ScriptArgument<'c> {
    /// Any JSON value.
    Value(&'c Value),
    /// A number.
    Number(i64),
    /// Nothing.
    Nil,
}

/// A result of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptAnswer {
    /// Nothing.
    Nil,
    /// `true` or `false`.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// A table as JSON, in which every empty table is an empty list (`repair`); or why it cannot be JSON.
    Table(Result<Value, ScriptFailure>),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

impl ScriptAnswer {
    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Table(_) => "table",
            Self::Other(name) => name,
        }
    }
}

/// Lua states for any number of threads. At most `MAX_STATES` run at a time, so that scripts cannot
/// take more memory on a computer with more cores.
#[derive(Debug)]
pub struct LuaPool {
    idle: Mutex<IdleStates>,
    returned: Condvar,
}

/// The machines that no thread uses.
#[derive(Debug)]
struct IdleStates {
    machines: Vec<LuaState>,
    /// How many more may be made.
    unmade: usize,
}

impl Default for LuaPool {
    fn default() -> Self {
        Self::new()
    }
}

impl LuaPool {
    /// Lua states that are created when they are needed.
    pub const fn new() -> Self {
        let idle = IdleStates { machines: Vec::new(), unmade: MAX_STATES };
        Self { idle: Mutex::new(idle), returned: Condvar::new() }
    }

    /// Whether the script compiles. It is not run.
    pub fn check_syntax(&self, script: &str) -> Result<(), ScriptFailure> {
        self.with_state(|machine| machine.compile_script(script).map(drop))
    }

    /// Calls a function of a script.
    pub fn call_function(&self, call: &ScriptCall<'_>) -> Result<Vec<ScriptAnswer>, ScriptFailure> {
        self.with_state(|machine| machine.call_function(call))
    }

    /// Does something with a machine of its own. A machine that has run into a limit is not used again.
    fn with_state<T>(
        &self,
        work: impl FnOnce(&mut LuaState) -> Result<T, ScriptFailure>,
    ) -> Result<T, ScriptFailure> {
        let result =
            self.take_idle().map_or_else(LuaState::new, Ok).map(|mut machine| (work(&mut machine), machine));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match result {
            Ok((result, machine)) if !machine.is_spent() => {
                idle.machines.push(machine);
                result
            }
            Ok((result, _)) => {
                idle.unmade += 1;
                result
            }
            Err(failure) => {
                idle.unmade += 1;
                Err(failure)
            }
        };
        self.returned.notify_one();
        result
    }

    /// An idle machine, as soon as there is one; `None` where one more may be made.
    fn take_idle(&self) -> Option<LuaState> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(machine) = idle.machines.pop() {
                return Some(machine);
            }
            if idle.unmade > 0 {
                idle.unmade -= 1;
                return None;
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
