//! Publishing to a folder: ownership, unchanged files, removal, interrupted runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use crate::paths::PLACEMENTS;
use federate_dialect::{Placed, Placement};
use federate_engine::Manifest;
use federate_kubernetes::ObjectRef;

mod indexed;
mod kill;

fn object(name: &str) -> ObjectRef {
    let (namespace, name) = name.split_once('/').unwrap();
    ObjectRef {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: Some(namespace.into()),
        name: name.into(),
    }
}

/// A tree from rows: clusters (separated by spaces), `namespace/name`, text.
fn tree(rows: &[(&str, &str, &str)]) -> OutputTree {
    let mut plan = Plan::default();
    let mut manifests = Vec::new();
    for &(clusters, name, text) in rows {
        let mut placement = Placement::new("karmada", object(name), None);
        let clusters: Vec<_> = clusters.split(' ').map(Into::into).collect();
        placement.clusters = clusters.iter().cloned().map(|name| Placed { name, replicas: None }).collect();
        plan.placements.push(placement);
        manifests.push(Manifest {
            object: object(name),
            clusters: clusters.into(),
            text: text.into(),
            value: None,
            changes: Vec::new(),
        });
    }
    OutputTree::new(serde_json::to_string(&plan).unwrap(), manifests).unwrap()
}

/// The folder of indexes in the temporary folder.
const CACHE: &str = ".cache";

/// A temporary folder that contains `out`.
struct Sandbox(TempDir);

impl Sandbox {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A sandbox with two published clusters.
    fn published() -> (Self, OutputTree) {
        let (sandbox, tree) = (Self::new(), two_clusters());
        sandbox.publish(&tree).unwrap();
        (sandbox, tree)
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn publish(&self, tree: &OutputTree) -> Result<Summary, Error> {
        publish(&self.out(), tree)
    }

    /// The other entries next to `out`.
    fn litter(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name());
        names.map(|n| n.into_string().unwrap()).filter(|n| n != "out" && n != CACHE).collect()
    }

    fn assert_holds(&self, tree: &OutputTree) {
        assert_eq!(files(&self.out()), expected(tree));
        assert_eq!(self.litter(), [""; 0]);
    }

    fn refused(&self, tree: &OutputTree) -> String {
        let before = files(&self.out());
        let message = self.publish(tree).unwrap_err().to_string();
        assert_eq!(files(&self.out()), before, "a refusal changes nothing");
        assert_eq!(self.litter(), [""; 0]);
        message
    }
}

fn open(path: &Path) -> Result<OutputFolder, Error> {
    OutputFolder::lock_path(path, &[], || {})?.read_plan(None)
}

fn publish(path: &Path, tree: &OutputTree) -> Result<Summary, Error> {
    // Every test runs with an index, so that it shows if a stale one is ever used.
    OutputFolder::lock_path(path, &[], || {})?.read_plan(Some(path.with_file_name(CACHE)))?.publish_tree(tree)
}

fn two_clusters() -> OutputTree {
    tree(&[
        ("m1 m2", "shop/web", "replicas: 1\n"),
        ("m1", "shop/db", "x: 1\n"),
        ("m2", "infra/log", "y: 1\n"),
    ])
}

/// Every file below a folder by its path, and every empty folder.
fn files(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<String, String>) {
        let mut empty = true;
        for entry in fs::read_dir(at).into_iter().flatten() {
            let (path, kind) = entry.map(|e| (e.path(), e.file_type().unwrap())).unwrap();
            empty = false;
            if kind.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap_or_default());
            }
        }
        if empty {
            found.insert(format!("{}/", at.strip_prefix(root).unwrap().display()), String::new());
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

fn expected(tree: &OutputTree) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([(PLACEMENTS.to_owned(), tree.placements().to_owned())]);
    for (cluster, namespaces) in tree.files() {
        for (namespace, files) in namespaces {
            all.extend(
                files.iter().map(|f| (format!("{cluster}/{namespace}/{}", f.name()), f.text().to_owned())),
            );
        }
    }
    all
}

/// The inode and the change time.
fn identity(path: &Path) -> (u64, SystemTime) {
    let meta = fs::metadata(path).unwrap();
    (meta.ino(), meta.modified().unwrap())
}

