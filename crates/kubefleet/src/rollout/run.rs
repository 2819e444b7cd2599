//! The execution of `ClusterStagedUpdateRun` and `StagedUpdateRun`: what each reconcile writes, and when the
//! next one follows.
//!
//! Facts: a run is initialized once. If what it found then changes later, the run ends. Bindings are polled,
//! not watched. A failure that ends a run is never retried. Any other failure is, and the status keeps what was
//! done.

use federate_kubernetes::ObjectRef;
use federate_kubernetes::condition::{self, Condition};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

mod approval;
mod binding;
mod deletion;
mod execution;
pub mod hub_objects;
pub(super) mod initialization;
pub(super) mod kinds;
pub mod status;
mod stop;
mod validation;

use crate::KubeFleetBehaviour;
use crate::version::RunState;
pub use hub_objects::{HubObjects, RunWrite};
use kinds::RunKinds;
use status::{RunStatus, StageStatus};

const FINALIZER: &str = "kubernetes-fleet.io/stagedupdaterun-finalizer";

/// How long the update of a cluster may take before the run counts as stuck.
const MAX_CLUSTER_UPDATE_TIME: SignedDuration = SignedDuration::from_mins(5);

/// The polling interval for clusters that are being updated.
const POLL_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// The polling interval for approvals.
const APPROVAL_POLL_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// When a run is reconciled next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRequeue {
    /// On an event.
    Event,
    /// After this time.
    After(SignedDuration),
    /// After an error, with back-off.
    Retry(String),
}

/// Why a reconcile failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// Ends the run.
    Abort(String),
    /// The reconcile is retried.
    Retry(String),
}

impl Failure {
    /// A client error, which ends the run.
    fn client_error(why: impl std::fmt::Display) -> Self {
        Self::Abort(format!("failed to process the request due to a client error: {why}"))
    }

    /// Unexpected behaviour, which ends the run.
    fn unexpected_behavior(why: impl std::fmt::Display) -> Self {
        Self::Abort(format!("unexpected behavior which cannot be handled by the controller: {why}"))
    }

    /// Joins failures, each text once. The result ends the run if one of them does.
    fn aggregate_failures(all: Vec<Self>) -> Option<Self> {
        let abort = all.iter().any(|failure| matches!(failure, Self::Abort(_)));
        let mut texts: Vec<String> = Vec::new();
        for failure in all {
            let (Self::Abort(text) | Self::Retry(text)) = failure;
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = match texts.as_slice() {
            [] => return None,
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Some(if abort { Self::Abort(text) } else { Self::Retry(text) })
    }
}

/// The desired state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DesiredRunState {
    Initialize,
    Run,
    Stop,
}

/// One reconcile of a run.
struct Run<'w> {
    hub: &'w mut HubObjects,
    kinds: RunKinds,
    name: String,
    namespace: Option<String>,
    placement: String,
    strategy: String,
    resource_index: String,
    state: DesiredRunState,
    status: RunStatus,
    now: Timestamp,
    behaviour: KubeFleetBehaviour,
}

/// The current stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CurrentStage {
    Stage(usize),
    Deletion,
    Done,
}

/// The progress of a stage.
enum Progress {
    Finished,
    Wait(SignedDuration),
}

/// Reconciles a run once, by the rules of a release. The world then holds what the run writes, and notes it.
pub fn reconcile_run(
    hub: &mut HubObjects,
    run: &ObjectRef,
    now: Timestamp,
    behaviour: &KubeFleetBehaviour,
) -> Result<RunRequeue, serde_json::Error> {
    let namespace = run.namespace.as_deref();
    let Some(object) = hub.get_mut(&run.kind, namespace, &run.name) else { return Ok(RunRequeue::Event) };
    if object.is_deleting() {
        hub.remove_run(&run.kind, namespace, &run.name);
        return Ok(RunRequeue::Event);
    }
    hub_objects::add_finalizer(object, FINALIZER);
    let state = match object.text_at(&["spec", "state"]) {
        _ if behaviour.run_state != RunState::Obeyed => DesiredRunState::Run,
        "Run" => DesiredRunState::Run,
        "Stop" => DesiredRunState::Stop,
        _ => DesiredRunState::Initialize,
    };
    let generation = object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    let mut one = Run {
        kinds: RunKinds::for_scope(namespace.is_some()),
        name: run.name.clone(),
        namespace: run.namespace.clone(),
        placement: object.text_at(&["spec", "placementName"]).to_owned(),
        strategy: object.text_at(&["spec", "stagedRolloutStrategyName"]).to_owned(),
        resource_index: object.text_at(&["spec", "resourceSnapshotIndex"]).to_owned(),
        state,
        status: RunStatus::from_run(object)?,
        now,
        behaviour: *behaviour,
        hub,
    };
    let (next, written) = one.advance_run()?;
    let mut status = one.status;
    if written {
        status.set_observed_generation(generation);
        if let Some(object) = hub.get_mut(&run.kind, namespace, &run.name) {
            object.body["status"] = serde_json::to_value(&status)?;
        }
    }
    Ok(next)
}

