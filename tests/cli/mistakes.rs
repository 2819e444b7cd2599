//! Mistakes as people make them, one at a time, in a repo of each control plane that has none.
//!
//! `mistakes/DIALECT.yaml` is the repo, and `mistakes/DIALECT.txt` lists changes of it, separated by empty lines: the
//! first changed line after `@`, old lines after `-`, new lines after `+` (a whole new document without `@`). After `=`
//! follow the code, the line and the column of the finding, and a part of its message or help.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::builds::Tools;
use crate::sandbox::Sandbox;

/// The text of a repo with a change, and the finding that is expected.
fn changed(repo: &str, change: &str) -> (String, String) {
    let lines =
        |mark: &str| -> Vec<&str> { change.lines().filter_map(|line| line.strip_prefix(mark)).collect() };
    let (old, new) = (lines("- "), lines("+ "));
    let expected = lines("= ").concat();
    let mut text: Vec<&str> = repo.lines().collect();
    match lines("@ ").first() {
        Some(at) => {
            let at = at.parse::<usize>().unwrap() - 1;
            let replaced: Vec<&str> = text.splice(at..at + old.len(), new).collect();
            assert_eq!(replaced, old, "{change}");
        }
        None => text.extend(["---"].into_iter().chain(new)),
    }
    (text.join("\n") + "\n", expected)
}

/// Checks each mistake of a dialect: it is found, at its place, and the repo is not clean.
fn mistakes(dialect: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mistakes");
    let read = |extension: &str| fs::read_to_string(folder.join(format!("{dialect}.{extension}"))).unwrap();
    let (repo, changes) = (read("yaml"), read("txt"));
    let sandbox = Sandbox::new().file("repo.yaml", &repo);
    sandbox.run("check").code(0);
    let mut wrong = Vec::new();
    for change in changes.split("\n\n") {
        let (text, expected) = changed(&repo, change);
        let [code, at, words] = expected.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{change}") };
        sandbox.write("repo.yaml", text);
        let ran = sandbox.run("check -o json");
        let found = ran.json();
        let shows = |finding: &serde_json::Value| {
            let text = |key: &str| finding[key].as_str().unwrap_or_default();
            let place = format!("{}:{}", finding["line"], finding["column"]);
            text("code") == code
                && place == at
                && (text("message").contains(words) || text("help").contains(words))
        };
        if ran.code == 0 || !found["findings"].as_array().unwrap().iter().any(shows) {
            wrong.push(format!("{change}\n{found:#}"));
        }
    }
    assert!(wrong.is_empty(), "{} mistakes are not found:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn in_karmadas_repo() {
    mistakes("karmada");
}

#[test]
fn in_kubeadmirals_repo() {
    mistakes("kubeadmiral");
}

#[test]
fn in_kubefleets_repo() {
    mistakes("kubefleet");
}

#[test]
fn in_kubefeds_repo() {
    mistakes("kubefed");
}

#[test]
fn in_a_repo_of_open_cluster_management() {
    mistakes("ocm");
}

#[test]
fn in_a_repo_of_federation_v1() {
    mistakes("federation-v1");
}

#[test]
fn a_template_that_a_policy_selects_is_never_to_be_selected() {
    let refused = "    spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 2}]\n";
    let web = Sandbox::web();
    web.write("policy.yaml", web.read("policy.yaml") + refused);
    let ran = web.run("check").code(2);
    assert!(
        ran.out.contains("PropagationPolicy shop/web (policy.yaml:1), which selects it, has an error"),
        "{}",
        ran.out
    );
    let reserved = Sandbox::web();
    for file in ["web.yaml", "policy.yaml"] {
        reserved.write(file, reserved.read(file).replace("namespace: shop", "namespace: kube-public"));
    }
    let ran = reserved.run("check").code(1);
    assert!(
        ran.out.contains("Karmada never propagates it, because its namespace is reserved"),
        "{}",
        ran.out
    );
    let fleet =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mistakes/kubefleet.yaml"));
    let without = fleet.unwrap().replace("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n", "");
    let ran = Sandbox::new().file("repo.yaml", without).run("check").code(1);
    assert!(ran.out.contains("but the repo has no Namespace `shop`"), "{}", ran.out);
    for out in [ran.out, web.run("check").out, reserved.run("check").out] {
        assert!(!out.contains("select it in a placement policy"), "{out}");
    }
}

#[test]
fn many_equal_findings_hide_no_other_and_causes_come_first() {
    let map = |name: usize| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{name}, namespace: shop}}\n---\n")
    };
    let repo = Sandbox::web().file("a.yaml", (0..200).map(map).collect::<String>());
    repo.write("web.yaml", repo.read("web.yaml").replace("replicas: 4", "replcas: 4"));
    repo.write("policy.yaml", repo.read("policy.yaml").replace("    name: web", "    name: wbe"));
    let out = repo.run("check").code(1).out;
    let at = |words: &str| out.find(words).unwrap_or_else(|| panic!("{words}: {out}"));
    assert!(at("warning[unknown-field]") < at("warning[unused-policy]"));
    assert!(at("warning[unused-policy]") < at("warning[unmatched]"));
    at("no policy places Deployment shop/web: PropagationPolicy shop/web (policy.yaml:1) nearly selects it");
    at("and more: 183 unmatched");
    assert_eq!(out.matches("warning[").count(), 20);
}

