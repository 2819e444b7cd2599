//! Equality as the cases mean it, and a readable difference where there is none.

use serde_json::Value;
use similar::Algorithm;

/// The value with keys sorted and whole floats as integers, so that equal documents are equal values.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.clone(), normal(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                Value::from(float as i64)
            }
            // Beyond int64 there are only floats.
            Some(float) if number.is_u64() && number.as_i64().is_none() => Value::from(float),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

/// `Ok` when both are the same, else a line diff of their pretty JSON.
pub(crate) fn compare(want: &Value, got: &Value) -> Result<(), String> {
    let (want, got) = (normal(want), normal(got));
    if want == got {
        return Ok(());
    }
    let pretty = |v: &Value| serde_json::to_string_pretty(v).expect("JSON prints");
    let (want, got) = (pretty(&want), pretty(&got));
    let [want, got]: [Vec<&str>; 2] = [&want, &got].map(|text| text.lines().collect());
    let mut diff = "--- want\n+++ got\n".to_owned();
    for hunk in similar::group_diff_ops(similar::capture_diff_slices(Algorithm::Myers, &want, &got), 4) {
        for change in hunk.iter().flat_map(|operation| operation.iter_changes(&want, &got)) {
            diff.push_str(&format!("{}{}\n", change.tag(), change.value()));
        }
        diff.push_str("…\n");
    }
    Err(diff)
}
