//! Findings in a diff.

use super::{commit, committed, configs, web};
use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

#[test]
fn new_findings_are_shown() {
    let sandbox = web();
    sandbox.write("c.yaml", configs(1, "a"));
    let ran = sandbox.run("diff --from main").code(1);
    assert_eq!(ran.err, "");
    let new = "Objects without a policy\n  ConfigMap shop/c0000: new, and no policy matches it\n";
    assert!(ran.out.contains(new), "{}", ran.out);
    assert!(ran.out.contains("New findings\n  warning[unmatched] no policy places"), "{}", ran.out);
    // Findings of the earlier side are not new, even if their lines have changed.
    commit(&sandbox);
    sandbox.write("c.yaml", format!("# moved down\n{}", configs(1, "a")));
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let ran = sandbox.run("diff --from HEAD").code(1);
    assert!(!ran.out.contains("unmatched"), "{}", ran.out);
}

#[test]
fn warnings_that_count_as_errors_do_not_suppress_the_report() {
    let sandbox = web();
    sandbox.write("c.yaml", configs(1, "a"));
    let ran = sandbox.run("diff --from main --fail-on unmatched -o markdown").code(2);
    assert!(ran.out.contains("`ConfigMap shop/c0000`: new, and no policy matches it"), "{}", ran.out);
    assert!(ran.err.contains("error[unmatched]"), "{}", ran.err);
}

#[test]
fn findings_of_check_are_among_the_new_findings() {
    let sandbox = web();
    sandbox.write("unused.yaml", POLICY.replace("name: web", "name: nothing"));
    let out = sandbox.run("diff --from main").code(0).out;
    assert!(out.contains("New findings\n  warning[unused-policy]"), "{out}");
}

#[test]
fn places_in_a_comment_start_at_the_root_and_are_linked() {
    let sandbox = Sandbox::new();
    for (name, text) in [("web.yaml", WEB), ("clusters.yaml", CLUSTERS), ("policy.yaml", POLICY)] {
        sandbox.write(&format!("deploy/{name}"), text);
    }
    let sandbox = committed(sandbox);
    sandbox.write("deploy/c.yaml", configs(1, "a"));
    let line = "diff deploy --from main --from-name trunk --to-name feature -o markdown";
    let out = sandbox.run(line).code(1).out;
    assert!(out.contains("`trunk` → `feature`") && out.contains("(`deploy/c.yaml:4`)"), "{out}");
    let out = sandbox.run(&format!("{line} --link https://host.example/o/r/blob/abc")).code(1).out;
    assert!(out.contains("[`deploy/c.yaml:4`](https://host.example/o/r/blob/abc/deploy/c.yaml#L4)"), "{out}");
}
