//! Public items: a name stands for one type in the whole workspace, and what a dialect's crate shows is used by the
//! program and not by tests alone. Both are read from the text of production code.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The crates of dialects.
const DIALECTS: [&str; 5] = ["karmada", "kubeadmiral", "kubefed", "kubefleet", "ocm"];

/// The names that stand for several types, and why.
const SHARED_NAMES: [(&str, &str); 12] = [
    ("Error", "the error of a module, which names it with the module"),
    ("ClusterSelector", "fields of the APIs of KubeFleet and Open Cluster Management have this type there"),
    ("PlacementSpec", "the APIs of KubeFed and Open Cluster Management call it so"),
    ("Toleration", "the APIs of KubeAdmiral and Open Cluster Management call it so"),
    ("Workload", "what Karmada's interpreter calls a template, and a field of a ManifestWork"),
    ("DecisionGroup", "the API's type, and the group that the scheduler makes of it"),
    ("PlacementSubject", "dialects, which do not know each other: what their schedulers decide about"),
    ("Rejection", "dialects, which do not know each other: why their schedulers refuse a cluster"),
    ("Destination", "what a session renders for, and where Open Cluster Management puts a work"),
    ("EarlyReads", "the stand-in of a build without `live`"),
    ("Surveyed", "the stand-in of a build without `live`"),
    ("ServerCommand", "the stand-in of a build without `live`"),
];

/// The public items of dialects that the program does not call, and why they are there.
const UNCALLED: [(&str, &str); 9] = [
    ("karmada/interpreter.rs for_newest_release", "interprets one object without a repo"),
    (
        "karmada/quota/admission.rs admit_binding",
        "reads bindings; a plan adds up and compares by the same code",
    ),
    (
        "kubeadmiral/hub/scheduling.rs decide_federated_object",
        "reads a recorded federated object; a plan decides by the same code",
    ),
    ("kubefed/hub.rs decide_replicas", "reads a recorded federated object; a plan decides by the same code"),
    (
        "kubefed/hub.rs propagated_versions",
        "reads a recorded federated object; members compare by the same code",
    ),
    ("kubefleet/version.rs for_newest", "the rules without a repo"),
    ("ocm/agent.rs plan_work", "reads a recorded work; a plan takes its steps from the same code"),
    ("ocm/hub.rs HubModel", HUB_RECORD),
    (
        "ocm/rollout.rs decide_rollout",
        "the recorded rule, read from an object; works roll out by the same code",
    ),
];

/// Objects as a hub has them were recorded, with what a controller's whole cycle makes of them.
const HUB_RECORD: &str =
    "a controller's whole cycle over recorded objects; plans and scenarios run what it decides by";

/// A file of production code: its path from the root, and its text without comments and tests.
struct SourceFile {
    path: String,
    code: String,
}

fn read_sources() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test(root, &path) {
                let path_from_root = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.push(SourceFile { path: path_from_root, code: production_code(&path) });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn is_test(root: &Path, path: &Path) -> bool {
    let parts: Vec<PathBuf> = path.strip_prefix(root).unwrap().iter().map(PathBuf::from).collect();
    let folders = ["tests", "benches", "examples", "target", "test-apiserver"];
    parts.iter().any(|part| folders.iter().any(|folder| part.as_os_str() == *folder))
        || ["tests.rs", "build.rs"].iter().any(|name| path.ends_with(name))
}

/// The text of a file without its comments and its module of tests.
fn production_code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = Regex::new(r"#\[cfg\(test\)\]\s*\n\s*mod \w+ \{").unwrap();
    let end = tests.find(&text).map_or(text.len(), |found| found.start());
    let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The words of production code outside of definitions, `use` items and the heads of `impl` blocks.
fn used_words(sources: &[SourceFile]) -> BTreeSet<&str> {
    let left_out = Regex::new(concat!(
        r"(?m)^\s*(?:pub(?:\([^)]*\))? )?use [^;]*;|^\s*impl\b[^{]*\{",
        r"|\b(?:fn|struct|enum|trait|type|const|static) \w+"
    ))
    .unwrap();
    let word = Regex::new(r"[A-Za-z_]\w*").unwrap();
    let mut used = BTreeSet::new();
    for source in sources {
        let mut from = 0;
        for found in left_out.find_iter(&source.code) {
            used.extend(word.find_iter(&source.code[from..found.start()]).map(|word| word.as_str()));
            from = found.end();
        }
        used.extend(word.find_iter(&source.code[from..]).map(|word| word.as_str()));
    }
    used
}

#[test]
fn a_name_stands_for_one_type() {
    let definition = Regex::new(r"(?m)^\s*pub(?:\([^)]*\))? (?:struct|enum|trait|type) (\w+)").unwrap();
    let sources = read_sources();
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in &sources {
        for found in definition.captures_iter(&source.code) {
            files.entry(found.get(1).unwrap().as_str()).or_default().insert(&source.path);
        }
    }
    files.retain(|_, files| files.len() > 1);
    let argued: BTreeSet<&str> = SHARED_NAMES.iter().map(|(name, _)| *name).collect();
    let new: Vec<_> = files.iter().filter(|(name, _)| !argued.contains(*name)).collect();
    assert!(new.is_empty(), "say in the name what each type is about: {new:#?}");
    let gone: Vec<_> = argued.iter().filter(|name| !files.contains_key(*name)).collect();
    assert!(gone.is_empty(), "these names stand for one type by now: {gone:?}");
}

/// A test that only recorded cases reach verifies code that no command runs.
#[test]
fn public_items_of_dialects_are_used_by_the_program() {
    let definition =
        Regex::new(r"(?m)^\s*pub (?:const fn|fn|struct|enum|trait|type|const|static) (\w+)").unwrap();
    let sources = read_sources();
    let used = used_words(&sources);
    let mut unused = BTreeSet::new();
    for source in &sources {
        let mut parts = source.path.split('/').skip(1);
        let Some(dialect) = parts.next().filter(|name| DIALECTS.contains(name)) else { continue };
        let module = parts.skip(1).collect::<Vec<_>>().join("/");
        for found in definition.captures_iter(&source.code) {
            let name = found.get(1).unwrap().as_str();
            if !used.contains(name) {
                unused.insert(format!("{dialect}/{module} {name}"));
            }
        }
    }
    let argued: BTreeSet<String> = UNCALLED.iter().map(|(item, _)| (*item).to_owned()).collect();
    let new: Vec<_> = unused.difference(&argued).collect();
    assert!(new.is_empty(), "only tests use these public items: {new:#?}");
    let gone: Vec<_> = argued.difference(&unused).collect();
    assert!(gone.is_empty(), "the program uses these by now, or they are gone: {gone:?}");
}
