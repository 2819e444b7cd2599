//! Which clusters are rendered together, and which fail together.

use serde_json::json;

use super::*;

const FLEET: &str = "placement.kubernetes-fleet.io/v1";

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str, spec: &Value) -> Object {
    let metadata = json!({"name": name, "namespace": namespace, "uid": "u"});
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    Object::from_manifest(body, "a.yaml")
}

fn cluster(name: &str) -> Cluster {
    let inventory = object("cluster.kubernetes-fleet.io/v1", "MemberCluster", None, name, &json!({}));
    Cluster { labels: [("name".to_owned(), name.to_owned())].into(), ..Cluster::from_object(&inventory) }
}

/// An override of the `ConfigMap` `a/x` in the cluster of that name.
fn rule(cluster: &str, rest: &Value) -> Object {
    let term = json!({"labelSelector": {"matchLabels": {"name": cluster}}});
    let mut rule = json!({"clusterSelector": {"clusterSelectorTerms": [term]}});
    for (key, value) in rest.as_object().unwrap() {
        rule[key] = value.clone();
    }
    let target = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "x"});
    let spec = json!({"resourceSelectors": [target], "policy": {"overrideRules": [rule]}});
    object(FLEET, "ResourceOverride", Some("a"), cluster, &spec)
}

/// The variants of the `ConfigMap`s `a/x` and `a/y`, as clusters and what they are sent.
fn shown(rules: &[Object], per_cluster: bool) -> Vec<Vec<(String, String)>> {
    let clusters = ["m1", "m2", "m3"].map(cluster);
    let template = |name: &str| {
        let object = object("v1", "ConfigMap", Some("a"), name, &json!({}));
        let bodies = clusters.iter().map(|c| (c.name.clone(), object.clone().into())).collect();
        Template { per_cluster: per_cluster.then_some(bodies), ..Template::new(object) }
    };
    let templates = ["x", "y"].map(template);
    let items =
        collect_objects(&templates.each_ref().map(SelectedObject::Plain), &KubeFleetBehaviour::for_newest())
            .ok()
            .unwrap()
            .items;
    let (overrides, findings) = Overrides::new(rules.iter());
    assert!(findings.is_empty());
    let placement = object(FLEET, "ClusterResourcePlacement", None, "p", &json!({})).id;
    let sending = PlacementManifests::new(&overrides, &placement, items.into(), &clusters.each_ref());
    let show = |variant: &ManifestVariant| {
        let sent = match &variant.rendered {
            Ok(rendered) => format!("{} of {}", rendered.body["spec"], rendered.changes.len()),
            Err(held) => format!("{} {}", held.status, held.finding.is_some()),
        };
        (variant.clusters.join(" "), sent)
    };
    let all = (0..sending.items.len()).map(|index| sending.render_item(index).iter().map(show).collect());
    all.collect()
}

fn expect(variants: &[(&str, &str)]) -> Vec<(String, String)> {
    variants.iter().map(|(clusters, sent)| ((*clusters).to_owned(), (*sent).to_owned())).collect()
}

#[test]
fn equal_clusters_stand_together_unless_the_template_tells_them_apart() {
    let add = json!({"jsonPatchOverrides": [{"op": "add", "path": "/spec/k", "value": 1}]});
    let rules = [rule("m2", &add), rule("m3", &json!({"overrideType": "Delete"}))];
    let x = expect(&[("m1", "{} of 0"), ("m2", "{\"k\":1} of 1"), ("m3", "Deleted false")]);
    assert_eq!(shown(&rules, false), [x, expect(&[("m1 m2 m3", "{} of 0")])]);
    let apart = expect(&[("m1", "{} of 0"), ("m2", "{} of 0"), ("m3", "{} of 0")]);
    assert_eq!(shown(&[], true), [apart.clone(), apart]);
}

#[test]
fn one_object_that_fails_keeps_the_whole_placement_from_its_cluster() {
    let bad = json!({"jsonPatchOverrides": [{"op": "remove", "path": "/spec/k"}]});
    let x = expect(&[("m1 m3", "{} of 0"), ("m2", "PatchFailed true")]);
    let y = expect(&[("m1 m3", "{} of 0"), ("m2", "PatchFailed false")]);
    assert_eq!(shown(&[rule("m2", &bad)], false), [x, y]);
}

/// What the `ConfigMap` in an envelope becomes in `m1` when the envelope itself is overridden, and when what
/// it holds is.
fn enveloped(release: &str, target: (&str, &str, &str), path: &str) -> Option<Value> {
    let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a"},
        "data": {"replicas": "1"}});
    let body = json!({"data": {"one": held}});
    let envelope =
        Object::from_path("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", "a/e", body);
    let (group, kind, name) = target;
    let version = if group.is_empty() { "v1" } else { "v1beta1" };
    let target = json!({"group": group, "version": version, "kind": kind, "name": name});
    let patch = json!({"op": "replace", "path": path, "value": "3"});
    let spec = json!({"resourceSelectors": [target], "policy": {"overrideRules": [{
        "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"name": "m1"}}}]},
        "jsonPatchOverrides": [patch],
    }]}});
    let rule = [object(FLEET, "ResourceOverride", Some("a"), "o", &spec)];
    let (overrides, findings) = Overrides::new(rule.iter());
    assert!(findings.is_empty());
    let items = collect_objects(&[SelectedObject::Envelope(&envelope)], &behaviour).ok().unwrap().items;
    let placement = object(FLEET, "ClusterResourcePlacement", None, "p", &json!({})).id;
    let member = cluster("m1");
    let sending = PlacementManifests::new(&overrides, &placement, items.into(), &[&member]);
    let sent = sending.render_variant(0, &"m1".into())?.ok()?;
    Some(sent.body["data"]["replicas"].clone())
}

#[test]
fn overrides_of_envelopes_changed() {
    let whole = ("placement.kubernetes-fleet.io", "ResourceEnvelope", "e");
    let content = ("", "ConfigMap", "x");
    for release in ["0.1", "0.3", "azure"] {
        assert_eq!(enveloped(release, whole, "/data/one/data/replicas"), Some(json!("3")), "{release}");
        assert_eq!(enveloped(release, content, "/data/replicas"), Some(json!("1")), "{release}");
        assert_eq!(enveloped(release, whole, "/data/other"), None, "a patch that fails keeps it back");
    }
    assert_eq!(enveloped("main", whole, "/data/one/data/replicas"), Some(json!("1")));
    assert_eq!(enveloped("main", content, "/data/replicas"), Some(json!("3")));
}
