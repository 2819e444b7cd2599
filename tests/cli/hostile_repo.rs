//! Repos of about 1 MB that try to take much time and memory: each ends soon, with a result or an error.

use std::fmt::Write as _;

use crate::sandbox::{CLUSTERS, Ran, Sandbox};

/// The bounds: seconds of processor time and kilobytes of memory. `FEDERATE_TEST_BINARY` names an optimized binary,
/// which is held to 2 seconds on two cores; the one of the tests is not optimized.
fn bounds() -> (u32, u32) {
    if std::env::var_os("FEDERATE_TEST_BINARY").is_some() { (4, 500_000) } else { (30, 500_000) }
}

/// Runs the command within the bounds: the kernel ends a run that exceeds them.
fn run(repo: &Sandbox, line: &str) -> Ran {
    let (seconds, kilobytes) = bounds();
    let ran = repo.limited(&format!("ulimit -t {seconds}; ulimit -d {kilobytes}"), line);
    assert!((0..=2).contains(&ran.code), "within {seconds} s and {kilobytes} KB: {ran:#?}");
    ran
}

/// Checks a repo and returns what was printed.
fn check(repo: &Sandbox) -> String {
    let ran = run(repo, "check");
    ran.out + &ran.err
}

fn clusters(count: usize, regions: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        write!(
            text,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m{n:04}}}\n\
             spec: {{region: r{:03}}}\n",
            n % regions
        )
        .unwrap();
        text
    })
}

#[test]
fn texts_that_repeat_take_no_longer_than_their_bytes() {
    for text in [
        "---\n".repeat(260_000),
        "---\n# a\n".repeat(130_000),
        "a\n---\n".repeat(160_000),
        "-".repeat(1_000_000),
        "- \"/\"\n".repeat(160_000),
        "{}".repeat(500_000),
        format!("[{}", "1,".repeat(500_000)),
        "? ".repeat(500_000),
        "[".repeat(1_000_000),
        "- ".repeat(500_000),
        "a: &a\n".repeat(160_000),
        "%YAML 1.1\n---\n".repeat(60_000),
        "\"\\\n".repeat(300_000),
        "#a\n'\n".repeat(160_000),
    ] {
        check(&Sandbox::new().file("clusters.yaml", CLUSTERS).file("a.yaml", text));
    }
}

#[test]
fn maps_with_many_keys_are_read() {
    let mut keys =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\ndata:\n");
    for n in 0..80_000 {
        writeln!(keys, "  k{n}: a").unwrap();
    }
    check(&Sandbox::web().file("a.yaml", keys));
}

#[test]
fn findings_in_great_numbers_are_placed() {
    let mut text = String::new();
    for n in 0..10_000 {
        writeln!(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{n} x', namespace: [{n}]}}")
            .unwrap();
    }
    let repo = Sandbox::web().file("a.yaml", text);
    run(&repo, "check -o json");
}

#[test]
fn spread_over_many_regions_is_decided() {
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: p}\n\
                  spec:\n  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n  placement:\n    spreadConstraints:\n    \
                  - {spreadByField: region, minGroups: 20, maxGroups: 40}\n    \
                  - {spreadByField: cluster, minGroups: 70, maxGroups: 120}\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\n";
    let repo = Sandbox::new()
        .file("clusters.yaml", clusters(120, 40))
        .file("policy.yaml", policy)
        .file("a.yaml", template);
    check(&repo);
    let plan = run(&repo, "plan -o json").out;
    assert!(plan.matches("\"m0").count() >= 70, "{plan}");
}

#[test]
fn dependencies_of_many_are_followed() {
    let mut text = String::from(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: p}\n\
         spec: {propagateDeps: true, resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]}\n",
    );
    for n in 0..100 {
        write!(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}, namespace: a}}\n")
            .unwrap();
        write!(text, "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{n}, namespace: a}}\n")
            .unwrap();
        text.push_str("spec: {template: {spec: {containers: [{name: a, envFrom: [");
        for m in 0..100 {
            write!(text, "{{configMapRef: {{name: c{m}}}}},").unwrap();
        }
        text.push_str("]}]}}}\n");
    }
    let repo = Sandbox::new().file("clusters.yaml", clusters(200, 5)).file("a.yaml", text);
    check(&repo);
}

