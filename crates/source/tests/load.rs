//! Loading a repo: files in, objects and findings out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use federate_kubernetes::{Cluster, Object, Origin, Severity};
use federate_repo::{Config, ReadOptions, Repo, RepoFile, Role, UnexpandedRepo, load_bytes, load_repo};
use federate_source::WorkTree;

fn claims(api_version: &str, kind: &str) -> Option<(&'static str, Role)> {
    match (api_version.split('/').next()?, kind) {
        ("cluster.karmada.io", "Cluster") => Some(("karmada", Role::Inventory)),
        ("policy.karmada.io", "PropagationPolicy") => Some(("karmada", Role::Placement)),
        _ => None,
    }
}

fn file(path: &str, text: &str) -> RepoFile {
    RepoFile { path: path.into(), bytes: text.as_bytes().into() }
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let namespace =
        if namespace.is_empty() { String::new() } else { format!(r#", "namespace": "{namespace}""#) };
    format!(
        r#"{{"apiVersion": "{api_version}", "kind": "{kind}", "metadata": {{"name": "{name}"{namespace}}}}}"#
    )
}

fn ids<'o>(objects: impl Iterator<Item = &'o Object>) -> Vec<String> {
    objects.map(|o| format!("{} {}", o.id, o.origin)).collect()
}

fn templates(repo: &Repo) -> Vec<String> {
    ids(repo.templates.iter().map(|t| &t.object))
}

fn findings(repo: &Repo) -> Vec<(&'static str, String)> {
    repo.findings
        .iter()
        .map(|f| (f.code, f.origin.as_ref().map_or_else(String::new, Origin::to_string)))
        .collect()
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn load_folder(dir: &TempDir) -> UnexpandedRepo<'static> {
    load_repo(&WorkTree::open(dir.path()).unwrap(), &ReadOptions::default(), &claims)
}

#[test]
fn a_folder_becomes_a_repo() {
    let web = object("apps/v1", "Deployment", "shop", "web");
    let policy = object("policy.karmada.io/v1alpha1", "PropagationPolicy", "default", "web");
    let m1 = object("cluster.karmada.io/v1alpha1", "Cluster", "", "m1");
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{},\n{}]}}\n",
        object("v1", "ConfigMap", "", "a"),
        object("v1", "Namespace", "ignored", "shop"),
    );
    let dir = folder(&[
        ("apps/web.yaml", &format!("{web}\n---\n{policy}\n")),
        ("bom.json", &format!("\u{feff}{list}")),
        ("clusters/m1.yml", &m1),
        ("values.yaml", r#"{"replicas": 2}"#),
    ]);
    let repo = load_folder(&dir).repo;
    assert_eq!(repo.findings, []);
    assert_eq!(
        templates(&repo),
        [
            "Deployment shop/web apps/web.yaml:1",
            "ConfigMap default/a bom.json:2",
            "Namespace shop bom.json:3"
        ]
    );
    assert_eq!(
        ids(repo.claimed_objects("karmada", Role::Inventory)),
        ["Cluster default/m1 clusters/m1.yml:1"]
    );
    assert_eq!(
        ids(repo.claimed_objects("karmada", Role::Placement)),
        ["PropagationPolicy default/web apps/web.yaml:3"]
    );
    assert!(repo.templates.iter().all(|t| repo.find_template(&t.object.id).is_some()));
}

#[test]
fn one_bad_document_hides_no_other() {
    let pod = object("v1", "Pod", "", "a");
    let bad = object("v1", "Pod", "", "../a");
    let text = format!("{pod}\n---\n{{]\n---\n{bad}\n---\n{}\n", object("v1", "Pod", "", "b"));
    let repo = load_bytes(vec![file("a.yaml", &text)], Config::default(), &claims).repo;
    assert_eq!(templates(&repo), ["Pod default/a a.yaml:1", "Pod default/b a.yaml:7"]);
    assert_eq!(findings(&repo), [("invalid-yaml", "a.yaml:3".into()), ("invalid-name", "a.yaml:5".into())]);
}

#[test]
fn an_object_in_two_files_is_a_duplicate_that_names_both() {
    let pod = object("v1", "Pod", "", "a");
    let files = vec![file("b.yaml", &pod), file("a.yaml", &format!("\n\n---\n{pod}"))];
    let repo = load_bytes(files, Config::default(), &claims).repo;
    assert_eq!(repo.templates.len(), 1);
    let [duplicate] = repo.duplicates.as_slice() else { panic!("{:?}", repo.duplicates) };
    assert!(duplicate.different.is_empty(), "both are equal");
    assert_eq!(duplicate.to_finding().message, "Pod default/a is defined twice: in a.yaml:4 and in b.yaml:1");
}

#[test]
fn a_wrong_configuration_is_located_and_the_rest_is_read() {
    let dir = folder(&[
        ("federate.yaml", "{\"paths\": [],\n  \"pathz\": []}"),
        ("a.yaml", &object("v1", "Pod", "", "a")),
    ]);
    let repo = load_folder(&dir).repo;
    assert_eq!(findings(&repo), [("invalid-config", "federate.yaml:2".into())]);
    assert_eq!(repo.findings[0].column, Some(3));
    assert_eq!(templates(&repo).len(), 1);
}

fn cluster(name: &str) -> Cluster {
    let inventory = Object::from_path("x/v1", "Cluster", name, serde_json::Value::Null);
    Cluster { region: format!("{name}-region"), ..Cluster::from_object(&inventory) }
}

