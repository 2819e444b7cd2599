//! Repositories of strangers: nothing in them runs, and only signed revisions pass verification.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::sandbox::{Sandbox, WEB};

/// A repository with one commit and a bare remote `origin` beside it. Its configuration names programs and it has hooks;
/// each of them creates the file `ran`.
struct Hostile {
    sandbox: Sandbox,
    beside: Sandbox,
}

impl Hostile {
    fn new() -> Self {
        let (sandbox, beside) = (Sandbox::web(), Sandbox::new());
        sandbox.git("init -q -b main");
        sandbox.git("add -A");
        sandbox.git("commit -q -m first");
        sandbox.git(&format!("clone -q --bare . {}", beside.path("remote.git").display()));
        sandbox.git(&format!("remote add origin file://{}", beside.path("remote.git").display()));
        let hostile = Self { sandbox, beside };
        let program = hostile.program("ran");
        let hooks = ["pre-push", "reference-transaction", "post-checkout", "push-to-checkout"];
        Self::configure(&hostile.sandbox.path(".git/config"), &program, &hooks);
        hostile
    }

    /// A program that creates a file and succeeds.
    fn program(&self, name: &str) -> String {
        let path = self.beside.path(&format!("bin/{name}"));
        let ran = self.beside.path(name);
        self.beside.write(
            &format!("bin/{name}"),
            format!("#!/bin/sh\ntouch {}\necho '[GNUPG:] GOODSIG' >&2\n", ran.display()),
        );
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn configure(config: &std::path::Path, program: &str, hooks: &[&str]) {
        let folder = config.parent().unwrap();
        std::fs::create_dir_all(folder.join("hooks")).unwrap();
        for hook in hooks {
            std::fs::copy(program, folder.join("hooks").join(hook)).unwrap();
        }
        let mut text = std::fs::read_to_string(config).unwrap();
        text.push_str(&format!(
            "[core]\n fsmonitor = {program}\n sshCommand = {program}\n askPass = {program}\n editor = {program}\n \
             pager = {program}\n alternateRefsCommand = {program}\n gitProxy = {program}\n\
             [gpg]\n program = {program}\n[gpg \"ssh\"]\n program = {program}\n defaultKeyCommand = {program}\n\
             [gpg \"openpgp\"]\n program = {program}\n[credential]\n helper = {program}\n\
             [remote \"origin\"]\n uploadpack = {program}\n receivepack = {program}\n\
             [protocol \"ext\"]\n allow = always\n[remote \"ext\"]\n url = \"ext::{program} %S\"\n\
             [filter \"x\"]\n clean = {program}\n smudge = {program}\n[diff \"x\"]\n textconv = {program}\n\
             [gc]\n recentObjectsHook = {program}\n auto = 1\n[hook \"x\"]\n command = {program}\n event = pre-push\n"
        ));
        std::fs::write(config, text).unwrap();
    }

    fn ran(&self, name: &str) -> bool {
        self.beside.path(name).exists()
    }

    /// The command, with settings in the user's configuration.
    fn user(&self, line: &str, settings: &[&str]) -> Command {
        let file = self.beside.path("gitconfig");
        for setting in settings {
            self.sandbox.git(&format!("config --file {} {setting}", file.display()));
        }
        let mut command = self.sandbox.command(line);
        command.env("GIT_CONFIG_GLOBAL", file);
        command
    }

    fn key(&self, name: &str) -> PathBuf {
        let path = self.beside.path(name);
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
        assert!(made.unwrap().success());
        path
    }

    /// A key, and a list of allowed signers that contains it.
    fn signer(&self) -> (PathBuf, PathBuf) {
        let key = self.key("good");
        let public = self.beside.read("good.pub");
        self.beside.write("signers", format!("dev@example.com namespaces=\"git\" {public}"));
        (key, self.beside.path("signers"))
    }

    /// Commits the work tree, signed, without running the programs of the repository's configuration.
    fn commit_signed(&self, key: &std::path::Path, message: &str) {
        let line = format!(
            "-c core.fsmonitor=false -c core.hooksPath=/dev/null -c gpg.format=ssh -c gpg.ssh.program=ssh-keygen \
             -c user.signingkey={} commit -q -a -S --allow-empty -m {message}",
            key.display()
        );
        self.sandbox.git(&line);
        self.forget();
    }

    /// Removes the file that programs create, because the test itself made one run.
    fn forget(&self) {
        let _ = std::fs::remove_file(self.beside.path("ran"));
    }
}

#[test]
fn programs_of_the_repository_do_not_run() {
    let hostile = Hostile::new();
    let Hostile { sandbox, .. } = &hostile;
    sandbox.run("plan --rev HEAD").code(0);
    sandbox.run("commit --branch rendered --push").code(0);
    sandbox.run("commit --branch rendered --push").code(0);
    assert_eq!(sandbox.git("rev-parse origin/rendered"), sandbox.git("rev-parse rendered"));
    // The remote is ahead, so there is something to fetch.
    let remote = hostile.beside.path("remote.git");
    let remote = remote.display();
    let ahead =
        sandbox.git(&format!("--git-dir={remote} commit-tree -p rendered -m ahead rendered^{{tree}}"));
    sandbox.git(&format!("--git-dir={remote} update-ref refs/heads/rendered {}", ahead.trim()));
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 6"));
    sandbox.run("commit --branch rendered --push").code(0);
    let said = sandbox.run("commit --branch rendered --push ext").code(2).err;
    assert!(said.contains("transport 'ext' not allowed"), "{said}");
    let said = sandbox.run("commit --branch rendered --push ssh://127.0.0.1:1/x").code(2).err;
    assert!(said.contains("`git ls-remote` failed"), "{said}");
    assert!(!hostile.ran("ran"));
}

#[test]
fn signatures_ask_no_program_of_the_repository() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    let stranger = hostile.key("stranger");
    hostile.commit_signed(&stranger, "stranger");
    let verify = format!("plan --rev HEAD --verify-signatures --allowed-signers {}", signers.display());
    let said = sandbox.run(&verify).code(2).err;
    assert!(said.contains("has no valid signature"), "{said}");
    hostile.commit_signed(&key, "good");
    sandbox.run(&verify).code(0);
    // The repository does not choose the allowed signers either.
    sandbox.git(&format!("config gpg.ssh.allowedSignersFile {}", signers.display()));
    let said = sandbox.run("plan --rev HEAD --verify-signatures").code(2).err;
    assert!(said.contains("no allowed signers") && said.contains("--global"), "{said}");
    let setting = format!("gpg.ssh.allowedSignersFile {}", signers.display());
    let output = hostile.user("plan --rev HEAD --verify-signatures", &[&setting]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!hostile.ran("ran"));
}

