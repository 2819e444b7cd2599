//! Recorded cases of control planes, migrated: each is equal afterwards, or a rule that is named explains the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use federate_dialect::Plan;
use federate_dialects::DIALECTS;
use federate_kubernetes::{Finding, LiveObjects, Object, ObjectRef};
use federate_migrate::{Migration, MigrationError, Mode, Target, migrate_repo};
use federate_session::{Session, SessionOptions};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use crate::comparison::{Difference, compare};
use crate::files::Files;

/// The recorded cases of a family.
pub(crate) fn read_cases(dialect: &str, family: &str) -> Vec<Value> {
    let path = format!("tests/conformance/{dialect}/{family}.jsonl.gz");
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The repo of a case: each object is a file.
pub(crate) fn files_of(case: &Value) -> Files {
    let mut objects = case["files"].as_array().unwrap().clone();
    if case["id"].as_str().unwrap().starts_with("kubefed/v1") {
        // These were recorded with the controllers of Federation v1, whether or not annotations name them.
        objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "of-federation-v1", "namespace": "federation-system",
                "annotations": {"federation.alpha.kubernetes.io/cluster-selector": "[]"},
            },
        }));
    }
    let files = objects.iter().enumerate().map(|(index, object)| {
        let mut text = String::new();
        federate_yaml::write_document(object, &mut text);
        (format!("{index:03}.yaml"), text)
    });
    Files(files.collect())
}

/// The state of a case: what runs, and what was decided before.
pub(crate) fn options_of(case: &Value) -> SessionOptions {
    let mut options = SessionOptions::new(DIALECTS);
    options.now = case["now"].as_str().and_then(|now| now.parse().ok());
    let mut live = LiveObjects::default();
    for (cluster, objects) in case["observed"].as_object().into_iter().flatten() {
        let objects = objects.as_array().unwrap().iter();
        let objects = objects.map(|body| Object::from_manifest(body.clone(), "observed")).collect();
        live.insert(cluster.as_str().into(), objects);
    }
    options.observed = live;
    let rows = case["previous"].as_array().into_iter().flatten().map(|row| {
        let clusters = row["clusters"].as_object().unwrap().iter();
        let clusters: Vec<Value> =
            clusters.map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let memory: Map<String, Value> = row
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "object" | "clusters"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        json!({"object": row["object"], "clusters": clusters, "memory": memory})
    });
    let plan = json!({"placements": rows.collect::<Vec<_>>()});
    options.previous = serde_json::from_value::<Plan>(plan).unwrap();
    options
}

/// What came of some cases.
#[derive(Debug, Default)]
struct Tally {
    /// Cases without a difference.
    equal: usize,
    /// Cases with differences that rules explain.
    different: usize,
    /// Repos with errors.
    refused: usize,
    /// Cases without a difference after the way back.
    returned: usize,
    /// By reason, the cases with rules that are unequal for it.
    reasons: BTreeMap<&'static str, usize>,
    faults: Vec<String>,
}

impl Tally {
    /// What came of these and other cases.
    fn add(mut self, other: Self) -> Self {
        self.equal += other.equal;
        self.different += other.different;
        self.refused += other.refused;
        self.returned += other.returned;
        self.faults.extend(other.faults);
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self
    }
}

