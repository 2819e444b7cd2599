//! One reconciliation of a Sync: poll → fetch → verify → render → guard → commit or push → accept → apply; or compare
//! clusters with what is rendered, if nothing has changed.
//!
//! Whatever keeps a revision from being carried out comes before the first branch or cluster is touched. The plan is
//! written before clusters are: a reconciliation that was killed decides the same the next time.

use std::time::Instant;

use jiff::Timestamp;

use federate_live::Interrupt;
use federate_reconcile::RepoRef;
use federate_repo::normalize_path;
use federate_sync_api::progress::short_revision;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::stage::{
    ReconciliationStart, StageEffect, StageEvent, StageInputs, StartInputs, SyncStage, advance_stage,
    start_reconciliation,
};
use federate_sync_api::status::{SyncReason, find_commit};
use federate_sync_api::{SyncMetadata, SyncSpec, WindowState, find_window_state};

use crate::environment::Environment;
use crate::hub::HubClient;
use crate::member_clusters::cluster_counts::count_clusters;
use crate::outcome::ReconcileError;
pub use crate::outcome::SyncOutcome;
use crate::plan::sessions::{Checkout, SourceState, SyncRuntime};
use crate::state::{Error as StateError, SyncState};
use crate::sync_files::ValidSync;

/// What only the loop gives a reconciliation.
#[derive(Clone, Copy)]
pub(crate) struct LoopContext<'l> {
    /// Whether something waits for the reconciliation to end.
    pub(crate) interrupt: &'l Interrupt,
    /// The API server that holds the Sync, if one does.
    pub(crate) hub: Option<&'l HubClient>,
}

/// Reconciles a Sync once, and writes the outcome to its state; `None` if there is nothing to do. `unready_dependency` is
/// the first Sync that it depends on and that is not ready. Only the loop deletes a Sync.
pub(crate) fn reconcile_sync(
    valid_sync: &ValidSync,
    state: &mut SyncState<'_>,
    runtime: &mut SyncRuntime,
    env: &Environment<'_>,
    unready_dependency: Option<&str>,
    from_loop: Option<LoopContext<'_>>,
) -> Result<Option<SyncOutcome>, StateError> {
    let sync = &valid_sync.object;
    let inputs = StartInputs {
        is_deleting: sync.is_deleting(),
        leaves_objects: !sync.deletes_objects() || sync.spec.suspend,
        is_rolled_back: valid_sync.rolls_back && state.record.is_at_named_commit(sync),
        unready_dependency,
    };
    let this = Reconciliation::new(valid_sync, env);
    Ok(match (start_reconciliation(&inputs, state.record.stage), from_loop) {
        (ReconciliationStart::End, _) => None,
        (ReconciliationStart::AwaitDependency(on), _) => Some(this.await_dependency(state, runtime, on)),
        (ReconciliationStart::Poll, from_loop) => {
            let interrupt = from_loop.map(|from_loop| from_loop.interrupt);
            Some(Reconciliation { interrupt, ..this }.reconcile_source(state, runtime))
        }
        (ReconciliationStart::DeleteObjects, Some(from_loop)) => {
            Some(this.delete_sync(state, runtime, from_loop.hub)?)
        }
        (ReconciliationStart::OrphanObjects, Some(from_loop)) => Some(this.orphan_objects(from_loop.hub)?),
        (ReconciliationStart::DeleteObjects | ReconciliationStart::OrphanObjects, None) => {
            Some(SyncOutcome::for_progress(
                "the Sync is being deleted, which only the loop does: run `federate sync` without --once"
                    .to_owned(),
            ))
        }
    })
}

/// One reconciliation of a Sync. Its steps are methods in the modules of their subjects:
///
/// | step | method | module |
/// |---|---|---|
/// | note whether maintenance windows are open | `note_window` | `window.rs` |
/// | see whether another client has pushed to the registry | `is_artifact_overwritten` | `plan/push.rs` |
/// | poll the source, fetch it | `poll_source` | `source/poll.rs` |
/// | read the status of the clusters | `observe_clusters` | `observe.rs` |
/// | `RenderAndPublish` | `render_and_publish` | `plan.rs` |
/// | `CheckRevision` | `check_revision` | `plan.rs` |
/// | refuse what has errors, or would delete too much | `find_refusal` | `plan/guard.rs` |
/// | `Accept` | `accept_revision` | `delivery.rs` |
/// | `Deliver` | `deliver_revision` | `delivery.rs` |
/// | `DeliveryStep::RollOut` | `roll_out` | `rollout/staged_rollout.rs` |
/// | `DeliveryStep::RollOutPolicies` | `roll_out_policies` | `rollout/policy_rollout.rs` |
/// | `ReturnClusters` | `return_clusters` | `rollout/staged_rollout.rs` |
/// | `AwaitWindow` | `await_window` | `window.rs` |
/// | `Compare` | `compare_all_clusters` | `member_clusters/comparison.rs` |
/// | `Finish` | `record_delivery` | `delivery.rs` |
/// | clean clusters that have left | `prune_clusters` | `member_clusters/deletion.rs` |
/// | look at all clusters at the interval | `check_clusters` | `member_clusters/comparison.rs` |
pub(crate) struct Reconciliation<'r> {
    pub(crate) valid_sync: &'r ValidSync,
    pub(crate) spec: &'r SyncSpec,
    pub(crate) env: &'r Environment<'r>,
    /// Whether something waits for the reconciliation to end; `None` if nothing can.
    pub(crate) interrupt: Option<&'r Interrupt>,
    /// Whether its maintenance windows were open when it began; `None` if it has none.
    pub(crate) window: Option<WindowState>,
    /// Whether it only reads: neither the state of the Sync nor clusters change.
    pub(crate) reads_only: bool,
}

