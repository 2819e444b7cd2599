//! The order of overrides, the objects to which they apply, and their effect.

use serde_json::{Value, json};

use super::*;

fn id(kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
    let api_version = if kind.starts_with("Cluster") || kind.starts_with("Resource") {
        format!("{GROUP}/v1beta1")
    } else {
        "v1".to_owned()
    };
    ObjectRef { api_version, kind: kind.into(), namespace: namespace.map(Into::into), name: name.into() }
}

fn object(id: &ObjectRef, spec: &Value) -> Object {
    Object::from_path(&id.api_version, &id.kind, &id.namespaced_name(), json!({"spec": spec}))
}

fn cluster(name: &str, labels: &[(&str, &str)]) -> Cluster {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Cluster { labels, ..Cluster::from_object(&object(&id("ClusterX", None, name), &json!({}))) }
}

fn names(kind: &str, name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": kind, "name": name})
}

fn patch(value: &str) -> Value {
    let operation = json!({"op": "add", "path": "/x", "value": value});
    json!({"clusterSelector": {}, "jsonPatchOverrides": [operation]})
}

fn rules(rules: &Value) -> Value {
    json!({"clusterResourceSelectors": [names("Node", "n")], "policy": {"overrideRules": rules}})
}

fn applied(spec: &[Value], labels: &[(&str, &str)]) -> Result<Option<Value>, &'static str> {
    let named = spec.iter().zip('a'..);
    let objects: Vec<Object> = named
        .map(|(spec, name)| object(&id("ClusterResourceOverride", None, &name.to_string()), spec))
        .collect();
    let (overrides, findings) = Overrides::new(objects.iter());
    assert!(findings.is_empty());
    let all = overrides.overrides_for(&id("ClusterResourcePlacement", None, "p"), &id("Node", None, "n"));
    let changes = OverrideChanges::new(&all, &cluster("m1", labels));
    changes.apply_to(json!({})).map(|changed| changed.body).map_err(|failure| failure.why.name())
}

#[test]
fn those_of_the_cluster_come_first_in_the_order_of_their_snapshots() {
    let spec = json!({"clusterResourceSelectors": [names("Namespace", "shop"), names("Secret", "s")]});
    let own = json!({"resourceSelectors": [names("Secret", "s")]});
    let objects: Vec<Object> = ["x.y", "a-b", "x", "a"]
        .map(|name| object(&id("ClusterResourceOverride", None, name), &spec))
        .into_iter()
        .chain([object(&id("ResourceOverride", Some("shop"), "0"), &own)])
        .chain([object(&id("ResourceOverride", Some("other"), "0"), &own)])
        .collect();
    let (overrides, _) = Overrides::new(objects.iter());
    let of = |kind, namespace| {
        let of =
            overrides.overrides_for(&id("ClusterResourcePlacement", None, "p"), &id(kind, namespace, "s"));
        of.iter().map(|one| one.object.id.namespaced_name()).collect::<Vec<_>>()
    };
    assert_eq!(of("Secret", Some("shop")), ["a", "a-b", "x", "x.y", "shop/0"]);
    assert_eq!(of("Secret", Some("elsewhere")), [] as [&str; 0]);
}

#[test]
fn a_placement_can_be_named() {
    for (kind, placement, cluster, namespaced) in [
        ("ClusterResourceOverride", json!(null), true, true),
        ("ClusterResourceOverride", json!({"name": "p"}), true, false),
        ("ClusterResourceOverride", json!({"name": "q"}), false, false),
        ("ResourceOverride", json!({"name": "p", "scope": "Cluster"}), true, false),
        ("ResourceOverride", json!({"name": "p", "scope": "Namespaced"}), false, true),
    ] {
        let namespace = (kind == "ResourceOverride").then_some("shop");
        let over = object(&id(kind, namespace, "o"), &json!({"placement": placement}));
        let over = KubeFleetOverride::new(&over).unwrap();
        assert_eq!(
            over.applies_to_placement(&id("ClusterResourcePlacement", None, "p")),
            cluster,
            "{placement}"
        );
        assert_eq!(
            over.applies_to_placement(&id("ResourcePlacement", Some("shop"), "p")),
            namespaced,
            "{placement}"
        );
        assert!(!over.applies_to_placement(&id("ResourcePlacement", Some("x"), "p")) || placement.is_null());
    }
}

#[test]
fn every_rule_that_matches_applies_and_none_without_a_selector() {
    let mut unselected = patch("never");
    unselected["clusterSelector"] = json!(null);
    let mut unlabelled = patch("never");
    unlabelled["clusterSelector"] = json!({"clusterSelectorTerms": [{}]});
    let spec = rules(&json!([patch("1"), patch("${MEMBER-CLUSTER-NAME}"), unselected, unlabelled]));
    assert_eq!(applied(&[spec], &[]), Ok(Some(json!({"x": "m1"}))));
}

#[test]
fn a_dropped_object_stays_dropped_but_variables_must_have_values() {
    let delete = json!({"clusterSelector": {}, "overrideType": "Delete"});
    let label = || patch("${MEMBER-CLUSTER-LABEL-KEY-z}");
    let after = rules(&json!([label()]));
    let deleting = rules(&json!([delete, label()]));
    assert_eq!(applied(std::slice::from_ref(&deleting), &[]), Ok(None));
    assert_eq!(applied(&[deleting.clone(), after.clone()], &[("z", "1")]), Ok(None));
    assert_eq!(applied(&[deleting, after], &[]), Err("LabelKeyNotFound"));
}

#[test]
fn a_patch_that_does_not_fit_fails() {
    let operation = json!({"op": "remove", "path": "/y"});
    let rule = json!({"clusterSelector": {}, "jsonPatchOverrides": [operation]});
    assert_eq!(applied(&[rules(&json!([rule]))], &[]), Err("PatchFailed"));
}
