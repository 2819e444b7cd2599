//! The string library.
//!
//! Facts: strings are bytes, but `upper` and `lower` change letters of all alphabets; `format` is Go's.

use mlua::{Lua, Value};

use super::arguments::{HostArguments, HostResult, create_string};
use super::format;
use super::host::HostFunction;
use super::pattern::{self, PatternCapture, PatternMatch};

/// The functions by name. `gmatch` is made of [`next_match`].
pub(crate) const FUNCTIONS: [(&str, HostFunction); 10] = [
    ("byte", str_byte),
    ("char", str_char),
    ("find", str_find),
    ("format", format_string),
    ("len", str_len),
    ("lower", str_lower),
    ("match", match_string),
    ("reverse", str_reverse),
    ("sub", str_sub),
    ("upper", str_upper),
];

#[expect(clippy::cast_precision_loss, reason = "all numbers of Lua 5.1 are floats")]
fn to_number(value: usize) -> Value {
    Value::Number(value as f64)
}

/// Converts a position, counted from 1 or from the end where it is negative, to an offset.
fn to_offset(place: i64, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = if place < 0 { place.saturating_add(length).saturating_add(1).max(0) } else { place };
    usize::try_from(place.max(1) - 1).unwrap_or(usize::MAX)
}

/// The bytes from one position to another, both included.
fn slice_range(bytes: &[u8], from: i64, to: i64) -> &[u8] {
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let to = if to < 0 { to.saturating_add(length).saturating_add(1) } else { to };
    let end = usize::try_from(to.max(0)).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(to_offset(from, bytes.len())..end).unwrap_or_default()
}

fn str_byte(_: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let bytes = arguments.read_bytes(0)?;
    let from = arguments.read_integer(1, Some(1))?;
    let found = slice_range(&bytes, from, arguments.read_integer(2, Some(from))?);
    if found.len() > super::limits::MAX_CALL_DEPTH {
        return Err("string slice too long".to_owned());
    }
    Ok(found.iter().map(|byte| Value::Number(f64::from(*byte))).collect())
}

fn str_char(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let codes = (0..arguments.argument_count()).map(|at| arguments.read_integer(at, None));
    let bytes: Result<Vec<u8>, String> =
        codes.map(|code| Ok(u8::try_from(code? & 0xff).unwrap_or_default())).collect();
    Ok(vec![create_string(lua, arguments.budget, bytes?)?])
}

fn str_len(_: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    Ok(vec![to_number(arguments.read_bytes(0)?.len())])
}

fn str_reverse(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let mut bytes = arguments.read_bytes(0)?;
    bytes.reverse();
    Ok(vec![create_string(lua, arguments.budget, bytes)?])
}

fn str_sub(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let bytes = arguments.read_bytes(0)?;
    let (from, to) = (arguments.read_integer(1, None)?, arguments.read_integer(2, Some(-1))?);
    Ok(vec![create_string(lua, arguments.budget, slice_range(&bytes, from, to))?])
}

fn str_upper(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    Ok(vec![changed_case(lua, arguments, |c| c.to_uppercase().collect())?])
}

fn str_lower(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    Ok(vec![changed_case(lua, arguments, |c| c.to_lowercase().collect())?])
}

/// Maps each letter to its one counterpart; letters with several counterparts stay.
fn changed_case(
    lua: &Lua,
    arguments: &HostArguments<'_>,
    change: impl Fn(char) -> Vec<char>,
) -> Result<Value, String> {
    let bytes = arguments.read_bytes(0)?;
    arguments.charge_each(bytes.len())?;
    let mut changed = String::new();
    for chunk in bytes.utf8_chunks() {
        changed.extend(chunk.valid().chars().map(|c| match change(c)[..] {
            [one] => one,
            _ => c,
        }));
        changed.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    create_string(lua, arguments.budget, changed)
}

fn format_string(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let text = format::format_string(arguments)?;
    arguments.charge_bytes(text.len())?;
    Ok(vec![create_string(lua, arguments.budget, text)?])
}

/// The offset from which `find` and `match` search; `None` beyond the end.
fn search_start(arguments: &HostArguments<'_>, length: usize) -> Result<Option<usize>, String> {
    let from = to_offset(arguments.read_integer(2, Some(1))?, length);
    Ok((from <= length).then_some(from))
}

fn str_find(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let (subject, wanted) = (arguments.read_bytes(0)?, arguments.read_bytes(1)?);
    let Some(from) = search_start(arguments, subject.len())? else { return Ok(vec![Value::Nil]) };
    let plain = !matches!(arguments.get(3), Value::Nil | Value::Boolean(false));
    if plain || !wanted.iter().any(|byte| b"^$*+?.([%-".contains(byte)) {
        let Some(at) = plain_find(arguments, &subject[from..], &wanted)? else { return Ok(vec![Value::Nil]) };
        return Ok(vec![to_number(from + at + 1), to_number(from + at + wanted.len())]);
    }
    let Some(found) = pattern::find_match(&subject, &wanted, from, arguments.budget)? else {
        return Ok(vec![Value::Nil]);
    };
    let mut results = vec![to_number(found.start + 1), to_number(found.end)];
    if !found.groups.is_empty() {
        results.extend(captures_of(lua, arguments, &subject, &found)?);
    }
    Ok(results)
}

fn plain_find(arguments: &HostArguments<'_>, subject: &[u8], wanted: &[u8]) -> Result<Option<usize>, String> {
    if wanted.is_empty() {
        return Ok(Some(0));
    }
    for (at, window) in subject.windows(wanted.len()).enumerate() {
        if at % 16 == 0 {
            arguments.charge_bytes(wanted.len())?;
        }
        if window == wanted {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn match_string(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let (subject, wanted) = (arguments.read_bytes(0)?, arguments.read_bytes(1)?);
    let Some(from) = search_start(arguments, subject.len())? else { return Ok(vec![Value::Nil]) };
    match pattern::find_match(&subject, &wanted, from, arguments.budget)? {
        Some(found) => captures_of(lua, arguments, &subject, &found),
        None => Ok(vec![Value::Nil]),
    }
}

/// The next of all matches: the position after it, and its captures.
pub(crate) fn next_match(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let (subject, wanted) = (arguments.read_bytes(0)?, arguments.read_bytes(1)?);
    let Some(from) = search_start(arguments, subject.len())? else { return Ok(vec![Value::Nil]) };
    let Some(found) = pattern::find_match(&subject, &wanted, from, arguments.budget)? else {
        return Ok(vec![Value::Nil]);
    };
    // An empty match is found once in each place.
    let next = found.end + 1 + usize::from(found.start == found.end);
    let mut results = vec![to_number(next)];
    results.extend(captures_of(lua, arguments, &subject, &found)?);
    Ok(results)
}

/// The captures of a match; without groups, the whole match.
fn captures_of(lua: &Lua, arguments: &HostArguments<'_>, subject: &[u8], found: &PatternMatch) -> HostResult {
    if found.groups.is_empty() {
        let whole = &subject[found.start..found.end];
        return Ok(vec![create_string(lua, arguments.budget, whole)?]);
    }
    let groups = found.groups.iter().map(|group| match *group {
        PatternCapture::Text(start, end) => create_string(lua, arguments.budget, &subject[start..end]),
        PatternCapture::Position(at) => Ok(to_number(at + 1)),
        PatternCapture::Open(_) => Err("unfinished capture".to_owned()),
    });
    groups.collect()
}
