//! Revisions of real repositories: work trees, bare ones, subfolders, links, shallow clones.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A folder with a git repository.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        scratch.git("init -q -b main");
        scratch
    }

    fn git(&self, line: &str) {
        let mut command = Command::new("git");
        command.args(line.split(' ')).current_dir(self.0.path());
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@example.com");
        }
        let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "git {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.0.path().join(path)).unwrap();
    }

    fn commit(&self) {
        self.git("add -A");
        self.git("commit -q -m change");
    }

    fn place(&self, folder: &str) -> GitLocation {
        GitLocation::discover_around(&self.0.path().join(folder)).unwrap()
    }

    fn open(&self, folder: &str, rev: &str) -> GitRevision {
        open(self.place(folder), rev).unwrap()
    }
}

fn open(place: GitLocation, rev: &str) -> Result<GitRevision, Error> {
    let resolved = place.resolve_revision(&place.open_repository()?, rev)?;
    GitRevision::open_folder(place, &resolved)
}

fn kinds(revision: &GitRevision, folder: &str) -> BTreeMap<String, EntryKind> {
    revision.list_folder(folder).unwrap().into_iter().map(|e| (e.name, e.kind)).collect()
}

/// libgit2 would read beyond the end of the pack, and end the process.
#[test]
fn an_index_that_points_outside_of_its_pack_is_refused() {
    let scratch = Scratch::new();
    scratch.write("web.yaml", "a: 1\n");
    scratch.commit();
    scratch.git("repack -q -a -d");
    assert!(open(scratch.place(""), "HEAD").is_ok());
    let packs = scratch.0.path().join(".git/objects/pack");
    let is_index = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "idx");
    let index = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()).find(is_index).unwrap();
    let mut bytes = fs::read(&index).unwrap();
    // Three objects: a blob, a tree, a commit. Their offsets come after the head, ids and checksums.
    let offsets = 8 + 1024 + 3 * 24;
    bytes[offsets..offsets + 12].copy_from_slice(&0x0157_0000_u32.to_be_bytes().repeat(3));
    fs::remove_file(&index).unwrap();
    fs::write(&index, bytes).unwrap();
    let name = index.file_name().unwrap().to_string_lossy().into_owned();
    let refused = |place| open(place, "HEAD").err().unwrap().to_string();
    assert!(refused(scratch.place("")).contains(&name));
    // So is one of another repository, whose objects are used.
    let other = Scratch::new();
    other.write(".git/objects/info/alternates", &format!("{}\n", packs.parent().unwrap().display()));
    assert!(refused(other.place("")).contains(&name));
}

#[test]
fn a_revision_is_read_without_a_checkout() {
    let scratch = Scratch::new();
    scratch.write("apps/web.yaml", "a: 1\n");
    scratch.commit();
    scratch.write("apps/web.yaml", "a: 2\n");
    scratch.write("apps/new/b.yaml", "b: 1\n");
    scratch.commit();
    scratch.write("apps/web.yaml", "a: 3\n");
    let before = scratch.open("", "HEAD~1");
    assert_eq!(kinds(&before, "apps").into_keys().collect::<Vec<_>>(), ["web.yaml"]);
    assert_eq!(before.read_file("apps/web.yaml").unwrap(), b"a: 1\n");
    let now = scratch.open("apps", "main");
    assert_eq!(kinds(&now, "")["new"], EntryKind::Folder);
    assert_eq!(now.read_file("web.yaml").unwrap(), b"a: 2\n");
    assert_eq!(now.read_file("new/b.yaml").unwrap(), b"b: 1\n", "not listed before");
    assert!(now.read_file("absent.yaml").is_err());
    assert!(is_modified(&scratch.place("apps")).unwrap());
    assert!(!is_modified(&scratch.place("apps/new")).unwrap());
    let beside = tempfile::tempdir().unwrap();
    let bare = beside.path().join("bare.git");
    scratch.git(&format!("clone -q --bare . {}", bare.display()));
    let bare = open(GitLocation::discover_around(&bare.join("apps/new")).unwrap(), "main").unwrap();
    assert_eq!(bare.read_file("b.yaml").unwrap(), b"b: 1\n");
}

#[test]
fn links_are_followed_within_the_repository_only() {
    let scratch = Scratch::new();
    scratch.write("repo/real/a.yaml", "a: 1\n");
    scratch.write("secret.yaml", "password\n");
    for (path, target) in [
        ("repo/file.yaml", "real/a.yaml"),
        ("repo/folder", "./real"),
        ("repo/twice.yaml", "folder/../folder/a.yaml"),
        ("repo/out.yaml", "../secret.yaml"),
        ("repo/absolute.yaml", "/etc/passwd"),
        ("repo/gone.yaml", "real/b.yaml"),
        ("repo/loop.yaml", "loop.yaml"),
    ] {
        scratch.link(path, target);
    }
    scratch.commit();
    let found = kinds(&scratch.open("repo", "HEAD"), "");
    assert_eq!(found["file.yaml"], EntryKind::LinkToFile("real/a.yaml".into()));
    assert_eq!(found["folder"], EntryKind::LinkToFolder("real".into()));
    assert_eq!(found["twice.yaml"], EntryKind::LinkToFile("real/a.yaml".into()));
    assert_eq!(found["out.yaml"], EntryKind::LinkToFile("/secret.yaml".into()), "in the same repository");
    assert_eq!(found["absolute.yaml"], EntryKind::LinkOutside("/etc/passwd".into()));
    assert!(matches!(&found["gone.yaml"], EntryKind::Unreadable(why) if why.contains("does not exist")));
    assert!(matches!(&found["loop.yaml"], EntryKind::Unreadable(why) if why.contains("too many")));
}

