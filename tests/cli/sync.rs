//! `federate sync --once` with git repositories and folders: commits, the state folder, the number of
//! requests, and what prevents a round.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::git_http::Server;
use crate::sandbox::{POLICY, Ran, Sandbox, WEB};

/// A bare repository `origin.git` with the repo in it, a clone `work` of it, and a Sync that renders its `main` to
/// `rendered`.
struct Origin {
    sandbox: Sandbox,
    /// The files that `work` is made from.
    files: Sandbox,
}

impl Origin {
    fn new() -> Self {
        let (sandbox, files) = (Sandbox::new(), Sandbox::web());
        sandbox.git("init -q --bare -b main origin.git");
        sandbox.git("-C origin.git config http.receivepack true");
        files.git("init -q -b main");
        files.git(&format!("remote add origin {}", sandbox.path("origin.git").display()));
        let origin = Self { sandbox, files };
        origin.push("first");
        origin.sync("origin.git", "commit: {branch: rendered}");
        origin
    }

    /// Writes the Sync.
    fn sync(&self, url: &str, wants: &str) {
        let text = format!(
            "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {{name: web}}\nspec:\n  source:\n    \
             url: {url}\n    ref: {{branch: main}}\n  interval: 1m\n  {wants}\n"
        );
        self.sandbox.write("sync.yaml", text);
    }

    /// Commits the current files, and pushes the commit.
    fn push(&self, message: &str) {
        self.files.git("add -A");
        self.files.git(&format!("commit -q --allow-empty -m {message}"));
        self.files.git("push -q --force origin main");
    }

    fn once(&self) -> Ran {
        self.sandbox.run("sync --once -f sync.yaml --state state")
    }

    fn status(&self) -> Value {
        let record: Value =
            serde_json::from_str(&self.sandbox.read("state/default/web/status.json")).unwrap();
        record["status"].clone()
    }

    fn rendered(&self, path: &str) -> String {
        self.sandbox.git(&format!("-C origin.git show rendered:{path}"))
    }

    fn tip(&self, branch: &str) -> String {
        self.sandbox.git(&format!("-C origin.git rev-parse {branch}")).trim().to_owned()
    }
}

fn condition<'s>(status: &'s Value, name: &str) -> Option<&'s Value> {
    status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == name)
}

const M1: &str = "m1/shop/deployment.apps_web.yaml";

#[test]
fn a_new_revision_is_rendered_to_the_branch() {
    let origin = Origin::new();
    let main = origin.tip("main");
    let ran = origin.once().code(0);
    let said = format!("default/web: ReconciliationSucceeded: committed main@sha1:{main} to rendered\n");
    assert_eq!(ran.out, said);
    assert!(origin.rendered(M1).contains("replicas: 2"));
    let status = origin.status();
    assert_eq!(status["lastAppliedRevision"], format!("main@sha1:{main}"));
    assert_eq!(status["lastAttemptedRevision"], status["lastAppliedRevision"]);
    assert_eq!(status["branches"][0]["commit"], origin.tip("rendered"));
    assert_eq!(condition(&status, "Ready").unwrap()["status"], "True");
    assert!(condition(&status, "Stalled").is_none() && condition(&status, "Reconciling").is_none());

    let before = (origin.tip("rendered"), origin.sandbox.read("state/default/web/status.json"));
    assert_eq!(origin.once().code(0).out, ran.out, "a round with nothing to do says the same");
    let after = (origin.tip("rendered"), origin.sandbox.read("state/default/web/status.json"));
    assert_eq!(before, after, "and writes nothing");

    origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    origin.push("second");
    origin.once().code(0);
    assert!(origin.rendered(M1).contains("replicas: 4"));
    assert_eq!(origin.sandbox.git("-C origin.git rev-list --count rendered").trim(), "2");
    let message = origin.sandbox.git("-C origin.git log -1 --format=%B rendered");
    assert!(message.contains(&format!("Federate-Source: {}", origin.tip("main"))), "{message}");
}

