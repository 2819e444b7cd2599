//! Workloads: selectors, templates, strategies.

use serde_json::{Value, json};

use super::super::failure::Cause;
use super::super::typed::same;
use super::{list, pods, text};

/// What is wrong with a workload.
pub(super) fn causes(kind: &str, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let template_at = if kind == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
    let path = super::dotted(template_at);
    let template = object.pointer(template_at).unwrap_or(&Value::Null);
    if !matches!(kind, "Job" | "CronJob") {
        causes.extend(selector(object, template, &path));
    }
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    if let (false, Some(spec)) = (list(object, "/spec/volumeClaimTemplates").is_empty(), spec.as_object_mut())
    {
        spec.insert("claims".to_owned(), Value::Bool(true));
    }
    causes.extend(pods::causes(&spec, &format!("{path}.spec")));
    causes.extend(restart_policy(kind, text(template, "/spec/restartPolicy"), &path));
    if kind == "Deployment"
        && text(object, "/spec/strategy/type") == "Recreate"
        && object.pointer("/spec/strategy/rollingUpdate").is_some()
    {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
    }
    if let Some(replicas) = object.pointer("/spec/replicas").filter(|r| r.as_i64().is_some_and(|r| r < 0)) {
        causes.push(Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
    }
    causes
}

fn selector(object: &Value, template: &Value, path: &str) -> Vec<Cause> {
    let Some(selector) = object.pointer("/spec/selector").filter(|s| !s.is_null()) else {
        return vec![Cause::required("spec.selector", "")];
    };
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let empty =
        wanted.is_none_or(serde_json::Map::is_empty) && list(selector, "/matchExpressions").is_empty();
    if empty {
        let why = "empty selector is invalid for deployment";
        return vec![Cause::invalid("spec.selector", selector, why)];
    }
    if wanted.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value)) {
        return Vec::new();
    }
    let why = "`selector` does not match template `labels`";
    vec![Cause::invalid(format!("{path}.metadata.labels"), &labels, why)]
}

fn restart_policy(kind: &str, policy: &str, path: &str) -> Option<Cause> {
    let allowed: &[&str] =
        if matches!(kind, "Job" | "CronJob") { &["OnFailure", "Never"] } else { &["Always"] };
    let field = format!("{path}.spec.restartPolicy");
    (!allowed.contains(&policy)).then(|| Cause::unsupported(field, &json!(policy), allowed))
}

/// What is wrong with a change of a stateful set.
pub(super) fn stateful_set_change(live: &Value, object: &Value) -> Option<Cause> {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|key, _| !FREE.contains(&key.as_str()));
        }
        spec
    };
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
               'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
               'minReadySeconds' are forbidden";
    (!same(&fixed(live), &fixed(object))).then(|| Cause::forbidden("spec", why))
}
