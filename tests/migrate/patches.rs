//! Overrides in single clusters that add the first entry of a map or a list, remove the last one, or set one where there was none, by
//! every control plane that has overrides, in every direction.

#![allow(clippy::needless_pass_by_value, reason = "values are written where they are used")]

use federate_migrate::{Mode, Target};
use serde_json::{Value, json};

use crate::files::Files;
use crate::proof::prove;

const CLUSTERS: [&str; 3] = ["m1", "m2", "m3"];

/// The first container of a workload.
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// An object, and what changes in some clusters.
struct Case {
    name: &'static str,
    object: Value,
    patches: Vec<(&'static str, Value)>,
}

fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

fn replace(path: &str, value: Value) -> Value {
    json!({"op": "replace", "path": path, "value": value})
}

fn remove(path: &str) -> Value {
    json!({"op": "remove", "path": path})
}

fn config(metadata: Value, fields: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

fn workload(container: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": {
            "metadata": {"labels": {"app": "w"}},
            "spec": {"containers": [{"name": "w", "image": "example.org/w:1"}]},
        }},
    });
    let first = object.pointer_mut(CONTAINER).unwrap().as_object_mut().unwrap();
    first.extend(container.as_object().unwrap().clone());
    object
}

fn list_cases() -> Vec<Case> {
    let data = || json!({"data": {"a": "x"}});
    let only_m2 = |patches: Vec<Value>| vec![("m2", Value::from(patches))];
    let annotations = || add("/metadata/annotations", json!({"cost": "1"}));
    let env = || json!([{"name": "A", "value": "1"}]);
    let at = |path: &str| format!("{CONTAINER}{path}");
    let cases = [
        ("first-annotation", workload(json!({})), only_m2(vec![annotations()])),
        (
            "first-annotations",
            config(json!({}), data()),
            vec![
                ("m1", json!([annotations()])),
                ("m3", json!([add("/metadata/labels", json!({"x": "1"})), annotations()])),
            ],
        ),
        ("null-annotations", config(json!({"annotations": null}), data()), only_m2(vec![annotations()])),
        ("no-annotations", config(json!({"annotations": {}}), data()), only_m2(vec![annotations()])),
        (
            "odd-annotations",
            config(json!({}), data()),
            only_m2(vec![
                add("/metadata/annotations", json!({"a.b/c~d": "x", "e": ""})),
                add("/data/k.y", json!("several\nlines: \"x\"\n")),
            ]),
        ),
        ("first-label", config(json!({}), data()), only_m2(vec![add("/metadata/labels", json!({"x": "1"}))])),
        (
            "last-label",
            config(json!({"labels": {"x": "1"}}), data()),
            only_m2(vec![remove("/metadata/labels/x")]),
        ),
        (
            "no-labels",
            config(json!({"labels": {"x": "1"}}), data()),
            only_m2(vec![replace("/metadata/labels", json!({}))]),
        ),
        ("first-env", workload(json!({})), only_m2(vec![add(&at("/env"), env())])),
        ("last-env", workload(json!({"env": env()})), only_m2(vec![remove(&at("/env/0"))])),
        ("no-env", workload(json!({"env": env()})), only_m2(vec![remove(&at("/env"))])),
        ("null-env", workload(json!({"env": null})), only_m2(vec![add(&at("/env"), env())])),
        ("first-argument", workload(json!({})), only_m2(vec![add(&at("/args"), json!(["--x"]))])),
        ("last-argument", workload(json!({"args": ["--x"]})), only_m2(vec![remove(&at("/args/0"))])),
        (
            "first-limit",
            workload(json!({"resources": {}})),
            only_m2(vec![add(&at("/resources/limits"), json!({"cpu": "1"}))]),
        ),
        (
            "null-resources",
            workload(json!({"resources": {"limits": {"cpu": "1"}}})),
            only_m2(vec![replace(&at("/resources"), Value::Null)]),
        ),
        (
            "pod-annotation",
            workload(json!({})),
            only_m2(vec![add("/spec/template/metadata/annotations", json!({"x": "1"}))]),
        ),
        (
            "volumes",
            workload(json!({})),
            only_m2(vec![
                add("/spec/template/spec/volumes", json!([{"name": "a", "emptyDir": {}}])),
                add(&at("/volumeMounts"), json!([{"name": "a", "mountPath": "/a"}])),
            ]),
        ),
        (
            "sidecar",
            workload(json!({})),
            only_m2(vec![add("/spec/template/spec/containers/-", json!({"name": "s", "image": "x"}))]),
        ),
        ("null-replicas", workload(json!({})), only_m2(vec![replace("/spec/replicas", Value::Null)])),
        ("first-data", config(json!({}), json!({})), only_m2(vec![add("/data", json!({"x": "1"}))])),
        ("last-data", config(json!({}), data()), only_m2(vec![remove("/data/a")])),
        (
            "null-data",
            config(json!({}), json!({"data": null})),
            only_m2(vec![add("/data", json!({"x": "1"}))]),
        ),
        (
            "data-to-null",
            config(json!({}), data()),
            vec![("m2", json!([replace("/data", Value::Null)])), ("m3", json!([remove("/data")]))],
        ),
        (
            "nested",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {}, "spec": {"a": {}, "l": [], "n": null}}),
            vec![
                ("m2", json!([add("/spec/a/b", json!({"c": [{}], "d": null})), add("/spec/n", json!({}))])),
                ("m3", json!([add("/spec/l/0", json!({"x": null})), replace("/spec/a", Value::Null)])),
            ],
        ),
    ];
    let cases = cases.into_iter().map(|(name, mut object, patches)| {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("s");
        Case { name, object, patches }
    });
    cases.collect()
}