#[test]
fn programs_of_the_users_configuration_run() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let hooks = hostile.beside.path("hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    std::fs::copy(hostile.program("hooked"), hooks.join("pre-push")).unwrap();
    let settings = [
        "commit.gpgSign true".to_owned(),
        "gpg.format ssh".to_owned(),
        format!("user.signingkey {}", key.display()),
        format!("core.hooksPath {}", hooks.display()),
        format!("core.sshCommand {}", hostile.program("connected")),
        format!("gpg.ssh.allowedSignersFile {}", signers.display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let output = hostile.user("commit --branch rendered --push", &settings).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(hostile.ran("hooked"), "a hook of the user");
    let output = hostile.user("plan --rev main --previous rendered:placements.yaml", &[]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let raw = hostile.sandbox.git("cat-file commit rendered");
    assert!(raw.contains("-----BEGIN SSH SIGNATURE-----"), "{raw}");
    hostile.user("commit --branch rendered --push ssh://127.0.0.1/x", &[]).output().unwrap();
    assert!(hostile.ran("connected"), "the ssh command of the user");
    assert!(!hostile.ran("ran"));
}

#[test]
fn a_committed_bare_repository_is_content() {
    let hostile = Hostile::new();
    let Hostile { sandbox, .. } = &hostile;
    std::fs::create_dir(sandbox.path("deploy")).unwrap();
    for file in ["web.yaml", "clusters.yaml", "policy.yaml"] {
        std::fs::rename(sandbox.path(file), sandbox.path(&format!("deploy/{file}"))).unwrap();
    }
    sandbox.git(&format!("init -q --bare --template= -b main {}", sandbox.path("deploy").display()));
    Hostile::configure(&sandbox.path("deploy/config"), &hostile.program("ran"), &["pre-push"]);
    sandbox.write("deploy/refs/heads/keep.md", "");
    sandbox.write("deploy/objects/keep.md", "");
    let outside = hostile.beside.path("remote.git/objects");
    sandbox.write("deploy/objects/info/alternates", format!("{}\n", outside.display()));
    sandbox.git("-c core.fsmonitor=false add -A -f");
    sandbox.git("-c core.fsmonitor=false -c core.hooksPath=/dev/null commit -q -m hostile");
    hostile.forget();
    assert_eq!(sandbox.git("-C deploy rev-parse --git-dir").trim(), ".", "git itself would take it");
    hostile.forget();
    sandbox.run("plan deploy --rev HEAD").code(0);
    sandbox.run("diff deploy --from HEAD").code(0);
    let json = sandbox.run("commit deploy --branch rendered --push -o json").code(0).json();
    assert_eq!(json["branches"][0]["pushed"], true, "to the remote of the repository around it");
    assert_eq!(sandbox.git("rev-list --count rendered").trim(), "1");
    sandbox.run("plan deploy --previous rendered:placements.yaml").code(0);
    assert!(!hostile.ran("ran"));
    // `GIT_DIR` names it.
    let run = |named: &str| {
        let mut command = sandbox.command("plan deploy --rev main");
        command.env("GIT_DIR", sandbox.path(named)).output().unwrap()
    };
    let said = String::from_utf8(run("deploy").stderr).unwrap();
    assert!(said.contains("no revision `main`"), "an empty repository: {said}");
    assert!(run(".git").status.success(), "another one is named");
}

#[test]
fn replaced_objects_and_grafts_do_not_count() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    hostile.commit_signed(&key, "good");
    let good = sandbox.git("rev-parse HEAD");
    sandbox.git("-c core.fsmonitor=false -c core.hooksPath=/dev/null commit -q --allow-empty -m evil");
    let evil = sandbox.git("rev-parse HEAD");
    sandbox.git(&format!("update-ref refs/replace/{} {}", evil.trim(), good.trim()));
    hostile.forget();
    let verify = |rev: &str| {
        sandbox.run(&format!("plan --rev {rev} --verify-signatures --allowed-signers {}", signers.display()))
    };
    assert!(verify("HEAD").code(2).err.contains("there is no signature"));
    // The same with a commit that a stranger signed.
    let stranger = hostile.key("stranger");
    hostile.commit_signed(&stranger, "strange");
    let strange = sandbox.git("--no-replace-objects rev-parse HEAD");
    sandbox.git(&format!("update-ref refs/replace/{} {}", strange.trim(), good.trim()));
    hostile.forget();
    assert!(verify("HEAD").code(2).err.contains("has no valid signature"));
    sandbox.write(".git/info/grafts", format!("{} {}", strange.trim(), good.trim()));
    assert!(verify("HEAD").code(2).err.contains("has no valid signature"));
    verify(good.trim()).code(0);
    assert!(!hostile.ran("ran"));
}

#[test]
fn every_file_of_a_revision_is_verified() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    hostile.commit_signed(&key, "good");
    sandbox.run("commit --branch rendered").code(0);
    let line = format!("--verify-signatures --allowed-signers {}", signers.display());
    let said =
        sandbox.run(&format!("plan --rev HEAD --previous rendered:placements.yaml {line}")).code(2).err;
    assert!(said.contains("the plan rendered:placements.yaml: revision `rendered`"), "{said}");
    assert!(said.contains("there is no signature"), "{said}");
    // A file that is named like a revision does not replace it.
    sandbox.write("rendered:placements.yaml", "{}");
    let said =
        sandbox.run(&format!("plan --rev HEAD --previous rendered:placements.yaml {line}")).code(2).err;
    assert!(said.contains("there is no signature"), "{said}");
    std::fs::copy(hostile.beside.path("signers"), sandbox.path("rendered:copy")).unwrap();
    let said = sandbox.run("plan --previous ./rendered:copy").code(2).err;
    assert!(said.contains("the plan ./rendered:copy:") && !said.contains("revision"), "{said}");
    let said = sandbox.run(&format!("diff --from HEAD~1 --to HEAD {line}")).code(2).err;
    assert!(said.contains("revision `HEAD~1`") && said.contains("there is no signature"), "{said}");
}

#[test]
fn allowed_signers_in_the_repository_are_refused() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    std::fs::copy(&signers, sandbox.path("signers")).unwrap();
    std::os::unix::fs::symlink(&signers, sandbox.path("link")).unwrap();
    std::os::unix::fs::symlink(signers.parent().unwrap(), sandbox.path("folder")).unwrap();
    sandbox.write(".federateignore", "link\nfolder\n");
    let verify =
        |file: &str| sandbox.run(&format!("plan --rev HEAD --verify-signatures --allowed-signers {file}"));
    hostile.commit_signed(&key, "good");
    verify("signers").code(0);
    sandbox.git("-c core.fsmonitor=false add -A");
    hostile.commit_signed(&key, "own");
    for file in ["signers", "./signers", "link", "folder/signers"] {
        let said = verify(file).code(2).err;
        assert!(said.contains("in the repository itself"), "{file}: {said}");
    }
    verify(&signers.display().to_string()).code(0);
}

