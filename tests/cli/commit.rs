//! `federate commit`: the content of the branch afterwards, in real repositories.

use crate::sandbox::{CLUSTERS, Sandbox, WEB};

mod faults;
mod http;
mod hydrator;
mod push;

/// A repository with one commit.
fn web() -> Sandbox {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    sandbox
}

fn replicas(sandbox: &Sandbox, count: usize) {
    sandbox.write("web.yaml", WEB.replace("replicas: 4", &format!("replicas: {count}")));
}

fn count(sandbox: &Sandbox, branch: &str) -> String {
    sandbox.git(&format!("rev-list --count {branch}")).trim().to_owned()
}

#[track_caller]
fn sound(sandbox: &Sandbox) {
    sandbox.git("fsck --full --strict --no-dangling");
}

#[test]
fn the_branch_holds_what_render_writes() {
    let sandbox = web();
    let ran = sandbox.run("commit --branch rendered").code(0);
    assert!(ran.out.ends_with("2 created in 2 clusters\n"), "{}", ran.out);
    sandbox.run("render --out out").code(0);
    let listed = sandbox.git("ls-tree -r --name-only rendered");
    assert_eq!(listed.lines().collect::<Vec<_>>(), sandbox.files("out"));
    for file in listed.lines() {
        assert_eq!(sandbox.git(&format!("show rendered:{file}")), sandbox.read(&format!("out/{file}")));
    }
    assert_eq!(sandbox.git("status --short"), "?? out/\n", "neither work tree nor index is touched");
    sound(&sandbox);
}

#[test]
fn nothing_to_commit_is_no_commit() {
    let sandbox = web();
    sandbox.run("commit --branch rendered").code(0);
    let again = sandbox.run("commit --branch rendered").code(0);
    assert!(again.out.starts_with("rendered: nothing to commit since "), "{}", again.out);
    sandbox.write("README.md", "no manifest");
    sandbox.git("add -A");
    sandbox.git("commit -q -m docs");
    assert_eq!(sandbox.run("commit --branch rendered -o json").code(0).json()["changed"], false);
    assert_eq!(count(&sandbox, "rendered"), "1");
    replicas(&sandbox, 6);
    let third = sandbox.run("commit --branch rendered -o json").code(0).json();
    assert_eq!(third["changed"], true);
    assert_eq!(third["branches"][0]["updated"], 2, "{third:#}");
    assert_eq!(count(&sandbox, "rendered"), "2");
    sound(&sandbox);
}

#[test]
fn the_message_says_where_it_comes_from() {
    let sandbox = web();
    let head = sandbox.git("rev-parse HEAD");
    sandbox.run("commit --branch rendered --rev HEAD").code(0);
    let message = sandbox.git("log -1 --format=%B rendered");
    assert!(
        message.starts_with(&format!("Render {}: first\n\n2 created in 2 clusters\n", &head[..8])),
        "{message}"
    );
    let trailer =
        |key: &str| sandbox.git(&format!("log -1 --format=%(trailers:key={key},valueonly) rendered"));
    assert_eq!(trailer("Federate-Source").trim(), head.trim());
    assert_eq!(trailer("Federate-Version").trim(), env!("CARGO_PKG_VERSION"));
    let plan = trailer("Federate-Plan");
    assert!(plan.starts_with("sha256:") && plan.trim().len() == 71, "{plan}");
    replicas(&sandbox, 6);
    let mut command = sandbox.command("commit --branch rendered -m");
    command.arg("Ship it\n\nReviewed-by: A <a@example.com>").args(["--author", "Robot <robot@example.com>"]);
    assert!(command.status().unwrap().success());
    assert_eq!(
        sandbox.git("log -1 --format=%an+%ae+%cn+%s rendered").trim(),
        "Robot+robot@example.com+Test+Ship it"
    );
    assert_eq!(trailer("Federate-Source").trim(), format!("{}-dirty", head.trim()));
    assert!(trailer("Reviewed-by").contains("a@example.com"));
    let wrong = sandbox.run("commit --branch rendered --author nobody").code(2);
    assert!(wrong.err.contains("write it as `Name <address>`"), "{}", wrong.err);
}

