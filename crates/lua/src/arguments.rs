//! The arguments of a function that is written in Rust, read as gopher-lua reads them: a number is accepted
//! as a string, and a string that holds a number as a number.

use mlua::{Lua, MultiValue, Value};

use super::limits::{MAX_STRING_LENGTH, ScriptBudget, TOO_LONG};
use super::numbers;

/// The arguments of one call.
pub(crate) struct HostArguments<'a> {
    pub(crate) name: &'static str,
    pub(crate) values: MultiValue,
    pub(crate) budget: &'a ScriptBudget,
}

/// The results of a function, or its error message.
pub(crate) type HostResult = Result<Vec<Value>, String>;

impl HostArguments<'_> {
    pub(crate) fn get(&self, at: usize) -> &Value {
        self.values.get(at).unwrap_or(&Value::Nil)
    }

    pub(crate) fn argument_count(&self) -> usize {
        self.values.len()
    }

    fn describe_mismatch(&self, at: usize, expected: &str) -> String {
        let found = type_name(self.get(at));
        format!("bad argument #{} to {} ({expected} expected, got {found})", at + 1, self.name)
    }

    /// A string. Its length counts as work.
    pub(crate) fn read_bytes(&self, at: usize) -> Result<Vec<u8>, String> {
        let bytes = match self.get(at) {
            Value::String(text) => {
                let bytes = text.as_bytes();
                if bytes.len() > MAX_STRING_LENGTH {
                    return Err(format!(
                        "{} takes no string of more than {MAX_STRING_LENGTH} bytes",
                        self.name
                    ));
                }
                bytes.to_vec()
            }
            value => as_number(value)
                .map(numbers::format_number)
                .ok_or_else(|| self.describe_mismatch(at, "string"))?
                .into_bytes(),
        };
        self.charge_bytes(bytes.len())?;
        Ok(bytes)
    }

    /// A number.
    pub(crate) fn read_number(&self, at: usize) -> Result<f64, String> {
        match self.get(at) {
            Value::String(text) => numbers::go_float(text.to_string_lossy().trim()),
            value => as_number(value),
        }
        .ok_or_else(|| self.describe_mismatch(at, "number"))
    }

    /// An integer; `default` where there is none.
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    pub(crate) fn read_integer(&self, at: usize, default: Option<i64>) -> Result<i64, String> {
        match (self.get(at), default) {
            (Value::Nil, Some(default)) => Ok(default),
            _ => Ok(self.read_number(at)? as i64),
        }
    }

    /// Records work in proportion to a number of bytes that are copied or compared.
    pub(crate) fn charge_bytes(&self, bytes: usize) -> Result<(), String> {
        self.charge_steps(bytes as u64 / 16 + 1)
    }

    /// Records work in proportion to a number of bytes that are looked at one by one.
    pub(crate) fn charge_each(&self, bytes: usize) -> Result<(), String> {
        self.charge_steps(4 * bytes as u64)
    }

    fn charge_steps(&self, steps: u64) -> Result<(), String> {
        self.budget.charge_work(steps).then_some(()).ok_or_else(|| TOO_LONG.to_owned())
    }

    /// Refuses an argument.
    pub(crate) fn refuse_argument<T>(&self, at: usize, expected: &str) -> Result<T, String> {
        Err(self.describe_mismatch(at, expected))
    }
}

/// A number, if it is one.
pub(crate) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        #[expect(clippy::cast_precision_loss, reason = "all numbers of Lua 5.1 are floats")]
        Value::Integer(integer) => Some(*integer as f64),
        _ => None,
    }
}

/// The name of a value's type, as `type` gives it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        value => value.type_name(),
    }
}

/// A string for the script. Its length counts.
pub(crate) fn create_string(
    lua: &Lua,
    budget: &ScriptBudget,
    bytes: impl AsRef<[u8]>,
) -> Result<Value, String> {
    budget.measure_text(bytes.as_ref());
    lua.create_string(bytes).map(Value::String).map_err(|error| super::machine::error_message(&error))
}
