//! `--layout hydrator`, as Argo CD's source hydrator and GitOps Promoter read it: with `git` alone.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use super::push::with_remote;
use super::{count, replicas, sound, web};
use crate::sandbox::{Sandbox, kills};

const NOTES: &str = "refs/notes/hydrator.metadata";

fn metadata(sandbox: &Sandbox, file: &str) -> Value {
    let text = sandbox.git(&format!("show {file}"));
    assert!(text.starts_with("{\n  \"") && text.ends_with("\n}\n"), "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The commit that a note says a branch holds.
fn noted(sandbox: &Sandbox, repository: &str, branch: &str) -> String {
    let note = sandbox.git(&format!("-C {repository} notes --ref {NOTES} show {branch}"));
    let note: Value = serde_json::from_str(&note).unwrap();
    note["drySha"].as_str().unwrap().to_owned()
}

fn head(sandbox: &Sandbox) -> String {
    sandbox.git("rev-parse HEAD").trim().to_owned()
}

/// Commits the work tree.
fn commit(sandbox: &Sandbox, message: &str) -> String {
    sandbox.write(".message", message);
    sandbox.git("add -A");
    sandbox.git("commit -q -F .message --allow-empty --cleanup=verbatim");
    head(sandbox)
}

/// Keeps what tests write besides out of the repository.
fn hydrated() -> Sandbox {
    let sandbox = with_remote();
    sandbox.write(".git/info/exclude", ".*\n");
    sandbox
}

const HYDRATE: &str = "commit --branch env/prod-next --layout hydrator --push";

#[test]
fn the_branch_holds_the_files_of_a_hydrator() {
    let sandbox = hydrated();
    let ran = sandbox.run(HYDRATE).code(0);
    assert!(ran.out.ends_with("2 created in 2 clusters, noted, pushed to origin\n"), "{}", ran.out);
    let files = sandbox.git("-C .remote.git ls-tree -r --name-only env/prod-next");
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        [
            ".gitattributes",
            "hydrator.metadata",
            "m1/README.md",
            "m1/hydrator.metadata",
            "m1/manifest.yaml",
            "m2/README.md",
            "m2/hydrator.metadata",
            "m2/manifest.yaml",
            "placements.yaml",
        ]
    );
    let dry = head(&sandbox);
    let origin = sandbox.git("remote get-url origin").trim().to_owned();
    let root = metadata(&sandbox, "env/prod-next:hydrator.metadata");
    let date = sandbox.git("show -s --format=%at").trim().parse().unwrap();
    let date = jiff::Timestamp::from_second(date).unwrap().to_string();
    assert_eq!(
        root,
        json!({"repoURL": origin, "drySha": dry, "author": "Test <test@example.com>", "date": date, "subject": "first"})
    );
    let of_cluster = metadata(&sandbox, "env/prod-next:m1/hydrator.metadata");
    assert_eq!((&of_cluster["repoURL"], &of_cluster["drySha"]), (&json!(origin), &json!(dry)));
    assert_eq!(of_cluster["commands"], json!(["federate render . --cluster m1 --out rendered"]));
    assert!(of_cluster.get("author").is_none());
    let readme = sandbox.git("show env/prod-next:m1/README.md");
    assert!(readme.contains(&format!("git checkout {dry}\nfederate render .")), "{readme}");
    let attributes = sandbox.git("show env/prod-next:.gitattributes");
    assert!(attributes.contains("**/hydrator.metadata linguist-generated=true"), "{attributes}");
    // The manifests are those of the plain layout.
    sandbox.run("render --out .out").code(0);
    let manifest = sandbox.git("show env/prod-next:m1/manifest.yaml");
    let plain = sandbox.read(".out/m1/shop/deployment.apps_web.yaml");
    assert_eq!(manifest, format!("# shop/deployment.apps_web.yaml\n{plain}"));
    assert_eq!(sandbox.git("show env/prod-next:placements.yaml"), sandbox.read(".out/placements.yaml"));
    for repository in [".", ".remote.git"] {
        assert_eq!(noted(&sandbox, repository, "env/prod-next"), dry);
        sandbox.git(&format!("-C {repository} fsck --full --strict --no-dangling"));
    }
    let trailer = sandbox.git("log -1 --format=%(trailers:key=Federate-Source,valueonly) env/prod-next");
    assert_eq!(trailer.trim(), dry);
}

#[test]
fn an_unchanged_rendering_is_a_note_and_no_commit() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    let first = sandbox.git("-C .remote.git rev-parse env/prod-next");
    let again = sandbox.run(HYDRATE).code(0);
    assert!(
        !again.out.contains("noted") && !again.out.contains("pushed"),
        "the note is there: {}",
        again.out
    );
    let notes = sandbox.git(&format!("-C .remote.git rev-parse {NOTES}"));
    sandbox.write("README.md", "no manifest");
    let dry = commit(&sandbox, "docs");
    let third = sandbox.run(&format!("{HYDRATE} -o json")).code(0).json();
    assert_eq!(
        (&third["changed"], &third["branches"][0]["noted"]),
        (&json!(false), &json!(true)),
        "{third:#}"
    );
    assert_eq!(sandbox.git("-C .remote.git rev-parse env/prod-next"), first);
    assert_eq!(noted(&sandbox, ".remote.git", "env/prod-next"), dry);
    assert_ne!(sandbox.git(&format!("-C .remote.git rev-parse {NOTES}")), notes);
    // The files still name the commit that changed them.
    assert_ne!(metadata(&sandbox, "env/prod-next:hydrator.metadata")["drySha"], json!(dry));
    // Without a remote, the note is in the repository.
    let dry = commit(&sandbox, "empty");
    sandbox.run("commit --branch env/prod-next --layout hydrator").code(0);
    assert_eq!(noted(&sandbox, ".", "env/prod-next"), dry);
}