#[test]
fn writes_a_new_folder_and_the_parents_it_needs() {
    let sandbox = Sandbox::new();
    let out = sandbox.out().join("a/b");
    let summary = publish(&out, &two_clusters()).unwrap();
    assert_eq!(summary.to_string(), "4 created in 2 clusters");
    assert_eq!(files(&out), expected(&two_clusters()));
    assert!(files(&out).contains_key("m1/shop/configmap_web.yaml"));
}

#[test]
fn a_run_that_does_not_publish_leaves_nothing() {
    let sandbox = Sandbox::new();
    drop(open(&sandbox.0.path().join("a/b/c")).unwrap());
    assert_eq!(sandbox.litter(), [""; 0]);
}

#[test]
fn what_is_the_same_stays_the_same_file() {
    let (sandbox, old) = Sandbox::published();
    let out = sandbox.out();
    let web = out.join("m1/shop/configmap_web.yaml");
    let before = (identity(&web), identity(&out));

    let summary = sandbox.publish(&old).unwrap();
    assert!(summary.is_unchanged());
    assert_eq!((identity(&web), identity(&out)), before, "nothing differs, so nothing is touched");

    let new = tree(&[("m1 m2", "shop/web", "replicas: 1\n"), ("m1", "shop/db", "x: 2\n")]);
    let summary = sandbox.publish(&new).unwrap();
    assert_eq!(summary.to_string(), "1 updated, 1 removed, 2 unchanged in 2 clusters");
    assert_eq!(summary.clusters[0].updated, ["m1/shop/configmap_db.yaml"]);
    assert_eq!(summary.clusters[1].removed, ["m2/infra/configmap_log.yaml"]);
    assert_eq!(identity(&web), before.0);
    sandbox.assert_holds(&new);
}

#[test]
fn folders_vanish_with_their_last_file() {
    let (sandbox, _) = Sandbox::published();
    let new = tree(&[("m1", "infra/log", "y: 1\n")]);
    sandbox.publish(&new).unwrap();
    sandbox.assert_holds(&new);
    let none = tree(&[]);
    assert_eq!(sandbox.publish(&none).unwrap().to_string(), "1 removed in 1 cluster");
    sandbox.assert_holds(&none);
}

#[test]
fn a_changed_or_missing_file_is_put_right() {
    let (sandbox, old) = Sandbox::published();
    // The same length, longer by one, and deleted.
    fs::write(sandbox.out().join("m1/shop/configmap_db.yaml"), "x: 2\n").unwrap();
    fs::write(sandbox.out().join("m2/infra/configmap_log.yaml"), "y: 1\n\n").unwrap();
    fs::remove_file(sandbox.out().join("m1/shop/configmap_web.yaml")).unwrap();
    let summary = sandbox.publish(&old).unwrap();
    assert_eq!(summary.to_string(), "1 created, 2 updated, 1 unchanged in 2 clusters");
    sandbox.assert_holds(&old);
}

#[test]
fn a_folder_without_a_plan_must_be_empty() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.out()).unwrap();
    fs::write(sandbox.out().join("notes.txt"), "mine").unwrap();
    let message = sandbox.refused(&two_clusters());
    assert!(message.contains("notes.txt") && message.contains("empty folder"), "{message}");
    fs::remove_file(sandbox.out().join("notes.txt")).unwrap();
    sandbox.publish(&two_clusters()).unwrap();
    sandbox.assert_holds(&two_clusters());
}

