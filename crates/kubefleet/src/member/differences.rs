//! The reported differences between the hub's and the member's view of an object.
//!
//! Facts: mappings are compared by key, lists by position. Values are printed as in Go. Surplus list items are
//! reported at one place each. At most a hundred differences are reported, and never the values of Secrets.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Number, Value};

/// The most differences that are reported.
const MAX_DIFFERENCES: usize = 100;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PatchDetail {
    /// The path, as a JSON pointer.
    pub path: String,
    /// The hub's value; absent where it has none, or an empty one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hub: String,
    /// The member's value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub member: String,
}

/// The differences between two views.
pub(super) fn find_differences(hub: &Value, member: &Value) -> Vec<PatchDetail> {
    let mut found = Vec::new();
    compare_values("", hub, member, &mut found);
    found.truncate(MAX_DIFFERENCES);
    if hub.get("kind").is_some_and(|kind| kind == "Secret")
        && hub.get("apiVersion").is_some_and(|version| version == "v1")
    {
        found.iter_mut().for_each(redact_difference);
    }
    found
}

/// The difference for an object that the member does not have.
pub(super) fn missing_object() -> Vec<PatchDetail> {
    vec![PatchDetail { path: "/".to_owned(), hub: "(the whole object)".to_owned(), member: String::new() }]
}

fn redact_difference(difference: &mut PatchDetail) {
    if !["/data", "/stringData"].iter().any(|field| difference.path.starts_with(field)) {
        return;
    }
    for value in [&mut difference.hub, &mut difference.member] {
        if !value.is_empty() {
            "(redacted for security reasons)".clone_into(value);
        }
    }
}

fn compare_values(path: &str, hub: &Value, member: &Value, found: &mut Vec<PatchDetail>) {
    match (hub, member) {
        (Value::Object(hub), Value::Object(member)) => compare_maps(path, hub, member, found),
        (Value::Array(hub), Value::Array(member)) => compare_lists(path, hub, member, found),
        _ if are_equal(hub, member) => {}
        _ => found.push(PatchDetail {
            path: path.to_owned(),
            hub: format_value(hub),
            member: format_value(member),
        }),
    }
}

fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn compare_maps(
    path: &str,
    hub: &Map<String, Value>,
    member: &Map<String, Value>,
    found: &mut Vec<PatchDetail>,
) {
    let keys: BTreeSet<&String> = hub.keys().chain(member.keys()).collect();
    for key in keys {
        let below = format!("{path}/{}", federate_kubernetes::pointer::escape(key));
        match (hub.get(key), member.get(key)) {
            (Some(hub), Some(member)) => compare_values(&below, hub, member, found),
            (hub, member) => found.push(PatchDetail {
                path: below,
                hub: hub.map(format_value).unwrap_or_default(),
                member: member.map(format_value).unwrap_or_default(),
            }),
        }
    }
}

fn compare_lists(path: &str, hub: &[Value], member: &[Value], found: &mut Vec<PatchDetail>) {
    for (index, (hub, member)) in hub.iter().zip(member).enumerate() {
        compare_values(&format!("{path}/{index}"), hub, member, found);
    }
    let common = hub.len().min(member.len());
    // All surplus items of the hub's list are reported at the index of the first.
    for _ in hub.iter().skip(common) {
        let first = hub.get(common).map(format_value).unwrap_or_default();
        found.push(PatchDetail { path: format!("{path}/{common}"), hub: first, member: String::new() });
    }
    for one in member.iter().skip(common) {
        found.push(PatchDetail { path: format!("{path}/-"), hub: String::new(), member: format_value(one) });
    }
}

/// A value as Go prints it.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number_text(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(format_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let texts: Vec<String> =
                entries.into_iter().map(|(key, value)| format!("{key}:{}", format_value(value))).collect();
            format!("map[{}]", texts.join(" "))
        }
    }
}

/// Integers stay integers. Other numbers are in their shortest form, with an exponent for large and small ones.
fn number_text(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.as_i64().is_none()) else {
        return number.to_string();
    };
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_does() {
        for (value, want) in [
            (json!({"b": "x", "a": 1}), "map[a:1 b:x]"),
            (json!(["a", null, true]), "[a <nil> true]"),
            (json!(12_345_678), "12345678"),
            (json!(1.5), "1.5"),
            (json!(2.0), "2"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(123_456.5), "123456.5"),
            (json!(1e21), "1e+21"),
            (json!(0.0001), "0.0001"),
            (json!(0.000_01), "1e-05"),
        ] {
            assert_eq!(format_value(&value), want);
        }
    }

    #[test]
    fn lists_are_compared_by_position() {
        let paths = |hub: Value, member: Value| -> Vec<(String, String, String)> {
            let found = find_differences(&json!({ "l": hub }), &json!({ "l": member }));
            found.into_iter().map(|d| (d.path, d.hub, d.member)).collect()
        };
        let row = |path: &str, hub: &str, member: &str| (path.to_owned(), hub.to_owned(), member.to_owned());
        assert_eq!(paths(json!([1, 2, 3]), json!([1])), [row("/l/1", "2", ""), row("/l/1", "2", "")]);
        assert_eq!(paths(json!([1]), json!([2, 3])), [row("/l/0", "1", "2"), row("/l/-", "", "3")]);
    }

    #[test]
    fn secrets_are_not_told() {
        let secret =
            |data: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": data}, "type": data});
        let found = find_differences(&secret("YQ=="), &secret("Yg=="));
        assert_eq!(found[0].hub, "(redacted for security reasons)");
        assert_eq!(found[1].member, "Yg==");
    }
}
