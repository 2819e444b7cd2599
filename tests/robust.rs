//! Whatever stands in a repo, nothing panics: recorded cases with values of the wrong sort in random
//! places are planned, rendered, explained and checked. And where nothing changes, nothing moves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use federate_dialects::DIALECTS;
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Every recorded case that has files, of every dialect.
static CASES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let mut cases = Vec::new();
    for dialect in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        let files = fs::read_dir(dialect).unwrap().map(|file| file.unwrap().path());
        for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "gz")) {
            let mut text = String::new();
            let bytes = fs::read(file).unwrap();
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
            let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            cases.extend(all.filter(|case| case["files"].is_array()));
        }
    }
    cases.sort_by_key(|case| case["id"].to_string());
    cases
});

/// Values that a field is seldom meant to hold.
fn odd(sort: usize) -> Value {
    let values = [
        json!(null),
        json!(""),
        json!("x"),
        json!("-1"),
        json!("10Gi"),
        json!("9223372036854775808"),
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1.5),
        json!(1e300),
        json!(true),
        json!([]),
        json!([null]),
        json!([{}]),
        json!({}),
        json!({"a": null}),
        json!("/a/-1/~2"),
        json!("{\"clusters\": [1]}"),
    ];
    values[sort % values.len()].clone()
}

/// Every place in a value, as a JSON pointer.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{at}/{}", federate_kubernetes::pointer::escape(key)), all);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn files(objects: &Value) -> Vec<RepoFile> {
    let objects = objects.as_array().unwrap().iter().enumerate();
    let file = |(index, object): (usize, &Value)| RepoFile {
        path: format!("{index:03}.json").into(),
        bytes: object.to_string().into_bytes().into(),
    };
    objects.map(file).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(case in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..64), 1..5)) {
        let mut objects = CASES[case.index(CASES.len())]["files"].clone();
        for (place, sort) in changes {
            let mut all = Vec::new();
            places(&objects, "", &mut all);
            // The list itself and its objects stay.
            all.retain(|at| at.matches('/').count() > 1);
            if all.is_empty() {
                continue;
            }
            *objects.pointer_mut(&all[place.index(all.len())]).unwrap() = odd(sort);
        }
        let mut previous = federate_dialect::Plan::default();
        for _ in 0..2 {
            let options = SessionOptions::new(DIALECTS).with_strict_inventory(true).with_previous(previous);
            let session = Session::from_files(files(&objects), Config::default(), options);
            session.check_repo();
            let engine = session.build_engine();
            for placement in &session.plan().placements {
                drop(session.explain_object(&placement.object));
                for cluster in session.clusters() {
                    let template = session.repo().find_template(&placement.object);
                    engine.reconcile_object(placement, cluster, template.map(|t| &t.object));
                }
            }
            previous = session.plan().clone();
        }
    }
}

/// Where every object goes.
fn places_of(objects: &Value, previous: federate_dialect::Plan) -> (federate_dialect::Plan, Vec<String>) {
    let options = SessionOptions::new(DIALECTS).with_strict_inventory(true).with_previous(previous);
    let plan = Session::from_files(files(objects), Config::default(), options).plan().clone();
    // KubeFed's replica scheduler keeps what runs before it divides the rest, which may move once more.
    let divided = |p: &&federate_dialect::Placement| {
        p.policy.as_ref().is_some_and(|policy| policy.kind == "ReplicaSchedulingPreference")
    };
    let row = |p: &federate_dialect::Placement| format!("{} {:?}", p.object, p.clusters);
    let rows = plan.placements.iter().filter(|p| !divided(p)).map(row).collect();
    (plan, rows)
}

/// Where nothing has changed, nothing moves: for every recorded repo a plan of its own plan places
/// everything as before.
#[test]
fn a_plan_of_a_plan_moves_nothing() {
    let mut moved = Vec::new();
    for case in CASES.iter() {
        let (plan, first) = places_of(&case["files"], federate_dialect::Plan::default());
        let (_, second) = places_of(&case["files"], plan);
        if first != second {
            moved.push(case["id"].to_string());
        }
    }
    assert!(moved.is_empty(), "{} of {}: {moved:?}", moved.len(), CASES.len());
}
