//! Walking a work tree: links, ignore files, hidden names, the output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use federate_kubernetes::Finding;
use federate_repo::walk::{FileSelection, read_selected_files};
use federate_repo::{Config, ReadOptions};
use federate_source::WorkTree;

/// A folder with these files; parents are created as needed.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn walk(dir: &Path, config: &Config, output: Option<&str>) -> (Vec<String>, Vec<Finding>) {
    let options = ReadOptions { output: output.map(str::to_owned), ..ReadOptions::default() };
    let (selection, bad) = FileSelection::new(config, None, &options);
    assert_eq!(bad, []);
    let (files, findings) = read_selected_files(&WorkTree::open(dir).unwrap(), &selection);
    (files.iter().map(|f| f.path.to_string()).collect(), findings)
}

/// The paths that are read, if there are no findings.
fn paths(dir: &Path) -> Vec<String> {
    let (files, findings) = walk(dir, &Config::default(), None);
    assert_eq!(findings, []);
    files
}

#[cfg(unix)]
fn link(dir: &TempDir, target: &str, name: &str) {
    std::os::unix::fs::symlink(target, dir.path().join(name)).unwrap();
}

#[test]
fn reads_manifests_and_templates_sorted_by_path() {
    let dir = tree(&[
        ("b/x.yml", "1"),
        ("a.yaml", "2"),
        ("b.yaml", "3"),
        ("b/y.json", "4"),
        ("c.yaml.j2", "5"),
        ("README.md", "6"),
        (".hidden.yaml", "7"),
        (".git/config.yaml", "8"),
        ("federate.yaml", "9"),
        ("b/federate.yaml", "10"),
    ]);
    assert_eq!(
        paths(dir.path()),
        ["a.yaml", "b.yaml", "b/federate.yaml", "b/x.yml", "b/y.json", "c.yaml.j2"]
    );
}

#[test]
fn ignore_files_hold_at_every_level() {
    let dir = tree(&[
        (".gitignore", "tmp/\n*.local.yaml\n"),
        (".federateignore", "charts\n"),
        ("a.yaml", ""),
        ("a.local.yaml", ""),
        ("charts/values.yaml", ""),
        ("deep/tmp/x.yaml", ""),
        ("deep/.gitignore", "!keep.local.yaml\nx.yaml\n"),
        ("deep/keep.local.yaml", ""),
        ("deep/x.yaml", ""),
    ]);
    assert_eq!(paths(dir.path()), ["a.yaml", "deep/keep.local.yaml"]);
}

#[test]
fn output_folders_are_not_read() {
    let plan = "apiVersion: federate.dev/v1alpha1\nkind: Plan\nplacements: []\n";
    let dir = tree(&[
        ("a.yaml", ""),
        ("named/m1/default/x.yaml", ""),
        ("old/placements.yaml", plan),
        ("old/m1/default/x.yaml", ""),
        ("own/placements.yaml", "kind: Table\n"),
        ("out/m1/x.yaml", ""),
        ("out-of-this/x.yaml", ""),
    ]);
    let config = Config { output: Some("./out/".to_owned()), ..Config::default() };
    let (files, findings) = walk(dir.path(), &config, Some("named"));
    assert_eq!(findings, []);
    assert_eq!(files, ["a.yaml", "out-of-this/x.yaml", "own/placements.yaml"]);
}

#[test]
fn a_plan_at_the_root_does_not_hide_the_repo() {
    let dir = tree(&[("placements.yaml", "apiVersion: federate.dev/v1alpha1\nkind: Plan\n"), ("a.yaml", "")]);
    assert_eq!(paths(dir.path()), ["a.yaml", "placements.yaml"]);
}

#[test]
fn configuration_narrows_what_is_read() {
    let dir = tree(&[
        ("apps/a/prod/x.yaml", ""),
        ("apps/a/dev/x.yaml", ""),
        ("clusters/m1.yaml", ""),
        ("other/apps/a/prod/x.yaml", ""),
    ]);
    let lines = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect();
    let config = Config { paths: lines(&["apps/*/prod", "./clusters"]), ..Config::default() };
    assert_eq!(walk(dir.path(), &config, None).0, ["apps/a/prod/x.yaml", "clusters/m1.yaml"]);
    let config = Config { exclude: lines(&["dev/", "/other"]), ..Config::default() };
    assert_eq!(walk(dir.path(), &config, None).0, ["apps/a/prod/x.yaml", "clusters/m1.yaml"]);
}

