//! What templates read of values that are no maps: the methods of points in time and of versions.

use crate::error::TemplateFailure;
use crate::value::{GoValue, UintType};

/// The result of a method without arguments; `None` if the value has none of that name.
pub(crate) fn call_method(value: &GoValue, name: &str) -> Option<Result<GoValue, TemplateFailure>> {
    let number = |number: u64| GoValue::Uint(UintType::Uint64, number);
    Some(Ok(match value {
        GoValue::Version(version) => match name {
            "Major" => number(version.numbers[0]),
            "Minor" => number(version.numbers[1]),
            "Patch" => number(version.numbers[2]),
            "Prerelease" => GoValue::text(version.pre.as_str()),
            "Metadata" => GoValue::text(version.metadata.as_str()),
            "Original" => GoValue::text(version.original.as_str()),
            "String" => GoValue::text(version.to_string()),
            _ => return None,
        },
        GoValue::Time(time) => match name {
            "Unix" => GoValue::int64(time.seconds),
            "String" => GoValue::text(time.to_string()),
            "Year" => GoValue::int(time.civil().year),
            "Day" => GoValue::int(i64::from(time.civil().day)),
            "Hour" => GoValue::int(i64::from(time.civil().hour)),
            "Minute" => GoValue::int(i64::from(time.civil().minute)),
            "Second" => GoValue::int(i64::from(time.civil().second)),
            _ => return None,
        },
        _ => return None,
    }))
}
