//! Autoscalers and disruption budgets.

use serde_json::{Value, json};

use super::super::failure::StatusCause;
use super::{integer_at, present_at, text_at};

/// The errors of a `HorizontalPodAutoscaler`.
pub(super) fn autoscaler_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let least = integer_at(object, "/spec/minReplicas");
    let most = integer_at(object, "/spec/maxReplicas").unwrap_or(0);
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
    let least = present_at(object, "/spec/minAvailable");
    let most = present_at(object, "/spec/maxUnavailable");
    if let (Some(least), Some(most)) = (least, most) {
        let value = json!({
            "MinAvailable": least, "Selector": present_at(object, "/spec/selector"), "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": present_at(object, "/spec/unhealthyPodEvictionPolicy"),
        });
        return vec![StatusCause::invalid(
            "spec",
            &value,
            "minAvailable and maxUnavailable cannot be both set",
        )];
    }
    let fields = [(least, "spec.minAvailable"), (most, "spec.maxUnavailable")];
    fields.into_iter().filter_map(|(value, at)| percentage_cause(value?, at)).collect()
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
