//! Normalizes an object, as the server writes it: required fields that are absent are written empty, empty fields with
//! `omitempty` are dropped, and quantities are in canonical form.
//!
//! Facts: how Go's JSON writes the API types (`omitempty`, pointers), and the canonical form of
//! quantities.

use serde_json::{Map, Value};

use super::schema::{Struct, StructField, Type, WhenWritten};

/// Brings a built-in object into the form in which the server writes it. Fields that its schema does not declare are
/// dropped.
pub fn normalize_object(ty: &Type, value: &mut Value) {
    normalize_value(ty, value, Form::Written);
}

/// Normalizes an object as it is read from storage, where an empty list and no list are the same.
pub(super) fn normalize_stored(ty: &Type, value: &mut Value) {
    normalize_value(ty, value, Form::Stored);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Written,
    Stored,
}

fn normalize_value(ty: &Type, value: &mut Value, form: Form) {
    match ty.resolve_name() {
        Type::Struct(s) if s.rest.is_none() => normalize_struct(s, as_mapping(value), form),
        Type::Map { value: ty, .. } => {
            as_mapping(value)
                .into_iter()
                .flat_map(Map::values_mut)
                .for_each(|value| normalize_below(ty, value, form));
        }
        Type::List { item, .. } => match value {
            Value::Array(items) => items.iter_mut().for_each(|value| normalize_below(item, value, form)),
            other => *other = Value::Array(Vec::new()),
        },
        Type::Quantity => {
            if let Some(text) = normalize_quantity(value) {
                *value = Value::from(text);
            }
        }
        Type::Number => match value.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                *value = Value::from(float as i64);
            }
            _ => {}
        },
        _ => {}
    }
}

fn normalize_struct(s: &Struct, map: Option<&mut Map<String, Value>>, form: Form) {
    let Some(map) = map else { return };
    map.retain(|name, value| s.fields.get(name).is_some_and(|field| normalize_field(field, value, form)));
    for (name, field) in &s.fields {
        if matches!(field.written, WhenWritten::Always | WhenWritten::Nullable)
            && !map.contains_key(name)
            && let Some(value) = blank_value(field)
        {
            map.insert(name.clone(), value);
        }
    }
}

/// Normalizes the value of a key, or an item.
fn normalize_below(ty: &Type, value: &mut Value, form: Form) {
    if value.is_null() {
        *value = zero_value(ty);
    } else {
        normalize_value(ty, value, form);
    }
}

/// The value as a mapping; any other value is replaced by an empty one.
fn as_mapping(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Normalizes the value of a field; returns whether it is written.
fn normalize_field(field: &StructField, value: &mut Value, form: Form) -> bool {
    if value.is_null() {
        return field.written == WhenWritten::Nullable;
    }
    normalize_value(&field.ty, value, form);
    match field.written {
        WhenWritten::Filled => !(is_empty_value(value) || is_zero(&field.ty, value)),
        WhenWritten::Always => {
            if form == Form::Stored
                && matches!(field.ty, Type::List { .. } | Type::Map { .. })
                && is_empty_value(value)
            {
                *value = Value::Null;
            }
            true
        }
        WhenWritten::Given | WhenWritten::Nullable => true,
    }
}

/// Whether Go's `omitempty` leaves a value out.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Whether a value, in the server's form, is the [zero value](zero_value) of its type.
fn is_zero(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Named(_), Value::Object(map)) => map.iter().all(|(key, value)| {
            let field = ty.parts().and_then(|parts| parts.find_field(key));
            field.is_some_and(|field| match field.written {
                WhenWritten::Always => is_zero(&field.ty, value),
                WhenWritten::Nullable => value.is_null(),
                WhenWritten::Given | WhenWritten::Filled => false,
            })
        }),
        (Type::Named(_), _) => false,
        _ => *value == zero_value(ty),
    }
}

/// The value of an absent field, if it is written.
pub(super) fn blank_value(field: &StructField) -> Option<Value> {
    match field.written {
        WhenWritten::Always => Some(zero_value(&field.ty)),
        WhenWritten::Nullable => Some(Value::Null),
        WhenWritten::Given | WhenWritten::Filled => None,
    }
}

/// The empty value of a type.
pub(super) fn zero_value(ty: &Type) -> Value {
    match ty {
        Type::Text => Value::from(""),
        Type::Number | Type::IntOrString => Value::from(0),
        Type::Boolean => Value::Bool(false),
        Type::Quantity => Value::from("0"),
        Type::Named(_) => {
            let mut value = Value::Object(Map::new());
            normalize_object(ty, &mut value);
            value
        }
        _ => Value::Null,
    }
}

