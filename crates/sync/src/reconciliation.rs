//! One round: poll → fetch → verify → render → guard → commit → remember → apply; or compare clusters with what is
//! rendered, if nothing has changed.
//!
//! Whatever keeps a revision from being carried out comes before the first branch or cluster is touched. The memory is
//! written before clusters are: a round that was killed decides the same the next time.

use std::collections::BTreeSet;

use jiff::Timestamp;

use federate_dialect::Plan;
use federate_engine::actions::RepoRef;
use federate_engine::change::replicas_moved;
use federate_live::Interrupt;
use federate_repo::normalize_path;
use federate_session::Session;
use federate_sync_api::record::AcceptedRevision;
use federate_sync_api::rollout::RolloutSpec;
use federate_sync_api::status::{BranchStatus, SyncReason};
use federate_sync_api::{ApplySpec, DriftMode, SyncSpec, WindowState};

use crate::environment::Environment;
use crate::inventory_status::InventoryStatus;
use crate::member_clusters::MemberClusters;
pub use crate::outcome::SyncOutcome;
pub(crate) use crate::outcome::{ReconcileError, single_line};
use crate::page::count_clusters;
use crate::rollout::policies::awaiting_objects;
use crate::rollout::staged_rollout::RolloutTarget;
use crate::selection::selected_names;
use crate::session_cache::{Checkout, SessionCache};
use crate::source_state::SourceState;
use crate::state::SyncState;
use crate::sync_files::ValidSync;

/// Does one round, and writes its outcome to the state.
pub fn reconcile_sync(
    loaded: &ValidSync,
    state: &mut SyncState<'_>,
    cache: &mut SessionCache,
    env: &Environment<'_>,
    interrupt: Option<&Interrupt>,
) -> SyncOutcome {
    state.record.follow_clock(Timestamp::now());
    cache.select_paths(&loaded.sync.spec.source.paths);
    let round = Reconciliation::new(loaded, env, interrupt);
    round.note_window(state, cache);
    let ended = round.reconcile_source(state, cache);
    match &ended {
        Ok(_) if round.may_correct(state) => round.prune_clusters(state),
        Ok(_) => {}
        Err(stop) if stop.reason.is_about_revision() => {
            if let Err(error) = round.compare_last_good(state, cache) {
                tracing::warn!(sync = round.name(), %error, "clusters are not compared with the revision before");
            }
        }
        Err(_) => {}
    }
    count_clusters(&mut state.record, &cache.clusters);
    let drift = cache.clusters.describe_drift();
    let mut outcome = ended.unwrap_or_else(|stop| SyncOutcome {
        reason: stop.reason,
        message: single_line(&stop.message),
        drift: drift.map(|drift| single_line(&drift)),
    });
    if loaded.rolls_back && outcome.is_ready() {
        let name = &loaded.sync.metadata.name;
        outcome.message = format!(
            "rolled back: {}; the Sync is suspended until `federate sync resume {name}`",
            outcome.message
        );
    }
    if let Some(drift) = outcome.drift.as_mut().filter(|_| round.puts_off_correction(state)) {
        *drift += &format!("; its correction {}", round.describe_wait());
    }
    record_outcome(state, outcome)
}

/// Deletes what a Sync manages in member clusters. The record is not written: the namespace may be going, and its memory
/// with it.
pub(crate) fn delete_managed(
    loaded: &ValidSync,
    state: &mut SyncState<'_>,
    env: &Environment<'_>,
) -> SyncOutcome {
    let round = Reconciliation::new(loaded, env, None);
    let outcome = round.delete_all(state).unwrap_or_else(|stop| {
        let way_out = match stop.reason {
            SyncReason::Progressing => "",
            _ => "; `deletionPolicy: Orphan` leaves the objects where they are",
        };
        let message = stop.message + way_out;
        SyncOutcome { reason: stop.reason, message: single_line(&message), drift: None }
    });
    let status = &mut state.record.status;
    status.end_reconciling(outcome.reason, &outcome.message, Timestamp::now());
    match state.save_status() {
        Ok(()) => outcome,
        Err(error) => SyncOutcome::from_state_error(&error),
    }
}

