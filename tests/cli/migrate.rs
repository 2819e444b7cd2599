//! `federate migrate`: the report and its exit codes, the copy in one step, edits in place, the runbook, and the check of a switch.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use crate::sandbox::Sandbox;

const CLUSTERS: &str = "# The members.
apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: alpha, namespace: kube-federation-system, labels: {env: prod}}
---
apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: beta, namespace: kube-federation-system, labels: {env: test}}
";

const SHOP: &str = "apiVersion: types.kubefed.io/v1beta1
kind: FederatedNamespace
metadata: {name: shop, namespace: shop}
spec: {placement: {clusterSelector: {}}}
---
# The shop.
apiVersion: types.kubefed.io/v1beta1
kind: FederatedDeployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      replicas: 2 # in each cluster
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
          - name: web
            image: nginx:1.27
  placement:
    clusterSelector: {matchLabels: {env: prod}}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedSecret
metadata: {name: token, namespace: shop}
spec:
  template: {data: {token: aHVudGVyMg==}}
  placement: {clusters: [{name: alpha}, {name: beta}]}
";

fn shop() -> Sandbox {
    Sandbox::new()
        .file("repo/clusters.yaml", CLUSTERS)
        .file("repo/shop.yaml", SHOP)
        .file("repo/README.md", "# The shop\n")
        .file("repo/.github/workflows/check.yml", "on: push\n")
}

/// The objects in the outputs of two renderings, without labels and annotations of control planes.
fn rendered(sandbox: &Sandbox, repo: &str) -> Vec<(String, Value)> {
    let out = format!("rendered-{}", repo.replace('/', "-"));
    sandbox.run(&format!("render {repo} --out {out} --fresh --prune-limit 100")).code(0);
    let mut all = Vec::new();
    for path in sandbox.files(&out).into_iter().filter(|path| path != "placements.yaml") {
        let text = sandbox.read(&format!("{out}/{path}"));
        let mut value = federate_yaml::read_stream(text.as_bytes()).documents.remove(0).value;
        let metadata = value["metadata"].as_object_mut().unwrap();
        for field in ["labels", "annotations"] {
            if let Some(keys) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                keys.retain(|key, _| !key.contains("kubefed.io/") && !key.contains("karmada.io/"));
            }
            if metadata.get(field).is_some_and(|keys| keys.as_object().unwrap().is_empty()) {
                metadata.remove(field);
            }
        }
        all.push((path, federate_yaml::sort_keys(value)));
    }
    all
}