#[test]
fn a_branch_of_the_hydrator_layout_gets_a_note_where_nothing_changes() {
    let origin = Origin::new();
    origin.sync("origin.git", "commit: {branch: env/prod-next, layout: hydrator}");
    origin.once().code(0);
    let tip = origin.tip("env/prod-next");
    let noted = || {
        let note = "-C origin.git notes --ref refs/notes/hydrator.metadata show env/prod-next";
        let note: Value = serde_json::from_str(&origin.sandbox.git(note)).unwrap();
        note["drySha"].as_str().unwrap().to_owned()
    };
    assert_eq!(noted(), origin.tip("main"));
    let metadata = origin.sandbox.git("-C origin.git show env/prod-next:hydrator.metadata");
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["drySha"], origin.tip("main"));
    assert!(metadata["repoURL"].as_str().unwrap().ends_with("origin.git"), "{metadata:#}");
    origin.push("empty");
    origin.once().code(0);
    assert_eq!((origin.tip("env/prod-next"), noted()), (tip.clone(), origin.tip("main")));
    origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    origin.push("eight");
    origin.once().code(0);
    assert_eq!(origin.tip("env/prod-next^"), tip);
    assert_eq!(noted(), origin.tip("main"));
    let manifest = origin.sandbox.git("-C origin.git show env/prod-next:m1/manifest.yaml");
    assert!(manifest.contains("replicas: 4"), "{manifest}");
    origin.sync("origin.git", "commit: {branch: rendered, layout: flat}");
    let said = origin.once().code(2).err;
    assert!(said.contains("plain") && said.contains("hydrator"), "{said}");
}

#[test]
fn nothing_new_costs_one_ls_remote() {
    let origin = Origin::new();
    let server = Server::start(&origin.sandbox.path(""));
    origin.sync(&format!("{}/origin.git", server.address()), "commit: {branch: rendered}");
    origin.once().code(0);
    assert!(origin.rendered(M1).contains("replicas: 2"));
    server.requests();
    for _ in 0..3 {
        origin.once().code(0);
        // git requests the capabilities of the server, and then the references.
        assert_eq!(server.requests(), 2);
    }
    // The same request covers the branch, so that foreign changes of it are corrected.
    origin.sandbox.git("-C origin.git update-ref -d refs/heads/rendered");
    origin.once().code(0);
    assert!(origin.rendered(M1).contains("replicas: 2"));
}

#[test]
fn a_broken_source_changes_nothing_and_says_where() {
    let origin = Origin::new();
    origin.once().code(0);
    let rendered = origin.tip("rendered");
    let applied = origin.status()["lastAppliedRevision"].clone();
    let refused = |change: &dyn Fn(&Origin), reason: &str, said: &str| {
        change(&origin);
        origin.push("change");
        let ran = origin.once().code(2);
        assert!(ran.out.contains(&format!("{reason}: ")) && ran.out.contains(said), "{ran:#?}");
        let status = origin.status();
        let stalled = condition(&status, "Stalled").unwrap_or_else(|| panic!("{status:#}"));
        assert_eq!((&stalled["status"], &stalled["reason"]), (&"True".into(), &reason.into()));
        assert!(stalled["message"].as_str().unwrap().contains(said));
        assert_eq!(status["lastAppliedRevision"], applied);
        assert_eq!(status["lastAttemptedRevision"], format!("main@sha1:{}", origin.tip("main")));
        assert_eq!(origin.tip("rendered"), rendered, "the branch stays where it was");
        assert_eq!(origin.once().code(2).out, ran.out, "and it stays so");
    };
    refused(&|o| o.files.write("web.yaml", "a: ["), "BuildFailed", "web.yaml:1");
    refused(&|o| o.files.git("rm -q -r . ").clear(), "PruneFailed", "nothing is rendered any more");
    let mut many = Sandbox::web();
    for name in ["a", "b", "c", "d"] {
        many = many.file(&format!("{name}.yaml"), WEB.replace("name: web", &format!("name: {name}")));
    }
    for file in ["web.yaml", "clusters.yaml", "policy.yaml"] {
        origin.files.write(file, many.read(file));
    }
    origin.push("good-again");
    let ran = origin.once().code(0);
    assert!(ran.out.contains("ReconciliationSucceeded"), "{ran:#?}");
    assert!(condition(&origin.status(), "Stalled").is_none());
}