#[test]
fn metadata_changes_only_where_manifests_do() {
    let sandbox = hydrated();
    let first = head(&sandbox);
    sandbox.run(HYDRATE).code(0);
    replicas(&sandbox, 5);
    let second = commit(&sandbox, "five");
    let json = sandbox.run(&format!("{HYDRATE} -o json")).code(0).json();
    assert_eq!(
        (&json["branches"][0]["updated"], &json["branches"][0]["unchanged"]),
        (&json!(1), &json!(1)),
        "{json:#}"
    );
    let of = |file: &str| metadata(&sandbox, &format!("env/prod-next:{file}"))["drySha"].clone();
    assert_eq!(of("hydrator.metadata"), json!(second));
    let clusters = [of("m1/hydrator.metadata"), of("m2/hydrator.metadata")];
    assert!(clusters.contains(&json!(first)) && clusters.contains(&json!(second)), "{clusters:?}");
    assert_eq!(count(&sandbox, "env/prod-next"), "2");
}

#[test]
fn the_rendered_commit_must_be_known() {
    let sandbox = hydrated();
    replicas(&sandbox, 6);
    let said = sandbox.run(HYDRATE).code(2).err;
    assert!(said.contains("names the commit that is rendered, and the work tree has changes"), "{said}");
    assert_eq!(sandbox.git("branch --list env/*"), "");
    sandbox.run(&format!("{HYDRATE} --rev HEAD")).code(0);
    let nowhere = Sandbox::web();
    let said = nowhere.run("commit --branch env/prod --layout hydrator").code(2).err;
    assert!(said.contains("git"), "{said}");
    nowhere.git("init -q -b main");
    let said = nowhere.run("commit --branch env/prod --layout hydrator").code(2).err;
    assert!(said.contains("has none yet: `git add -A` and `git commit` create one"), "{said}");
}

