//! Karmada's cases: placements, errors, manifests and suspensions of a whole repo.

use std::collections::BTreeMap;

use federate_dialect::PreviousPlan;
use federate_dialect::{Placement, Plan};
use federate_engine::EngineSettings;
use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{Ran, previous, run_with};

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let ran = run_after(&case["files"], previous(case), config(case));
    verify_answer(&ran.plan, &ran, &case["expect"], &case["files"])
}

/// Verifies what admission refuses; if nothing, the placements by what it accepts.
pub(crate) fn verify_refusals(case: &Value) -> Result<(), String> {
    let ran = run_after(&case["files"], Plan::default(), config(case));
    let refusals =
        ran.findings.iter().filter(|f| f.severity == Severity::Error && f.code == "invalid-policy");
    let mut refused: Vec<String> = refusals.filter_map(|f| Some(f.object.as_ref()?.to_string())).collect();
    refused.dedup();
    let mut got = json!({"refused": refused});
    if case["expect"].get("placements").is_some() {
        got["placements"] = ran.plan.placements.iter().map(row).collect();
    }
    compare(&sorted(case["expect"].clone()), &sorted(got))
}

/// Verifies what an override or a script makes of a default: a value, its absence, or an error. Members add the defaults
/// that a manifest leaves out.
pub(crate) fn verify_defaults(case: &Value) -> Result<(), String> {
    let ran = run_after(&case["files"], Plan::default(), config(case));
    let want = &case["expect"];
    let (failed, path) = (errors(&ran.findings)?, want["path"].as_str().expect("a path"));
    if let Some(wanted) = want.get("errors") {
        return compare(wanted, &json!(failed));
    }
    let is_wanted = |object: &&Value| {
        let (metadata, wanted) = (&object["metadata"], &want["manifest"]["metadata"]);
        object["kind"] == want["manifest"]["kind"] && metadata["name"] == wanted["name"]
    };
    let manifest =
        ran.manifests.values().flatten().find(is_wanted).ok_or(format!("no manifest: {failed:?}"))?;
    if want["absent"] == true {
        return compare(&Value::Null, manifest.pointer(path).unwrap_or(&Value::Null));
    }
    let text = |key: &str| manifest[key].as_str().unwrap_or_default();
    let kind = federate_apiserver_model::ResourceKind::find_builtin(text("apiVersion"), text("kind"))
        .expect("a built-in kind");
    let completed = federate_apiserver_model::complete_object(kind, manifest.clone());
    let got = manifest.pointer(path).or_else(|| completed.pointer(path));
    compare(&want["value"], got.unwrap_or(&Value::Null))
}

/// Verifies a whole repo.
pub(crate) fn verify_repo(case: &Value) -> Result<(), String> {
    let files = &case["files"];
    verify_whole(&run_after(files, Plan::default(), config(case)), &case["expect"], files)
}

/// Verifies two states of a repo, one after the other.
pub(crate) fn verify_steps(case: &Value) -> Result<(), String> {
    let first = run_after(&case["files"], Plan::default(), config(case));
    verify_whole(&first, &case["expect"]["first"], &case["files"]).map_err(|e| format!("first: {e}"))?;
    let then = run_after(&case["then"], first.plan, config(case));
    verify_whole(&then, &case["expect"]["then"], &case["then"]).map_err(|e| format!("then: {e}"))
}

/// Plans and renders a repo after an earlier plan.
fn run_after(files: &Value, previous: Plan, config: Config) -> Ran {
    let files = &with_scopes(files);
    let settings = EngineSettings {
        strict_inventory: true,
        previous: PreviousPlan::new(previous),
        ..EngineSettings::default()
    };
    run_with(files, &settings, config, |_, _| ()).0
}

/// Adds the definition of a kind that the recorded control plane served in namespaces, although it is cluster-wide.
fn with_scopes(files: &Value) -> Value {
    let mut files = files.clone();
    let objects = files.as_array_mut().expect("a list");
    if objects.iter().any(|file| file["kind"] == "SidecarSet" && !file["metadata"]["namespace"].is_null()) {
        objects.push(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sidecarsets.apps.kruise.io"},
            "spec": {
                "group": "apps.kruise.io", "scope": "Namespaced",
                "names": {"kind": "SidecarSet", "plural": "sidecarsets"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true}],
            },
        }));
    }
    files
}