/// Puts a round off until another Sync is ready.
pub fn wait_for_dependency(state: &mut SyncState<'_>, on: &str) -> SyncOutcome {
    let message = format!("{on} is not ready");
    record_outcome(state, SyncOutcome { reason: SyncReason::DependencyNotReady, message, drift: None })
}

fn record_outcome(state: &mut SyncState<'_>, outcome: SyncOutcome) -> SyncOutcome {
    let now = Timestamp::now();
    let status = &mut state.record.status;
    status.end_reconciling(outcome.reason, &outcome.message, now);
    status.record_history(outcome.reason, &outcome.message, now);
    match state.save_record() {
        Ok(()) => outcome,
        Err(error) => SyncOutcome::from_state_error(&error),
    }
}

pub(crate) struct Reconciliation<'r> {
    pub(crate) loaded: &'r ValidSync,
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
        loaded: &'r ValidSync,
        env: &'r Environment<'r>,
        interrupt: Option<&'r Interrupt>,
    ) -> Self {
        let round = Self { loaded, spec: &loaded.sync.spec, env, interrupt, window: None, reads_only: false };
        Self { window: round.find_window(Timestamp::now()), ..round }
    }
}

impl Reconciliation<'_> {
    fn reconcile_source(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<SyncOutcome, ReconcileError> {
        let Some(polled) = self.poll_source(state, sessions)? else { return Ok(unchanged_outcome(state)) };
        let SourceState { checkout: opened, tip, branches, name, .. } = &polled;
        self.observe_clusters(state, sessions, opened)?;
        state.record.status.last_attempted_revision = Some(name.clone());
        let accepted = state.record.accepted.as_ref();
        if let Some(accepted) = accepted.filter(|accepted| accepted.is_for(tip, branches.as_ref())) {
            let done = accepted.done;
            if self.moves_placements(state, sessions, opened)? {
                tracing::info!(sync = self.name(), "the status of the clusters has changed");
            } else if done {
                return self.compare_all_clusters(state, sessions, opened);
            }
        }
        let inventory = sessions.inventory_digest();
        let accepted = state.record.accepted.as_ref();
        let accepted = accepted.filter(|accepted| {
            accepted.is_for(tip, branches.as_ref()) && accepted.inventory.as_ref() == inventory
        });
        let (known, pending) = (accepted.is_some(), accepted.and_then(|accepted| accepted.pending.clone()));
        let rolls = state.record.rollout.as_ref().is_some_and(|progress| !progress.restarts);
        if let Some(rollout) = self.staged_rollout().filter(|_| rolls && known) {
            return self.continue_rollout(state, sessions, rollout, &polled);
        }
        if known && self.rolls_policies(state) {
            return self.continue_policy_rollouts(state, sessions, &polled);
        }
        if !self.may_change(name) {
            return self.await_window(state, sessions, &polled, pending.as_ref());
        }
        if let Some(pending) = pending {
            return self.retry_clusters(state, sessions, opened, &pending, name);
        }
        sessions.clusters.clear_failures();
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.begin_reconciling(&format!("carrying out {name}"), Timestamp::now());
        state.save_record()?;
        self.carry_out(state, sessions, &polled)
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
        self.loaded.sync.metadata.full_name()
    }

    pub(crate) fn looks_for_drift(&self) -> bool {
        self.spec.looks_for_drift()
    }

    /// Where a source comes from, if that is known.
    pub(crate) fn find_repo(&self, opened: &Checkout) -> Option<RepoRef> {
        let repo = opened.find_repo(&self.spec.source.url)?;
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
        let inventory = match clusters.len() {
            0 => selected_names(self.spec, session).count(),
            known => known,
        };
        MemberClusters {
            loaded: self.loaded,
            env: self.env,
            session,
            repo,
            cluster_count: inventory,
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

    /// Goes on with a rollout that is under way.
    fn continue_rollout(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        (rollout, apply): (&RolloutSpec, &ApplySpec),
        SourceState { checkout: opened, name, .. }: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        let session = self.accepted_session(state, sessions, opened)?;
        let repo = self.find_repo(opened);
        let target = RolloutTarget { rollout, apply, session: &session, repo: repo.clone(), name };
        let ended = self.roll_out(state, sessions, &target);
        sessions.put_accepted(opened, session, repo);
        ended
    }

    /// Brings branches and clusters to a revision.
    fn carry_out(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        polled: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        let SourceState { checkout: opened, tip, name, .. } = polled;
        let kept = state.read_plan()?;
        self.must_lead()?;
        sessions.before = None;
        let (session, branches) = if let Some(commit) = &self.spec.commit {
            self.commit_rendering(commit, sessions, opened, kept.as_ref())?
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            (Self::render_session(sessions, opened, kept.as_ref(), limit, destination)?, Vec::new())
        };
        if self.spec.clusters.is_some() && selected_names(self.spec, &session).next().is_none() {
            sessions.put_session(opened, session);
            return Err(ReconcileError::new(
                SyncReason::BuildFailed,
                "`spec.clusters` selects no cluster of the inventory",
            ));
        }
        let repo = self.find_repo(opened);
        let before = state.record.accepted.as_ref();
        let changed = self.find_changed_objects(sessions.before.take(), (&session, repo.as_ref()), before);
        self.note_inventory(state, &session);
        self.accept_revision(state, &session, polled, (branches, kept.as_ref(), sessions.observed.as_ref()))?;
        sessions.clusters.retain_clusters(&selected_names(self.spec, &session).collect());
        let mut said =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        if let Some((rollout, apply)) = self.staged_rollout().filter(|_| state.record.rollout.is_some()) {
            let target = RolloutTarget { rollout, apply, session: &session, repo: repo.clone(), name };
            let ended = self.roll_out(state, sessions, &target);
            sessions.put_accepted(opened, session, repo);
            return ended;
        }
        if self.rolls_policies(state) {
            let what = (&session, repo.clone(), changed.as_ref());
            let ended = self.roll_out_policies(state, sessions, what, (tip, name));
            sessions.put_accepted(opened, session, repo);
            return ended;
        }
        let applied = self.spec.apply.as_ref().map(|apply| {
            let members = self.member_clusters(&session, repo.clone(), state);
            let members = MemberClusters { only_objects: changed.as_ref(), ..members };
            let cache = state.cache();
            let (backoffs, status) = (&mut sessions.clusters, &mut state.record.status);
            self.until_revised(&cache, tip, &mut sessions.resume, |interrupt| {
                MemberClusters { interrupt, ..members }.apply_all(apply, None, backoffs, status)
            })
        });
        sessions.put_accepted(opened, session, repo.clone());
        if applied.is_some() {
            Self::note_pending(state, sessions);
        }
        if let Some(clusters) = applied.transpose()? {
            let also = said.map_or_else(
                || format!("applied {name} to {clusters}"),
                |said| format!("{said}, applied it to {clusters}"),
            );
            said = Some(also);
        }
        Self::mark_done(state, repo.as_ref(), name);
        if self.staged_rollout().is_some() {
            sessions.formers.clear();
            state.forget_formers(&BTreeSet::new())?;
        }
        let message = said.unwrap_or_else(|| format!("read {name}"));
        Ok(SyncOutcome { drift: sessions.clusters.describe_drift(), ..SyncOutcome::for_success(&message) })
    }

    /// Notes a revision, what it renders and its plan, before the first cluster is changed.
    fn accept_revision(
        &self,
        state: &mut SyncState<'_>,
        session: &Session,
        SourceState { tip, .. }: &SourceState,
        (branches, kept, observed): (Vec<BranchStatus>, Option<&Plan>, Option<&InventoryStatus>),
    ) -> Result<(), ReconcileError> {
        let before = state.record.accepted.clone();
        let former = before.as_ref().map(|before| before.tip.as_str());
        self.start_policies(state, session, (kept, former), tip);
        let keeps = self.staged_rollout().is_some() || !state.record.policies.is_empty();
        if let Some(former) = former.filter(|former| keeps && former != tip) {
            state.keep_former(former)?;
        }
        let rendering = self.start_rollout(state, session, tip, before.as_ref())?;
        state.write_plan(session.plan())?;
        let unschedulable =
            session.plan().placements.iter().filter(|row| row.unschedulable.is_some()).count();
        state.record.status.unschedulable = unschedulable;
        let moved = kept.map_or(0, |kept| replicas_moved(kept, session.plan()));
        // A round that was killed has decided already.
        let goes_on = before.as_ref().is_some_and(|before| !before.done && before.is_for(tip, None));
        let earlier = if goes_on { state.record.status.replicas_moved } else { 0 };
        state.record.status.replicas_moved = earlier + usize::try_from(moved).unwrap_or_default();
        state.record.status.branches.clone_from(&branches);
        state.record.accepted = Some(AcceptedRevision {
            tip: tip.clone(),
            branches: branches.into_iter().map(|branch| (branch.branch, branch.commit)).collect(),
            done: false,
            pending: None,
            // The repository changes when all clusters are at the revision.
            repository: before.and_then(|accepted| accepted.repository),
            rendering,
            inventory: observed.map(|observed| observed.digest.clone()),
        });
        Ok(state.save_record()?)
    }

    /// Notes that all clusters are at the revision.
    pub(crate) fn mark_done(state: &mut SyncState<'_>, repo: Option<&RepoRef>, name: &str) {
        if let Some(accepted) = &mut state.record.accepted {
            (accepted.done, accepted.pending) = (true, None);
            accepted.repository = repo.map(RepoRef::to_string);
            for cluster in state.record.clusters.values_mut() {
                (cluster.revision, cluster.stale) = (Some(accepted.tip.clone()), false);
            }
        }
        state.record.status.last_applied_revision = Some(name.to_owned());
    }

    /// Notes which clusters are not at the revision yet.
    fn note_pending(state: &mut SyncState<'_>, sessions: &SessionCache) {
        let failing: BTreeSet<String> =
            sessions.clusters.failure_causes().map(|(name, _)| name.clone()).collect();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.pending = (!failing.is_empty()).then_some(failing);
        }
    }

    /// The session over what was carried out last.
    pub(crate) fn accepted_session(
        &self,
        state: &SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Checkout,
    ) -> Result<Session, ReconcileError> {
        let session = if let Some(session) = sessions.take_accepted(opened) {
            session
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            Self::render_session(sessions, opened, state.read_plan()?.as_ref(), limit, destination)?
        };
        sessions.clusters.retain_clusters(&selected_names(self.spec, &session).collect());
        Ok(session)
    }

    /// Applies to the clusters that have failed and whose turn it is; the others are only compared, at the interval.
    fn retry_clusters(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Checkout,
        pending: &BTreeSet<String>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let session = self.accepted_session(state, sessions, opened)?;
        self.must_lead()?;
        self.note_inventory(state, &session);
        let repo = self.find_repo(opened);
        let backoffs = &mut sessions.clusters;
        let (cache, tip) =
            (state.cache(), state.record.accepted.as_ref().map_or("", |accepted| &accepted.tip));
        let mut ended = match &self.spec.apply {
            Some(apply) => self.until_revised(&cache, tip, &mut sessions.resume, |interrupt| {
                let members =
                    MemberClusters { interrupt, ..self.member_clusters(&session, repo.clone(), state) };
                members.update_clusters(apply, pending, self.spec.health_timeout(apply), backoffs).map(drop)
            }),
            None => Ok(()),
        };
        let members = self.member_clusters(&session, repo.clone(), state);
        let status = &mut state.record.status;
        if self.looks_for_drift() && backoffs.take_comparison_due(self.spec.interval.0) {
            ended = ended.and(members.drift_in_turn(backoffs, status).1);
        }
        ended = ended.and_then(|()| members.update_status(backoffs, status));
        sessions.put_accepted(opened, session, repo.clone());
        Self::note_pending(state, sessions);
        ended?;
        Self::mark_done(state, repo.as_ref(), name);
        let done = SyncOutcome::for_success(&format!("every cluster is at {name}"));
        Ok(SyncOutcome { drift: sessions.clusters.describe_drift(), ..done })
    }
}

/// The names of the clusters of a session.
pub(crate) fn cluster_names(session: &Session) -> impl Iterator<Item = &str> {
    session.clusters().iter().map(|cluster| cluster.name.as_ref())
}

/// The outcome of a round in which nothing has changed.
pub(crate) fn unchanged_outcome(state: &SyncState<'_>) -> SyncOutcome {
    let at = state.record.status.last_applied_revision.as_deref().unwrap_or("the source");
    let message = state.record.status.find_condition("Ready").filter(|ready| ready.status == "True");
    SyncOutcome::for_success(
        &message.map_or_else(|| format!("everything is at {at}"), |ready| ready.message.clone()),
    )
}
