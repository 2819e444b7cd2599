//! Applies and updates one after another, by example.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn kind(api_version: &str, kind: &str) -> ResourceKind {
    ResourceKind::find_builtin(api_version, kind).cloned().unwrap()
}

fn write<'w>(kind: &'w ResourceKind, manager: &'w str) -> WriteOptions<'w> {
    WriteOptions { kind, manager, subresource: None, force: false, now: NOW }
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn deployment(replicas: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "nginx:1.25"}]},
            },
        },
    })
}

fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| e["manager"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_new_object_is_completed_even_where_nothing_is_said_of_it() {
    let kind = kind("v1", "Namespace");
    let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let live = apply_object(None, &named, &write(&kind, "me")).unwrap();
    assert_eq!(live["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_manager_owns_it() {
    let kind = kind("v1", "ConfigMap");
    let both = config_map(&json!({"a": "1", "b": "2"}));
    let live = apply_object(None, &both, &write(&kind, "m1")).unwrap();
    let live = apply_object(Some(&live), &config_map(&json!({"a": "1"})), &write(&kind, "m2")).unwrap();
    let live = apply_object(Some(&live), &config_map(&json!({})), &write(&kind, "m1")).unwrap();
    assert_eq!(live["data"], json!({"a": "1"}));
    // m1 owns the empty mapping that it applied.
    assert_eq!(owners(&live), ["m2", "m1"]);
}

#[test]
fn a_field_that_goes_gets_its_default_and_raises_the_generation() {
    let kind = kind("apps/v1", "Deployment");
    let live = apply_object(None, &deployment(&json!(4)), &write(&kind, "me")).unwrap();
    assert_eq!(live["metadata"]["generation"], 1);
    let mut without = deployment(&json!(4));
    without["spec"].as_object_mut().unwrap().shift_remove("replicas");
    let live = apply_object(Some(&live), &without, &write(&kind, "me")).unwrap();
    assert_eq!((&live["spec"]["replicas"], &live["metadata"]["generation"]), (&json!(1), &json!(2)));
}

#[test]
fn only_pods_get_host_ports_by_default() {
    let spec = json!({"hostNetwork": true, "containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 81}]}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": spec});
    let stored = complete_object(&kind("v1", "Pod"), pod);
    assert_eq!(stored["spec"]["containers"][0]["ports"][0]["hostPort"], 81);
    let mut deployment = deployment(&json!(1));
    deployment["spec"]["template"]["spec"] = spec;
    let stored = complete_object(&kind("apps/v1", "Deployment"), deployment);
    assert_eq!(stored["spec"]["template"]["spec"]["containers"][0]["ports"][0].get("hostPort"), None);
}

#[test]
fn limits_of_containers_have_defaults() {
    let item = json!({"type": "Container", "max": {"memory": "2Gi", "cpu": "4"}, "default": {"cpu": "2"},
        "min": {"cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Gi"}});
    let limits = json!([item, {"type": "Pod", "max": {"cpu": "1"}}, {"type": "Container"}]);
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"limits": limits}});
    let stored = complete_object(&kind("v1", "LimitRange"), range);
    let limits = &stored["spec"]["limits"];
    assert_eq!(limits[0]["default"], json!({"memory": "2Gi", "cpu": "2"}));
    assert_eq!(limits[0]["defaultRequest"], json!({"memory": "2Gi", "cpu": "2", "ephemeral-storage": "1Gi"}));
    assert_eq!(
        (&limits[1], &limits[2]),
        (&json!({"type": "Pod", "max": {"cpu": "1"}}), &json!({"type": "Container"}))
    );
}

#[test]
fn the_same_again_changes_nothing() {
    let kind = kind("apps/v1", "Deployment");
    let live = apply_object(None, &deployment(&json!(2)), &write(&kind, "me")).unwrap();
    let later = WriteOptions { now: "2026-01-01T00:00:05Z", ..write(&kind, "me") };
    assert_eq!(apply_object(Some(&live), &deployment(&json!(2)), &later).unwrap(), live);
}

#[test]
fn who_takes_nothing_but_joint_ownership_has_no_time() {
    let kind = kind("v1", "ConfigMap");
    let object = config_map(&json!({"a": "1"}));
    let live = apply_object(None, &object, &write(&kind, "m1")).unwrap();
    let live = apply_object(Some(&live), &object, &write(&kind, "m2")).unwrap();
    let first = &live["metadata"]["managedFields"][0];
    assert_eq!((&first["manager"], first.get("time")), (&json!("m2"), None));
}

