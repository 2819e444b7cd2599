//! The table of reasons in the guide, with counts over the recorded cases. Each object of a case is equal after its migration,
//! or a rule of its own explains what differs. `UPDATE_DOCUMENTATION=1 cargo test --test migrate reasons` writes the table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rayon::prelude::*;
use serde_json::Value;

use federate_dialect::Plan;
use federate_engine::change::DigestKey;
use federate_migrate::{
    DifferenceKind, Mode, ProofSides, Reason, Target, Verdict, migrate_repo, prove_migration,
};
use federate_session::{Session, SessionOptions};

use crate::conformance::{KARMADA, KUBEADMIRAL, KUBEFED, KUBEFLEET, files_of, options_of, read_cases};
use crate::files::Files;

const GUIDE: &str = "docs/guides/migrate.md";
const MARK: &str = "<!-- reasons -->\n";
const END: &str = "<!-- end of reasons -->\n";

/// Objects by reason: those with such a rule, and those that differ because of it.
type ReasonCounts = BTreeMap<Reason, [usize; 2]>;

/// What became of cases.
#[derive(Default)]
struct Outcome {
    /// Cases that are migrated, and those that are refused for their errors.
    cases: [usize; 2],
    verdicts: BTreeMap<Verdict, usize>,
    reasons: ReasonCounts,
    unexplained: Vec<String>,
}

impl Outcome {
    fn merged_with(mut self, other: Self) -> Self {
        for (own, more) in self.cases.iter_mut().zip(other.cases) {
            *own += more;
        }
        for (verdict, count) in other.verdicts {
            *self.verdicts.entry(verdict).or_default() += count;
        }
        for (reason, counts) in other.reasons {
            let own = self.reasons.entry(reason).or_default();
            *own = [own[0] + counts[0], own[1] + counts[1]];
        }
        self.unexplained.extend(other.unexplained);
        self
    }
}

fn open(files: &Files, options: SessionOptions) -> Session {
    let mut session = Session::open(files, options);
    session.keep_values();
    session
}

fn prove_case(case: &Value, target: Target) -> Outcome {
    let mut outcome = Outcome::default();
    let files = files_of(case);
    let old = open(&files, options_of(case));
    let Ok(migration) = migrate_repo(&old, target, Mode::Idiomatic) else {
        outcome.cases[1] += 1;
        return outcome;
    };
    outcome.cases[0] += 1;
    // The new control plane has decided nothing before.
    let options = options_of(case).with_previous(Plan::default());
    let mut new = open(&files.migrated(&migration), options);
    new.share_cluster_states(old.clusters());
    let key = DigestKey::new(b"the key of a test");
    let proof =
        prove_migration(ProofSides { old: &old, new: &new, migration: &migration, key: &key }).unwrap();
    for object in &proof.objects {
        *outcome.verdicts.entry(object.verdict).or_default() += 1;
        let mut reasons: Vec<Reason> = object.rules.iter().map(|rule| rule.reason).collect();
        reasons.sort();
        reasons.dedup();
        for reason in reasons {
            let differs = object.differences.iter().any(|difference| difference.reasons.contains(&reason));
            let counts = outcome.reasons.entry(reason).or_default();
            *counts = [counts[0] + 1, counts[1] + usize::from(differs)];
        }
        if object.verdict == Verdict::Unexplained {
            outcome.unexplained.push(format!("{}: {object:#?}", case["id"]));
        }
    }
    outcome
}

/// A migration of recorded cases.
struct Direction {
    dialect: &'static str,
    title: &'static str,
    families: &'static [&'static str],
    target: Target,
}

const DIRECTIONS: [Direction; 5] = [
    Direction {
        dialect: "kubefed", title: "KubeFed → Karmada", families: &KUBEFED, target: Target::Karmada
    },
    Direction {
        dialect: "kubeadmiral",
        title: "KubeAdmiral → Karmada",
        families: &KUBEADMIRAL,
        target: Target::Karmada,
    },
    Direction {
        dialect: "kubefleet",
        title: "KubeFleet → Karmada",
        families: &KUBEFLEET,
        target: Target::Karmada,
    },
    Direction {
        dialect: "karmada",
        title: "Karmada → KubeFleet",
        families: &KARMADA,
        target: Target::KubeFleet,
    },
    Direction {
        dialect: "karmada",
        title: "Karmada → KubeAdmiral",
        families: &KARMADA,
        target: Target::KubeAdmiral,
    },
];

fn name_differences(reason: Reason) -> String {
    let kinds = [
        (DifferenceKind::Clusters, "clusters"),
        (DifferenceKind::Replicas, "replicas"),
        (DifferenceKind::Manifest, "manifest"),
    ];
    let explained = kinds.into_iter().filter(|(kind, _)| reason.explains(*kind)).map(|(_, name)| name);
    let names: Vec<&str> = explained.collect();
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

/// The table with the outcomes of all directions, in their order.
fn format_table(outcomes: &[Outcome]) -> String {
    let mut out = "| recorded cases | cases | refused for errors | `equal` | `equal-now` | `different` |\n\
         |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (Direction { title, .. }, outcome) in DIRECTIONS.iter().zip(outcomes) {
        let [equal, now, different] = [Verdict::Equal, Verdict::EqualNow, Verdict::Different]
            .map(|verdict| outcome.verdicts.get(&verdict).copied().unwrap_or(0));
        let [migrated, refused] = outcome.cases;
        out += &format!("| {title} | {} | {refused} | {equal} | {now} | {different} |\n", migrated + refused);
    }
    out += "\nNone is `unexplained`. The numbers are objects with such a rule and, in parentheses, those that differ because of it.\n\n";
    out += "| reason | meaning | what can differ |";
    for Direction { title, .. } in &DIRECTIONS {
        out += &format!(" {title} |");
    }
    out += &format!("\n|---|---|---|{}\n", "---:|".repeat(DIRECTIONS.len()));
    for reason in Reason::ALL {
        let (name, meaning) = (reason.name(), reason.meaning());
        out += &format!("| `{name}` | {meaning} | {} |", name_differences(reason));
        for outcome in outcomes {
            match outcome.reasons.get(&reason) {
                Some([objects, different]) => out += &format!(" {objects} ({different}) |"),
                None => out += " – |",
            }
        }
        out.push('\n');
    }
    out
}

#[test]
fn every_recorded_case_is_equal_or_explained_and_the_guide_counts_them() {
    let outcomes = DIRECTIONS.map(|Direction { dialect, families, target, .. }| {
        let cases: Vec<Value> = families.iter().flat_map(|family| read_cases(dialect, family)).collect();
        cases.par_iter().map(|case| prove_case(case, target)).reduce(Outcome::default, Outcome::merged_with)
    });
    let unexplained: Vec<&str> =
        outcomes.iter().flat_map(|outcome| &outcome.unexplained).map(String::as_str).collect();
    let shown: Vec<&str> = unexplained.iter().copied().take(60).collect();
    assert!(shown.is_empty(), "{} objects are unexplained:\n{}", unexplained.len(), shown.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE);
    let kept = fs::read_to_string(&path).unwrap();
    let (before, rest) = kept.split_once(MARK).expect("the mark of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let fresh = format!("{before}{MARK}\n{}\n{END}{after}", format_table(&outcomes));
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        fs::write(&path, &fresh).unwrap();
    } else {
        assert!(kept == fresh, "{GUIDE} has an old table; see the first lines of tests/migrate/reasons.rs");
    }
}