#[test]
fn a_signed_tag_counts_under_its_own_name() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    sandbox.git(&format!(
        "-c gpg.format=ssh -c gpg.ssh.program=ssh-keygen -c user.signingkey={} tag -s v1 -m one",
        key.display()
    ));
    let verify = |rev: &str| {
        sandbox.run(&format!("plan --rev {rev} --verify-signatures --allowed-signers {}", signers.display()))
    };
    let id = sandbox.git("rev-parse v1");
    sandbox.git(&format!("update-ref refs/tags/v2 {}", id.trim()));
    for named in ["v1", "tags/v1", "refs/tags/v1", id.trim()] {
        verify(named).code(0);
    }
    for moved in ["v2", "refs/tags/v2", "v2^{tag}"] {
        let said = verify(moved).code(2).err;
        assert!(said.contains("the tag object is named `v1`"), "{moved}: {said}");
    }
}

#[test]
fn keys_that_have_expired_sign_nothing_of_the_past() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    let public = hostile.beside.read("good.pub");
    let list =
        |options: &str| std::fs::write(&signers, format!("dev@example.com {options} {public}")).unwrap();
    let past = |what: &str| {
        let dated = format!(
            "-c gpg.format=ssh -c gpg.ssh.program=ssh-keygen -c core.fsmonitor=false -c core.hooksPath=/dev/null \
             -c user.signingkey={} {what}",
            key.display()
        );
        sandbox.git_with(
            &dated,
            &[("GIT_COMMITTER_DATE", "2019-01-01T00:00:00Z"), ("GIT_AUTHOR_DATE", "2019-01-01T00:00:00Z")],
        )
    };
    past("commit -q -S --allow-empty -m backdated");
    past("tag -s old -m old");
    past("-c commit.gpgSign=false commit -q --allow-empty -m unsigned");
    past("tag -s only-tag -m only");
    let verify = |rev: &str| {
        sandbox.run(&format!("plan --rev {rev} --verify-signatures --allowed-signers {}", signers.display()))
    };
    list("valid-before=\"20200101\"");
    for rev in ["HEAD~1", "old", "only-tag"] {
        let said = verify(rev).code(2).err;
        assert!(said.contains("has no valid signature") && said.contains("key has expired"), "{rev}: {said}");
    }
    list("valid-after=\"20990101\"");
    assert!(verify("old").code(2).err.contains("key is not yet valid"));
    for options in ["valid-before=\"20990101\"", "valid-after=\"20200101\"", "namespaces=\"git\""] {
        list(options);
        for rev in ["HEAD~1", "old", "only-tag"] {
            verify(rev).code(0);
        }
    }
}

