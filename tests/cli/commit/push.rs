//! `--push` to a bare repository over `file://`, also if the branch has moved.

use super::{count, replicas, sound, web};
use crate::sandbox::Sandbox;

/// A repository with a bare remote `origin`.
pub(super) fn with_remote() -> Sandbox {
    let sandbox = web();
    sandbox.git("clone -q --bare . .remote.git");
    let address = format!("file://{}", sandbox.path(".remote.git").display());
    sandbox.git(&format!("remote add origin {address}"));
    sandbox
}

fn remote_count(sandbox: &Sandbox, branch: &str) -> String {
    sandbox.git(&format!("-C .remote.git rev-list --count {branch}")).trim().to_owned()
}

#[test]
fn twice_makes_one_commit() {
    let sandbox = with_remote();
    let first = sandbox.run("commit --branch rendered --push").code(0).out;
    assert!(first.contains("2 created in 2 clusters, pushed to origin"), "{first}");
    let second = sandbox.run("commit --branch rendered --push").code(0).out;
    assert!(
        second.starts_with("rendered: nothing to commit since") && !second.contains("pushed"),
        "{second}"
    );
    assert_eq!(remote_count(&sandbox, "rendered"), "1");
    assert_eq!(sandbox.git("rev-parse rendered"), sandbox.git("-C .remote.git rev-parse rendered"));
}

#[test]
fn another_clone_goes_on_from_what_was_pushed() {
    let sandbox = with_remote();
    sandbox.run("commit --branch rendered --push").code(0);
    sandbox.git("clone -q .remote.git .other");
    replicas(&sandbox, 6);
    sandbox.git("commit -q -a -m six");
    sandbox.git("push -q origin main");
    sandbox.run("commit --branch rendered --push").code(0);
    // The other clone lacks the branch and the second commit: both are fetched.
    sandbox.git("-C .other pull -q");
    let second = sandbox.run("commit .other --branch rendered --push -o json").code(0).json();
    assert_eq!(second["changed"], false, "{second:#}");
    let text = sandbox.read(".other/web.yaml").replace("replicas: 6", "replicas: 8");
    sandbox.write(".other/web.yaml", text);
    sandbox.run("commit .other --branch rendered --push").code(0);
    assert_eq!(remote_count(&sandbox, "rendered"), "3");
    sandbox.git("-C .remote.git fsck --full --strict");
    // The first clone is behind now.
    let address = format!("file://{}", sandbox.path(".remote.git").display());
    replicas(&sandbox, 8);
    let json = sandbox.run(&format!("commit --branch rendered --push {address} -o json")).code(0).json();
    assert_eq!(json["changed"], false, "{json:#}");
    assert_eq!(count(&sandbox, "rendered"), "3", "the local branch follows");
}

#[test]
fn a_shallow_clone_pushes_too() {
    let sandbox = with_remote();
    sandbox.run("commit --branch rendered --push").code(0);
    replicas(&sandbox, 6);
    sandbox.run("commit --branch rendered --push").code(0);
    sandbox.git(&format!("clone -q --depth 1 file://{} shallow", sandbox.path(".remote.git").display()));
    let text = sandbox.read("shallow/web.yaml").replace("replicas: 4", "replicas: 8");
    sandbox.write("shallow/web.yaml", text);
    sandbox.run("commit shallow --branch rendered --push").code(0);
    assert_eq!(remote_count(&sandbox, "rendered"), "3");
    sandbox.git("-C .remote.git fsck --full --strict");
}

#[test]
fn a_remote_that_moves_while_we_push_is_built_upon() {
    let sandbox = with_remote();
    sandbox.run("commit --branch rendered --push").code(0);
    sandbox.git("clone -q .remote.git .other");
    // A hook of the user pushes another commit just before ours arrives.
    let text = sandbox.read(".other/web.yaml").replace("replicas: 4", "replicas: 12");
    sandbox.write(".other/web.yaml", text);
    let hook = format!(
        "#!/bin/sh\ncd {0} || exit 1\n[ -e done ] && exit 0\ntouch done\n{1} commit .other --branch rendered --push --quiet\n",
        sandbox.path("").display(),
        env!("CARGO_BIN_EXE_federate"),
    );
    sandbox.write(".hooks/pre-push", hook);
    let path = sandbox.path(".hooks/pre-push");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    sandbox.write(".config", format!("[core]\n hooksPath = {}\n", sandbox.path(".hooks").display()));
    replicas(&sandbox, 6);
    let mut command = sandbox.command("commit --branch rendered --push");
    let ran = command.env("GIT_CONFIG_GLOBAL", sandbox.path(".config")).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success() && said.contains("moved in the meantime; trying again"), "{said}");
    assert_eq!(remote_count(&sandbox, "rendered"), "3", "no commit is lost");
    assert!(
        sandbox.git("-C .remote.git show rendered:m1/shop/deployment.apps_web.yaml").contains("replicas: 3")
    );
    sound(&sandbox);
}

