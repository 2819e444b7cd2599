//! Disks that are full, out of inodes or read-only: one clear error, and what was there stays whole.
//!
//! Each test mounts a small file system in a mount namespace of its own, and is skipped where the kernel does not allow
//! that.

use std::process::Command;

use super::sandbox::{CLUSTERS, POLICY, Ran, Sandbox, WEB};

/// Fills the disk to the last byte.
const FILL: &str = "head -c 100000000 /dev/zero >fill 2>/dev/null";
/// Prints everything below a folder, names and contents.
const SHOW: &str = "show() { find \"$@\" -type f | sort | xargs sha256sum; }";

/// Runs a script in the mounted folder, in which a repo is; `$FEDERATE` is the command. `None` where the kernel
/// does not allow mounts.
fn on_disk(options: &str, script: &str) -> Option<Ran> {
    let allowed = Command::new("unshare").args(["-rm", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return None;
    }
    let sandbox = Sandbox::new();
    sandbox.write("disk/keep", "");
    let script = format!("set -eu\nmount -t tmpfs -o {options} none disk\ncd disk\n{SHOW}\n{script}");
    Some(sandbox.isolated(&script))
}

/// A script that writes the repo of the other tests.
fn repo() -> String {
    let file = |path: &str, text: &str| format!("cat >{path} <<'END'\n{text}END\n");
    ["web.yaml", "clusters.yaml", "policy.yaml"]
        .into_iter()
        .zip([WEB, CLUSTERS, POLICY])
        .map(|(path, text)| file(path, text))
        .collect()
}

/// What the script printed between two marks.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    text.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map_or("", |(part, _)| part).trim()
}

#[track_caller]
fn failed_and_recovered(ran: &Ran, why: &str) {
    assert_eq!(ran.code, 0, "{ran:#?}");
    let (before, after) = (between(&ran.out, "BEFORE", "FAILS"), between(&ran.out, "AFTER", "AGAIN"));
    assert!(!before.is_empty(), "{ran:#?}");
    assert_eq!(before, after, "what was there stays whole, and nothing is left behind: {ran:#?}");
    assert!(ran.out.contains("code 2"), "{ran:#?}");
    assert_eq!(ran.err.matches("error: ").count(), 1, "one error: {ran:#?}");
    assert!(ran.err.contains(why), "{ran:#?}");
    assert!(ran.out.contains("works"), "{ran:#?}");
}

const RENDER: &str = "$FEDERATE render --out out --quiet
sed -i 's/nginx:1.27/nginx:1.28/' web.yaml
echo BEFORE; show . ! -name fill; echo FAILS";
const RENDERED: &str = "grep -q 1.28 out/m1/shop/*web*.yaml && echo works";

#[test]
fn render_on_a_full_disk() {
    let repo = repo();
    let script = format!(
        "{repo}{RENDER}\n{FILL} || :\n$FEDERATE render --out out --quiet || echo code $?\n\
         echo AFTER; show . ! -name fill; echo AGAIN; rm fill\n$FEDERATE render --out out --quiet\n{RENDERED}"
    );
    let Some(ran) = on_disk("size=400k", &script) else { return };
    failed_and_recovered(&ran, "No space left on device");
}

#[test]
fn render_on_a_disk_without_inodes() {
    let repo = repo();
    let script = format!(
        "{repo}{RENDER}\ni=0; while touch f$i 2>/dev/null; do i=$((i+1)); done\n\
         $FEDERATE render --out out --quiet || echo code $?\nrm -f f*[0-9]\n\
         echo AFTER; show . ! -name fill; echo AGAIN\n$FEDERATE render --out out --quiet\n{RENDERED}"
    );
    let Some(ran) = on_disk("nr_inodes=60", &script) else { return };
    failed_and_recovered(&ran, "No space left on device");
}

#[test]
fn render_on_a_read_only_disk() {
    let repo = repo();
    let script = format!(
        "{repo}{RENDER}\nmount -o remount,ro .\n$FEDERATE render --out out --quiet || echo code $?\n\
         echo AFTER; show . ! -name fill; echo AGAIN; mount -o remount,rw .\n$FEDERATE render --out out --quiet\n{RENDERED}"
    );
    let Some(ran) = on_disk("size=400k", &script) else { return };
    failed_and_recovered(&ran, "Read-only file system");
}

#[test]
fn commit_on_a_full_disk() {
    let repo = repo();
    let script = format!(
        "{repo}git init -q -b main .; git add -A; git commit -qm first\n\
         $FEDERATE commit --branch rendered --quiet\nsed -i 's/nginx:1.27/nginx:1.28/' web.yaml\n\
         echo BEFORE; show .git; git rev-parse rendered; echo FAILS\n{FILL} || :\n\
         $FEDERATE commit --branch rendered --quiet || echo code $?\n\
         echo AFTER; show .git; git rev-parse rendered; echo AGAIN; rm fill\n\
         $FEDERATE commit --branch rendered --quiet\ngit fsck --full --strict\n\
         git show rendered:m1/shop/deployment.apps_web.yaml | grep -q 1.28 && echo works || git ls-tree -r rendered"
    );
    let Some(ran) = on_disk("size=1200k", &script) else { return };
    failed_and_recovered(&ran, "No space left on device");
}

#[test]
fn import_on_a_full_disk() {
    let live =
        WEB.replace("  namespace: shop\n", "  namespace: shop\n  uid: 7a0d\n  resourceVersion: \"12\"\n");
    let script = format!(
        "cat >live.yaml <<'END'\n{live}END\necho BEFORE; show . ! -name fill; echo FAILS\n{FILL} || :\n\
         $FEDERATE import -f live.yaml --in-place --policy p --quiet || echo code $?\n\
         echo AFTER; show . ! -name fill; echo AGAIN; rm fill\n\
         $FEDERATE import -f live.yaml --in-place --policy p --quiet\ngrep -q uid live.yaml || echo works"
    );
    let Some(ran) = on_disk("size=100k", &script) else { return };
    failed_and_recovered(&ran, "No space left on device");
}
