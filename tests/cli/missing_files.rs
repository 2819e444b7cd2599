//! Files that a clone lacks are errors: nothing that they hold is taken for deleted.

use crate::sandbox::Sandbox;

fn config(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n")
}

fn repo() -> Sandbox {
    let sandbox = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: eu}]\nunplaced: everywhere\n")
        .file("a/one.yaml", config("one"))
        .file("b/two.yaml", config("two"))
        .file("b/LICENSE", "text");
    sandbox.git("init -q -b main");
    save(&sandbox);
    sandbox
}

fn save(sandbox: &Sandbox) {
    sandbox.git("add -A");
    sandbox.git("commit -q -m change");
}

const LFS: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:b8e5ab63b8ed3b7ba7ed67e8d8a1b4ec9ca7b3d93d0f8d0e4b3ff7cdd5c8d6a1\nsize 77\n";

/// Every command that reads the repo fails, and says the same.
#[track_caller]
fn all_fail(sandbox: &Sandbox, words: &[&str]) {
    for line in ["check", "plan", "render --out .out", "commit --branch rendered", "diff --from main.."] {
        let ran = sandbox.run(line).code(2);
        for word in words {
            assert!(ran.err.contains(word) || ran.out.contains(word), "{line}: {word}: {ran:#?}");
        }
    }
    assert!(!sandbox.path(".out").exists());
}

#[test]
fn a_git_lfs_pointer_is_an_error_in_work_trees_and_revisions() {
    let sandbox = repo();
    sandbox.write("b/two.yaml", LFS);
    all_fail(&sandbox, &["b/two.yaml", "Git LFS pointer", "git lfs pull"]);
    sandbox.write("b/values.txt", LFS);
    sandbox.write("b/two.json", LFS.replace('\n', "\r\n"));
    sandbox.write("b/two.yaml.j2", LFS);
    save(&sandbox);
    let err = sandbox.run("plan --rev HEAD").code(2).err;
    assert!(err.contains("--> b/two.json\n = note: also b/two.yaml, b/two.yaml.j2\n"), "{err}");
    assert!(!err.contains("values.txt"), "{err}");
    let err = sandbox.run("diff --from main~1.. --to main").code(2).err;
    assert!(err.contains("Git LFS pointer"), "{err}");
    // What is ignored is not needed.
    sandbox.write(".federateignore", "b/\n");
    sandbox.run("plan").code(0);
    sandbox.write("federate.yaml", LFS);
    assert!(sandbox.run("plan").code(2).err.contains("federate.yaml\n"));
}

#[test]
fn what_a_file_that_cannot_be_read_holds_is_not_deleted() {
    let sandbox = repo();
    for name in ["p", "q", "r", "s", "t"] {
        sandbox.write(&format!("a/{name}.yaml"), config(name));
    }
    sandbox.run("commit --branch rendered").code(0);
    sandbox.run("render --out .out").code(0);
    let (before, files) = (sandbox.git("rev-parse rendered"), sandbox.files(".out"));
    sandbox.write("b/two.yaml", LFS);
    for line in ["commit --branch rendered --keep-going", "render --out .out --keep-going"] {
        let ran = sandbox.run(line).code(2);
        assert!(ran.err.contains("1 of the 7 objects") && ran.err.contains("cannot be read"), "{ran:#?}");
    }
    assert_eq!((sandbox.git("rev-parse rendered"), sandbox.files(".out")), (before.clone(), files));
    sandbox.run("commit --branch rendered --keep-going --prune-limit 100").code(2);
    assert_ne!(sandbox.git("rev-parse rendered"), before);
}

#[test]
fn a_revision_is_read_with_the_lfs_contents_of_the_clone() {
    let sandbox = repo();
    let text = config("two");
    sandbox.write(".git/content", &text);
    let digest = std::process::Command::new("sha256sum").arg(sandbox.path(".git/content")).output().unwrap();
    let id = String::from_utf8(digest.stdout).unwrap()[..64].to_owned();
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{id}\nsize {}\n", text.len());
    sandbox.write("b/two.yaml", pointer);
    save(&sandbox);
    sandbox.run("plan --rev HEAD").code(2);
    let stored = format!(".git/lfs/objects/{}/{}/{id}", &id[..2], &id[2..4]);
    sandbox.write(&stored, "something else");
    sandbox.run("plan --rev HEAD").code(2);
    sandbox.write(&stored, &text);
    assert!(sandbox.run("plan --rev HEAD").code(0).out.contains("ConfigMap shop/two"));
    sandbox.write("b/two.yaml", &text);
    sandbox.run("diff --from main..").code(0);
}

#[test]
fn a_sparse_checkout_is_an_error_where_manifests_are_left_out() {
    for options in ["--no-sparse-index", "--sparse-index"] {
        let sandbox = repo();
        sandbox.git(&format!("sparse-checkout set {options} a"));
        assert!(!sandbox.path("b").exists());
        let words = ["b/two.yaml", "sparse checkout", "git sparse-checkout disable"];
        for line in ["check", "plan", "render --out .out", "commit --branch rendered"] {
            let ran = sandbox.run(line).code(2);
            let text = ran.out + &ran.err;
            assert!(
                words.iter().all(|word| text.contains(word)) && !text.contains("LICENSE"),
                "{line}: {text}"
            );
        }
        assert!(sandbox.run("plan --rev HEAD").code(0).out.contains("ConfigMap shop/two"));
        // A repo is a folder: what is outside of it is not missed.
        sandbox.run("plan a").code(0);
        sandbox.write(".federateignore", "/b\n");
        sandbox.run("plan").code(0);
        std::fs::remove_file(sandbox.path(".federateignore")).unwrap();
        sandbox.git("sparse-checkout disable");
        sandbox.run("plan").code(0);
    }
}