#[test]
fn the_copy_renders_what_the_repo_renders() {
    let sandbox = shop();
    fs::set_permissions(sandbox.path("repo/README.md"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("README.md", sandbox.path("repo/START.md")).unwrap();
    for mode in ["idiomatic", "freeze"] {
        let ran =
            sandbox.run(&format!("migrate repo --to karmada --mode {mode} --out new -o json --prove 40"));
        assert!(matches!(ran.code, 0 | 1), "{ran:#?}");
        let report = ran.json();
        assert_eq!(report["kind"], "Migration");
        assert_eq!(report["counts"]["unexplained"], 0, "{report:#}");
        assert_eq!(report["counts"]["different"], 0, "{report:#}");
        assert_eq!(report["stress"]["states"], 40);
        assert!(report["stress"].get("unexplained").is_none(), "{report:#}");
        assert!(!ran.out.contains("aHVudGVyMg") && !ran.err.contains("aHVudGVyMg"), "{ran:#?}");
        assert_eq!(rendered(&sandbox, "repo"), rendered(&sandbox, "new"), "{mode}");
        assert_eq!(sandbox.read("new/.github/workflows/check.yml"), "on: push\n");
        assert_eq!(fs::read_link(sandbox.path("new/START.md")).unwrap(), Path::new("README.md"));
        let modes = fs::metadata(sandbox.path("new/README.md")).unwrap().permissions().mode();
        assert_eq!(modes & 0o777, 0o755);
        let runbook = sandbox.read("new/MIGRATION.md");
        let option = if mode == "freeze" { " --mode freeze" } else { "" };
        let check = format!("federate migrate repo --to karmada{option} --check before");
        for words in [
            check.as_str(),
            "# From KubeFed to Karmada",
            "`alpha`, `beta`",
            "kubectl --context \"$OLD\" scale deployment kubefed-controller-manager -n kube-federation-system --replicas 0",
            "kubefed.io/managed-",
            "## The way back",
        ] {
            assert!(runbook.contains(words), "`{words}` is not in\n{runbook}");
        }
        let checked = sandbox.run("check new");
        assert!(checked.code < 2 && !checked.out.contains("error["), "{checked:#?}");
    }
    // The new repo has nothing left to migrate.
    let again = sandbox.run("migrate new --to karmada -o json").code(0).json();
    assert_eq!(again["files"], serde_json::json!([]));
}

#[test]
fn the_report_names_reasons_objects_and_lines() {
    let sandbox = shop();
    let ran = sandbox.run("migrate repo --to karmada").code(0);
    assert!(ran.out.starts_with("kubefed → karmada (idiomatic): "), "{}", ran.out);
    let repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo");
    let migrate = format!("migrate {} --to kubefleet", repo.display());
    let out = sandbox.run(&migrate).out;
    // What is equal now for the same reasons takes a line, and so do the clusters, which join all in the same way.
    assert!(
        out.contains("join: cluster ap-edge (clusters/ap-edge.yaml:2), and 4 more (-v shows all)\n"),
        "{out}"
    );
    let full = sandbox.run(&format!("{migrate} -v")).out;
    assert!(full.contains("\nDeployment shop/storefront: equal-now\n"), "{full}");
    assert!(full.contains("\n  join: cluster us-2 (clusters/us-2.yaml:2)\n"), "{full}");
    let ran = sandbox.run("migrate repo --to karmada --mode freeze -o markdown").code(0);
    assert!(ran.out.starts_with("**Migration** kubefed → karmada (freeze): "), "{}", ran.out);
    assert!(ran.out.contains("`frozen`"), "{}", ran.out);
    assert!(!sandbox.path("new").exists() && sandbox.read("repo/shop.yaml") == SHOP, "it only reports");
}

#[test]
fn random_states_follow_from_the_seed() {
    let sandbox = shop();
    let lines = ["--seed 7", "--seed 7", "--seed 8"];
    let stress = lines.map(|seed| {
        sandbox.run(&format!("migrate repo --to karmada --prove 30 {seed} -o json")).json()["stress"].clone()
    });
    assert_eq!(stress[0], stress[1]);
    assert_eq!(stress[2]["seed"], 8);
    let ran = sandbox.run("migrate repo --to karmada --seed 7").code(2);
    assert!(ran.err.contains("--prove"), "{}", ran.err);
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let sandbox = shop().file("new/own.txt", "own");
    let ran = sandbox.run("migrate repo --to karmada --out new").code(2);
    assert!(ran.err.contains("contains files that federate did not write"), "{}", ran.err);
    assert_eq!(sandbox.files("new"), ["own.txt"]);
    sandbox.run("migrate repo --to karmada --out fresh -q").code(0);
    sandbox.run("migrate repo --to karmada --out fresh -q").code(0);
    sandbox.write("fresh/shop.yaml", "");
    let ran = sandbox.run("migrate repo --to karmada --out fresh").code(2);
    assert!(ran.err.contains("have changed since federate wrote them"), "{}", ran.err);
    for out in ["repo", "."] {
        let ran = sandbox.run(&format!("migrate repo --to karmada --out {out}")).code(2);
        assert!(ran.err.contains("it is, or contains, the repo"), "{}", ran.err);
    }
}

#[test]
fn a_copy_inside_the_repo_does_not_contain_itself() {
    let sandbox = shop();
    for _ in 0..2 {
        sandbox.run("migrate repo --to karmada --out repo/deep/new -q").code(0);
        let files = sandbox.files("repo/deep/new");
        assert!(files.contains(&"MIGRATION.md".to_owned()), "{files:?}");
        assert!(files.iter().all(|file| !file.contains("deep") && !file.contains("federate-")), "{files:?}");
    }
}

#[test]
fn edits_in_place_need_a_clean_tree_and_git_undoes_them() {
    let sandbox = shop();
    let ran = sandbox.run("migrate repo --to karmada --in-place").code(2);
    assert!(ran.err.contains("--in-place needs a git repository"), "{}", ran.err);
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -qm one");
    sandbox.write("repo/README.md", "# Changed\n");
    let ran = sandbox.run("migrate repo --to karmada --in-place").code(2);
    assert!(ran.err.contains("has changes that are not committed"), "{}", ran.err);
    assert_eq!(sandbox.read("repo/shop.yaml"), SHOP);
    sandbox.git("checkout -q .");
    let before = rendered(&sandbox, "repo");
    let ran = sandbox.run("migrate repo --to karmada --in-place --runbook runbook.md").code(0);
    assert!(ran.err.contains("restore ."), "{}", ran.err);
    assert!(sandbox.read("runbook.md").contains("# From KubeFed to Karmada"));
    assert_ne!(sandbox.git("status --porcelain repo"), "");
    fs::remove_dir_all(sandbox.path("rendered-repo")).unwrap();
    assert_eq!(before, rendered(&sandbox, "repo"));
    sandbox.git("restore repo");
    sandbox.git("clean -fdq repo");
    assert_eq!(sandbox.read("repo/shop.yaml"), SHOP);
    assert_eq!(sandbox.git("status --porcelain repo"), "");
}

#[test]
fn broken_repos_write_nothing() {
    for (file, text) in [
        ("repo/broken.yaml", "a: [\n"),
        (
            "repo/broken.yaml",
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedConfigMap\nmetadata: {name: a, namespace: shop}\nspec: {placement: 7}\n",
        ),
        ("repo/federate.yaml", "paths: 7\n"),
    ] {
        let sandbox = shop().file(file, text);
        let before = sandbox.files(".");
        let ran = sandbox.run("migrate repo --to karmada --out new").code(2);
        assert!(ran.err.contains("nothing was written") || ran.err.contains("error"), "{}", ran.err);
        assert!(ran.err.contains("broken.yaml") || ran.err.contains("federate.yaml"), "{}", ran.err);
        assert_eq!(sandbox.files("."), before, "{text}");
    }
}

#[test]
fn no_link_leads_the_copy_out_of_the_repo() {
    let sandbox = shop().file("outside/secret.txt", "secret");
    symlink(sandbox.path("outside"), sandbox.path("repo/out-link")).unwrap();
    let ran = sandbox.run("migrate repo --to karmada --out new").code(2);
    assert!(ran.err.contains("points outside of the repo") && !sandbox.path("new").exists(), "{ran:#?}");
    sandbox.write("repo/.federateignore", "out-link\n");
    let ran = sandbox.run("migrate repo --to karmada --out new").code(0);
    assert!(ran.err.contains("out-link was left out"), "{}", ran.err);
    assert!(!sandbox.path("new/out-link").exists());
    sandbox.git("init -q -b main repo");
    let ran = sandbox.run("migrate repo --to karmada --out repo/out-link/new").code(2);
    assert!(ran.err.contains("is a symbolic link in the checkout"), "{}", ran.err);
    assert_eq!(sandbox.files("outside"), ["secret.txt"]);
}

#[test]
fn a_snapshot_says_which_step_of_the_switch_is_next() {
    let sandbox = shop();
    sandbox.run("migrate repo --to karmada --out new -q").code(0);
    // What runs is what KubeFed sends: its rendering, with its label.
    sandbox.run("render repo --out runs --fresh -q").code(0);
    let snapshot = |folder: &str, mark: &str| {
        let mut all = String::new();
        for cluster in ["alpha", "beta"] {
            for path in sandbox.files(&format!("runs/{cluster}")) {
                let text = sandbox.read(&format!("runs/{cluster}/{path}"));
                let text = if mark == "karmada" {
                    text.replace("kubefed.io/managed", "karmada.io/managed")
                } else {
                    text
                };
                let observed = format!("{folder}/observed/{cluster}/{}", path.replace('/', "-"));
                sandbox.write(&observed, text);
                all += &observed;
            }
        }
        assert!(!all.is_empty());
        let described = "apiVersion: federate.dev/v1alpha1\nkind: Snapshot\nsources: []\ncontrolPlanes: {}\ndigest: none\n";
        sandbox.write(&format!("{folder}/snapshot.yaml"), described);
    };
    snapshot("before", "kubefed");
    let ran = sandbox.run("migrate repo --to karmada --check before -o json").code(0).json();
    assert_eq!(
        (&ran["kind"], &ran["ready"], &ran["next"]),
        (&"MigrationCheck".into(), &true.into(), &"register".into()),
        "{ran:#}"
    );
    // A pod template that changes stops the switch.
    let path = "before/observed/alpha/shop-deployment.apps_web.yaml";
    let text = sandbox.read(path);
    sandbox.write(path, text.replace("nginx:1.27", "nginx:1.26"));
    let ran = sandbox.run("migrate repo --to karmada --check before").code(1);
    assert!(ran.out.starts_with("Do not begin the step"), "{}", ran.out);
    assert!(ran.out.contains("Deployment shop/web on alpha"), "{}", ran.out);
    sandbox.write(path, text.replace("replicas: 2", "replicas: 3"));
    let ran = sandbox.run("migrate repo --to karmada --check before").code(1);
    assert!(ran.out.contains("other replicas: Deployment shop/web on alpha"), "{}", ran.out);
    snapshot("after", "karmada");
    let ran = sandbox.run("migrate repo --to karmada --check after").code(0);
    assert!(ran.out.contains("clean: done"), "{}", ran.out);
    assert!(
        sandbox
            .run("migrate repo --to karmada --check nothing")
            .code(2)
            .err
            .contains("cannot read the snapshot")
    );
}

const KARMADA_CLUSTERS: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-1, labels: {env: prod}}
spec: {region: eu, syncMode: Push}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-2, labels: {env: prod}}
spec: {region: eu, syncMode: Push, taints: [{key: spot, effect: NoSchedule}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: us-1, labels: {env: test}}
spec: {region: us, syncMode: Pull}
";

/// The objects of the shop: each is selected by a policy of its own.
fn karmada_shop() -> Sandbox {
    let mut objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n".to_owned();
    let mut policies = String::new();
    for (name, placement) in [
        ("named", "{clusterAffinity: {clusterNames: [eu-1, eu-2]}}"),
        ("labelled", "{clusterAffinity: {labelSelector: {matchLabels: {env: prod}}, exclude: [eu-2]}}"),
        ("tolerant", "{clusterTolerations: [{key: spot, operator: Exists}]}"),
        (
            "regional",
            "{clusterAffinity: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}}}",
        ),
        ("spread", "{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}"),
        (
            "weighted",
            "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: \
             {staticWeightList: [{targetCluster: {clusterNames: [eu-1]}, weight: 2}, {targetCluster: {clusterNames: [us-1]}, \
             weight: 1}]}}}",
        ),
        (
            "even",
            "{clusterAffinity: {labelSelector: {matchExpressions: [{key: env, operator: Exists}]}}, replicaScheduling: \
             {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}",
        ),
    ] {
        objects += &format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  replicas: 3\n  \
             selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
             containers:\n      - {{name: web, image: 'nginx:1.27', envFrom: [{{configMapRef: {{name: settings}}}}]}}\n"
        );
        policies += &format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  propagateDeps: true\n  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]\n  \
             placement: {placement}\n---\n"
        );
    }
    objects += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {color: blue}\n";
    policies += "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: near, namespace: shop}\nspec:\n  \
        resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n  overrideRules:\n  - targetCluster: {clusterNames: \
        [us-1]}\n    overriders: {imageOverrider: [{component: Registry, operator: replace, value: us.example.com}]}\n";
    Sandbox::new()
        .file("repo/clusters.yaml", KARMADA_CLUSTERS)
        .file("repo/shop.yaml", &objects)
        .file("repo/policies.yaml", &policies)
}