/// A repository whose branch `env/prod` was made by hand, as the target of proposals.
fn with_target() -> Sandbox {
    let sandbox = hydrated();
    sandbox.git("clone -q .remote.git .other");
    sandbox.git("-C .other checkout -q --orphan env/prod");
    sandbox.git("-C .other rm -rfq .");
    sandbox.write(".other/CODEOWNERS", "* @platform\n");
    sandbox.write(".other/docs/runbook.md", "call us\n");
    sandbox.write(".other/.gitattributes", "*.md text\n");
    sandbox.git("-C .other add -A");
    sandbox.git("-C .other commit -q -m target");
    sandbox.git("-C .other push -q origin env/prod");
    sandbox
}

#[test]
fn a_proposed_branch_starts_from_its_target_and_keeps_the_files_of_others() {
    let sandbox = with_target();
    sandbox.run(HYDRATE).code(0);
    let at = |rev: &str| sandbox.git(&format!("-C .remote.git rev-parse {rev}"));
    assert_eq!(at("env/prod-next^"), at("env/prod"), "one commit on top of the target");
    let show = |file: &str| sandbox.git(&format!("-C .remote.git show env/prod-next:{file}"));
    assert_eq!(show("CODEOWNERS"), "* @platform\n");
    assert_eq!(show("docs/runbook.md"), "call us\n");
    assert_eq!(show(".gitattributes"), "*.md text\n");
    // A branch below the proposed one, as for an active path, starts there, too.
    let sandbox = with_target();
    sandbox.run("commit --branch env/prod-next/{cluster} --layout hydrator --push").code(0);
    for branch in ["env/prod-next/m1", "env/prod-next/m2", "env/prod-next/hub"] {
        let at = |rev: &str| sandbox.git(&format!("-C .remote.git rev-parse {rev}"));
        assert_eq!(at(&format!("{branch}^")), at("env/prod"));
        assert_eq!(noted(&sandbox, ".remote.git", branch), head(&sandbox));
    }
    let files = sandbox.git("-C .remote.git ls-tree -r --name-only env/prod-next/m1");
    assert!(files.contains("m1/hydrator.metadata\n") && !files.contains("m2/"), "{files}");
    let path = sandbox.git("-C .remote.git show env/prod-next/m1:m1/hydrator.metadata");
    assert!(path.contains(&head(&sandbox)), "{path}");
}

#[test]
fn a_branch_per_cluster_is_proposed_for_each() {
    let sandbox = hydrated();
    sandbox.run("commit --branch env/{cluster} --layout hydrator --push").code(0);
    replicas(&sandbox, 6);
    commit(&sandbox, "six");
    sandbox.run("commit --branch env/{cluster}-next --layout hydrator --push").code(0);
    for cluster in ["m1", "m2"] {
        let at = |rev: &str| sandbox.git(&format!("-C .remote.git rev-parse {rev}"));
        assert_eq!(at(&format!("env/{cluster}-next^")), at(&format!("env/{cluster}")));
        assert_eq!(noted(&sandbox, ".remote.git", &format!("env/{cluster}-next")), head(&sandbox));
    }
}

/// The plan on the branch of the hub names clusters whose folders are elsewhere.
#[test]
fn folders_of_others_on_the_branch_of_the_hub_stay() {
    let sandbox = hydrated();
    sandbox.run("commit --branch env/{cluster} --layout hydrator").code(0);
    sandbox.git("worktree add -q .hub env/hub");
    for file in ["README.md", "manifest.yaml"] {
        sandbox.write(&format!(".hub/m1/{file}"), "theirs\n");
    }
    sandbox.git("-C .hub add -A");
    sandbox.git("-C .hub commit -q -m theirs");
    sandbox.git("worktree remove .hub");
    replicas(&sandbox, 6);
    commit(&sandbox, "six");
    sandbox.run("commit --branch env/{cluster} --layout hydrator").code(0);
    assert_eq!(sandbox.git("show env/hub:m1/manifest.yaml"), "theirs\n");
    assert!(sandbox.git("show env/m1:m1/manifest.yaml").contains("replicas: 3"));
}