#[test]
fn a_file_that_git_skips_is_missed_and_a_deleted_one_is_not() {
    let sandbox = repo();
    std::fs::remove_file(sandbox.path("b/two.yaml")).unwrap();
    sandbox.run("plan").code(0);
    sandbox.git("update-index --skip-worktree b/two.yaml");
    assert!(sandbox.run("plan").code(2).err.contains("b/two.yaml"));
    sandbox.git("update-index --index-version 4");
    assert!(sandbox.run("plan b").code(2).err.contains("two.yaml"));
    sandbox.write("b/two.yaml", config("here"));
    sandbox.run("plan").code(0);
}

#[test]
fn a_submodule_gets_one_answer_everywhere() {
    let library = Sandbox::new().file("lib.yaml", config("library"));
    library.git("init -q -b main");
    save(&library);
    let sandbox = repo();
    let address = library.path("").display().to_string();
    sandbox.git(&format!("-c protocol.file.allow=always submodule --quiet add {address} lib.d"));
    save(&sandbox);
    for line in ["plan", "plan --rev HEAD"] {
        assert!(sandbox.run(line).code(0).out.contains("ConfigMap shop/library"), "{line}");
    }
    sandbox.run("diff --from main..").code(0);
    // Not checked out, in a clone.
    let clone = Sandbox::new();
    clone.git(&format!("clone -q {} .", sandbox.path("").display()));
    for line in ["check", "plan", "plan --rev HEAD", "diff --from main..", "commit --branch rendered"] {
        let ran = clone.run(line).code(2);
        let text = ran.out + &ran.err;
        assert!(text.contains("lib.d\n") && text.contains("git submodule update --init"), "{line}: {text}");
    }
    clone.write(".federateignore", "lib.d\n");
    clone.run("plan").code(0);
    clone.write(".federateignore", "");
    clone.write("federate.yaml", "clusters: [{name: eu}]\nunplaced: everywhere\npaths: [a, 'b/*.yaml']\n");
    clone.run("plan").code(0);
}

#[test]
fn dangling_links_are_errors_where_they_would_be_read() {
    let sandbox = repo();
    std::os::unix::fs::symlink("../gone.yaml", sandbox.path("a/link.yaml")).unwrap();
    std::os::unix::fs::symlink("../gone.md", sandbox.path("a/README.md")).unwrap();
    let ran = sandbox.run("plan").code(2);
    assert!(ran.err.contains("a/link.yaml\n") && !ran.err.contains("README"), "{}", ran.err);
    save(&sandbox);
    let ran = sandbox.run("plan --rev HEAD").code(2);
    assert!(ran.err.contains("a/link.yaml\n") && !ran.err.contains("README"), "{}", ran.err);
}

#[test]
fn a_merge_that_is_not_resolved_is_named() {
    let sandbox = repo();
    let conflict =
        format!("{}<<<<<<< HEAD\ndata: {{a: b}}\n=======\ndata: {{a: c}}\n>>>>>>> topic\n", config("one"));
    for path in ["a/one.yaml", "a/one.yaml.j2", "a/one.json"] {
        sandbox.write(path, &conflict);
        let ran = sandbox.run("check").code(2);
        assert!(
            ran.out.contains(&format!("{path}:4:1")) && ran.out.contains("unresolved merge conflict"),
            "{ran:#?}"
        );
        assert_eq!(ran.out.matches("error[").count(), 1, "{ran:#?}");
        std::fs::remove_file(sandbox.path(path)).unwrap();
    }
    sandbox.write("federate.yaml", "<<<<<<< HEAD\nclusters: []\n=======\n>>>>>>> topic\n");
    assert!(sandbox.run("check").code(2).out.contains("unresolved merge conflict"));
}

#[test]
fn a_repository_without_a_commit_is_named() {
    let sandbox =
        Sandbox::new().file("a.yaml", config("a")).file("federate.yaml", "clusters: [{name: eu}]\n");
    sandbox.git("init -q -b main");
    for line in ["plan --rev HEAD", "plan --rev main", "diff", "diff --from main", "diff --from HEAD"] {
        let err = sandbox.run(line).code(2).err;
        assert!(err.contains("no commit yet") && err.lines().count() == 1, "{line}: {err}");
    }
    sandbox.run("commit --branch rendered").code(0);
}

#[test]
fn a_repository_above_the_folder_is_named_and_ceilings_hide_it() {
    let sandbox = repo();
    sandbox.write("work/new/federate.yaml", "clusters: [{name: eu}]\nunplaced: everywhere\n");
    sandbox.write("work/new/c.yaml", config("c"));
    for line in ["plan work/new --rev HEAD", "diff work/new --from main", "commit work/new --branch rendered"]
    {
        assert!(sandbox.run(line).err.contains("<repo>"), "{line}");
    }
    let ceiling = |path: &str, line: &str| {
        let ceiling = sandbox.path(path);
        sandbox.command(line).env("GIT_CEILING_DIRECTORIES", ceiling).output().unwrap()
    };
    let hidden = ceiling("work", "diff work/new --from main");
    assert_eq!(hidden.status.code(), Some(2));
    let err = String::from_utf8_lossy(&hidden.stderr).into_owned();
    assert!(err.contains("not in a git repository") && err.contains("GIT_CEILING_DIRECTORIES"), "{err}");
    // As in git, a ceiling hides what is above it, and not what is in the folder itself.
    assert_eq!(ceiling("", "diff . --from main -q").status.code(), Some(1));
    assert_eq!(ceiling("a", "diff . --from main -q").status.code(), Some(1));
}
