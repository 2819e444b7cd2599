//! The set arithmetic of field sets, by example.

use serde_json::json;

use super::*;

fn set(value: &Value) -> FieldSet {
    FieldSet::parse(value).unwrap()
}

#[test]
fn survives_reading_and_writing() {
    let value = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:tags": {"v:\"a\"": {}, "v:1": {}},
        },
    });
    assert_eq!(set(&value).to_json(), value);
    assert!(FieldSet::parse(&json!({"x:a": {}})).is_none());
}

#[test]
fn paths_read_as_in_messages() {
    let set = set(&json!({
        "f:data": {"f:k": {}},
        "f:spec": {"f:ports": {"k:{\"protocol\":\"TCP\",\"port\":80}": {"f:targetPort": {}}}, "f:tags": {"v:\"a\"": {}}},
    }));
    let paths = [".data.k", ".spec.ports[port=80,protocol=\"TCP\"].targetPort", ".spec.tags[=\"a\"]"];
    assert_eq!(set.format_paths(), paths);
}

#[test]
fn differences_keep_what_lies_below() {
    let all = set(&json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
    let some = set(&json!({"f:data": {".": {}, "f:a": {}}}));
    assert_eq!(all.clone().difference(&some), set(&json!({"f:data": {"f:b": {}}})));
    assert_eq!(all.intersection(&some), some);
    assert_eq!(some.clone().union(set(&json!({"f:data": {"f:b": {}}}))), all);
    assert!(some.is_within(&all) && !all.is_within(&some));
    let whole = set(&json!({"f:data": {}}));
    assert!(all.clone().without_below(&whole).is_empty());
    assert!(!all.difference(&whole).is_empty());
}

#[test]
fn numbers_are_what_they_amount_to() {
    assert_eq!(PathElement::Item(json!(1)), PathElement::Item(json!(1.0)));
    assert!(PathElement::Item(json!(2)) < PathElement::Item(json!(10)));
}
