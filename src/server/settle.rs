//! What the server does to an object between receiving and storing it: it sets what is its own to
//! set, keeps what must not change, counts generations, and stores nothing where nothing changed.
//!
//! Facts: the strategies of the built-in kinds and of custom ones.

use serde_json::{Map, Value, json};

use super::apply::Write;
use super::canonical::canonical;
use super::failure::Failure;
use super::kinds::Kind;
use super::typed::same;
use super::{services, validate};

/// A new object, ready to be stored. `metadata.uid` and `creationTimestamp` have been set.
pub fn create(mut object: Value, write: &Write<'_>) -> Result<Value, Failure> {
    let kind = write.kind;
    set_generation(&mut object, kind.generation.then_some(1));
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set(&mut object, key, None);
    }
    initial_status(kind, &mut object);
    match kind.kind.as_str() {
        _ if kind.custom.is_some() => {}
        "Namespace" if object.pointer("/spec/finalizers").is_none() => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
        }
        "PersistentVolumeClaim" => finalizer(&mut object, "kubernetes.io/pvc-protection"),
        "PersistentVolume" => finalizer(&mut object, "kubernetes.io/pv-protection"),
        "DaemonSet" => {
            object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("1");
        }
        "Job" => job_labels(&mut object),
        "Service" => services::families(&mut object),
        _ => {}
    }
    validate::create(kind, &object)?;
    Ok(object)
}

/// What becomes of the live object by an update with this one; the live object itself where that
/// changes nothing.
pub fn update(live: &Value, mut object: Value, write: &Write<'_>) -> Result<Value, Failure> {
    let kind = write.kind;
    validate::identity(kind, live, &object)?;
    keep(live, &mut object, write);
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    let raised = kind.generation && write.subresource != Some("status") && raises(kind, live, &object);
    set_generation(&mut object, generation.map(|g| g + i64::from(raised)));
    validate::update(kind, live, &object, write.subresource)?;
    Ok(if unchanged(live, &object) { live.clone() } else { object })
}

/// Whether two objects differ at most in their versions and in when their fields were written.
pub fn unchanged(live: &Value, object: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("resourceVersion");
            let entries = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
            for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
                entry.shift_remove("time");
            }
        }
        object
    };
    same(&timeless(live), &timeless(object))
}

/// What an update cannot change stays as it is, without a word.
fn keep(live: &Value, object: &mut Value, write: &Write<'_>) {
    let kind = write.kind;
    let carry = |object: &mut Value, key: &str| match live.get(key) {
        Some(value) => object[key] = value.clone(),
        None => {
            object.as_object_mut().map(|map| map.shift_remove(key));
        }
    };
    let managed = object.pointer("/metadata/managedFields").cloned();
    if write.subresource == Some("status") {
        let keys: Vec<String> =
            object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let old = live.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        for key in old.chain(keys) {
            if key != "status" && (key != "metadata" || kind.custom.is_some()) {
                carry(object, &key);
            }
        }
        if kind.custom.is_none() && kind.group == "apps" {
            let labels = live.pointer("/metadata/labels").cloned();
            set(object, "labels", labels);
        }
        set(object, "managedFields", managed);
    } else if kind.status {
        carry(object, "status");
    }
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generateName",
        "resourceVersion",
    ] {
        let value = live.pointer(&format!("/metadata/{key}")).cloned();
        set(object, key, value);
    }
    if kind.is("Service") {
        services::keep(live, object);
    }
    if kind.is("DaemonSet") {
        template_generation(live, object);
    }
    if kind.is("Namespace") {
        carry(object, "spec");
    }
}

fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if !object.is_object() {
        *object = json!({});
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        match value {
            Some(value) => {
                metadata.insert(key.to_owned(), value);
            }
            None => {
                metadata.shift_remove(key);
            }
        }
    }
}

fn set_generation(object: &mut Value, generation: Option<i64>) {
    set(object, "generation", generation.map(Value::from));
}

