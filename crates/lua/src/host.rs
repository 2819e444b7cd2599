//! The functions that are written in Rust, for the prelude.

use std::sync::Arc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::arguments::{HostArguments, HostResult, as_number};
use super::limits::{self, MAX_MEMORY, STEPS_PER_HOST_CALL, ScriptBudget, TOO_LONG};
use super::{clock, kube, machine, numbers, strings};

/// A function of the host.
pub(crate) type HostFunction = fn(&Lua, &HostArguments<'_>) -> HostResult;

/// All functions.
pub(crate) fn create_host_table(lua: &Lua, budget: &Arc<ScriptBudget>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("longest", MAX_MEMORY)?;
    let used = Arc::clone(budget);
    host.raw_set(
        "charge",
        lua.create_function(move |_, amount: f64| Ok(used.charge_work(to_step_count(amount))))?,
    )?;
    let used = Arc::clone(budget);
    host.raw_set("exhausted", lua.create_function(move |_, ()| Ok(used.is_exhausted()))?)?;
    let used = Arc::clone(budget);
    host.raw_set(
        "measure",
        lua.create_function(move |_, length: usize| {
            used.record_length(length);
            Ok(())
        })?,
    )?;
    let used = Arc::clone(budget);
    host.raw_set(
        "measure_text",
        lua.create_function(move |_, text: mlua::String| {
            used.measure_text(&text.as_bytes());
            Ok(())
        })?,
    )?;
    let used = Arc::clone(budget);
    host.raw_set("walk", lua.create_function(move |lua, ()| Ok(used.charge_table_walk(lua.used_memory())))?)?;
    let used = Arc::clone(budget);
    host.raw_set(
        "end_of_memory",
        lua.create_function(move |_, ()| {
            used.end_of_memory();
            Ok(())
        })?,
    )?;
    host.raw_set("no_memory", limits::NO_MEMORY)?;
    host.raw_set("number", lua.create_function(|_, number: f64| Ok(numbers::format_number(number)))?)?;
    host.raw_set("message", lua.create_function(|_, value: Value| Ok(describe_error(&value)))?)?;
    host.raw_set("tonumber", create_function(lua, budget, "tonumber", to_number)?)?;
    host.raw_set("gmatch", create_function(lua, budget, "gmatch", strings::next_match)?)?;
    host.raw_set("string", create_library(lua, budget, &strings::FUNCTIONS)?)?;
    host.raw_set("kube", create_library(lua, budget, &kube::FUNCTIONS)?)?;
    host.raw_set("os", create_library(lua, budget, &clock::FUNCTIONS)?)?;
    Ok(host)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn to_step_count(amount: f64) -> u64 {
    amount as u64 + 1
}

fn create_library(
    lua: &Lua,
    budget: &Arc<ScriptBudget>,
    all: &[(&'static str, HostFunction)],
) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for &(name, host) in all {
        library.raw_set(name, create_function(lua, budget, name, host)?)?;
    }
    Ok(library)
}

/// A function of the host as a function of Lua.
fn create_function(
    lua: &Lua,
    budget: &Arc<ScriptBudget>,
    name: &'static str,
    host: HostFunction,
) -> mlua::Result<Function> {
    let budget = Arc::clone(budget);
    lua.create_function(move |lua, values: MultiValue| {
        if !budget.charge_work(STEPS_PER_HOST_CALL) {
            return to_lua_results(lua, Err(TOO_LONG.to_owned()));
        }
        to_lua_results(lua, host(lua, &HostArguments { name, values, budget: &budget }))
    })
}

/// True and the results, or false and the error message.
fn to_lua_results(lua: &Lua, outcome: HostResult) -> mlua::Result<MultiValue> {
    let values = match outcome {
        Ok(mut results) => {
            results.insert(0, Value::Boolean(true));
            results
        }
        Err(message) => vec![Value::Boolean(false), Value::String(lua.create_string(message)?)],
    };
    Ok(MultiValue::from_vec(values))
}

/// The text of an error that is not a string.
fn describe_error(value: &Value) -> String {
    match value {
        Value::Error(error) => machine::error_message(error),
        other => other.type_name().to_owned(),
    }
}

fn to_number(_: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let read = match arguments.get(0) {
        Value::String(text) => {
            let base = match arguments.get(1) {
                Value::Nil => None,
                _ => Some(u32::try_from(arguments.read_integer(1, None)?).unwrap_or(0)),
            };
            if base.is_some_and(|base| !(2..=36).contains(&base)) {
                return Err("bad argument #2 to tonumber (base out of range)".to_owned());
            }
            arguments.charge_bytes(text.as_bytes().len())?;
            numbers::parse_number(&text.to_string_lossy(), base)
        }
        _ if arguments.argument_count() == 0 => return arguments.refuse_argument(0, "value"),
        value => as_number(value),
    };
    Ok(vec![read.map_or(Value::Nil, Value::Number)])
}