#[test]
fn a_folder_of_a_branch_leaves_the_rest_alone() {
    let sandbox = web();
    sandbox.git("branch deploy");
    sandbox.run("commit --branch deploy --branch-path envs/prod").code(0);
    let files = sandbox.git("ls-tree -r --name-only deploy");
    assert!(
        files.contains("web.yaml\n") && files.contains("envs/prod/m1/shop/deployment.apps_web.yaml\n"),
        "{files}"
    );
    sandbox.git("clone -q . .other");
    sandbox.git("-C .other checkout -q deploy");
    sandbox.write(".other/envs/readme", "kept");
    sandbox.git("-C .other add -A");
    sandbox.git("-C .other commit -q -m readme");
    sandbox.git("fetch -q .other deploy:deploy");
    replicas(&sandbox, 6);
    sandbox.run("commit --branch deploy --branch-path ./envs//prod/").code(0);
    assert_eq!(sandbox.git("show deploy:envs/readme"), "kept");
    assert!(sandbox.git("show deploy:envs/prod/m1/shop/deployment.apps_web.yaml").contains("replicas: 3"));
    sound(&sandbox);
    for path in ["../x", ".git", "a/.GIT/b", "/etc", "a/git~1", "web.yaml"] {
        sandbox.run(&format!("commit --branch deploy --branch-path {path}")).code(2);
    }
}

#[test]
fn a_branch_a_cluster() {
    let sandbox = web();
    sandbox.run("commit --branch rendered/{cluster}").code(0);
    let files = |branch: &str| sandbox.git(&format!("ls-tree -r --name-only rendered/{branch}"));
    assert_eq!(files("m1"), "m1/shop/deployment.apps_web.yaml\nplacements.yaml\n");
    assert_eq!(files("hub"), "placements.yaml\n");
    assert!(!sandbox.git("show rendered/m1:placements.yaml").contains("m2"), "each its own part");
    replicas(&sandbox, 5);
    let json = sandbox.run("commit --branch rendered/{cluster} -o json").code(0).json();
    let changed = |index: usize| json["branches"][index]["commit"].is_string();
    assert!(changed(0) && changed(1), "plan and first cluster: {json:#}");
    assert!(!changed(2), "the second one keeps its replicas: {json:#}");
    // The branch of a cluster that no longer receives anything becomes empty.
    sandbox.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    let refused = sandbox.run("commit --branch rendered/{cluster} --fresh").code(2);
    assert!(refused.err.contains("cluster m2 would lose everything"), "{}", refused.err);
    let said =
        sandbox.run("commit --branch rendered/{cluster} --fresh --prune-limit 100 --cluster m1").code(2).err;
    assert!(
        said.contains(
            "m2 would receive nothing any more, but --cluster leaves its branch as it is: commit without --cluster"
        ),
        "{said}"
    );
    sandbox.run("commit --branch rendered/{cluster} --fresh --prune-limit 100").code(0);
    assert_eq!(files("m2"), "placements.yaml\n");
    sound(&sandbox);
}

#[test]
fn what_is_not_ours_is_not_replaced() {
    let sandbox = web();
    sandbox.git("branch docs");
    let said = sandbox.run("commit --branch docs").code(2).err;
    assert!(
        said.contains("branch docs contains clusters.yaml, policy.yaml, web.yaml, and no placements.yaml"),
        "{said}"
    );
    sandbox.run("commit --branch rendered").code(0);
    sandbox.git("clone -q . .other");
    sandbox.git("-C .other checkout -q rendered");
    sandbox.write(".other/m1/shop/mine.yaml", "a: 1");
    sandbox.git("-C .other add -A");
    sandbox.git("-C .other commit -q -m mine");
    sandbox.git("fetch -q .other rendered:rendered");
    replicas(&sandbox, 6);
    let said = sandbox.run("commit --branch rendered").code(2).err;
    assert!(said.contains("branch rendered contains m1/shop/mine.yaml, which its placements.yaml"), "{said}");
    let said = sandbox.run("commit --branch main").code(2).err;
    assert!(said.contains("branch `main` is checked out"), "{said}");
    let said = sandbox.run("commit --branch rendered/{cluster}").code(2).err;
    assert!(
        said.contains("together with branch `rendered`, because one name is a folder of the other"),
        "{said}"
    );
    let said = sandbox.run("commit --branch other --push nowhere").code(2).err;
    assert!(
        said.contains("has no remote `nowhere` to push to: `git remote add nowhere URL` adds it"),
        "{said}"
    );
    sandbox.git("worktree add -q linked docs");
    let said = sandbox.run("commit --branch docs").code(2).err;
    assert!(said.contains("branch `docs` is checked out"), "{said}");
    for name in ["a..b", "-x", "a.lock", "a b", "{cluster}~", "HEAD", "@"] {
        let mut command = sandbox.command("commit");
        let output = command.arg(format!("--branch={name}")).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("is not a valid branch name"), "{output:?}");
    }
}