/// Migrates the shop of Karmada, proves it in random states, and expects words of the runbook.
fn leave_karmada(target: &str, words: &[&str]) {
    let sandbox = karmada_shop();
    for mode in ["idiomatic", "freeze"] {
        let ran =
            sandbox.run(&format!("migrate repo --to {target} --mode {mode} --out new -o json --prove 80"));
        assert!(matches!(ran.code, 0 | 1), "{ran:#?}");
        let report = ran.json();
        assert_eq!(report["counts"]["unexplained"], 0, "{report:#}");
        assert!(
            report["stress"].get("unexplained").is_none(),
            "{mode}: {:#}",
            report["stress"]["unexplained"]
        );
        let runbook = sandbox.read("new/MIGRATION.md");
        for words in words {
            assert!(runbook.contains(words), "`{words}` is not in\n{runbook}");
        }
        let again = sandbox.run(&format!("migrate new --to {target} -o json")).code(0).json();
        assert_eq!(again["files"], serde_json::json!([]));
    }
}

#[test]
fn karmada_is_left_for_kubefleet() {
    leave_karmada(
        "kubefleet",
        &[
            "# From Karmada to KubeFleet",
            "kubectl --context \"$NEW\" patch resourceplacement.v1beta1.placement.kubernetes-fleet.io tolerant -n shop --type merge",
            "\"whenToTakeOver\":\"Always\"",
            "\"type\":\"ReportDiff\",\"whenToTakeOver\":\"Never\"",
            "kubectl --context \"$NEW_HOST\" scale deployment hub-agent -n fleet-system --replicas 0",
            "patch membercluster.cluster.kubernetes-fleet.io eu-1 --type merge -p",
        ],
    );
}

