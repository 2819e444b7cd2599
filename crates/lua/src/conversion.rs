//! JSON values to Lua's and back.
//!
//! Facts: in Lua all numbers are floats, and nulls vanish: in a list the later items move up. In JSON a
//! table is a list when its keys are numbers, which must be 1 to n, and a map when all its keys are
//! strings; an empty table is a list. A table may be in the result only once. A whole number that
//! fits 64 bits is written as an integer.

use std::collections::BTreeSet;

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

use super::arguments::type_name;
use super::limits::{MAX_MEMORY, numeral_length};
use super::{FailureCategory, ScriptAnswer, ScriptArgument, ScriptFailure, numbers};

/// The deepest nesting of a result.
const MAX_DEPTH: usize = 200;

/// The largest result: bytes of strings, and [`BYTES_PER_VALUE`] per value. An API server stores no object as large.
const MAX_RESULT_BYTES: usize = 8 << 20;

/// The bytes that a value counts for besides its strings.
const BYTES_PER_VALUE: usize = 64;

/// The size of an argument.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArgumentSize {
    /// The length of its longest string.
    pub(crate) longest: usize,
    /// The length of the longest numeral at the beginning of a string.
    pub(crate) numeral: usize,
    /// About how many bytes it takes in a machine, or more.
    pub(crate) bytes: usize,
}

impl ArgumentSize {
    /// The bytes of a table, of an entry in it, and of a string besides its text, in a machine.
    const TABLE: usize = 96;
    const ENTRY: usize = 80;
    const TEXT: usize = 32;

    /// The size of all arguments of a call.
    pub(crate) fn from_arguments(arguments: &[ScriptArgument<'_>]) -> Self {
        let mut size = Self::default();
        for argument in arguments {
            if let ScriptArgument::Value(value) = argument {
                size.add_value(value);
            }
        }
        size
    }

    fn add_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(items) => {
                self.bytes += Self::TABLE + items.len() * Self::ENTRY;
                for item in items {
                    self.add_value(item);
                }
            }
            Value::Object(map) => {
                self.bytes += Self::TABLE + map.len() * Self::ENTRY;
                for (key, value) in map {
                    self.add_text(key);
                    self.add_value(value);
                }
            }
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        self.longest = self.longest.max(text.len());
        self.numeral = self.numeral.max(numeral_length(text.as_bytes()));
        self.bytes += Self::TEXT + text.len();
    }
}

/// Runs `work`, which must allocate little in the machine, without its limit of memory. With a limit, each value
/// is made and read in a protected call, which takes several times as long.
pub(crate) fn without_limit<T>(lua: &Lua, work: impl FnOnce() -> T) -> mlua::Result<T> {
    lua.set_memory_limit(0)?;
    let done = work();
    lua.set_memory_limit(MAX_MEMORY)?;
    Ok(done)
}

