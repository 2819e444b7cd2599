//! Karmada's cases of an object in a member cluster: retention and health.

use federate_dialect::{Dialect, HealthState};
use federate_karmada::{Karmada, RELEASES, member};
use federate_repo::Config;
use serde_json::{Value, json};

use crate::diff::compare;
use crate::run::observed;

/// The one object of a case.
fn only(case: &Value) -> &Value {
    let [object] = case["files"].as_array().expect("a list").as_slice() else { panic!("one object") };
    object
}

pub(crate) fn retain(case: &Value) -> Result<(), String> {
    let live = observed(&case["observed"]);
    let action = member::decide_action(only(case).clone(), Some(&live), RELEASES.find_latest());
    let mut got = json!({});
    if action.status == "AlreadyExists" {
        got["conflict"] = json!("abort");
        return compare(&case["expect"], &got);
    }
    if action.adopts {
        got["conflict"] = json!("overwrite");
    }
    match member::retention::retain_fields(only(case).clone(), &live, RELEASES.find_latest()) {
        Ok(body) => {
            got["update"] = json!(member::has_changes(&body, &live));
            got["manifests"] = json!({"m1": [body]});
        }
        Err(_) => got["error"] = json!(action.status),
    }
    compare(&case["expect"], &got)
}

pub(crate) fn health(case: &Value) -> Result<(), String> {
    let health = Karmada.members().assess_health(&observed(only(case)), &Config::default());
    let word = match health.state {
        HealthState::Healthy => "Healthy",
        HealthState::Unhealthy => "Unhealthy",
        HealthState::Unknown => "Unknown",
    };
    compare(&case["expect"], &json!({"health": word}))
}
