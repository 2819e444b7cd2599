//! Runs every recorded case: `cargo test --test conformance [-- PART-OF-AN-ID]`.
//!
//! Cases are JSON lines in `<dialect>/<family>.jsonl[.gz]` below `tests/conformance/`, or below
//! `$FEDERATE_CONFORMANCE_DIR`. Each family prints `agreed/total`; any disagreement fails the run,
//! except those listed with a reason in `known-gaps.txt`, which fail it the day they pass.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rayon::prelude::*;
use serde_json::Value;

mod apiserver;
mod diff;
mod karmada;
mod karmada_member;
mod kubeadmiral;
mod kubefed;
mod kubefed_import;
mod kubefed_member;
mod kubefleet;
mod kubefleet_member;
mod kubefleet_select;
mod run;
mod yaml;

/// Judges one case: `Err` holds a readable difference.
type Judge = fn(&Value) -> Result<(), String>;

/// Disagreements shown in full for each family.
const SHOWN: usize = 3;

fn judge(dialect: &str, family: &str) -> Judge {
    match (dialect, family) {
        ("yaml", _) => yaml::judge,
        ("apiserver", _) => apiserver::judge,
        (
            "karmada",
            "scheduling" | "triggers" | "ties" | "matching" | "overrides" | "manifests" | "namespaces"
            | "thirdparty" | "upstream-tests",
        ) => karmada::judge,
        ("karmada", "retain") => karmada_member::retain,
        ("karmada", "health") => karmada_member::health,
        (
            "kubeadmiral",
            "scheduling" | "triggers" | "overrides" | "manifests" | "followers" | "e2e" | "ftc"
            | "upstream-tests",
        ) => kubeadmiral::judge,
        ("kubeadmiral", "doc" | "adoption" | "retain") => kubeadmiral::judge_actions,
        ("kubefed", "retain" | "adoption" | "drift") => kubefed_member::judge,
        ("kubefed", "federate") => kubefed_import::federate,
        ("kubefed", "enable") => kubefed_import::enable,
        (
            "kubefed",
            "placement" | "rsp" | "overrides" | "manifests" | "e2e" | "doc" | "v1" | "v1-manifests" | "dns",
        ) => kubefed::judge,
        ("kubefleet", "schedule" | "reschedule" | "doc") => kubefleet::schedule,
        ("kubefleet", "apply") => kubefleet_member::apply,
        ("kubefleet", "validation") => kubefleet::validation,
        ("kubefleet", "upstream-tests") => |case| {
            let family = case["family"].as_str().unwrap_or_default();
            match kubefleet_select::judge(family) {
                Some(judge) => judge(case),
                None => kubefleet::by_field(case),
            }
        },
        ("kubefleet", _) => kubefleet_select::judge(family).unwrap_or(unanswered),
        _ => unanswered,
    }
}

fn unanswered(_: &Value) -> Result<(), String> {
    Err("no part of the program answers cases of this family".to_owned())
}

fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let root = std::env::var_os("FEDERATE_CONFORMANCE_DIR").map_or_else(|| here.clone(), PathBuf::from);
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let gaps = known_gaps(&here.join("known-gaps.txt"));
    let (mut passed, mut failed) = (0, 0);
    for (name, path) in families(&root) {
        let (dialect, family) = name.split_once('/').unwrap_or((&name, ""));
        let cases: Vec<Value> = cases(&path).into_iter().filter(|c| id(c).contains(&wanted)).collect();
        if cases.is_empty() {
            continue;
        }
        let judge = judge(dialect, family);
        let verdicts: Vec<Result<(), String>> = cases.par_iter().map(judge).collect();
        let agreed = verdicts.iter().filter(|v| v.is_ok()).count();
        println!("{name}: {agreed}/{}", cases.len());
        let wrong: Vec<(&str, &str)> = cases
            .iter()
            .zip(&verdicts)
            .filter_map(|(case, verdict)| match (gaps.get(id(case)), verdict) {
                (Some(_), Ok(())) => Some((id(case), "listed in known-gaps.txt, but it passes: take it out")),
                (None, Err(difference)) => Some((id(case), difference.as_str())),
                _ => None,
            })
            .collect();
        for (id, difference) in wrong.iter().take(SHOWN) {
            println!("--- {id}\n{difference}");
        }
        failed += wrong.len();
        passed += cases.len() - wrong.len();
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn id(case: &Value) -> &str {
    case["id"].as_str().unwrap_or_default()
}

/// Gaps by case id, with their reasons: `<id>: <reason>` lines, `#` comments.
fn known_gaps(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let (id, reason) = line.split_once(": ").expect("a gap is `<id>: <reason>`");
            (id.to_owned(), reason.to_owned())
        })
        .collect()
}

fn families(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for dialect in entries(root).into_iter().filter(|p| p.is_dir()) {
        for file in entries(&dialect) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(family) = name.strip_suffix(".jsonl").or(name.strip_suffix(".jsonl.gz")) {
                let dialect = dialect.file_name().unwrap_or_default().to_string_lossy();
                found.insert(format!("{dialect}/{family}"), file);
            }
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn cases(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).expect("the file was just listed");
    let mut text = String::new();
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip");
    } else {
        text = String::from_utf8(bytes).expect("UTF-8");
    }
    text.lines().map(|line| serde_json::from_str(line).expect("a case is a line of JSON")).collect()
}
