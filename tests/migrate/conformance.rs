//! Recorded cases of control planes, migrated: each is equal afterwards, or a rule that is named explains the difference.
//!
//! Each case is read and rendered once for all directions, and each of its migrations is compared in two ways: here, and by the
//! proof, whose outcomes the guide counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use federate_dialects::DIALECTS;
use federate_kubernetes::{Finding, ObjectRef};
use federate_migrate::{Migration, MigrationError, Mode, Target, migrate_repo};
use federate_session::{Session, SessionOptions};
use rayon::prelude::*;
use serde_json::Value;

use crate::cases::{files_of, options_of, read_cases};
use crate::comparison::{Difference, Sent, compare};
use crate::files::Files;
use crate::reasons::ProofOutcome;

/// The recorded cases of a control plane, migrated in every direction.
pub(crate) struct MigratedCases {
    dialect: &'static str,
    tallies: BTreeMap<Direction, Tally>,
}

/// A way to migrate a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Direction {
    target: &'static str,
    mode: &'static str,
}

impl Direction {
    fn new(target: Target, mode: Mode) -> Self {
        Self { target: target.name(), mode: mode.name() }
    }
}

pub(crate) static KUBEFED: LazyLock<MigratedCases> = LazyLock::new(|| {
    let families = ["placement", "rsp", "overrides", "manifests", "e2e", "doc", "v1", "v1-manifests"];
    MigratedCases::new("kubefed", &families, &[Target::Karmada])
});

pub(crate) static KUBEADMIRAL: LazyLock<MigratedCases> = LazyLock::new(|| {
    let families = ["scheduling", "overrides", "manifests", "followers", "e2e", "ftc"];
    MigratedCases::new("kubeadmiral", &families, &[Target::Karmada])
});

pub(crate) static KUBEFLEET: LazyLock<MigratedCases> = LazyLock::new(|| {
    let families = ["schedule", "doc", "selection", "overrides", "envelopes"];
    MigratedCases::new("kubefleet", &families, &[Target::Karmada])
});

pub(crate) static KARMADA: LazyLock<MigratedCases> = LazyLock::new(|| {
    let families =
        ["scheduling", "matching", "overrides", "manifests", "namespaces", "thirdparty", "ties", "triggers"];
    MigratedCases::new("karmada", &families, &[Target::KubeFleet, Target::KubeAdmiral])
});

impl MigratedCases {
    fn new(dialect: &'static str, families: &[&str], targets: &[Target]) -> Self {
        let cases: Vec<Value> = families.iter().flat_map(|family| read_cases(dialect, family)).collect();
        let tallies = cases.par_iter().map(|case| migrate_case(case, targets)).reduce(
            BTreeMap::new,
            |mut all, more| {
                for (direction, tally) in more {
                    all.entry(direction).or_default().add(tally);
                }
                all
            },
        );
        Self { dialect, tallies }
    }

    fn find_tally(&self, target: Target, mode: Mode) -> &Tally {
        &self.tallies[&Direction::new(target, mode)]
    }

    /// What the proof says about the cases.
    pub(crate) fn proof(&self, target: Target) -> &ProofOutcome {
        &self.find_tally(target, Mode::Idiomatic).proof
    }

    /// Fails if a difference has no reason, and if no case is equal.
    fn assert_equal_or_explained(&self, target: Target, mode: Mode) {
        let tally = self.find_tally(target, mode);
        let mut faults: Vec<&String> = tally.faults.iter().collect();
        faults.sort();
        let most = if std::env::var_os("SHOW").is_some() { usize::MAX } else { 4 };
        println!(
            "{} to {} {}: {} equal, {} different, {} refused, {} equal after the way back, {} faults {:?}",
            self.dialect,
            target.name(),
            mode.name(),
            tally.equal,
            tally.different,
            tally.refused,
            tally.returned,
            faults.len(),
            tally.reasons
        );
        for fault in faults.iter().take(most) {
            println!("{fault}");
        }
        assert!(faults.is_empty(), "{} faults", faults.len());
        assert!(tally.equal > 0);
    }
}

