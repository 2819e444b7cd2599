//! Sizes of values, and how much data a rendering may handle.

use std::fmt;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// The largest size of a value.
pub(super) const MAX_VALUE: usize = 4 << 20;

/// The largest amount of data that a rendering may handle.
pub(super) const MAX_WORK: usize = 64 << 20;

/// The largest depth of a value.
const MAX_DEPTH: usize = 100;

/// The size of a node, without its content.
const NODE_SIZE: usize = 16;

/// Why a rendering was stopped; distinguishes our limits from errors of the engine.
#[derive(Debug)]
pub(super) struct Limit(String);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Limit {}

/// The error for a limit.
pub(super) fn limit_error(message: impl Into<String>) -> Error {
    Error::from(ErrorKind::InvalidOperation).with_source(Limit(message.into()))
}

/// The limit behind an error, if there is one.
pub(super) fn find_limit(error: &Error) -> Option<&Limit> {
    let mut source = std::error::Error::source(error);
    while let Some(e) = source {
        if let Some(limit) = e.downcast_ref() {
            return Some(limit);
        }
        source = e.source();
    }
    None
}

pub(super) fn too_large() -> Error {
    limit_error(format!("a value is larger than {} MiB", MAX_VALUE >> 20))
}

/// The amount of data that the rendering has handled.
#[derive(Default)]
struct Work(usize);

/// How many bytes a rendering has handled.
pub(super) fn handled_bytes(state: &State<'_, '_>) -> u64 {
    let work = state.get_extension().map_or(0, |Work(work)| *work);
    u64::try_from(work).unwrap_or(u64::MAX)
}

/// Counts `size` as handled.
pub(super) fn charge_bytes(state: &mut State<'_, '_>, size: usize) -> Result<(), Error> {
    let work = state.get_or_insert_extension_with(Work::default);
    work.0 = work.0.saturating_add(size);
    if work.0 > MAX_WORK {
        return Err(limit_error(format!("rendering handles more than {} MiB of data", MAX_WORK >> 20)));
    }
    Ok(())
}

/// Measures a value, counts it as handled, and returns it. A lazy value is evaluated once here.
pub(super) fn measure_value(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    let value = if value.kind() == ValueKind::Iterable { collect_items(value)? } else { value.clone() };
    charge_bytes(state, compute_size(&value)?)?;
    Ok(value)
}

fn collect_items(value: &Value) -> Result<Value, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()? {
        if items.len() >= MAX_VALUE / NODE_SIZE {
            return Err(too_large());
        }
        items.push(item);
    }
    Ok(Value::from(items))
}

/// The size of a value within the limits.
pub(super) fn compute_size(value: &Value) -> Result<usize, Error> {
    let mut size = 0;
    add_size(value, 0, &mut size)?;
    Ok(size)
}

fn add_size(value: &Value, depth: usize, size: &mut usize) -> Result<(), Error> {
    *size += NODE_SIZE + value.as_bytes().map_or(0, <[u8]>::len);
    if *size > MAX_VALUE {
        return Err(too_large());
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Err(limit_error(format!("a value is nested deeper than {MAX_DEPTH} levels")));
    }
    let map = value.kind() == ValueKind::Map;
    for item in value.try_iter()? {
        add_size(&item, depth + 1, size)?;
        if map {
            add_size(&value.get_item(&item)?, depth + 1, size)?;
        }
    }
    Ok(())
}
