//! The cases of what control planes derive from looks at members: the status of inventory objects, and the
//! replicas that find room.

use std::collections::BTreeMap;

use federate_dialect::goduration;
use federate_dialect::probe::Healthz;
use federate_kubeadmiral::capacity as admiral;
use federate_kubeadmiral::migration::{self, MemberDeployment};
use federate_kubefed::capacity as kubefed;
use federate_kubernetes::Object;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::LabelSelector;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::observed;

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

fn duration(value: &Value) -> SignedDuration {
    value.as_str().and_then(goduration::parse).expect("a duration")
}

fn objects(value: &Value) -> Vec<Object> {
    value.as_array().into_iter().flatten().map(observed).collect()
}

/// Code 0 stands for no connection; `refused` says so in the client's words.
fn healthz(step: &Value, refused: &str) -> Healthz {
    match step["healthz"]["code"].as_u64().expect("a code") {
        0 => Healthz::Unreachable(refused.to_owned()),
        code => Healthz::Answered {
            code: u16::try_from(code).expect("an HTTP status"),
            body: step["healthz"]["body"].as_str().expect("a body").to_owned(),
        },
    }
}

/// `kubefed/clusterstatus`. That no client can be made is in `covers` alone.
pub(crate) fn kubefed(case: &Value) -> Result<(), String> {
    let number = |key: &str| u32::try_from(case["config"][key].as_u64().expect("a number")).expect("small");
    let thresholds =
        kubefed::ProbeThresholds { failure: number("failureThreshold"), success: number("successThreshold") };
    let malformed = case["covers"].as_array().expect("a list").contains(&json!("malformed"));
    let mut memory: Option<kubefed::ProbedStatus> = None;
    let mut steps = Vec::new();
    for step in case["steps"].as_array().expect("a list") {
        let version = step["version"].as_str().filter(|version| !version.is_empty());
        let probe = if malformed {
            kubefed::KubeFedProbe::Malformed
        } else {
            kubefed::KubeFedProbe::Answered {
                healthz: healthz(step, "Get \"http://member/healthz\": connection refused"),
                version: version.map(str::to_owned),
            }
        };
        let written = kubefed::cluster_status(memory.as_ref(), &probe, thresholds, time(&step["at"]));
        steps.push(json!({"ready": written.is_ready(), "status": written.to_status()}));
        memory = Some(written);
    }
    let zones = if malformed { json!({}) } else { kubefed::region_and_zones(&objects(&case["nodes"])) };
    compare(&case["expect"], &json!({"steps": steps, "zonesFromNodes": zones}))
}

/// `kubeadmiral/clusterstatus`.
pub(crate) fn kubeadmiral(case: &Value) -> Result<(), String> {
    let flags = admiral::StatusFlags {
        period: duration(&case["flags"]["clusterHealthCheckPeriod"]),
        threshold: duration(&case["flags"]["clusterStatusThreshold"]),
    };
    let filters = case["flags"]["resourceAggregationNodeFilter"].as_array().into_iter().flatten();
    let filters: Vec<LabelSelector> = filters
        .map(|text| LabelSelector::parse(text.as_str().expect("a selector")).expect("a selector"))
        .collect();
    let mut cluster = observed(&case["cluster"]);
    let mut memory: Option<admiral::StatusHistory> = None;
    let mut steps = Vec::new();
    for step in case["steps"].as_array().expect("a list") {
        let due = admiral::is_due(&cluster, flags, time(&step["at"]));
        let seen = observation(case, step, &filters);
        let ended = if due { seen.ended } else { seen.started };
        if due {
            let (status, remembered) = admiral::cluster_status(&cluster, memory.as_ref(), &seen, flags);
            cluster.body["status"] = status;
            memory = Some(remembered);
        }
        let status = cluster.body["status"].clone();
        steps.push(json!({"collected": due, "endedAt": ended.to_string(), "status": status}));
    }
    compare(&plain(&case["expect"]), &plain(&json!({ "steps": steps })))
}

fn observation(case: &Value, step: &Value, filters: &[LabelSelector]) -> admiral::MemberProbe {
    let synced = step["informersSynced"] == json!(true);
    let started = time(&step["at"]);
    let healthy = healthz(step, "").is_ok();
    let wait = if synced || !healthy { 0 } else { 5 };
    admiral::MemberProbe {
        started,
        ended: started + SignedDuration::from_secs(wait),
        healthz: healthz(step, ""),
        resources: synced
            .then(|| admiral::compute_resources(&objects(&step["nodes"]), &objects(&step["pods"]), filters)),
        discovery: discovery(case, step),
    }
}

fn discovery(case: &Value, step: &Value) -> admiral::Discovery {
    let mut discovery = admiral::Discovery::default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for list in case["apiResources"].as_array().expect("a list") {
        let group_version = text(&list["groupVersion"]);
        if step["discoveryFails"].as_array().is_some_and(|failing| failing.contains(&list["groupVersion"])) {
            let why = "the server is currently unable to handle the request";
            discovery.failed.push((group_version, why.to_owned()));
            continue;
        }
        let resources = list["resources"].as_array().expect("a list").iter();
        discovery.resources.extend(resources.map(|resource| admiral::DiscoveredApi {
            group_version: group_version.clone(),
            group: text(&resource["group"]),
            version: text(&resource["version"]),
            kind: text(&resource["kind"]),
            name: text(&resource["name"]),
            namespaced: resource["namespaced"] == json!(true),
        }));
    }
    discovery
}

/// The status of each step with its quantities as plain numbers.
fn plain(expect: &Value) -> Value {
    let mut expect = expect.clone();
    for step in expect["steps"].as_array_mut().expect("a list") {
        let Some(resources) = step["status"].get_mut("resources") else { continue };
        for key in ["allocatable", "available"] {
            let amounts = resources.get_mut(key).and_then(Value::as_object_mut);
            for amount in amounts.into_iter().flat_map(Map::values_mut) {
                *amount = Quantity::from_json(amount).expect("a quantity").to_string().into();
            }
        }
    }
    expect
}

/// `kubeadmiral/automigration`.
pub(crate) fn automigration(case: &Value) -> Result<(), String> {
    let members = case["members"].as_object().expect("a map");
    let read = |member: &Value| {
        (observed(&member["object"]), objects(&member["replicaSets"]), objects(&member["pods"]))
    };
    let there: BTreeMap<&str, (Object, Vec<Object>, Vec<Object>)> =
        members.iter().map(|(name, member)| (name.as_str(), read(member))).collect();
    let mut workloads = BTreeMap::new();
    for (name, (deployment, replica_sets, pods)) in &there {
        let reachable = members[*name]["unreachable"] != json!(true);
        let pods = reachable.then_some(pods.as_slice());
        workloads.insert(*name, MemberDeployment { deployment, replica_sets, pods });
    }
    let estimate = migration::estimate_capacity(&workloads, duration(&case["threshold"]), time(&case["now"]));
    let mut got = json!({"annotation": estimate.estimates.to_annotation()});
    if estimate.again.is_some() || estimate.failed {
        got["requeue"] = json!({"backoff": estimate.failed});
        if let Some(again) = estimate.again {
            got["requeue"]["after"] = goduration::format_duration(again).into();
        }
    }
    compare(&case["expect"], &got)
}