#[test]
fn karmada_is_left_for_kubeadmiral() {
    leave_karmada(
        "kubeadmiral",
        &[
            "# From Karmada to KubeAdmiral",
            "kubectl annotate --local --overwrite -o yaml -f new/shop.yaml kubeadmiral.io/dry-run=true",
            "kubectl --context \"$NEW\" annotate -f new/shop.yaml kubeadmiral.io/dry-run-",
            "kubectl --context \"$NEW_HOST\" scale deployment kubeadmiral-controller-manager -n kubeadmiral-system --replicas 0",
        ],
    );
}

/// The code block of a runbook that has a text.
fn find_block<'r>(runbook: &'r str, text: &str) -> &'r str {
    let blocks = runbook.split("```sh\n").skip(1).filter_map(|block| block.split("\n```").next());
    blocks
        .into_iter()
        .find(|block| block.contains(text))
        .unwrap_or_else(|| panic!("{text} is not in\n{runbook}"))
}

#[test]
fn a_runbook_applies_each_of_many_files_once_and_the_inventory_never() {
    let mut sandbox = karmada_shop();
    for number in 0..30 {
        let settings = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: extra-{number}, namespace: shop}}\ndata: {{a: b}}\n"
        );
        sandbox = sandbox.file(&format!("repo/extra/it's {number}.yaml"), &settings);
    }
    // An inventory and a policy stand in the folder of the objects.
    let cluster = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: eu-9}\nspec: {syncMode: Push}\n";
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: extra, namespace: shop}\nspec:\n  \
                  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: extra-1}, {apiVersion: v1, kind: ConfigMap, name: \
                  extra-2}]\n  placement: {clusterAffinity: {clusterNames: [eu-9]}}\n";
    let sandbox = sandbox.file("repo/extra/cluster.yaml", cluster).file("repo/extra/policy.yaml", policy);
    let log =
        "#!/bin/sh\nfor word in \"$@\"; do case \"$word\" in new/*) echo \"$word\" >> applied; esac; done\n";
    let sandbox = sandbox.file("programs/kubectl", log);
    let program = sandbox.path("programs/kubectl");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for target in ["kubefleet", "kubeadmiral"] {
        sandbox.run(&format!("migrate repo --to {target} --out new"));
        let runbook = sandbox.read("new/MIGRATION.md");
        let lists = runbook.split("## Lists of files").nth(1).unwrap();
        let lists: Vec<&str> =
            lists.split("```sh\n").skip(1).filter_map(|block| block.split("\n```").next()).collect();
        let load = find_block(&runbook, "done < ");
        assert!(load.lines().count() < 60, "{load}");
        let script = format!("NEW=new\nNEW_HOST=host\nfederate() {{ :; }}\n{}\n{load}\n", lists.join("\n"));
        let path = format!("{}:{}", sandbox.path("programs").display(), std::env::var("PATH").unwrap());
        let ran = std::process::Command::new("sh")
            .args(["-c", &script])
            .env("PATH", path)
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}\n{script}");
        let applied = sandbox.read("applied");
        for number in 0..30 {
            let file = format!("new/extra/it's {number}.yaml");
            assert_eq!(
                applied.lines().filter(|line| *line == file).count(),
                1,
                "{target}: {file}\n{applied}"
            );
        }
        assert!(applied.lines().any(|line| line == "new/extra/policy.yaml"), "{applied}");
        assert!(!applied.contains("cluster"), "{target}: {applied}");
        fs::remove_file(sandbox.path("applied")).unwrap();
        fs::remove_dir_all(sandbox.path("new")).unwrap();
    }
}