#[test]
fn what_is_verified_is_what_is_read() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    hostile.commit_signed(&key, "good");
    let good = sandbox.git("rev-parse HEAD").trim().to_owned();
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 66"));
    sandbox.git("-c core.fsmonitor=false -c core.hooksPath=/dev/null commit -q -a -m evil");
    let evil = sandbox.git("rev-parse HEAD").trim().to_owned();
    let branch = sandbox.path(".git/refs/heads/moving");
    let flip = |to: &str| {
        let next = branch.with_extension("next");
        std::fs::write(&next, format!("{to}\n")).unwrap();
        std::fs::rename(&next, &branch).unwrap();
    };
    flip(&good);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                flip(&evil);
                flip(&good);
            }
        });
        let line =
            format!("plan --rev moving --verify-signatures --allowed-signers {} -o json", signers.display());
        let ran: Vec<_> = (0..30).map(|_| sandbox.run(&line)).collect();
        done.store(true, Ordering::SeqCst);
        let passed: Vec<_> = ran.iter().filter(|ran| ran.code == 0).collect();
        assert!(!passed.is_empty());
        assert!(passed.iter().all(|ran| ran.json()["placements"][0]["clusters"][0]["replicas"] == 2));
    });
}

#[test]
fn objects_of_other_repositories_are_verified_too() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, beside } = &hostile;
    hostile.commit_signed(&key, "good");
    let verify =
        |rev: &str| format!("plan --rev {rev} --verify-signatures --allowed-signers {}", signers.display());
    // A commit that is only in another repository.
    sandbox.git(&format!("clone -q --bare . {}", beside.path("other.git").display()));
    let other = beside.path("other.git");
    let unsigned = format!("--git-dir={} commit-tree -p main -m evil main^{{tree}}", other.display());
    let evil = sandbox.git(&unsigned).trim().to_owned();
    let mut command = sandbox.command(&format!("plan --rev {evil}"));
    let output = command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", other.join("objects")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("no revision"), "the variable is ignored: {said}");
    sandbox.write(".git/objects/info/alternates", format!("{}\n", other.join("objects").display()));
    sandbox.run(&format!("plan --rev {evil}")).code(0);
    assert!(sandbox.run(&verify(&evil)).code(2).err.contains("there is no signature"));
    sandbox.run(&verify("HEAD")).code(0);
    assert!(!hostile.ran("ran"));
}