const JINJA: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NAME"},
 "data": {"region": {{ cluster.region | tojson }}, "host": {{ values.host | tojson }}}}
"#;

fn expand(jinja: &str, clusters: &[&str]) -> Repo {
    let dir = folder(&[
        ("federate.yaml", r#"{"values": {"host": "h"}, "clusterValues": {"m2": {"host": "h2"}}}"#),
        ("a.yaml.j2", jinja),
        ("b.yaml", &object("v1", "ConfigMap", "", "plain")),
    ]);
    let clusters: Vec<_> = clusters.iter().map(|name| cluster(name)).collect();
    load_folder(&dir).into_repo(&clusters)
}

#[test]
fn a_template_is_rendered_for_each_cluster() {
    let repo = expand(&JINJA.replace("NAME", "a"), &["m2", "m1"]);
    assert_eq!(repo.findings, []);
    assert_eq!(templates(&repo), ["ConfigMap default/a a.yaml.j2:1", "ConfigMap default/plain b.yaml:1"]);
    let template = &repo.templates[0];
    let data = |cluster: &str| template.for_cluster(cluster).body["data"].clone();
    assert_eq!(data("m1"), serde_json::json!({"region": "m1-region", "host": "h"}));
    assert_eq!(data("m2"), serde_json::json!({"region": "m2-region", "host": "h2"}));
    assert_eq!(template.object.body, template.for_cluster("m1").body);
}

#[test]
fn what_a_template_may_not_give_is_an_error() {
    let policy = object("policy.karmada.io/v1alpha1", "PropagationPolicy", "", "web");
    for (jinja, want) in [
        (policy.as_str(), ("invalid-template", "a.yaml.j2:1")),
        (&JINJA.replace("NAME", "{{ cluster.name }}"), ("template-differs", "a.yaml.j2:1")),
        (&JINJA.replace("NAME", "a/b"), ("invalid-name", "a.yaml.j2:1")),
        ("{]", ("invalid-yaml", "a.yaml.j2")),
        ("\n{{ nothing }}", ("invalid-template", "a.yaml.j2:2")),
    ] {
        let repo = expand(jinja, &["m1", "m2"]);
        assert_eq!(findings(&repo).first(), Some(&(want.0, want.1.to_owned())), "{jinja}");
        assert!(!templates(&repo).is_empty(), "the plain file is read anyway");
    }
}

#[test]
fn a_template_and_a_file_may_define_the_same_object() {
    let repo = expand(&JINJA.replace("NAME", "plain"), &["m1", "m2"]);
    let [duplicate] = repo.duplicates.as_slice() else { panic!("{:?}", repo.duplicates) };
    assert_eq!((duplicate.origin.to_string(), duplicate.different.len()), ("a.yaml.j2:1".to_owned(), 1));
}

#[test]
fn without_clusters_templates_are_left_out_with_a_warning() {
    let repo = expand(&JINJA.replace("NAME", "a"), &[]);
    assert_eq!(findings(&repo), [("no-clusters", "a.yaml.j2".into())]);
    assert_eq!(repo.findings[0].severity, Severity::Warning);
    assert_eq!(templates(&repo), ["ConfigMap default/plain b.yaml:1"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_files_does_not_matter(
        (files, shuffled) in prop::collection::btree_map("[a-d]{1,2}", ("[xy]", "(Pod|Widget|Cluster|[{])"), 0..8)
            .prop_map(|files| files.into_iter().collect::<Vec<_>>())
            .prop_flat_map(|files| (Just(files.clone()), Just(files).prop_shuffle())),
    ) {
        let show = |files: &[(String, (String, String))]| {
            let files = files.iter().map(|(path, (name, kind))| {
                let group = if kind == "Cluster" { "cluster.karmada.io/v1" } else { "v1" };
                file(&format!("{path}.yaml"), &object(group, kind, "", name))
            });
            let repo = load_bytes(files.collect(), Config::default(), &claims).repo;
            format!("{:?}", (repo.claimed, repo.templates, repo.findings, repo.texts))
        };
        prop_assert_eq!(show(&files), show(&shuffled));
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), jinja in ".{0,80}") {
        let files = vec![
            RepoFile { path: "a.yaml".into(), bytes: bytes.into() },
            RepoFile { path: "b.yaml.j2".into(), bytes: jinja.as_bytes().into() },
        ];
        let repo = load_bytes(files, Config::default(), &claims).into_repo(&[cluster("m1")]);
        prop_assert!(repo.templates.is_sorted_by(|a, b| a.object.id < b.object.id));
    }
}

#[test]
fn each_folder_is_a_cluster_and_lists_are_split() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("m1")).unwrap();
    std::fs::create_dir_all(dir.path().join("m2")).unwrap();
    let list = "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n\
                - {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}\n";
    std::fs::write(dir.path().join("m1/all.yaml"), list).unwrap();
    std::fs::write(dir.path().join("x.yaml"), "{}").unwrap();
    let (live, findings) = federate_repo::read_live_objects(&WorkTree::open(dir.path()).unwrap(), "live");
    assert!(live.get("m1", "", "Pod", Some("default"), "b").is_some());
    assert_eq!(live.list_kind("m1", "", "Pod", Some("shop")).len(), 1);
    assert!(
        live.knows_cluster("m2")
            && !live.knows_cluster("m3")
            && live.get("m2", "", "Pod", None, "a").is_none()
    );
    assert_eq!(findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["stray-live"]);
}