impl<'r> Reconciliation<'r> {
    pub(crate) fn new(valid_sync: &'r ValidSync, env: &'r Environment<'r>) -> Self {
        let spec = &valid_sync.object.spec;
        let window = find_window_state(&spec.windows, Timestamp::now());
        Self { valid_sync, spec, env, interrupt: None, window, reads_only: false }
    }
}

impl Reconciliation<'_> {
    /// Carries out what the source has, and looks at the clusters.
    fn reconcile_source(&self, state: &mut SyncState<'_>, runtime: &mut SyncRuntime) -> SyncOutcome {
        let begun = Instant::now();
        state.record.follow_clock(Timestamp::now());
        runtime.select_paths(&self.spec.source.paths);
        self.note_window(state, runtime);
        let ended = self.walk_stages(state, runtime);
        let refused = self.prune_clusters(state);
        let looked_at = self.check_clusters(state, runtime, begun);
        count_clusters(&mut state.record, &runtime.tracker);
        let mut outcome = match (ended, looked_at) {
            (Ok(outcome), Err(stop)) if outcome.is_ready() => stop.into_outcome(),
            (Ok(outcome), _) => outcome,
            (Err(stop), _) => stop.into_outcome(),
        };
        outcome.drift = self.describe_drift(state, runtime);
        if outcome.is_ready() {
            state.record.success = Some(outcome.message.clone());
        }
        outcome.message.extend(refused.map(|refused| format!("; not cleaned: {refused}")));
        if self.valid_sync.rolls_back && outcome.is_ready() {
            let name = &self.valid_sync.object.metadata.name;
            outcome.message = format!(
                "rolled back: {}; the Sync is suspended until `federate sync resume {name}`",
                outcome.message
            );
        }
        record_outcome(state, outcome)
    }

    /// Waits for another Sync. Clusters are looked at meanwhile.
    fn await_dependency(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        on: &str,
    ) -> SyncOutcome {
        // What is wrong with clusters is in the status.
        let _ = self.check_clusters(state, runtime, Instant::now());
        count_clusters(&mut state.record, &runtime.tracker);
        let message = format!("{on} is not ready");
        let drift = self.describe_drift(state, runtime);
        record_outcome(state, SyncOutcome { reason: SyncReason::DependencyNotReady, message, drift })
    }

    /// What the next step of the reconciliation depends on.
    pub(crate) fn build_stage_inputs(
        &self,
        record: &SyncRecord,
        event: StageEvent,
        revision: &str,
    ) -> StageInputs {
        let SyncMetadata { ignore_windows, abort, .. } = &self.valid_sync.object.server_metadata;
        StageInputs {
            event,
            rolls_back: self.valid_sync.rolls_back,
            window_is_open: self.window.is_none_or(|window| window.is_open),
            ignores_windows: ignore_windows.as_deref() == Some(short_revision(find_commit(revision))),
            is_aborted: record.rollout.as_ref().is_some_and(|progress| {
                progress.aborted || abort.as_deref() == Some(short_revision(&progress.target))
            }),
        }
    }

    /// Walks through the stages of a revision. Clusters that lack the revision do not wait for a registry that cannot be asked.
    fn walk_stages(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
    ) -> Result<SyncOutcome, ReconcileError> {
        match self.is_artifact_overwritten(&state.record) {
            Ok(is_overwritten) => self.take_steps(state, runtime, is_overwritten),
            Err(stop) if state.record.stage.is_under_way() => {
                let outcome = self.take_steps(state, runtime, false)?;
                if outcome.is_ready() { Err(stop) } else { Ok(outcome) }
            }
            Err(stop) => Err(stop),
        }
    }

    /// Takes the steps of the reconciliation, one after the other.
    fn take_steps(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        is_overwritten: bool,
    ) -> Result<SyncOutcome, ReconcileError> {
        let Some(source_state) = self.poll_source(state, runtime, is_overwritten)? else {
            return Ok(unchanged_outcome(state));
        };
        self.observe_clusters(state, runtime, &source_state.checkout)?;
        state.record.status.last_attempted_revision = Some(source_state.name.clone());
        let mut event = if is_overwritten {
            StageEvent::OtherRevision
        } else {
            self.find_revision_event(state, runtime, &source_state)?
        };
        let mut stage = state.record.stage;
        let mut rendered = None;
        let mut ended = Ok(unchanged_outcome(state));
        loop {
            let before = stage;
            let effect;
            (stage, effect) =
                advance_stage(before, self.build_stage_inputs(&state.record, event, &source_state.name));
            if stage.is_accepted() && stage != before {
                state.record.enter_stage(stage);
                if before == SyncStage::Planned {
                    // The plan and the record are written before the first cluster is changed.
                    state.save_record()?;
                }
            }
            match effect {
                StageEffect::RenderAndPublish => {
                    rendered = Some(self.render_and_publish(state, runtime, &source_state)?);
                    event = StageEvent::Rendered;
                }
                StageEffect::Accept => {
                    event = StageEvent::Accepted(self.accept_revision(
                        state,
                        runtime,
                        &source_state,
                        rendered.as_ref(),
                    )?);
                }
                StageEffect::Deliver(step) => {
                    let result =
                        self.deliver_revision(step, state, runtime, &source_state, rendered.take())?;
                    (event, ended) = (result.event, result.outcome);
                }
                StageEffect::Finish => {
                    self.record_delivery(state, runtime, &source_state)?;
                    return ended;
                }
                StageEffect::Compare => {
                    return self.compare_all_clusters(state, runtime, &source_state.checkout);
                }
                StageEffect::CheckRevision => return self.check_revision(state, runtime, &source_state),
                StageEffect::AwaitWindow => {
                    return self.await_window(stage, state, runtime, &source_state);
                }
                StageEffect::ReturnClusters => {
                    return self.return_clusters(state, runtime, &source_state, rendered);
                }
                StageEffect::End => return ended,
            }
        }
    }

    /// Whether the source is at the revision that was accepted last, and the status of the clusters moves nothing.
    fn find_revision_event(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        SourceState { checkout, tip, branches, .. }: &SourceState,
    ) -> Result<StageEvent, ReconcileError> {
        let accepted = state.record.accepted.as_ref();
        if !accepted.is_some_and(|accepted| accepted.is_for(tip, branches.as_ref())) {
            return Ok(StageEvent::OtherRevision);
        }
        if self.moves_placements(state, runtime, checkout)? {
            tracing::info!(sync = self.name(), "the status of the clusters has changed");
            return Ok(StageEvent::OtherRevision);
        }
        Ok(StageEvent::SameRevision)
    }

    /// Checks that no other process has taken over while this one was paused.
    pub(crate) fn must_lead(&self) -> Result<(), ReconcileError> {
        if self.env.services.is_leading() {
            return Ok(());
        }
        Err(ReconcileError::new(
            SyncReason::ReconciliationFailed,
            "another process may lead: nothing is written",
        ))
    }

    pub(crate) fn name(&self) -> String {
        self.valid_sync.object.full_name()
    }

    pub(crate) fn looks_for_drift(&self) -> bool {
        self.spec.looks_for_drift()
    }

    /// Where a source comes from, if that is known.
    pub(crate) fn find_repo(&self, checkout: &Checkout) -> Option<RepoRef> {
        let repo = checkout.find_repo(&self.spec.source.url)?;
        let paths = self.spec.source.paths.iter().filter_map(|path| normalize_path(path).ok());
        Some(repo.narrowed_to(&paths.collect::<Vec<_>>()))
    }
}