#[test]
fn whatever_the_plan_does_not_account_for_is_refused() {
    type Plant = fn(&Path);
    let foreign: [(&str, Plant); 8] = [
        ("README.md", |path| fs::write(path, "").unwrap()),
        (".git/", |path| fs::create_dir(path).unwrap()),
        ("m1/notes.txt", |path| fs::write(path, "").unwrap()),
        ("m1/infra/", |path| fs::create_dir(path).unwrap()),
        ("m1/shop/configmap_mine.yaml", |path| fs::write(path, "").unwrap()),
        ("m1/shop/old/", |path| fs::create_dir(path).unwrap()),
        ("m3", |path| symlink("m1", path).unwrap()),
        ("m1/shop/link", |path| symlink("configmap_web.yaml", path).unwrap()),
    ];
    for (name, plant) in foreign {
        let (sandbox, old) = Sandbox::published();
        plant(&sandbox.out().join(name));
        let message = sandbox.refused(&old);
        assert!(message.contains(&format!("contains {name}, which")), "{message}");
        sandbox.refused(&tree(&[("m1", "shop/mine", "x: 1\n"), ("m1 m3", "infra/log", "x: 1\n")]));
    }
}

#[test]
fn a_symlink_in_the_place_of_a_file_or_folder_of_ours_is_refused() {
    for name in ["m1/shop/configmap_db.yaml", "m1/shop", "m1"] {
        let (sandbox, old) = Sandbox::published();
        let aside = sandbox.0.path().join("out/aside");
        fs::rename(sandbox.out().join(name), &aside).unwrap();
        symlink(&aside, sandbox.out().join(name)).unwrap();
        assert!(sandbox.refused(&old).contains(name));
    }
}

