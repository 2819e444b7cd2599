//! Schedules and time zones of `CronJobs`.
//!
//! Facts: the messages are those of a real API server.

use crate::cron::{CronSchedule, find_time_zone};

/// Why a schedule is invalid, if it is.
pub(super) fn schedule_error(schedule: &str) -> Option<String> {
    if schedule.starts_with("@every ") && !schedule.contains("TZ") {
        return None;
    }
    CronSchedule::parse(schedule).err()
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
    if !other && find_time_zone(zone).is_none() {
        errors.push(format!("{UNKNOWN_ZONE}{zone}"));
    }
    errors
}

/// The message about a name that is no time zone, in front of the name.
pub(crate) const UNKNOWN_ZONE: &str = "unknown time zone ";

#[cfg(test)]
mod tests {
    use super::{schedule_error, time_zone_errors};

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
            assert_eq!(schedule_error(schedule), None, "{schedule}");
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
            assert_eq!(schedule_error(schedule).as_deref(), Some(expected), "{schedule}");
        }
    }
}