#[test]
fn templates_have_limits_together() {
    let mut repo = Sandbox::new().file("clusters.yaml", clusters(200, 5));
    for n in 0..20 {
        let text = "{% for i in range(99999) %}{% if cluster.name == i %}{% endif %}{% endfor %}a: 1\n";
        repo = repo.file(&format!("t{n}.yaml.j2"), text);
    }
    let message = check(&repo);
    assert!(message.contains("steps") && message.contains("for all clusters"), "{message}");
    // Each fails for the first cluster, after many steps: what fails costs as much as what does not.
    let mut failing = Sandbox::new().file("clusters.yaml", clusters(2, 1));
    for n in 0..8_000 {
        let end = if n % 2 == 0 { "{{ missing }}" } else { "{% for j in range(99999) %}{% endfor %}" };
        let loops = "{% for i in range(99999) %}{% endfor %}".repeat(6);
        failing = failing.file(&format!("t{n}.yaml.j2"), format!("{loops}{end}"));
    }
    let message = check(&failing);
    assert!(message.contains("steps") && message.contains("in total"), "{message}");
    let large =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ cluster.name * 500000 }}}\n";
    let message = check(&Sandbox::new().file("clusters.yaml", clusters(200, 5)).file("a.yaml.j2", large));
    assert!(message.contains("a.yaml.j2") && message.contains("MiB of output"), "{message}");
    let documents = "{% for i in range(60000) %}\n---\na: {{ i }}\n{% endfor %}\n";
    check(&Sandbox::new().file("clusters.yaml", clusters(2, 1)).file("a.yaml.j2", documents));
}

/// A link that came with a commit leads no output out of the checkout.
#[test]
fn no_output_follows_a_link_of_the_checkout() {
    let sandbox = Sandbox::new();
    let repo = sandbox.path("repo");
    for (path, text) in [("web.yaml", WEB), ("clusters.yaml", CLUSTERS)] {
        sandbox.write(&format!("repo/deploy/{path}"), text);
    }
    std::fs::create_dir_all(sandbox.path("elsewhere/m1")).unwrap();
    sandbox.git("-C repo init -q -b main");
    std::os::unix::fs::symlink("../elsewhere", repo.join("out")).unwrap();
    std::os::unix::fs::symlink("deploy", repo.join("inner")).unwrap();
    std::os::unix::fs::symlink(&repo, sandbox.path("way-in")).unwrap();
    sandbox.write("dump.yaml", CLUSTERS);
    for line in [
        "render repo/deploy --out repo/out",
        "render repo/deploy --out repo/out/deep/er",
        "render repo/deploy --out way-in/out",
        "render repo/deploy --out repo/deploy/../inner/out",
        "render repo/deploy --rev HEAD --out repo/out",
        "snapshot -f dump.yaml --out repo/out/snapshot",
        "snapshot -f dump.yaml --out repo/out",
    ] {
        let ran = sandbox.run(line).code(2);
        let refused = ran.err.contains("is a symbolic link in the checkout");
        assert!(refused || line.contains("snapshot"), "{line}: {ran:#?}");
        assert_eq!(sandbox.files("elsewhere"), Vec::<String>::new(), "{line}");
    }
    // Links that the owner of the machine has made outside of it are followed.
    std::os::unix::fs::symlink("elsewhere", sandbox.path("link")).unwrap();
    std::fs::remove_dir(sandbox.path("elsewhere/m1")).unwrap();
    sandbox.run("render way-in/deploy --out link").code(0);
    assert!(!sandbox.files("elsewhere").is_empty());
}