/// What came of some cases.
#[derive(Debug, Default)]
pub(crate) struct Tally {
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
    /// What the proof says, in mode idiomatic.
    proof: ProofOutcome,
    faults: Vec<String>,
}

impl Tally {
    /// What is wrong.
    pub(crate) fn find_faults(&self) -> Vec<&str> {
        self.faults.iter().chain(&self.proof.unexplained).map(String::as_str).collect()
    }

    /// Adds what came of other cases.
    fn add(&mut self, other: Self) {
        self.equal += other.equal;
        self.different += other.different;
        self.refused += other.refused;
        self.returned += other.returned;
        self.faults.extend(other.faults);
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.proof.add(other.proof);
    }
}

/// A case, with what is the same in all directions.
pub(crate) struct RecordedCase<'c> {
    id: &'c str,
    files: Files,
    old: Session,
    sent: Sent,
}

/// Opens a side, which keeps the values of its manifests.
fn open(files: &Files, options: SessionOptions) -> Session {
    let mut session = Session::open(files, options);
    session.keep_manifest_values();
    session
}

/// The state that two sides share: what runs, and the time. Another control plane has decided nothing before.
fn share_state(session: &Session) -> SessionOptions {
    let mut options = SessionOptions::new(DIALECTS);
    (options.now, options.observed) = (session.now(), session.observed().clone());
    options
}

fn migrate_case(case: &Value, targets: &[Target]) -> BTreeMap<Direction, Tally> {
    let case = RecordedCase::open(case["id"].as_str().unwrap(), files_of(case), options_of(case));
    let mut tallies = BTreeMap::new();
    for target in targets {
        for mode in [Mode::Freeze, Mode::Idiomatic] {
            tallies.insert(Direction::new(*target, mode), case.migrate(*target, mode));
        }
    }
    tallies
}

impl<'c> RecordedCase<'c> {
    pub(crate) fn open(id: &'c str, files: Files, options: SessionOptions) -> Self {
        let old = open(&files, options);
        let sent = Sent::of(&old);
        Self { id, files, old, sent }
    }

    pub(crate) fn migrate(&self, target: Target, mode: Mode) -> Tally {
        let id = self.id;
        let mut tally = Tally::default();
        let migration = match migrate_repo(&self.old, target, mode) {
            Ok(migration) => migration,
            Err(MigrationError::BrokenRepo(_)) => {
                tally.refused += 1;
                tally.proof.refused += 1;
                return tally;
            }
            Err(error) => {
                tally.faults.push(format!("{id}: {error}"));
                return tally;
            }
        };
        let files = self.files.migrated(&migration);
        let mut new = open(&files, share_state(&self.old));
        new.share_cluster_states(self.old.clusters());
        if mode == Mode::Idiomatic {
            tally.proof = ProofOutcome::prove(id, &self.old, &new, &migration);
        }
        let errors: Vec<String> = new
            .findings()
            .into_iter()
            .filter(Finding::is_error)
            .map(|finding| format!("{}: {}", finding.code, finding.message))
            .collect();
        let sent = Sent::of(&new);
        let differences = compare(&self.sent, &sent, &migration);
        let unexplained: Vec<_> = differences.iter().filter(|difference| !difference.explained).collect();
        if !errors.is_empty() || !unexplained.is_empty() {
            let text = Files::print_edits(&migration);
            tally.faults.push(format!("{id}: {errors:#?} {unexplained:#?}\n{text}"));
            return tally;
        }
        if migrate_repo(&new, target, mode).is_ok_and(|again| !again.edits.is_empty()) {
            tally.faults.push(format!("{id}: a second migration changes something"));
        }
        if mode == Mode::Idiomatic
            && let Some(home) = find_home(id.split('/').next().unwrap_or_default())
        {
            let trip = MigratedCase { files, new, sent, migration: &migration, differences: &differences };
            self.migrate_back(&trip, home, &mut tally);
        }
        let reasons =
            migration.objects.iter().flat_map(|object| &object.unequal).map(|rule| rule.reason.name());
        for reason in reasons.collect::<BTreeSet<_>>() {
            *tally.reasons.entry(reason).or_default() += 1;
        }
        if differences.is_empty() {
            tally.equal += 1;
        } else {
            tally.different += 1;
        }
        tally
    }