#[test]
fn only_the_first_foreign_files_are_named() {
    let (sandbox, old) = Sandbox::published();
    for name in 0..7 {
        fs::write(sandbox.out().join(format!("{name}\u{1b}")), "").unwrap();
    }
    let message = sandbox.refused(&old);
    assert!(message.contains("4\\u{1b} and 2 more") && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn a_foreign_placements_file_is_not_a_plan() {
    for text in ["{\"kind\":\"Plan\"}", "[1]", "{\"apiVersion\":\"v1\",\"kind\":\"List\"}", ""] {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.out()).unwrap();
        fs::write(sandbox.out().join(PLACEMENTS), text).unwrap();
        let message = sandbox.refused(&two_clusters());
        assert!(message.contains("not a plan that federate can read"), "{message}");
    }
}

#[test]
fn the_repo_the_working_directory_and_all_around_them_are_kept() {
    let sandbox = Sandbox::new();
    let repo = sandbox.0.path().join("work/repo");
    fs::create_dir_all(&repo).unwrap();
    for path in ["work/repo", "work/repo/../repo/.", "work", "/"] {
        let error = OutputFolder::lock_path(&sandbox.0.path().join(path), &[&repo], || {}).unwrap_err();
        assert!(matches!(error, Error::Unsuitable { .. }), "{error}");
    }
    let inside =
        OutputFolder::lock_path(&repo.join("out"), &[&repo], || {}).unwrap().read_plan(None).unwrap();
    inside.publish_tree(&two_clusters()).unwrap();
    assert_eq!(files(&repo.join("out")), expected(&two_clusters()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_mount_point_cannot_be_replaced() {
    let message = open(Path::new("/proc")).unwrap_err().to_string();
    assert!(message.contains("mount point"), "{message}");
}

#[test]
fn a_file_is_no_folder() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.out(), "").unwrap();
    assert!(matches!(open(&sandbox.out()), Err(Error::NotAFolder { .. })));
}

#[test]
fn a_symlink_to_a_folder_stands_for_that_folder() {
    let sandbox = Sandbox::new();
    symlink("real/tree", sandbox.out()).unwrap();
    for tree in [two_clusters(), tree(&[("m1", "shop/web", "x: 1\n")])] {
        sandbox.publish(&tree).unwrap();
        assert!(fs::symlink_metadata(sandbox.out()).unwrap().is_symlink());
        assert_eq!(files(&sandbox.0.path().join("real/tree")), expected(&tree));
        assert_eq!(sandbox.litter(), ["real"]);
    }
}

#[test]
fn new_files_are_readable_and_the_folders_own_mode_stays() {
    let (sandbox, _) = Sandbox::published();
    fs::set_permissions(sandbox.out(), fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.publish(&tree(&[("m1", "shop/web", "x: 1\n")])).unwrap();
    let mode = |name: &str| fs::metadata(sandbox.out().join(name)).unwrap().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("m1/shop/configmap_web.yaml") & 0o700, 0o600);
    assert_eq!(mode("m1/shop/configmap_web.yaml") & 0o133, 0);
}

#[test]
fn where_hard_links_fail_a_copy_keeps_the_time() {
    let sandbox = Sandbox::new();
    let path = sandbox.0.path();
    for name in ["a", "b"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    fs::write(path.join("a/f"), "text").unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 500);
    fs::File::options().write(true).open(path.join("a/f")).unwrap().set_modified(long_ago).unwrap();
    let fd = |name: &str| entries::open_folder(rustix::fs::CWD, path.join(name)).unwrap();
    entries::copy_with_time(fd("a").as_fd(), fd("b").as_fd(), "f", "text").unwrap();
    assert_eq!(fs::read_to_string(path.join("b/f")).unwrap(), "text");
    assert_eq!(identity(&path.join("b/f")).1, long_ago);
}

#[test]
fn a_link_in_the_place_of_litter_is_removed_not_followed() {
    let (sandbox, old) = Sandbox::published();
    let precious = tempfile::tempdir().unwrap();
    fs::create_dir_all(precious.path().join("a/b")).unwrap();
    symlink(precious.path(), sandbox.0.path().join(".out.federate-new")).unwrap();
    sandbox.publish(&old).unwrap();
    sandbox.assert_holds(&old);
    assert!(precious.path().join("a/b").is_dir());
}

#[test]
fn a_link_in_the_place_of_the_lock_is_refused() {
    let (sandbox, old) = Sandbox::published();
    let (lock, target) = (sandbox.0.path().join(".out.federate-lock"), sandbox.0.path().join("target"));
    symlink(&target, &lock).unwrap();
    for kind in ["dangling", "leading to a file"] {
        let message = open(&sandbox.out()).map(drop).unwrap_err().to_string();
        assert!(message.starts_with("cannot lock") && message.ends_with("remove it"), "{kind}: {message}");
        assert_eq!(target.exists(), kind != "dangling");
        fs::write(&target, "mine").unwrap();
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    fs::remove_file(&lock).unwrap();
    sandbox.publish(&old).unwrap();
}

#[test]
fn a_failure_half_way_leaves_the_old_tree_and_no_litter() {
    let (sandbox, old) = Sandbox::published();
    let folder = open(&sandbox.out()).unwrap();
    // A foreign file is in the place where the new tree is built.
    fs::write(folder.location.path_beside(stage::NEW_FOLDER), "").unwrap();
    assert!(matches!(folder.publish_tree(&tree(&[])), Err(Error::Io { .. })));
    sandbox.assert_holds(&old);
}

#[test]
fn a_second_publisher_waits_for_the_first_and_says_so() {
    let (sandbox, _) = Sandbox::published();
    let first = open(&sandbox.out()).unwrap();
    let (waits, waiting) = mpsc::channel();
    let out = sandbox.out();
    let second = thread::spawn(move || {
        let folder =
            OutputFolder::lock_path(&out, &[], || waits.send(()).unwrap()).unwrap().read_plan(None).unwrap();
        let seen = folder.previous_plan().unwrap().placements.len();
        folder.publish_tree(&two_clusters()).unwrap();
        seen
    });
    waiting.recv_timeout(Duration::from_secs(20)).unwrap();
    first.publish_tree(&tree(&[("m9", "shop/web", "x: 1\n")])).unwrap();
    assert_eq!(second.join().unwrap(), 1, "the second reads what the first has written");
    sandbox.assert_holds(&two_clusters());
}

#[test]
fn many_publishers_at_once_end_with_one_whole_tree() {
    let sandbox = Sandbox::new();
    thread::scope(|scope| {
        for text in ["x: 1\n", "x: 2\n", "x: 3\n", "x: 4\n"] {
            let out = sandbox.out();
            scope.spawn(move || {
                for name in ["shop/web", "shop/db", "infra/web"] {
                    publish(&out, &tree(&[("m1 m2", name, text)])).unwrap();
                }
            });
        }
    });
    let found = files(&sandbox.out());
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found["m1/infra/configmap_web.yaml"], found["m2/infra/configmap_web.yaml"]);
    assert_eq!(sandbox.litter(), [""; 0]);
}
