//! Points in time in UTC, which templates read from texts and write in Go's layouts.

use std::fmt;

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PointInTime {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CivilTime {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The point that a date that cannot be read is: the first of January of the year 1.
pub(crate) const ZERO_TIME: PointInTime = PointInTime { seconds: -62_135_596_800, nanoseconds: 0 };

const DAY: i64 = 86_400;

/// The days from 1970 to a date of the Gregorian calendar.
fn days_to(year: i64, month: u32, day: u32) -> i64 {
    // Years begin in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = i64::from((month + 9) % 12);
    let of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year, month and day of a number of days since 1970.
fn date_of(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LayoutElement {
    LongMonth,
    ShortMonth,
    /// With a digit `0` before it (`true`), or without.
    Month(bool),
    LongDay,
    ShortDay,
    Day(bool),
    SpaceDay,
    DayOfYear,
    Hour24,
    Hour12(bool),
    Minute(bool),
    Second(bool),
    Year4,
    Year2,
    UpperHalf,
    LowerHalf,
    ZoneName,
    /// An offset: whether UTC is `Z`, and whether it has a colon.
    Offset {
        z: bool,
        colon: bool,
    },
    /// Digits of a second; with `true`, zeros are shown.
    Fraction {
        digits: usize,
        zeros: bool,
    },
}

/// The elements that a layout may begin with, the longer ones first.
const ELEMENTS: [(&str, LayoutElement); 26] = [
    ("January", LayoutElement::LongMonth),
    ("Jan", LayoutElement::ShortMonth),
    ("Monday", LayoutElement::LongDay),
    ("Mon", LayoutElement::ShortDay),
    ("MST", LayoutElement::ZoneName),
    ("2006", LayoutElement::Year4),
    ("002", LayoutElement::DayOfYear),
    ("01", LayoutElement::Month(true)),
    ("02", LayoutElement::Day(true)),
    ("03", LayoutElement::Hour12(true)),
    ("04", LayoutElement::Minute(true)),
    ("05", LayoutElement::Second(true)),
    ("06", LayoutElement::Year2),
    ("15", LayoutElement::Hour24),
    ("_2", LayoutElement::SpaceDay),
    ("PM", LayoutElement::UpperHalf),
    ("pm", LayoutElement::LowerHalf),
    ("-07:00", LayoutElement::Offset { z: false, colon: true }),
    ("-0700", LayoutElement::Offset { z: false, colon: false }),
    ("Z07:00", LayoutElement::Offset { z: true, colon: true }),
    ("Z0700", LayoutElement::Offset { z: true, colon: false }),
    ("1", LayoutElement::Month(false)),
    ("2", LayoutElement::Day(false)),
    ("3", LayoutElement::Hour12(false)),
    ("4", LayoutElement::Minute(false)),
    ("5", LayoutElement::Second(false)),
];

/// The element at the start of a layout, and its length.
fn element_at(layout: &str) -> Option<(LayoutElement, usize)> {
    if layout.starts_with("_2006") {
        // An underscore before a year.
        return None;
    }
    if layout.starts_with(['.', ',']) {
        let digits = layout.get(1..)?;
        for (digit, zeros) in [('0', true), ('9', false)] {
            let length = digits.len() - digits.trim_start_matches(digit).len();
            let ends = !digits.get(length..)?.starts_with(|c: char| c.is_ascii_digit());
            if length > 0 && ends {
                return Some((LayoutElement::Fraction { digits: length, zeros }, length + 1));
            }
        }
        return None;
    }
    let (name, element) = ELEMENTS.into_iter().find(|(name, _)| layout.starts_with(name))?;
    // `Month` is no `Mon`.
    let is_word = matches!(element, LayoutElement::ShortMonth | LayoutElement::ShortDay);
    if is_word && layout.get(3..)?.starts_with(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    Some((element, name.len()))
}

/// Splits a layout into elements and the texts before them.
fn split_layout(layout: &str) -> (Vec<(&str, LayoutElement)>, &str) {
    let mut elements = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(rest) = layout.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((element, length)) = element_at(rest) {
            elements.push((layout.get(start..at).unwrap_or_default(), element));
            at += length;
            start = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    (elements, layout.get(start..).unwrap_or_default())
}

impl PointInTime {
    /// The point some seconds after 1970.
    pub(crate) fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    pub(crate) fn civil(self) -> CivilTime {
        let (year, month, day) = date_of(self.seconds.div_euclid(DAY));
        let second = u32::try_from(self.seconds.rem_euclid(DAY)).unwrap_or(0);
        CivilTime { year, month, day, hour: second / 3600, minute: second / 60 % 60, second: second % 60 }
    }

    /// The point some nanoseconds later.
    pub(crate) fn add(self, nanoseconds: i64) -> Option<Self> {
        let total =
            i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds) + i128::from(nanoseconds);
        let seconds = i64::try_from(total.div_euclid(1_000_000_000)).ok()?;
        Some(Self { seconds, nanoseconds: u32::try_from(total.rem_euclid(1_000_000_000)).ok()? })
    }

    pub(crate) fn format_rfc3339(self) -> String {
        self.format("2006-01-02T15:04:05.999999999Z07:00")
    }

    /// The text of a layout.
    pub(crate) fn format(self, layout: &str) -> String {
        let civil = self.civil();
        let (elements, rest) = split_layout(layout);
        let mut out = String::new();
        let pad = |number: u32, zero: bool| if zero { format!("{number:02}") } else { number.to_string() };
        let month = MONTHS.get(civil.month.saturating_sub(1) as usize).copied().unwrap_or_default();
        let weekday = (self.seconds.div_euclid(DAY) + 4).rem_euclid(7);
        let weekday =
            usize::try_from(weekday).ok().and_then(|day| DAYS.get(day)).copied().unwrap_or_default();
        let hour12 = if civil.hour.is_multiple_of(12) { 12 } else { civil.hour % 12 };
        for (before, element) in elements {
            out.push_str(before);
            out.push_str(&match element {
                LayoutElement::LongMonth => month.to_owned(),
                LayoutElement::ShortMonth => month.chars().take(3).collect(),
                LayoutElement::Month(zero) => pad(civil.month, zero),
                LayoutElement::LongDay => weekday.to_owned(),
                LayoutElement::ShortDay => weekday.chars().take(3).collect(),
                LayoutElement::Day(zero) => pad(civil.day, zero),
                LayoutElement::SpaceDay => format!("{:2}", civil.day),
                LayoutElement::DayOfYear => {
                    let day = self.seconds.div_euclid(DAY) - days_to(civil.year, 1, 1) + 1;
                    format!("{day:03}")
                }
                LayoutElement::Hour24 => pad(civil.hour, true),
                LayoutElement::Hour12(zero) => pad(hour12, zero),
                LayoutElement::Minute(zero) => pad(civil.minute, zero),
                LayoutElement::Second(zero) => pad(civil.second, zero),
                LayoutElement::Year4 if civil.year < 0 => format!("-{:04}", -civil.year),
                LayoutElement::Year4 => format!("{:04}", civil.year),
                LayoutElement::Year2 => format!("{:02}", civil.year.rem_euclid(100)),
                LayoutElement::UpperHalf => if civil.hour < 12 { "AM" } else { "PM" }.to_owned(),
                LayoutElement::LowerHalf => if civil.hour < 12 { "am" } else { "pm" }.to_owned(),
                LayoutElement::ZoneName => "UTC".to_owned(),
                LayoutElement::Offset { z: true, .. } => "Z".to_owned(),
                LayoutElement::Offset { colon, .. } => if colon { "+00:00" } else { "+0000" }.to_owned(),
                LayoutElement::Fraction { digits, zeros } => self.format_fraction(digits, zeros),
            });
        }
        out.push_str(rest);
        out
    }

    fn format_fraction(self, digits: usize, zeros: bool) -> String {
        let all = format!("{:09}", self.nanoseconds);
        let shown = all.get(..digits.min(9)).unwrap_or(&all);
        let shown = if zeros { shown } else { shown.trim_end_matches('0') };
        if shown.is_empty() { String::new() } else { format!(".{shown}") }
    }

    /// The point that a text in a layout is; without an offset it is in UTC.
    pub(crate) fn parse(layout: &str, text: &str) -> Option<Self> {
        let mut reader = TimeReader::default();
        let mut rest = text;
        let (elements, end) = split_layout(layout);
        for (before, element) in elements {
            rest = skip_prefix(rest, before)?;
            rest = reader.read(element, rest)?;
        }
        rest = skip_prefix(rest, end)?;
        if !rest.is_empty() {
            return None;
        }
        reader.finish()
    }
}

/// Skips the text of a layout; a blank stands for any number of them.
fn skip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let mut text = text;
    let mut prefix = prefix;
    while let Some(wanted) = prefix.chars().next() {
        if wanted == ' ' {
            if !text.is_empty() && !text.starts_with(' ') {
                return None;
            }
            prefix = prefix.trim_start_matches(' ');
            text = text.trim_start_matches(' ');
        } else {
            text = text.strip_prefix(wanted)?;
            prefix = prefix.get(wanted.len_utf8()..)?;
        }
    }
    Some(text)
}

/// What has been read of a text.
#[derive(Default)]
struct TimeReader {
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanoseconds: u32,
    afternoon: Option<bool>,
    offset: i64,
    /// Whether a name of a zone or a number out of its range was read.
    invalid: bool,
}

impl TimeReader {
    /// Reads an element, and returns what follows.
    fn read<'t>(&mut self, element: LayoutElement, text: &'t str) -> Option<&'t str> {
        match element {
            LayoutElement::LongMonth | LayoutElement::ShortMonth => {
                let length = if element == LayoutElement::ShortMonth { Some(3) } else { None };
                let (month, rest) = read_name(&MONTHS, length, text)?;
                self.month = u32::try_from(month + 1).ok();
                Some(rest)
            }
            LayoutElement::LongDay => read_name(&DAYS, None, text).map(|(_, rest)| rest),
            LayoutElement::ShortDay => read_name(&DAYS, Some(3), text).map(|(_, rest)| rest),
            LayoutElement::Month(fixed) => {
                let (month, rest) = read_number(text, fixed)?;
                self.month = Some(month);
                Some(rest)
            }
            LayoutElement::Day(_) | LayoutElement::SpaceDay => {
                let text = if element == LayoutElement::SpaceDay {
                    text.strip_prefix(' ').unwrap_or(text)
                } else {
                    text
                };
                let (day, rest) = read_number(text, element == LayoutElement::Day(true))?;
                self.day = Some(day);
                Some(rest)
            }
            LayoutElement::DayOfYear => {
                let (digits, rest) = text.split_at_checked(3)?;
                self.day_of_year = Some(digits.parse().ok()?);
                Some(rest)
            }
            LayoutElement::Hour24 => {
                let (hour, rest) = read_number(text, false)?;
                self.hour = hour;
                self.invalid |= hour > 23;
                Some(rest)
            }
            LayoutElement::Hour12(fixed) => {
                let (hour, rest) = read_number(text, fixed)?;
                self.hour = hour;
                self.invalid |= hour > 12;
                Some(rest)
            }
            LayoutElement::Minute(fixed) => {
                let (minute, rest) = read_number(text, fixed)?;
                self.minute = minute;
                self.invalid |= minute > 59;
                Some(rest)
            }
            LayoutElement::Second(fixed) => {
                let (second, rest) = read_number(text, fixed)?;
                self.second = second;
                self.invalid |= second > 59;
                // A fraction may follow although the layout has none.
                self.read_fraction(rest)
            }
            LayoutElement::Year4 => {
                let (digits, rest) = text.split_at_checked(4)?;
                self.year = parse_year(digits)?;
                Some(rest)
            }
            LayoutElement::Year2 => {
                let (digits, rest) = text.split_at_checked(2)?;
                let year = parse_year(digits)?;
                self.year = if year >= 69 { 1900 + year } else { 2000 + year };
                Some(rest)
            }
            LayoutElement::UpperHalf | LayoutElement::LowerHalf => {
                let (half, rest) = text.split_at_checked(2)?;
                let names = if element == LayoutElement::UpperHalf { ["AM", "PM"] } else { ["am", "pm"] };
                self.afternoon = Some(names.iter().position(|name| *name == half)? == 1);
                Some(rest)
            }
            LayoutElement::ZoneName => text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")),
            LayoutElement::Offset { z, colon } => self.read_offset(text, z, colon),
            LayoutElement::Fraction { .. } => self.read_fraction(text),
        }
    }

    fn read_fraction<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let Some(digits) = text.strip_prefix(['.', ',']) else { return Some(text) };
        let length = digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if length == 0 {
            return Some(text);
        }
        let (digits, rest) = digits.split_at(length);
        self.nanoseconds = format!("{digits:0<9}").get(..9)?.parse().ok()?;
        Some(rest)
    }

    fn read_offset<'t>(&mut self, text: &'t str, z: bool, colon: bool) -> Option<&'t str> {
        if z && let Some(rest) = text.strip_prefix('Z') {
            return Some(rest);
        }
        let sign = match text.chars().next()? {
            '+' => 1,
            '-' => -1,
            _ => return None,
        };
        let (hours, rest) = read_number(text.get(1..)?, true)?;
        let rest = if colon { rest.strip_prefix(':')? } else { rest };
        let (minutes, rest) = read_number(rest, true)?;
        self.offset = sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60);
        Some(rest)
    }

    fn finish(self) -> Option<PointInTime> {
        let month = self.month.unwrap_or(1);
        let day = self.day.unwrap_or(1);
        let days = days_to(self.year, month, day);
        if self.invalid || !(1..=12).contains(&month) || date_of(days) != (self.year, month, day) {
            return None;
        }
        let days = match self.day_of_year {
            Some(day) => days_to(self.year, 1, 1) + i64::from(day) - 1,
            None => days,
        };
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let of_day = i64::from(hour * 3600 + self.minute * 60 + self.second);
        Some(PointInTime { seconds: days * DAY + of_day - self.offset, nanoseconds: self.nanoseconds })
    }
}