    /// Migrates a case back. What is the same after each of both migrations is the same after both.
    fn migrate_back(&self, there: &MigratedCase<'_>, home: Target, tally: &mut Tally) {
        let id = self.id;
        let back = match migrate_repo(&there.new, home, Mode::Idiomatic) {
            Ok(back) => back,
            Err(error) => {
                tally.faults.push(format!("{id}: no way back: {error}"));
                return;
            }
        };
        let mut end = open(&there.files.migrated(&back), share_state(&there.new));
        end.share_cluster_states(there.new.clusters());
        let sent = Sent::of(&end);
        let returned = compare(&there.sent, &sent, &back);
        let unexplained: Vec<_> = returned.iter().filter(|difference| !difference.explained).collect();
        let errors: Vec<String> =
            end.findings().into_iter().filter(Finding::is_error).map(|finding| finding.message).collect();
        let differing: BTreeSet<&ObjectRef> =
            there.differences.iter().chain(&returned).map(|difference| &difference.object).collect();
        let composed = compare(&self.sent, &sent, there.migration);
        let lost: Vec<_> = composed.iter().filter(|one| !differing.contains(&one.object)).collect();
        if !unexplained.is_empty() || !errors.is_empty() || !lost.is_empty() {
            let text = Files::print_edits(&back);
            tally.faults.push(format!("{id}: the way back: {errors:#?} {unexplained:#?} {lost:#?}\n{text}"));
        }
        if composed.is_empty() {
            tally.returned += 1;
        }
    }
}

/// The control plane that a case was recorded with, if repos are migrated to it.
fn find_home(dialect: &str) -> Option<Target> {
    [Target::Karmada, Target::KubeFleet, Target::KubeAdmiral].into_iter().find(|one| one.name() == dialect)
}

/// A case for the other control plane.
struct MigratedCase<'t> {
    files: Files,
    new: Session,
    sent: Sent,
    migration: &'t Migration,
    differences: &'t [Difference],
}

#[test]
fn recorded_cases_of_kubefed_are_frozen_for_karmada() {
    KUBEFED.assert_equal_or_explained(Target::Karmada, Mode::Freeze);
}

#[test]
fn recorded_cases_of_kubefed_become_rules_of_karmada() {
    KUBEFED.assert_equal_or_explained(Target::Karmada, Mode::Idiomatic);
}

#[test]
fn recorded_cases_of_kubeadmiral_are_frozen_for_karmada() {
    KUBEADMIRAL.assert_equal_or_explained(Target::Karmada, Mode::Freeze);
}

#[test]
fn recorded_cases_of_kubeadmiral_become_rules_of_karmada() {
    KUBEADMIRAL.assert_equal_or_explained(Target::Karmada, Mode::Idiomatic);
}

#[test]
fn recorded_cases_of_kubefleet_are_frozen_for_karmada() {
    KUBEFLEET.assert_equal_or_explained(Target::Karmada, Mode::Freeze);
}

#[test]
fn recorded_cases_of_kubefleet_become_rules_of_karmada() {
    KUBEFLEET.assert_equal_or_explained(Target::Karmada, Mode::Idiomatic);
}

#[test]
fn recorded_cases_of_karmada_are_frozen_for_kubeadmiral() {
    KARMADA.assert_equal_or_explained(Target::KubeAdmiral, Mode::Freeze);
}

#[test]
fn recorded_cases_of_karmada_become_policies_of_kubeadmiral() {
    KARMADA.assert_equal_or_explained(Target::KubeAdmiral, Mode::Idiomatic);
}

#[test]
fn recorded_cases_of_karmada_are_frozen_for_kubefleet() {
    KARMADA.assert_equal_or_explained(Target::KubeFleet, Mode::Freeze);
}

#[test]
fn recorded_cases_of_karmada_become_placements_of_kubefleet() {
    KARMADA.assert_equal_or_explained(Target::KubeFleet, Mode::Idiomatic);
}
