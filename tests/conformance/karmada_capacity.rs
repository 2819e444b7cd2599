//! Karmada's cases of the status of clusters, and of quotas.

use std::collections::BTreeMap;

use federate_karmada::capacity::readiness::{self, ConditionThresholds, GracePeriods, MemberHealth};
use federate_karmada::capacity::taints::{self, ClusterTaint};
use federate_karmada::capacity::{EndpointAnswer, ObservedMember, cluster_status};
use federate_karmada::quota::{self, QuotaAdmission};
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{Finding, Object};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::models::cluster_readiness::{self, LeaseMonitor, ReadinessThreshold};

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn objects(value: &Value) -> Vec<Object> {
    list(value).iter().map(|body| Object::from_manifest(body.clone(), "member")).collect()
}

fn of_kind(all: &[Object], kind: &str) -> Vec<Object> {
    all.iter().filter(|object| object.id.kind == kind).cloned().collect()
}

pub(crate) fn seconds(value: &Value) -> SignedDuration {
    SignedDuration::from_secs(value.as_i64().expect("seconds"))
}

/// The status of a cluster: as a whole, or its condition over time.
pub(crate) fn status(case: &Value) -> Result<(), String> {
    match case["op"].as_str() {
        Some("ready") => damped(case),
        Some("monitor") => monitored(case),
        _ => collected(case),
    }
}

fn collected(case: &Value) -> Result<(), String> {
    let all = objects(&case["files"]);
    let cluster = all.iter().find(|object| object.id.kind == "Cluster").expect("a cluster");
    let answer = |key: &str| match &case[key] {
        Value::Null => EndpointAnswer::Status(200),
        Value::Number(code) => {
            EndpointAnswer::Status(code.as_u64().and_then(|c| u16::try_from(c).ok()).expect("a code"))
        }
        _ => EndpointAnswer::None,
    };
    let discovery = case["discovery"].as_object().into_iter().flatten();
    let discovery: BTreeMap<String, Option<Vec<Value>>> =
        discovery.map(|(version, resources)| (version.clone(), resources.as_array().cloned())).collect();
    let (nodes, pods) = (of_kind(&all, "Node"), of_kind(&all, "Pod"));
    let seen = ObservedMember {
        readyz: answer("readyz"),
        healthz: answer("healthz"),
        version: case["version"].as_str(),
        discovery: &discovery,
        nodes: &nodes,
        pods: &pods,
    };
    let mut got = json!(cluster_status(cluster, &seen));
    for condition in got["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().expect("an object").remove("lastTransitionTime");
    }
    compare(&case["expect"], &got)
}

fn damped(case: &Value) -> Result<(), String> {
    let start = Timestamp::UNIX_EPOCH;
    let thresholds = &case["thresholds"];
    let thresholds = ConditionThresholds {
        success: seconds(&thresholds["success"]),
        failure: seconds(&thresholds["failure"]),
    };
    // Scenarios do not observe a cluster: they must read from the rule what the observations come to.
    same_loss(&cluster_readiness::lose_endpoint(thresholds), &readiness::lose_endpoint(thresholds))?;
    let before: Vec<Condition> = if case["conditions"].is_null() {
        Vec::new()
    } else {
        Deserialize::deserialize(&case["conditions"]).expect("conditions")
    };
    let mut stored = condition::find_condition(&before, "Ready").cloned();
    let mut damper = ReadinessThreshold::default();
    let mut reported = Vec::new();
    for observation in list(&case["observations"]) {
        let health = match observation["seen"].as_str() {
            Some("healthy") => MemberHealth::Healthy,
            Some("unhealthy") => MemberHealth::Unhealthy,
            _ => MemberHealth::Unreachable,
        };
        let now = start + seconds(&observation["at"]);
        let ready =
            damper.adjust_condition(stored.as_ref(), readiness::ready_condition(health), thresholds, now);
        reported.push(json!({"at": observation["at"], "reason": ready.reason, "status": ready.status}));
        stored = Some(ready);
    }
    compare(&case["expect"], &json!({"ready": reported}))
}

type ClusterLoss = (SignedDuration, Condition);

fn same_loss(observed: &ClusterLoss, rule: &ClusterLoss) -> Result<(), String> {
    if observed == rule { Ok(()) } else { Err(format!("observed {observed:?}, by the rule {rule:?}")) }
}

