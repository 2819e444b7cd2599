//! Imports of live objects: new ones, and those that the repo already has.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::import::find_importer;
use federate_dialect::import::PolicyName;
use federate_repo::{Config, load_bytes};

const KEPT: &str = "# ours
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  namespace: shop
  labels:
    kubeadmiral.io/propagation-policy-name: p
    kubeadmiral.io/override-policy-name: o # stays
  annotations:
    kubeadmiral.io/conflict-resolution: adopt
    kubeadmiral.io/clusters-to-adopt: '{\"clusters\":[\"m1\"]}'
data:
  k: old # why
";

fn config(name: &str, value: &str) -> (Object, ResourceKind) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value},
        "metadata": {"name": name, "namespace": "shop", "uid": "u"}});
    object(body)
}

fn object(body: Value) -> (Object, ResourceKind) {
    let object = Object::from_manifest(body, "m1");
    let kind = ResourceKind::find_builtin(&object.id.api_version, &object.id.kind).cloned().unwrap();
    (object, kind)
}

fn repo(files: &[(&str, &str)]) -> Repo {
    let file =
        |(path, text): &(&str, &str)| RepoFile { path: (*path).into(), bytes: Arc::from(text.as_bytes()) };
    load_bytes(files.iter().map(file).collect(), Config::default(), &federate_dialects::DIALECTS)
        .into_repo(&[])
}

fn taken(live: &[(Object, ResourceKind)], files: &[(&str, &str)], update: bool) -> LiveImportResult {
    let policy = Some(PolicyName::Beside("p".to_owned()));
    let import = ObjectImportOptions {
        policy,
        clusters: vec!["m1".to_owned()],
        enable: false,
        dialects: federate_dialects::DIALECTS,
    };
    let options = ImportOptions { import, update, ..ImportOptions::default() };
    import_live(
        live,
        &find_importer(federate_dialects::DIALECTS, "kubeadmiral").unwrap(),
        &options,
        &repo(files),
        &|_| false,
    )
}

fn text(taken: &LiveImportResult, file: &str) -> String {
    String::from_utf8(taken.files[file].text.clone()).unwrap()
}

#[test]
fn a_new_object_gets_a_file() {
    let taken = taken(&[config("b", "v")], &[("apps/a.yaml", KEPT)], false);
    assert!(taken.findings.is_empty(), "{:?}", taken.findings);
    assert_eq!(
        text(&taken, "apps/configmap_b.yaml"),
        "apiVersion: v1
data:
  k: v
kind: ConfigMap
metadata:
  annotations:
    kubeadmiral.io/clusters-to-adopt: '{\"clusters\":[\"m1\"]}'
    kubeadmiral.io/conflict-resolution: adopt
  labels:
    kubeadmiral.io/propagation-policy-name: p
  name: b
  namespace: shop
"
    );
    assert!(taken.files["apps/configmap_b.yaml"].is_new);
}

#[test]
fn an_existing_object_stays_without_update() {
    let one = taken(&[config("a", "new")], &[("apps/a.yaml", KEPT)], false);
    assert!(one.files.is_empty());
    assert_eq!((one.objects[0].made[0].change, one.findings[0].code), (FileChange::Kept, "in-the-repo"));
    let same = taken(&[config("a", "old")], &[("apps/a.yaml", KEPT)], true);
    assert_eq!((same.objects[0].made[0].change, same.findings.len()), (FileChange::Unchanged, 0));
    assert!(same.files.is_empty());
    let updated = taken(&[config("a", "new")], &[("apps/a.yaml", KEPT)], true);
    assert_eq!(updated.objects[0].made[0].change, FileChange::Updated);
    assert_eq!(text(&updated, "apps/a.yaml"), KEPT.replace("k: old", "k: new"));
}