/// What SOPS has encrypted with its kind and name may be an object that was rendered before: nothing is deleted.
#[test]
fn an_object_that_is_encrypted_as_a_whole_is_named_with_what_to_do() {
    let value = "ENC[AES256_GCM,data:oGM=,iv:BRdLAUPgceAIV0a9,tag:DeqAAA==,type:str]";
    let secret = format!(
        "apiVersion: {value}\nkind: {value}\nmetadata: {{name: '{value}'}}\nsops: {{version: 3.9.0, mac: '{value}', age: [{{recipient: \
         age1x, enc: x}}]}}\n"
    );
    let ran = Sandbox::web().file("token.yaml", secret).run("render --out out").code(2);
    assert!(ran.err.contains("error[sops-whole]: SOPS has encrypted all of an object"), "{}", ran.err);
    assert!(ran.err.contains("--encrypted-regex") && !ran.err.contains("oGM="), "{}", ran.err);
}

#[test]
fn an_object_with_a_generated_name_is_left_out_alone() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-, namespace: shop}\n";
    let repo = Sandbox::web().file("job.yaml", job);
    let ran = repo.run("render --out out").code(0);
    assert!(ran.err.contains("warning[generate-name]") && ran.err.contains("job.yaml:3:"), "{}", ran.err);
    repo.run("check").code(1);
}

#[test]
fn a_second_run_over_unchanged_input_repeats_its_findings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mistakes");
    for (dialect, from, to) in [
        ("karmada", "clusterNames: [eu-1]", "clusterNames: [eu-9]"),
        (
            "kubeadmiral",
            "schedulingMode: Duplicate",
            "schedulingMode: Duplicate\n  clusterSelector: {region: none}",
        ),
        ("kubefleet", "clusterNames: [eu-1, us-1]", "clusterNames: [eu-9]"),
    ] {
        let text = fs::read_to_string(folder.join(format!("{dialect}.yaml"))).unwrap().replace(from, to);
        let repo = Sandbox::new().file("repo.yaml", text);
        let first = repo.run("render --out out").code(0);
        assert!(first.err.contains("warning[unschedulable]"), "{dialect}: {first:#?}");
        let second = repo.run("render --out out").code(0);
        assert_eq!(first.err, second.err, "{dialect}");
        repo.run("render --out out --fail-on unschedulable").code(2);
    }
}

#[test]
fn every_code_of_these_findings_is_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mistakes");
    let mut codes = BTreeSet::new();
    for dialect in ["karmada", "kubeadmiral", "kubefleet", "kubefed", "federation-v1"] {
        let changes = fs::read_to_string(folder.join(format!("{dialect}.txt"))).unwrap();
        let expected = changes.lines().filter_map(|line| line.strip_prefix("= ")?.split(' ').next());
        codes.extend(expected.map(str::to_owned));
    }
    for code in codes {
        Sandbox::new().run(&format!("check --explain {code}")).code(0);
    }
}

