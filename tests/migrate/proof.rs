//! Migrations that are proved as the command line proves them.

use federate_engine::change::DigestKey;
use federate_kubernetes::Finding;
use federate_migrate::{MigrationError, Mode, ProofSides, Target, Verdict, migrate_repo, prove_migration};
use federate_session::Session;

use crate::files::Files;

/// Both sides of a migration without faults.
pub(crate) struct ProvedMigration {
    /// The files of the new side.
    pub(crate) files: Files,
    /// The new side.
    pub(crate) session: Session,
    /// What is written, as one text.
    pub(crate) text: String,
    /// The worst verdict.
    pub(crate) verdict: Verdict,
}

/// The errors of a repo.
pub(crate) fn list_errors(session: &Session) -> Vec<String> {
    let errors = session.findings().into_iter().filter(Finding::is_error);
    errors.map(|finding| finding.message).collect()
}

/// Migrates a repo and proves it; `None` for rules that have no idiomatic form, and without the program that builds overlays. Panics
/// where the command line ends with 2.
#[track_caller]
pub(crate) fn prove(files: &Files, target: Target, mode: Mode) -> Option<ProvedMigration> {
    let old = files.open();
    assert_eq!(list_errors(&old), Vec::<String>::new());
    let direction = format!("{} {}", target.name(), mode.name());
    let migration = match migrate_repo(&old, target, mode) {
        Ok(migration) => migration,
        Err(MigrationError::UnknownDirection(_)) if mode == Mode::Idiomatic => return None,
        Err(error) => panic!("{direction}: {error}"),
    };
    let text = Files::print_edits(&migration);
    let files = files.migrated(&migration);
    let mut session = if target == Target::Plain { files.open_built()? } else { files.open() };
    session.share_cluster_states(old.clusters());
    assert_eq!(list_errors(&session), Vec::<String>::new(), "{direction}: {text}");
    let key = DigestKey::new(b"the key of a test");
    let sides = ProofSides { old: &old, new: &session, migration: &migration, key: &key };
    let proof = prove_migration(sides).unwrap();
    let wrong: Vec<_> = proof.objects.iter().filter(|one| one.verdict == Verdict::Unexplained).collect();
    assert!(wrong.is_empty(), "{direction}: {wrong:#?}\n{text}");
    let verdict = proof.worst_verdict();
    Some(ProvedMigration { files, session, text, verdict })
}
