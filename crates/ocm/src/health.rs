//! Whether an object in a member is healthy, by the rules of its work for conditions.
//!
//! Facts: the agent evaluates the rules of a manifest over the live object. All expressions of a rule must be true, and an
//! error counts as false. A rollout counts a cluster as succeeded if `Progressing` is false there, and as failed if
//! `Progressing` and `Degraded` are true. What the agent feeds back of a status has no verdict.

use federate_dialect::Health;
use federate_kubernetes::{Object, ObjectRef};

use crate::agent::{list_configs, name_resource};
use crate::api::work::ConditionRule;
use crate::cel::{CelValue, CelVariable, CompileError, Expression, ScoreSource};
use crate::works::WorkBundle;

/// Expressions about objects know no scores.
struct NoScores;

impl ScoreSource for NoScores {
    fn scores(&self, _: &str) -> Option<CelValue> {
        None
    }
}

/// The health of a live object by the rules of the bundles that send it; `None` if they have none, or if one is not
/// reproduced.
pub(crate) fn assess_health(bundles: &[WorkBundle<'_>], live: &Object) -> Option<Health> {
    let senders = bundles.iter().filter(|bundle| bundle.manifests.contains(&live.id));
    let rules: Vec<&ConditionRule> =
        senders.map(|bundle| list_rules(bundle, &live.id)).find(|rules| !rules.is_empty())?;
    let object = CelValue::from_json(&live.body);
    for condition in ["Degraded", "Progressing"] {
        for rule in rules.iter().filter(|rule| rule.condition == condition) {
            if is_true(rule, &object)? {
                let expressions = rule.expressions.join("` and `");
                return Some(Health::unhealthy(format!("{condition} by its work: `{expressions}`")));
            }
        }
    }
    Some(Health::healthy())
}

/// The rules of a bundle for the conditions that count in a rollout.
fn list_rules<'b>(bundle: &'b WorkBundle<'_>, object: &ObjectRef) -> Vec<&'b ConditionRule> {
    let resource = name_resource(&object.kind);
    let rules = list_configs(&bundle.spec, object, &resource).flat_map(|config| &config.conditions);
    rules
        .filter(|rule| rule.kind == "CEL" && ["Degraded", "Progressing"].contains(&rule.condition.as_str()))
        .collect()
}

/// Whether a rule gives true for an object; `None` if that is not reproduced.
fn is_true(rule: &ConditionRule, object: &CelValue) -> Option<bool> {
    for source in &rule.expressions {
        match Expression::compile(source, CelVariable::Object) {
            Ok(expression) => match expression.matches(object, &NoScores) {
                Ok(true) => {}
                Ok(false) => return Some(false),
                Err(_) => return None,
            },
            Err(CompileError::Invalid(_)) => return Some(false),
            Err(CompileError::Unsupported(_)) => return None,
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use federate_dialect::HealthState;

    /// The health of a Job of a set whose rules these are, given its status.
    fn health(rules: &Value, status: &Value) -> Option<Health> {
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "shop"}});
        let spec = json!({"spec": {
            "workload": {"manifests": [job]},
            "manifestConfigs": [{
                "resourceIdentifier": {"group": "batch", "resource": "jobs", "namespace": "*", "name": "a"},
                "conditionRules": rules,
            }],
        }});
        let work = Object::from_path("work.open-cluster-management.io/v1", "ManifestWork", "c1/w", spec);
        let live = Object::from_path("batch/v1", "Job", "shop/a", json!({"status": status}));
        assess_health(&crate::works::read_bundles(std::iter::once(&work)), &live)
    }

    fn rule(condition: &str, expressions: &[&str]) -> Value {
        json!({"condition": condition, "type": "CEL", "celExpressions": expressions})
    }

    #[test]
    fn the_rules_of_a_work_say_whether_an_object_is_healthy() {
        let rules = json!([
            rule("Progressing", &["object.status.active > 0"]),
            rule(
                "Degraded",
                &["hasConditions(object.status)", "object.status.conditions.exists(c, c.type == 'Failed')"]
            ),
        ]);
        let state = |status: &Value| health(&rules, status).map(|health| health.state);
        assert_eq!(state(&json!({"active": 0})), Some(HealthState::Healthy));
        assert_eq!(state(&json!({})), Some(HealthState::Healthy), "an error counts as false");
        assert_eq!(state(&json!({"active": 1})), Some(HealthState::Unhealthy));
        let failed = health(&rules, &json!({"active": 0, "conditions": [{"type": "Failed"}]}));
        assert!(
            failed.is_some_and(|health| health.reason.starts_with("Degraded by its work: `hasConditions"))
        );
    }

    #[test]
    fn without_a_rule_that_is_reproduced_there_is_no_verdict() {
        let status = json!({"succeeded": 1});
        assert_eq!(health(&json!([]), &status), None);
        assert_eq!(health(&json!([{"type": "WellKnownConditions", "condition": "Complete"}]), &status), None);
        for expression in ["format.uuid().validate('a').hasValue()", "isURL('https://a?b=c')"] {
            assert_eq!(health(&json!([rule("Progressing", &[expression])]), &status), None, "{expression}");
        }
        let malformed = health(&json!([rule("Progressing", &["1 +"])]), &status);
        assert_eq!(malformed.map(|health| health.state), Some(HealthState::Healthy));
    }
}
