//! `*.j2` files, what they read of clusters, and objects that go nowhere.

use federate_migrate::{Mode, Target, Verdict};

use crate::files::Files;
use crate::proof::{ProvedMigration, prove};

const FLEET: &str = "\
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: a, labels: {tier: gold}}
spec: {syncMode: Push, provider: p1, region: r1, zones: [z1, z2]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: b, labels: {tier: gold}}
spec: {syncMode: Push, region: r2}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: c, labels: {tier: plain}}
spec: {syncMode: Push}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: w, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: w}]
  placement: {clusterAffinity: {labelSelector: {matchLabels: {tier: gold}}}}
";

const TEMPLATE: &str = "\
# For each cluster.
apiVersion: v1
kind: ConfigMap
metadata: {name: w, namespace: default}
data:
  at: '{{ cluster.region }}/{{ cluster.zone }}/{{ cluster.provider }}/{{ cluster.labels.tier }}'
{% if cluster.region == \"r1\" %}
  first: y
{% endif %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: nowhere, namespace: default}
";

fn karmada() -> Files {
    let mut files = Files::default();
    files.0.insert("fleet.yaml".to_owned(), FLEET.to_owned());
    files.0.insert("w.yaml.j2".to_owned(), TEMPLATE.to_owned());
    files
}

/// What clusters receive of the ConfigMap `w`.
fn list_data(proved: &ProvedMigration) -> Vec<String> {
    let manifests = &proved.session.render().manifests;
    let mut all: Vec<String> = manifests
        .iter()
        .filter(|manifest| manifest.object.name == "w")
        .flat_map(|manifest| {
            let body = federate_yaml::read_stream(manifest.text.as_bytes()).documents.remove(0).value;
            manifest.clusters.iter().map(move |name| format!("{name}: {}", body["data"])).collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all
}

const DATA: [&str; 2] = [r#"a: {"at":"r1/z1/p1/gold","first":true}"#, r#"b: {"at":"r2///gold"}"#];

#[test]
fn what_a_template_reads_of_clusters_is_the_same_for_every_control_plane_and_back() {
    for target in [Target::KubeFleet, Target::KubeAdmiral] {
        for mode in [Mode::Idiomatic, Mode::Freeze] {
            let there = prove(&karmada(), target, mode).unwrap();
            assert_eq!(list_data(&there), DATA, "{}", there.text);
            let config = &there.files.0["federate.yaml"];
            assert!(config.contains("region: r1") && !config.contains("name: c"), "{config}");
            let back = prove(&there.files, Target::Karmada, mode).unwrap();
            assert_eq!(list_data(&back), DATA, "{}", back.text);
            let left = back.files.0.get("federate.yaml").map(String::as_str).unwrap_or_default();
            assert!(!left.contains("clusters"), "{left}");
        }
    }
}

#[test]
fn a_template_that_needs_no_change_stays_a_template() {
    let there = prove(&karmada(), Target::KubeFleet, Mode::Idiomatic).unwrap();
    assert_eq!(there.files.0["w.yaml.j2"], TEMPLATE);
}

#[test]
fn a_template_that_must_name_its_policy_becomes_an_object_with_overrides() {
    let there = prove(&karmada(), Target::KubeAdmiral, Mode::Idiomatic).unwrap();
    assert!(!there.files.0.contains_key("w.yaml.j2"), "{}", there.text);
    assert!(there.files.0["w.yaml"].contains("kubeadmiral.io/propagation-policy-name"), "{}", there.text);
    assert!(there.text.contains("ConfigMap default/w overrides what its template makes"), "{}", there.text);
    assert!(there.files.0["w.yaml"].contains("name: nowhere"), "{}", there.text);
}

#[test]
fn templates_become_objects_with_patches_without_a_control_plane() {
    let mut files = karmada();
    files
        .0
        .insert("w.yaml".to_owned(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n".to_owned());
    files.0.insert(
        "objects/w.yaml".to_owned(),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: third}\n".to_owned(),
    );
    let Some(there) = prove(&files, Target::Plain, Mode::Idiomatic) else { return };
    assert_eq!(there.verdict, Verdict::EqualNow);
    assert_eq!(list_data(&there), DATA, "{}", there.text);
    // What nothing places goes nowhere.
    let plan = there.session.plan();
    let placed = plan.placements.iter().filter(|row| !row.clusters.is_empty());
    let names: Vec<&str> = placed.map(|row| row.object.name.as_str()).collect();
    assert_eq!(names, ["w"], "{}", there.text);
    let config = &there.files.0["federate.yaml"];
    assert!(config.contains("- /w.yaml\n") && config.contains("- /objects/w.yaml\n"), "{config}");
    assert!(there.files.0.contains_key("objects-2/w-2.yaml"), "{}", there.text);
}

#[test]
fn properties_of_clusters_stay_for_templates() {
    let mut files = Files::default();
    let fleet = "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: a}\n\
                 spec: {identity: {kind: ServiceAccount, name: a, namespace: fleet-system}}\n\
                 status: {properties: {example.com/size: {value: large}}}\n---\n\
                 apiVersion: v1\nkind: Namespace\nmetadata: {name: s}\n---\n\
                 apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacement\nmetadata: {name: p}\n\
                 spec: {policy: {placementType: PickFixed, clusterNames: [a]}, resourceSelectors: [{group: '', version: v1, kind: \
                 Namespace, name: s}]}\n";
    files.0.insert("fleet.yaml".to_owned(), fleet.to_owned());
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: w, namespace: s}\n\
                    data: {size: '{{ cluster.properties[\"example.com/size\"] }}'}\n";
    files.0.insert("w.yaml.j2".to_owned(), template.to_owned());
    for mode in [Mode::Idiomatic, Mode::Freeze] {
        let there = prove(&files, Target::Karmada, mode).unwrap();
        assert_eq!(list_data(&there), [r#"a: {"size":"large"}"#], "{}", there.text);
    }
}
