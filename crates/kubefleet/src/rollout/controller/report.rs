//! How far a run is, in words.

use federate_dialect::{PolicyRollout, RolloutMoment, RolloutProgress, RolloutStep};
use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};

use super::hub::{approval_token, open_requests};
use super::state::UpdateRunState;
use super::{RolloutController, format_cluster_count};
use crate::rollout::run::RunRequeue;

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunReport {
    /// Admission refuses it as it is now.
    Refused(String),
    /// It has ended, or never begins, for this reason.
    Failed(String),
    /// It retries what failed.
    Retries(String),
    /// It waits for `state: Run`.
    Waits(&'static str),
    /// It waits for the approval of this request.
    Approval(String),
    /// It goes on, perhaps after some time.
    Goes(RunRequeue),
}

impl RunReport {
    /// The report about a run after it was reconciled; `None` if it has succeeded.
    pub(super) fn from_run(known: &UpdateRunState, next: Option<RunRequeue>) -> Option<Self> {
        let status = &known.status;
        let [initialized, succeeded, progressing] = ["Initialized", "Succeeded", "Progressing"]
            .map(|kind| condition::find_condition(&status.conditions, kind));
        let failed = [initialized, succeeded];
        if let Some(failed) = failed.into_iter().flatten().find(|condition| condition.is_false()) {
            return Some(Self::Failed(failed.message.clone()));
        }
        if succeeded.is_some_and(Condition::is_true) {
            return None;
        }
        if let Some(RunRequeue::Retry(why)) = next {
            return Some(Self::Retries(why));
        }
        let open = open_requests(status).next();
        Some(match progressing.map(|condition| condition.reason.as_str()) {
            None => Self::Waits("is initialized, and waits for `state: Run`"),
            Some("UpdateRunStopped") => Self::Waits("is stopped, and waits for `state: Run`"),
            Some("UpdateRunStuck") => {
                Self::Retries(progressing.map(|condition| condition.message.clone()).unwrap_or_default())
            }
            Some("UpdateRunWaiting") if open.is_some() => {
                Self::Approval(open.map(|task| task.approval_request_name.clone()).unwrap_or_default())
            }
            _ => Self::Goes(next.unwrap_or(RunRequeue::Event)),
        })
    }

    /// The same as a step.
    pub(super) fn into_step(
        self,
        carrying: &RolloutController<'_>,
        rollout: &PolicyRollout,
        run: &Object,
        known: &UpdateRunState,
        moment: &RolloutMoment<'_>,
    ) -> RolloutStep {
        let status = &known.status;
        let stage = status.stages.iter().find(|stage| stage.find_condition("Succeeded").is_none());
        let clusters = status.stages.iter().flat_map(|stage| &stage.clusters);
        let total = clusters.clone().count();
        let updated = clusters.filter(|cluster| cluster.is_true("Succeeded")).count();
        let id = &run.id;
        let at = match stage {
            Some(stage) => {
                format!(
                    "{id}: stage `{}`: {updated} of {} updated",
                    stage.stage_name,
                    format_cluster_count(total)
                )
            }
            None if status.stages.is_empty() => id.to_string(),
            None => format!("{id}: removing it from the clusters that it leaves"),
        };
        let mut next = None;
        let (progress, message) = match self {
            Self::Refused(why) | Self::Failed(why) => (RolloutProgress::Halted, format!("{id}: {why}")),
            Self::Retries(why) => {
                let why = rollout.first_failure().unwrap_or(why);
                (RolloutProgress::Halted, format!("{at}: {why}"))
            }
            Self::Waits(what) => (RolloutProgress::Idle, format!("{id} {what}")),
            Self::Approval(request) => {
                let token = approval_token(id, known, &request);
                (RolloutProgress::Approval(token), at)
            }
            Self::Goes(after) => {
                if let RunRequeue::After(wait) = after {
                    next = moment.now.checked_add(wait).ok();
                }
                (RolloutProgress::Going, at)
            }
        };
        let stage = stage.map(|stage| stage.stage_name.clone()).unwrap_or_default();
        let object = id.clone();
        RolloutStep {
            object,
            progress,
            message,
            stage,
            updated,
            next,
            ..carrying.progress_step(rollout, &known.revision)
        }
    }
}