/// Compares what came of a whole repo with what is expected. Rows of Namespaces that go everywhere are not recorded, nor
/// is that another scheduler would decide. What is left of a binding that nothing needs any more has no row.
fn verify_whole(ran: &Ran, want: &Value, files: &Value) -> Result<(), String> {
    let mut want = want.clone();
    let rows = want["placements"].as_array_mut().expect("a list");
    rows.retain(|row| row["policy"] != "" || row["clusters"] != json!({}));
    let objects: Vec<Value> = rows.iter().map(|row| row["object"].clone()).collect();
    let mut plan = ran.plan.clone();
    plan.placements.retain(|row| row.object.kind != "Namespace" || objects.contains(&json!(row.object)));
    for row in &mut plan.placements {
        row.unschedulable.take_if(|unschedulable| unschedulable.reason == "OtherScheduler");
    }
    verify_answer(&plan, ran, &want, files)
}

/// Compares what came of a repo with what is expected of it.
fn verify_answer(plan: &Plan, ran: &Ran, want: &Value, files: &Value) -> Result<(), String> {
    let mut got = Map::new();
    got.insert("placements".into(), plan.placements.iter().map(row).collect());
    let suspended = suspended(&ran.plan);
    if want.get("manifests").is_some() {
        let mut manifests = json!(ran.manifests);
        if !want.to_string().contains("imagePullPolicy") {
            // Most cases were recorded without the defaults of an API server.
            for manifest in manifests.as_object_mut().into_iter().flat_map(Map::values_mut) {
                for manifest in manifest.as_array_mut().into_iter().flatten() {
                    remove_default_pull_policies(manifest, find_template(files, manifest));
                }
            }
        }
        got.insert("manifests".into(), manifests);
    }
    let errors = errors(&ran.findings)?;
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

/// The release that answered, where it is not the newest.
fn config(case: &Value) -> Config {
    let mut config = Config::default();
    if let Some(version) = case.get("version") {
        let settings = Map::from_iter([("version".to_owned(), version.clone())]);
        config.dialects.insert("karmada".to_owned(), settings);
    }
    config
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
    if let Some(affinity) = placement.scheduler_state.get("affinity") {
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
            (
                Some(id),
                "override-failed"
                | "waiting-for-dependent-overrides"
                | "interpreter-failed"
                | "revise-failed",
            ) => {
                errors.push(format!("{id}: {}", finding.code));
            }
            // Admission refuses it, but the cases store it.
            (_, "invalid-customization") => {}
            _ => return Err(format!("unexpected error {}: {}", finding.code, finding.message)),
        }
    }
    errors.sort();
    errors.dedup();
    Ok(errors)
}

/// The template of a manifest.
fn find_template<'c>(files: &'c Value, manifest: &Value) -> &'c Value {
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        [&object["apiVersion"], &object["kind"], &metadata["namespace"], &metadata["name"]].map(Value::clone)
    };
    let wanted = key(manifest);
    files.as_array().into_iter().flatten().find(|file| key(file) == wanted).unwrap_or(&Value::Null)
}

/// Removes the policies that an API server gives the containers of the template, by the images that they have there.
fn remove_default_pull_policies(manifest: &mut Value, template: &Value) {
    match manifest {
        Value::Object(map) => {
            let image = template["image"].as_str();
            if image.is_some_and(|image| map.get("imagePullPolicy") == Some(&default_pull_policy(image))) {
                map.shift_remove("imagePullPolicy");
            }
            map.iter_mut().for_each(|(key, value)| remove_default_pull_policies(value, &template[key]));
        }
        Value::Array(items) => {
            let templates = template.as_array().map_or(&[][..], Vec::as_slice);
            for item in items {
                let named = templates.iter().find(|one| one.get("name") == item.get("name"));
                remove_default_pull_policies(item, named.unwrap_or(&Value::Null));
            }
        }
        _ => {}
    }
}

fn default_pull_policy(image: &str) -> Value {
    let name = image.rsplit('/').next().unwrap_or(image);
    let is_latest = !name.contains(':') || name.ends_with(":latest");
    json!(if is_latest && !name.contains('@') { "Always" } else { "IfNotPresent" })
}

/// Sorts lists of objects, whose order has no meaning.
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
    for key in ["errors", "refused"] {
        if let Some(list) = expect.get_mut(key).and_then(Value::as_array_mut) {
            by_text(list);
        }
    }
    expect
}
