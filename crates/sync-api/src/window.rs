//! Maintenance windows: the times at which a `Sync` may change clusters.
//!
//! A window opens at the times of a schedule and stays open for a duration. Several windows add up. Everything here is a
//! function of the windows and of a time.

use federate_apiserver_model::cron::{CronSchedule, find_time_zone};
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Interval;

/// The longest that a window may stay open, in hours.
const MAX_HOURS: i64 = 31 * 24;
/// The years within which a schedule must have a time: leap days are at most eight years apart.
const MAX_YEARS: i16 = 9;
/// The openings of one window that are looked at to find out when it closes.
const MAX_OPENINGS: usize = 1000;

/// When a Sync may change clusters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintenanceWindow {
    /// When the window opens, as in a `CronJob`: minute, hour, day of the month, month and day of the week, or `@daily`.
    #[schemars(length(min = 1, max = 200))]
    pub schedule: String,
    /// How long it stays open; at most 744h.
    pub duration: Interval,
    /// The time zone of the schedule, by its name in the IANA database; `Etc/UTC` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub time_zone: Option<String>,
}

/// Whether windows are open at a time, and when that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    /// Whether one of them is open.
    pub is_open: bool,
    /// When the windows that are open close; `None` if none is open, or that is far away.
    pub closes: Option<Timestamp>,
    /// When a window opens next.
    pub opens: Option<Timestamp>,
}

/// The times at which a window opens, in order.
struct Openings<'s> {
    schedule: &'s CronSchedule,
    zone: TimeZone,
    /// Only times after this one count.
    after: Timestamp,
    /// The next day to look at.
    date: Date,
    /// The last day to look at.
    last: Date,
    /// The openings of the day before `date`, the next one last.
    of_day: Vec<Timestamp>,
}

impl MaintenanceWindow {
    /// Checks it.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and why.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let schedule = CronSchedule::parse(&self.schedule).map_err(|why| ("schedule", why))?;
        self.find_zone()?;
        if SignedDuration::try_from(self.duration.0).is_ok_and(|duration| duration.as_hours() > MAX_HOURS) {
            return Err(("duration", format!("a window is open for at most {MAX_HOURS}h")));
        }
        // From any day on, the same days come again.
        let mut openings = Openings::new(&schedule, TimeZone::UTC, Timestamp::UNIX_EPOCH);
        match openings.next() {
            Some(_) => Ok(()),
            None => Err(("schedule", format!("`{}` names no day that exists", self.schedule))),
        }
    }

    fn find_zone(&self) -> Result<TimeZone, (&'static str, String)> {
        let Some(name) = &self.time_zone else { return Ok(TimeZone::UTC) };
        let zone = find_time_zone(name).and_then(|rules| TimeZone::tzif(name, rules).ok());
        zone.ok_or_else(|| {
            ("timeZone", format!("`{name}` is not a time zone: write its IANA name, such as Europe/Berlin"))
        })
    }

    /// The state of this window at a time. One that is invalid is never open.
    fn state_at(&self, now: Timestamp) -> WindowState {
        let mut state = WindowState { is_open: false, closes: None, opens: None };
        let duration = SignedDuration::try_from(self.duration.0).unwrap_or(SignedDuration::MAX);
        let (Ok(schedule), Ok(zone)) = (CronSchedule::parse(&self.schedule), self.find_zone()) else {
            return state;
        };
        let since = now.checked_sub(duration).unwrap_or(Timestamp::MIN);
        let mut end = since;
        for opening in Openings::new(&schedule, zone, since).take(MAX_OPENINGS) {
            if opening > now && state.opens.is_none() {
                state.opens = Some(opening);
            }
            if opening > now && opening > end {
                state.closes = Some(end).filter(|_| state.is_open);
                break;
            }
            state.is_open |= opening <= now;
            end = end.max(opening.checked_add(duration).unwrap_or(Timestamp::MAX));
        }
        state
    }
}

/// The state of some windows at a time; `None` where there are none, and clusters may always be changed.
pub fn find_window_state(windows: &[MaintenanceWindow], now: Timestamp) -> Option<WindowState> {
    windows.iter().map(|window| window.state_at(now)).reduce(|one, other| WindowState {
        is_open: one.is_open || other.is_open,
        closes: one.closes.into_iter().chain(other.closes).max(),
        opens: one.opens.into_iter().chain(other.opens).min(),
    })
}

impl<'s> Openings<'s> {
    fn new(schedule: &'s CronSchedule, zone: TimeZone, after: Timestamp) -> Self {
        let date = zone.to_datetime(after).date();
        // A day that begins earlier may have an opening that a change of the clock moves behind this time.
        let date = date.yesterday().unwrap_or(date);
        let last = date.checked_add(i32::from(MAX_YEARS).years()).unwrap_or(Date::MAX);
        Self { schedule, zone, after, date, last, of_day: Vec::new() }
    }

