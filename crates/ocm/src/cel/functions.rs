//! The functions and operators over values. Those that have no result are errors.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value;

use cel::common::ast::operators as op;
use federate_dialect::goduration;
use federate_kubernetes::quantity::Quantity;

use super::format::{format_values, quote_text, write_double, write_span};
use super::network::{self, Network, ParsedUrl, parse_address};
use super::texts::{self, Version};
use super::value::{CelValue, EvaluationError, Outcome};
use crate::quantity::approximate;

use CelValue::{Address, Bool, Bytes, Double, Int, List, Map, Optional, Span, Text, Time, Type, Uint, Url};

/// Calls a function. The target of a member function is the first value.
pub(super) fn call_function(name: &str, is_member: bool, values: &[CelValue]) -> Outcome {
    let result = match (name, values) {
        (op::EQUALS, [a, b]) => Some(Bool(a.equals(b))),
        (op::NOT_EQUALS, [a, b]) => Some(Bool(!a.equals(b))),
        (op::LESS, [a, b]) => order(a, b, Ordering::is_lt),
        (op::LESS_EQUALS, [a, b]) => order(a, b, Ordering::is_le),
        (op::GREATER, [a, b]) => order(a, b, Ordering::is_gt),
        (op::GREATER_EQUALS, [a, b]) => order(a, b, Ordering::is_ge),
        (op::LOGICAL_NOT, [Bool(value)]) => Some(Bool(!value)),
        (op::NEGATE, [value]) => negate(value),
        (op::ADD, [a, b]) => add(a, b),
        (op::SUBSTRACT, [a, b]) => subtract(a, b),
        (op::MULTIPLY | op::DIVIDE | op::MODULO, [a, b]) => compute(name, a, b),
        (op::IN, [item, List(items)]) => Some(Bool(items.iter().any(|one| one.equals(item)))),
        (op::IN, [key, map @ Map(_)]) => Some(Bool(map.entry(key).is_some())),
        (op::INDEX, [container, key]) => index(container, key),
        (op::OPT_SELECT | op::OPT_INDEX, [container, key]) => select_optional(container, key),
        ("url" | "isURL", [Text(text)]) if !is_member => return read_url(name, text),
        (_, [Time(time), Text(zone)]) if is_member => return read_in_zone(name, *time, zone),
        _ if is_member => call_member(name, values),
        _ => call_global(name, values),
    };
    result.ok_or(EvaluationError::Failed)
}

fn read_url(name: &str, text: &str) -> Outcome {
    let url = ParsedUrl::parse(text)
        .map_err(|()| EvaluationError::Unsupported("it parses a rare form of a URL"))?;
    match url {
        _ if name == "isURL" => Ok(Bool(url.is_some())),
        Some(url) => Ok(Url(url.into())),
        None => Err(EvaluationError::Failed),
    }
}

/// A part of a time in a zone, which is an offset from UTC or the name of a place.
fn read_in_zone(name: &str, time: Timestamp, zone: &str) -> Outcome {
    let unknown = EvaluationError::Unsupported("it names a time zone");
    let offset = match zone.split_once(':') {
        None if matches!(zone, "" | "UTC") => 0,
        None => return Err(unknown),
        Some((hours, minutes)) => {
            let (hours, minutes): (i32, i32) =
                hours.parse().ok().zip(minutes.parse().ok()).ok_or(EvaluationError::Failed)?;
            let minutes = if hours < 0 || zone.starts_with('-') { -minutes } else { minutes };
            hours.checked_mul(60).and_then(|all| all.checked_add(minutes)).ok_or(EvaluationError::Failed)?
        }
    };
    let shifted = time.checked_add(jiff::SignedDuration::from_mins(i64::from(offset)));
    shifted.ok().and_then(|time| read_time(name, time)).ok_or(EvaluationError::Failed)
}

/// A part of a time. Months and days are counted from 0, but for the date.
fn read_time(name: &str, time: Timestamp) -> Option<CelValue> {
    let at = jiff::tz::Offset::UTC.to_datetime(time);
    let part = match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return None,
    };
    Some(Int(part))
}

