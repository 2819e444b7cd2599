//! The guard of deletions: output never replaces output with nothing, or with much less, unless that is confirmed.

use crate::sandbox::Sandbox;

/// Three clusters, and a ConfigMap per file, placed everywhere.
fn fleet(objects: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    clusters(&sandbox, "{name: eu}, {name: us}, {name: ap}");
    (0..objects).for_each(|number| config(&sandbox, number));
    sandbox.git("init -q -b main");
    sandbox.write(".gitignore", "out*\n*.git\n");
    save(&sandbox);
    sandbox
}

fn clusters(sandbox: &Sandbox, clusters: &str) {
    sandbox.write("federate.yaml", format!("clusters: [{clusters}]\nunplaced: everywhere\n"));
}

fn config(sandbox: &Sandbox, number: usize) {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}, namespace: shop}}\n");
    sandbox.write(&format!("c{number}.yaml"), text);
}

fn remove(sandbox: &Sandbox, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| std::fs::remove_file(sandbox.path(&format!("c{number}.yaml"))).unwrap());
}

fn save(sandbox: &Sandbox) {
    sandbox.git("add -A");
    sandbox.git("commit -q -m change");
}

#[test]
fn a_commit_that_empties_the_branch_is_refused() {
    let sandbox = fleet(2);
    sandbox.run("commit --branch rendered").code(0);
    let before = sandbox.git("rev-parse rendered");
    sandbox.write("federate.yaml", "clusters: [{name: eu}, {name: us}, {name: ap}]\n");
    save(&sandbox);
    for line in ["", " --rev HEAD", " --fresh", " --keep-going", " --prune-limit 99", " --quiet"] {
        let ran = sandbox.run(&format!("commit --branch rendered{line}")).code(2);
        assert!(
            ran.err.contains("error: branch rendered: nothing is rendered any more, but 6 objects were"),
            "{ran:#?}"
        );
        assert!(
            ran.err.contains("cluster us would lose all of its 2 objects:\n    us/shop/configmap_c0.yaml\n"),
            "{ran:#?}"
        );
        assert!(ran.err.contains("--prune-limit 100"), "{ran:#?}");
        assert_eq!(sandbox.git("rev-parse rendered"), before, "{line}");
    }
    sandbox.run("commit --branch rendered --prune-limit 100").code(0);
    assert_eq!(sandbox.git("ls-tree -r --name-only rendered"), "placements.yaml\n");
    sandbox.run("commit --branch rendered").code(0);
}

#[test]
fn the_share_counts_in_total_and_of_each_cluster() {
    let sandbox = fleet(10);
    sandbox.run("commit --branch rendered").code(0);
    remove(&sandbox, 0..4);
    let ran = sandbox.run("commit --branch rendered").code(2);
    assert!(
        ran.err.contains("12 of the 30 objects would go, and more than 30 % at once may be a mistake"),
        "{}",
        ran.err
    );
    sandbox.run("commit --branch rendered --prune-limit 40").code(0);
    // A cluster among several.
    config(&sandbox, 0);
    sandbox.run("commit --branch rendered").code(0);
    clusters(&sandbox, "{name: eu}, {name: us}, {name: m1}, {name: m2}");
    let ran = sandbox.run("commit --branch rendered").code(2);
    assert!(
        ran.err.contains("cluster ap would lose everything") && ran.err.contains("and 2 more\n"),
        "{}",
        ran.err
    );
}

#[test]
fn a_cluster_that_left_is_recognizable_among_many_that_stay() {
    let sandbox = fleet(0);
    let many: Vec<String> = (0..9).map(|number| format!("{{name: m{number}}}")).collect();
    clusters(&sandbox, &many.join(", "));
    config(&sandbox, 0);
    sandbox.run("commit --branch rendered").code(0);
    clusters(&sandbox, &many[1..].join(", "));
    for branch in ["rendered", "fleet/{cluster}"] {
        if branch != "rendered" {
            clusters(&sandbox, &many.join(", "));
            sandbox.run(&format!("commit --branch {branch}")).code(0);
            clusters(&sandbox, &many[1..].join(", "));
        }
        let refs = sandbox.git("for-each-ref");
        let ran = sandbox.run(&format!("commit --branch {branch}")).code(2);
        let wanted = format!("branch {branch}: cluster m0 would lose its only object, and more than 30 %");
        assert!(ran.err.contains(&wanted), "{}", ran.err);
        assert_eq!(sandbox.git("for-each-ref"), refs);
    }
    let ran = sandbox.run("commit --branch fleet/{cluster} --cluster m1").code(2);
    assert!(
        ran.err.contains("m0 would receive nothing any more, but --cluster leaves its branch as it is"),
        "{}",
        ran.err
    );
}

