//! Stands in for `servers` in a binary without the feature `live`: no command connects to an API server.

use std::convert::Infallible;

use super::import::ImportCommand;
use super::members::{MemberRun, ServerAccess};
use super::settings::RepoArgs;
use super::snapshot::SnapshotCommand;
use super::{CommandError, Exit};
use federate_dialect::Plan;
use federate_dialect::import::Importer;
use federate_engine::snapshot::SnapshotInput;
use federate_reconcile::{Actions, ApplySet};
use federate_session::{Reconciler, Session};

/// No command only connects to API servers.
pub(super) type ServerCommand = Infallible;

/// What is read of clusters before a plan is made: nothing is.
pub(super) enum Surveyed {}

/// What is read of clusters early: nothing is.
pub(super) enum EarlyReads {}

pub(super) fn run_command(command: ServerCommand) -> Result<Exit, CommandError> {
    match command {}
}

/// The error of what connects to clusters. `instead` says what to do, as the end of the sentence.
fn not_connected(instead: &str) -> CommandError {
    let why = "this binary was built without the feature `live` and cannot connect to clusters";
    CommandError::Failed(format!("{why}{instead}"))
}

/// Reads the plan in an artifact.
pub(super) fn read_plan_artifact(_: &str, _: bool) -> Result<Plan, CommandError> {
    let why = "this binary was built without the feature `live` and cannot connect to registries";
    Err(CommandError::Failed(why.to_owned()))
}

impl MemberRun<'_> {
    pub(super) fn read_early(&self, _: &ServerAccess<'_>, _: &Session, _: &ApplySet) -> Option<EarlyReads> {
        None
    }
}

impl ServerAccess<'_> {
    pub(super) fn survey_clusters(
        &self,
        _: &RepoArgs,
        _: &mut Session,
        _: &ApplySet,
        _: bool,
    ) -> Result<Surveyed, CommandError> {
        Err(not_connected(": give a dump with --observed"))
    }

    pub(super) fn apply_or_compare(
        &self,
        _: &Session,
        _: &Reconciler<'_>,
        _: Option<&Surveyed>,
        _: bool,
        _: Option<&EarlyReads>,
    ) -> Result<Actions, CommandError> {
        Err(not_connected(": give a dump with --observed"))
    }
}

impl SnapshotCommand {
    pub(super) fn read_servers(&self, _: &mut SnapshotInput) -> Result<(), CommandError> {
        Err(not_connected(": give a dump with -f"))
    }
}

impl ImportCommand {
    pub(super) fn import_live(&self, _: &str, _: &Importer) -> Result<Exit, CommandError> {
        Err(not_connected(""))
    }
}
