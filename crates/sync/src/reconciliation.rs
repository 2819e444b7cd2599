//! One round: poll → fetch → verify → render → guard → commit or push → accept → apply; or compare clusters with what is
//! rendered, if nothing has changed.
//!
//! Whatever keeps a revision from being carried out comes before the first branch or cluster is touched. The plan is
//! written before clusters are: a round that was killed decides the same the next time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use federate_dialect::Plan;
use federate_engine::change::replicas_moved;
use federate_kubernetes::ObjectRef;
use federate_live::Interrupt;
use federate_reconcile::RepoRef;
use federate_repo::normalize_path;
use federate_session::Session;
use federate_sync_api::progress::short_revision;
use federate_sync_api::record::AcceptedRevision;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::rollout::RolloutSpec;
use federate_sync_api::stage::{
    Delivery, DeliveryStep, RoundEffect, RoundEvent, RoundStart, StageInputs, StartInputs, SyncStage,
    advance_stage, start_round,
};
use federate_sync_api::status::{ArtifactStatus, BranchStatus, SyncReason, find_commit};
use federate_sync_api::{ApplySpec, DriftMode, SyncMetadata, SyncSpec, WindowState};

use crate::environment::Environment;
use crate::member_clusters::cluster_counts::count_clusters;
use crate::member_clusters::selection::selected_names;
use crate::member_clusters::{HealthWait, MemberClusters};
pub use crate::outcome::SyncOutcome;
pub(crate) use crate::outcome::{ReconcileError, single_line};
use crate::plan::changes::RenderedObjects;
use crate::plan::sessions::{Checkout, LoopState, RevisionSession, SourceState};
use crate::rollout::policies::awaiting_objects;
use crate::state::SyncState;
use crate::sync_files::ValidSync;

/// Does one round, and writes its outcome to the state.
pub fn reconcile_sync(
    valid_sync: &ValidSync,
    state: &mut SyncState<'_>,
    loop_state: &mut LoopState,
    env: &Environment<'_>,
    interrupt: Option<&Interrupt>,
) -> SyncOutcome {
    let begun = Instant::now();
    state.record.follow_clock(Timestamp::now());
    loop_state.select_paths(&valid_sync.object.spec.source.paths);
    let round = Reconciliation::new(valid_sync, env, interrupt);
    round.note_window(state, loop_state);
    let ended = round.advance_round(state, loop_state);
    let refused = round.prune_clusters(state);
    let looked_at = round.check_clusters(state, loop_state, begun);
    count_clusters(&mut state.record, &loop_state.tracker);
    let mut outcome = match (ended, looked_at) {
        (Ok(outcome), Err(stop)) if outcome.is_ready() => stop.into_outcome(),
        (Ok(outcome), _) => outcome,
        (Err(stop), _) => stop.into_outcome(),
    };
    outcome.drift = round.describe_drift(state, loop_state);
    if outcome.is_ready() {
        state.record.success = Some(outcome.message.clone());
    }
    outcome.message.extend(refused.map(|refused| format!("; not cleaned: {refused}")));
    if valid_sync.rolls_back && outcome.is_ready() {
        let name = &valid_sync.object.name.name;
        outcome.message = format!(
            "rolled back: {}; the Sync is suspended until `federate sync resume {name}`",
            outcome.message
        );
    }
    record_outcome(state, outcome)
}

/// Deletes what a Sync manages in member clusters. The record is not written: the namespace may be going, and its memory
/// with it.
pub(crate) fn delete_managed(
    valid_sync: &ValidSync,
    state: &mut SyncState<'_>,
    env: &Environment<'_>,
) -> SyncOutcome {
    let round = Reconciliation::new(valid_sync, env, None);
    let outcome = round.delete_all(state).unwrap_or_else(|stop| {
        let way_out = match stop.reason {
            SyncReason::Progressing => "",
            _ => "; `deletionPolicy: Orphan` leaves the objects where they are",
        };
        let message = stop.message + way_out;
        SyncOutcome { reason: stop.reason, message: single_line(&message), drift: None }
    });
    let status = &mut state.record.status;
    status.set_outcome(outcome.reason, &outcome.message, Timestamp::now());
    match state.save_status() {
        Ok(()) => outcome,
        Err(error) => SyncOutcome::from_state_error(&error),
    }
}

