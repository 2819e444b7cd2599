//! Durations as Go writes and reads them (`1m40s`): flags and annotations of control planes.

use jiff::SignedDuration;

const NANOS: i128 = 1_000_000_000;

/// The units of Go's notation in nanoseconds, the longest first.
const UNITS: [(&str, i128); 7] = [
    ("h", 3600 * NANOS),
    ("ms", 1_000_000),
    ("m", 60 * NANOS),
    ("s", NANOS),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Reads Go's notation; `None` when it is malformed.
///
/// ```
/// use federate_dialect::goduration::{format_duration, parse};
/// let duration = parse("1h1m40.5s").unwrap();
/// assert_eq!((duration.as_secs(), format_duration(duration).as_str()), (3700, "1h1m40.5s"));
/// assert_eq!(parse("30"), None);
/// ```
pub fn parse(text: &str) -> Option<SignedDuration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if matches!(rest, "" | "0") {
        return (!rest.is_empty()).then_some(SignedDuration::ZERO);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (number, tail) = rest.split_at(end);
        let (unit, size) = UNITS.into_iter().find(|(unit, _)| tail.starts_with(unit))?;
        total = total.checked_add(scale_decimal(number, size)?)?;
        rest = tail.get(unit.len()..)?;
    }
    i64::try_from(sign * total).ok().map(SignedDuration::from_nanos)
}

/// A decimal number times a unit, in nanoseconds; what is finer is cut off.
fn scale_decimal(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let power = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = parse_digits(whole)?.checked_mul(unit)?;
    whole.checked_add(parse_digits(fraction)?.checked_mul(unit)?.checked_div(power)?)
}

fn parse_digits(text: &str) -> Option<i128> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

/// The duration in Go's notation: `1m40s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.abs();
    let (hours, minutes) = (nanos / (3600 * NANOS), nanos / (60 * NANOS) % 60);
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", format_decimal(nanos, 1_000)),
        1_000_000..NANOS => format!("{sign}{}ms", format_decimal(nanos, 1_000_000)),
        _ if hours > 0 => format!("{sign}{hours}h{minutes}m{}s", format_decimal(nanos, NANOS)),
        _ if minutes > 0 => format!("{sign}{minutes}m{}s", format_decimal(nanos, NANOS)),
        _ => format!("{sign}{}s", format_decimal(nanos, NANOS)),
    }
}

/// The nanoseconds within a minute as a decimal number of units.
fn format_decimal(nanos: i128, unit: i128) -> String {
    let (whole, rest) = (nanos % (60 * NANOS) / unit, nanos % unit);
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    match digits.trim_end_matches('0') {
        "" => whole.to_string(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["0s", "30s", "1m0s", "1m40s", "3m59s", "5m0s", "1h0m0s", "26h3m0.25s", "250ms", "-1m0s"]
        {
            assert_eq!(parse(text).map(format_duration).as_deref(), Some(text));
        }
        assert_eq!(parse("90s").map(format_duration).as_deref(), Some("1m30s"));
        assert_eq!(parse("1.5h").map(format_duration).as_deref(), Some("1h30m0s"));
        for text in ["", "s", "1", "1x", ".s", "1m-5s", "1 m"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