#[test]
fn the_lock_of_notes_is_named_where_it_is() {
    let sandbox = hydrated();
    sandbox.run("commit --branch env/prod --layout hydrator").code(0);
    sandbox.write(&format!(".git/{NOTES}.lock"), "");
    replicas(&sandbox, 6);
    commit(&sandbox, "six");
    let said = sandbox.run("commit --branch env/prod --layout hydrator").code(2).err;
    assert!(
        said.contains(&format!("`{NOTES}` is locked")) && said.contains(&format!("`{NOTES}.lock`")),
        "{said}"
    );
}

#[test]
fn a_proposed_branch_without_changes_is_created_and_noted() {
    let sandbox = hydrated();
    sandbox.run("commit --branch env/prod --layout hydrator --push").code(0);
    let ran = sandbox.run(HYDRATE).code(0);
    assert!(ran.out.contains("nothing to commit"), "{}", ran.out);
    let at = |rev: &str| sandbox.git(&format!("-C .remote.git rev-parse {rev}"));
    assert_eq!(at("env/prod-next"), at("env/prod"));
}

#[test]
fn a_folder_of_a_shared_branch_is_an_active_path() {
    let sandbox = with_target();
    let run = "commit --branch env/prod-next/shop --branch-path shop --layout hydrator --push";
    sandbox.run(run).code(0);
    assert_eq!(
        metadata(&sandbox, "env/prod-next/shop:shop/hydrator.metadata")["drySha"],
        json!(head(&sandbox))
    );
    let files = sandbox.git("ls-tree -r --name-only env/prod-next/shop");
    assert!(files.contains("shop/m1/manifest.yaml\n") && files.contains("CODEOWNERS\n"), "{files}");
    assert!(!files.contains("\nhydrator.metadata\n"), "{files}");
}

/// What GitOps Promoter pushes onto a proposed branch when its pull request has conflicts.
#[test]
fn a_merge_of_the_promoter_is_built_upon() {
    let sandbox = with_target();
    sandbox.run(HYDRATE).code(0);
    // The target moves, and the promoter keeps the tree of the proposed branch.
    sandbox.write(".other/hotfix", "by hand\n");
    sandbox.git("-C .other add -A");
    sandbox.git("-C .other commit -q -m hotfix");
    sandbox.git("-C .other push -q origin env/prod");
    let tree = sandbox.git("-C .remote.git rev-parse env/prod-next^{tree}").trim().to_owned();
    let merge = sandbox
        .git(&format!("-C .remote.git commit-tree {tree} -p env/prod-next -p env/prod -m Merge"))
        .trim()
        .to_owned();
    sandbox.git(&format!("-C .remote.git update-ref refs/heads/env/prod-next {merge}"));
    // Nothing changed: the merge gets the note.
    let dry = commit(&sandbox, "empty");
    sandbox.run(HYDRATE).code(0);
    assert_eq!(sandbox.git("-C .remote.git rev-parse env/prod-next").trim(), merge);
    assert_eq!(noted(&sandbox, ".remote.git", &merge), dry);
    replicas(&sandbox, 6);
    let dry = commit(&sandbox, "six");
    sandbox.run(HYDRATE).code(0);
    assert_eq!(sandbox.git("-C .remote.git rev-parse env/prod-next^").trim(), merge);
    assert_eq!(noted(&sandbox, ".remote.git", "env/prod-next"), dry);
    assert_eq!(metadata(&sandbox, "env/prod-next:hydrator.metadata")["drySha"], json!(dry));
    sandbox.git("-C .remote.git fsck --full --strict --no-dangling");
}