#[test]
fn many_objects_come_as_one_pack() {
    let sandbox = web();
    let config = |number: usize, text: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}, namespace: a}}\ndata: {{k: {text}}}\n---\n"
        )
    };
    let mut configs: String = (0..150).map(|number| config(number, "v")).collect();
    configs.push_str(&config(150, &"0123456789abcdef ".repeat(20_000)));
    sandbox.write("configs.yaml", configs);
    sandbox.write(
        "all.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: all}\nspec:\n  \
         resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n",
    );
    let ran = sandbox.run("commit --branch rendered").code(0);
    assert!(ran.out.contains("304 created in 2 clusters"), "{}", ran.out);
    let packs = sandbox.files(".git/objects/pack");
    assert_eq!(
        packs.iter().filter(|name| name.split('.').next_back() == Some("pack")).count(),
        1,
        "{packs:?}"
    );
    sound(&sandbox);
    sandbox.run("render --out .out").code(0);
    let file = "m1/a/configmap_c150.yaml";
    assert_eq!(sandbox.git(&format!("show rendered:{file}")), sandbox.read(&format!(".out/{file}")));
}

#[test]
fn an_error_commits_nothing() {
    let sandbox = web();
    sandbox.write("bad.yaml", "a: [");
    sandbox.run("commit --branch rendered").code(2);
    assert_eq!(sandbox.git("branch --list rendered"), "");
    sandbox.run("commit --branch rendered --keep-going").code(2);
    assert_eq!(count(&sandbox, "rendered"), "1");
}

#[test]
fn a_bare_repository_is_rendered_into_itself() {
    let sandbox = web();
    let beside = Sandbox::new();
    let bare = beside.path("bare.git").display().to_string();
    sandbox.git(&format!("clone -q --bare . {bare}"));
    sandbox.run(&format!("commit {bare} --rev main --branch rendered")).code(0);
    assert_eq!(sandbox.git(&format!("-C {bare} rev-list --count rendered")).trim(), "1");
    sandbox.git(&format!("-C {bare} fsck --full --strict"));
}

#[test]
fn commits_are_signed_as_git_is_configured() {
    let sandbox = web();
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(sandbox.path("key"))
        .status();
    assert!(made.unwrap().success());
    sandbox.write("signers", format!("test@example.com {}", sandbox.read("key.pub")));
    for setting in [
        "commit.gpgSign true",
        "gpg.format ssh",
        "user.signingkey ./key",
        "gpg.ssh.allowedSignersFile signers",
    ] {
        sandbox.git(&format!("config {setting}"));
    }
    sandbox.run("commit --branch rendered").code(0);
    sandbox.git("verify-commit rendered");
    sandbox.git("config user.signingkey ./absent");
    replicas(&sandbox, 6);
    let said = sandbox.run("commit --branch rendered").code(2).err;
    assert!(said.contains("`git commit-tree` failed"), "{said}");
    assert_eq!(count(&sandbox, "rendered"), "1");
}

#[test]
fn changes_that_are_not_committed_are_reported() {
    let sandbox = web();
    let said = "the work tree has changes that are not committed; they are rendered, too (--rev HEAD leaves them out)\n";
    assert_eq!(sandbox.run("commit --branch rendered").code(0).err, "");
    replicas(&sandbox, 8);
    assert_eq!(sandbox.run("commit --branch rendered").code(0).err, said);
    assert_eq!(sandbox.run("commit --branch rendered -q").code(0).err, "");
    assert_eq!(sandbox.run("commit --branch rendered --rev HEAD").code(0).err, "");
}