#[test]
fn what_is_missing_is_named_with_a_remedy() {
    let scratch = Scratch::new();
    let error = |folder: &str, rev: &str| {
        open(scratch.place(folder), rev).map(|r| r.commit()).unwrap_err().to_string()
    };
    let unborn = error("", "HEAD");
    assert!(unborn.contains("no revision `HEAD`") && unborn.contains("has no commit yet"), "{unborn}");
    for number in 0..3 {
        scratch.write("a.yaml", &format!("a: {number}\n"));
        scratch.commit();
    }
    assert!(
        error("", "nope").contains("no revision `nope`") && error("", "nope").contains("branches are main")
    );
    let root = std::fs::canonicalize(scratch.place("").work_tree.unwrap()).unwrap();
    assert_eq!(error("apps", "main"), format!("revision `main` has no folder `apps` in {}", root.display()));
    let clone = scratch.0.path().join("shallow");
    scratch.git(&format!("clone -q --depth 1 file://{} {}", scratch.0.path().display(), clone.display()));
    let shallow = open(GitLocation::discover_around(&clone).unwrap(), "HEAD~2").map(|r| r.commit());
    let said = shallow.unwrap_err().to_string();
    assert!(said.contains("`HEAD~2`") && said.contains("fetch-depth"), "{said}");
    let none = tempfile::tempdir().unwrap();
    assert!(
        GitLocation::discover_around(none.path())
            .unwrap_err()
            .to_string()
            .contains("not in a git repository")
    );
}

#[test]
fn a_submodule_is_an_error() {
    let scratch = Scratch::new();
    scratch.write("a.yaml", "a: 1\n");
    scratch.commit();
    scratch.git("update-index --add --cacheinfo 160000,4b825dc642cb6eb9a060e54bf8d69288fbee4904,vendor");
    scratch.git("commit -q -m submodule");
    let found = kinds(&scratch.open("", "HEAD"), "");
    assert_eq!(found["vendor"], EntryKind::Submodule);
}

#[test]
fn a_bare_repository_in_a_work_tree_is_content_of_it() {
    let scratch = Scratch::new();
    scratch.write("deploy/a.yaml", "a: 1\n");
    scratch.commit();
    scratch.git("clone -q --bare . deploy/apps");
    scratch.git("init -q nested");
    let root = fs::canonicalize(scratch.0.path()).unwrap();
    let place = |folder: &str| GitLocation::discover_around(&root.join(folder)).unwrap();
    for folder in ["deploy/apps", "deploy/apps/refs", "deploy/apps/absent"] {
        let found = place(folder);
        assert_eq!((&found.git_dir, &*found.prefix), (&root.join(".git"), folder));
        assert!(found.embedded);
        let said = open(found, "main").map(|r| r.commit()).unwrap_err().to_string();
        assert!(said.contains("has no folder `deploy/apps") && said.contains("GIT_DIR"), "{said}");
    }
    assert_eq!(place("nested").git_dir, root.join("nested/.git"), "a clone in a clone is one of its own");
    assert_eq!(place(".git").prefix, "", "`.git` stands for the repository");
    assert_eq!(place("deploy").prefix, "deploy");
    fs::rename(root.join(".git"), root.join("git")).unwrap();
    assert_eq!(place("deploy/apps").git_dir, root.join("deploy/apps"), "there is no other");
}

#[test]
fn a_revision_and_a_path_are_distinguished() {
    assert_eq!(rev_and_path("rendered:a/b.yaml"), Some(("rendered", "a/b.yaml")));
    assert_eq!(rev_and_path("main@{2026-11-22 10:00}:a:b"), Some(("main@{2026-11-22 10:00}", "a:b")));
    assert_eq!(rev_and_path("HEAD^{/fix: x}:a"), Some(("HEAD^{/fix: x}", "a")));
    for none in [":a", "a:", "a", ":0:a", "", "{:"] {
        assert_eq!(rev_and_path(none), None, "{none}");
    }
}

/// What builds a repo lists folders by itself: it ends as well.
#[test]
fn a_few_small_trees_cannot_be_listed_for_ever() {
    let scratch = Scratch::new();
    let repository = Repository::open(scratch.0.path()).unwrap();
    let mut tree = repository.treebuilder(None).unwrap().write().unwrap();
    for _ in 0..9 {
        let mut builder = repository.treebuilder(None).unwrap();
        for name in 0..32 {
            builder.insert(name.to_string(), tree, TREE_MODE).unwrap();
        }
        tree = builder.write().unwrap();
    }
    let who = git2::Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
    let tree = repository.find_tree(tree).unwrap();
    repository.commit(Some("HEAD"), &who, &who, "bomb", &tree, &[]).unwrap();
    let revision = scratch.open("", "HEAD");
    let (mut folders, mut listed) = (vec![String::new()], 0);
    let error = loop {
        let folder = folders.pop().unwrap();
        match revision.list_folder(&folder) {
            Ok(entries) => {
                listed += entries.len();
                let below = |name: String| if folder.is_empty() { name } else { format!("{folder}/{name}") };
                folders.extend(entries.into_iter().map(|entry| below(entry.name)));
            }
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("too many files and folders"), "{error}");
    assert!(listed < 1_000_000, "{listed}");
    // What was listed is found, and what was not, too.
    assert!(revision.folder_id("0/1").is_some() && revision.folder_id("31/30/29").is_some());
    assert!(revision.folder_id("0/x").is_none());
}