    /// The openings of a day, the last one first. Those that a change of the clock skips move behind it, and of those that
    /// come twice, the first counts.
    fn openings_of(&self, date: Date) -> Vec<Timestamp> {
        let day = [date.month(), date.day(), date.weekday().to_sunday_zero_offset()];
        let [month, day, weekday] = day.map(|number| u32::try_from(number).unwrap_or_default());
        if !self.schedule.has_day(month, day, weekday) {
            return Vec::new();
        }
        let times = self.schedule.times_of_day().filter_map(|(hour, minute)| {
            let time = Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0).ok()?;
            self.zone.to_timestamp(date.to_datetime(time)).ok()
        });
        let mut times: Vec<Timestamp> = times.filter(|time| *time > self.after).collect();
        times.sort_by(|a, b| b.cmp(a));
        times.dedup();
        times
    }
}

impl Iterator for Openings<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        loop {
            if let Some(time) = self.of_day.pop() {
                return Some(time);
            }
            if self.date > self.last {
                return None;
            }
            self.of_day = self.openings_of(self.date);
            self.date = self.date.tomorrow().ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn window(schedule: &str, hours: u64, zone: Option<&str>) -> MaintenanceWindow {
        let duration = Interval(Duration::from_secs(hours * 3600));
        MaintenanceWindow { schedule: schedule.to_owned(), duration, time_zone: zone.map(str::to_owned) }
    }

    /// Whether windows are open at a time, and when they close and open.
    fn state(windows: &[MaintenanceWindow], now: &str) -> (bool, String, String) {
        let state = find_window_state(windows, now.parse().unwrap()).unwrap();
        let shown = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
        (state.is_open, shown(state.closes), shown(state.opens))
    }

    fn expected(open: bool, closes: &str, opens: &str) -> (bool, String, String) {
        (open, closes.to_owned(), opens.to_owned())
    }

    #[test]
    fn a_window_is_open_from_its_time_on_for_its_duration() {
        let nights = [window("0 22 * * 1-5", 4, None)];
        // A Thursday, and the night to Friday.
        assert_eq!(state(&nights, "2026-11-26T21:59:59Z"), expected(false, "", "2026-11-26T22:00:00Z"));
        let open = expected(true, "2026-11-27T02:00:00Z", "2026-11-27T22:00:00Z");
        assert_eq!(state(&nights, "2026-11-26T22:00:00Z"), open);
        assert_eq!(state(&nights, "2026-11-27T01:59:59Z"), open);
        assert_eq!(state(&nights, "2026-11-27T02:00:00Z"), expected(false, "", "2026-11-27T22:00:00Z"));
        // The week-end.
        assert_eq!(state(&nights, "2026-11-28T12:00:00Z"), expected(false, "", "2026-11-30T22:00:00Z"));
    }

    #[test]
    fn windows_add_up() {
        let both = [window("0 22 * * *", 1, None), window("0 1 29 2 *", 1, None)];
        assert_eq!(
            state(&both, "2026-11-26T22:30:00Z"),
            expected(true, "2026-11-26T23:00:00Z", "2026-11-27T22:00:00Z")
        );
        assert_eq!(state(&both[1..], "2026-11-26T22:30:00Z"), expected(false, "", "2028-02-29T01:00:00Z"));
        // Openings that overlap are one.
        let halves = [window("0,30 8-9 * * *", 1, None)];
        assert_eq!(
            state(&halves, "2026-11-26T08:10:00Z"),
            expected(true, "2026-11-26T10:30:00Z", "2026-11-26T08:30:00Z")
        );
        let always = [window("* * * * *", 1, None)];
        assert_eq!(state(&always, "2026-11-26T08:10:30Z"), expected(true, "", "2026-11-26T08:11:00Z"));
        assert_eq!(find_window_state(&[], Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn times_are_those_of_the_zone_when_its_clock_changes() {
        let berlin = [window("30 2 * * *", 1, Some("Europe/Berlin"))];
        assert_eq!(state(&berlin, "2026-07-01T00:45:00Z").1, "2026-07-01T01:30:00Z");
        // On 29 March 2026, 02:30 does not exist: the clock goes from 02:00 to 03:00.
        assert_eq!(state(&berlin, "2026-03-29T00:00:00Z").2, "2026-03-29T01:30:00Z");
        // On 25 October 2026, 02:30 comes twice.
        let after = expected(true, "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z");
        assert_eq!(state(&berlin, "2026-10-25T00:30:00Z"), after);
        assert_eq!(state(&berlin, "2026-10-25T01:30:00Z"), expected(false, "", "2026-10-26T01:30:00Z"));
    }

    #[test]
    fn what_is_wrong_with_a_window_is_named() {
        assert_eq!(window("0 22 * * 1-5", 4, Some("Europe/Berlin")).validate(), Ok(()));
        for (window, field, said) in [
            (window("0 22 * *", 4, None), "schedule", "exactly 5 fields"),
            (window("@every 1h", 4, None), "schedule", "unrecognized descriptor"),
            (window("0 0 31 2 *", 4, None), "schedule", "names no day that exists"),
            (window("0 22 * * *", 4, Some("Europe/Berln")), "timeZone", "is not a time zone"),
            (window("0 22 * * *", 800, None), "duration", "at most 744h"),
        ] {
            let (found, why) = window.validate().unwrap_err();
            assert!(found == field && why.contains(said), "{field}: {found}: {why}");
        }
    }
}
