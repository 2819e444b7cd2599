//! What stands for the steps that reach member clusters, in a binary that cannot.

use super::{Members, Servers};
use crate::cli::Fault;
use federate_engine::actions::{Actions, Inventory, RepoRef};
use federate_repo::Source;
use federate_session::{Reconciler, Session};
use federate_source::SourceTrace;

/// What a survey found: nothing.
#[derive(Default)]
pub(super) struct Surveyed {}

/// What is being read of clusters: nothing.
pub(super) struct EarlyReads {}

/// What an earlier run printed.
#[allow(dead_code, reason = "no run is recorded")]
pub(super) struct RunOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Whether an earlier run read the same.
#[allow(dead_code, reason = "no run is recorded")]
pub(super) enum EarlierRun {
    Same(RunOutput),
    Other { early: Option<EarlyReads>, recorder: Option<Recorder> },
}

/// Records no run.
pub(super) struct RunRecorder {}

/// The record of no run.
pub(super) struct RunRecording {}

impl Members<'_> {
    pub(super) fn find_earlier_run(&self, _: &dyn Source, _: Option<&RepoRef>) -> Repeat {
        Repeat::Other { early: None, recorder: None }
    }

    pub(super) fn read_early(&self, _: &Servers<'_>, _: &Session, _: &Inventory) -> Option<EarlyReads> {
        None
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands for one that can fail")]
    pub(super) fn survey_clusters(
        &self,
        _: &Servers<'_>,
        _: &mut Session,
        _: &Inventory,
    ) -> Result<Surveyed, Fault> {
        Ok(Surveyed {})
    }
}

impl Servers<'_> {
    pub(super) fn reconcile_clusters(
        &self,
        _: &Session,
        _: &Reconciler<'_>,
        _: (Option<&Surveyed>, bool),
        _: Option<&EarlyReads>,
    ) -> Result<Actions, Fault> {
        let why = "this binary was built without the feature `live` and cannot connect to clusters: give a dump with --observed";
        Err(Fault::Failed(why.to_owned()))
    }
}

impl Recorder {
    pub(super) fn prepare_recording(
        self,
        _: &Session,
        _: SourceTrace,
        _: (&Inventory, &Actions),
        _: String,
    ) -> Option<Recording> {
        None
    }
}

impl Recording {
    pub(super) fn store_record(self, _: &str) {}
}
