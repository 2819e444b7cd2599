//! Workloads: selectors, templates, strategies.

use serde::Deserialize;
use serde_json::{Value, json};

use federate_kubernetes::Labels;
use federate_kubernetes::selector::LabelSelector;

use super::super::failure::StatusCause;
use super::super::typed::are_equal;
use super::scaling::percentage_cause;
use super::{integer_at, list_at, pods, present_at, text_at};

/// The errors of a workload.
pub(super) fn find_causes(kind: &str, object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match kind {
        "Deployment" => causes.extend(negative_causes(object, &["replicas"])),
        "ReplicaSet" => causes.extend(negative_causes(object, &["replicas", "minReadySeconds"])),
        "StatefulSet" => {
            causes.extend(management_cause(object));
            causes.extend(stateful_set_cause(object));
            causes.extend(negative_causes(object, &["replicas", "minReadySeconds"]));
        }
        "Job" => causes.extend(negative_causes(
            object,
            &[
                "parallelism",
                "completions",
                "activeDeadlineSeconds",
                "backoffLimit",
                "ttlSecondsAfterFinished",
            ],
        )),
        "CronJob" => causes.extend(schedule_causes(object)),
        _ => {}
    }
    causes.extend(template_causes(kind, object));
    match kind {
        "Deployment" => {
            causes.extend(strategy_causes(object));
            causes.extend(negative_causes(
                object,
                &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
            ));
            causes.extend(deadline_cause(object));
        }
        "DaemonSet" => {
            causes.extend(negative_causes(object, &["minReadySeconds"]));
            causes.extend(daemon_set_cause(object));
            causes.extend(negative_causes(object, &["revisionHistoryLimit"]));
        }
        "CronJob" => {
            causes.extend(negative_causes(object, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]));
        }
        _ => {}
    }
    causes
}

/// The errors of fields of the spec that are negative.
fn negative_causes(object: &Value, keys: &[&str]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for key in keys {
        if let Some(number) = integer_at(object, &format!("/spec/{key}")).filter(|number| *number < 0) {
            causes.push(StatusCause::invalid(format!("spec.{key}"), &number.into(), NOT_NEGATIVE_MESSAGE));
        }
    }
    causes
}

/// The error of the policy by which a StatefulSet manages its pods.
fn management_cause(object: &Value) -> Option<StatusCause> {
    let policy = text_at(object, "/spec/podManagementPolicy");
    let known = matches!(policy, "" | "OrderedReady" | "Parallel");
    (!known).then(|| {
        StatusCause::invalid(
            "spec.podManagementPolicy",
            &json!(policy),
            "must be 'OrderedReady' or 'Parallel'",
        )
    })
}

/// A strategy, as messages show it.
fn show_strategy(strategy: &Value) -> Value {
    json!({"Type": text_at(strategy, "/type"), "RollingUpdate": strategy.get("rollingUpdate")})
}

/// The error of the update strategy of a DaemonSet.
fn daemon_set_cause(object: &Value) -> Option<StatusCause> {
    let strategy = object.pointer("/spec/updateStrategy")?;
    let at = "spec.updateStrategy";
    match text_at(strategy, "/type") {
        "OnDelete" => None,
        "" | "RollingUpdate" => {
            let why = "cannot be 0 when maxSurge is 0";
            replaces_no_pods(strategy.get("rollingUpdate")?)
                .then(|| StatusCause::required(format!("{at}.rollingUpdate.maxUnavailable"), why))
        }
        _ => Some(StatusCause::unsupported(at, &show_strategy(strategy), &["RollingUpdate", "OnDelete"])),
    }
}

/// Whether a rolling update allows neither additional nor missing pods.
fn replaces_no_pods(rolling: &Value) -> bool {
    ["maxSurge", "maxUnavailable"]
        .iter()
        .all(|key| rolling.get(*key).is_some_and(|value| *value == 0 || *value == "0%"))
}

const NOT_NEGATIVE_MESSAGE: &str = "must be greater than or equal to 0";

/// The error of a changed pod of a suspended Job: only where its pods are scheduled may change.
pub(super) fn suspended_change(live: &Value, object: &Value) -> Option<StatusCause> {
    let pod = object.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    (!are_equal(&fixed_pod_spec(live), &fixed_pod_spec(object)))
        .then(|| StatusCause::invalid("spec.template.spec", pod, "field is immutable"))
}

