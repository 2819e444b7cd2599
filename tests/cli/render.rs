//! `federate render`

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::sandbox::{Sandbox, kills};

#[test]
fn it_writes_a_folder_a_cluster_and_the_plan() {
    let repo = Sandbox::web();
    let ran = repo.run("render --out out").code(0);
    assert_eq!(
        repo.files("out"),
        ["m1/shop/deployment.apps_web.yaml", "m2/shop/deployment.apps_web.yaml", "placements.yaml"]
    );
    assert!(ran.out.contains("2 created"), "{}", ran.out);
    assert_eq!(
        repo.read("out/m1/shop/deployment.apps_web.yaml"),
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - name: web
        image: nginx:1.27
"
    );
}

#[test]
fn a_second_render_touches_nothing() {
    let repo = Sandbox::web();
    repo.run("render --out out").code(0);
    let stamp = |path: &str| fs::metadata(repo.path(path)).unwrap().modified().unwrap();
    let paths = ["out", "out/placements.yaml", "out/m1/shop/deployment.apps_web.yaml"];
    let before = paths.map(stamp);
    std::thread::sleep(Duration::from_millis(20));
    let ran = repo.run("render --out out").code(0);
    assert!(ran.out.contains("2 unchanged"), "{}", ran.out);
    assert_eq!(before, paths.map(stamp));
}

#[test]
fn what_is_no_longer_rendered_goes_and_the_rest_stays_untouched() {
    let repo = Sandbox::web();
    repo.write("other.yaml", repo.read("web.yaml").replace("name: web", "name: other"));
    repo.write("policy.yaml", repo.read("policy.yaml").replace("    name: web\n", ""));
    repo.run("render --out out").code(0);
    let kept = repo.path("out/m1/shop/deployment.apps_web.yaml");
    let before = fs::metadata(&kept).unwrap().modified().unwrap();
    fs::remove_file(repo.path("other.yaml")).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let ran = repo.run("render --out out").code(0);
    assert!(ran.out.contains("2 removed"), "{}", ran.out);
    assert_eq!(repo.files("out").len(), 3);
    assert_eq!(before, fs::metadata(&kept).unwrap().modified().unwrap());
}

#[test]
fn a_folder_with_anything_else_in_it_is_refused() {
    let repo = Sandbox::web();
    repo.write("out/notes.txt", "mine");
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("notes.txt"), "{}", ran.err);
    assert_eq!(repo.files("out"), ["notes.txt"]);
}

#[test]
fn an_error_writes_nothing_unless_told_to_keep_going() {
    let repo = Sandbox::web();
    repo.write("broken.yaml", "a: [\n");
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("nothing was written"), "{}", ran.err);
    assert!(!repo.path("out").exists());
    repo.run("render --out out --keep-going").code(2);
    assert_eq!(repo.files("out").len(), 3);
}

#[test]
fn a_failing_override_leaves_out_exactly_the_object_on_the_cluster() {
    let repo = Sandbox::web();
    repo.write(
        "override.yaml",
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: bad, namespace: shop}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [m2]}
    overriders:
      plaintext:
      - {path: /spec/absent/key, operator: add, value: 1}
",
    );
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("error[override-failed]"), "{}", ran.err);
    assert!(ran.err.contains("override.yaml:"), "{}", ran.err);
    repo.run("render --out out --keep-going").code(2);
    assert_eq!(repo.files("out"), ["m1/shop/deployment.apps_web.yaml", "placements.yaml"]);
}

#[test]
fn narrowing_never_removes_other_clusters() {
    let repo = Sandbox::web();
    repo.run("render --out one --cluster m1").code(0);
    assert_eq!(repo.files("one"), ["m1/shop/deployment.apps_web.yaml", "placements.yaml"]);
    repo.run("render --out one --cluster m1").code(0);
    repo.run("render --out out").code(0);
    let ran = repo.run("render --out out --cluster m1").code(2);
    assert!(ran.err.contains("also contains cluster `m2`"), "{}", ran.err);
    assert_eq!(repo.files("out").len(), 3);
}

