//! Autoscalers and disruption budgets.

use serde_json::{Value, json};

use super::super::failure::StatusCause;
use super::text_at;

/// The errors of a `HorizontalPodAutoscaler`.
pub(super) fn autoscaler_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let number = |key: &str| object.pointer(&format!("/spec/{key}")).and_then(Value::as_i64);
    let (least, most) = (number("minReplicas"), number("maxReplicas").unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        let why = "must be greater than or equal to 1";
        causes.push(StatusCause::invalid("spec.minReplicas", &least.into(), why));
    }
    if most < 1 {
        causes.push(StatusCause::required("spec.maxReplicas", "must be set and greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        causes.push(StatusCause::invalid("spec.maxReplicas", &most.into(), why));
    }
    for key in ["kind", "name"] {
        if text_at(object, &format!("/spec/scaleTargetRef/{key}")).is_empty() {
            causes.push(StatusCause::required(format!("spec.scaleTargetRef.{key}"), ""));
        }
    }
    causes
}

/// The errors of a `PodDisruptionBudget`.
pub(super) fn budget_causes(object: &Value) -> Vec<StatusCause> {
    let field = |key: &str| object.pointer(&format!("/spec/{key}")).filter(|value| !value.is_null());
    let keys = ["minAvailable", "maxUnavailable"];
    if let [Some(least), Some(most)] = keys.map(field) {
        let value = json!({
            "MinAvailable": least, "Selector": field("selector"), "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": field("unhealthyPodEvictionPolicy"),
        });
        return vec![StatusCause::invalid(
            "spec",
            &value,
            "minAvailable and maxUnavailable cannot be both set",
        )];
    }
    keys.iter().filter_map(|key| percentage_cause(field(key)?, &format!("spec.{key}"))).collect()
}

/// The error of a number or percentage, if it has one.
pub(super) fn percentage_cause(value: &Value, at: &str) -> Option<StatusCause> {
    let why = match value {
        Value::String(text) => {
            let digits = text
                .strip_suffix('%')
                .filter(|digits| !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit()));
            match digits.map(str::parse::<u64>) {
                Some(Ok(..=100)) => return None,
                Some(_) => "must not be greater than 100%",
                None => {
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                     regex used for validation is '[0-9]+%')"
                }
            }
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            "must be greater than or equal to 0"
        }
        _ => return None,
    };
    Some(StatusCause::invalid(at, value, why))
}