#[test]
fn trailers_of_the_rendered_commit_become_references() {
    let sandbox = hydrated();
    replicas(&sandbox, 6);
    commit(
        &sandbox,
        "Bump web\n\nSee the build.\n\n\
         Signed-off-by: A <a@example.com>\n\
         Argocd-reference-commit-sha: 0123456789abcdef0123456789abcdef01234567\n\
         Argocd-reference-commit-author: Coder <coder@example.com>\n\
         Argocd-reference-commit-date: yesterday\n\
         Argocd-reference-commit-body: \"a\\nb\"\n",
    );
    sandbox.run(HYDRATE).code(0);
    let root = metadata(&sandbox, "env/prod-next:hydrator.metadata");
    assert_eq!(root["subject"], json!("Bump web"));
    assert_eq!(
        root["body"],
        json!(
            "See the build.\n\nSigned-off-by: A <a@example.com>\nArgocd-reference-commit-date: yesterday\n"
        )
    );
    assert_eq!(
        root["references"],
        json!([{"commit": {"author": "Coder <coder@example.com>", "body": "a\nb",
            "sha": "0123456789abcdef0123456789abcdef01234567"}}])
    );
}

#[test]
fn files_in_the_folder_of_a_cluster_are_not_replaced() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    sandbox.git("clone -q -b env/prod-next .remote.git .other");
    sandbox.write(".other/m1/extra.yaml", "kind: Pod\n");
    sandbox.git("-C .other add -A");
    sandbox.git("-C .other commit -q -m extra");
    sandbox.git("-C .other push -q origin env/prod-next");
    replicas(&sandbox, 6);
    commit(&sandbox, "six");
    let said = sandbox.run(HYDRATE).code(2).err;
    assert!(
        said.contains("contains m1/extra.yaml, which its placements.yaml does not account for"),
        "{said}"
    );
    // A branch of another hydrator, and one in the other layout.
    let sandbox = hydrated();
    sandbox.git("clone -q .remote.git .other");
    sandbox.git("-C .other checkout -q --orphan argo");
    sandbox.git("-C .other rm -rfq .");
    sandbox.write(".other/hydrator.metadata", "{\"drySha\": \"0\"}\n");
    sandbox.write(".other/m1/manifest.yaml", "kind: Pod\n");
    sandbox.git("-C .other add -A");
    sandbox.git("-C .other commit -q -m argo");
    sandbox.git("-C .other push -q origin argo");
    let said = sandbox.run("commit --branch argo --layout hydrator --push").code(2).err;
    assert!(said.contains("contains hydrator.metadata, m1/manifest.yaml, and no placements.yaml"), "{said}");
    sandbox.run("commit --branch plain").code(0);
    let said = sandbox.run("commit --branch plain --layout hydrator").code(2).err;
    assert!(said.contains("m1/shop"), "{said}");
    sandbox.run("commit --branch hydrated --layout hydrator").code(0);
    let said = sandbox.run("commit --branch hydrated").code(2).err;
    assert!(said.contains("hydrator.metadata"), "{said}");
}

/// Without the paths, it is not known which objects a stream has, so that none of them would count as deleted.
#[test]
fn a_stream_without_paths_is_not_replaced() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    sandbox.git("clone -q -b env/prod-next .remote.git .other");
    let stream = sandbox.read(".other/m1/manifest.yaml");
    let without: Vec<&str> = stream.lines().filter(|line| !line.starts_with("# ")).collect();
    sandbox.write(".other/m1/manifest.yaml", without.join("\n") + "\n");
    sandbox.git("-C .other commit -qam formatted");
    sandbox.git("-C .other push -q origin env/prod-next");
    replicas(&sandbox, 6);
    commit(&sandbox, "six");
    let said = sandbox.run(HYDRATE).code(2).err;
    assert!(said.contains("contains m1/manifest.yaml"), "{said}");
}