#[test]
fn a_secret_in_clear_is_named_before_it_is_committed() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: shop}\nstringData: {a: hunter2}\n";
    let repo = Sandbox::web().file("secret.yaml", secret);
    repo.write(
        "policy.yaml",
        repo.read("policy.yaml").replace("  placement:", "  - {apiVersion: v1, kind: Secret}\n  placement:"),
    );
    for line in ["init -q", "add .", "commit -qm first"] {
        repo.git(line);
    }
    for ran in [repo.run("check").code(1), repo.run("commit --branch rendered").code(0)] {
        let all = ran.out + &ran.err;
        assert!(all.contains("warning[secret-in-clear]") && all.contains("secret.yaml:3"), "{all}");
        assert!(!all.contains("hunter2"), "{all}");
    }
    repo.write(
        "secret.yaml",
        format!("{}sops: {{version: '3'}}\n", secret.replace("hunter2", "'ENC[AES256_GCM]'")),
    );
    let out = repo.run("check").code(1).out;
    assert!(out.contains("warning[sops]") && !out.contains("secret-in-clear"), "{out}");
}

#[test]
fn a_kind_that_a_crd_of_the_repo_defines_is_no_typo() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: tests.test.karmada.io}\n\
        spec: {group: test.karmada.io, scope: Namespaced, names: {kind: Test, plural: tests}, versions: [{name: v1, served: true, \
        storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n---\napiVersion: test.karmada.io/v1\nkind: Test\n\
        metadata: {name: a, namespace: shop}\n";
    let out = Sandbox::web().file("test.yaml", definition).run("check").code(1).out;
    assert!(out.contains("no policy places Test shop/a") && !out.contains("unknown-group"), "{out}");
}

#[test]
fn clusters_without_a_dump_are_named() {
    let repo = Sandbox::web().file("live/m1/web.yaml", "");
    let ran = repo.run("drift --observed live --karmada-version 1.16").code(2);
    assert!(ran.err.contains("error: m2: there is no dump of it"), "{ran:#?}");
    let both = Sandbox::web().file("live/m1/a.yaml", "").file("live/m2/a.yaml", "");
    assert!(!both.run("drift --observed live").err.contains("no dump"));
}

#[test]
fn observed_objects_in_a_folder_of_the_repo_are_no_templates() {
    let repo = Sandbox::web().file("live/m2/a.yaml", "");
    repo.write("live/m1/web.yaml", repo.read("web.yaml").replace("replicas: 4", "replicas: 9"));
    let ran = repo.run("drift --observed live");
    assert!(ran.code == 1 && !ran.err.contains("duplicate-object"), "{ran:#?}");
}

#[test]
fn what_has_one_cause_is_said_once_with_its_places() {
    let repo = Sandbox::web();
    repo.write(
        "comp/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [hpa.yaml]\n",
    );
    repo.write(
        "comp/hpa.yaml",
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\n\
         spec: {minReplicas: 0, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n",
    );
    let mut policies = String::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        repo.write(
            &format!("apps/{name}/kustomization.yaml"),
            format!(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamePrefix: {name}-\ncomponents: [../../comp]\n"
            ),
        );
        policies.push_str(&format!(
            "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  resourceSelectors: [{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, name: {name}-web}}]\n  \
             placement: {{clusterAffinity: {{clusterNames: [m1, none]}}}}\n"
        ));
    }
    repo.write("policies.yaml", &policies);
    // Where no program builds them, the kustomizations fail alike.
    let out = repo.run("check").code(2).out;
    assert_eq!(out.matches("error[not-built]").count(), 1, "{out}");
    let Some(tools) = Tools::find(true, false) else { return };
    let out = tools.run(&repo, "check").code(2).out;
    let message = "error[invalid-field]: `spec.minReplicas`: 0: must be greater than or equal to 1";
    assert_eq!(out.matches(message).count(), 1, "{out}");
    assert!(out.contains("and 5 more objects (-v lists them)"), "{out}");
    assert_eq!(out.matches("the inventory has no cluster `none`").count(), 1, "{out}");
    assert!(
        out.contains("policies.yaml:7:52\n") && out.contains("and 5 more places (-v lists them)"),
        "{out}"
    );
    let all = tools.run(&repo, "check -v").code(2).out;
    assert_eq!(all.matches(message).count(), 1, "{all}");
    assert!(all.contains("HorizontalPodAutoscaler shop/f-web\n"), "{all}");
    assert!(all.contains("policies.yaml:42:52 (PropagationPolicy shop/f)\n"), "{all}");
    // Documents for programs have one entry for each place.
    let found = tools.run(&repo, "check -o json").code(2).json();
    let count = |code: &str| {
        found["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == code).count()
    };
    assert_eq!((count("invalid-field"), count("unknown-cluster")), (6, 6), "{found}");
}
