//! The repos of recorded cases, in all dialects: what people and generators wrote, with all fields that control planes have.

use std::fs;
use std::io::Read;
use std::path::Path;

use federate_dialect::{Placed, Placement, Plan};
use federate_dialects::DIALECTS;
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};
use rayon::prelude::*;
use serde_json::Value;

/// The distance between recorded cases that are planned.
const STEP: usize = 24;

/// The recorded cases with whole repos.
fn cases() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut paths: Vec<_> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path())).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "gz")) {
        let mut text = String::new();
        let bytes = fs::read(path).unwrap();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        cases.extend(text.lines().map(read).filter(|case| case["files"].is_array()).step_by(step()));
    }
    cases
}

/// [`STEP`], unless `PROPERTY_STEP` says otherwise: 1 plans all cases.
fn step() -> usize {
    std::env::var("PROPERTY_STEP").ok().and_then(|text| text.parse().ok()).unwrap_or(STEP)
}

fn plan(case: &Value, previous: Plan) -> Plan {
    let file = |(number, body): (usize, &Value)| RepoFile {
        path: format!("{number:03}.json").into(),
        bytes: body.to_string().into_bytes().into(),
    };
    let files = case["files"].as_array().unwrap().iter().enumerate().map(file).collect();
    let options = SessionOptions::new(DIALECTS).with_previous(previous).with_strict_inventory(true);
    Session::from_files(files, Config::default(), options).plan().clone()
}

/// A row as text. Of one that a preference of `KubeFed` divides, the clusters and the sum count: with `rebalance: false` its planner
/// may move replicas when it looks again at what it has placed itself (docs/semantics/kubefed.md has the quirks).
fn row_text(row: &Placement) -> String {
    let mut row = row.clone();
    if let Some(written) = row.scheduler_state.get("written").and_then(Value::as_object).cloned() {
        let sum: i64 = written.values().filter_map(Value::as_i64).sum();
        row.scheduler_state = serde_json::Map::from_iter([("written".to_owned(), sum.into())]).into();
        row.clusters =
            row.clusters.iter().map(|placed| Placed { replicas: None, ..placed.clone() }).collect();
    }
    serde_json::to_string(&row).unwrap()
}

/// What is different in two plans: the rows, one line each.
pub(crate) fn differences(one: &Plan, other: &Plan) -> Vec<String> {
    let rows = |plan: &Plan| -> Vec<String> { plan.placements.iter().map(row_text).collect() };
    let (one_rows, other_rows) = (rows(one), rows(other));
    let gone = one_rows.iter().filter(|row| !other_rows.contains(row)).map(|row| format!("- {row}"));
    let new = other_rows.iter().filter(|row| !one_rows.contains(row)).map(|row| format!("+ {row}"));
    let rest =
        (one.unmatched != other.unmatched || one.shared != other.shared).then(|| "* the rest".to_owned());
    gone.chain(new).chain(rest).collect()
}

#[test]
fn a_plan_of_a_plan_of_a_recorded_repo_is_that_plan() {
    let cases = cases();
    assert!(cases.len() > 100, "{} recorded repos", cases.len());
    let differing = cases.par_iter().filter_map(|case| {
        let first = plan(case, Plan::default());
        let second = plan(case, first.clone());
        let differences = differences(&first, &second);
        (!differences.is_empty()).then(|| format!("{}\n{}", case["id"], differences.join("\n")))
    });
    let differing: Vec<String> = differing.collect();
    let shown: Vec<&str> = differing.iter().take(20).map(String::as_str).collect();
    assert!(differing.is_empty(), "{} of {}\n{}", differing.len(), cases.len(), shown.join("\n\n"));
}
