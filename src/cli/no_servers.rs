//! Stands in for `servers` in a binary without the feature `live`: no command connects to an API server.

use std::convert::Infallible;

use super::import::ImportCommand;
use super::members::{EarlierRun, MemberRun, ServerAccess};
use super::settings::RepoArgs;
use super::snapshot::SnapshotCommand;
use super::{CommandError, Exit};
use federate_dialect::Plan;
use federate_dialect::import::Importer;
use federate_engine::snapshot::SnapshotInput;
use federate_reconcile::{Actions, ApplySet, RepoRef};
use federate_repo::FileTree;
use federate_session::{Reconciler, Session};
use federate_source::TreeTrace;

/// No command only connects to API servers.
pub(super) type ServerCommand = Infallible;

/// What is read of clusters before a plan is made: nothing is.
pub(super) enum Surveyed {}

/// What is read of clusters early: nothing is.
pub(super) enum EarlyReads {}

/// Where a run is recorded: nowhere.
pub(super) enum RunRecorder {}

/// A recorded run: there is none.
pub(super) enum RunRecording {}

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
    pub(super) fn find_earlier_run(&self, _: &dyn FileTree, _: Option<&RepoRef>) -> EarlierRun {
        EarlierRun::Other { early: None, recorder: None }
    }

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

impl RunRecorder {
    pub(super) fn prepare_recording(
        self,
        _: &Session,
        _: TreeTrace,
        _: &ApplySet,
        _: &Actions,
        _: String,
    ) -> Option<RunRecording> {
        match self {}
    }
}

impl RunRecording {
    pub(super) fn store_record(self, _: &str) {
        match self {}
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