#[test]
fn branches_a_cluster_are_pushed_together() {
    let sandbox = with_remote();
    sandbox.run("commit --branch rendered/{cluster} --push").code(0);
    let listed = sandbox.git("-C .remote.git branch --list rendered/*");
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["rendered/hub", "rendered/m1", "rendered/m2"]);
    // One of the branches cannot move, so none does.
    let at = sandbox.git("-C .remote.git rev-parse rendered/m1");
    sandbox.git("-C .remote.git config receive.denyDeletes true");
    sandbox.write(".remote.git/hooks/update", "#!/bin/sh\ntest \"$1\" != refs/heads/rendered/m2\n");
    std::fs::set_permissions(
        sandbox.path(".remote.git/hooks/update"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    replicas(&sandbox, 8);
    let said = sandbox.run("commit --branch rendered/{cluster} --push").code(2).err;
    assert!(said.contains("`git push` failed") && said.contains("hook declined"), "{said}");
    assert_eq!(sandbox.git("-C .remote.git rev-parse rendered/m1"), at);
    assert_eq!(sandbox.git("rev-parse rendered/m1"), at, "nor does the local one");
}

#[test]
fn diverged_histories_are_refused() {
    let sandbox = with_remote();
    sandbox.run("commit --branch rendered --push").code(0);
    sandbox.git("clone -q .remote.git .other");
    sandbox.git("-C .other branch rendered origin/rendered");
    replicas(&sandbox, 6);
    sandbox.run("commit --branch rendered --push").code(0);
    let text = sandbox.read(".other/web.yaml").replace("replicas: 4", "replicas: 8");
    sandbox.write(".other/web.yaml", text);
    sandbox.run("commit .other --branch rendered").code(0);
    let said = sandbox.run("commit .other --branch rendered --push").code(2).err;
    assert!(said.contains("have diverged"), "{said}");
    let said = sandbox.run("commit --branch rendered --push nowhere").code(2).err;
    assert!(said.contains("the git repository has no remote `nowhere` to push to"), "{said}");
    let said = sandbox.run("commit --branch rendered --push ./nowhere").code(2).err;
    assert!(said.contains("`git ls-remote` failed"), "{said}");
}

#[test]
fn commits_that_were_not_pushed_go_with_the_next() {
    let sandbox = with_remote();
    sandbox.run("commit --branch rendered").code(0);
    let ran = sandbox.run("commit --branch rendered --push").code(0);
    assert!(
        ran.out.contains("nothing to commit since") && ran.out.contains("pushed to origin"),
        "{}",
        ran.out
    );
    assert_eq!(remote_count(&sandbox, "rendered"), "1");
}

/// A branch that is a folder in the name of another one cannot be stored with it, here or on the remote.
#[test]
fn branches_that_exclude_each_other_are_one_message() {
    for (first, second) in
        [("rendered", "rendered/{cluster}"), ("rendered/{cluster}", "rendered"), ("a/b/c", "a")]
    {
        let sandbox = with_remote();
        sandbox.run(&format!("commit --branch {first} --push")).code(0);
        let remote = sandbox.git("-C .remote.git for-each-ref");
        let local = sandbox.run(&format!("commit --branch {second}")).code(2);
        assert!(local.err.contains("one name is a folder of the other"), "{local:#?}");
        assert!(local.err.contains("`git branch -D "), "{local:#?}");
        for branch in sandbox.git("for-each-ref --format=%(refname:short) refs/heads").lines() {
            if branch != "main" {
                sandbox.git(&format!("branch -q -D {branch}"));
            }
        }
        let here = sandbox.git("for-each-ref");
        let ran = sandbox.run(&format!("commit --branch {second} --push")).code(2);
        assert!(ran.err.matches("error: ").count() == 1 && !ran.err.contains("trying again"), "{ran:#?}");
        assert!(ran.err.contains("of origin, because one name is a folder of the other"), "{ran:#?}");
        assert!(ran.err.contains("`git push origin --delete "), "{ran:#?}");
        assert_eq!((sandbox.git("-C .remote.git for-each-ref"), sandbox.git("for-each-ref")), (remote, here));
    }
}

/// A local branch in the way is found before anything is pushed.
#[test]
fn nothing_is_pushed_that_cannot_be_stored_here() {
    let sandbox = with_remote();
    sandbox.git("branch rendered");
    let remote = sandbox.git("-C .remote.git for-each-ref");
    sandbox.run("commit --branch rendered/{cluster} --push").code(2);
    assert_eq!(sandbox.git("-C .remote.git for-each-ref"), remote);
}
