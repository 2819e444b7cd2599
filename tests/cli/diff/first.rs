//! The first comparison: the earlier side has no clusters, so that everything is new.

use super::commit;
use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

/// A repo with manifests on `main`, to which clusters and a policy are added.
fn started() -> Sandbox {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    sandbox.git("init -q -b main");
    commit(&sandbox);
    sandbox.file("clusters.yaml", CLUSTERS).file("policy.yaml", POLICY)
}

const SUMMARY: &str = "main → work tree: everything is new: 1 object with 4 replicas; 2 manifests added in 2 clusters
main has no clusters, so there is nothing to compare with. -v lists everything. Once main has the inventory, a diff shows only what changes.

Clusters
  + m1, m2

Does it fit
  not known for m1, m2: neither the inventory nor a snapshot says what is free there
";

#[test]
fn the_first_comparison_is_a_summary() {
    let sandbox = started();
    assert_eq!(sandbox.run("diff").code(1).out, SUMMARY);
    let all = sandbox.run("diff -v").code(1).out;
    for words in ["everything is new", "+ Deployment shop/web newly placed", "+kind: Deployment", "Caused by"]
    {
        assert!(all.contains(words), "{words}: {all}");
    }
    assert!(!all.contains("-v lists"), "{all}");

    // Once the inventory is committed, only changes are shown.
    commit(&sandbox);
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let out = sandbox.run("diff").code(1).out;
    assert!(out.contains("nginx:1.27 → nginx:1.28") && !out.contains("new"), "{out}");
}

#[test]
fn the_first_comment_is_a_summary() {
    let sandbox = started();
    let comment = sandbox.run("diff -o markdown").code(1).out;
    for words in [
        "### federate: everything is new: 1 object with 4 replicas; 2 manifests added in 2 clusters\n",
        "`main` has no clusters, so there is nothing to compare with. `-v` lists everything. Once `main` has the inventory",
        "| Replicas | 0 | 4 | +4 |",
    ] {
        assert!(comment.contains(words), "{words}: {comment}");
    }
    assert!(!comment.contains("newly placed") && !comment.contains("kind: Deployment"), "{comment}");
    let all = sandbox.run("diff -o markdown -v").code(1).out;
    assert!(all.contains("kind: Deployment") && !all.contains("lists everything"), "{all}");
}

#[test]
fn what_no_policy_matches_is_part_of_the_summary() {
    let sandbox = started();
    let orphan = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orphan, namespace: shop}\n";
    sandbox.write("orphan.yaml", orphan);
    let out = sandbox.run("diff").code(1).out;
    assert!(out.contains("ConfigMap shop/orphan: new, and no policy matches it"), "{out}");
    assert!(out.contains("New findings") && !out.contains("Resolved findings"), "{out}");
}