#[test]
fn what_a_secret_holds_is_in_no_error() {
    let repo = Sandbox::web();
    repo.write(
        "secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {password: Hunter2}\n",
    );
    repo.write("policy.yaml", repo.read("policy.yaml") + "---\n" + SECRETS);
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("Secret shop/s cannot be rendered"), "{}", ran.err);
    assert!(!ran.err.contains("Hunter2") && !ran.out.contains("Hunter2"), "{ran:#?}");
}

/// Sends Secrets to every cluster, and uses a password as an image reference.
const SECRETS: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: secrets, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: secrets, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret}]
  overrideRules:
  - overriders:
      imageOverrider:
      - {component: Tag, operator: replace, value: v2, predicate: {path: /stringData/password}}
";

#[test]
fn the_output_inside_the_repo_is_not_read_back() {
    let repo = Sandbox::web();
    repo.run("render --out out").code(0);
    repo.run("plan").code(0);
    repo.run("check").code(0);
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_tree_or_the_new() {
    let repo = Sandbox::web();
    for index in 0..150 {
        let text = repo.read("web.yaml").replace("name: web", &format!("name: web-{index:03}"));
        repo.write(&format!("apps/{index:03}.yaml"), text);
    }
    repo.write("policy.yaml", repo.read("policy.yaml").replace("    name: web\n", ""));
    repo.run("render --out out").code(0);
    let old = repo.files("out");
    let policy = repo.read("policy.yaml");
    let rounds = kills(25);
    for round in 0..rounds {
        let delay = u64::from(50_000 * round / rounds);
        // Every other round renders half of the clusters away and back.
        let only = if round % 2 == 0 { "    clusterAffinity: {clusterNames: [m1]}\n" } else { "" };
        repo.write("policy.yaml", format!("{policy}{only}"));
        let mut child = repo
            .command("render --out out --fresh")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = repo.files("out");
        let whole = now == old || now.iter().filter(|f| f.starts_with("m1/")).count() + 1 == now.len();
        assert!(whole && now.iter().filter(|f| f.starts_with("m1/")).count() == 151, "{} files", now.len());
    }
    repo.write("policy.yaml", policy);
    repo.run("render --out out --fresh").code(0);
    assert_eq!(repo.files("out"), old);
    let litter: Vec<_> = fs::read_dir(repo.path("."))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains(".out"))
        .collect();
    assert_eq!(litter, Vec::<String>::new());
}

#[test]
fn a_placements_file_that_is_not_a_plan_is_kept() {
    let repo = Sandbox::web();
    for text in ["mine: true\n", "a: [\n", "kind: Plan\n"] {
        repo.write("out/placements.yaml", text);
        let ran = repo.run("render --out out").code(2);
        assert!(ran.err.contains("placements.yaml is not a plan"), "{}", ran.err);
        assert_eq!(repo.read("out/placements.yaml"), text);
    }
}

/// A cluster that is not ready is sent nothing, so its files stay.
#[test]
fn what_is_not_sent_for_now_stays_as_it_was_rendered() {
    let cluster = |ready: &str| {
        format!(
            "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {{name: m1, namespace: kube-federation-system}}\nstatus: {{conditions: [{{type: Ready, status: \"{ready}\"}}]}}\n"
        )
    };
    let settings = |value: &str| {
        format!(
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedClusterRole\nmetadata: {{name: reader}}\nspec:\n  template: {{rules: [{{verbs: [{value}]}}]}}\n  placement: {{clusterSelector: {{}}}}\n"
        )
    };
    let repo = Sandbox::new().file("m1.yaml", cluster("True")).file("role.yaml", settings("get"));
    repo.run("render --out out").code(0);
    let file = repo.path("out/m1/_cluster/clusterrole.rbac.authorization.k8s.io_reader.yaml");
    let first = std::fs::read_to_string(&file).unwrap();
    repo.write("m1.yaml", cluster("False"));
    repo.write("role.yaml", settings("list"));
    let ran = repo.run("render --out out").code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first, "{}", ran.err);
    assert!(ran.err.contains("is not ready"), "{}", ran.err);
    repo.write("m1.yaml", cluster("True"));
    repo.run("render --out out").code(0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("list"));
}
