//! Mistakes in built-in and custom objects, as people make them.

use serde_json::{Value, json};

use super::*;

fn found(object: &Value) -> Vec<(String, ProblemEffect, String)> {
    let text = |key: &str| object[key].as_str().unwrap();
    let kind = ResourceKind::find_builtin(text("apiVersion"), text("kind")).unwrap();
    let all = find_problems(kind, object).into_iter();
    all.map(|p| (p.pointer, p.effect, p.help.unwrap_or(p.message))).collect()
}

fn deployment(spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
    for (key, value) in spec.as_object().unwrap() {
        if let Some(place) = object.pointer_mut(key) {
            *place = value.clone();
        } else {
            let (parent, key) = key.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[key] = value.clone();
        }
    }
    object
}

#[test]
fn a_good_object_has_no_problem() {
    assert_eq!(found(&deployment(&json!({"/spec/replicas": 3}))), []);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": null},
        "data": {"k": "v"}});
    assert_eq!(found(&map), []);
}

#[test]
fn each_mistake_is_found_at_its_place() {
    let container = "/spec/template/spec/containers/0";
    let at = |field: &str| format!("{container}/{field}");
    for (field, value, pointer, effect, part) in [
        ("/spec/replcas", json!(3), "/spec/replcas", ProblemEffect::Dropped, "did you mean `replicas`?"),
        ("/spec/replicas", json!("3"), "/spec/replicas", ProblemEffect::Refused, "remove the quotes"),
        (
            "/spec/containers",
            json!([]),
            "/spec/containers",
            ProblemEffect::Dropped,
            "belongs to `spec.template.spec`",
        ),
        ("/metadata/labels", json!({"a": true}), "/metadata/labels/a", ProblemEffect::Refused, "in quotes"),
        (
            "/metadata/labels",
            json!({"a": "b c"}),
            "/metadata/labels/a",
            ProblemEffect::Refused,
            "a valid label",
        ),
        ("/metadata/name", json!("Web"), "/metadata/name", ProblemEffect::BadName, "RFC 1123"),
        ("/spec/selector", Value::Null, "/spec", ProblemEffect::Refused, "`selector`"),
        (
            "/spec/selector/matchExpressions",
            json!([{"key": "app", "operator": "in", "values": ["web"]}]),
            "/spec/selector/matchExpressions/0/operator",
            ProblemEffect::Refused,
            "did you mean `In`?",
        ),
        (
            "/spec/selector/matchExpressions",
            json!([{"key": "app", "operator": "NotIn", "values": ["web"]}]),
            "/spec/template/metadata/labels",
            ProblemEffect::Refused,
            "selector",
        ),
        (
            "/spec/selector/matchLabels/app",
            json!("wbe"),
            "/spec/template/metadata/labels",
            ProblemEffect::Refused,
            "match",
        ),
        (&at("image"), Value::Null, container, ProblemEffect::Refused, "`image`"),
        (
            &at("ports"),
            json!([{"containerPort": "http"}]),
            &at("ports/0/containerPort"),
            ProblemEffect::Refused,
            "whole number",
        ),
        (
            &at("env"),
            json!([{"name": "A"}, {"name": "A"}]),
            &at("env/1"),
            ProblemEffect::Ambiguous,
            "remove one",
        ),
        (
            &at("resources"),
            json!({"limits": {"cpu": "much"}}),
            &at("resources/limits/cpu"),
            ProblemEffect::Refused,
            "quantity",
        ),
        (
            "/spec/strategy",
            json!({"type": "Rolling"}),
            "/spec/strategy",
            ProblemEffect::Refused,
            "RollingUpdate",
        ),
    ] {
        let object = deployment(&json!({field: value}));
        let all = found(&object);
        let [(at, what, words)] = all.as_slice() else { panic!("{field}: {all:?}") };
        assert_eq!((at.as_str(), *what), (pointer, effect), "{field}: {words}");
        assert!(words.contains(part), "{field}: {words}");
    }
}

