//! The layers: a crate only depends on crates of lower layers, and the core does no IO. The compiler checks
//! the code against the crates' manifests; this test checks the manifests against `docs/architecture.md`. It
//! also checks that every module has a description, that no module is called util, and that benches run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};

/// The crates by layer, from the lowest. Crates of one layer do not depend on each other.
const LAYERS: [&[&str]; 13] = [
    &["file-tree", "semver", "yaml"],
    &["go-template", "kubernetes"],
    &["gitops"],
    &["repo", "apiserver-model"],
    &["builder", "dialect", "lua", "source"],
    &["karmada", "kubeadmiral", "kubefed", "kubefleet", "ocm", "sync-api"],
    &["engine", "dialects"],
    &["check", "http-client", "reconcile", "whatif"],
    &["http-server", "publish", "live", "registry", "report"],
    &["session", "vendor"],
    &["migrate", "sync"],
    &["test-apiserver"],
    &["federate"],
];

/// The first layer that may do IO or read the clock; lower layers are pure functions.
const CORE: usize = 8;

/// Crates that the core must not depend on.
const IMPURE: [&str; 9] =
    ["clap", "git2", "hyper", "indicatif", "kube", "notify", "rustix", "tempfile", "tokio"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of each crate, by name.
fn crates() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        folders.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path)).collect();
    all.push(("federate".to_owned(), root().to_path_buf()));
    all.sort();
    all
}

/// The names in `[dependencies]`.
fn dependencies(folder: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned()))
        .filter(|n| !n.is_empty())
        .collect()
}

fn layer(name: &str) -> usize {
    LAYERS.iter().position(|layer| layer.contains(&name)).unwrap_or_else(|| panic!("{name} is in no layer"))
}

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

#[test]
fn crates_depend_only_on_lower_layers() {
    let mut wrong = Vec::new();
    for (name, folder) in crates() {
        for used in dependencies(&folder) {
            let Some(used) = used.strip_prefix("federate-") else { continue };
            if layer(used) >= layer(&name) {
                wrong.push(format!("{name} depends on {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "a crate may only depend on lower layers:\n{}", wrong.join("\n"));
}

#[test]
fn the_core_reads_and_writes_nothing() {
    let mut wrong = Vec::new();
    for (name, folder) in crates().iter().filter(|(name, _)| {
        layer(name) < CORE && !["builder", "http-client", "source"].contains(&name.as_str())
    }) {
        let used = dependencies(folder);
        wrong.extend(
            used.iter().filter(|used| IMPURE.contains(&used.as_str())).map(|u| format!("{name}: {u}")),
        );
        let is_test = |path: &PathBuf| path.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
        for path in sources(&folder.join("src")).into_iter().filter(|path| !is_test(path)) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let impure = ["std::fs", "std::env", "SystemTime::now", "Instant::now", "Timestamp::now"];
            wrong.extend(
                impure.iter().filter(|i| code.contains(**i)).map(|i| format!("{}: {i}", path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "the core is a pure function of bytes:\n{}", wrong.join("\n"));
}

#[test]
fn nothing_outside_a_dialect_names_its_fields() {
    let dialects = LAYERS[5];
    for (name, folder) in crates().iter().filter(|(name, _)| !dialects.contains(&name.as_str())) {
        let src = folder.join("src");
        // A migration turns the policies of one dialect into those of another: one reader and one writer for each.
        let is_translator = |path: &Path| {
            name == "migrate" && ["read", "write"].iter().any(|module| path.starts_with(src.join(module)))
        };
        for path in sources(&src).into_iter().filter(|path| !is_translator(path)) {
            let text = fs::read_to_string(&path).unwrap();
            for field in ["clusterAffinity", "spreadConstraints", "replicaScheduling", "overrideRules"] {
                assert!(!text.contains(field), "{} names `{field}`", path.display());
            }
        }
    }
}

#[test]
fn modules_say_what_they_are_for() {
    for (_, folder) in crates() {
        for path in sources(&folder.join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("//!"), "{} does not say what it is for", path.display());
            let stem = path.file_stem().unwrap().to_string_lossy();
            assert!(
                !matches!(&*stem, "util" | "utils" | "common" | "helpers" | "misc"),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn benches_run() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for entry in fs::read_dir(root().join("benches")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            // With the harness of tests, a bench has no tests, and succeeds without running anything.
            let target = format!("[[bench]]\nname = \"{name}\"\nharness = false\n");
            assert!(manifest.contains(&target), "{name} is no bench in Cargo.toml");
        }
    }
}