/// Converts a value to Lua.
pub(crate) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(truth) => LuaValue::Boolean(*truth),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (at, item) in (1..).zip(items.iter().filter(|item| !item.is_null())) {
                table.raw_set(at, to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(map) => {
            let table = lua.create_table_with_capacity(0, map.len())?;
            for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                table.raw_set(key.as_str(), to_lua(lua, value)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// The parts of one result that were read so far.
#[derive(Debug, Default)]
struct ResultShape {
    tables: BTreeSet<usize>,
    size: usize,
    depth: usize,
}

/// Converts a result.
pub(crate) fn to_answer(value: &LuaValue) -> ScriptAnswer {
    match value {
        LuaValue::Nil => ScriptAnswer::Nil,
        LuaValue::Boolean(truth) => ScriptAnswer::Boolean(*truth),
        LuaValue::Number(number) => ScriptAnswer::Number(*number),
        #[expect(clippy::cast_precision_loss, reason = "all numbers of Lua 5.1 are floats")]
        LuaValue::Integer(integer) => ScriptAnswer::Number(*integer as f64),
        LuaValue::String(text) => ScriptAnswer::Text(decode_lossy(&text.as_bytes())),
        LuaValue::Table(table) => ScriptAnswer::Table(
            ResultShape::default()
                .convert_table(table)
                .map_err(|message| ScriptFailure::new(FailureCategory::Encode, message)),
        ),
        other => ScriptAnswer::Other(other.type_name()),
    }
}

/// Converts a table to JSON, for functions of the host; with the bytes that it counts for.
pub(crate) fn from_table(lua: &Lua, table: &Table) -> Result<(Value, usize), String> {
    let mut shape = ResultShape::default();
    let read = without_limit(lua, || shape.convert_table(table))
        .map_err(|error| super::machine::error_message(&error))?;
    Ok((read?, shape.size))
}

/// The string with a replacement character for each byte that is not UTF-8.
fn decode_lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Converts a number to JSON.
fn json_number(number: f64) -> Option<Value> {
    match numbers::to_integer(number) {
        Some(to_integer) => Some(Value::from(to_integer)),
        None => Number::from_f64(number).map(Value::Number),
    }
}

impl ResultShape {
    fn convert_value(&mut self, value: &LuaValue) -> Result<Value, String> {
        self.add_size(BYTES_PER_VALUE)?;
        match value {
            LuaValue::Nil => Ok(Value::Null),
            LuaValue::Boolean(truth) => Ok(Value::Bool(*truth)),
            LuaValue::Number(number) => {
                json_number(*number).ok_or_else(|| format!("JSON has no form for the number {number}"))
            }
            LuaValue::Integer(integer) => Ok(Value::from(*integer)),
            LuaValue::String(text) => {
                self.add_size(text.as_bytes().len())?;
                Ok(Value::String(decode_lossy(&text.as_bytes())))
            }
            LuaValue::Table(table) => self.convert_table(table),
            other => Err(format!("JSON has no form for a {}", other.type_name())),
        }
    }

    fn add_size(&mut self, by: usize) -> Result<(), String> {
        self.size += by;
        if self.size > MAX_RESULT_BYTES { Err("the result is too large".to_owned()) } else { Ok(()) }
    }

    fn convert_table(&mut self, table: &Table) -> Result<Value, String> {
        if !self.tables.insert(table.to_pointer() as usize) {
            return Err("a table is in the result twice: copy its fields instead of the table".to_owned());
        }
        if self.depth == MAX_DEPTH {
            return Err(format!("the result is nested deeper than {MAX_DEPTH} tables"));
        }
        self.depth += 1;
        let read = self.convert_entries(table);
        self.depth -= 1;
        read
    }

    fn convert_entries(&mut self, table: &Table) -> Result<Value, String> {
        let (mut map, mut items) = (Map::new(), Vec::new());
        let mut wrong = None;
        let walked = table.for_each(|key: LuaValue, value: LuaValue| {
            let kept = match &key {
                LuaValue::String(key) => self.convert_value(&value).map(|value| {
                    map.insert(decode_lossy(&key.as_bytes()), value);
                }),
                LuaValue::Integer(_) | LuaValue::Number(_) => self.convert_value(&value).map(|value| {
                    items.push((super::arguments::as_number(&key).unwrap_or_default(), value));
                }),
                other => Err(format!("a table has a {} as a key", type_name(other))),
            };
            kept.map_err(|message| {
                wrong = Some(message);
                mlua::Error::runtime("")
            })
        });
        if let Some(message) = wrong {
            return Err(message);
        }
        walked.map_err(|error| super::machine::error_message(&error))?;
        match (map.is_empty(), items.is_empty()) {
            (true, _) => build_list(items),
            (false, true) => Ok(Value::Object(map)),
            (false, false) => Err("a table has both strings and numbers as keys".to_owned()),
        }
    }
}

/// The items of a list, whose keys must be 1 to n.
#[expect(clippy::float_cmp, reason = "whole numbers")]
fn build_list(mut items: Vec<(f64, Value)>) -> Result<Value, String> {
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut expected = 0.0;
    for (key, _) in &items {
        expected += 1.0;
        if *key != expected {
            return Err(format!("a list has no item {}", numbers::format_number(expected)));
        }
    }
    Ok(Value::Array(items.into_iter().map(|(_, value)| value).collect()))
}
