//! `--rev`: revisions of a work tree, a subfolder and a bare repository; signatures.

use std::process::Command;

use crate::sandbox::{Sandbox, WEB};

fn web() -> Sandbox {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    sandbox
}

#[test]
fn a_revision_is_planned_whatever_the_work_tree_holds() {
    let sandbox = web();
    let first = sandbox.run("plan -o json").code(0).out;
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    sandbox.git("commit -q -a -m second");
    sandbox.write("web.yaml", "not: [an object");
    let second = sandbox.run("plan --rev HEAD -o json").code(0).json();
    assert_eq!(second["placements"][0]["clusters"][0]["replicas"], 4, "{second:#}");
    assert_eq!(sandbox.run("plan --rev main~1 -o json").code(0).out, first);
    sandbox.run("plan").code(2);
    let beside = Sandbox::new();
    let bare = beside.path("bare.git").display().to_string();
    sandbox.git(&format!("clone -q --bare . {bare}"));
    assert_eq!(sandbox.run(&format!("plan {bare} --rev main~1 -o json")).code(0).out, first);
    let said = sandbox.run("plan --rev v1").code(2).err;
    assert!(said.contains("no revision `v1` in <repo>: its branches are main"), "{said}");
}

#[test]
fn a_subfolder_is_a_repo_of_its_own() {
    let sandbox = web();
    std::fs::create_dir(sandbox.path("fleet")).unwrap();
    sandbox.git("mv web.yaml clusters.yaml policy.yaml fleet");
    sandbox.write("other.yaml", "not: [an object");
    sandbox.git("add -A");
    sandbox.git("commit -q -m moved");
    sandbox.run("plan fleet --rev HEAD").code(0);
    std::fs::remove_dir_all(sandbox.path("fleet")).unwrap();
    sandbox.run("plan fleet --rev HEAD").code(0);
    let said = sandbox.run("plan fleet --rev HEAD~1").code(2).err;
    assert!(said.contains("revision `HEAD~1` has no folder `fleet`"), "{said}");
}

#[test]
fn memory_comes_from_a_revision_too() {
    let sandbox = web();
    sandbox.run("render --out rendered").code(0);
    sandbox.git("add -A");
    sandbox.git("commit -q -m rendered");
    let rendered = sandbox.run("plan --rev HEAD --previous HEAD:rendered/placements.yaml -o json").code(0);
    assert_eq!(rendered.json()["placements"][0]["clusters"][1]["replicas"], 2);
    let said = sandbox.run("plan --previous HEAD:absent.yaml").code(2).err;
    assert!(said.contains("the plan HEAD:absent.yaml:"), "{said}");
}

#[test]
fn only_signed_revisions_are_taken_when_asked() {
    let sandbox = web();
    for key in ["good", "other"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"])
            .arg(sandbox.path(key))
            .status();
        assert!(made.unwrap().success());
    }
    let public = sandbox.read("good.pub");
    sandbox.write("signers", format!("dev@example.com namespaces=\"git\" {public}"));
    let refused = |line: &str, why: &str| {
        let said =
            sandbox.run(&format!("plan {line} --verify-signatures --allowed-signers signers")).code(2).err;
        assert!(said.contains(why), "{said}");
    };
    refused("", "needs a revision");
    refused("--rev HEAD", "there is no signature");
    sandbox.git("config gpg.format ssh");
    sandbox.git("config user.signingkey ./good");
    sandbox.git("commit -q -S --allow-empty -m signed");
    sandbox.run("plan --rev HEAD --verify-signatures --allowed-signers signers").code(0);
    let said = sandbox.run("plan --rev HEAD --verify-signatures").code(2).err;
    assert!(said.contains("no allowed signers"), "{said}");
    sandbox.run("plan --rev HEAD --verify-signatures --allowed-signers signers").code(0);
    sandbox.git("config user.signingkey ./other");
    sandbox.git("commit -q -S --allow-empty -m stranger");
    refused("--rev HEAD", "has no valid signature");
    // A signed tag covers the commit that it names.
    sandbox.git("config user.signingkey ./good");
    sandbox.git("tag -s v1 -m one");
    sandbox.run("plan --rev v1 --verify-signatures --allowed-signers signers").code(0);
    refused("--rev v1^{commit}", "has no valid signature");
}