#[test]
fn an_object_is_what_its_id_says() {
    let hostile = Hostile::new();
    let (key, signers) = hostile.signer();
    let Hostile { sandbox, .. } = &hostile;
    hostile.commit_signed(&key, "good");
    sandbox.write("evil", WEB.replace("replicas: 4", "replicas: 66"));
    let evil = sandbox.git("hash-object -w evil");
    let object = |id: &str| {
        let (folder, file) = id.trim().split_at(2);
        sandbox.path(&format!(".git/objects/{folder}/{file}"))
    };
    let target = object(&sandbox.git("rev-parse HEAD:web.yaml"));
    std::fs::remove_file(&target).unwrap();
    std::fs::copy(object(&evil), &target).unwrap();
    let line = format!("plan --rev HEAD --verify-signatures --allowed-signers {}", signers.display());
    let ran = sandbox.run(&line).code(2);
    assert!(ran.err.contains("web.yaml") && ran.err.contains("mismatch"), "{ran:#?}");
}

/// Commits a tree, and gives its id.
fn commit_tree(repository: &git2::Repository, tree: git2::Oid) -> git2::Oid {
    let who = git2::Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
    repository.commit(None, &who, &who, "bomb", &repository.find_tree(tree).unwrap(), &[]).unwrap()
}

/// A tree that holds the same folder under each of these names, so many levels deep.
fn nested(repository: &git2::Repository, leaf: &[u8], names: &[String], levels: usize) -> git2::Oid {
    let blob = repository.blob(leaf).unwrap();
    let mut builder = repository.treebuilder(None).unwrap();
    builder.insert("a.txt", blob, 0o100_644).unwrap();
    let mut tree = builder.write().unwrap();
    for _ in 0..levels {
        let mut builder = repository.treebuilder(None).unwrap();
        for name in names {
            builder.insert(name, tree, 0o040_000).unwrap();
        }
        tree = builder.write().unwrap();
    }
    tree
}

