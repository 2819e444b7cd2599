//! Karmada's cases: placements, errors, manifests and suspensions of a whole repo.

use std::collections::BTreeMap;

use federate::dialect::{Placement, Plan};
use federate::engine::{self, Engine, Settings};
use federate::k8s::{Finding, ObjectRef, Severity};
use federate::repo::{self, Config, File};
use serde_json::{Map, Value, json};

use crate::diff::compare;

pub(crate) fn judge(case: &Value) -> Result<(), String> {
    let settings = Settings { strict_inventory: true, previous: previous(case), ..Settings::default() };
    let loaded = repo::load_bytes(files(case), Config::default(), &engine::claims);
    let (clusters, mut findings) = engine::inventory(&loaded.repo, &settings);
    let repo = loaded.expand(&clusters);
    findings.extend(repo.findings.iter().cloned());
    let engine = Engine::new(&repo, &clusters, &settings);
    let planned = engine.plan();
    findings.extend(planned.findings);
    let want = &case["expect"];
    let mut got = Map::new();
    got.insert("placements".into(), planned.plan.placements.iter().map(row).collect());
    let suspended = suspended(&planned.plan);
    let manifests = engine.manifests(&planned.plan);
    findings.extend(manifests.findings);
    if want.get("manifests").is_some() {
        let mut by_cluster: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for manifest in &manifests.manifests {
            let body = federate::yaml::read(manifest.text.as_bytes()).documents.remove(0).value;
            for cluster in &manifest.clusters {
                by_cluster.entry(cluster.to_string()).or_default().push(body.clone());
            }
        }
        got.insert("manifests".into(), json!(by_cluster));
    }
    let errors = errors(&findings)?;
    if want.get("errors").is_some()
        || errors.iter().any(|e| !e.ends_with("override-failed"))
        || want.get("manifests").is_some() && !errors.is_empty()
    {
        got.insert("errors".into(), json!(errors));
    }
    if !suspended.is_empty() || want.get("suspended").is_some() {
        got.insert("suspended".into(), json!(suspended));
    }
    compare(&sorted(want.clone()), &sorted(Value::Object(got)))
}

/// Each object as a file of its own.
fn files(case: &Value) -> Vec<File> {
    let objects = case["files"].as_array().expect("a list").iter().enumerate();
    objects
        .map(|(index, object)| File {
            path: format!("{index:03}.json").into(),
            bytes: object.to_string().into_bytes().into(),
        })
        .collect()
}

fn previous(case: &Value) -> Plan {
    let rows = case["previous"].as_array().cloned().unwrap_or_default();
    let placements = rows.iter().map(|row| {
        let clusters = row["clusters"].as_object().expect("a map");
        let clusters: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let memory: Map<String, Value> = row
            .as_object()
            .expect("a map")
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "object" | "clusters"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        json!({"object": row["object"], "clusters": clusters, "memory": memory})
    });
    serde_json::from_value(json!({"placements": placements.collect::<Vec<_>>()})).expect("a plan")
}

fn row(placement: &Placement) -> Value {
    let clusters: Map<String, Value> =
        placement.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect();
    let namespace = placement.object.kind == "Namespace" && placement.policy.is_none();
    let policy = match &placement.policy {
        Some(policy) => policy.to_string(),
        None if namespace => "namespace-auto-propagation".to_owned(),
        None => String::new(),
    };
    let mut row = json!({"object": placement.object, "policy": policy, "clusters": clusters});
    if let Some(affinity) = placement.memory.get("affinity") {
        row["affinity"] = affinity.clone();
    }
    if let Some(unschedulable) = &placement.unschedulable {
        row["unschedulable"] = json!(unschedulable.reason);
    }
    if !placement.required_by.is_empty() {
        row["requiredBy"] = json!(placement.required_by);
    }
    row
}

fn suspended(plan: &Plan) -> BTreeMap<String, Vec<&ObjectRef>> {
    let mut all: BTreeMap<String, Vec<&ObjectRef>> = BTreeMap::new();
    for placement in &plan.placements {
        for cluster in &placement.suspended {
            all.entry(cluster.to_string()).or_default().push(&placement.object);
        }
    }
    all
}

fn errors(findings: &[Finding]) -> Result<Vec<String>, String> {
    let mut errors = Vec::new();
    for finding in findings.iter().filter(|f| f.severity == Severity::Error) {
        match (&finding.object, finding.code) {
            (Some(id), "override-failed" | "waiting-for-dependent-overrides") => {
                errors.push(format!("{id}: {}", finding.code));
            }
            _ => return Err(format!("unexpected error {}: {}", finding.code, finding.message)),
        }
    }
    errors.sort();
    errors.dedup();
    Ok(errors)
}

/// Lists of objects have no order of their own.
fn sorted(mut expect: Value) -> Value {
    let by_text = |list: &mut Vec<Value>| {
        list.sort_by_key(|v| crate::diff::normal(v).to_string());
    };
    if let Some(list) = expect["placements"].as_array_mut() {
        for row in list.iter_mut() {
            if let Some(required) = row.get_mut("requiredBy").and_then(Value::as_array_mut) {
                by_text(required);
            }
        }
        by_text(list);
    }
    for key in ["manifests", "suspended"] {
        if let Some(map) = expect.get_mut(key).and_then(Value::as_object_mut) {
            map.retain(|_, list| list.as_array().is_none_or(|l| !l.is_empty()));
            map.values_mut().filter_map(Value::as_array_mut).for_each(by_text);
        }
    }
    if let Some(list) = expect.get_mut("errors").and_then(Value::as_array_mut) {
        by_text(list);
    }
    expect
}