/// A quantity in the form that the server writes: `1024Mi` as `1Gi`, `1000m` as `1`, `0.5` as `500m`.
///
/// ```
/// use federate_apiserver_model::normalization::normalize_quantity;
/// use serde_json::json;
/// assert_eq!(normalize_quantity(&json!("1024Mi")).as_deref(), Some("1Gi"));
/// assert_eq!(normalize_quantity(&json!("0.5")).as_deref(), Some("500m"));
/// assert_eq!(normalize_quantity(&json!(1500)).as_deref(), Some("1500"));
/// assert_eq!(normalize_quantity(&json!("1.5Gi")).as_deref(), Some("1536Mi"));
/// assert_eq!(normalize_quantity(&json!("many")), None);
/// ```
pub fn normalize_quantity(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    if digits == 0 {
        return Some("0".to_owned());
    }
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        let scaled = digits.checked_mul(1024i128.checked_pow(u32::try_from(power).ok()? + 1)?)?;
        let unit = 10i128.checked_pow(places.unsigned_abs())?;
        return if scaled % unit == 0 && scaled / unit >= 1024 {
            Some(format!("{sign}{}", format_binary(scaled / unit)))
        } else {
            Some(format!("{sign}{}", format_decimal(scaled, -places, false)?))
        };
    }
    let exponent = match DECIMAL.iter().find(|(known, _)| *known == suffix) {
        Some((_, exponent)) => *exponent,
        None => suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?,
    };
    let scientific = suffix.len() > 1;
    Some(format!("{sign}{}", format_decimal(digits, exponent.checked_sub(places)?, scientific)?))
}

/// An exact amount, in billionths, in the form that the server writes: with binary suffixes or decimal ones. An
/// amount below 1024 and one that is not whole is decimal either way.
///
/// ```
/// use federate_apiserver_model::normalization::format_amount;
/// assert_eq!(format_amount(1_610_612_736_000_000_000, true), "1536Mi");
/// assert_eq!(format_amount(2_500_000_000, true), "2500m");
/// assert_eq!(format_amount(2_000_000_000_000, false), "2k");
/// ```
pub fn format_amount(nano: i128, is_binary: bool) -> String {
    const NANO: i128 = 1_000_000_000;
    let (sign, size) = (if nano < 0 { "-" } else { "" }, nano.saturating_abs());
    if is_binary && size % NANO == 0 && size / NANO >= 1024 {
        return format!("{sign}{}", format_binary(size / NANO));
    }
    let text = if size == 0 { None } else { format_decimal(size, -9, false) };
    text.map_or_else(|| "0".to_owned(), |text| format!("{sign}{text}"))
}

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("", 0), ("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

fn format_binary(mut amount: i128) -> String {
    let mut suffix = "";
    for larger in BINARY {
        if amount % 1024 != 0 {
            break;
        }
        (amount, suffix) = (amount / 1024, larger);
    }
    format!("{amount}{suffix}")
}

/// `digits × 10^exponent` with an exponent that is a multiple of three; finer than 1n is rounded up.
fn format_decimal(mut digits: i128, mut exponent: i32, scientific: bool) -> Option<String> {
    while exponent < -9 {
        digits = digits / 10 + i128::from(digits % 10 != 0);
        exponent += 1;
    }
    while digits % 10 == 0 && digits != 0 {
        (digits, exponent) = (digits / 10, exponent + 1);
    }
    while exponent.rem_euclid(3) != 0 || exponent > 18 {
        (digits, exponent) = (digits.checked_mul(10)?, exponent - 1);
    }
    if scientific {
        return Some(if exponent == 0 { digits.to_string() } else { format!("{digits}e{exponent}") });
    }
    let suffix = DECIMAL.iter().find(|(_, known)| *known == exponent)?.0;
    Some(format!("{digits}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::find_builtin;
    use serde_json::json;

    #[test]
    fn quantities_in_their_shortest_form() {
        let form = |text: &str| normalize_quantity(&json!(text)).unwrap();
        assert_eq!(form("1000m"), "1");
        assert_eq!(form("1500m"), "1500m");
        assert_eq!(form("2000"), "2k");
        assert_eq!(form("1024"), "1024");
        assert_eq!(form("100M"), "100M");
        assert_eq!(form("1e3"), "1e3");
        assert_eq!(form("0.5Ki"), "512");
        assert_eq!(form("0Gi"), "0");
        assert_eq!(form("-2048Ki"), "-2Mi");
        assert_eq!(form("0.1Gi"), "107374182400m");
    }

    #[test]
    fn empty_fields_go_and_fixed_ones_stay() {
        let mut given = json!({
            "metadata": {"name": "web", "labels": {}},
            "spec": {"type": "", "ports": [{"port": 80, "name": ""}], "ipFamilyPolicy": null, "unknown": 1},
        });
        let want = json!({
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80, "targetPort": 0}]},
            "status": {"loadBalancer": {}},
        });
        normalize_object(find_builtin("Service").unwrap(), &mut given);
        assert_eq!(given, want);
    }
}
