//! The defaults of workloads and autoscalers.

use serde_json::{Value, json};

use super::{
    TEMPLATE_GENERATION, items_below, list_at, mapping_below, pods, present_at, set_default, text_below,
};

pub(super) fn default_deployment(object: &mut Value) {
    let spec = mapping_below(object, "spec");
    pods::default_template(mapping_below(spec, "template"));
    set_default(spec, "replicas", || json!(1));
    let strategy = mapping_below(spec, "strategy");
    set_default(strategy, "type", || json!("RollingUpdate"));
    if text_below(strategy, "type") == "RollingUpdate" {
        let rolling = mapping_below(strategy, "rollingUpdate");
        set_default(rolling, "maxUnavailable", || json!("25%"));
        set_default(rolling, "maxSurge", || json!("25%"));
    }
    set_default(spec, "revisionHistoryLimit", || json!(10));
    set_default(spec, "progressDeadlineSeconds", || json!(600));
}

pub(super) fn default_stateful_set(object: &mut Value) {
    let spec = mapping_below(object, "spec");
    pods::default_template(mapping_below(spec, "template"));
    set_default(spec, "podManagementPolicy", || json!("OrderedReady"));
    let strategy = mapping_below(spec, "updateStrategy");
    set_default(strategy, "type", || json!("RollingUpdate"));
    if text_below(strategy, "type") == "RollingUpdate" {
        set_default(mapping_below(strategy, "rollingUpdate"), "partition", || json!(0));
    }
    let retention = mapping_below(spec, "persistentVolumeClaimRetentionPolicy");
    set_default(retention, "whenDeleted", || json!("Retain"));
    set_default(retention, "whenScaled", || json!("Retain"));
    set_default(spec, "replicas", || json!(1));
    set_default(spec, "revisionHistoryLimit", || json!(10));
    for claim in items_below(spec, "volumeClaimTemplates") {
        set_default(claim, "apiVersion", || json!("v1"));
        set_default(claim, "kind", || json!("PersistentVolumeClaim"));
        super::storage::default_claim_spec(mapping_below(claim, "spec"));
        set_default(mapping_below(claim, "status"), "phase", || json!("Pending"));
    }
}

pub(super) fn default_daemon_set(object: &mut Value) {
    // The template generation is a field in the server and an annotation outside of it.
    set_default(mapping_below(mapping_below(object, "metadata"), "annotations"), TEMPLATE_GENERATION, || {
        json!("0")
    });
    let spec = mapping_below(object, "spec");
    pods::default_template(mapping_below(spec, "template"));
    let strategy = mapping_below(spec, "updateStrategy");
    set_default(strategy, "type", || json!("RollingUpdate"));
    if text_below(strategy, "type") == "RollingUpdate" {
        let rolling = mapping_below(strategy, "rollingUpdate");
        set_default(rolling, "maxUnavailable", || json!(1));
        set_default(rolling, "maxSurge", || json!(0));
    }
    set_default(spec, "revisionHistoryLimit", || json!(10));
}

/// `ReplicaSets` and `ReplicationControllers`; the selector of the latter defaults to the labels of the template.
pub(super) fn default_replica_set(object: &mut Value) {
    let spec = mapping_below(object, "spec");
    pods::default_template(mapping_below(spec, "template"));
    set_default(spec, "replicas", || json!(1));
}

pub(super) fn default_job(spec: &mut Value) {
    pods::default_template(mapping_below(spec, "template"));
    if present_at(spec, "/completions").is_none() && present_at(spec, "/parallelism").is_none() {
        spec["completions"] = json!(1);
        spec["parallelism"] = json!(1);
    }
    set_default(spec, "parallelism", || json!(1));
    let backoff = if present_at(spec, "/backoffLimitPerIndex").is_none() { 6 } else { i32::MAX };
    set_default(spec, "backoffLimit", || json!(backoff));
    set_default(spec, "completionMode", || json!("NonIndexed"));
    set_default(spec, "suspend", || json!(false));
    set_default(spec, "manualSelector", || json!(false));
    let policy =
        if present_at(spec, "/podFailurePolicy").is_none() { "TerminatingOrFailed" } else { "Failed" };
    set_default(spec, "podReplacementPolicy", || json!(policy));
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in items_below(policy, "rules") {
            for condition in items_below(rule, "onPodConditions") {
                set_default(condition, "status", || json!("True"));
            }
        }
    }
}

/// The template of a Job gets its defaults only when the Job is created.
pub(super) fn default_cron_job(spec: &mut Value) {
    set_default(spec, "concurrencyPolicy", || json!("Allow"));
    set_default(spec, "suspend", || json!(false));
    set_default(spec, "successfulJobsHistoryLimit", || json!(3));
    set_default(spec, "failedJobsHistoryLimit", || json!(1));
    pods::default_template(mapping_below(
        mapping_below(mapping_below(spec, "jobTemplate"), "spec"),
        "template",
    ));
}

pub(super) fn default_autoscaler(spec: &mut Value) {
    set_default(spec, "minReplicas", || json!(1));
    if list_at(spec, "/metrics").is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    let Some(behavior) = spec.get_mut("behavior").filter(|b| b.is_object()) else { return };
    let up = json!([
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]);
    let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
    for (direction, policies) in [("scaleUp", up), ("scaleDown", down)] {
        let rules = mapping_below(behavior, direction);
        set_default(rules, "selectPolicy", || json!("Max"));
        set_default(rules, "policies", || policies);
        if direction == "scaleUp" {
            set_default(rules, "stabilizationWindowSeconds", || json!(0));
        }
    }
}