#[test]
fn a_cluster_that_receives_nothing_loses_its_folder() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    sandbox.write("clusters.yaml", crate::sandbox::CLUSTERS.split("---").next().unwrap());
    commit(&sandbox, "one cluster");
    let said = sandbox.run(&format!("{HYDRATE} --fresh")).code(2).err;
    assert!(said.contains("cluster m2 would lose everything"), "{said}");
    sandbox.run(&format!("{HYDRATE} --fresh --prune-limit 100")).code(0);
    let files = sandbox.git("ls-tree -r --name-only env/prod-next");
    assert!(files.contains("m1/manifest.yaml") && !files.contains("m2/"), "{files}");
    sound(&sandbox);
}

/// Somebody else writes a note between reading and pushing, as other hydrators of the repository do all the time.
#[test]
fn notes_that_move_while_we_push_are_kept() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    sandbox.git("clone -q .remote.git .other");
    let hook = format!(
        "#!/bin/sh\nunset GIT_DIR\ncd {0} || exit 1\n[ -e .done ] && exit 0\ntouch .done\ncd .other || exit 1\n\
         git fetch -q origin +{NOTES}:{NOTES} || exit 1\ngit notes --ref {NOTES} add -f -m other HEAD || exit 1\n\
         git push -q --no-verify origin {NOTES} || exit 1\n",
        sandbox.path("").display(),
    );
    sandbox.write(".hooks/pre-push", hook);
    std::fs::set_permissions(sandbox.path(".hooks/pre-push"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    sandbox.write(".config", format!("[core]\n hooksPath = {}\n", sandbox.path(".hooks").display()));
    replicas(&sandbox, 6);
    let dry = commit(&sandbox, "six");
    let mut command = sandbox.command(HYDRATE);
    let ran = command.env("GIT_CONFIG_GLOBAL", sandbox.path(".config")).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success() && !said.contains("trying again"), "only the notes moved: {said}");
    assert!(sandbox.path(".done").exists());
    assert_eq!(noted(&sandbox, ".remote.git", "env/prod-next"), dry);
    let other = sandbox.git("-C .other rev-parse HEAD").trim().to_owned();
    assert_eq!(sandbox.git(&format!("-C .remote.git notes --ref {NOTES} show {other}")).trim(), "other");
    assert_eq!(sandbox.git("rev-parse env/prod-next"), sandbox.git("-C .remote.git rev-parse env/prod-next"));
    assert_eq!(
        sandbox.git(&format!("rev-parse {NOTES}")),
        sandbox.git(&format!("-C .remote.git rev-parse {NOTES}"))
    );
}

/// git spreads many notes over folders; new ones must be found there.
#[test]
fn notes_are_found_among_hundreds_of_others() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    let mut lines = String::new();
    for number in 0..600 {
        lines.push_str(&format!(
            "commit refs/heads/history\ncommitter T <t@example.com> {number} +0000\ndata 1\nx\n\n"
        ));
    }
    sandbox.write(".stream", lines);
    assert!(sandbox.shell("git fast-import --quiet < .stream").status().unwrap().success());
    let script = format!(
        "git rev-list history | while read id; do echo \"$id $id\"; done > .list; \
         blob=$(echo x | git hash-object -w --stdin); \
         while read id _; do echo \"N $blob $id\"; done < .list > .notes; \
         {{ printf 'commit {NOTES}\\ncommitter T <t@example.com> 0 +0000\\ndata 1\\nx\\nfrom {NOTES}^0\\n'; cat .notes; }} | git fast-import --quiet"
    );
    assert!(sandbox.shell(&script).status().unwrap().success());
    let listed = sandbox.git(&format!("notes --ref {NOTES} list"));
    assert!(listed.lines().count() > 600, "{}", listed.lines().count());
    replicas(&sandbox, 6);
    let dry = commit(&sandbox, "six");
    sandbox.run("commit --branch env/prod-next --layout hydrator").code(0);
    assert_eq!(noted(&sandbox, ".", "env/prod-next"), dry);
    let dry = commit(&sandbox, "empty");
    sandbox.run("commit --branch env/prod-next --layout hydrator").code(0);
    assert_eq!(noted(&sandbox, ".", "env/prod-next"), dry, "the note is replaced, not doubled");
    assert_eq!(sandbox.git(&format!("notes --ref {NOTES} list")).lines().count(), listed.lines().count() + 1);
    sound(&sandbox);
}