/// What a round begins with, if this is the first Sync that it depends on and that is not ready.
pub(crate) fn choose_start<'o>(
    valid_sync: &ValidSync,
    record: &SyncRecord,
    unready_dependency: Option<&'o str>,
) -> RoundStart<'o> {
    let sync = &valid_sync.object;
    let inputs = StartInputs {
        is_deleting: sync.is_deleting(),
        leaves_objects: !sync.deletes_objects() || sync.spec.suspend,
        is_rolled_back: valid_sync.rolls_back && record.is_at_named_commit(sync),
        unready_dependency,
    };
    start_round(&inputs, record.stage)
}

/// Puts a round off until another Sync is ready. Clusters are looked at meanwhile.
pub(crate) fn await_dependency(
    valid_sync: &ValidSync,
    state: &mut SyncState<'_>,
    loop_state: &mut LoopState,
    env: &Environment<'_>,
    on: &str,
) -> SyncOutcome {
    let round = Reconciliation::new(valid_sync, env, None);
    // What is wrong with clusters is in the status.
    let _ = round.check_clusters(state, loop_state, Instant::now());
    count_clusters(&mut state.record, &loop_state.tracker);
    let message = format!("{on} is not ready");
    let drift = round.describe_drift(state, loop_state);
    record_outcome(state, SyncOutcome { reason: SyncReason::DependencyNotReady, message, drift })
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

/// A revision that was rendered, passed all checks, and was committed or pushed.
pub(crate) struct RenderedRevision {
    pub(crate) session: Session,
    /// Where the branches are that were committed to.
    branches: Vec<BranchStatus>,
    /// The plan that was pushed.
    artifact: Option<ArtifactStatus>,
    /// The previous plan.
    previous: Option<Plan>,
    /// The objects that it changes in clusters that have everything else; `None` for all.
    changed: Option<BTreeSet<ObjectRef>>,
}

/// What became of bringing a revision to clusters.
struct DeliveryResult {
    /// What it means for the stage.
    event: RoundEvent,
    /// How the round ends, unless a further step says otherwise.
    outcome: Result<SyncOutcome, ReconcileError>,
}

/// One round of a Sync. Its steps are methods in the files of their subjects:
///
/// | step | file |
/// |---|---|
/// | see whether somebody else has pushed to the registry | `plan/push.rs` |
/// | poll the source, fetch it, open former revisions | `source/poll.rs` |
/// | read the status of the clusters | `observe.rs` |
/// | maintenance windows | `window.rs` |
/// | render a revision, check it, commit or push it | `plan.rs`, `plan/guard.rs`, `plan/push.rs` |
/// | begin a rollout in stages, carry it out, or abort it | `rollout/start.rs`, `rollout/staged_rollout.rs` |
/// | carry out rollouts of policies | `rollout/policy_rollout.rs` |
/// | compare clusters, and check that they can be reached | `member_clusters/comparison.rs` |
/// | apply to the clusters, each through the session's reconciler | `member_clusters.rs` |
/// | count clusters by their states | `member_clusters/cluster_counts.rs` |
/// | note the managed scope, clean clusters that have left, delete everything | `member_clusters/deletion.rs` |
pub(crate) struct Reconciliation<'r> {
    pub(crate) valid_sync: &'r ValidSync,
    pub(crate) spec: &'r SyncSpec,
    pub(crate) env: &'r Environment<'r>,
    /// Whether something waits for the round to end; `None` if nothing can.
    pub(crate) interrupt: Option<&'r Interrupt>,
    /// Whether its maintenance windows were open when it began; `None` if it has none.
    pub(crate) window: Option<WindowState>,
    /// Whether it only reads: neither the state of the Sync nor clusters change.
    pub(crate) reads_only: bool,
}

impl<'r> Reconciliation<'r> {
    pub(crate) fn new(
        valid_sync: &'r ValidSync,
        env: &'r Environment<'r>,
        interrupt: Option<&'r Interrupt>,
    ) -> Self {
        let round = Self {
            valid_sync,
            spec: &valid_sync.object.spec,
            env,
            interrupt,
            window: None,
            reads_only: false,
        };
        Self { window: round.find_window(Timestamp::now()), ..round }
    }
}

