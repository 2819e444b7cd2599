//! Points in time as Kubernetes writes them (RFC 3339).

/// Seconds since 1970 of a point in time; `None` when it is not written as RFC 3339 has it.
///
/// ```
/// use federate::k8s::time::seconds;
/// assert_eq!(seconds("1970-01-02T00:00:01Z"), Some(86_401));
/// assert_eq!(seconds("2024-05-01T12:00:00.5+02:00"), seconds("2024-05-01T10:00:00Z"));
/// assert_eq!(seconds("yesterday"), None);
/// ```
pub fn seconds(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let mut clock = clock.split('.').next()?.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let valid = (0..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    valid.then_some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?)
}

/// Days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that the leap
/// day is the last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 719_469
}

/// The seconds by which a zone is ahead.
fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.get(..1)? {
        "Z" | "z" => return (zone.len() == 1).then_some(0),
        "-" => -1,
        _ => 1,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    Some(
        sign * (hours.parse::<u8>().ok().map(i64::from)? * 3600
            + minutes.parse::<u8>().ok().map(i64::from)? * 60),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_and_zones_count() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-03-01T00:00:00Z"), Some(951_868_800));
        assert_eq!(seconds("2024-02-29T23:59:59Z"), Some(1_709_251_199));
        assert_eq!(seconds("2024-05-01T00:00:00-01:30"), seconds("2024-05-01T01:30:00Z"));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["", "2024-05-01", "2024-13-01T00:00:00Z", "2024-05-01T00:00:00", "2024-05-01T0:0:0Zx"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