/// A span in whole units.
fn read_span(name: &str, span: jiff::SignedDuration) -> Option<CelValue> {
    let units = match name {
        "getHours" => span.as_hours(),
        "getMinutes" => span.as_mins(),
        "getSeconds" => span.as_secs(),
        "getMilliseconds" => i64::try_from(span.as_millis()).ok()?,
        _ => return None,
    };
    Some(Int(units))
}

/// Whether a value is that which its type has without a value.
fn is_zero(value: &CelValue) -> bool {
    match value {
        CelValue::Null => true,
        Bool(value) => !value,
        Int(value) => *value == 0,
        Uint(value) => *value == 0,
        Double(value) => *value == 0.0,
        Text(text) => text.is_empty(),
        Bytes(bytes) => bytes.is_empty(),
        List(items) => items.is_empty(),
        Map(entries) => entries.is_empty(),
        Span(span) => span.is_zero(),
        Optional(inner) => inner.is_none(),
        _ => false,
    }
}

/// The values of the optionals in a list.
fn unwrap_all(items: &[CelValue]) -> Option<CelValue> {
    let mut values = Vec::new();
    for item in items {
        let Optional(inner) = item else { return None };
        values.extend(inner.as_deref().cloned());
    }
    Some(List(values.into()))
}

/// Whether the status of an object has conditions.
fn has_conditions(status: &CelValue) -> bool {
    let conditions = status.entry(&CelValue::text("conditions"));
    matches!(conditions, Some(List(conditions)) if !conditions.is_empty())
}

fn order(a: &CelValue, b: &CelValue, test: impl Fn(Ordering) -> bool) -> Option<CelValue> {
    // Numbers that are not numbers have no order, and compare as false.
    if let (Double(x), Double(y)) = (a, b)
        && (x.is_nan() || y.is_nan())
    {
        return Some(Bool(false));
    }
    a.compare(b).map(|order| Bool(test(order)))
}

fn negate(value: &CelValue) -> Option<CelValue> {
    match value {
        Int(value) => value.checked_neg().map(Int),
        Double(value) => Some(Double(-value)),
        _ => None,
    }
}

fn add(a: &CelValue, b: &CelValue) -> Option<CelValue> {
    match (a, b) {
        (Int(a), Int(b)) => a.checked_add(*b).map(Int),
        (Uint(a), Uint(b)) => a.checked_add(*b).map(Uint),
        (Double(a), Double(b)) => Some(Double(a + b)),
        (Text(a), Text(b)) => Some(CelValue::text(format!("{a}{b}"))),
        (Bytes(a), Bytes(b)) => Some(Bytes(a.iter().chain(b.iter()).copied().collect())),
        (List(a), List(b)) => Some(List(a.iter().chain(b.iter()).cloned().collect())),
        (Time(time), Span(span)) | (Span(span), Time(time)) => time.checked_add(*span).ok().map(Time),
        (Span(a), Span(b)) => a.checked_add(*b).map(Span),
        _ => None,
    }
}

fn subtract(a: &CelValue, b: &CelValue) -> Option<CelValue> {
    match (a, b) {
        (Int(a), Int(b)) => a.checked_sub(*b).map(Int),
        (Uint(a), Uint(b)) => a.checked_sub(*b).map(Uint),
        (Double(a), Double(b)) => Some(Double(a - b)),
        (Time(time), Span(span)) => time.checked_sub(*span).ok().map(Time),
        (Time(a), Time(b)) => Some(Span(a.duration_since(*b))),
        (Span(a), Span(b)) => a.checked_sub(*b).map(Span),
        _ => None,
    }
}

fn compute(name: &str, a: &CelValue, b: &CelValue) -> Option<CelValue> {
    match (name, a, b) {
        (op::MULTIPLY, Int(a), Int(b)) => a.checked_mul(*b).map(Int),
        (op::MULTIPLY, Uint(a), Uint(b)) => a.checked_mul(*b).map(Uint),
        (op::MULTIPLY, Double(a), Double(b)) => Some(Double(a * b)),
        (op::DIVIDE, Int(a), Int(b)) => a.checked_div(*b).map(Int),
        (op::DIVIDE, Uint(a), Uint(b)) => a.checked_div(*b).map(Uint),
        (op::DIVIDE, Double(a), Double(b)) => Some(Double(a / b)),
        (op::MODULO, Int(a), Int(b)) => a.checked_rem(*b).map(Int),
        (op::MODULO, Uint(a), Uint(b)) => a.checked_rem(*b).map(Uint),
        _ => None,
    }
}