#[test]
fn trees_that_stand_for_any_number_of_files_end_in_an_error() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    let repository = git2::Repository::open(sandbox.path("")).unwrap();
    let wide: Vec<String> = (0..10).map(|number| format!("{number}-{}", "n".repeat(200))).collect();
    for (names, levels) in [(wide, 10), (vec!["n".to_owned()], 5000)] {
        let from = commit_tree(&repository, nested(&repository, b"a", &names, levels));
        let to = commit_tree(&repository, nested(&repository, b"b", &names, levels));
        let ran = sandbox.run(&format!("plan --rev {from}")).code(2);
        assert!(ran.err.contains("the repo has too many files and folders, or too deep ones"), "{ran:#?}");
        let place = federate_source::git::GitLocation::discover_around(&sandbox.path("")).unwrap();
        assert_eq!(federate_source::git::changed_files(&place, from, to).unwrap(), None);
    }
    // Links with long targets, in great numbers.
    let deep = nested(&repository, b"a", &["n".to_owned()], 2000);
    let link = repository.blob("n/".repeat(2000).as_bytes()).unwrap();
    let mut builder = repository.treebuilder(None).unwrap();
    builder.insert("n", deep, 0o040_000).unwrap();
    for number in 0..5000 {
        builder.insert(format!("l{number}"), link, 0o120_000).unwrap();
    }
    let links = commit_tree(&repository, builder.write().unwrap());
    let ran = sandbox.run(&format!("plan --rev {links}")).code(2);
    assert!(ran.err.contains("passes through too many links"), "{ran:#?}");
}

#[test]
fn the_entries_of_a_revision_count_as_work() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    let repository = git2::Repository::open(sandbox.path("")).unwrap();
    let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let expected = "listing the files takes more than 100000 steps, --work-limit";
    for (levels, is_too_much) in [(2, false), (4, true)] {
        let commit = commit_tree(&repository, nested(&repository, b"a", &names, levels));
        let ran = sandbox.run(&format!("plan --rev {commit} --work-limit 100000"));
        assert_eq!(ran.code == 2 && ran.err.contains(expected), is_too_much, "{levels}: {ran:#?}");
    }
}

