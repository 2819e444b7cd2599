//! A sandboxed Lua 5.1 for scripts over Kubernetes objects, as Karmada's interpreter customizations are
//! written.
//!
//! ```text
//! script ─► source (`..` on numbers) ─► machine (fresh globals, limits) ─► answer
//! object ─► convert ─────────────────────┘            └─► convert, empties ─► value
//! ```
//!
//! A [`Machines`] keeps a machine for each thread that asks, with the scripts that it has compiled. A run
//! gets globals of its own, so that no script sees what another one left. Nothing in here reads a clock or
//! a file: the limits are numbers of steps and bytes, the same on every machine.
//!
//! ```
//! use federate_lua::{Answer, Argument, Call, Machines};
//! use serde_json::json;
//!
//! let machines = Machines::default();
//! let script = "function GetReplicas(o) return o.spec.replicas, { cpu = o.spec.cpu } end";
//! let object = json!({"spec": {"replicas": 3, "cpu": "1"}});
//! let call = Call { script, function: "GetReplicas", arguments: &[Argument::Value(&object)], results: 2, now: None };
//! let answers = machines.call(&call).unwrap();
//! assert!(matches!(answers[0], Answer::Number(n) if n == 3.0));
//! ```

mod arguments;
mod clock;
mod convert;
mod decode;
mod empties;
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

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

pub use decode::fits;
pub use empties::{Whole, repair};
pub use failure::{Category, Failure};
use machine::Machine;
pub use numbers::int32;

/// A function of a script that is called.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// The script's text.
    pub script: &'c str,
    /// The name of the global function.
    pub function: &'c str,
    /// What it is called with.
    pub arguments: &'c [Argument<'c>],
    /// How many results are looked at.
    pub results: usize,
    /// The time for `os.time`, in seconds since 1970. Without, asking for it is an error of the script.
    pub now: Option<i64>,
}

/// What a function is called with.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'c> {
    /// An object, or anything else that JSON can say.
    Value(&'c Value),
    /// A number.
    Number(i64),
    /// Nothing.
    Nil,
}

/// A result of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing.
    Nil,
    /// `true` or `false`.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// A table as JSON, in which every empty table is an empty list ([`repair`]); or why JSON has no form
    /// for it.
    Table(Result<Value, Failure>),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

impl Answer {
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

/// Machines for any number of threads.
#[derive(Debug, Default)]
pub struct Machines {
    idle: Mutex<Vec<Machine>>,
}

impl Machines {
    /// Machines that are made when they are needed.
    pub const fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }

    /// Whether the script compiles. It is not run.
    pub fn compile(&self, script: &str) -> Result<(), Failure> {
        self.with(|machine| machine.compiled(script).map(drop))
    }

    /// Calls a function of a script.
    pub fn call(&self, call: &Call<'_>) -> Result<Vec<Answer>, Failure> {
        self.with(|machine| machine.call(call))
    }

    /// Does something with a machine that nobody else has. One that has run into a limit is not used again.
    fn with<T>(&self, work: impl FnOnce(&mut Machine) -> Result<T, Failure>) -> Result<T, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut machine = match idle {
            Some(machine) => machine,
            None => Machine::new()?,
        };
        let result = work(&mut machine);
        if !machine.is_spent() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(machine);
        }
        result
    }
}
