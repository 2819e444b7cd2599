//! Tries the reasons of all recorded cases, and of the examples.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use federate_dialect::{Plan, PreviousPlan};
use federate_engine::EngineSettings;
use federate_kubernetes::LiveObjects;
use federate_repo::Config;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::cases::{entries, id};
use crate::reasons::{Reasons, World, plan_world};
use crate::run::{live, previous};

/// Tries the reasons of cases, and of the examples if asked, prints how many there are, and returns the number of false ones.
pub(crate) fn try_reasons(cases: &[Value], with_examples: bool, shown: usize) -> usize {
    let mut worlds: Vec<(String, World)> =
        cases.par_iter().filter(|case| has_placements(case)).flat_map_iter(read_worlds).collect();
    if with_examples {
        worlds.extend(read_examples());
    }
    let tried = worlds.par_iter().map(|(name, world)| {
        let tried = catch_unwind(AssertUnwindSafe(|| Reasons::of_world(world)));
        let mut reasons = tried.unwrap_or_else(|_| Reasons {
            wrong: vec!["a cause cannot be taken away".to_owned()],
            ..Reasons::default()
        });
        reasons.wrong.iter_mut().for_each(|wrong| *wrong = format!("{name}: {wrong}"));
        reasons
    });
    let reasons = tried.reduce(Reasons::default, Reasons::merge);
    for ((dialect, kind), count) in &reasons.counts {
        println!("reasons {dialect}, {kind}: {count}");
    }
    for wrong in reasons.wrong.iter().take(shown) {
        println!("--- a false reason\n{wrong}");
    }
    let (all, wrong): (usize, usize) = (reasons.counts.values().sum(), reasons.wrong.len());
    println!("{all} reasons of {} repos taken away; {wrong} of them changed nothing", worlds.len());
    wrong
}

/// Whether a case is a repo in which a control plane places objects.
fn has_placements(case: &Value) -> bool {
    const DIALECTS: [&str; 5] = ["karmada", "kubeadmiral", "kubefed", "kubefleet", "ocm"];
    let is_recorded = DIALECTS.iter().any(|dialect| id(case).starts_with(dialect));
    is_recorded && case["files"].is_array()
}

/// The states of a case: what was applied before, and what it is about.
fn read_worlds(case: &Value) -> Vec<(String, World)> {
    let now = case["now"].as_str().unwrap_or("2026-01-01T00:00:00Z");
    let world = |state: &Value, previous: Plan| World {
        objects: objects(case, &state["files"]),
        config: config(case),
        settings: EngineSettings {
            strict_inventory: true,
            now: now.parse().ok(),
            previous: PreviousPlan::new(previous),
            live: observed(state),
            hosts: serde_json::from_value(case["hosts"].clone()).unwrap_or_default(),
            ..EngineSettings::default()
        },
    };
    let applied = match &case["applied"] {
        Value::Array(states) => states.iter().collect(),
        Value::Null => Vec::new(),
        state => vec![state],
    };
    let mut plan = if case["previous"].is_array() { previous(case) } else { Plan::default() };
    for state in applied {
        plan = plan_world(&world(state, plan));
    }
    let last = world(case, plan);
    let mut worlds = Vec::new();
    if case["then"].is_array() {
        let then = serde_json::json!({"files": case["then"]});
        worlds.push((format!("{} then", id(case)), world(&then, plan_world(&last))));
    }
    worlds.push((id(case).to_owned(), last));
    worlds
}

/// What was observed in the members, if the case has lists of that.
fn observed(state: &Value) -> LiveObjects {
    let mut lists = state["observed"].as_object().into_iter().flatten();
    if lists.all(|(_, list)| list.is_array()) { live(state) } else { LiveObjects::default() }
}

fn objects(case: &Value, files: &Value) -> Vec<Value> {
    let files = if id(case).starts_with("kubefed/v1") {
        crate::kubefed::files(&serde_json::json!({"id": case["id"], "files": files}))
    } else {
        files.clone()
    };
    files.as_array().cloned().unwrap_or_default()
}

/// The release that a case is about, where it is not the newest.
fn config(case: &Value) -> Config {
    let mut config = Config::default();
    if let Some(version) = case.get("version") {
        let dialect = id(case).split(['/', '-']).next().unwrap_or_default();
        let settings = Map::from_iter([("version".to_owned(), version.clone())]);
        config.dialects.insert(dialect.to_owned(), settings);
    }
    config
}

/// The examples of the documentation.
fn read_examples() -> Vec<(String, World)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let folders = entries(&root).into_iter().filter(|folder| folder.is_dir());
    let examples = folders.map(|folder| {
        let mut objects = Vec::new();
        read_objects(&folder, &mut objects);
        let world = World { objects, config: Config::default(), settings: EngineSettings::default() };
        (folder.display().to_string(), world)
    });
    examples.collect()
}

fn read_objects(folder: &Path, objects: &mut Vec<Value>) {
    for path in entries(folder) {
        if path.is_dir() {
            read_objects(&path, objects);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let bytes = std::fs::read(&path).expect("a file");
            let documents = federate_yaml::read_stream(&bytes).documents.into_iter();
            objects
                .extend(documents.map(|document| document.value).filter(|value| value["kind"].is_string()));
        }
    }
}