/// Whether a change counts as a new generation.
fn raises(kind: &Kind, live: &Value, object: &Value) -> bool {
    let differs =
        |key: &str| !same(live.get(key).unwrap_or(&Value::Null), object.get(key).unwrap_or(&Value::Null));
    if kind.custom.is_none() && kind.kind == "Deployment" {
        let annotations = |o: &Value| o.pointer("/metadata/annotations").cloned().unwrap_or_default();
        return differs("spec") || !same(&annotations(live), &annotations(object));
    }
    if kind.custom.is_none() && (live.get("spec").is_some() || object.get("spec").is_some()) {
        return differs("spec");
    }
    if kind.is("PriorityClass") {
        return false;
    }
    let keys = live.as_object().into_iter().chain(object.as_object()).flat_map(|map| map.keys());
    keys.filter(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        .any(|key| !(kind.status && key == "status") && differs(key))
}

fn initial_status(kind: &Kind, object: &mut Value) {
    if !kind.status {
        return;
    }
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    if kind.custom.is_some() {
        return;
    }
    let blank = canonical(&kind.schema, &json!({}));
    if let Some(status) = blank.get("status") {
        object["status"] = status.clone();
    }
    if kind.is("CustomResourceDefinition") {
        let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let stored = versions.filter(|v| v.get("storage") == Some(&Value::Bool(true)));
        let names: Vec<Value> = stored.filter_map(|v| v.get("name").cloned()).collect();
        object["status"]["storedVersions"] = Value::Array(names);
    }
    let phase = match kind.kind.as_str() {
        "Namespace" => "Active",
        "PersistentVolumeClaim" | "PersistentVolume" | "Pod" => "Pending",
        _ => return,
    };
    object["status"]["phase"] = json!(phase);
    if kind.is("Pod") {
        object["status"]["qosClass"] = json!(quality(object));
    }
}

/// The class of a pod by what its containers ask for and are limited to.
fn quality(pod: &Value) -> &'static str {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let containers: Vec<&Value> = containers.into_iter().flatten().collect();
    let amount = |c: &Value, list: &str, name: &str| c.pointer(&format!("/resources/{list}/{name}")).cloned();
    let names = ["cpu", "memory"];
    let any = containers
        .iter()
        .any(|c| names.iter().any(|n| amount(c, "requests", n).or(amount(c, "limits", n)).is_some()));
    let all = containers.iter().all(|c| {
        names.iter().all(|n| {
            let limit = amount(c, "limits", n);
            limit.is_some() && amount(c, "requests", n).is_none_or(|request| Some(request) == limit)
        })
    });
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn finalizer(object: &mut Value, name: &str) {
    let list = &mut object["metadata"]["finalizers"];
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == name)
    {
        list.push(json!(name));
    }
}

/// A job selects its pods by its own uid, unless that is left to people.
fn job_labels(object: &mut Value) {
    if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (uid, name) = (text("/metadata/uid"), text("/metadata/name"));
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    for (key, value) in labels {
        object["spec"]["template"]["metadata"]["labels"][key] = json!(value);
    }
    // The job itself gets them from its template, where it has none of its own.
    if object.pointer("/metadata/labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
        let labels = object.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
        object["metadata"]["labels"] = labels;
    }
    object["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = json!(uid);
}

/// A daemon set counts the changes of its template in an annotation.
fn template_generation(live: &Value, object: &mut Value) {
    const KEY: &str = "deprecated.daemonset.template.generation";
    let template = |o: &Value| o.pointer("/spec/template").cloned().unwrap_or_default();
    let old = live.pointer("/metadata/annotations").and_then(|a| a.get(KEY)).and_then(Value::as_str);
    let count: i64 = old.and_then(|text| text.parse().ok()).unwrap_or(1);
    let count = count + i64::from(!same(&template(live), &template(object)));
    object["metadata"]["annotations"][KEY] = json!(count.to_string());
}
