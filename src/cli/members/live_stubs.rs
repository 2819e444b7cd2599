//! Stand-ins for the steps that connect to member clusters, for a binary without the feature `live`.

use super::{MemberRun, ServerAccess};
use crate::cli::CommandError;
use federate_engine::actions::{Actions, ApplySet, RepoRef};
use federate_repo::Source;
use federate_session::{Reconciler, Session};
use federate_source::SourceTrace;

/// The empty result of a survey.
#[derive(Default)]
pub(super) struct Surveyed {}

/// No reads of clusters.
pub(super) struct EarlyReads {}

/// The output of an earlier run.
#[allow(dead_code, reason = "no run is recorded")]
pub(super) struct RunOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Whether an earlier run had the same inputs.
#[allow(dead_code, reason = "no run is recorded")]
pub(super) enum EarlierRun {
    Same(RunOutput),
    Other { early: Option<EarlyReads>, recorder: Option<RunRecorder> },
}

/// A recorder that records no run.
pub(super) struct RunRecorder {}

/// A record of no run.
pub(super) struct RunRecording {}

impl MemberRun<'_> {
    pub(super) fn find_earlier_run(&self, _: &dyn Source, _: Option<&RepoRef>) -> EarlierRun {
        EarlierRun::Other { early: None, recorder: None }
    }

    pub(super) fn read_early(&self, _: &ServerAccess<'_>, _: &Session, _: &ApplySet) -> Option<EarlyReads> {
        None
    }

    #[expect(clippy::unnecessary_wraps, reason = "the function with the feature `live` can fail")]
    pub(super) fn survey_clusters(
        &self,
        _: &ServerAccess<'_>,
        _: &mut Session,
        _: &ApplySet,
    ) -> Result<Surveyed, CommandError> {
        Ok(Surveyed {})
    }
}

impl ServerAccess<'_> {
    pub(super) fn reconcile_clusters(
        &self,
        _: &Session,
        _: &Reconciler<'_>,
        _: Option<&Surveyed>,
        _: bool,
        _: Option<&EarlyReads>,
    ) -> Result<Actions, CommandError> {
        let why = "this binary was built without the feature `live` and cannot connect to clusters: give a dump with --observed";
        Err(CommandError::Failed(why.to_owned()))
    }
}

impl RunRecorder {
    pub(super) fn prepare_recording(
        self,
        _: &Session,
        _: SourceTrace,
        _: &ApplySet,
        _: &Actions,
        _: String,
    ) -> Option<RunRecording> {
        None
    }
}

impl RunRecording {
    pub(super) fn store_record(self, _: &str) {}
}