#[test]
fn the_page_has_the_report_and_the_runbook() {
    let sandbox = shop();
    let ran = sandbox.run("migrate repo --to karmada --prove 20 -o html");
    let report = sandbox.run("migrate repo --to karmada --prove 20 -o json").json();
    let html = &ran.out;
    assert!(html.starts_with("<!doctype html>"), "{html}");
    let summary = report["summary"].as_str().unwrap().replace('\'', "&#39;");
    assert!(html.contains(&format!("<h1 id=\"sentence\">{summary}</h1>")), "{summary}");
    assert!(!html.contains("aHVudGVyMg"), "a value of a Secret is in the page");
    let refused = sandbox.run("migrate repo --to karmada --check before -o html");
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--check has no page"), "{}", refused.err);
}

#[test]
fn a_report_leads_with_the_reason_that_suffices_and_counts_each_object_once() {
    let sandbox = Sandbox::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let ran = sandbox.run(&format!("migrate {examples}/repo --to kubefleet")).code(1);
    // 21 objects, 11 reasons.
    assert!(ran.out.lines().count() < 32, "{}", ran.out);
    let expected = "CronJob data/reports: different
  only the old control plane places it on eu-1 (scores)
  only the new control plane places it on us-1 (scores)
  scores: at most 1 cluster, ranked by scores (policies/data/batch.yaml:2)
  … and 2 more rules (-v shows all)
";
    assert!(ran.out.contains(expected), "{}", ran.out);
    let expected = "Namespace data, Namespace edge, Namespace shop: equal-now (readiness)\n";
    assert!(ran.out.contains(expected), "{}", ran.out);
    // What is taken away: free resources, without which replicas still differ, and the fields of a policy.
    for (example, target, expected) in [
        ("repo", "kubeadmiral", "us-1 36 → 14, us-2 22 → 8 (capacity, dynamic-weights, overrides)\n"),
        ("kubefed", "karmada", "replicas a 4 → 3, b 5 → 6 (min-max)\n"),
    ] {
        let command = format!("migrate {examples}/{example} --to {target}");
        let ran = sandbox.run(&command).code(1);
        assert!(ran.out.contains(expected), "{}", ran.out);
        let report = sandbox.run(&format!("{command} -o json")).json();
        let reasons = report["reasons"].as_array().unwrap();
        let different: u64 = reasons.iter().map(|row| row["different"].as_u64().unwrap()).sum();
        assert_eq!(different, report["counts"]["different"].as_u64().unwrap(), "{report:#}");
    }
}