fn migrate_case(case: &Value, target: Target, mode: Mode, tally: &mut Tally) {
    let id = case["id"].as_str().unwrap();
    let files = files_of(case);
    let old = Session::open(&files, options_of(case));
    let migration = match migrate_repo(&old, target, mode) {
        Ok(migration) => migration,
        Err(MigrationError::BrokenRepo(_)) => {
            tally.refused += 1;
            return;
        }
        Err(error) => {
            tally.faults.push(format!("{id}: {error}"));
            return;
        }
    };
    let mut options = options_of(case);
    options.previous = Plan::default();
    let migrated = files.migrated(&migration);
    let mut new = Session::open(&migrated, options);
    new.share_cluster_states(old.clusters());
    let errors: Vec<String> = new
        .findings()
        .into_iter()
        .filter(Finding::is_error)
        .map(|finding| format!("{}: {}", finding.code, finding.message))
        .collect();
    let differences = compare(&old, &new, &migration);
    let unexplained: Vec<_> = differences.iter().filter(|difference| !difference.explained).collect();
    if !errors.is_empty() || !unexplained.is_empty() {
        let text = Files::print_edits(&migration);
        tally.faults.push(format!("{id}: {errors:#?} {unexplained:#?}\n{text}"));
        return;
    }
    if migrate_repo(&new, target, mode).is_ok_and(|again| !again.edits.is_empty()) {
        tally.faults.push(format!("{id}: a second migration changes something"));
    }
    if mode == Mode::Idiomatic
        && let Some(home) = find_home(id.split('/').next().unwrap_or_default())
    {
        let trip = ReturnTrip {
            id,
            old: &old,
            files: &migrated,
            new: &new,
            there: &migration,
            differences: &differences,
            home,
        };
        return_case(&trip, tally);
    }
    let reasons = migration.objects.iter().flat_map(|object| &object.unequal).map(|rule| rule.reason.name());
    for reason in reasons.collect::<std::collections::BTreeSet<_>>() {
        *tally.reasons.entry(reason).or_default() += 1;
    }
    if differences.is_empty() {
        tally.equal += 1;
    } else {
        tally.different += 1;
    }
}

/// The control plane that a case was recorded with, if repos are migrated to it.
fn find_home(dialect: &str) -> Option<Target> {
    [Target::Karmada, Target::KubeFleet, Target::KubeAdmiral].into_iter().find(|one| one.name() == dialect)
}

/// Migrates a case back. What is the same after each of both migrations is the same after both.
fn return_case(sides: &ReturnTrip<'_>, tally: &mut Tally) {
    let ReturnTrip { id, old, files, new, there, differences, home } = sides;
    let back = match migrate_repo(new, *home, Mode::Idiomatic) {
        Ok(back) => back,
        Err(error) => {
            tally.faults.push(format!("{id}: no way back: {error}"));
            return;
        }
    };
    let mut options = SessionOptions::new(DIALECTS);
    (options.now, options.observed) = (new.now(), new.observed().clone());
    let mut end = Session::open(&files.migrated(&back), options);
    end.share_cluster_states(new.clusters());
    let returned = compare(new, &end, &back);
    let unexplained: Vec<_> = returned.iter().filter(|difference| !difference.explained).collect();
    let errors: Vec<String> =
        end.findings().into_iter().filter(Finding::is_error).map(|finding| finding.message).collect();
    let differing: BTreeSet<&ObjectRef> =
        differences.iter().chain(&returned).map(|difference| &difference.object).collect();
    let composed = compare(old, &end, there);
    let lost: Vec<_> = composed.iter().filter(|one| !differing.contains(&one.object)).collect();
    if !unexplained.is_empty() || !errors.is_empty() || !lost.is_empty() {
        let text = Files::print_edits(&back);
        tally.faults.push(format!("{id}: the way back: {errors:#?} {unexplained:#?} {lost:#?}\n{text}"));
    }
    if composed.is_empty() {
        tally.returned += 1;
    }
}

/// A case on the way back.
struct ReturnTrip<'t> {
    id: &'t str,
    old: &'t Session,
    /// The files of the other control plane, and the session over them.
    files: &'t Files,
    new: &'t Session,
    there: &'t Migration,
    differences: &'t [Difference],
    home: Target,
}