#[test]
fn a_source_that_cannot_be_reached_is_no_reason_to_stall() {
    let origin = Origin::new();
    origin.once().code(0);
    std::fs::rename(origin.sandbox.path("origin.git"), origin.sandbox.path("gone.git")).unwrap();
    let ran = origin.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: `git ls-remote` failed"), "{ran:#?}");
    let status = origin.status();
    assert_eq!(condition(&status, "Ready").unwrap()["status"], "False");
    assert!(condition(&status, "Stalled").is_none());
    std::fs::rename(origin.sandbox.path("gone.git"), origin.sandbox.path("origin.git")).unwrap();
    origin.once().code(0);
    origin.sandbox.git("-C origin.git update-ref -d refs/heads/main");
    let ran = origin.once().code(2);
    assert!(ran.out.contains("<repo>/origin.git has no branch `main`"), "{ran:#?}");
}

#[test]
fn what_would_take_too_much_away_is_confirmed_by_the_limit() {
    let origin = Origin::new();
    let policy = origin.files.read("policy.yaml").replace("    name: web\n", "");
    origin.files.write("policy.yaml", policy);
    for name in ["a", "b", "c", "d", "e"] {
        origin.files.write(&format!("{name}.yaml"), WEB.replace("name: web\n", &format!("name: {name}\n")));
    }
    origin.push("six");
    origin.once().code(0);
    origin.files.git("rm -q a.yaml b.yaml");
    origin.push("four");
    let ran = origin.once().code(2);
    assert!(ran.out.contains("PruneFailed: 4 of the 12 objects would go, and more than 30 %"), "{ran:#?}");
    origin.sync("origin.git", "commit: {branch: rendered, pruneLimit: 50}");
    origin.once().code(0);
    let record: Value = serde_json::from_str(&origin.sandbox.read("state/default/web/status.json")).unwrap();
    assert_eq!(record["metadata"]["generation"], 2);
    let files = origin.sandbox.git("-C origin.git ls-tree -r --name-only rendered");
    assert!(!files.contains("apps_a.yaml") && files.contains("apps_c.yaml"), "{files}");
    // Of a few objects, one is a large share.
    origin.sync("origin.git", "commit: {branch: rendered}");
    origin.files.git("rm -q c.yaml d.yaml e.yaml");
    origin.push("one");
    origin.once().code(0);
}

#[test]
fn a_cluster_that_leaves_the_inventory_keeps_its_files_until_that_is_confirmed() {
    let origin = Origin::new();
    origin.files.git("rm -q clusters.yaml policy.yaml");
    let clusters = |names: &str| {
        origin.files.write("federate.yaml", format!("clusters: [{names}]\nunplaced: everywhere\n"));
    };
    clusters("{name: m1}, {name: m2}");
    origin.push("two");
    origin.once().code(0);
    let before = origin.sandbox.git("-C origin.git rev-parse rendered");
    clusters("{name: m1}");
    origin.push("one");
    let ran = origin.once().code(2);
    assert!(ran.out.contains("PruneFailed: ") && ran.out.contains("cluster m2 would lose"), "{ran:#?}");
    assert_eq!(origin.sandbox.git("-C origin.git rev-parse rendered"), before);
    origin.sync("origin.git", "commit: {branch: rendered, pruneLimit: 100}");
    origin.once().code(0);
    assert_ne!(origin.sandbox.git("-C origin.git rev-parse rendered"), before);
}

#[test]
fn rewritten_history_and_a_lost_cache_are_no_obstacle() {
    let origin = Origin::new();
    origin.once().code(0);
    origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    origin.files.git("commit -q -a --amend -m rewritten");
    origin.push("more");
    let before = origin.status()["lastAppliedRevision"].clone();
    let ran = origin.once().code(0);
    assert!(ran.err.contains("the history was rewritten"), "{ran:#?}");
    assert_eq!(origin.status()["rewritten"], before);
    assert!(origin.rendered(M1).contains("replicas: 4"));
    // The state after a killed fetch.
    origin.sandbox.write("state/default/web/git/shallow.lock", "");
    origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 12"));
    origin.push("locked");
    origin.once().code(0);
    assert!(origin.status()["rewritten"].is_null(), "it builds on the one before");
    assert!(origin.rendered(M1).contains("replicas: 6"));
    std::fs::remove_file(origin.sandbox.path("state/default/web/git/HEAD")).unwrap();
    origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 16"));
    origin.push("headless");
    origin.once().code(0);
    assert!(origin.rendered(M1).contains("replicas: 8"));
    assert_eq!(origin.sandbox.git("-C origin.git rev-list --count rendered").trim(), "4");
}

#[test]
fn a_tag_that_is_moved_to_other_history_is_noted() {
    let origin = Origin::new();
    for kind in ["", "-a -m release "] {
        let tag = |files: &Sandbox| {
            files.git(&format!("tag -f {kind}v1"));
            files.git("push -q --force origin v1");
        };
        tag(&origin.files);
        let text = origin.sandbox.read("sync.yaml").replace("{branch: main}", "{tag: v1}");
        origin.sandbox.write("sync.yaml", text);
        origin.once().code(0);
        origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
        origin.push("more");
        tag(&origin.files);
        let ran = origin.once().code(0);
        assert!(!ran.err.contains("rewritten") && origin.status()["rewritten"].is_null(), "{ran:#?}");
        let before = origin.status()["lastAppliedRevision"].clone();
        origin.files.git("checkout -q --orphan other");
        origin.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 12"));
        origin.files.git("add -A");
        origin.files.git("commit -q -m unrelated");
        tag(&origin.files);
        let ran = origin.once().code(0);
        assert!(ran.err.contains("the history was rewritten"), "{ran:#?}");
        assert_eq!(origin.status()["rewritten"], before);
        origin.files.git("branch -q -M main");
        origin.files.write("web.yaml", WEB);
        origin.push("again");
        std::fs::remove_dir_all(origin.sandbox.path("state")).unwrap();
    }
}

/// The address that a Sync names is the only one that is asked, also with the user's own git.
#[test]
fn redirects_are_not_followed() {
    let origin = Origin::new();
    let server = Server::start(&origin.sandbox.path(""));
    let to = server.address();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap();
            let head = String::from_utf8_lossy(&head[..length]);
            let path = head.split(' ').nth(1).unwrap_or("/");
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: {to}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    origin.sync(&format!("{address}/origin.git"), "commit: {branch: rendered}");
    server.requests();
    let ran = origin.once().code(2);
    assert!(ran.out.contains("GitOperationFailed"), "{ran:#?}");
    assert_eq!(server.requests(), 0, "the other server was asked: {ran:#?}");
}

#[test]
fn damaged_memory_is_refused() {
    let origin = Origin::new();
    origin.once().code(0);
    origin.sandbox.write("state/default/web/placements.yaml", "placements: [");
    origin.push("next");
    let ran = origin.once().code(2);
    assert!(
        ran.out.contains("StateFailed") && ran.out.contains("placements.yaml: the scheduler's memory"),
        "{ran:#?}"
    );
    std::fs::remove_file(origin.sandbox.path("state/default/web/placements.yaml")).unwrap();
    origin.once().code(0);
}

#[test]
fn only_signed_revisions_are_read() {
    let origin = Origin::new();
    let key = origin.sandbox.path("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    let public = origin.sandbox.read("key.pub");
    origin.sandbox.write("signers", format!("dev@example.com namespaces=\"git\" {public}"));
    let sync = origin.sandbox.read("sync.yaml");
    let with = |reference: &str, mode: &str| {
        let verify = format!("ref: {reference}\n    verify: {{mode: {mode}}}");
        origin.sandbox.write("sync.yaml", sync.replace("ref: {branch: main}", &verify));
        origin.sandbox.run("sync --once -f sync.yaml --state state --allowed-signers signers")
    };
    let ran = with("{branch: main}", "HEAD").code(2);
    assert!(
        ran.out.contains("VerificationError: revision `main`") && ran.out.contains("no valid signature"),
        "{ran:#?}"
    );
    assert!(condition(&origin.status(), "Stalled").is_some());
    origin.files.git("config gpg.format ssh");
    origin.files.git(&format!("config user.signingkey {}", key.display()));
    origin.files.git("tag -s v1 -m one");
    origin.files.git("push -q origin v1");
    let ran = with("{tag: v1}", "TagAndHEAD").code(2);
    assert!(ran.out.contains("no valid signature"), "{ran:#?}");
    let ran = with("{tag: v1}", "Tag").code(0);
    assert!(ran.out.contains("committed v1@sha1:"), "{ran:#?}");
    let ran = with("{branch: main}", "Tag").code(2);
    assert!(ran.out.contains("no signed tag"), "{ran:#?}");
    origin.files.git("commit -q -S --allow-empty -m signed");
    origin.files.git("push -q origin main");
    with("{branch: main}", "HEAD").code(0);
}

#[test]
fn a_folder_is_a_source_too() {
    let sandbox = Sandbox::new();
    let folder = Sandbox::web();
    let url = folder.path("").display().to_string();
    sandbox.write(
        "sync.yaml",
        format!(
            "{{apiVersion: federate.dev/v1alpha1, kind: Sync, metadata: {{name: web}}, spec: {{source: {{url: {url}}}, \
             interval: 1m, commit: {{branch: rendered}}}}}}"
        ),
    );
    let ran = sandbox.run("sync --once -f sync.yaml --state state").code(2);
    assert!(ran.out.contains("is not in a git repository"), "{ran:#?}");
    folder.git("init -q -b main");
    sandbox.run("sync --once -f sync.yaml --state state").code(0);
    folder.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    sandbox.run("sync --once -f sync.yaml --state state").code(0);
    sandbox.run("sync --once -f sync.yaml --state state").code(0);
    assert!(folder.git(&format!("show rendered:{M1}")).contains("replicas: 4"));
    assert_eq!(folder.git("rev-list --count rendered").trim(), "2");
}

#[test]
fn syncs_wait_for_those_they_depend_on() {
    let origin = Origin::new();
    let sync = origin.sandbox.read("sync.yaml");
    let other = sync.replace("name: web", "name: later").replace("branch: rendered", "branch: other");
    let other = other.replace("interval: 1m", "interval: 1m\n  dependsOn: [{name: web}]");
    origin
        .sandbox
        .write("sync.yaml", format!("{other}---\n{}", sync.replace("branch: main", "branch: none")));
    let ran = origin.once().code(2);
    assert!(ran.out.contains("default/later: DependencyNotReady: default/web is not ready"), "{ran:#?}");
    origin.sandbox.write("sync.yaml", format!("{other}---\n{sync}"));
    let ran = origin.once().code(0);
    assert_eq!(ran.out.lines().count(), 2);
    assert_eq!(origin.tip("rendered^{tree}"), origin.tip("other^{tree}"));
    origin.sandbox.write("sync.yaml", sync.replace("interval: 1m", "interval: 1m\n  suspend: true"));
    origin.push("unseen");
    let before = origin.tip("rendered");
    assert_eq!(origin.once().code(0).out, "default/web: suspended\n");
    assert_eq!(origin.tip("rendered"), before);
}

#[test]
fn one_process_at_a_time_has_the_state_folder() {
    let origin = Origin::new();
    std::fs::create_dir(origin.sandbox.path("state")).unwrap();
    let mut held = Command::new("flock");
    held.args(["state/lock", "sh", "-c", "echo held; read end"]).current_dir(origin.sandbox.path(""));
    let mut held = held.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(held.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    let ran = origin.once().code(2);
    assert!(
        ran.err.contains("the state folder <repo>/state is in use by another `federate sync`"),
        "{ran:#?}"
    );
    drop(held.stdin.take());
    held.wait().unwrap();
    origin.once().code(0);
}

#[test]
fn what_is_wrong_with_a_sync_is_shown_with_its_line() {
    let origin = Origin::new();
    origin.sync("https://user:s3cret@127.0.0.1:1/r.git", "comit: {branch: rendered}");
    let ran = origin.once().code(2);
    assert!(ran.err.contains("sync.yaml:9:3") && ran.err.contains("unknown field `comit`"), "{ran:#?}");
    origin.sync("https://user:s3cret@127.0.0.1:1/r.git", "commit: {branch: rendered}");
    let ran = origin.sandbox.run("sync --once -f sync.yaml --state state --log-format json").code(2);
    let log: Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
    assert_eq!((&log["level"], &log["sync"]), (&"ERROR".into(), &"default/web".into()), "{log}");
    let kept = origin.sandbox.read("state/default/web/status.json");
    assert!(!(ran.out + &ran.err + &kept).contains("s3cret"));
}

#[test]
fn replicas_that_move_are_counted() {
    let origin = Origin::new();
    origin.once().code(0);
    assert_eq!(origin.status()["replicasMoved"], 0, "what comes has not moved");
    let weight = |name: &str, weight: u32| {
        format!("        - {{targetCluster: {{clusterNames: [{name}]}}, weight: {weight}}}\n")
    };
    let weights =
        "      replicaDivisionPreference: Weighted\n      weightPreference:\n        staticWeightList:\n";
    origin.files.write("policy.yaml", [POLICY, weights, &weight("m1", 1), &weight("m2", 3)].concat());
    origin.push("weights");
    origin.once().code(0);
    assert!(origin.rendered(M1).contains("replicas: 1"));
    assert_eq!(origin.status()["replicasMoved"], 1, "of 4, which were 2 in each of two clusters");
    origin.once().code(0);
    assert_eq!(origin.status()["replicasMoved"], 1, "a round that finds nothing new moves nothing");
    origin.push("nothing");
    origin.once().code(0);
    assert_eq!(origin.status()["replicasMoved"], 0);
}

#[test]
fn a_sync_reads_the_paths_that_it_names() {
    let origin = Origin::new();
    for file in ["clusters.yaml", "policy.yaml"] {
        origin.files.write(&format!("shared/{file}"), origin.files.read(file));
    }
    origin.files.write("prod/web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    origin.files.write("test/web.yaml", WEB);
    origin.files.write("test/broken.yaml", "a: [\n");
    origin.files.git("rm -q -f clusters.yaml policy.yaml web.yaml");
    origin.push("environments");
    let sync = |paths: &str| {
        let text = format!(
            "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {{name: web}}\nspec:\n  source:\n    url: origin.git\n    \
             ref: {{branch: main}}\n    paths: {paths}\n  interval: 1m\n  commit: {{branch: rendered}}\n"
        );
        origin.sandbox.write("sync.yaml", text);
    };
    sync("[shared, prod]");
    origin.once().code(0);
    assert!(origin.rendered("m1/shop/deployment.apps_web.yaml").contains("replicas: 4"));
    sync("[shared, test]");
    let ran = origin.once().code(2);
    assert!(ran.err.contains("test/broken.yaml"), "{ran:?}");
    sync("[../elsewhere]");
    origin.once().code(2);
}

/// Each Sync has its own limit, so that one with too much to do is an error of its own.
#[test]
fn the_work_of_a_round_has_a_limit() {
    let origin = Origin::new();
    let ran = origin.sandbox.run("sync --once -f sync.yaml --state state --work-limit 1").code(2);
    assert!(ran.out.contains("takes more than 1 steps, --work-limit"), "{ran:#?}");
    origin.once().code(0);
}

#[test]
fn syncs_in_files_are_listed_by_their_state() {
    let origin = Origin::new();
    origin.once().code(0);
    let main = origin.tip("main");
    let ran = origin.sandbox.run("sync get --state state").code(0);
    let lines: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 2, "{ran:#?}");
    assert_eq!(lines[1][..4], ["default", "web", "True", &format!("main@sha1:{}", &main[..8])], "{ran:#?}");
    origin.files.write("web.yaml", "a: [");
    origin.push("broken");
    origin.once().code(2);
    let row = &json(&origin.sandbox.run("sync get web --state state -o json").code(0).out)[0];
    assert_eq!((&row["name"], &row["ready"]), (&"web".into(), &"False".into()), "{row:#}");
    assert!(row["message"].as_str().unwrap().contains("web.yaml:1"), "{row:#}");
    let history = json(&origin.sandbox.run("sync history web --state state -o json").code(0).out);
    let reasons: Vec<&str> = history["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["BuildFailed", "ReconciliationSucceeded"], "{history:#}");
    assert_eq!(history["history"][1]["revision"], format!("main@sha1:{main}"));
    let ran = origin.sandbox.run("sync history web --state state").code(0);
    assert!(ran.out.starts_with("TIME") && ran.out.contains(&main), "{ran:#?}");
    let ran = origin.sandbox.run("sync get --state elsewhere").code(2);
    assert!(ran.err.contains("elsewhere"), "{ran:#?}");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