fn monitored(case: &Value) -> Result<(), String> {
    let start: Timestamp = case["now"].as_str().and_then(|now| now.parse().ok()).expect("a time");
    let cluster = objects(&case["files"]).remove(0);
    let created = cluster.text_at(&["metadata", "creationTimestamp"]).parse().unwrap_or(start);
    let pulls = cluster.text_at(&["spec", "syncMode"]) == "Pull";
    let flag = |key: &str, default: SignedDuration| case["flags"].get(key).map_or(default, seconds);
    let default = GracePeriods::default();
    let grace = GracePeriods {
        monitor: flag("clusterMonitorGracePeriod", default.monitor),
        startup: flag("clusterStartupGracePeriod", default.startup),
    };
    same_loss(&cluster_readiness::lose_agent(grace), &readiness::lose_agent(grace))?;
    let conditions = cluster.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
    let mut conditions: Vec<Condition> =
        conditions.map_or(Vec::new(), |c| Deserialize::deserialize(c).expect("conditions"));
    let spec_taints = cluster.value_at(&["spec", "taints"]).filter(|t| !t.is_null());
    let mut taints: Vec<ClusterTaint> =
        spec_taints.map_or(Vec::new(), |t| Deserialize::deserialize(t).expect("taints"));
    let (mut monitor, mut lease) = (LeaseMonitor::default(), None);
    let mut states = Vec::new();
    for step in list(&case["timeline"]) {
        let now = start + seconds(&step["at"]);
        if let Some(status) = step["posted"].as_str() {
            let posted = Condition::new("Ready", status, &format!("Posted{status}"), "");
            condition::set_condition(&mut conditions, posted, now);
        }
        if step["lease"] == true {
            lease = Some(now);
        }
        if pulls {
            let ready = condition::find_condition(&conditions, "Ready").cloned();
            if let Some(unknown) = monitor.observe_cluster(created, ready.as_ref(), lease, grace, now) {
                condition::set_condition(&mut conditions, unknown, now);
            }
        }
        let ready = condition::find_condition(&conditions, "Ready");
        taints::update_no_schedule(&mut taints, ready, now);
        let mut state = json!({"at": step["at"], "taints": taints});
        if let Some(ready) = ready {
            state["ready"] = json!({"reason": ready.reason, "status": ready.status});
        }
        states.push(state);
    }
    compare(&case["expect"], &json!({"states": states}))
}

/// Quotas: those of members, and admission.
pub(crate) fn quotas(case: &Value) -> Result<(), String> {
    let all = objects(&case["files"]);
    let quotas = of_kind(&all, "FederatedResourceQuota");
    let valid: Map<String, Value> = quotas
        .iter()
        .map(|quota| {
            (quota.id.namespaced_name(), (!quota::validate_quota(quota).iter().any(Finding::is_error)).into())
        })
        .collect();
    let mut got = json!({"valid": valid});
    match case["op"].as_str() {
        Some("sync") => synced(&all, &quotas, &mut got),
        Some("admit") => admitted(case, &quotas, &mut got),
        _ => {}
    }
    // No command computes the status of a quota.
    let mut expected = case["expect"].clone();
    expected.as_object_mut().expect("a map").remove("status");
    compare(&expected, &got)
}

/// The quotas of members.
fn synced(all: &[Object], quotas: &[Object], got: &mut Value) {
    let clusters = of_kind(all, "Cluster");
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.id.name.as_str()).collect();
    let mut manifests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for quota in quotas {
        for (cluster, object) in quota::member_quotas(quota, &names).expect("a quota") {
            manifests.entry(cluster).or_default().push(object.body);
        }
    }
    got["manifests"] = json!(manifests);
}

fn admitted(case: &Value, quotas: &[Object], got: &mut Value) {
    let binding = Object::from_manifest(case["binding"].clone(), "hub");
    let old = (!case["old"].is_null()).then(|| Object::from_manifest(case["old"].clone(), "hub"));
    let mut of_namespace: Vec<&Object> =
        quotas.iter().filter(|quota| quota.id.namespace == binding.id.namespace).collect();
    of_namespace.sort_by(|a, b| a.id.name.cmp(&b.id.name));
    let enforced = case["featureGates"]["FederatedQuotaEnforcement"] == true;
    let verdict = if enforced {
        quota::admit_binding(&binding, old.as_ref(), &of_namespace).expect("objects that can be read")
    } else {
        QuotaAdmission::Allowed(BTreeMap::new())
    };
    let mut used: Map<String, Value> = quotas
        .iter()
        .map(|quota| {
            let used = quota.value_at(&["status", "overallUsed"]).cloned();
            (quota.id.namespaced_name(), used.unwrap_or_else(|| json!({})))
        })
        .collect();
    got["allowed"] = matches!(verdict, QuotaAdmission::Allowed(_)).into();
    match verdict {
        QuotaAdmission::Allowed(written) => {
            for quota in of_namespace {
                if let Some(list) = written.get(&quota.id.name) {
                    used.insert(quota.id.namespaced_name(), json!(list));
                }
            }
        }
        QuotaAdmission::Exceeded { .. } => got["reason"] = "QuotaExceeded".into(),
    }
    got["overallUsed"] = used.into();
}
