//! Tests of comparing two renderings.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

/// A manifest of a `ConfigMap` or Deployment for some clusters.
fn manifest(kind: &str, name: &str, clusters: &[&str], fields: &Value) -> Manifest {
    let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    let mut body =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "a"}});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    let mut text = String::new();
    federate_yaml::write_document(&body, &mut text);
    let object = ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("a".to_owned()),
        name: name.to_owned(),
    };
    let clusters = clusters.iter().map(|name| Arc::from(*name)).collect();
    Manifest { object, clusters, text: text.into(), value: None, changes: Vec::new() }
}

fn web(clusters: &[&str], image: &str, replicas: i64) -> Manifest {
    manifest("Deployment", "web", clusters, &json!({"spec": {"image": image, "replicas": replicas}}))
}

fn plan(rows: &Value) -> Plan {
    serde_json::from_value(json!({"placements": rows})).unwrap()
}

fn row(clusters: &Value) -> Value {
    json!([{"object": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "web"},
        "dialect": "karmada", "clusters": clusters}])
}

fn between(from: (&Plan, &[Manifest]), to: (&Plan, &[Manifest])) -> RenderingChanges {
    let side = |(plan, manifests)| RenderingSide { clusters: &[], plan, manifests };
    compare_renderings(&side(from), &side(to), &DigestKey::new(b"key"))
}

fn objects(from: &[Manifest], to: &[Manifest]) -> Vec<ObjectChange> {
    let none = Plan::default();
    between((&none, from), (&none, to)).objects
}

fn names(clusters: &[ClusterName]) -> Vec<&str> {
    clusters.iter().map(|name| &**name).collect()
}

#[test]
fn regrouped_clusters_are_not_a_difference() {
    let from = [web(&["m1", "m2", "m3"], "a", 1)];
    let to = [web(&["m1", "m3"], "a", 1), web(&["m2"], "a", 1)];
    assert_eq!(objects(&from, &to), []);
}

#[test]
fn one_change_is_one_entry_even_if_manifests_have_other_differences() {
    let with = |registry: &str, clusters: &[&str], label: Value| {
        let fields = json!({"spec": {"image": format!("{registry}/web"), "labels": label}});
        manifest("Deployment", "web", clusters, &fields)
    };
    let from = [with("eu", &["m1", "m3"], json!({})), with("us", &["m2"], json!({}))];
    let to = [with("eu", &["m1", "m3"], json!({"a": "b"})), with("us", &["m2"], json!({"a": "b"}))];
    let changes = objects(&from, &to);
    assert_eq!(changes.len(), 1);
    assert_eq!(names(&changes[0].clusters), ["m1", "m2", "m3"]);
    assert_eq!(changes[0].paths[0].path, "/spec/labels/a");
    assert!(changes[0].diff.contains("+    a: b"), "{}", changes[0].diff);
}

#[test]
fn different_changes_are_different_entries() {
    let from = [web(&["m1", "m2"], "a", 1)];
    let to = [web(&["m1"], "b", 1), web(&["m2"], "c", 1)];
    let changes = objects(&from, &to);
    assert_eq!(changes.iter().map(|c| names(&c.clusters)).collect::<Vec<_>>(), [["m1"], ["m2"]]);
}

#[test]
fn added_and_removed_objects_have_their_clusters() {
    let from = [web(&["m1", "m2"], "a", 1)];
    let to = [web(&["m2", "m3"], "a", 1), manifest("ConfigMap", "new", &["m2"], &json!({"data": {}}))];
    let none = Plan::default();
    let changes = between((&none, &from), (&none, &to));
    let entries: Vec<_> = changes.objects.iter().map(|c| (c.kind, names(&c.clusters), c.elsewhere)).collect();
    assert_eq!(
        entries,
        [
            (ObjectChangeKind::Added, vec!["m3"], true),
            (ObjectChangeKind::Removed, vec!["m1"], true),
            (ObjectChangeKind::Added, vec!["m2"], false)
        ]
    );
    assert_eq!(changes.pruned.len(), 1);
    assert_eq!((names(&changes.pruned[0].clusters), changes.pruned[0].unreachable), (vec!["m1"], false));
}

