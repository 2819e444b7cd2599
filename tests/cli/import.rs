//! `federate import`

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, kills};

/// The output of `kubectl get -o yaml` for a Deployment and its Service.
const LIVE: &str = include_str!("import/live.yaml");

/// The objects as the control plane's guide edits them by hand.
const GUIDE: &str = include_str!("import/guide.yaml");

/// The objects as `federate import` edits them.
const TEMPLATE: &str = include_str!("import/template.yaml");

const IMPORT: &str = "import -f live.yaml --policy nginx-pp --cluster kubeadmiral-member-1";

fn live() -> Sandbox {
    Sandbox::new().file("live.yaml", LIVE)
}

/// The objects in a text.
fn objects(text: &str) -> Vec<Value> {
    let stream = federate_yaml::read_stream(text.as_bytes());
    assert!(stream.errors.is_empty(), "{:?}\n{text}", stream.errors);
    stream.documents.into_iter().map(|document| document.value).collect()
}

#[test]
fn live_objects_become_templates_and_the_rest_of_their_text_stays() {
    let ran = live().run(IMPORT).code(0);
    assert_eq!(ran.out, TEMPLATE);
    assert_eq!(ran.err, "");
}

#[test]
fn the_result_is_that_of_the_guide_without_what_servers_write() {
    let mut guide = objects(GUIDE);
    for object in &mut guide {
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        for key in ["uid", "creationTimestamp", "generation"] {
            metadata.remove(key);
        }
        let annotations = metadata["annotations"].as_object_mut().unwrap();
        let clusters = json!(r#"{"clusters":["kubeadmiral-member-1"]}"#);
        annotations.insert("kubeadmiral.io/clusters-to-adopt".into(), clusters);
    }
    assert_eq!(objects(TEMPLATE), guide);
}

#[test]
fn importing_twice_changes_nothing() {
    let repo = live();
    repo.write("again.yaml", repo.run(IMPORT).code(0).out);
    let again = repo.run(&IMPORT.replace("live", "again")).code(0);
    assert_eq!(again.out, TEMPLATE);
    let report = repo.run(&format!("{} -o json", IMPORT.replace("live", "again"))).code(0).json();
    assert_eq!(report["objects"][0]["removed"], json!([]));
    assert_eq!(report["objects"][0]["added"], json!([]));
}

#[test]
fn files_are_written_back_in_one_step_with_their_permissions() {
    let repo = live().file("other.yaml", TEMPLATE);
    fs::set_permissions(repo.path("live.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    let untouched = fs::metadata(repo.path("other.yaml")).unwrap().modified().unwrap();
    let ran =
        repo.run(&format!("{} --in-place", IMPORT.replace("live.yaml", "live.yaml other.yaml"))).code(0);
    assert_eq!(ran.out, "");
    assert_eq!(repo.read("live.yaml"), TEMPLATE);
    assert_eq!(fs::metadata(repo.path("live.yaml")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(repo.path("other.yaml")).unwrap().modified().unwrap(), untouched);
    assert_eq!(repo.files("."), ["live.yaml", "other.yaml"]);
}

#[test]
fn a_kill_while_files_are_written_back_leaves_whole_files_and_no_litter() {
    let repo = live();
    let all = format!("{} --in-place", IMPORT.replace("live.yaml", "live.yaml more.yaml"));
    let rounds = kills(30);
    for round in 0..rounds {
        repo.write("live.yaml", LIVE);
        repo.write("more.yaml", LIVE);
        let mut child = repo.command(&all).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(u64::from(15_000 * round / rounds)));
        child.kill().unwrap();
        child.wait().unwrap();
        for file in ["live.yaml", "more.yaml"] {
            assert!([LIVE, TEMPLATE].contains(&&*repo.read(file)), "{}", repo.read(file));
        }
        repo.run(&all).code(0);
        assert_eq!(repo.files("."), ["live.yaml", "more.yaml"]);
    }
    // Also if there is nothing left to write.
    repo.write(".live.yaml.federate-new", "a part of");
    repo.run(&all).code(0);
    assert_eq!(repo.files("."), ["live.yaml", "more.yaml"]);
}

#[test]
fn nothing_is_written_when_anything_is_wrong() {
    let repo = live().file("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: shop\n");
    let ran = repo.run("import -f live.yaml bad.yaml --policy p -i").code(2);
    assert!(ran.err.contains("bad.yaml:1:1") && ran.err.contains("without a name"), "{}", ran.err);
    assert_eq!(repo.read("live.yaml"), LIVE);
    let printed = repo.run("import -f live.yaml bad.yaml --policy p").code(2);
    assert_eq!(printed.out, "");
}

#[test]
fn standard_input_lists_and_json() {
    let repo = Sandbox::new();
    let list = r#"{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "labels": {
                    "kubernetes.io/metadata.name": "shop"
                },
                "name": "shop",
                "uid": "1"
            },
            "spec": {
                "finalizers": [
                    "kubernetes"
                ]
            },
            "status": {
                "phase": "Active"
            }
        }
    ],
    "kind": "List"
}
"#;
    let mut command = repo.command("import -f - --policy p");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        r#"{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "annotations": {
                    "kubeadmiral.io/clusters-to-adopt": "{\"regexp\":\".*\"}",
                    "kubeadmiral.io/conflict-resolution": "adopt"
                },
                "labels": {
                    "kubernetes.io/metadata.name": "shop",
                    "kubeadmiral.io/cluster-propagation-policy-name": "p"
                },
                "name": "shop"
            }
        }
    ],
    "kind": "List"
}
"#
    );
}