#[test]
fn configuration_that_selects_nothing_is_reported() {
    let dir = tree(&[("apps/x.yaml", "")]);
    let config = |paths: &[&str]| Config {
        paths: paths.iter().map(|p| (*p).to_owned()).collect(),
        ..Config::default()
    };
    assert_eq!(walk(dir.path(), &config(&["."]), None), (vec!["apps/x.yaml".to_owned()], vec![]));
    let (files, findings) = walk(dir.path(), &config(&["apps/", "app", "../x"]), None);
    assert_eq!(files, ["apps/x.yaml"]);
    let reported: Vec<_> = findings.iter().map(|f| (f.code, f.pointer.as_str())).collect();
    assert_eq!(reported, [("unused-path", "/paths/1"), ("unused-path", "/paths/2")]);
    let (_, bad) = FileSelection::new(&config(&["ok", "{a"]), None, &ReadOptions::default());
    assert_eq!(
        bad.iter().map(|f| (f.code, f.pointer.as_str())).collect::<Vec<_>>(),
        [("invalid-config", "/paths/1")]
    );
}

#[cfg(unix)]
#[test]
fn links_inside_are_followed_and_nothing_is_read_twice() {
    let dir = tree(&[("real/x.yaml", ""), (".data/y.yaml", ""), ("real/sub/z.yaml", "")]);
    link(&dir, "../.data/y.yaml", "real/y.yaml");
    link(&dir, ".data", "data");
    link(&dir, "real", "again");
    link(&dir, "..", "real/sub/loop");
    link(&dir, "../..", "real/sub/root");
    link(&dir, "self", "self");
    let (files, findings) = walk(dir.path(), &Config::default(), None);
    assert_eq!(files, ["data/y.yaml", "real/sub/z.yaml", "real/x.yaml"]);
    let messages: Vec<_> = findings.iter().map(|f| (f.code, f.origin.clone().unwrap().file)).collect();
    assert_eq!(messages, [("unreadable", "self".into())]);
}

#[cfg(unix)]
#[test]
fn links_that_leave_are_refused() {
    let outside = tree(&[("secret.yaml", "secret: 1"), ("more/x.yaml", "")]);
    let dir = tree(&[("a.yaml", ""), (".git/config", "token"), ("notes.txt", "")]);
    let target = outside.path().join("secret.yaml");
    link(&dir, target.to_str().unwrap(), "b.yaml");
    link(&dir, outside.path().to_str().unwrap(), "c");
    link(&dir, ".git/config", "d.yaml");
    link(&dir, target.to_str().unwrap(), "e.txt");
    link(&dir, "missing.yaml", "f.yaml");
    let (files, mut findings) = walk(dir.path(), &Config::default(), None);
    assert_eq!(files, ["a.yaml"]);
    findings.sort_by(|a, b| a.origin.cmp(&b.origin));
    let codes: Vec<_> = findings.iter().map(|f| (f.code, f.origin.as_ref().unwrap().to_string())).collect();
    let outside = |file: &str| ("link-outside", file.to_owned());
    assert_eq!(
        codes,
        [outside("b.yaml"), outside("c"), outside("d.yaml"), ("unreadable", "f.yaml".to_owned())]
    );
    assert!(findings[0].message.contains(target.to_str().unwrap()), "{}", findings[0].message);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_errors() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tree(&[("a.yaml", "")]);
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"b\xff.yaml")), "").unwrap();
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"c\xff.txt")), "").unwrap();
    let (files, findings) = walk(dir.path(), &Config::default(), None);
    assert_eq!(files, ["a.yaml"]);
    assert_eq!(findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["unreadable"]);
    assert!(findings[0].message.contains("UTF-8"));
}

#[test]
fn the_output_folder_is_named_from_anywhere() {
    let dir = tree(&[("sub/a.yaml", "")]);
    let tree = WorkTree::open(&dir.path().join("sub/..")).unwrap();
    let relative = |path: &str| tree.relative_path(&dir.path().join(path));
    assert_eq!(relative("sub").as_deref(), Some("sub"));
    assert_eq!(relative("sub/../new/out").as_deref(), Some("new/out"));
    assert_eq!(relative("."), None);
    assert_eq!(relative("../elsewhere"), None);
}

#[test]
fn a_repo_that_is_no_folder_is_an_error() {
    let dir = tree(&[("a.yaml", "")]);
    assert_eq!(WorkTree::open(&dir.path().join("a.yaml")).unwrap_err().code, "unreadable");
    assert_eq!(WorkTree::open(&dir.path().join("none")).unwrap_err().code, "unreadable");
}
