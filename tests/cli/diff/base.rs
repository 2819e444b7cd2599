//! The revision that a branch is compared with.

use super::{commit, configs, everywhere, web};
use crate::sandbox::{Sandbox, WEB};

/// A branch with a commit of its own, while `main` has moved on.
fn diverged() -> Sandbox {
    let sandbox = web();
    sandbox.git("checkout -q -b feature");
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    commit(&sandbox);
    sandbox.git("checkout -q main");
    sandbox.write("c.yaml", configs(1, "a"));
    sandbox.write("p.yaml", everywhere("ConfigMap"));
    commit(&sandbox);
    sandbox.git("checkout -q feature");
    sandbox
}

#[test]
fn what_the_base_gained_since_is_not_shown_as_reverted() {
    let sandbox = diverged();
    let base = sandbox.git("merge-base main feature");
    for line in ["diff", "diff --from main", "diff --from main --to feature", "diff --from main...feature"] {
        let out = sandbox.run(line).code(1).out;
        assert!(out.starts_with(&format!("main (merge base {}) → ", &base[..10])), "{line}: {out}");
        assert!(out.contains("nginx:1.27 → nginx:1.28") && !out.contains("ConfigMap"), "{line}: {out}");
    }
    for line in ["diff --from main..", "diff --from main..feature", "diff --from main.. --to feature"] {
        let out = sandbox.run(line).code(1).out;
        assert!(out.starts_with("main → "), "{line}: {out}");
        assert!(out.contains("Deleted from clusters\n  - m1, m2: ConfigMap shop/c0000"), "{line}: {out}");
    }
    let said = sandbox.run("diff --from main..feature --to main").code(2).err;
    assert!(said.contains("--from names both revisions, main and feature"), "{said}");
}

#[test]
fn the_default_base_is_the_default_branch_of_origin() {
    let sandbox = diverged();
    sandbox.git("update-ref refs/remotes/origin/trunk main");
    sandbox.git("symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/trunk");
    let out = sandbox.run("diff").code(1).out;
    assert!(out.starts_with("origin/trunk (merge base "), "{out}");
}

#[test]
fn unrelated_histories_are_compared_only_directly() {
    let sandbox = web();
    sandbox.git("checkout -q --orphan other");
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    commit(&sandbox);
    let said = sandbox.run("diff --from main").code(2).err;
    assert!(said.contains("their histories have no commit in common"), "{said}");
    assert!(said.contains("write --from main.."), "{said}");
    sandbox.run("diff --from main..").code(1);
}

#[test]
fn a_folder_that_is_not_there_yet_is_empty() {
    let sandbox = web();
    sandbox.write("new/clusters.yaml", sandbox.read("clusters.yaml"));
    sandbox.write("new/c.yaml", configs(1, "a"));
    sandbox.write("new/p.yaml", everywhere("ConfigMap"));
    let out = sandbox.run("diff new --from main -q -v").code(1).out;
    assert!(out.contains("ConfigMap shop/c0000"), "{out}");
    commit(&sandbox);
    let out = sandbox.run("diff new --from main~1 --to main -q -v").code(1).out;
    assert!(out.contains("ConfigMap shop/c0000"), "{out}");
    let both = sandbox.run("diff new --from main~1 --to main~1").code(2);
    assert!(both.err.contains("revision `main~1` has no folder `new`"), "{}", both.err);
}