/// Migrates the cases of families. Returns what came of them.
fn migrate_families(dialect: &str, families: &[&str], target: Target, mode: Mode) -> Tally {
    let cases: Vec<Value> = families.iter().flat_map(|family| read_cases(dialect, family)).collect();
    let mut tally = cases
        .par_iter()
        .map(|case| {
            let mut tally = Tally::default();
            migrate_case(case, target, mode, &mut tally);
            tally
        })
        .reduce(Tally::default, Tally::add);
    tally.faults.sort();
    let most = if std::env::var_os("SHOW").is_some() { usize::MAX } else { 4 };
    let shown: Vec<&String> = tally.faults.iter().take(most).collect();
    println!(
        "{dialect} {}: {} equal, {} different, {} refused, {} equal after the way back, {} faults {:?}",
        mode.name(),
        tally.equal,
        tally.different,
        tally.refused,
        tally.returned,
        tally.faults.len(),
        tally.reasons
    );
    for fault in &shown {
        println!("{fault}");
    }
    assert!(tally.faults.is_empty(), "{} faults", tally.faults.len());
    tally
}

pub(crate) const KUBEFED: [&str; 8] =
    ["placement", "rsp", "overrides", "manifests", "e2e", "doc", "v1", "v1-manifests"];

#[test]
fn recorded_cases_of_kubefed_are_frozen_for_karmada() {
    let tally = migrate_families("kubefed", &KUBEFED, Target::Karmada, Mode::Freeze);
    assert!(tally.equal > 0);
}

#[test]
fn recorded_cases_of_kubefed_become_rules_of_karmada() {
    let tally = migrate_families("kubefed", &KUBEFED, Target::Karmada, Mode::Idiomatic);
    assert!(tally.equal > 0);
}

pub(crate) const KUBEADMIRAL: [&str; 6] = ["scheduling", "overrides", "manifests", "followers", "e2e", "ftc"];

#[test]
fn recorded_cases_of_kubeadmiral_are_frozen_for_karmada() {
    let tally = migrate_families("kubeadmiral", &KUBEADMIRAL, Target::Karmada, Mode::Freeze);
    assert!(tally.equal > 0);
}

#[test]
fn recorded_cases_of_kubeadmiral_become_rules_of_karmada() {
    let tally = migrate_families("kubeadmiral", &KUBEADMIRAL, Target::Karmada, Mode::Idiomatic);
    assert!(tally.equal > 0);
}

pub(crate) const KUBEFLEET: [&str; 5] = ["schedule", "doc", "selection", "overrides", "envelopes"];

#[test]
fn recorded_cases_of_kubefleet_are_frozen_for_karmada() {
    let tally = migrate_families("kubefleet", &KUBEFLEET, Target::Karmada, Mode::Freeze);
    assert!(tally.equal > 0);
}

#[test]
fn recorded_cases_of_kubefleet_become_rules_of_karmada() {
    let tally = migrate_families("kubefleet", &KUBEFLEET, Target::Karmada, Mode::Idiomatic);
    assert!(tally.equal > 0);
}

pub(crate) const KARMADA: [&str; 8] =
    ["scheduling", "matching", "overrides", "manifests", "namespaces", "thirdparty", "ties", "triggers"];

#[test]
fn recorded_cases_of_karmada_are_frozen_for_kubeadmiral() {
    let tally = migrate_families("karmada", &KARMADA, Target::KubeAdmiral, Mode::Freeze);
    assert!(tally.equal > 0);
}

#[test]
fn recorded_cases_of_karmada_become_policies_of_kubeadmiral() {
    let tally = migrate_families("karmada", &KARMADA, Target::KubeAdmiral, Mode::Idiomatic);
    assert!(tally.equal > 0);
}

#[test]
fn recorded_cases_of_karmada_are_frozen_for_kubefleet() {
    let tally = migrate_families("karmada", &KARMADA, Target::KubeFleet, Mode::Freeze);
    assert!(tally.equal > 0);
}

#[test]
fn recorded_cases_of_karmada_become_placements_of_kubefleet() {
    let tally = migrate_families("karmada", &KARMADA, Target::KubeFleet, Mode::Idiomatic);
    assert!(tally.equal > 0);
}
