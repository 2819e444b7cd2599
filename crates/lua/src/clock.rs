//! `os.time` and `os.date`. The time is that of the run; without one, both are errors.
//!
//! Facts: control planes run in UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, fmt::strtime};
use mlua::{Lua, Table, Value};

use super::arguments::{HostArguments, HostResult, as_number};
use super::host::HostFunction;

const UNKNOWN: &str =
    "the script asks for the time, which depends on when it runs; `--now TIME` sets it for this run";

/// The functions by name.
pub(crate) const FUNCTIONS: [(&str, HostFunction); 2] = [("time", os_time), ("date", os_date)];

fn os_time(_: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let Value::Table(given) = arguments.get(0) else {
        return return_seconds(arguments.budget.script_time().ok_or_else(|| UNKNOWN.to_owned())?);
    };
    let date = DateTime::new(
        read_field(given, "year", None)?,
        read_small_field(given, "month", None)?,
        read_small_field(given, "day", None)?,
        read_small_field(given, "hour", Some(12))?,
        read_small_field(given, "min", Some(0))?,
        read_small_field(given, "sec", Some(0))?,
        0,
    );
    let moment = date.and_then(|date| date.to_zoned(TimeZone::UTC)).map_err(|error| error.to_string())?;
    return_seconds(moment.timestamp().as_second())
}

fn read_field(date: &Table, name: &str, default: Option<i16>) -> Result<i16, String> {
    let value = date.raw_get(name).unwrap_or(Value::Nil);
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let value = as_number(&value).map(|value| value as i16);
    value.or(default).ok_or_else(|| format!("field '{name}' missing in date table"))
}

fn read_small_field(date: &Table, name: &str, default: Option<i16>) -> Result<i8, String> {
    i8::try_from(read_field(date, name, default)?).map_err(|_| "the date does not exist".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "it is an outcome")]
fn return_seconds(seconds: i64) -> HostResult {
    #[expect(clippy::cast_precision_loss, reason = "all numbers of Lua 5.1 are floats")]
    let seconds = seconds as f64;
    Ok(vec![Value::Number(seconds)])
}

fn os_date(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let pattern = match arguments.get(0) {
        Value::String(text) => text.to_string_lossy(),
        _ => "%c".to_owned(),
    };
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let given = as_number(arguments.get(1)).map(|seconds| seconds as i64);
    let at = given.or(arguments.budget.script_time()).ok_or_else(|| UNKNOWN.to_owned())?;
    let moment = Timestamp::from_second(at).map_err(|error| error.to_string())?.to_zoned(TimeZone::UTC);
    let pattern = pattern.trim_start_matches('!');
    let result = if pattern.starts_with("*t") {
        let fields = [
            ("year", i64::from(moment.year())),
            ("month", i64::from(moment.month())),
            ("day", i64::from(moment.day())),
            ("hour", i64::from(moment.hour())),
            ("min", i64::from(moment.minute())),
            ("sec", i64::from(moment.second())),
            ("wday", i64::from(moment.weekday().to_sunday_one_offset())),
            ("yday", i64::from(moment.day_of_year())),
        ];
        lua.create_table_from(fields).map(Value::Table)
    } else {
        let text = strtime::format(pattern, &moment).map_err(|error| error.to_string())?;
        lua.create_string(text).map(Value::String)
    };
    Ok(vec![result.map_err(|error| super::machine::error_message(&error))?])
}
