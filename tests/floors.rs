//! The shape of the house: a module uses only floors below its own, files stay short, every module
//! says what it is for, and nothing is called util.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Modules by floor, the lowest first. Those of one floor may use each other only where listed.
const FLOORS: [&[&str]; 9] = [
    &["yaml", "patch"],
    &["k8s", "repo", "server"],
    &["dialect"],
    &["engine"],
    &["change"],
    &["actions"],
    &["publish", "live"],
    &["report"],
    &["cli"],
];

/// Lines a file may have, tests included.
const LONGEST: usize = 500;

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

#[test]
fn arrows_point_down() {
    let mut wrong = Vec::new();
    for path in sources(&source()) {
        let relative = path.strip_prefix(source()).unwrap().to_string_lossy().into_owned();
        let own = relative.split('/').next().unwrap().trim_end_matches(".rs");
        let Some(own_floor) = floor(own) else { continue };
        for line in fs::read_to_string(&path).unwrap().lines() {
            for used in line.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if floor(&used).is_some_and(|used| used > own_floor) {
                    wrong.push(format!("{relative}: {}", line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "a module may only use floors below its own:\n{}", wrong.join("\n"));
}

#[test]
fn dialects_do_not_know_each_other() {
    let dialects = source().join("dialect");
    let names: Vec<String> = fs::read_dir(&dialects)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_dir())
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(!names.is_empty());
    for name in &names {
        for path in sources(&dialects.join(name)) {
            let text = fs::read_to_string(&path).unwrap();
            for other in names.iter().filter(|other| *other != name) {
                assert!(!text.contains(&format!("dialect::{other}")), "{} uses {other}", path.display());
            }
        }
    }
}

#[test]
fn nothing_outside_a_dialect_names_its_fields() {
    for path in sources(&source()).iter().filter(|p| !p.starts_with(source().join("dialect"))) {
        let text = fs::read_to_string(path).unwrap();
        for field in ["clusterAffinity", "spreadConstraints", "replicaScheduling", "overrideRules"] {
            assert!(!text.contains(field), "{} names `{field}`", path.display());
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    for path in sources(&source()) {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{} has {lines} lines", path.display());
        assert!(text.starts_with("//!"), "{} does not say what it is for", path.display());
        let stem = path.file_stem().unwrap().to_string_lossy();
        assert!(!matches!(&*stem, "util" | "utils" | "common" | "helpers" | "misc"), "{}", path.display());
    }
}
