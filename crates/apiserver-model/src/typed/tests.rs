//! Merging, comparing and removing, by example.

use serde_json::json;

use super::super::schema::find_builtin;
use super::*;

fn deployment() -> &'static Type {
    find_builtin("Deployment").unwrap()
}

fn env(names: &[&str]) -> Value {
    let env: Vec<Value> = names.iter().map(|n| json!({"name": n, "value": "1"})).collect();
    json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "env": env}]}}}})
}

fn merged(live: &[&str], applied: &[&str]) -> Vec<String> {
    let merged = merge_objects(deployment(), &env(live), env(applied));
    let list = merged.pointer("/spec/template/spec/containers/0/env").unwrap().as_array().unwrap();
    list.iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lists_keep_both_orders_as_far_as_they_can() {
    assert_eq!(merged(&["A", "B"], &["X", "B"]), ["A", "X", "B"]);
    assert_eq!(merged(&["A", "B", "C"], &["C", "A"]), ["B", "C", "A"]);
    assert_eq!(merged(&["A", "C"], &["A", "B", "C"]), ["A", "B", "C"]);
    assert_eq!(merged(&["A"], &["B"]), ["A", "B"]);
    assert_eq!(merged(&[], &["B", "A"]), ["B", "A"]);
}

#[test]
fn fields_are_leaves_items_and_what_is_empty() {
    let value = json!({"spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [{"name": "app", "args": ["x"], "ports": [{"containerPort": 80}]}]}},
        "strategy": null,
    }});
    let want = json!({"f:spec": {
        "f:selector": {},
        "f:strategy": {},
        "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {
            ".": {}, "f:name": {}, "f:args": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
        }}}},
    }});
    assert_eq!(collect_fields(deployment(), &value).to_json(), want);
}

#[test]
fn what_comes_new_is_listed_with_all_its_parts() {
    let config_map = find_builtin("ConfigMap").unwrap();
    let found =
        compare_objects(config_map, &json!({"metadata": {}}), &json!({"data": {"a": "1"}, "metadata": {}}));
    assert_eq!(found.added.to_json(), json!({"f:data": {".": {}, "f:a": {}}}));
    let found =
        compare_objects(config_map, &json!({"data": {"a": "1", "b": "1"}}), &json!({"data": {"a": "2"}}));
    assert_eq!(found.modified.format_paths(), [".data.a"]);
    assert_eq!(found.removed.format_paths(), [".data.b"]);
    assert!(found.added.is_empty());
}

#[test]
fn removing_leaves_null_where_nothing_is_left() {
    let config_map = find_builtin("ConfigMap").unwrap();
    let value = json!({"data": {"a": "1", "b": "2"}});
    let mut set = FieldSet::default();
    set.insert_path(&["data", "a"]);
    assert_eq!(remove_fields(config_map, &value, &set), json!({"data": {"b": "2"}}));
    assert_eq!(keep_fields(config_map, &value, &set), json!({"data": {"a": "1"}}));
    set.insert_path(&["data", "b"]);
    assert_eq!(remove_fields(config_map, &value, &set), json!({"data": null}));
}

#[test]
fn says_what_cannot_be_merged() {
    let value = json!({"spec": {"replicas": "two", "replicaz": 1, "template": {"spec": {
        "containers": [{"name": "app", "env": [{"name": "A"}, {"name": "A"}]}, null],
    }}}});
    let wrong = check_types(deployment(), &value);
    assert_eq!(wrong[0], ".spec.replicas: expected numeric (int or float), got string");
    assert_eq!(wrong[1], ".spec.replicaz: field not declared in schema");
    let env = ".spec.template.spec.containers[name=\"app\"].env: duplicate entries for key [name=\"A\"]";
    assert_eq!(wrong[2], env);
    let containers =
        ".spec.template.spec.containers: element 1: associative list with keys may not have a null element";
    assert_eq!(wrong[3], containers);
}

#[test]
fn a_name_that_is_not_given_is_empty() {
    let containers = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
    assert!(check_types(deployment(), &containers).is_empty());
    assert!(
        collect_fields(deployment(), &containers).to_json().to_string().contains(r#""k:{\"name\":\"\"}""#)
    );
    // Except where it is optional.
    let account = json!({"secrets": [{}]});
    let wrong = check_types(find_builtin("ServiceAccount").unwrap(), &account);
    assert!(
        wrong[0].starts_with(".secrets: element 0: associative list with keys has an element that omits")
    );
}

#[test]
fn an_empty_list_of_items_has_no_owner() {
    let value =
        json!({"spec": {"template": {"spec": {"containers": [], "nodeSelector": {}, "tolerations": []}}}});
    let want = json!({"f:spec": {"f:template": {"f:spec": {"f:nodeSelector": {}, "f:tolerations": {}}}}});
    assert_eq!(collect_fields(deployment(), &value).to_json(), want);
}

#[test]
fn items_that_are_there_twice_are_marked_only() {
    let ports = |ports: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "ports": ports}]}}}});
    let (one, two) =
        (ports(json!([{"containerPort": 80}])), ports(json!([{"containerPort": 80}, {"containerPort": 80}])));
    let port = r#"{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":"#;
    let written = |set: &FieldSet| {
        set.to_json().to_string().split_once(port).map(|(_, rest)| rest.trim_end_matches('}').to_owned())
    };
    assert_eq!(written(&collect_fields(deployment(), &two)).as_deref(), Some("{"));
    let found = compare_objects(deployment(), &two, &one);
    assert_eq!(written(&found.added).as_deref(), Some(r#"{".":{},"f:containerPort":{"#));
    assert_eq!(written(&found.removed).as_deref(), Some("{"));
    assert!(compare_objects(deployment(), &two, &two).is_empty());
}