/// The spec of the pods of a Job without the fields by which they are scheduled.
fn fixed_pod_spec(job: &Value) -> Value {
    let mut spec = job.pointer("/spec/template/spec").cloned().unwrap_or_default();
    if let Some(map) = spec.as_object_mut() {
        for key in ["nodeSelector", "tolerations", "affinity", "schedulingGates"] {
            map.shift_remove(key);
        }
    }
    spec
}

/// The errors of a pod template and its selector.
fn template_causes(kind: &str, object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let template_at = if kind == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
    let path = super::to_dotted(template_at);
    let template = object.pointer(template_at).unwrap_or(&Value::Null);
    if !matches!(kind, "Job" | "CronJob") {
        causes.extend(selector_causes(object, template, &path));
    }
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    if let (false, Some(spec)) =
        (list_at(object, "/spec/volumeClaimTemplates").is_empty(), spec.as_object_mut())
    {
        spec.insert("claims".to_owned(), Value::Bool(true));
    }
    causes.extend(pods::find_causes(&spec, &format!("{path}.spec")));
    causes.extend(restart_policy_cause(kind, text_at(template, "/spec/restartPolicy"), &path));
    causes
}

/// The errors of the strategy of a Deployment.
fn strategy_causes(object: &Value) -> Vec<StatusCause> {
    let kind = text_at(object, "/spec/strategy/type");
    if !matches!(kind, "" | "Recreate" | "RollingUpdate") {
        let value = show_strategy(object.pointer("/spec/strategy").unwrap_or(&Value::Null));
        return vec![StatusCause::unsupported("spec.strategy", &value, &["Recreate", "RollingUpdate"])];
    }
    let Some(rolling) = present_at(object, "/spec/strategy/rollingUpdate") else { return Vec::new() };
    if kind == "Recreate" {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        return vec![StatusCause::forbidden("spec.strategy.rollingUpdate", why)];
    }
    let at = "spec.strategy.rollingUpdate";
    let mut causes: Vec<StatusCause> = Vec::new();
    if let Some(surge) = rolling.get("maxSurge") {
        // Only a percentage of unavailable pods is limited.
        let why = percentage_cause(surge, &format!("{at}.maxSurge"));
        causes.extend(why.filter(|cause| !cause.message.ends_with("100%")));
    }
    causes.extend(
        rolling.get("maxUnavailable").and_then(|v| percentage_cause(v, &format!("{at}.maxUnavailable"))),
    );
    if replaces_no_pods(rolling) {
        let value = rolling.get("maxUnavailable").unwrap_or(&Value::Null);
        causes.push(StatusCause::invalid(
            format!("{at}.maxUnavailable"),
            value,
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    causes
}

/// The error of the progress deadline of a Deployment.
fn deadline_cause(object: &Value) -> Option<StatusCause> {
    let deadline = integer_at(object, "/spec/progressDeadlineSeconds")?;
    let why = "must be greater than minReadySeconds";
    (deadline <= integer_at(object, "/spec/minReadySeconds").unwrap_or(0))
        .then(|| StatusCause::invalid("spec.progressDeadlineSeconds", &deadline.into(), why))
}

/// The error of the update strategy of a StatefulSet.
fn stateful_set_cause(object: &Value) -> Option<StatusCause> {
    let strategy = object.pointer("/spec/updateStrategy")?;
    let why = "must be 'RollingUpdate' or 'OnDelete'";
    if !matches!(text_at(strategy, "/type"), "" | "RollingUpdate" | "OnDelete") {
        return Some(StatusCause::invalid("spec.updateStrategy", &show_strategy(strategy), why));
    }
    let rolling = present_at(strategy, "/rollingUpdate")?;
    let value = json!({
        "Partition": rolling.get("partition").cloned().unwrap_or_default(),
        "MaxUnavailable": rolling.get("maxUnavailable").cloned().unwrap_or_default(),
    });
    let why = "only allowed for updateStrategy 'RollingUpdate'";
    (text_at(strategy, "/type") == "OnDelete")
        .then(|| StatusCause::invalid("spec.updateStrategy.rollingUpdate", &value, why))
}

/// The errors of a CronJob's own fields.
fn schedule_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let schedule = text_at(object, "/spec/schedule");
    if schedule.is_empty() {
        causes.push(StatusCause::required("spec.schedule", ""));
    } else if let Some(why) = super::schedule::schedule_error(schedule) {
        causes.push(StatusCause::invalid("spec.schedule", &json!(schedule), &why));
    }
    if let Some(zone) = object.pointer("/spec/timeZone").and_then(Value::as_str) {
        let errors = super::schedule::time_zone_errors(zone);
        causes.extend(errors.iter().map(|why| StatusCause::invalid("spec.timeZone", &json!(zone), why)));
    }
    let seconds = object.pointer("/spec/startingDeadlineSeconds");
    if let Some(seconds) = seconds.filter(|seconds| seconds.as_i64().is_some_and(|seconds| seconds < 0)) {
        causes.push(StatusCause::invalid("spec.startingDeadlineSeconds", seconds, NOT_NEGATIVE_MESSAGE));
    }
    let policy = text_at(object, "/spec/concurrencyPolicy");
    let policies = ["Allow", "Forbid", "Replace"];
    if !policy.is_empty() && !policies.contains(&policy) {
        causes.push(StatusCause::unsupported("spec.concurrencyPolicy", &json!(policy), &policies));
    }
    causes
}

fn selector_causes(object: &Value, template: &Value, path: &str) -> Vec<StatusCause> {
    let Some(selector) = present_at(object, "/spec/selector") else {
        return vec![StatusCause::required("spec.selector", "")];
    };
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let empty =
        wanted.is_none_or(serde_json::Map::is_empty) && list_at(selector, "/matchExpressions").is_empty();
    if empty {
        let why = "empty selector is invalid for deployment";
        return vec![StatusCause::invalid("spec.selector", selector, why)];
    }
    if selects_labels(selector, &labels) {
        return Vec::new();
    }
    let why = "`selector` does not match template `labels`";
    vec![StatusCause::invalid(format!("{path}.metadata.labels"), &labels, why)]
}

/// Whether a selector selects the labels of a template, or is invalid by itself.
fn selects_labels(selector: &Value, labels: &Value) -> bool {
    let (Ok(selector), Ok(labels)) = (
        LabelSelector::deserialize(selector),
        Option::<Labels>::deserialize(labels).map(Option::unwrap_or_default),
    ) else {
        return true;
    };
    selector.find_mistake().is_some() || selector.matches(&labels)
}

fn restart_policy_cause(kind: &str, policy: &str, path: &str) -> Option<StatusCause> {
    let field = format!("{path}.spec.restartPolicy");
    if matches!(kind, "Job" | "CronJob") {
        let known = matches!(policy, "OnFailure" | "Never");
        return (!known).then(|| StatusCause::required(field, "valid values: \"OnFailure\", \"Never\""));
    }
    (policy != "Always").then(|| StatusCause::unsupported(field, &json!(policy), &["Always"]))
}

/// The error of a change of the completions of an indexed Job, which follow its parallelism.
pub(super) fn completions_change(live: &Value, object: &Value) -> Option<StatusCause> {
    let in_tandem =
        [live, object].iter().all(|job| job.pointer("/spec/completions") == job.pointer("/spec/parallelism"));
    let changed = super::differs_at(live, object, "/spec/completions");
    let value = object.pointer("/spec/completions").unwrap_or(&Value::Null);
    let why = "can only be modified in tandem with spec.parallelism";
    (changed && !in_tandem).then(|| StatusCause::invalid("spec.completions", value, why))
}

/// The errors of a change of a StatefulSet.
pub(super) fn stateful_set_change(live: &Value, object: &Value) -> Option<StatusCause> {
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
               'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
               'minReadySeconds' are forbidden";
    (!are_equal(&fixed_set_spec(live), &fixed_set_spec(object))).then(|| StatusCause::forbidden("spec", why))
}

/// The spec of a StatefulSet without the fields that may change.
fn fixed_set_spec(object: &Value) -> Value {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let mut spec = object.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|key, _| !MUTABLE.contains(&key.as_str()));
    }
    spec
}
