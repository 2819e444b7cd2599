//! Sprig's functions for points in time that are given. The only zone is UTC, which is also the local one.

use super::FunctionParameter::{Any, Text, Time};
use super::{Arguments, GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::{TemplateErrorKind, TemplateFailure};
use crate::number::parse_int_in;
use crate::text::to_valid_text;
use crate::time::{PointInTime, ZERO_TIME, format_duration, parse_duration};
use crate::value::{GoValue, IntType};

/// The code of a function under two names.
type Code = fn(&Arguments, &mut TemplateBudget) -> Result<GoValue, TemplateFailure>;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("date", &[Text, Any], |a, budget| format_date(a.text(0), a.any(1), b"", budget)),
    GoFunction::new("dateInZone", &[Text, Any, Text], DATE_IN_ZONE),
    GoFunction::new("date_in_zone", &[Text, Any, Text], DATE_IN_ZONE),
    GoFunction::new("htmlDate", &[Any], |a, budget| format_date(b"2006-01-02", a.any(0), b"", budget)),
    GoFunction::new("htmlDateInZone", &[Any, Text], |a, budget| {
        format_date(b"2006-01-02", a.any(0), a.text(1), budget)
    }),
    GoFunction::new("dateModify", &[Text, Time], MODIFY),
    GoFunction::new("date_modify", &[Text, Time], MODIFY),
    GoFunction::new("mustDateModify", &[Text, Time], MUST_MODIFY),
    GoFunction::new("must_date_modify", &[Text, Time], MUST_MODIFY),
    GoFunction::new("toDate", &[Text, Text], |a, _| Ok(GoValue::Time(parse_date(a).unwrap_or(ZERO_TIME)))),
    GoFunction::new("mustToDate", &[Text, Text], |a, _| {
        let time = parse_date(a);
        time.map(GoValue::Time).ok_or_else(|| TemplateFailure::function("the text is no time of that layout"))
    }),
    GoFunction::new("unixEpoch", &[Time], |a, _| Ok(GoValue::text(a.time(0).seconds.to_string()))),
    GoFunction::new("duration", &[Any], |a, _| {
        let seconds = match a.any(0) {
            GoValue::Int(IntType::Int64, seconds) => *seconds,
            GoValue::Text(text) => parse_int_in(&text.to_valid(), 10).unwrap_or(0),
            _ => 0,
        };
        Ok(GoValue::text(format_duration(seconds.wrapping_mul(1_000_000_000))))
    }),
    GoFunction::new("durationRound", &[Any], |a, _| match a.any(0) {
        GoValue::Int(IntType::Int64, nanoseconds) => Ok(GoValue::text(round_duration(*nanoseconds))),
        GoValue::Text(text) => {
            Ok(GoValue::text(round_duration(parse_duration(&text.to_valid()).unwrap_or(0))))
        }
        GoValue::Time(_) => Err(refuse_clock()),
        _ => Ok(GoValue::text("0s")),
    }),
];

const DATE_IN_ZONE: Code = |a, budget| format_date(a.text(0), a.any(1), a.text(2), budget);

const MODIFY: Code = |a, _| {
    let time = parse_duration(&to_valid_text(a.text(0))).and_then(|duration| a.time(1).add(duration));
    Ok(GoValue::Time(time.unwrap_or(a.time(1))))
};

const MUST_MODIFY: Code = |a, _| {
    let time = parse_duration(&to_valid_text(a.text(0))).and_then(|duration| a.time(1).add(duration));
    time.map(GoValue::Time).ok_or_else(|| TemplateFailure::function("time: invalid duration"))
};

fn parse_date(arguments: &Arguments) -> Option<PointInTime> {
    PointInTime::parse(&to_valid_text(arguments.text(0)), &to_valid_text(arguments.text(1)))
}

fn refuse_clock() -> TemplateFailure {
    TemplateFailure::new(
        TemplateErrorKind::RefusedFunction,
        "what is no time stands for now, which is not the same from run to run, so federate does not carry it out",
    )
}

fn format_date(
    layout: &[u8],
    date: &GoValue,
    zone: &[u8],
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    let time = match date {
        GoValue::Time(time) => *time,
        GoValue::Int(_, seconds) => PointInTime::from_seconds(*seconds),
        _ => return Err(refuse_clock()),
    };
    if !matches!(zone, b"" | b"UTC" | b"Local") {
        let message = format!("the zone {:?}: federate only carries out UTC", to_valid_text(zone));
        return Err(TemplateFailure::new(TemplateErrorKind::RefusedFunction, message));
    }
    budget.spend_bytes(layout.len().saturating_mul(4))?;
    make_text(time.format(&to_valid_text(layout)), budget)
}

/// The largest unit that is exceeded.
fn round_duration(nanoseconds: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;
    let length = nanoseconds.unsigned_abs();
    let units = [
        (365 * DAY, "y"),
        (30 * DAY, "mo"),
        (DAY, "d"),
        (3600 * SECOND, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let unit = units.into_iter().find(|(unit, _)| length > *unit);
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", length / unit))
}