#[test]
fn an_autoscaler_scales_to_zero_by_metrics_that_need_no_pods() {
    let autoscaler = |metric: &str| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 0, "maxReplicas": 3, "metrics": [metric_of(metric)]}})
    };
    for (metric, effect) in [("External", ProblemEffect::GatedValue), ("Resource", ProblemEffect::Refused)] {
        let all = found(&autoscaler(metric));
        let [(at, what, _)] = all.as_slice() else { panic!("{metric}: {all:?}") };
        assert_eq!((at.as_str(), *what), ("/spec/minReplicas", effect), "{metric}");
    }
}

fn metric_of(kind: &str) -> Value {
    match kind {
        "External" => json!({"type": kind, "external": {
            "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}}),
        _ => json!({"type": kind, "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}),
    }
}

#[test]
fn a_misspelt_required_field_is_reported_once() {
    let mut object = deployment(&json!({}));
    let spec = object.pointer_mut("/spec/template/spec").unwrap();
    *spec = json!({"contaners": [{"name": "web", "image": "nginx"}]});
    let all = found(&object);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].2, "did you mean `containers`?");
}

#[test]
fn values_of_secrets_are_not_quoted() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": true, "l": "hunter2!"}});
    let all = found(&secret);
    assert!(all.iter().any(|(at, ..)| at == "/data/k"), "{all:?}");
    assert!(!format!("{all:?}").contains("hunter2"), "{all:?}");
}

#[test]
fn custom_resources_follow_their_definition() {
    let definition = json!({"spec": {"group": "x.io", "scope": "Namespaced",
        "names": {"kind": "Box", "plural": "boxes"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "maximum": 9}, "mode": {"type": "string", "enum": ["Fast", "Slow"]},
                "code": {"type": "string", "pattern": "^[a-z]+$"}, "open": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}}}}}]}});
    let kind = ResourceKind::from_definition(&definition).remove(0);
    for (spec, pointer, part) in [
        (json!({"size": 1, "siz": 2}), "/spec/siz", "did you mean `size`?"),
        (json!({"mode": "Fast"}), "/spec", "`size`"),
        (json!({"size": 1, "mode": "Fats"}), "/spec/mode", "did you mean `Fast`?"),
        (json!({"size": 10}), "/spec/size", "less than or equal to 9"),
        (json!({"size": "1"}), "/spec/size", "remove the quotes"),
        (json!({"size": 1, "code": "HUNTER2"}), "/spec/code", "should match"),
    ] {
        let object = json!({"apiVersion": "x.io/v1", "kind": "Box", "metadata": {"name": "a"}, "spec": spec});
        let all = find_problems(&kind, &object);
        assert_eq!(all.len(), 1, "{all:?}");
        let words = all[0].help.clone().unwrap_or_else(|| all[0].message.clone());
        assert_eq!(all[0].pointer, pointer, "{words}");
        assert!(words.contains(part) && !words.contains("HUNTER2"), "{words}");
    }
    let open = json!({"apiVersion": "x.io/v1", "kind": "Box", "metadata": {"name": "a"},
        "spec": {"size": 1, "open": {"any": 1}}});
    assert_eq!(find_problems(&kind, &open), []);
}

#[test]
fn valid_labels_and_images_cannot_be_problems() {
    let kind = ResourceKind::find_builtin("apps/v1", "Deployment").unwrap();
    let before = deployment(&json!({}));
    let is_plain_at = |pointer: &str, value: Value| {
        let after = deployment(&json!({"/metadata/labels": {"a": "b"}, pointer: value}));
        is_plain(kind, pointer, &before, &after)
    };
    assert!(is_plain_at("/metadata/labels/region", json!("eu")));
    assert!(is_plain_at("/spec/template/spec/containers/0/image", json!("nginx:2")));
    for (pointer, value) in [
        ("/metadata/labels/region", json!("?")),
        ("/metadata/labels/region", json!(7)),
        ("/metadata/labels/", json!("eu")),
        ("/spec/template/metadata/labels/app", json!("other")),
        ("/spec/strategy", json!("Recreate")),
    ] {
        assert!(!is_plain_at(pointer, value), "{pointer}");
    }
}
