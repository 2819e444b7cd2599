//! What must hold for every repo: the order of files does not matter, a plan of a plan is that plan,
//! replicas add up, clusters never share what their overrides distinguish. And for every live object: what is
//! imported of it, applied to it, changes nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::io::Read;

use federate_apiserver_model::{ResourceKind, WriteOptions, apply_object};
use federate_dialects::DIALECTS;
use federate_engine::import::find_importer;
use federate_engine::import::live::{self, ImportOptions};
use federate_kubernetes::Object;
use federate_repo::{Config, Repo, RepoFile};
use federate_session::{Session, SessionOptions};
use proptest::prelude::*;
use serde_json::Value;

use fleet::{Change, REGISTRY, fleet};

mod builds;
mod fleet;
#[path = "../conformance/reasons.rs"]
mod reasons;
mod recorded;
mod replicas;

/// The plan and every cluster's manifests, as one text.
struct Answer {
    plan: federate_dialect::Plan,
    text: String,
    /// The findings of `federate plan` and `federate render`.
    findings: Vec<federate_kubernetes::Finding>,
}

fn session(files: Vec<RepoFile>, previous: federate_dialect::Plan) -> Session {
    let session =
        Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS).with_previous(previous));
    let errors: Vec<_> =
        session.findings().into_iter().filter(federate_kubernetes::Finding::is_error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    session
}

fn answer(files: Vec<RepoFile>, previous: federate_dialect::Plan) -> Answer {
    let session = session(files, previous);
    let mut text = federate_engine::previous::serialize_plan(session.plan());
    for manifest in &session.render().manifests {
        text.push_str(&format!("# {} {:?}\n{}", manifest.object, manifest.clusters, manifest.text));
    }
    let findings = session.findings();
    text.push_str(&format!("{findings:?}"));
    Answer { plan: session.plan().clone(), text, findings }
}

/// A session, whose findings may be errors.
fn open(files: Vec<RepoFile>, previous: federate_dialect::Plan) -> Session {
    Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS).with_previous(previous))
}

/// A cluster with its replicas.
type PlacedReplicas = (String, Option<i64>);