#[test]
fn a_kill_at_any_moment_leaves_a_branch_that_the_next_run_completes() {
    let sandbox = hydrated();
    let started = Instant::now();
    sandbox.run(HYDRATE).code(0);
    let whole = started.elapsed();
    let rounds = kills(20);
    for round in 0..rounds {
        let before = sandbox.git("-C .remote.git rev-parse env/prod-next");
        replicas(&sandbox, 6 + 2 * round as usize);
        let dry = commit(&sandbox, "more");
        let mut command = sandbox.command(HYDRATE);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * (round + 1) / rounds);
        child.kill().unwrap();
        child.wait().unwrap();
        let remote = sandbox.git("-C .remote.git rev-parse env/prod-next");
        if remote != before {
            let parent = sandbox.git(&format!("-C .remote.git rev-parse {}^", remote.trim()));
            assert_eq!(parent, before, "the remote is at the old commit or at the new one");
            assert_eq!(
                noted(&sandbox, ".remote.git", remote.trim()),
                dry,
                "the note arrives with the commit"
            );
        }
        sandbox.run(HYDRATE).code(0);
        assert_eq!(count(&sandbox, "env/prod-next"), (round + 2).to_string(), "one commit a change");
        for repository in [".", ".remote.git"] {
            assert_eq!(noted(&sandbox, repository, "env/prod-next"), dry);
        }
    }
    sandbox.git("-C .remote.git fsck --full --strict --no-dangling");
}

#[test]
fn hydrations_that_race_lose_no_commit_and_no_note() {
    let sandbox = web();
    sandbox.write(".git/info/exclude", ".*\n");
    let folders: Vec<String> = (0..4).map(|number| format!(".copy{number}")).collect();
    for (number, folder) in folders.iter().enumerate() {
        sandbox.git(&format!("worktree add -q --detach {folder} main"));
        let text = sandbox.read("web.yaml").replace("replicas: 4", &format!("replicas: {}", 10 + number * 2));
        sandbox.write(&format!("{folder}/web.yaml"), text);
        sandbox.git(&format!("-C {folder} commit -q -a -m copy{number}"));
    }
    let run = |folder: &String| {
        let mut command =
            sandbox.command(&format!("commit {folder} --branch rendered --layout hydrator --quiet"));
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = folders.iter().map(run).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(count(&sandbox, "rendered"), "4", "one commit each, in a line");
    for commit in sandbox.git("rev-list rendered").lines() {
        let of = sandbox.git(&format!("log -1 --format=%(trailers:key=Federate-Source,valueonly) {commit}"));
        assert_eq!(noted(&sandbox, ".", commit), of.trim());
    }
    sound(&sandbox);
}

#[test]
fn a_shallow_clone_hydrates_too() {
    let sandbox = hydrated();
    sandbox.run(HYDRATE).code(0);
    replicas(&sandbox, 6);
    commit(&sandbox, "six");
    sandbox.run(HYDRATE).code(0);
    sandbox.git("push -q origin main");
    sandbox.git(&format!("clone -q --depth 1 file://{} .shallow", sandbox.path(".remote.git").display()));
    sandbox.write(".shallow/web.yaml", sandbox.read("web.yaml").replace("replicas: 6", "replicas: 8"));
    sandbox.git("-C .shallow commit -q -a -m eight");
    sandbox.run("commit .shallow --branch env/prod-next --layout hydrator --push").code(0);
    let dry = sandbox.git("-C .shallow rev-parse HEAD");
    assert_eq!(noted(&sandbox, ".remote.git", "env/prod-next"), dry.trim());
    sandbox.git("-C .remote.git fsck --full --strict --no-dangling");
}