#[test]
fn what_was_done_for_machines() {
    let report = live().run(&format!("{IMPORT} -o json")).code(0).json();
    assert_eq!(report["kind"], "ImportSummary");
    let service = &report["objects"][1];
    assert_eq!(service["object"]["kind"], "Service");
    assert_eq!((&service["file"], &service["line"]), (&json!("live.yaml"), &json!(67)));
    assert!(service["removed"].as_array().unwrap().contains(&json!("/spec/clusterIP")));
    let label =
        json!({"path": "/metadata/labels/kubeadmiral.io~1propagation-policy-name", "value": "nginx-pp"});
    assert_eq!(service["added"][0], label);
}

#[test]
fn uneditable_styles_are_rewritten_and_reported() {
    let text = "apiVersion: v1\nkind: ConfigMap # c\nmetadata: &m\n  labels: &l {a: b}\n  name: x\n  annotations: *l\n";
    let repo = Sandbox::new().file("a.yaml", text);
    let ran = repo.run("import -f a.yaml --policy p").code(0);
    assert!(ran.err.contains("warning[rewritten]") && ran.err.contains("a.yaml:5:3"), "{}", ran.err);
    let object = &objects(&ran.out)[0];
    assert_eq!(
        object["metadata"]["labels"],
        json!({"a": "b", "kubeadmiral.io/propagation-policy-name": "p"})
    );
    assert_eq!(object["metadata"]["annotations"]["a"], "b");
    assert_eq!(repo.run("import -f a.yaml --policy p -q").code(0).err, "");
}

#[test]
fn dialects_that_select_by_themselves_need_no_label() {
    let repo = live();
    let ran = repo.run("import -f live.yaml --as karmada").code(0);
    for object in objects(&ran.out) {
        assert_eq!(object["metadata"]["annotations"]["work.karmada.io/conflict-resolution"], "overwrite");
        assert_eq!(object.get("status"), None);
    }
    assert!(ran.err.starts_with("note: a PropagationPolicy"), "{}", ran.err);
    let ran = repo.run("import -f live.yaml --as kubefleet -q").code(0);
    assert_eq!(ran.err, "");
    for object in objects(&ran.out) {
        assert_eq!(object["metadata"]["annotations"].get("work.karmada.io/conflict-resolution"), None);
        assert_eq!((object.get("status"), object["metadata"].get("uid")), (None, None));
    }
}