#[test]
fn states_in_which_objects_differ_as_they_do_now_do_not_count() {
    let sandbox = Sandbox::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let command = format!("migrate {examples}/kubefed --to karmada --prove 40 -o json");
    let report = sandbox.run(&command).code(1).json();
    let now: Vec<&serde_json::Value> = report["objects"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|object| object["differences"].as_array().unwrap())
        .map(|difference| &difference["detail"])
        .collect();
    assert!(!now.is_empty());
    let stress = &report["stress"];
    // In most states, the object that differs now does so as it does now.
    assert!(stress["differing"].as_u64().unwrap() < 35, "{stress:#}");
    for reason in stress["reasons"].as_array().unwrap() {
        assert!(!now.contains(&&reason["example"]["difference"]["detail"]), "{reason:#}");
    }
    assert!(
        report["summary"].as_str().unwrap().contains("Objects differ in other ways than now in "),
        "{report:#}"
    );
}

#[test]
fn a_direction_without_rules_is_frozen_unless_a_mode_is_asked_for() {
    let sandbox = Sandbox::new();
    let kubefed = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kubefed");
    let ran = sandbox.run(&format!("migrate {kubefed} --to kubefleet")).code(0);
    assert!(ran.out.starts_with("kubefed → kubefleet (freeze): "), "{}", ran.out);
    let expected = "rules of kubefed are not written as rules of KubeFleet: each object is written as it is placed now (--mode freeze)\n";
    assert!(ran.err.contains(expected), "{}", ran.err);
    let ran = sandbox.run(&format!("migrate {kubefed} --to kubefleet --mode idiomatic")).code(2);
    assert!(ran.err.contains("cannot be written for kubefleet in mode `idiomatic`"), "{}", ran.err);
}