impl Run<'_> {
    /// Returns when the next reconcile follows, and whether the status is written.
    fn advance_run(&mut self) -> Result<(RunRequeue, bool), serde_json::Error> {
        let initialized =
            condition::find_condition(&self.status.conditions, "Initialized").map(Condition::is_true);
        let at = match initialized {
            Some(false) => return Ok((RunRequeue::Event, true)),
            None => match self.initialize_status()? {
                Ok(()) => {
                    let message = "The UpdateRun initialized successfully";
                    self.set_condition("Initialized", "True", "UpdateRunInitializedSuccessfully", message);
                    self.stage_at(0)
                }
                Err(Failure::Abort(why)) => {
                    let why =
                        format!("cannot continue the updateRun: failed to validate the updateRun: {why}");
                    self.set_condition("Initialized", "False", "UpdateRunInitializedFailed", &why);
                    return Ok((RunRequeue::Event, true));
                }
                Err(Failure::Retry(why)) => return Ok((RunRequeue::Retry(why), false)),
            },
            Some(true) if condition::find_condition(&self.status.conditions, "Succeeded").is_some() => {
                return Ok((RunRequeue::Event, true));
            }
            Some(true) => match self.validate_run()? {
                Ok(at) => at,
                Err(Failure::Abort(why)) => {
                    self.abort_run(&why);
                    return Ok((RunRequeue::Event, true));
                }
                Err(Failure::Retry(why)) => return Ok((RunRequeue::Retry(why), false)),
            },
        };
        Ok((self.continue_at(at), true))
    }

    /// The stage at that index, or the one for deletions.
    fn stage_at(&self, index: usize) -> CurrentStage {
        if index < self.status.stages.len() { CurrentStage::Stage(index) } else { CurrentStage::Deletion }
    }

    fn continue_at(&mut self, at: CurrentStage) -> RunRequeue {
        let progress = match (at, self.state) {
            (CurrentStage::Done, _) => Ok(Progress::Finished),
            (_, DesiredRunState::Initialize) => return RunRequeue::Event,
            (CurrentStage::Stage(index), DesiredRunState::Run) => self.run_stage(index),
            (CurrentStage::Deletion, DesiredRunState::Run) => {
                self.set_progressing();
                self.execute_deletion()
            }
            (_, DesiredRunState::Stop) => {
                self.stop_run(at).map(|stopped| stopped.map_or(Progress::Finished, Progress::Wait))
            }
        };
        match progress {
            Ok(Progress::Wait(wait)) => RunRequeue::After(wait),
            Ok(Progress::Finished) if self.state == DesiredRunState::Stop && at != CurrentStage::Done => {
                RunRequeue::Event
            }
            Ok(Progress::Finished) => {
                self.set_condition("Progressing", "False", "UpdateRunSucceeded", "All stages are completed");
                let message = "All stages are completed successfully";
                self.set_condition("Succeeded", "True", "UpdateRunSucceeded", message);
                RunRequeue::Event
            }
            Err(Failure::Retry(why)) => RunRequeue::Retry(why),
            Err(Failure::Abort(why)) => {
                let text = format!("cannot continue the updateRun: {why}");
                self.fail_stage(at, &text);
                self.abort_run(&why);
                RunRequeue::Event
            }
        }
    }

    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        condition::set_condition(
            &mut self.status.conditions,
            Condition::new(kind, status, reason, message),
            self.now,
        );
    }

    fn mark_progressing(&mut self) {
        self.set_condition(
            "Progressing",
            "True",
            "UpdateRunProgressing",
            "The update run is making progress",
        );
    }

    /// Sets the condition that the run progresses, unless it waits or is stuck.
    fn set_progressing(&mut self) {
        let held = condition::find_condition(&self.status.conditions, "Progressing").is_some_and(|c| {
            c.is_false() && matches!(c.reason.as_str(), "UpdateRunWaiting" | "UpdateRunStuck")
        });
        if !held {
            self.mark_progressing();
        }
    }

    /// Ends the run.
    fn abort_run(&mut self, why: &str) {
        let message = "The stages are aborted due to a non-recoverable error";
        self.set_condition("Progressing", "False", "UpdateRunFailed", message);
        let why = format!("cannot continue the updateRun: {why}");
        self.set_condition("Succeeded", "False", "UpdateRunFailed", &why);
    }

    fn fail_stage(&mut self, at: CurrentStage, why: &str) {
        let now = self.now;
        if let Some(stage) = self.stage_mut(at) {
            let message = "Stage update aborted due to a non-recoverable error";
            stage.set_condition("Progressing", "False", "StageUpdatingFailed", message, now);
            stage.set_condition("Succeeded", "False", "StageUpdatingFailed", why, now);
            stage.end_time = Some(now);
        }
    }

    fn stage_mut(&mut self, at: CurrentStage) -> Option<&mut StageStatus> {
        match at {
            CurrentStage::Stage(index) => self.status.stages.get_mut(index),
            CurrentStage::Deletion => self.status.deletion_stage.as_mut(),
            CurrentStage::Done => None,
        }
    }

    /// Reports the clusters whose update takes too long.
    fn report_stuck(&mut self, stuck: &[String], stage: &str) {
        if stuck.is_empty() {
            return;
        }
        let more = if stuck.len() > 3 { "..." } else { "" };
        let names = stuck.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!(
            "The updateRun is stuck waiting for {names}{more} cluster(s) in stage {stage} to finish updating, \
             please check placement status for potential errors"
        );
        self.set_condition("Progressing", "False", "UpdateRunStuck", &message);
    }
}

#[cfg(test)]
mod tests;