#[test]
fn replicas_of_a_placement_change_are_marked() {
    let before = plan(&row(&json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}])));
    let after = plan(&row(&json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 1}])));
    let from = [web(&["m1", "m2"], "a", 1)];
    let to = [web(&["m1"], "a", 3), web(&["m2"], "a", 1)];
    let changes = between((&before, &from), (&after, &to));
    assert_eq!(changes.objects[0].replicas_at.as_deref(), Some("/spec/replicas"));
    assert_eq!(changes.objects[0].paths.len(), 1);
    assert_eq!(changes.placements[0].kind, PlacementChangeKind::Scaled);
    assert_eq!((changes.placements[0].replicas.from, changes.placements[0].replicas.to), (Some(2), Some(4)));
    let also = [web(&["m1"], "b", 3), web(&["m2"], "a", 1)];
    let also = between((&before, &from), (&after, &also));
    assert_eq!(also.objects[0].replicas_at.as_deref(), Some("/spec/replicas"));
    assert_eq!(also.objects[0].paths.len(), 2);
    let other = [web(&["m1"], "a", 2), web(&["m2"], "a", 1)];
    assert_eq!(between((&before, &from), (&after, &other)).objects[0].replicas_at, None);
}

#[test]
fn moved_objects_are_compared_with_those_of_other_clusters() {
    let from = [web(&["m1"], "eu/a", 1), web(&["m2"], "us/a", 1)];
    let to = [web(&["m3"], "us/a", 1), web(&["m4"], "us/b", 1)];
    let changes = objects(&from, &to);
    let paths = |name: &str| changes.iter().find(|c| names(&c.clusters) == [name]).unwrap().paths.clone();
    assert_eq!(paths("m3"), []);
    let changed =
        PathChange { path: "/spec/image".to_owned(), from: Some(json!("us/a")), to: Some(json!("us/b")) };
    assert_eq!(paths("m4"), [changed]);
}

#[test]
fn placements_appear_move_and_disappear() {
    let kind = |from: &Value, to: &Value| {
        let changes = between((&plan(from), &[]), (&plan(to), &[]));
        changes.placements.first().map(|change| change.kind)
    };
    let (none, one, two) = (json!([]), row(&json!([{"name": "m1"}])), row(&json!([{"name": "m2"}])));
    assert_eq!(kind(&none, &one), Some(PlacementChangeKind::Appeared));
    assert_eq!(kind(&one, &two), Some(PlacementChangeKind::Moved));
    assert_eq!(kind(&one, &row(&json!([]))), Some(PlacementChangeKind::Disappeared));
    assert_eq!(kind(&one, &one), None);
    let mut by_policy = one.clone();
    by_policy[0]["policy"] = json!({"apiVersion": "p/v1", "kind": "P", "name": "p"});
    assert_eq!(kind(&one, &by_policy), Some(PlacementChangeKind::Policy));
    let mut refused = one.clone();
    refused[0]["unschedulable"] = json!({"reason": "NoClusterFit"});
    assert_eq!(kind(&one, &refused), Some(PlacementChangeKind::Status));
    let mut withdrawn = row(&json!([]));
    withdrawn[0]["withdrawn"] = json!(["m1"]);
    assert_eq!(kind(&one, &withdrawn), Some(PlacementChangeKind::Scaled));
}

#[test]
fn secrets_are_compared_by_digest() {
    let secret =
        |value: &str| manifest("Secret", "s", &["m1"], &json!({"data": {"k": value}, "type": "Opaque"}));
    let changes = objects(&[secret("b2xkIG9uZQ==")], &[secret("bmV3IG9uZQ==")]);
    let text = format!("{changes:?}");
    assert_eq!(changes[0].paths[0].path, "/data/k");
    assert!(!text.contains("b2xkIG9uZQ") && !text.contains("bmV3IG9uZQ"), "{text}");
    assert!(changes[0].diff.contains("-  k: <secret "), "{}", changes[0].diff);
}

#[test]
fn unreadable_manifests_are_not_shown() {
    let mut broken = web(&["m1"], "a", 1);
    broken.text = "data: [hunter2\n".into();
    let changes = objects(&[broken], &[web(&["m1"], "b", 1)]);
    assert!(!format!("{changes:?}").contains("hunter2"));
}
