//! An object as the server writes it: what was not given and is always there is written empty, what is
//! empty and only there when it is filled is left out, quantities in their shortest form.
//!
//! Facts: how Go's JSON writes the API types (`omitempty`, pointers), and the canonical form of
//! quantities.

use serde_json::{Map, Value};

use super::schema::{Field, Type, Written};

/// A built-in object as the server writes it. What its schema does not declare is dropped.
pub fn canonical(ty: &Type, value: &Value) -> Value {
    match ty.resolve() {
        Type::Struct(s) if s.rest.is_none() => {
            let fields = s.fields.iter().filter_map(|(name, field)| {
                let value = written(field, value.get(name).filter(|v| !v.is_null()))?;
                Some((name.clone(), value))
            });
            Value::Object(fields.collect())
        }
        Type::Map { value: ty, .. } => {
            let map = value.as_object().into_iter().flatten().map(|(key, value)| {
                (key.clone(), if value.is_null() { zero(ty) } else { canonical(ty, value) })
            });
            Value::Object(map.collect())
        }
        Type::List { item, .. } => {
            let items = value.as_array().into_iter().flatten();
            items.map(|v| if v.is_null() { zero(item) } else { canonical(item, v) }).collect()
        }
        Type::Quantity => quantity(value).map_or_else(|| value.clone(), Value::from),
        Type::Number => match value.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                Value::from(float as i64)
            }
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

fn written(field: &Field, value: Option<&Value>) -> Option<Value> {
    let value = value.map(|value| canonical(&field.ty, value));
    match field.written {
        Written::Given => value,
        Written::Nullable => Some(value.unwrap_or_default()),
        Written::Always => Some(value.unwrap_or_else(|| zero(&field.ty))),
        Written::Filled => value.filter(|value| *value != zero(&field.ty) && !empty(value)),
    }
}

/// What nobody has filled, as it stands in a new object.
fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// The value of a type that nobody gave.
pub(super) fn zero(ty: &Type) -> Value {
    match ty {
        Type::Text => Value::from(""),
        Type::Number | Type::Port => Value::from(0),
        Type::Truth => Value::Bool(false),
        Type::Quantity => Value::from("0"),
        Type::Named(_) => canonical(ty, &Value::Object(Map::new())),
        _ => Value::Null,
    }
}

/// A quantity in the form that the server writes: `1024Mi` as `1Gi`, `1000m` as `1`, `0.5` as `500m`.
///
/// ```
/// use federate::server::canonical::quantity;
/// use serde_json::json;
/// assert_eq!(quantity(&json!("1024Mi")).as_deref(), Some("1Gi"));
/// assert_eq!(quantity(&json!("0.5")).as_deref(), Some("500m"));
/// assert_eq!(quantity(&json!(1500)).as_deref(), Some("1500"));
/// assert_eq!(quantity(&json!("1.5Gi")).as_deref(), Some("1536Mi"));
/// assert_eq!(quantity(&json!("many")), None);
/// ```
pub fn quantity(value: &Value) -> Option<String> {
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
            Some(format!("{sign}{}", binary(scaled / unit)))
        } else {
            Some(format!("{sign}{}", decimal(scaled, -places, false)?))
        };
    }
    let exponent = match DECIMAL.iter().find(|(known, _)| *known == suffix) {
        Some((_, exponent)) => *exponent,
        None => suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?,
    };
    let scientific = suffix.len() > 1;
    Some(format!("{sign}{}", decimal(digits, exponent.checked_sub(places)?, scientific)?))
}

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("", 0), ("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

fn binary(mut amount: i128) -> String {
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
fn decimal(mut digits: i128, mut exponent: i32, scientific: bool) -> Option<String> {
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
    use crate::server::schema::builtin;
    use serde_json::json;

    #[test]
    fn quantities_in_their_shortest_form() {
        let form = |text: &str| quantity(&json!(text)).unwrap();
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
        let given = json!({
            "metadata": {"name": "web", "labels": {}},
            "spec": {"type": "", "ports": [{"port": 80, "name": ""}], "ipFamilyPolicy": null, "unknown": 1},
        });
        let want = json!({
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80, "targetPort": 0}]},
            "status": {"loadBalancer": {}},
        });
        assert_eq!(canonical(builtin("Service").unwrap(), &given), want);
    }
}