fn parse_year(digits: &str) -> Option<i64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// One or two digits; two where `fixed`.
fn read_number(text: &str, fixed: bool) -> Option<(u32, &str)> {
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if length == 0 || (fixed && length < 2) {
        return None;
    }
    let (digits, rest) = text.split_at(length);
    Some((digits.parse().ok()?, rest))
}

/// The position of the name at the start of a text, in any case.
fn read_name<'t>(names: &[&str], length: Option<usize>, text: &'t str) -> Option<(usize, &'t str)> {
    names.iter().enumerate().find_map(|(at, name)| {
        let length = length.unwrap_or(name.len());
        let (start, rest) = text.split_at_checked(length)?;
        start.eq_ignore_ascii_case(name.get(..length)?).then_some((at, rest))
    })
}

impl fmt::Display for PointInTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format("2006-01-02 15:04:05.999999999 -0700 MST"))
    }
}

/// A length of time in nanoseconds: numbers with units, such as `1h30m` or `-1.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit();
        let whole = rest.len() - rest.trim_start_matches(is_digit).len();
        let (digits, after) = rest.split_at(whole);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.len() - after.trim_start_matches(is_digit).len()),
            None => ("", after),
        };
        if digits.len() + fraction.len() == 0 || digits.len() > 19 {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total += format!("0{digits}").parse::<i128>().ok()? * unit;
        let fraction = fraction.get(..fraction.len().min(18))?;
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        total += format!("0{fraction}").parse::<i128>().ok()? * unit / scale;
        rest = after;
    }
    i64::try_from(total * sign).ok()
}

/// A length of time as Go prints it: `1h30m0s`.
pub(crate) fn format_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    if total == 0 {
        return "0s".to_owned();
    }
    let with_fraction = |number: u64, unit: u64| {
        let width = unit.ilog10() as usize;
        let text = format!("{}.{:0width$}", number / unit, number % unit);
        if width == 0 {
            (number / unit).to_string()
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if total < 1_000_000_000 {
        let (unit, name) = match total {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", with_fraction(total, unit));
    }
    let minutes = total / 60_000_000_000;
    let seconds = with_fraction(total % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}
