//! Tests that lists are matched as Kubernetes matches them, and that each path identifies one field.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the changes as `path: from → to`, with `-` for a missing value.
fn shown(from: &Value, to: &Value) -> Vec<String> {
    let show = |value: Option<Value>| value.map_or("-".to_owned(), |v| v.to_string());
    diff_paths(from, to)
        .into_iter()
        .map(|c| format!("{}: {} → {}", c.path, show(c.from), show(c.to)))
        .collect()
}

fn pod(container: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "side"}, container]}}}})
}

#[test]
fn containers_and_their_environment_are_matched_by_name() {
    let from =
        pod(&json!({"name": "web", "image": "a:1", "env": [{"name": "A", "value": "1"}, {"name": "B"}]}));
    let to =
        pod(&json!({"name": "web", "image": "a:2", "env": [{"name": "C"}, {"name": "A", "value": "2"}]}));
    let web = "/spec/template/spec/containers[name=web]";
    assert_eq!(
        shown(&from, &to),
        [
            format!("{web}/env[name=C]: - → {{\"name\":\"C\"}}"),
            format!("{web}/env[name=A]/value: \"1\" → \"2\""),
            format!("{web}/env[name=B]: {{\"name\":\"B\"}} → -"),
            format!("{web}/image: \"a:1\" → \"a:2\""),
        ]
    );
}

#[test]
fn the_order_of_items_with_keys_is_not_a_difference() {
    let from =
        json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}], "ports": [{"port": 1}, {"port": 2}]}});
    let to =
        json!({"spec": {"volumes": [{"name": "b"}, {"name": "a"}], "ports": [{"port": 2}, {"port": 1}]}});
    assert_eq!(shown(&from, &to), [""; 0]);
}

#[test]
fn ports_are_matched_by_number_and_protocol() {
    let service = |name: &str| json!({"spec": {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "name": name}]}});
    assert_eq!(
        shown(&service("a"), &service("b")),
        ["/spec/ports[port=53,protocol=TCP]/name: \"a\" → \"b\""]
    );
    let port = |host: u16| pod(&json!({"name": "web", "ports": [{"containerPort": 80, "hostPort": host}]}));
    assert_eq!(
        shown(&port(1), &port(2)),
        ["/spec/template/spec/containers[name=web]/ports[containerPort=80,protocol=TCP]/hostPort: 1 → 2"]
    );
}

#[test]
fn items_with_equal_keys_are_matched_by_index() {
    let twice = |value: u8| json!({"env": [{"name": "A", "value": 0}, {"name": "A", "value": value}]});
    assert_eq!(shown(&twice(1), &twice(2)), ["/env/1/value: 1 → 2"]);
    let unknown = |value: u8| json!({"steps": [{"name": "A"}, {"name": "B", "value": value}]});
    assert_eq!(shown(&unknown(1), &unknown(2)), ["/steps[name=B]/value: 1 → 2"]);
}

#[test]
fn lists_without_keys_are_matched_by_the_shortest_edit() {
    let args = |args: &[&str]| json!({"args": args});
    assert_eq!(
        shown(&args(&["a", "b", "c"]), &args(&["b", "x", "c"])),
        ["/args/0: \"a\" → -", "/args/1: - → \"x\""]
    );
    assert_eq!(shown(&args(&["a", "b"]), &args(&["a", "c"])), ["/args/1: \"b\" → \"c\""]);
    let rule = |verb: &str| json!({"rules": [{"verbs": ["get"]}, {"verbs": ["get", verb]}]});
    assert_eq!(shown(&rule("list"), &rule("watch")), ["/rules/1/verbs/1: \"list\" → \"watch\""]);
}

#[test]
fn sets_have_no_order() {
    let hold = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    assert_eq!(
        shown(&hold(&["a", "x/b"]), &hold(&["c", "a"])),
        ["/metadata/finalizers[=c]: - → \"c\"", "/metadata/finalizers[=x/b]: \"x/b\" → -"]
    );
}

#[test]
fn steps_are_not_mistaken_for_one_another() {
    let from = json!({"a/b": 1, "c~d": 1, "e[f=g]": 1, "e": [{"name": "x]/y"}]});
    let to = json!({"a/b": 2, "c~d": 2, "e[f=g]": 2, "e": [{"name": "x]/y", "z": null}]});
    assert_eq!(
        shown(&from, &to),
        ["/a~1b: 1 → 2", "/c~0d: 1 → 2", "/e[name=\"x]/y\"]/z: - → null", "/e~2f=g]: 1 → 2"]
    );
}

#[test]
fn values_of_different_types_are_shown_as_a_whole() {
    assert_eq!(shown(&json!({"a": [1]}), &json!({"a": {"b": 1}})), ["/a: [1] → {\"b\":1}"]);
    assert_eq!(shown(&json!("80"), &json!(80)), [": \"80\" → 80"]);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof!["name", "ports", "spec", "finalizers", "env", "port"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..4).prop_map(|e| Value::Object(e.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_equals_itself(value in value()) {
        prop_assert!(diff_paths(&value, &value).is_empty());
    }

    #[test]
    fn every_change_has_two_values_and_the_reverse_has_changes_too(a in value(), b in value()) {
        let (there, back) = (diff_paths(&a, &b), diff_paths(&b, &a));
        for change in &there {
            prop_assert_ne!(&change.from, &change.to);
        }
        prop_assert_eq!(there.is_empty(), back.is_empty());
        if a == b {
            prop_assert!(there.is_empty());
        }
    }
}
