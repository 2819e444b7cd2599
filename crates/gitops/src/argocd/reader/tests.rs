//! Clusters, destinations, decisions and patches as a reader of Argo CD takes them.

use serde_json::json;

use federate_file_tree::EmptyTree;

use super::*;
use crate::argocd::application_set::OmissionReason;

/// A cluster of the inventory with the label `env`.
fn member(name: &str, env: &str) -> Cluster {
    let body =
        json!({"apiVersion": "v1", "kind": "Cluster", "metadata": {"name": name, "labels": {"env": env}}});
    Cluster::from_object(&Object::from_manifest(body, "c.yaml"))
}

/// The Secret of a cluster of Argo CD.
fn secret(namespace: &str, name: &str, server: &str) -> Object {
    let labels = json!({"argocd.argoproj.io/secret-type": "cluster"});
    let metadata = json!({"name": format!("{name}-{server}"), "namespace": namespace, "labels": labels});
    let data = json!({"name": name, "server": server});
    Object::from_manifest(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}),
        "",
    )
}

/// A set whose Applications have the names and destinations of its parameters.
fn set(generators: &Value, more: &Value) -> Object {
    let template = json!({
        "metadata": {"name": "{{name}}"},
        "spec": {"project": "default", "source": {"repoURL": "x", "path": "a"}, "destination": {"server": "{{server}}"}},
    });
    let mut spec = json!({"generators": generators, "template": template});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": "set", "namespace": "argocd"});
    Object::from_manifest(
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": metadata, "spec": spec}),
        "set.yaml",
    )
}

/// What a reader with these settings makes of something.
fn read<T>(
    settings: &ArgoSettings,
    clusters: &[Cluster],
    objects: &[Object],
    ask: impl FnOnce(&ArgoReader<'_>) -> T,
) -> T {
    let tree = CachedTree::new(&EmptyTree);
    let usage = GenerationUsage::default();
    ask(&ArgoReader::new(&tree, clusters, objects, settings, &usage, &VendoredSources::new(&tree)))
}

fn generate(
    settings: &ArgoSettings,
    objects: &[Object],
    set: &Object,
) -> Result<GeneratedApplications, String> {
    let clusters = [member("a", "prod"), member("b", "test")];
    read(settings, &clusters, objects, |reader| reader.generate_applications(set)).map_err(|error| error.why)
}

fn names(generated: &GeneratedApplications) -> Vec<&str> {
    generated.applications.iter().map(|application| application.id.name.as_str()).collect()
}

#[test]
fn the_inventory_stands_in_for_secrets() {
    let all = set(&json!([{"clusters": {}}]), &json!({}));
    let settings = ArgoSettings::default();
    assert_eq!(names(&generate(&settings, &[], &all).unwrap()), ["a", "b", "in-cluster"]);
    // The cluster in which Argo CD runs is there once.
    let settings = ArgoSettings { cluster: Some("b".into()), ..settings };
    assert_eq!(names(&generate(&settings, &[], &all).unwrap()), ["a", "in-cluster"]);
    let selected = set(&json!([{"clusters": {"selector": {"matchLabels": {"env": "prod"}}}}]), &json!({}));
    assert_eq!(names(&generate(&settings, &[], &selected).unwrap()), ["a"]);
    let secrets =
        [secret("argocd", "hub", "https://kubernetes.default.svc"), secret("elsewhere", "x", "https://x")];
    assert_eq!(names(&generate(&settings, &secrets, &all).unwrap()), ["hub"]);
}

#[test]
fn a_destination_is_a_cluster_of_the_inventory() {
    let settings = ArgoSettings { cluster: Some("hub".into()), ..ArgoSettings::default() };
    let secrets = [
        secret("argocd", "a", "https://a.example.com"),
        secret("argocd", "other", "https://b.cluster.invalid"),
        secret("argocd", "none", "https://none.example.com"),
        secret("argocd", "twice", "https://t1.example.com"),
        secret("argocd", "twice", "https://t2.example.com"),
    ];
    let clusters = [member("a", "prod"), member("b", "test"), member("hub", "hub")];
    let find = |settings: &ArgoSettings, destination: &Value| {
        let found = read(settings, &clusters, &secrets, |reader| {
            reader.clusters.find_destination(destination, "argocd")
        });
        found.map(|name| name.to_string()).map_err(|error| error.why)
    };
    for (destination, expected) in [
        (json!({"name": "a"}), Ok("a")),
        (json!({"server": "https://a.example.com/"}), Ok("a")),
        (json!({"name": "other"}), Ok("b")),
        (json!({"name": "in-cluster"}), Ok("hub")),
        (json!({"server": "https://kubernetes.default.svc/"}), Ok("hub")),
        (json!({"name": "b"}), Err("not a cluster of Argo CD")),
        (json!({"name": "A"}), Err("not a cluster of Argo CD")),
        (json!({"name": "none"}), Err("not a cluster of the inventory")),
        (json!({"name": "twice"}), Err("several clusters of Argo CD")),
        (json!({"name": "a", "server": "https://a.example.com"}), Err("both `name` and `server`")),
        (json!({"namespace": "x"}), Err("no `name` and no `server`")),
    ] {
        match (find(&settings, &destination), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{destination}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{destination}: {why}"),
            (found, _) => panic!("{destination}: {found:?}"),
        }
    }
    let unset = find(&ArgoSettings::default(), &json!({"name": "in-cluster"}));
    assert!(unset.unwrap_err().contains("the cluster in which Argo CD runs"));
}

#[test]
fn placements_that_are_decided_elsewhere_are_asked_for() {
    let data = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "placementdecisions",
        "statusListKey": "decisions", "matchKey": "clusterName",
    });
    let metadata = json!({"name": "ocm", "namespace": "argocd"});
    let config_map = [Object::from_manifest(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
        "",
    )];
    let selector = json!({"matchLabels": {"cluster.open-cluster-management.io/placement": "shop"}});
    let generators = json!([{"clusterDecisionResource": {"configMapRef": "ocm", "labelSelector": selector}}]);
    let set = set(&generators, &json!({}));
    let clusters = [member("a", "prod"), member("b", "test")];
    let settings = ArgoSettings::default();
    let decide = |namespace: &str, name: &str| {
        ((namespace, name) == ("argocd", "shop")).then(|| vec!["b".into(), "none".into()])
    };
    let tree = CachedTree::new(&EmptyTree);
    let usage = GenerationUsage::default();
    let vendored = VendoredSources::new(&tree);
    let reader = ArgoReader::new(&tree, &clusters, &config_map, &settings, &usage, &vendored);
    assert!(reader.generate_applications(&set).is_err());
    let generated = reader.with_decisions(&decide).generate_applications(&set).unwrap();
    assert_eq!(names(&generated), ["b"]);
}