/// A repo of a control plane with all cases.
fn build_repo(dialect: &str) -> Files {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "s"}})];
    objects.extend(CLUSTERS.map(|name| describe_cluster(dialect, name)));
    if dialect == "kubefleet" {
        objects.push(json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": {"name": "p"},
            "spec": {"policy": {"placementType": "PickAll"},
                     "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "s"}]},
        }));
    }
    for case in list_cases() {
        objects.extend(write_case(dialect, case));
    }
    let mut text = String::new();
    for object in &objects {
        text.push_str("---\n");
        federate_yaml::write_document(object, &mut text);
    }
    let mut files = Files::default();
    files.0.insert("all.yaml".to_owned(), text);
    files
}

fn describe_cluster(dialect: &str, name: &str) -> Value {
    match dialect {
        "karmada" => json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name}, "spec": {"syncMode": "Push"}}),
        "kubeadmiral" => json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster",
            "metadata": {"name": name}}),
        "kubefleet" => json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
            "metadata": {"name": name},
            "spec": {"identity": {"kind": "ServiceAccount", "name": name, "namespace": "fleet-system"}}}),
        _ => json!({"apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedCluster",
            "metadata": {"name": name, "namespace": "kube-federation-system"},
            "spec": {"apiEndpoint": "https://x", "secretRef": {"name": "x"}}}),
    }
}

/// The object of a case with its policies.
fn write_case(dialect: &str, case: Case) -> Vec<Value> {
    let Case { name, mut object, patches } = case;
    let (version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
    let (group, short) =
        version.as_str().unwrap().rsplit_once('/').unwrap_or(("", version.as_str().unwrap()));
    let metadata = json!({"name": name, "namespace": "s"});
    let rename = |patch: &Value, key: &str| {
        let mut patch = patch.clone();
        let op = patch.as_object_mut().unwrap().shift_remove("op").unwrap();
        patch[key] = op;
        patch
    };
    let by_cluster = |rule: &dyn Fn(&str, Vec<Value>) -> Value| -> Value {
        patches.iter().map(|(cluster, patches)| rule(cluster, patches.as_array().unwrap().clone())).collect()
    };
    let rename_all =
        |patches: Vec<Value>| -> Value { patches.iter().map(|one| rename(one, "operator")).collect() };
    match dialect {
        "karmada" => {
            let selectors = json!([{"apiVersion": version, "kind": kind, "name": name}]);
            let rules = by_cluster(
                &|cluster, patches| json!({"targetCluster": {"clusterNames": [cluster]}, "overriders": {"plaintext": rename_all(patches)}}),
            );
            vec![
                json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": metadata, "spec": {
                    "resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": CLUSTERS}}}}),
                json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": metadata,
                    "spec": {"resourceSelectors": selectors, "overrideRules": rules}}),
                object,
            ]
        }
        "kubeadmiral" => {
            if kind == "Widget" {
                return Vec::new();
            }
            if !object["metadata"]["labels"].is_object() {
                object["metadata"]["labels"] = json!({});
            }
            for policy in ["propagation", "override"] {
                object["metadata"]["labels"][format!("kubeadmiral.io/{policy}-policy-name")] = json!(name);
            }
            let rules = by_cluster(
                &|cluster, patches| json!({"targetClusters": {"clusters": [cluster]}, "overriders": {"jsonpatch": rename_all(patches)}}),
            );
            let clusters: Vec<Value> = CLUSTERS.iter().map(|name| json!({"cluster": name})).collect();
            vec![
                json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "PropagationPolicy", "metadata": metadata,
                    "spec": {"schedulingMode": "Duplicate", "placement": clusters}}),
                json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "OverridePolicy", "metadata": metadata,
                    "spec": {"overrideRules": rules}}),
                object,
            ]
        }
        "kubefleet" => {
            let rules = by_cluster(&|cluster, patches| {
                let labels = json!({"matchLabels": {"kubernetes-fleet.io/member-name": cluster}});
                json!({"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": labels}]}, "jsonPatchOverrides": patches})
            });
            vec![
                json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride", "metadata": metadata, "spec": {
                    "placement": {"name": "p"}, "policy": {"overrideRules": rules},
                    "resourceSelectors": [{"group": group, "version": short, "kind": kind, "name": name}]}}),
                object,
            ]
        }
        _ => {
            if kind == "Widget" {
                return Vec::new();
            }
            let mut template = object.as_object().unwrap().clone();
            template.retain(|key, _| key != "apiVersion" && key != "kind");
            let own = template["metadata"].as_object_mut().unwrap();
            own.retain(|key, _| key != "name" && key != "namespace");
            let overrides =
                by_cluster(&|cluster, patches| json!({"clusterName": cluster, "clusterOverrides": patches}));
            let placed: Vec<Value> = CLUSTERS.iter().map(|name| json!({"name": name})).collect();
            vec![
                json!({"apiVersion": "types.kubefed.io/v1beta1", "kind": format!("Federated{}", kind.as_str().unwrap()),
                "metadata": metadata,
                "spec": {"template": template, "placement": {"clusters": placed}, "overrides": overrides}}),
            ]
        }
    }
}

#[test]
fn the_first_entry_of_a_map_in_one_cluster_is_migrated_from_every_dialect_to_every_other() {
    for dialect in ["karmada", "kubeadmiral", "kubefleet", "kubefed"] {
        let files = build_repo(dialect);
        for target in [Target::Karmada, Target::KubeAdmiral, Target::KubeFleet, Target::Plain] {
            if target.name() != dialect {
                println!("{dialect} → {}", target.name());
                prove(&files, target, Mode::Idiomatic);
                prove(&files, target, Mode::Freeze).unwrap();
            }
        }
    }
}