/// The clusters of each object with their replicas.
fn clusters(plan: &federate_dialect::Plan) -> Vec<(String, Vec<PlacedReplicas>)> {
    let placed = |row: &federate_dialect::Placement| {
        row.clusters.iter().map(|placed| (placed.name.to_string(), placed.replicas)).collect()
    };
    // A row without clusters goes when its object is no longer claimed.
    let rows = plan.placements.iter().filter(|row| !row.clusters.is_empty());
    rows.map(|row| (row.object.to_string(), placed(row))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn every_fleet_places_something(fleet in fleet()) {
        let plan = answer(fleet.files(), Default::default()).plan;
        let rows = plan.placements.iter().filter(|row| row.object.kind == "Deployment");
        prop_assert_eq!(rows.count(), fleet.apps.len());
    }

    #[test]
    fn the_order_of_files_does_not_matter(
        (files, shuffled) in fleet().prop_map(|f| f.files()).prop_flat_map(|files| (Just(files.clone()), Just(files).prop_shuffle())),
    ) {
        prop_assert_eq!(answer(files, Default::default()).text, answer(shuffled, Default::default()).text);
    }

    #[test]
    fn a_plan_of_a_plan_is_that_plan(fleet in fleet()) {
        let first = answer(fleet.files(), Default::default());
        let second = answer(fleet.files(), first.plan.clone());
        prop_assert_eq!(&first.plan, &second.plan);
        prop_assert_eq!(&first.text, &second.text);
        prop_assert_eq!(&first.findings, &second.findings);
        let read = federate_engine::previous::read_plan(federate_engine::previous::serialize_plan(&first.plan).as_bytes()).unwrap();
        prop_assert_eq!(first.plan, read);
    }

    #[test]
    fn a_plan_after_a_change_is_final(
        fleet in fleet(),
        changes in prop::collection::vec((prop::sample::select(&Change::ALL[..]), 0usize..100), 1..4),
    ) {
        let mut fleet = fleet;
        let mut plan = open(fleet.files(), Default::default()).plan().clone();
        for (change, at) in changes {
            fleet = fleet.changed(change, at);
            let session = open(fleet.files(), plan.clone());
            let next = session.plan().clone();
            let again = open(fleet.files(), next.clone());
            let moved = recorded::differences(&next, again.plan());
            prop_assert!(moved.is_empty(), "{:?}\n{}", change, moved.join("\n"));
            prop_assert_eq!(session.findings(), again.findings(), "{:?}", change);
            // What waits for a policy stays as it is, but nothing is rendered for a cluster that has left.
            let left = |name: &str| fleet.clusters[name[1..].parse::<usize>().unwrap()].has_left;
            let scheduled = next.placements.iter().filter(|row| row.unschedulable.is_none());
            let stays = scheduled.flat_map(|row| &row.clusters).find(|placed| left(&placed.name));
            prop_assert!(stays.is_none(), "{:?} on a cluster that has left after {:?}", stays, change);
            let sent = session.render().manifests.iter().flat_map(|manifest| manifest.clusters.iter());
            prop_assert!(!sent.into_iter().any(|name| left(name)), "rendered for a cluster that has left");
            if change == Change::StateDefaults {
                prop_assert_eq!(clusters(&plan), clusters(&next));
            }
            plan = next;
        }
    }

    #[test]
    fn divided_replicas_add_up(fleet in fleet()) {
        let plan = answer(fleet.files(), Default::default()).plan;
        let deployments = plan.placements.iter().filter(|r| r.object.kind == "Deployment");
        for row in deployments.filter(|r| r.unschedulable.is_none()) {
            // A dialect, or a mode of one, that does not divide leaves the manifest's replicas alone.
            if row.clusters.iter().all(|c| c.replicas.is_none()) {
                let index: usize = row.object.name[1..].parse().unwrap();
                // To Karmada an object without replicas to divide is no workload.
                prop_assert!(!fleet.divides() || row.clusters.is_empty() || fleet.apps[index].replicas == 0);
                continue;
            }
            let index: usize = row.object.name[1..].parse().unwrap();
            let sum: i64 = row.clusters.iter().filter_map(|c| c.replicas).sum();
            let wanted = i64::from(fleet.apps[index].replicas);
            let copies = if fleet.divides() { 1 } else { i64::try_from(row.clusters.len()).unwrap() };
            prop_assert_eq!(sum, wanted * copies);
        }
    }

    #[test]
    fn every_placed_cluster_receives_exactly_one_manifest(fleet in fleet()) {
        let session = session(fleet.files(), Default::default());
        let (clusters, federate_engine::Rendering { plan, manifests, .. }) = (session.clusters(), session.render());
        // Placements of KubeFleet and Open Cluster Management have rows of their own, and send only what is in other rows.
        let is_sent = |row: &&federate_dialect::Placement| {
            !["ClusterResourcePlacement", "Placement"].contains(&row.object.kind.as_str())
        };
        for row in plan.placements.iter().filter(is_sent) {
            let mut got: Vec<_> = manifests.iter().filter(|m| m.object == row.object).flat_map(|m| m.clusters.to_vec()).collect();
            got.sort();
            let want: Vec<_> = row.clusters.iter().map(|c| c.name.clone()).collect();
            prop_assert_eq!(got, want);
        }
        for manifest in manifests.iter().filter(|m| m.object.kind == "Deployment") {
            for name in manifest.clusters.iter() {
                let region = &clusters.iter().find(|c| c.name == *name).unwrap().labels["region"];
                let other = manifest.text.contains(&format!("image: {REGISTRY}/nginx"));
                prop_assert_eq!(region == "r1", other);
            }
        }
    }
}

/// A fleet after an earlier plan.
fn world(fleet: &fleet::Fleet, previous: federate_dialect::Plan) -> reasons::World {
    let documents = fleet.files().into_iter().flat_map(|file| {
        let documents = federate_yaml::read_stream(&file.bytes).documents.into_iter();
        documents.map(|document| document.value).filter(|value| !value.is_null())
    });
    let previous = federate_dialect::PreviousPlan::new(previous);
    reasons::World {
        objects: documents.collect(),
        config: Config::default(),
        settings: federate_engine::EngineSettings { previous, ..Default::default() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn without_what_a_reason_names_the_answer_is_another(
        fleet in fleet(),
        (change, at) in (prop::sample::select(&Change::ALL[..]), 0usize..100),
    ) {
        let first = world(&fleet, Default::default());
        let then = world(&fleet.changed(change, at), reasons::plan_world(&first));
        let reasons = reasons::Reasons::of_world(&first).merge(reasons::Reasons::of_world(&then));
        let all: usize = reasons.counts.values().sum();
        prop_assert!(reasons.wrong.is_empty(), "of {} reasons:\n{}", all, reasons.wrong.join("\n"));
    }
}

/// The objects that a real API server stored, as `tests/conformance/apiserver` recorded them, with their kinds.
fn stored() -> Vec<(Object, ResourceKind)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/apiserver");
    let bytes = std::fs::read(folder.join("defaulting.jsonl.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    // Identities were recorded as `<uid1>`, which no label could hold.
    let text = text.replace(['<', '>'], "x");
    let cases = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let object = |case: Value| {
        let object =
            Object::from_manifest(case.get("live").filter(|live| live.is_object())?.clone(), "member");
        let kind = ResourceKind::find_builtin(&object.id.api_version, &object.id.kind)?.clone();
        Some((object, kind))
    };
    cases.filter_map(object).collect()
}

#[test]
fn what_is_imported_changes_nothing_where_it_runs() {
    let importer = find_importer(federate_dialects::DIALECTS, "kubefleet").unwrap();
    let all = stored();
    assert!(all.len() >= 20, "{}", all.len());
    let mut shorter = 0;
    for (object, kind) in &all {
        let mut sizes = Vec::new();
        for minimal in [false, true] {
            let options = ImportOptions { minimal, ..ImportOptions::default() };
            let one = [(object.clone(), kind.clone())];
            let taken = live::import_live(&one, &importer, &options, &Repo::default(), &|_| false);
            let made = taken.objects.first().and_then(|taken| taken.made.first());
            let made = made.unwrap_or_else(|| panic!("{}: {:?}", object.id, taken.findings));
            sizes.push(made.body.to_string().len());
            let write = WriteOptions { kind, manager: "federate", subresource: None, force: true, now: "t" };
            let result = apply_object(Some(&object.body), &made.body, &write).unwrap();
            assert_eq!(
                ownerless(&result),
                ownerless(&object.body),
                "{} minimal: {minimal}\n{}",
                object.id,
                made.body
            );
        }
        shorter += usize::from(sizes[1] < sizes[0]);
    }
    assert!(shorter >= 12, "only {shorter} of {} objects had defaults to leave out", all.len());
}

fn ownerless(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().shift_remove("managedFields");
    object
}