#[test]
fn unknown_fields_are_named() {
    let list = json!({"list": {"elements": [{"name": "a", "server": "https://a.cluster.invalid"}]}});
    let settings = ArgoSettings::default();
    let more = json!({"goTemplates": true, "templatePatch": "{\"spec\": {\"sauce\": 1, \"info\": []}}"});
    let generated = generate(&settings, &[], &set(&json!([list, {}]), &more)).unwrap();
    let notes: Vec<String> = generated.list_notes().into_iter().map(|note| note.message).collect();
    assert_eq!(names(&generated), ["a"]);
    for expected in ["no field `spec.goTemplates`", "the generator is empty", "no field `spec/sauce`"] {
        assert!(notes.iter().any(|note| note.contains(expected)), "{expected}: {notes:?}");
    }
    for (item, expected) in [
        (json!({"list": {"element": []}}), "the generator `list` has no field `element`"),
        (json!({"list": {}, "lists": {}}), "Argo CD does not know the generator `lists`"),
        (json!({"plugin": {}}), "which asks a server"),
        (json!({"list": {"elements": {}}}), "it is not a list"),
        (json!({"git": {"files": [{}]}}), "it has no `path`"),
    ] {
        let error = generate(&settings, &[], &set(&json!([item]), &json!({}))).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn patches_merge_as_strategic_merge_patches() {
    let list = json!([{"list": {"elements": [{"name": "a", "server": "https://a.cluster.invalid"}]}}]);
    let settings = ArgoSettings::default();
    let patch = |patch: &str| {
        let generated = generate(&settings, &[], &set(&list, &json!({"templatePatch": patch})));
        generated.map(|generated| generated.applications.first().map(|application| application.body.clone()))
    };
    let body = patch("metadata: {finalizers: [], labels: {x: '{{name}}'}}\nspec: {project: other}")
        .unwrap()
        .unwrap();
    assert_eq!(body["metadata"], json!({"name": "a", "labels": {"x": "a"}, "namespace": "argocd"}));
    assert_eq!(body["spec"]["project"], "default");
    let body = patch("spec: {source: {$patch: replace, repoURL: z}}").unwrap().unwrap();
    assert_eq!(body["spec"]["source"], json!({"repoURL": "z"}));
    assert!(patch("spec: {destination: {$patch: delete}}").unwrap().is_none());
    assert!(patch("spec: {$setElementOrder/sources: []}").is_err());
}

#[test]
fn what_gives_nothing_takes_work_all_the_same() {
    let outer = vec![json!({"k": "x"}); 2_000];
    let inner = vec![json!({"v": "x".repeat(1_000)}); 100];
    let matrix = json!([{"matrix": {"generators": [
        {"list": {"elements": outer}},
        {"list": {"elements": inner}, "selector": {"matchLabels": {"a": "b"}}},
    ]}}]);
    let error = generate(&ArgoSettings::default(), &[], &set(&matrix, &json!({}))).unwrap_err();
    assert!(error.contains("take too much work"), "{error}");
}

#[test]
fn an_application_without_a_known_project_is_left_out() {
    let projects = Some(["default".to_owned()].into());
    let settings = ArgoSettings { projects, ..ArgoSettings::default() };
    let element = json!({"name": "a", "server": "https://a.cluster.invalid"});
    let list = json!([{"list": {"elements": [element], "template": {"spec": {"project": "none"}}}}]);
    let generated = generate(&settings, &[], &set(&list, &json!({}))).unwrap();
    let omitted: Vec<OmissionReason> = generated.omitted.iter().map(|omitted| omitted.reason).collect();
    assert_eq!(omitted, [OmissionReason::NoProject]);
}