#[test]
fn links_with_a_nul_lead_nowhere() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    let repository = git2::Repository::open(sandbox.path("")).unwrap();
    let mut builder = repository.treebuilder(None).unwrap();
    for (name, target) in [("a.yaml", &b"b\0c.yaml"[..]), ("folder", b"n\0/..")] {
        builder.insert(name, repository.blob(target).unwrap(), 0o120_000).unwrap();
    }
    let links = commit_tree(&repository, builder.write().unwrap());
    let ran = sandbox.run(&format!("plan --rev {links}")).code(2);
    assert!(ran.err.contains("a.yaml") && !ran.err.contains("panicked"), "{ran:#?}");
    sandbox.run(&format!("plan --rev {links}:folder")).code(2);
}

/// A tree of 32 folders in each of its nine levels has 32⁹ entries and 1.8 kB.
#[test]
#[cfg(target_os = "linux")]
fn a_few_small_trees_end_soon_and_take_little() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    let repository = git2::Repository::open(sandbox.path("")).unwrap();
    let names: Vec<String> = (0..32).map(|number| format!("{number}")).collect();
    let bomb = commit_tree(&repository, nested(&repository, b"a", &names, 9));
    let started = std::time::Instant::now();
    // It takes some hundred MiB of addresses at its start.
    let ran = sandbox.limited("ulimit -v 3000000", &format!("plan --rev {bomb}")).code(2);
    assert!(ran.err.contains("the repo has too many files and folders, or too deep ones"), "{ran:#?}");
    assert!(started.elapsed() < std::time::Duration::from_mins(1), "{:?}", started.elapsed());
}

/// Writes a tree as it is, which git itself would not write.
fn write_raw_tree(repository: &git2::Repository, entries: &[(&str, &[u8], git2::Oid)]) -> git2::Oid {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(mode.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(id.as_bytes());
    }
    repository.odb().unwrap().write(git2::ObjectType::Tree, &bytes).unwrap()
}

#[test]
fn trees_that_git_refuses_are_refused_by_name() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    let repository = git2::Repository::open(sandbox.path("")).unwrap();
    let [one, other] = ["a: 1\n", "a: 2\n"].map(|text| repository.blob(text.as_bytes()).unwrap());
    let folder = write_raw_tree(&repository, &[("100644", b"a.yaml", one)]);
    let mut trees = vec![
        (
            write_raw_tree(&repository, &[("100644", b"a.yaml", one), ("100644", b"a.yaml", other)]),
            "two entries `a.yaml`",
        ),
        (
            write_raw_tree(
                &repository,
                &[("100644", b"a", one), ("100644", b"a.yaml", one), ("40000", b"a", folder)],
            ),
            "two entries `a`",
        ),
    ];
    for name in [".git", ".GIT", "..", ".", ".git ", "git~1", ".g\u{200c}it", ".git::$INDEX_ALLOCATION"] {
        let tree = write_raw_tree(&repository, &[("40000", name.as_bytes(), folder)]);
        trees.push((tree, "whose name"));
    }
    trees.push((
        write_raw_tree(&repository, &[("100644", b"b/../../c.yaml", one)]),
        "whose name contains a slash",
    ));
    for (tree, why) in trees {
        for root in [tree, write_raw_tree(&repository, &[("40000", b"below", tree)])] {
            let commit = repository_commit(&repository, root);
            let ran = sandbox.run(&format!("plan --rev {commit}")).code(2);
            assert!(ran.err.contains(why) && ran.err.contains("git refuses such a tree"), "{why}: {ran:#?}");
        }
    }
    // An empty name is no tree at all for libgit2.
    let empty = write_raw_tree(&repository, &[("100644", b"", one)]);
    sandbox.run(&format!("plan --rev {}", repository_commit(&repository, empty))).code(2);
}

/// Commits a tree that libgit2 may not read.
fn repository_commit(repository: &git2::Repository, tree: git2::Oid) -> git2::Oid {
    let text = format!(
        "tree {tree}\nauthor a <a@example.com> 0 +0000\ncommitter a <a@example.com> 0 +0000\n\nodd\n"
    );
    repository.odb().unwrap().write(git2::ObjectType::Commit, text.as_bytes()).unwrap()
}