#[test]
fn what_is_refused_is_in_the_json_too() {
    let sandbox = fleet(1);
    sandbox.run("commit --branch rendered").code(0);
    remove(&sandbox, 0..1);
    let ran = sandbox.run("commit --branch rendered -o json").code(2);
    assert_eq!(ran.json()["changed"], false);
    assert_eq!(ran.json()["refused"]["deleted"], 3);
    assert_eq!(ran.json()["refused"]["clusters"][0]["deleted"][0], "ap/shop/configmap_c0.yaml");
}

#[test]
fn first_output_and_small_changes_pass() {
    let sandbox = fleet(4);
    sandbox.git("branch other");
    sandbox.run("commit --branch rendered").code(0);
    sandbox.run("commit --branch other --branch-path out").code(0);
    remove(&sandbox, 0..1);
    sandbox.run("commit --branch rendered").code(0);
    // Another version of an API, and other contents, delete nothing.
    let scaler = |version: &str| {
        let head = format!("apiVersion: autoscaling/{version}\nkind: HorizontalPodAutoscaler\n");
        let spec =
            "spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n";
        sandbox.write("hpa.yaml", format!("{head}metadata: {{name: web, namespace: shop}}\n{spec}"));
    };
    scaler("v1");
    remove(&sandbox, 1..4);
    sandbox.run("commit --branch hpa").code(0);
    scaler("v2");
    sandbox.run("commit --branch hpa").code(0);
}

#[test]
fn a_folder_is_not_emptied_and_neither_is_a_cluster_in_it() {
    let sandbox = fleet(6);
    sandbox.run("render --out out").code(0);
    let before = sandbox.files("out");
    clusters(&sandbox, "{name: eu}, {name: us}");
    let ran = sandbox.run("render --out out").code(2);
    assert!(
        ran.err.contains("error: out: 6 of the 18 objects would go") && ran.err.contains("cluster ap"),
        "{}",
        ran.err
    );
    assert_eq!(sandbox.files("out"), before);
    sandbox.write("federate.yaml", "clusters: [{name: eu}, {name: us}, {name: ap}]\n");
    let ran = sandbox.run("render --out out").code(2);
    assert!(ran.err.contains("nothing is rendered any more, but 18 objects were"), "{}", ran.err);
    assert_eq!(sandbox.files("out"), before);
    // Less is a warning.
    clusters(&sandbox, "{name: eu}, {name: us}, {name: ap}");
    remove(&sandbox, 0..2);
    let ran = sandbox.run("render --out out").code(0);
    assert!(ran.err.contains("warning: out: 6 of the 18 objects would go"), "{}", ran.err);
    assert!(ran.out.contains("6 removed"), "{}", ran.out);
    clusters(&sandbox, "{name: eu}");
    sandbox.run("render --out out --prune-limit 100 --quiet").code(0);
    assert_eq!(sandbox.files("out").len(), 5);
}

#[test]
fn a_share_of_a_few_objects_is_too_much_as_well() {
    let sandbox = fleet(5);
    sandbox.run("commit --branch rendered").code(0);
    remove(&sandbox, 0..2);
    let ran = sandbox.run("commit --branch rendered").code(2);
    assert!(ran.err.contains("6 of the 15 objects would go, and more than 30 %"), "{}", ran.err);
    config(&sandbox, 1);
    sandbox.run("commit --branch rendered").code(0);
    // A limit of 0 allows nothing.
    config(&sandbox, 4);
    config(&sandbox, 5);
    sandbox.run("commit --branch rendered").code(0);
    remove(&sandbox, 5..6);
    sandbox.run("commit --branch rendered --prune-limit 0").code(2);
}