#[test]
fn force_takes_fields_and_updates_take_them_without_being_asked() {
    let kind = kind("v1", "ConfigMap");
    let live = apply_object(None, &config_map(&json!({"a": "1"})), &write(&kind, "m1")).unwrap();
    let other = config_map(&json!({"a": "2"}));
    assert_eq!(apply_object(Some(&live), &other, &write(&kind, "m2")).unwrap_err().code, 409);
    let forced = WriteOptions { force: true, ..write(&kind, "m2") };
    assert_eq!(owners(&apply_object(Some(&live), &other, &forced).unwrap()), ["m2"]);
    let mut new = live.clone();
    new["data"]["a"] = json!("3");
    let updated = update_managers(Some(&live), &new, &write(&kind, "m3"));
    assert_eq!(owners(&updated), ["m3"]);
    assert_eq!(updated["metadata"]["managedFields"][0]["operation"], "Update");
}

#[test]
fn what_was_there_before_the_first_apply_belongs_to_the_past() {
    let kind = kind("v1", "ConfigMap");
    let live = config_map(&json!({"a": "1"}));
    let refused =
        merge_applied(Some(&live), &config_map(&json!({"a": "2"})), &write(&kind, "me")).unwrap_err();
    let want = "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a";
    assert_eq!(refused.message, want);
}

#[test]
fn the_oldest_of_many_updates_are_folded_into_one() {
    let kind = kind("v1", "ConfigMap");
    let mut live = update_managers(None, &config_map(&json!({})), &write(&kind, "none"));
    live["metadata"]["uid"] = json!("u");
    for number in 0..12 {
        let manager = format!("m{number:02}");
        let now = format!("2026-01-01T00:00:{number:02}Z");
        let mut new = live.clone();
        new["data"][&manager] = json!("1");
        // Tracking begins with a creation.
        let before = if number == 0 { None } else { Some(&live) };
        live = update_managers(before, &new, &WriteOptions { now: &now, ..write(&kind, &manager) });
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], "ancient-changes");
    assert_eq!(owners[9], "m11");
}

#[test]
fn kinds_with_unknown_fields_are_merged_key_by_key() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": "Thing", "plural": "things"});
    let spec = json!({"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]});
    let kind = ResourceKind::from_definition(&json!({"spec": spec})).remove(0);
    let object = |spec: Value| json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec});
    let live = apply_object(None, &object(json!({"a": {"x": 1}, "l": [1, 2]})), &write(&kind, "m1")).unwrap();
    let live = apply_object(Some(&live), &object(json!({"a": {"y": 1}})), &write(&kind, "m2")).unwrap();
    assert_eq!(live["spec"], json!({"a": {"x": 1, "y": 1}, "l": [1, 2]}));
    let refused = apply_object(Some(&live), &object(json!({"l": [1]})), &write(&kind, "m2")).unwrap_err();
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"m1\": .spec.l");
}

#[test]
fn what_must_not_change_does_not() {
    let kind = kind("apps/v1", "Deployment");
    let live = apply_object(None, &deployment(&json!(1)), &write(&kind, "me")).unwrap();
    let mut other = deployment(&json!(1));
    for pointer in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
        *other.pointer_mut(pointer).unwrap() = json!("other");
    }
    let refused = apply_object(Some(&live), &other, &write(&kind, "me")).unwrap_err();
    assert_eq!(refused.code, 422);
    assert!(refused.message.contains("spec.selector: Invalid value"), "{refused}");
}

#[test]
fn changes_of_a_service_are_refused_before_its_content() {
    let kind = kind("v1", "Service");
    let service = |address: &str, sort: &str, port: u32| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"clusterIP": address,
            "clusterIPs": [address], "type": sort, "ports": [{"port": port}], "selector": {"app": "a"}}})
    };
    let live = apply_object(None, &service("10.96.0.9", "ClusterIP", 80), &write(&kind, "m")).unwrap();
    let refused =
        apply_object(Some(&live), &service("10.96.0.10", "Nope", 0), &write(&kind, "m")).unwrap_err();
    let causes =
        refused.details["causes"].as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap());
    let fields = ["spec.clusterIPs[0]", "spec.ports[0].port", "spec.ports[0].targetPort", "spec.type"];
    assert_eq!(causes.collect::<Vec<_>>(), fields);
}