impl Reconciliation<'_> {
    /// What the next step of the round depends on.
    pub(crate) fn build_stage_inputs(
        &self,
        record: &SyncRecord,
        event: RoundEvent,
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

    /// Does the round. Clusters that lack the revision do not wait for a registry that cannot be asked.
    fn advance_round(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
    ) -> Result<SyncOutcome, ReconcileError> {
        match self.is_artifact_overwritten(&state.record) {
            Ok(is_overwritten) => self.take_steps(state, loop_state, is_overwritten),
            Err(stop) if state.record.stage.is_under_way() => {
                let outcome = self.take_steps(state, loop_state, false)?;
                if outcome.is_ready() { Err(stop) } else { Ok(outcome) }
            }
            Err(stop) => Err(stop),
        }
    }

    /// Takes the steps of the round, one after the other.
    fn take_steps(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        is_overwritten: bool,
    ) -> Result<SyncOutcome, ReconcileError> {
        let Some(source_state) = self.poll_source(state, loop_state, is_overwritten)? else {
            return Ok(unchanged_outcome(state));
        };
        self.observe_clusters(state, loop_state, &source_state.checkout)?;
        state.record.status.last_attempted_revision = Some(source_state.name.clone());
        let mut event = if is_overwritten {
            RoundEvent::OtherRevision
        } else {
            self.find_revision_event(state, loop_state, &source_state)?
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
                RoundEffect::RenderAndPublish => {
                    rendered = Some(self.render_and_publish(state, loop_state, &source_state)?);
                    event = RoundEvent::Rendered;
                }
                RoundEffect::Accept => {
                    event = RoundEvent::Accepted(self.accept_revision(
                        state,
                        loop_state,
                        &source_state,
                        rendered.as_ref(),
                    )?);
                }
                RoundEffect::Deliver(step) => {
                    let result =
                        self.deliver_revision(step, state, loop_state, &source_state, rendered.take())?;
                    (event, ended) = (result.event, result.outcome);
                }
                RoundEffect::Finish => {
                    self.record_delivery(state, loop_state, &source_state)?;
                    return ended;
                }
                RoundEffect::Compare => {
                    return self.compare_all_clusters(state, loop_state, &source_state.checkout);
                }
                RoundEffect::CheckRevision => return self.check_revision(state, loop_state, &source_state),
                RoundEffect::AwaitWindow => {
                    return self.await_window(stage, state, loop_state, &source_state);
                }
                RoundEffect::ReturnClusters => {
                    return self.return_clusters(state, loop_state, &source_state, rendered);
                }
                RoundEffect::EndRound => return ended,
            }
        }
    }

    /// Whether the source is at the revision that was accepted last, and the status of the clusters moves nothing.
    fn find_revision_event(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        SourceState { checkout, tip, branches, .. }: &SourceState,
    ) -> Result<RoundEvent, ReconcileError> {
        let accepted = state.record.accepted.as_ref();
        if !accepted.is_some_and(|accepted| accepted.is_for(tip, branches.as_ref())) {
            return Ok(RoundEvent::OtherRevision);
        }
        if self.moves_placements(state, loop_state, checkout)? {
            tracing::info!(sync = self.name(), "the status of the clusters has changed");
            return Ok(RoundEvent::OtherRevision);
        }
        Ok(RoundEvent::SameRevision)
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

    /// What drifted in clusters, and what its correction waits for.
    pub(crate) fn describe_drift(&self, state: &SyncState<'_>, loop_state: &LoopState) -> Option<String> {
        let mut drift = loop_state.tracker.describe_drift().map(|drift| single_line(&drift));
        if let Some(drift) = drift.as_mut().filter(|_| self.puts_off_correction(state)) {
            *drift += &format!("; its correction {}", self.describe_wait());
        }
        drift
    }

    pub(crate) fn name(&self) -> String {
        self.valid_sync.object.name.full_name()
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

    /// The clusters of a session.
    pub(crate) fn member_clusters<'m>(
        &'m self,
        session: &'m Session,
        repo: Option<RepoRef>,
        state: &SyncState<'_>,
    ) -> MemberClusters<'m> {
        let accepted = state.record.accepted.as_ref();
        let former = accepted.and_then(|accepted| accepted.repository.as_ref());
        let moved =
            former.is_some_and(|former| repo.as_ref().map(RepoRef::to_string).as_ref() != Some(former));
        let clusters = &state.record.clusters;
        let cluster_count = match clusters.len() {
            0 => selected_names(self.spec, session).count(),
            known => known,
        };
        MemberClusters {
            valid_sync: self.valid_sync,
            env: self.env,
            session,
            repo,
            cluster_count,
            moved,
            only_objects: None,
            awaiting: accepted
                .map(|accepted| awaiting_objects(session, &state.record.policies, &accepted.tip)),
            corrects: self.spec.drift.mode == DriftMode::Correct && self.may_correct(state),
            partial: false,
            interrupt: self.interrupt.cloned(),
        }
    }

    /// How clusters are updated in stages, if they are.
    pub(crate) fn staged_rollout(&self) -> Option<(&RolloutSpec, &ApplySpec)> {
        self.spec.rollout.as_ref().filter(|rollout| !rollout.by_placements).zip(self.spec.apply.as_ref())
    }

    /// The objects that a revision changes in clusters that are all at the revision before; `None` if that is to be
    /// found out by reading them.
    pub(crate) fn find_changed_objects(
        &self,
        rendered: Option<RenderedObjects>,
        session: &Session,
        repo: Option<&RepoRef>,
        record: &SyncRecord,
    ) -> Option<BTreeSet<ObjectRef>> {
        let former =
            record.accepted.as_ref().filter(|_| record.stage == SyncStage::Idle)?.repository.as_ref();
        // What others change meanwhile is found by comparisons.
        let rest = self.looks_for_drift();
        let same = former == repo.map(RepoRef::to_string).as_ref();
        rendered.filter(|_| rest && same)?.changed_objects(&RenderedObjects::from_session(session))
    }

    /// Renders a revision, checks it, and commits or pushes it. No cluster is touched.
    fn render_and_publish(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        source_state: &SourceState,
    ) -> Result<RenderedRevision, ReconcileError> {
        let SourceState { checkout, name, .. } = source_state;
        loop_state.tracker.clear_failures();
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.set_progressing(&format!("carrying out {name}"), Timestamp::now());
        if self.spec.push.is_some() {
            // If this push stops halfway, some clusters have what it pushed, and the plan in the registry does not say so.
            state.record.accepted.iter_mut().for_each(|accepted| accepted.artifact = None);
        }
        state.save_record()?;
        let previous = state.read_plan()?;
        self.must_lead()?;
        loop_state.rendered_before = None;
        let (mut branches, mut artifact) = (Vec::new(), None);
        let session = if let Some(commit) = &self.spec.commit {
            let (session, committed) =
                self.commit_rendering(commit, loop_state, checkout, previous.as_ref())?;
            branches = committed;
            session
        } else if let Some(push) = &self.spec.push {
            let has_pushed = state.record.status.artifact.is_some();
            let (session, pushed) =
                self.push_rendering(push, loop_state, source_state, previous.as_ref(), has_pushed)?;
            artifact = Some(pushed);
            session
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            Self::render_session(loop_state, checkout, previous.as_ref(), limit, destination)?
        };
        if self.spec.clusters.is_some() && selected_names(self.spec, &session).next().is_none() {
            loop_state.put_session(checkout, session);
            return Err(ReconcileError::new(
                SyncReason::BuildFailed,
                "`spec.clusters` selects no cluster of the inventory",
            ));
        }
        let repo = self.find_repo(checkout);
        let changed = self.find_changed_objects(
            loop_state.rendered_before.take(),
            &session,
            repo.as_ref(),
            &state.record,
        );
        Ok(RenderedRevision { session, branches, artifact, previous, changed })
    }

    /// Notes a revision, what it renders and its plan, before the first cluster is changed. Returns how clusters are
    /// brought to it.
    fn accept_revision(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        SourceState { tip, .. }: &SourceState,
        rendered: Option<&RenderedRevision>,
    ) -> Result<Delivery, ReconcileError> {
        let Some(RenderedRevision { session, branches, artifact, previous, .. }) = rendered else {
            return Err(ReconcileError::new(SyncReason::ReconciliationFailed, "nothing was rendered"));
        };
        let previous = previous.as_ref();
        self.note_managed_scope(state, session);
        let before = state.record.accepted.clone();
        let former = before.as_ref().map(|before| before.tip.as_str());
        self.start_policies(state, session, previous, former, tip);
        let keeps = self.staged_rollout().is_some() || !state.record.policies.is_empty();
        if let Some(former) = former.filter(|former| keeps && former != tip) {
            state.keep_former_plan(former)?;
        }
        let rendering = self.start_rollout(state, session, tip, before.as_ref())?;
        state.write_plan(session.plan())?;
        let unschedulable =
            session.plan().placements.iter().filter(|row| row.unschedulable.is_some()).count();
        state.record.status.unschedulable = unschedulable;
        let moved = previous.map_or(0, |previous| replicas_moved(previous, session.plan()));
        // A round that was killed has decided already.
        let is_repeated = state.record.stage != SyncStage::Idle
            && before.as_ref().is_some_and(|before| before.is_for(tip, None));
        let earlier = if is_repeated { state.record.status.replicas_moved } else { 0 };
        state.record.status.replicas_moved = earlier + usize::try_from(moved).unwrap_or_default();
        state.record.status.branches.clone_from(branches);
        state.record.status.artifact.clone_from(artifact);
        state.record.accepted = Some(AcceptedRevision {
            tip: tip.clone(),
            branches: branches.iter().cloned().map(|branch| (branch.branch, branch.commit)).collect(),
            artifact: artifact.as_ref().map(|artifact| artifact.digest.clone()),
            // The repository changes when all clusters are at the revision.
            repository: before.and_then(|accepted| accepted.repository),
            rendering,
            inventory_digest: loop_state.inventory_digest().cloned(),
            ..AcceptedRevision::default()
        });
        loop_state.tracker.retain_clusters(&selected_names(self.spec, session).collect());
        Ok(match (self.staged_rollout(), &state.record.rollout) {
            (Some(_), Some(_)) => Delivery::Stages,
            _ if self.rolls_policies(state) => Delivery::Policies,
            _ => Delivery::AllAtOnce,
        })
    }

    /// Brings clusters to the revision, as far as that is possible now: to one that was just accepted, or to the one that
    /// was accepted before. Returns what came of it, and how the round ends if nothing follows.
    fn deliver_revision(
        &self,
        step: DeliveryStep,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        source_state: &SourceState,
        rendered: Option<RenderedRevision>,
    ) -> Result<DeliveryResult, ReconcileError> {
        let SourceState { checkout, tip, name, .. } = source_state;
        if step == DeliveryStep::Retry {
            self.must_lead()?;
        }
        let repo = self.find_repo(checkout);
        let is_new = rendered.is_some();
        let (session, changed) = match rendered {
            Some(RenderedRevision { session, changed, .. }) => (session, changed),
            None => (self.accepted_session(state, loop_state, checkout)?, None),
        };
        let revision = RevisionSession { session: &session, repo: repo.as_ref() };
        let delivered = match step {
            DeliveryStep::RollOut => self.roll_out(state, loop_state, revision, name),
            DeliveryStep::RollOutPolicies => {
                if !is_new {
                    self.start_policies(state, &session, Some(session.plan()), Some(tip), tip);
                }
                self.roll_out_policies(state, loop_state, revision, changed.as_ref(), source_state)
            }
            DeliveryStep::Retry => self.retry_clusters(state, loop_state, revision, name),
            DeliveryStep::Apply => {
                self.apply_revision(state, loop_state, revision, changed.as_ref(), source_state)
            }
        };
        loop_state.put_accepted(checkout, session, repo);
        let event = match (step, &delivered) {
            (DeliveryStep::RollOut | DeliveryStep::RollOutPolicies, Ok(outcome))
                if outcome.is_progressing() =>
            {
                RoundEvent::Waiting
            }
            (_, Ok(_)) => RoundEvent::Delivered,
            (DeliveryStep::RollOut | DeliveryStep::RollOutPolicies, Err(_)) => RoundEvent::Waiting,
            (DeliveryStep::Apply | DeliveryStep::Retry, Err(_)) => Self::note_failing(state, loop_state),
        };
        Ok(DeliveryResult { event, outcome: delivered })
    }

    /// Applies a new revision to all clusters.
    fn apply_revision(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        RevisionSession { session, repo }: RevisionSession<'_>,
        changed: Option<&BTreeSet<ObjectRef>>,
        SourceState { tip, name, .. }: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        let committed =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        let written = committed
            .or_else(|| self.spec.push.as_ref().map(|push| format!("pushed {name} to {}", push.url)));
        if changed.is_none() {
            // All clusters are read, and brought to the revision.
            loop_state.tracker.take_comparison_due(Duration::ZERO);
        }
        let applied = self.spec.apply.as_ref().map(|apply| {
            let cache = state.git_cache();
            let members = self.member_clusters(session, repo.cloned(), state);
            let (tracker, status) = (&mut loop_state.tracker, &mut state.record.status);
            self.interrupt_when_revised(&cache, tip, &mut loop_state.resume, |interrupt| {
                let members = MemberClusters { interrupt, only_objects: changed, ..members };
                members.apply_all(apply, None, tracker, status)
            })
        });
        let message = match (written, applied.transpose()?) {
            (Some(written), Some(clusters)) => format!("{written}, applied it to {clusters}"),
            (None, Some(clusters)) => format!("applied {name} to {clusters}"),
            (Some(written), None) => written,
            (None, None) => format!("read {name}"),
        };
        Ok(SyncOutcome::for_success(&message))
    }

    /// Applies to the clusters that have failed and whose turn it is; the others are only compared, at the interval.
    fn retry_clusters(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        RevisionSession { session, repo }: RevisionSession<'_>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let members = self.member_clusters(session, repo.cloned(), state);
        self.note_managed_scope(state, session);
        let accepted = state.record.accepted.clone().unwrap_or_default();
        let (cache, pending) = (state.git_cache(), accepted.pending.unwrap_or_default());
        if let Some(apply) = &self.spec.apply {
            let wait = HealthWait::UntilTimeout(self.spec.health_timeout(apply));
            let tracker = &mut loop_state.tracker;
            self.interrupt_when_revised(&cache, &accepted.tip, &mut loop_state.resume, |interrupt| {
                let members = MemberClusters { interrupt, ..members.clone() };
                members.update_clusters(apply, &pending, wait, tracker);
            });
        }
        members.update_status(&loop_state.tracker, &mut state.record.status)?;
        Ok(SyncOutcome::for_success(&format!("every cluster is at {name}")))
    }

    /// Notes which clusters are not at the revision yet.
    fn note_failing(state: &mut SyncState<'_>, loop_state: &LoopState) -> RoundEvent {
        let failing: BTreeSet<String> =
            loop_state.tracker.failure_causes().map(|(name, _)| name.clone()).collect();
        let event = if failing.is_empty() { RoundEvent::Interrupted } else { RoundEvent::ClustersFailed };
        if let Some(accepted) = &mut state.record.accepted {
            accepted.pending = (!failing.is_empty()).then_some(failing);
        }
        event
    }

    /// Notes that all clusters are at the revision. Former revisions are forgotten when that is recorded.
    fn record_delivery(
        &self,
        state: &mut SyncState<'_>,
        loop_state: &mut LoopState,
        SourceState { checkout, name, .. }: &SourceState,
    ) -> Result<(), ReconcileError> {
        let is_staged = self.staged_rollout().is_some();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.repository = self.find_repo(checkout).as_ref().map(RepoRef::to_string);
            for cluster in state.record.clusters.values_mut() {
                (cluster.revision, cluster.stale) = (Some(accepted.tip.clone()), false);
                cluster.former = cluster.former.take().filter(|_| !is_staged);
            }
        }
        state.record.status.last_applied_revision = Some(name.clone());
        loop_state.formers.clear();
        if is_staged {
            (state.record.rollout, state.record.status.rollout) = (None, None);
            state.save_record()?;
            state.forget_former_plans(&BTreeSet::new())?;
        }
        Ok(())
    }

    /// The session over what was carried out last.
    pub(crate) fn accepted_session(
        &self,
        state: &SyncState<'_>,
        loop_state: &mut LoopState,
        checkout: &Checkout,
    ) -> Result<Session, ReconcileError> {
        let session = if let Some(session) = loop_state.take_accepted(checkout) {
            session
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            Self::render_session(loop_state, checkout, state.read_plan()?.as_ref(), limit, destination)?
        };
        loop_state.tracker.retain_clusters(&selected_names(self.spec, &session).collect());
        Ok(session)
    }
}

/// The names of the clusters of a session.
pub(crate) fn cluster_names(session: &Session) -> impl Iterator<Item = &str> {
    session.clusters().iter().map(|cluster| cluster.name.as_ref())
}

/// The outcome of a round in which nothing has changed.
pub(crate) fn unchanged_outcome(state: &SyncState<'_>) -> SyncOutcome {
    let at = state.record.status.last_applied_revision.as_deref().unwrap_or("the source");
    let message = state.record.success.as_deref().filter(|_| state.record.status.is_ready());
    SyncOutcome::for_success(message.unwrap_or(&format!("everything is at {at}")))
}