#[test]
fn defaults_are_not_a_difference() {
    let written = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "shop",
        "labels": {"kubeadmiral.io/propagation-policy-name": "p"}, "annotations": {
            "kubeadmiral.io/conflict-resolution": "adopt",
            "kubeadmiral.io/clusters-to-adopt": "{\"clusters\":[\"m1\"]}",
        }}, "spec": {"ports": [{"port": 80}]}});
    let mut body = written.clone();
    body["metadata"] = json!({"name": "a", "namespace": "shop"});
    body["spec"] = json!({"ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}], "type": "ClusterIP"});
    let mut text = String::new();
    federate_yaml::write_document(&written, &mut text);
    let one = taken(&[object(body.clone())], &[("a.yaml", &text)], true);
    assert_eq!(
        (one.objects[0].made[0].change, one.files.len()),
        (FileChange::Unchanged, 0),
        "{:?}",
        one.findings
    );
    body["spec"]["type"] = json!("NodePort");
    let one = taken(&[object(body)], &[("a.yaml", &text)], false);
    assert_eq!(one.objects[0].made[0].change, FileChange::Kept);
}

#[test]
fn two_objects_of_one_file_are_both_updated() {
    let both = format!("{KEPT}---\n{}", KEPT.replace("name: a", "name: b"));
    let updated = taken(&[config("a", "1"), config("b", "2")], &[("all.yaml", &both)], true);
    let text = text(&updated, "all.yaml");
    assert!(text.contains("k: \"1\" # why") && text.contains("k: \"2\" # why"), "{text}");
}

#[test]
fn objects_of_j2_templates_are_not_edited() {
    let cluster = "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: m1}\n";
    let files = [("a.yaml.j2", KEPT), ("m1.yaml", cluster)];
    let file =
        |(path, text): &(&str, &str)| RepoFile { path: (*path).into(), bytes: Arc::from(text.as_bytes()) };
    let loaded =
        load_bytes(files.iter().map(file).collect(), Config::default(), &federate_dialects::DIALECTS);
    let (clusters, _) =
        crate::read_inventory(federate_dialects::DIALECTS, &loaded.repo, &crate::EngineSettings::default());
    let repo = loaded.into_repo(&clusters);
    let options = ImportOptions { update: true, ..ImportOptions::default() };
    let taken = import_live(
        &[config("a", "new")],
        &find_importer(federate_dialects::DIALECTS, "karmada").unwrap(),
        &options,
        &repo,
        &|_| false,
    );
    assert_eq!(taken.findings[0].code, "not-changed", "{:?}", taken.findings);
    assert!(taken.files.is_empty());
}

#[test]
fn names_that_lead_out_of_the_repo_are_refused() {
    let (mut object, kind) = config("a", "v");
    object.body["metadata"]["namespace"] = json!("../..");
    object.id.namespace = Some("../..".to_owned());
    let taken = taken(&[(object, kind)], &[], false);
    assert_eq!(taken.findings[0].code, "not-written");
    assert!(taken.files.is_empty());
}

#[test]
fn secrets_are_reported_without_their_values() {
    let body = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "aHVudGVyMg=="},
        "metadata": {"name": "s", "namespace": "shop"}});
    let taken = taken(&[object(body)], &[], false);
    assert_eq!(taken.findings[0].code, "secret-in-clear");
    assert!(!format!("{:?}", taken.findings).contains("aHVu"));
    assert!(text(&taken, "shop/secret_s.yaml").contains("k: aHVudGVyMg=="));
}

#[test]
fn wrapped_objects_are_placed_by_the_kind_of_the_wrapper() {
    let options = ImportOptions::default();
    let wrapped = "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedConfigMap\nmetadata: {name: x, namespace: shop}\n\
                   spec: {template: {}, placement: {}}\n";
    let repo = repo(&[("f/x.yaml", wrapped)]);
    let taken = import_live(
        &[config("a", "v")],
        &find_importer(federate_dialects::DIALECTS, "kubefed").unwrap(),
        &options,
        &repo,
        &|_| false,
    );
    assert_eq!(taken.objects[0].made[0].file, "f/federatedconfigmap_a.yaml");
    assert_eq!(taken.objects[0].made[0].body["spec"]["template"], json!({"data": {"k": "v"}}));
}
