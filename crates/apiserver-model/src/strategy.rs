//! The strategies of kinds: what the server does to an object before it is stored. It sets fields of its own, keeps
//! fields that must not change, counts generations, and keeps the live object if nothing has changed.
//!
//! Facts: the strategies of the built-in kinds and of custom ones.

use serde_json::{Map, Value, json};

use super::apply::WriteOptions;
use super::defaults::TEMPLATE_GENERATION;
use super::failure::ApiError;
use super::kinds::ResourceKind;
use super::normalization::blank_value;
use super::typed::are_equal;
use super::values::{has_flag, list_at, text_at};
use super::{services, validation};

/// Prepares a new object, whose `metadata.uid` and `creationTimestamp` are set, for storing.
pub fn prepare_for_create(mut object: Value, write: &WriteOptions<'_>) -> Result<Value, ApiError> {
    let kind = write.kind;
    set_generation(&mut object, kind.generation.then_some(1));
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_metadata(&mut object, key, None);
    }
    set_initial_status(kind, &mut object);
    match kind.kind.as_str() {
        _ if kind.custom.is_some() => {}
        "Namespace" if object.pointer("/spec/finalizers").is_none() => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
        }
        "PersistentVolumeClaim" => add_finalizer(&mut object, "kubernetes.io/pvc-protection"),
        "PersistentVolume" => add_finalizer(&mut object, "kubernetes.io/pv-protection"),
        "DaemonSet" => {
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!("1");
        }
        "Job" => set_job_labels(&mut object),
        "Service" => services::set_families(&mut object),
        _ => {}
    }
    validation::validate_create(kind, &object)?;
    Ok(object)
}

/// Prepares an object for replacing the live one; returns the live object itself if the update changes nothing.
pub fn prepare_for_update(
    live: &Value,
    mut object: Value,
    write: &WriteOptions<'_>,
) -> Result<Value, ApiError> {
    let kind = write.kind;
    validation::validate_identity(kind, live, &object)?;
    keep_immutable(live, &mut object, write);
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    let raised =
        kind.generation && write.subresource != Some("status") && raises_generation(kind, live, &object);
    set_generation(&mut object, generation.map(|g| g + i64::from(raised)));
    validation::validate_update(kind, live, &object, write.subresource)?;
    Ok(if is_unchanged(live, &object) { live.clone() } else { object })
}

/// Whether two objects differ only in their versions and in the times of `managedFields`.
pub fn is_unchanged(live: &Value, object: &Value) -> bool {
    are_equal_by(live, object, None, |key, live, new| match key {
        "metadata" => has_same_metadata(live, new),
        _ => are_equal(live, new),
    })
}

/// Whether metadata differs only in the version and in the times of `managedFields`.
fn has_same_metadata(live: &Value, new: &Value) -> bool {
    are_equal_by(live, new, Some("resourceVersion"), |key, live, new| {
        match (key, live.as_array(), new.as_array()) {
            ("managedFields", Some(live), Some(new)) => {
                live.len() == new.len()
                    && live.iter().zip(new).all(|(live, new)| {
                        are_equal_by(live, new, Some("time"), |_, live, new| are_equal(live, new))
                    })
            }
            _ => are_equal(live, new),
        }
    })
}

/// Whether two values are equal without the field `ignored`. `compare` compares the values of the other fields.
fn are_equal_by(
    a: &Value,
    b: &Value,
    ignored: Option<&str>,
    compare: fn(&str, &Value, &Value) -> bool,
) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return are_equal(a, b) };
    let mut fields = a.iter().filter(|(key, _)| Some(key.as_str()) != ignored);
    let mut others = b.keys().filter(|key| Some(key.as_str()) != ignored);
    fields.all(|(key, value)| b.get(key).is_some_and(|other| compare(key, value, other)))
        && others.all(|key| a.contains_key(key))
}

/// Keeps the fields that an update cannot change; the server does not report them.
fn keep_immutable(live: &Value, object: &mut Value, write: &WriteOptions<'_>) {
    let kind = write.kind;
    if write.subresource == Some("status") {
        let managed = object.pointer("/metadata/managedFields").cloned();
        let keys: Vec<String> =
            object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let old = live.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        for key in old.chain(keys) {
            if key != "status" && (key != "metadata" || kind.custom.is_some()) {
                keep_field(live, object, &key);
            }
        }
        if kind.custom.is_none() && kind.group == "apps" {
            let labels = live.pointer("/metadata/labels").cloned();
            set_metadata(object, "labels", labels);
        }
        set_metadata(object, "managedFields", managed);
    } else if kind.status {
        keep_field(live, object, "status");
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
        let value = live.get("metadata").and_then(|metadata| metadata.get(key)).cloned();
        set_metadata(object, key, value);
    }
    if kind.is_builtin("Service") {
        services::keep_allocated(live, object);
    }
    if kind.is_builtin("DaemonSet") {
        count_template_generation(live, object);
    }
    if kind.is_builtin("Namespace") {
        keep_field(live, object, "spec");
    }
}

