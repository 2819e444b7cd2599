//! Writes a repo for another control plane, and proves what stays equal.
//!
//! ```text
//! Session (old) ─► read ─► PlacementIntent ─► write ─► Migration { edits, objects }
//!                                                        │
//!                       MigratedTree (old files + edits) ─► Session (new)
//!                                                                │
//! Session (old) ────────────────────────────────────────────────┴─► proof: each object equal,
//!                                                                    equal now, or different with a reason
//! ```
//!
//! A migration is a value: the edits of files, and for each object its names on both sides and the rules that
//! the other control plane does not have. Nothing is written here; callers publish the edits.

mod changes;
mod conversion;
mod difference;
mod error;
mod freeze;
mod intent;
mod inventory;
mod migrated_tree;
mod migration;
mod page;
mod placed;
mod present;
mod proof;
mod read;
mod reason;
mod rendering;
mod repo_text;
mod report;
mod stress;
mod switch;
mod template_text;
mod write;

use std::collections::BTreeSet;

use federate_dialect::cluster_profiles;
use federate_kubernetes::Finding;
use federate_repo::Role;
use federate_session::Session;

use conversion::RepoConversion;

pub use error::{MigrationError, MigrationProblem, UnknownDirection};
pub use migrated_tree::MigratedTree;
pub use migration::{FileEdit, MigratedObject, Migration, Mode, Target, UnequalRule};
pub use page::{MigrationPage, RunbookSection};
pub use proof::{ObjectDifference, ObjectProof, Proof, ProofSides, Verdict, prove_migration};
pub use reason::{DifferenceKind, Reason};
pub use rendering::remove_bookkeeping;
pub use report::{
    FileChangeKind, FileRow, MigrationReport, ObjectRow, ProofCounts, ReasonRow, ReportSubject, RuleRow,
};
pub use stress::{DEFAULT_SEED, ReasonCount, Stress, StressExample, StressOptions, stress_migration};
pub use switch::{
    RUNBOOK_FILE, RunbookNames, StepCheck, StepExpectation, StepState, SwitchStep, WorldCheck, check_world,
    write_runbook,
};

/// Writes a repo for another control plane. The migration of a repo that is written for it already has no edits.
///
/// # Errors
///
/// All problems of the repo at once, or that there is no such direction.
pub fn migrate_repo(session: &Session, target: Target, mode: Mode) -> Result<Migration, MigrationError> {
    let sources = find_sources(session, target);
    if sources.is_empty() {
        return Ok(Migration::default());
    }
    let broken: Vec<Finding> = session.findings().into_iter().filter(Finding::is_error).collect();
    if !broken.is_empty() {
        return Err(MigrationError::BrokenRepo(broken));
    }
    let what = "writing the repo for the other control plane";
    session.work_limit().run_part(what, || convert_repo(session, target, mode, sources))?
}

/// The mode for a repo where none is chosen: rules are written as rules, or all objects as they are placed now if the other control
/// plane has no such rules.
pub fn find_mode(session: &Session, target: Target) -> Mode {
    if read::has_rules(&find_sources(session, target), target) { Mode::Idiomatic } else { Mode::Freeze }
}

fn convert_repo(
    session: &Session,
    target: Target,
    mode: Mode,
    sources: BTreeSet<&'static str>,
) -> Result<Migration, MigrationError> {
    if target == Target::Plain {
        // Without a control plane, everything is as it is placed now.
        let intent = freeze::read_intent(session, &sources);
        return RepoConversion { session, target, mode: Mode::Idiomatic, sources }.convert_to_plain(intent);
    }
    let intent = match mode {
        Mode::Freeze => freeze::read_intent(session, &sources),
        Mode::Idiomatic => read::read_intent(session, &sources, target)?,
    };
    RepoConversion { session, target, mode, sources }.convert(intent)
}

/// The dialects of the control planes that the repo is written for, without the new one.
fn find_sources(session: &Session, target: Target) -> BTreeSet<&'static str> {
    let claimed = session.repo().claimed.iter();
    let claimed = claimed.filter(|claimed| claimed.role != Role::ControlPlane);
    // ClusterProfiles are no control plane's.
    let claimed = claimed.filter(|claimed| claimed.dialect != cluster_profiles::NAME);
    let mut sources: BTreeSet<&'static str> = claimed.map(|claimed| claimed.dialect).collect();
    let rows = session.plan().placements.iter();
    let deciding = rows.filter(|row| row.policy.is_some());
    let deciding: BTreeSet<&str> = deciding.map(|row| row.dialect.as_str()).collect();
    sources.extend(session.dialects().names().into_iter().filter(|name| deciding.contains(name)));
    sources.remove(target.name());
    sources
}
