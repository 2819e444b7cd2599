//! The table of reasons in the guide, with counts over the recorded cases. Each object of a case is equal after its migration,
//! or a rule of its own explains what differs. `UPDATE_DOCUMENTATION=1 cargo test --test migrate reasons` writes the table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use federate_engine::change::DigestKey;
use federate_migrate::{DifferenceKind, Migration, ProofSides, Reason, Target, Verdict, prove_migration};
use federate_session::Session;

use crate::conformance::{KARMADA, KUBEADMIRAL, KUBEFED, KUBEFLEET};

const GUIDE: &str = "docs/guides/migrate.md";
const MARK: &str = "<!-- reasons -->\n";
const END: &str = "<!-- end of reasons -->\n";

/// Objects by reason: those with such a rule, and those that differ because of it.
type ReasonCounts = BTreeMap<Reason, [usize; 2]>;

/// What the proof says about migrated cases.
#[derive(Debug, Default)]
pub(crate) struct ProofOutcome {
    /// Cases that are refused for their errors.
    pub(crate) refused: usize,
    /// Cases that are migrated.
    migrated: usize,
    verdicts: BTreeMap<Verdict, usize>,
    reasons: ReasonCounts,
    pub(crate) unexplained: Vec<String>,
}

impl ProofOutcome {
    /// Adds what the proof says about other cases.
    pub(crate) fn add(&mut self, other: Self) {
        self.refused += other.refused;
        self.migrated += other.migrated;
        for (verdict, count) in other.verdicts {
            *self.verdicts.entry(verdict).or_default() += count;
        }
        for (reason, counts) in other.reasons {
            let own = self.reasons.entry(reason).or_default();
            *own = [own[0] + counts[0], own[1] + counts[1]];
        }
        self.unexplained.extend(other.unexplained);
    }

    /// Proves the migration of a case.
    pub(crate) fn prove(id: &str, old: &Session, new: &Session, migration: &Migration) -> Self {
        let mut outcome = Self { migrated: 1, ..Self::default() };
        let key = DigestKey::new(b"the key of a test");
        let proof = prove_migration(ProofSides { old, new, migration, key: &key }).unwrap();
        for object in &proof.objects {
            *outcome.verdicts.entry(object.verdict).or_default() += 1;
            let mut reasons: Vec<Reason> = object.rules.iter().map(|rule| rule.reason).collect();
            reasons.sort();
            reasons.dedup();
            for reason in reasons {
                let differs = object.decisive_reason() == Some(reason);
                let counts = outcome.reasons.entry(reason).or_default();
                *counts = [counts[0] + 1, counts[1] + usize::from(differs)];
            }
            if object.verdict == Verdict::Unexplained {
                outcome.unexplained.push(format!("{id}: {object:#?}"));
            }
        }
        outcome
    }
}

/// The columns of the table.
fn list_columns() -> [TableColumn; 5] {
    [
        TableColumn { title: "KubeFed → Karmada", outcome: KUBEFED.proof(Target::Karmada) },
        TableColumn { title: "KubeAdmiral → Karmada", outcome: KUBEADMIRAL.proof(Target::Karmada) },
        TableColumn { title: "KubeFleet → Karmada", outcome: KUBEFLEET.proof(Target::Karmada) },
        TableColumn { title: "Karmada → KubeFleet", outcome: KARMADA.proof(Target::KubeFleet) },
        TableColumn { title: "Karmada → KubeAdmiral", outcome: KARMADA.proof(Target::KubeAdmiral) },
    ]
}

/// A direction in the table.
struct TableColumn {
    title: &'static str,
    outcome: &'static ProofOutcome,
}

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

fn format_table(columns: &[TableColumn]) -> String {
    let mut out = "| recorded cases | cases | refused for errors | `equal` | `equal-now` | `different` |\n\
         |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for TableColumn { title, outcome } in columns {
        let [equal, now, different] = [Verdict::Equal, Verdict::EqualNow, Verdict::Different]
            .map(|verdict| outcome.verdicts.get(&verdict).copied().unwrap_or(0));
        let (migrated, refused) = (outcome.migrated, outcome.refused);
        out += &format!("| {title} | {} | {refused} | {equal} | {now} | {different} |\n", migrated + refused);
    }
    out += "\nNone is `unexplained`. The numbers are objects with such a rule and, in parentheses, those that differ because of it.\n\n";
    out += "| reason | meaning | what can differ |";
    for TableColumn { title, .. } in columns {
        out += &format!(" {title} |");
    }
    out += &format!("\n|---|---|---|{}\n", "---:|".repeat(columns.len()));
    for reason in Reason::ALL {
        let (name, meaning) = (reason.name(), reason.meaning());
        out += &format!("| `{name}` | {meaning} | {} |", name_differences(reason));
        for TableColumn { outcome, .. } in columns {
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
    let columns = list_columns();
    let unexplained: Vec<&str> =
        columns.iter().flat_map(|column| &column.outcome.unexplained).map(String::as_str).collect();
    let shown: Vec<&str> = unexplained.iter().copied().take(60).collect();
    assert!(shown.is_empty(), "{} objects are unexplained:\n{}", unexplained.len(), shown.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE);
    let kept = fs::read_to_string(&path).unwrap();
    let (before, rest) = kept.split_once(MARK).expect("the mark of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let fresh = format!("{before}{MARK}\n{}\n{END}{after}", format_table(&columns));
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        fs::write(&path, &fresh).unwrap();
    } else {
        assert!(kept == fresh, "{GUIDE} has an old table; see the first lines of tests/migrate/reasons.rs");
    }
}