/// Gives a field the value that it has in the live object, or removes it.
fn keep_field(live: &Value, object: &mut Value, key: &str) {
    if let Some(value) = live.get(key) {
        object[key] = value.clone();
    } else if let Some(map) = object.as_object_mut() {
        map.shift_remove(key);
    }
}

fn set_metadata(object: &mut Value, key: &str, value: Option<Value>) {
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
    set_metadata(object, "generation", generation.map(Value::from));
}

/// Whether a change counts as a new generation.
fn raises_generation(kind: &ResourceKind, live: &Value, object: &Value) -> bool {
    if kind.custom.is_none() && kind.kind == "Deployment" {
        return validation::differs_at(live, object, "/spec")
            || validation::differs_at(live, object, "/metadata/annotations");
    }
    if kind.custom.is_none() && (live.get("spec").is_some() || object.get("spec").is_some()) {
        return validation::differs_at(live, object, "/spec");
    }
    if kind.is_builtin("PriorityClass") {
        return false;
    }
    let keys = live.as_object().into_iter().chain(object.as_object()).flat_map(|map| map.keys());
    keys.filter(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        .filter(|key| !(kind.status && *key == "status"))
        .any(|key| !are_equal(live.get(key).unwrap_or(&Value::Null), object.get(key).unwrap_or(&Value::Null)))
}

fn set_initial_status(kind: &ResourceKind, object: &mut Value) {
    if !kind.status {
        return;
    }
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    if kind.custom.is_some() {
        return;
    }
    let field = kind.schema.parts().and_then(|parts| parts.find_field("status"));
    if let Some(status) = field.and_then(blank_value) {
        object["status"] = status;
    }
    if kind.is_builtin("CustomResourceDefinition") {
        let stored = list_at(object, "/spec/versions").iter().filter(|version| has_flag(version, "storage"));
        let names: Vec<Value> = stored.filter_map(|v| v.get("name").cloned()).collect();
        object["status"]["storedVersions"] = Value::Array(names);
    }
    let phase = match kind.kind.as_str() {
        "Namespace" => "Active",
        "PersistentVolumeClaim" | "PersistentVolume" | "Pod" => "Pending",
        _ => return,
    };
    object["status"]["phase"] = json!(phase);
    if kind.is_builtin("Pod") {
        object["status"]["qosClass"] = json!(qos_class(object));
    }
}

/// The `QoS` class of a pod, by the requests and limits of its containers.
fn qos_class(pod: &Value) -> &'static str {
    let (mut any, mut all_limited) = (false, true);
    for container in list_at(pod, "/spec/containers") {
        for name in ["cpu", "memory"] {
            let request = container.pointer(&format!("/resources/requests/{name}"));
            let limit = container.pointer(&format!("/resources/limits/{name}"));
            any |= request.is_some() || limit.is_some();
            all_limited &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, all_limited) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn add_finalizer(object: &mut Value, name: &str) {
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

/// A Job selects its pods by its own uid, unless `manualSelector` is set.
fn set_job_labels(object: &mut Value) {
    if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return copy_template_labels(object);
    }
    let uid = text_at(object, "/metadata/uid").to_owned();
    let name = text_at(object, "/metadata/name").to_owned();
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    for (key, value) in labels {
        object["spec"]["template"]["metadata"]["labels"][key] = json!(value);
    }
    copy_template_labels(object);
    object["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = json!(uid);
}

/// A Job without labels gets those of its template.
fn copy_template_labels(object: &mut Value) {
    let own = object.pointer("/metadata/labels").and_then(Value::as_object);
    let given = object.pointer("/spec/template/metadata/labels").filter(|labels| labels.is_object());
    if let (true, Some(labels)) = (own.is_none_or(Map::is_empty), given.cloned()) {
        object["metadata"]["labels"] = labels;
    }
}

/// A DaemonSet counts the changes of its template in an annotation.
fn count_template_generation(live: &Value, object: &mut Value) {
    let old = live
        .pointer("/metadata/annotations")
        .and_then(|a| a.get(TEMPLATE_GENERATION))
        .and_then(Value::as_str);
    let count: i64 = old.and_then(|text| text.parse().ok()).unwrap_or(1);
    let count = count + i64::from(validation::differs_at(live, object, "/spec/template"));
    object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(count.to_string());
}