fn record_outcome(state: &mut SyncState<'_>, outcome: SyncOutcome) -> SyncOutcome {
    let now = Timestamp::now();
    let status = &mut state.record.status;
    status.set_outcome(outcome.reason, &outcome.message, now);
    status.record_history(outcome.reason, &outcome.message, now);
    match state.save_record() {
        Ok(()) => outcome,
        Err(error) => SyncOutcome::from_state_error(&error),
    }
}

/// The outcome of a reconciliation in which nothing has changed.
pub(crate) fn unchanged_outcome(state: &SyncState<'_>) -> SyncOutcome {
    let at = state.record.status.last_applied_revision.as_deref().unwrap_or("the source");
    let message = state.record.success.as_deref().filter(|_| state.record.status.is_ready());
    SyncOutcome::for_success(message.unwrap_or(&format!("everything is at {at}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_step_is_a_method_of_its_module() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
        let read = |module: &str| std::fs::read_to_string(format!("{folder}{module}")).unwrap();
        let own = read("reconciliation.rs");
        let rows: Vec<&str> = own.lines().filter(|line| line.starts_with("/// | ")).skip(1).collect();
        assert!(rows.len() > 10, "{rows:?}");
        for row in rows {
            let mut cells = row.trim_end_matches(" |").rsplit(" | ").map(|cell| cell.trim_matches('`'));
            let (module, method) = (cells.next().unwrap(), cells.next().unwrap());
            assert!(read(module).contains(&format!("fn {method}(")), "{row}");
        }
    }
}