/// The item of a list, or the value of a key.
fn index(container: &CelValue, key: &CelValue) -> Option<CelValue> {
    match (container, key) {
        (List(items), key) => items.get(list_index(key)?).cloned(),
        (map @ Map(_), key) => map.entry(key).cloned(),
        (Optional(inner), key) => {
            Some(Optional(inner.as_ref().and_then(|inner| index(inner, key)).map(Box::new)))
        }
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole")]
fn list_index(key: &CelValue) -> Option<usize> {
    match key {
        Int(at) => usize::try_from(*at).ok(),
        Uint(at) => usize::try_from(*at).ok(),
        Double(at) if at.fract() == 0.0 && at.abs() < 1e15 => usize::try_from(*at as i64).ok(),
        _ => None,
    }
}

fn select_optional(container: &CelValue, key: &CelValue) -> Option<CelValue> {
    let found = match container {
        Map(_) | List(_) => index(container, key),
        Optional(inner) => inner.as_ref().and_then(|inner| index(inner, key)),
        _ => return None,
    };
    Some(Optional(found.map(Box::new)))
}

fn size(value: &CelValue) -> Option<CelValue> {
    let size = match value {
        Text(text) => text.chars().count(),
        Bytes(bytes) => bytes.len(),
        List(items) => items.len(),
        Map(entries) => entries.len(),
        _ => return None,
    };
    i64::try_from(size).ok().map(Int)
}

fn call_global(name: &str, values: &[CelValue]) -> Option<CelValue> {
    let [value] = values else {
        return match (name, values) {
            ("matches", [Text(text), Text(pattern)]) => find_matches(text, pattern),
            ("optional.none", []) => Some(Optional(None)),
            _ => None,
        };
    };
    match (name, value) {
        ("size", value) => size(value),
        ("type", value) => Some(Type(value.type_name())),
        ("dyn", value) => Some(value.clone()),
        ("int", value) => to_int(value),
        ("uint", value) => to_uint(value),
        ("double", value) => to_double(value),
        ("string", value) => to_text(value),
        ("bool", Bool(value)) => Some(Bool(*value)),
        ("bool", Text(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Bool(false)),
            _ => None,
        },
        ("bytes", Text(text)) => Some(Bytes(text.bytes().collect())),
        ("bytes", Bytes(bytes)) => Some(Bytes(bytes.clone())),
        ("timestamp", Text(text)) => text.parse().ok().map(Time),
        ("timestamp", Int(seconds)) => Timestamp::from_second(*seconds).ok().map(Time),
        ("timestamp", Time(time)) => Some(Time(*time)),
        ("duration", Text(text)) => goduration::parse(text).map(Span),
        ("duration", Span(span)) => Some(Span(*span)),
        ("quantity", Text(text)) => Some(read_quantity(text)?),
        ("isQuantity", Text(text)) => Some(Bool(read_quantity(text).is_some())),
        ("semver", Text(text)) => Version::parse(text).map(CelValue::Version),
        ("isSemver", Text(text)) => Some(Bool(Version::parse(text).is_some())),
        ("ip", Text(text)) => parse_address(text).map(Address),
        ("isIP", Text(text)) => Some(Bool(parse_address(text).is_some())),
        ("cidr", Text(text)) => Network::parse(text).map(CelValue::Network),
        ("isCIDR", Text(text)) => Some(Bool(Network::parse(text).is_some())),
        ("ip.isCanonical", Text(text)) => {
            parse_address(text).map(|address| Bool(address.to_string() == **text))
        }
        ("strings.quote", Text(text)) => Some(CelValue::text(quote_text(text))),
        ("optional.of", value) => Some(Optional(Some(Box::new(value.clone())))),
        ("optional.ofNonZeroValue", value) => {
            Some(Optional((!is_zero(value)).then(|| Box::new(value.clone()))))
        }
        ("optional.unwrap", List(items)) => unwrap_all(items),
        ("hasConditions", status) => Some(Bool(has_conditions(status))),
        _ => None,
    }
}

fn read_quantity(text: &str) -> Option<CelValue> {
    let quantity = Quantity::parse(text)?;
    Some(CelValue::Quantity(quantity, approximate(&Value::from(text)).map(f64::to_bits)))
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn to_int(value: &CelValue) -> Option<CelValue> {
    match value {
        Int(value) => Some(Int(*value)),
        Uint(value) => i64::try_from(*value).ok().map(Int),
        Double(value) => {
            let is_in_range = *value > -9_223_372_036_854_775_808.0 && *value < 9_223_372_036_854_775_808.0;
            is_in_range.then_some(Int(*value as i64))
        }
        Text(text) => text.parse().ok().map(Int),
        Time(time) => Some(Int(time.as_second())),
        Span(span) => i64::try_from(span.as_nanos()).ok().map(Int),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn to_uint(value: &CelValue) -> Option<CelValue> {
    match value {
        Uint(value) => Some(Uint(*value)),
        Int(value) => u64::try_from(*value).ok().map(Uint),
        Double(value) => {
            (*value >= 0.0 && *value < 18_446_744_073_709_551_616.0).then_some(Uint(*value as u64))
        }
        Text(text) => text.parse().ok().map(Uint),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the hub converts it")]
fn to_double(value: &CelValue) -> Option<CelValue> {
    match value {
        Double(value) => Some(Double(*value)),
        Int(value) => Some(Double(*value as f64)),
        Uint(value) => Some(Double(*value as f64)),
        Text(text) => text.parse().ok().map(Double),
        _ => None,
    }
}

fn to_text(value: &CelValue) -> Option<CelValue> {
    let text = match value {
        Text(text) => return Some(Text(text.clone())),
        Bool(value) => value.to_string(),
        Int(value) => value.to_string(),
        Uint(value) => value.to_string(),
        Double(value) => write_double(*value),
        Span(span) => write_span(*span),
        Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Time(time) => time.to_string(),
        Address(address) => address.to_string(),
        CelValue::Network(network) => format!("{}/{}", network.address, network.length),
        _ => return None,
    };
    Some(CelValue::text(text))
}

fn find_matches(text: &str, pattern: &str) -> Option<CelValue> {
    let pattern = regex::Regex::new(pattern).ok()?;
    Some(Bool(pattern.is_match(text)))
}

fn call_member(name: &str, values: &[CelValue]) -> Option<CelValue> {
    match values {
        [Text(text), rest @ ..] => call_on_text(name, text, rest),
        [List(items), rest @ ..] => call_on_list(name, items, rest),
        [CelValue::Quantity(quantity, approximated), rest @ ..] => {
            call_on_quantity(name, *quantity, *approximated, rest)
        }
        [CelValue::Version(version), rest @ ..] => call_on_version(name, version, rest),
        [Optional(inner), rest @ ..] => call_on_optional(name, inner.as_deref(), rest),
        [Address(address), rest @ ..] => match (name, rest) {
            ("family", []) => Some(Int(if address.is_ipv4() { 4 } else { 6 })),
            ("isUnspecified", []) => Some(Bool(address.is_unspecified())),
            ("isLoopback", []) => Some(Bool(address.is_loopback())),
            ("isLinkLocalMulticast", []) => Some(Bool(network::is_link_local_multicast(*address))),
            ("isLinkLocalUnicast", []) => Some(Bool(network::is_link_local(*address))),
            ("isGlobalUnicast", []) => Some(Bool(network::is_global_unicast(*address))),
            _ => None,
        },
        [CelValue::Network(network), rest @ ..] => match (name, rest) {
            ("containsIP", [Address(address)]) => Some(Bool(network.contains(*address))),
            ("containsIP", [Text(text)]) => Some(Bool(network.contains(parse_address(text)?))),
            ("containsCIDR", [CelValue::Network(other)]) => Some(Bool(network.contains_network(other))),
            ("containsCIDR", [Text(text)]) => Some(Bool(network.contains_network(&Network::parse(text)?))),
            ("ip", []) => Some(Address(network.address)),
            ("masked", []) => Some(CelValue::Network(network.masked())),
            ("prefixLength", []) => Some(Int(i64::from(network.length))),
            _ => None,
        },
        [Url(url), rest @ ..] => {
            let part = match (name, rest) {
                ("getScheme", []) => &url.scheme,
                ("getHost", []) => &url.host,
                ("getHostname", []) => &url.hostname,
                ("getPort", []) => &url.port,
                ("getEscapedPath", []) => &url.path,
                _ => return None,
            };
            Some(CelValue::text(part.as_str()))
        }
        [Time(time)] => read_time(name, *time),
        [Span(span)] => read_span(name, *span),
        [value @ (Map(_) | Bytes(_))] if name == "size" => size(value),
        _ => None,
    }
}

fn call_on_text(name: &str, text: &str, rest: &[CelValue]) -> Option<CelValue> {
    Some(match (name, rest) {
        ("size", []) => size(&CelValue::text(text))?,
        ("contains", [Text(part)]) => Bool(text.contains(&**part)),
        ("startsWith", [Text(part)]) => Bool(text.starts_with(&**part)),
        ("endsWith", [Text(part)]) => Bool(text.ends_with(&**part)),
        ("matches", [Text(pattern)]) => find_matches(text, pattern)?,
        ("format", [List(values)]) => CelValue::text(format_values(text, values)?),
        ("charAt", [Int(at)]) => {
            let length = i64::try_from(text.chars().count()).ok()?;
            let cut =
                if *at == length { Some(String::new()) } else { texts::cut(text, *at, at.checked_add(1)) };
            CelValue::text(cut?)
        }
        ("indexOf", [Text(part)]) => Int(texts::find(text, part, 0)?),
        ("indexOf", [Text(part), Int(from)]) => Int(texts::find(text, part, *from)?),
        ("lastIndexOf", [Text(part)]) => Int(texts::find_last(text, part, None)?),
        ("lastIndexOf", [Text(part), Int(up_to)]) => Int(texts::find_last(text, part, Some(*up_to))?),
        ("lowerAscii", []) => CelValue::text(text.to_ascii_lowercase()),
        ("upperAscii", []) => CelValue::text(text.to_ascii_uppercase()),
        ("replace", [Text(old), Text(new)]) => CelValue::text(text.replace(&**old, new)),
        ("replace", [Text(old), Text(new), Int(limit)]) => match usize::try_from(*limit) {
            Ok(limit) => CelValue::text(text.replacen(&**old, new, limit)),
            Err(_) => CelValue::text(text.replace(&**old, new)),
        },
        ("reverse", []) => CelValue::text(text.chars().rev().collect::<String>()),
        ("split", [Text(separator)]) => {
            CelValue::list(texts::split(text, separator, -1).into_iter().map(CelValue::text))
        }
        ("split", [Text(separator), Int(limit)]) => {
            CelValue::list(texts::split(text, separator, *limit).into_iter().map(CelValue::text))
        }
        ("substring", [Int(from)]) => CelValue::text(texts::cut(text, *from, None)?),
        ("substring", [Int(from), Int(to)]) => CelValue::text(texts::cut(text, *from, Some(*to))?),
        ("trim", []) => CelValue::text(text.trim()),
        ("find", [Text(pattern)]) => {
            let pattern = regex::Regex::new(pattern).ok()?;
            CelValue::text(pattern.find(text).map_or("", |found| found.as_str()))
        }
        ("findAll", [Text(pattern)]) => find_all(text, pattern, usize::MAX)?,
        ("findAll", [Text(pattern), Int(limit)]) => {
            find_all(text, pattern, usize::try_from(*limit).unwrap_or(usize::MAX))?
        }
        ("parseJSON", []) => {
            let value: Value = serde_json::from_str(text).ok()?;
            CelValue::from_json(&value)
        }
        _ => return None,
    })
}

fn find_all(text: &str, pattern: &str, limit: usize) -> Option<CelValue> {
    let pattern = regex::Regex::new(pattern).ok()?;
    let found = pattern.find_iter(text).take(limit).map(|found| CelValue::text(found.as_str()));
    Some(CelValue::list(found))
}

/// An index, or -1 for none.
fn index_or_none(found: Option<usize>) -> CelValue {
    Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn call_on_list(name: &str, items: &[CelValue], rest: &[CelValue]) -> Option<CelValue> {
    match (name, rest) {
        ("size", []) => i64::try_from(items.len()).ok().map(Int),
        ("join", []) => join(items, ""),
        ("join", [Text(separator)]) => join(items, separator),
        ("indexOf", [item]) => Some(index_or_none(items.iter().position(|one| one.equals(item)))),
        ("lastIndexOf", [item]) => Some(index_or_none(items.iter().rposition(|one| one.equals(item)))),
        ("unwrapOpt", []) => unwrap_all(items),
        ("first", []) => Some(Optional(items.first().cloned().map(Box::new))),
        ("last", []) => Some(Optional(items.last().cloned().map(Box::new))),
        ("sum", []) => match items {
            [] => Some(Int(0)),
            [first, others @ ..] => others.iter().try_fold(first.clone(), |sum, item| add(&sum, item)),
        },
        ("isSorted", []) => {
            let mut is_sorted = true;
            for pair in items.windows(2) {
                let [a, b] = pair else { continue };
                is_sorted &= a.compare(b)?.is_le();
            }
            Some(Bool(is_sorted))
        }
        ("min" | "max", []) => {
            let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
            let (first, others) = items.split_first()?;
            let mut best = first;
            for item in others {
                if item.compare(best)? == wanted {
                    best = item;
                }
            }
            Some(best.clone())
        }
        _ => None,
    }
}

fn join(items: &[CelValue], separator: &str) -> Option<CelValue> {
    let texts: Option<Vec<&str>> = items
        .iter()
        .map(|item| match item {
            Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    Some(CelValue::text(texts?.join(separator)))
}

/// What can be added to a quantity.
fn read_summand(value: &CelValue) -> Option<Quantity> {
    match value {
        CelValue::Quantity(quantity, _) => Some(*quantity),
        Int(number) => Some(Quantity::from_int(*number)),
        _ => None,
    }
}

fn call_on_quantity(
    name: &str,
    quantity: Quantity,
    approximated: Option<u64>,
    rest: &[CelValue],
) -> Option<CelValue> {
    const NANO: i128 = 1_000_000_000;
    let whole =
        (quantity.as_nanos() % NANO == 0).then(|| i64::try_from(quantity.as_nanos() / NANO).ok()).flatten();
    let compare = |other: &CelValue| match other {
        CelValue::Quantity(other, _) => Some(quantity.cmp(other)),
        _ => None,
    };
    match (name, rest) {
        ("compareTo", [value]) => compare(value).map(|order| Int(order as i64)),
        ("isLessThan", [value]) => compare(value).map(|order| Bool(order.is_lt())),
        ("isGreaterThan", [value]) => compare(value).map(|order| Bool(order.is_gt())),
        ("add", [value]) => Some(CelValue::Quantity(quantity + read_summand(value)?, None)),
        ("sub", [value]) => Some(CelValue::Quantity(quantity - read_summand(value)?, None)),
        ("sign", []) => Some(Int(quantity.as_nanos().signum().try_into().ok()?)),
        ("isInteger", []) => Some(Bool(whole.is_some())),
        ("asInteger", []) => whole.map(Int),
        ("asApproximateFloat", []) => {
            Some(Double(approximated.map_or_else(|| quantity.as_approximate_f64(), f64::from_bits)))
        }
        _ => None,
    }
}

fn call_on_version(name: &str, version: &Version, rest: &[CelValue]) -> Option<CelValue> {
    let number = |at: usize| version.numbers.get(at).and_then(|number| i64::try_from(*number).ok()).map(Int);
    match (name, rest) {
        ("major", []) => number(0),
        ("minor", []) => number(1),
        ("patch", []) => number(2),
        ("compareTo", [CelValue::Version(other)]) => Some(Int(version.compare(other) as i64)),
        ("isLessThan", [CelValue::Version(other)]) => Some(Bool(version.compare(other).is_lt())),
        ("isGreaterThan", [CelValue::Version(other)]) => Some(Bool(version.compare(other).is_gt())),
        _ => None,
    }
}

fn call_on_optional(name: &str, inner: Option<&CelValue>, rest: &[CelValue]) -> Option<CelValue> {
    match (name, rest) {
        ("hasValue", []) => Some(Bool(inner.is_some())),
        ("value", []) => inner.cloned(),
        _ => None,
    }
}