#[test]
fn open_cluster_management_wraps_each_object_in_a_set_of_works_that_renders_what_runs() {
    let repo = live();
    let ran = repo.run("import -f live.yaml --as ocm --policy everywhere").code(0);
    let made = objects(&ran.out);
    let names: Vec<&str> = made.iter().map(|set| set["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["deployment-my-nginx", "service-my-nginx"], "{}", ran.out);
    assert!(ran.err.contains("takes objects over in every cluster"), "{}", ran.err);
    repo.write("repo/sets.yaml", &ran.out);
    let hub = "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: eu-1}\n---\napiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: global, namespace: default}\nspec: {clusterSet: global}\n---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: everywhere, namespace: default}\nspec: {}\n";
    repo.write("repo/hub.yaml", hub);
    repo.run("check repo").code(0);
    repo.run("render repo --out out").code(0);
    let rendered = &objects(&repo.read("out/eu-1/default/deployment.apps_my-nginx.yaml"))[0];
    let pods = |object: &Value| object["spec"]["template"].clone();
    assert_eq!(pods(rendered), pods(&objects(TEMPLATE)[0]));
    assert_eq!((rendered.get("status"), rendered["metadata"].get("uid")), (None, None));
    for (options, words) in [
        ("--policy p --cluster eu-1", "goes to all clusters of its placement: leave out --cluster"),
        ("--policy p --enable", "add --as kubefed"),
        ("--policy p -i", "leave out --in-place"),
        ("--cluster-policy p", "a Placement is in a namespace"),
        ("", "name the policy that places the objects"),
    ] {
        let ran = repo.run(&format!("import -f live.yaml --as ocm {options}")).code(2);
        assert!(ran.err.contains(words), "{options}: {}", ran.err);
    }
}

#[test]
fn kubefed_wraps_objects_and_enables_types() {
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxen.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {kind: Box, plural: boxen}
  versions: [{name: v1, served: true}]
";
    let repo = live().file("crd.yaml", crd);
    let ran = repo.run("import -f live.yaml crd.yaml --as kubefed").code(0);
    let made = objects(&ran.out);
    let kinds: Vec<&str> = made.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["FederatedDeployment", "FederatedService", "FederatedCustomResourceDefinition"]);
    assert_eq!(made[1]["spec"]["template"]["spec"].get("clusterIP"), None);
    assert_eq!(ran.out.matches("\n---\n").count(), 2);
    let enabled = repo.run("import -f crd.yaml --as kubefed --enable -o json").code(0).json();
    assert_eq!(enabled["objects"][0]["made"][0]["metadata"], json!({"name": "boxen.x.io"}));
    let ran = repo.run("import -f live.yaml --as kubefed --enable").code(2);
    assert!(
        ran.err.contains("live.yaml:2:1") && ran.err.contains("there is no type to enable"),
        "{}",
        ran.err
    );
}

#[test]
fn invalid_options_are_refused() {
    let repo = live().file("values.yaml", "replicas: 2\n").file("broken.yaml", "a: [\n");
    for (line, message) in [
        ("import -f live.yaml", "name the policy that places the objects"),
        ("import -f live.yaml --policy Not/One", "is not a valid policy name"),
        ("import -f live.yaml --policy p --cluster-policy p", "cannot be used with"),
        ("import -f live.yaml --policy p --as nobody", "`nobody` cannot import objects; --as can be karmada"),
        ("import -f live.yaml --policy p --as karmada", "Karmada's policies select objects by themselves"),
        ("import -f live.yaml --cluster m1 --as kubefleet", "KubeFleet's placements select objects"),
        ("import -f live.yaml --policy p --enable", "add --as kubefed"),
        ("import -f live.yaml --policy p --as kubefed", "a federated object contains its placement"),
        ("import -f live.yaml --as kubefed -i", "leave out --in-place"),
        ("import -f - --policy p -i", "cannot write back to standard input"),
        ("import -f absent.yaml --policy p", "absent.yaml: No such file"),
        ("import -f . --policy p", ". is a folder, but -f takes files"),
        ("import -f values.yaml --policy p", "there is no Kubernetes object in this file"),
        ("import -f broken.yaml --policy p", "broken.yaml:1:4"),
        ("import --policy p", "--file <FILE>"),
        ("import deploy/web --policy p", "--context <CTX>"),
        ("import -f live.yaml --policy p --context m1", "cannot be used with"),
        ("import -f live.yaml --policy p --minimal", "--context <CTX>"),
    ] {
        let ran = repo.run(line).code(2);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
        assert_eq!(ran.out, "", "{line}");
    }
}

#[test]
fn what_is_no_template_is_refused_at_its_place_and_secrets_are_not_quoted() {
    let text = "apiVersion: v1
kind: Secret
metadata:
  name: token
  ownerReferences: [{kind: Certificate, name: web, controller: true}] # hunter2
data: {password: aHVudGVyMg==}
";
    let ran = Sandbox::new().file("secret.yaml", text).run("import -f secret.yaml --policy p").code(2);
    assert!(
        ran.err.contains("secret.yaml:5:3") && ran.err.contains("is created by Certificate web"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("hunter") && !ran.err.contains("aHVu"), "{}", ran.err);
}

#[test]
fn the_dialect_is_that_of_the_repo() {
    let repo = Sandbox::web();
    repo.write("live/live.yaml", crate::sandbox::WEB);
    repo.git("init -q -b main");
    let ran = repo.run("import -f live/live.yaml").code(0);
    assert!(ran.out.contains("work.karmada.io/conflict-resolution: overwrite"), "{}", ran.out);
    let chosen = repo.run("import -f live/live.yaml --as kubeadmiral --policy p").code(0);
    assert!(chosen.out.contains("kubeadmiral.io/propagation-policy-name: p"), "{}", chosen.out);
    let cluster = "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {name: m1, namespace: kube-federation-system}\n";
    let without_policies =
        Sandbox::new().file("cluster.yaml", cluster).file("live.yaml", crate::sandbox::WEB);
    without_policies.git("init -q -b main");
    let ran = without_policies.run("import -f live.yaml").code(0);
    assert!(ran.out.contains("kind: FederatedDeployment"), "{}", ran.out);
}
