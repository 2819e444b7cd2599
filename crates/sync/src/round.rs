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
use federate_kubernetes::ObjectRef;
use federate_live::Interrupt;
use federate_repo::normalize_path;
use federate_session::Session;
use federate_sync_api::progress::{Progress, short};
use federate_sync_api::record::Accepted;
use federate_sync_api::record::Record;
use federate_sync_api::rollout::Rollout;
use federate_sync_api::stage::{Delivery, RoundEffect, RoundEvent, StageInputs, SyncStage, advance_stage};
use federate_sync_api::status::{Branch, Reason, commit_of};
use federate_sync_api::{Apply, DriftMode, Spec, WindowState};

use crate::environment::Environment;
use crate::members::Members;
use crate::members::selection::selected_names;
pub use crate::outcome::Outcome;
pub(crate) use crate::outcome::{RoundError, plain};
use crate::page::count_clusters;
use crate::plan::sessions::{Opened, SessionCache};
use crate::read::Loaded;
use crate::rollout::policies::awaiting;
use crate::source::poll::PolledSource;
use crate::state::SyncState;

/// Does one round, and writes its outcome to the state.
pub fn run(
    loaded: &Loaded,
    state: &mut SyncState<'_>,
    cache: &mut SessionCache,
    env: &Environment<'_>,
    interrupt: Option<&Interrupt>,
) -> Outcome {
    state.record.follow_clock(Timestamp::now());
    cache.select(&loaded.sync.spec.source.paths);
    let round = Round::new(loaded, env, interrupt);
    round.note_window(state, cache);
    let ended = round.work(state, cache);
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
    let drift = cache.clusters.drift();
    let mut outcome = ended.unwrap_or_else(|stop| Outcome {
        reason: stop.reason,
        message: plain(&stop.message),
        drift: drift.map(|drift| plain(&drift)),
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
    end(state, outcome)
}

/// Deletes what a Sync manages in member clusters. The record is not written: the namespace may be going, and its memory
/// with it.
pub(crate) fn delete(loaded: &Loaded, state: &mut SyncState<'_>, env: &Environment<'_>) -> Outcome {
    let round = Round::new(loaded, env, None);
    let outcome = round.delete_all(state).unwrap_or_else(|stop| {
        let way_out = match stop.reason {
            Reason::Progressing => "",
            _ => "; `deletionPolicy: Orphan` leaves the objects where they are",
        };
        let message = stop.message + way_out;
        Outcome { reason: stop.reason, message: plain(&message), drift: None }
    });
    let status = &mut state.record.status;
    status.end(outcome.reason, &outcome.message, Timestamp::now());
    match state.save_status() {
        Ok(()) => outcome,
        Err(error) => Outcome::failed(&error),
    }
}

/// What a round begins with; `is_blocked` says whether a Sync that it depends on is not ready.
pub(crate) fn begin(
    loaded: &Loaded,
    state: &SyncState<'_>,
    env: &Environment<'_>,
    is_blocked: bool,
) -> RoundEffect {
    let inputs = Round::new(loaded, env, None).inputs(&state.record, RoundEvent::Begun, "");
    advance_stage(state.record.stage, &StageInputs { is_blocked, ..inputs }).1
}

/// What follows an event of a deletion.
pub(crate) fn follow_deletion(
    loaded: &Loaded,
    state: &SyncState<'_>,
    env: &Environment<'_>,
    event: RoundEvent,
) -> RoundEffect {
    let inputs = Round::new(loaded, env, None).inputs(&state.record, event, "");
    advance_stage(SyncStage::Deleting, &inputs).1
}

/// Puts a round off until another Sync is ready.
pub(crate) fn await_dependency(state: &mut SyncState<'_>, on: &str) -> Outcome {
    let message = format!("{on} is not ready");
    end(state, Outcome { reason: Reason::DependencyNotReady, message, drift: None })
}

fn end(state: &mut SyncState<'_>, outcome: Outcome) -> Outcome {
    let now = Timestamp::now();
    let status = &mut state.record.status;
    status.end(outcome.reason, &outcome.message, now);
    status.record(outcome.reason, &outcome.message, now);
    match state.save() {
        Ok(()) => outcome,
        Err(error) => Outcome::failed(&error),
    }
}

/// A revision that was rendered, passed all checks, and was committed.
pub(crate) struct RenderedRevision {
    pub(crate) session: Session,
    /// Where the branches are that were committed to.
    branches: Vec<Branch>,
    /// The scheduler's memory before.
    kept: Option<Plan>,
    /// The objects that it changes in clusters that have everything else; `None` for all.
    changed: Option<BTreeSet<ObjectRef>>,
}

pub(crate) struct Round<'r> {
    pub(crate) loaded: &'r Loaded,
    pub(crate) spec: &'r Spec,
    pub(crate) env: &'r Environment<'r>,
    /// Whether something waits for the round to end; `None` if nothing can.
    pub(crate) interrupt: Option<&'r Interrupt>,
    /// Whether its maintenance windows were open when it began; `None` if it has none.
    pub(crate) window: Option<WindowState>,
    /// Whether it only reads: neither the state of the Sync nor clusters change.
    pub(crate) reads_only: bool,
}

impl<'r> Round<'r> {
    pub(crate) fn new(
        loaded: &'r Loaded,
        env: &'r Environment<'r>,
        interrupt: Option<&'r Interrupt>,
    ) -> Self {
        let round = Self { loaded, spec: &loaded.sync.spec, env, interrupt, window: None, reads_only: false };
        Self { window: round.find_window(Timestamp::now()), ..round }
    }
}

impl Round<'_> {
    /// What the next step of the round depends on.
    pub(crate) fn inputs(&self, record: &Record, event: RoundEvent, revision: &str) -> StageInputs {
        let sync = &self.loaded.sync;
        let meta = sync.meta.as_ref();
        let ignored = meta.and_then(|meta| meta.ignore_windows.as_deref());
        let aborted = meta.and_then(|meta| meta.abort.as_deref());
        let is_aborted = |progress: &Progress| progress.aborted || aborted == Some(short(&progress.target));
        StageInputs {
            event,
            is_deleting: sync.is_deleting(),
            leaves_objects: !sync.deletes() || sync.spec.suspend,
            rolls_back: self.loaded.rolls_back,
            is_at_rollback: record.is_at_named_commit(sync),
            is_blocked: false,
            window_is_open: self.window.is_none_or(|window| window.is_open),
            ignores_windows: ignored == Some(short(commit_of(revision))),
            is_aborted: record.rollout.as_ref().is_some_and(is_aborted),
        }
    }

    /// Takes the steps of the round, one after the other.
    fn work(&self, state: &mut SyncState<'_>, sessions: &mut SessionCache) -> Result<Outcome, RoundError> {
        let Some(polled) = self.poll(state, sessions)? else { return Ok(unchanged(state)) };
        self.observe(state, sessions, &polled.opened)?;
        state.record.status.last_attempted_revision = Some(polled.name.clone());
        let mut event = self.find_revision_event(state, sessions, &polled)?;
        let mut stage = state.record.stage;
        let mut rendered = None;
        let mut ended = Ok(unchanged(state));
        loop {
            let before = stage;
            let effect;
            (stage, effect) = advance_stage(before, &self.inputs(&state.record, event, &polled.name));
            if stage.is_accepted() && stage != before {
                state.record.enter_stage(stage);
                if before == SyncStage::Planned {
                    // The memory and the record are written before the first cluster is changed.
                    state.save()?;
                }
            }
            match effect {
                RoundEffect::Render => {
                    rendered = Some(self.render(state, sessions, &polled)?);
                    event = RoundEvent::Rendered;
                }
                RoundEffect::Accept => {
                    event = RoundEvent::Accepted(self.accept(state, sessions, &polled, rendered.as_ref())?);
                }
                RoundEffect::Apply
                | RoundEffect::Retry
                | RoundEffect::RollOut
                | RoundEffect::RollOutPolicies => {
                    (event, ended) = self.deliver(effect, state, sessions, &polled, rendered.take())?;
                }
                RoundEffect::Finish => {
                    self.finish(state, sessions, &polled)?;
                    return ended;
                }
                RoundEffect::Compare => return self.drift(state, sessions, &polled.opened),
                RoundEffect::CheckRevision => return self.check_revision(state, sessions, &polled),
                RoundEffect::AwaitWindow => return self.await_window(stage, state, sessions, &polled),
                RoundEffect::ReturnClusters => {
                    return self.return_clusters(state, sessions, &polled, rendered);
                }
                // The others are what a round begins or ends with.
                _ => return ended,
            }
        }
    }

    /// Whether the source is at the revision that was accepted last, and the status of the clusters moves nothing.
    fn find_revision_event(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        PolledSource { opened, tip, branches, .. }: &PolledSource,
    ) -> Result<RoundEvent, RoundError> {
        let accepted = state.record.accepted.as_ref();
        if !accepted.is_some_and(|accepted| accepted.is_for(tip, branches.as_ref())) {
            return Ok(RoundEvent::OtherRevision);
        }
        if self.moves(state, sessions, opened)? {
            tracing::info!(sync = self.name(), "the status of the clusters has changed");
            return Ok(RoundEvent::OtherRevision);
        }
        Ok(RoundEvent::SameRevision)
    }

    /// Checks that no other process has taken over while this one was paused.
    pub(crate) fn must_lead(&self) -> Result<(), RoundError> {
        if self.env.world.leads() {
            return Ok(());
        }
        Err(RoundError::new(Reason::ReconciliationFailed, "another process may lead: nothing is written"))
    }

    pub(crate) fn name(&self) -> String {
        self.loaded.sync.metadata.full_name()
    }

    pub(crate) fn looks_for_drift(&self) -> bool {
        self.spec.looks_for_drift()
    }

    /// Where a source comes from, if that is known.
    pub(crate) fn repo(&self, opened: &Opened) -> Option<RepoRef> {
        let repo = opened.repo(&self.spec.source.url)?;
        let paths = self.spec.source.paths.iter().filter_map(|path| normalize_path(path).ok());
        Some(repo.narrowed_to(&paths.collect::<Vec<_>>()))
    }

    /// The clusters of a session.
    pub(crate) fn members<'m>(
        &'m self,
        session: &'m Session,
        repo: Option<RepoRef>,
        state: &SyncState<'_>,
    ) -> Members<'m> {
        let accepted = state.record.accepted.as_ref();
        let former = accepted.and_then(|accepted| accepted.repository.as_ref());
        let moved =
            former.is_some_and(|former| repo.as_ref().map(RepoRef::to_string).as_ref() != Some(former));
        let clusters = &state.record.clusters;
        let inventory = match clusters.len() {
            0 => selected_names(self.spec, session).count(),
            known => known,
        };
        Members {
            loaded: self.loaded,
            env: self.env,
            session,
            repo,
            inventory,
            moved,
            objects: None,
            awaiting: accepted.map(|accepted| awaiting(session, &state.record.policies, &accepted.tip)),
            corrects: self.spec.drift.mode == DriftMode::Correct && self.may_correct(state),
            also: false,
            interrupt: self.interrupt.cloned(),
        }
    }

    /// How clusters are updated in stages, if they are.
    pub(crate) fn rollout(&self) -> Option<(&Rollout, &Apply)> {
        self.spec.rollout.as_ref().filter(|rollout| !rollout.by_placements).zip(self.spec.apply.as_ref())
    }

    /// Renders a revision, checks it and commits it. No cluster is touched.
    fn render(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        PolledSource { opened, name, .. }: &PolledSource,
    ) -> Result<RenderedRevision, RoundError> {
        sessions.clusters.forget();
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.begin(&format!("carrying out {name}"), Timestamp::now());
        state.save()?;
        let kept = state.memory()?;
        self.must_lead()?;
        sessions.before = None;
        let (session, branches) = if let Some(commit) = &self.spec.commit {
            self.commit(commit, sessions, opened, kept.as_ref())?
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            (Self::prepare(sessions, opened, kept.as_ref(), limit, destination)?, Vec::new())
        };
        if self.spec.clusters.is_some() && selected_names(self.spec, &session).next().is_none() {
            sessions.put(opened, session);
            return Err(RoundError::new(
                Reason::BuildFailed,
                "`spec.clusters` selects no cluster of the inventory",
            ));
        }
        let repo = self.repo(opened);
        let changed = self.changed(sessions.before.take(), (&session, repo.as_ref()), &state.record);
        Ok(RenderedRevision { session, branches, kept, changed })
    }

    /// Notes a revision, what it renders and its plan, before the first cluster is changed. Returns how clusters are
    /// brought to it.
    fn accept(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        PolledSource { tip, .. }: &PolledSource,
        rendered: Option<&RenderedRevision>,
    ) -> Result<Delivery, RoundError> {
        let Some(RenderedRevision { session, branches, kept, .. }) = rendered else {
            return Err(RoundError::new(Reason::ReconciliationFailed, "nothing was rendered"));
        };
        let kept = kept.as_ref();
        self.note_inventory(state, session);
        let before = state.record.accepted.clone();
        let former = before.as_ref().map(|before| before.tip.as_str());
        self.start_policies(state, session, (kept, former), tip);
        let keeps = self.rollout().is_some() || !state.record.policies.is_empty();
        if let Some(former) = former.filter(|former| keeps && former != tip) {
            state.keep_former(former)?;
        }
        let rendering = self.start_rollout(state, session, tip, before.as_ref())?;
        state.remember(session.plan())?;
        let unschedulable =
            session.plan().placements.iter().filter(|row| row.unschedulable.is_some()).count();
        state.record.status.unschedulable = unschedulable;
        let moved = kept.map_or(0, |kept| replicas_moved(kept, session.plan()));
        // A round that was killed has decided already.
        let is_repeated = state.record.stage != SyncStage::Idle
            && before.as_ref().is_some_and(|before| before.is_for(tip, None));
        let earlier = if is_repeated { state.record.status.replicas_moved } else { 0 };
        state.record.status.replicas_moved = earlier + usize::try_from(moved).unwrap_or_default();
        state.record.status.branches.clone_from(branches);
        state.record.accepted = Some(Accepted {
            tip: tip.clone(),
            branches: branches.iter().cloned().map(|branch| (branch.branch, branch.commit)).collect(),
            // The repository changes when all clusters are at the revision.
            repository: before.and_then(|accepted| accepted.repository),
            rendering,
            inventory: sessions.inventory().cloned(),
            ..Accepted::default()
        });
        sessions.clusters.keep(&selected_names(self.spec, session).collect());
        Ok(match (self.rollout(), &state.record.rollout) {
            (Some(_), Some(_)) => Delivery::Stages,
            _ if self.rolls_policies(state) => Delivery::Policies,
            _ => Delivery::AllAtOnce,
        })
    }

    /// Brings clusters to the revision, as far as that is possible now: to one that was just accepted, or to the one that
    /// was accepted before. Returns what came of it, and how the round ends if nothing follows.
    fn deliver(
        &self,
        effect: RoundEffect,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        polled: &PolledSource,
        rendered: Option<RenderedRevision>,
    ) -> Result<(RoundEvent, Result<Outcome, RoundError>), RoundError> {
        let PolledSource { opened, tip, name, .. } = polled;
        if effect == RoundEffect::Retry {
            self.must_lead()?;
        }
        let repo = self.repo(opened);
        let is_new = rendered.is_some();
        let (session, changed) = match rendered {
            Some(RenderedRevision { session, changed, .. }) => (session, changed),
            None => (self.accepted(state, sessions, opened)?, None),
        };
        let rolled_out = match effect {
            RoundEffect::RollOut => self.roll_out(state, sessions, (&session, repo.clone()), name),
            RoundEffect::RollOutPolicies => {
                if !is_new {
                    self.start_policies(state, &session, (Some(session.plan()), Some(tip)), tip);
                }
                let revision = (&session, repo.clone(), changed.as_ref());
                self.roll_out_policies(state, sessions, revision, (tip, name))
            }
            _ => {
                let members =
                    Members { objects: changed.as_ref(), ..self.members(&session, repo.clone(), state) };
                let applied = match effect {
                    RoundEffect::Retry => self.retry(state, sessions, &members, name),
                    _ => self.apply(state, sessions, members, (tip, name)),
                };
                sessions.put_accepted(opened, session, repo);
                let event = match &applied {
                    Ok(_) => RoundEvent::Delivered,
                    Err(_) => Self::note_failing(state, sessions),
                };
                return Ok((event, applied));
            }
        };
        sessions.put_accepted(opened, session, repo);
        let is_over = rolled_out.as_ref().is_ok_and(|outcome| !outcome.is_progressing());
        Ok((if is_over { RoundEvent::Delivered } else { RoundEvent::Waiting }, rolled_out))
    }

    /// Applies a new revision to all clusters.
    fn apply(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        members: Members<'_>,
        (tip, name): (&str, &str),
    ) -> Result<Outcome, RoundError> {
        let committed =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        let applied = self.spec.apply.as_ref().map(|apply| {
            let cache = state.cache();
            let (tracker, status) = (&mut sessions.clusters, &mut state.record.status);
            self.until_revised(&cache, tip, &mut sessions.resume, |interrupt| {
                Members { interrupt, ..members }.apply(apply, None, tracker, status)
            })
        });
        let message = match (committed, applied.transpose()?) {
            (Some(committed), Some(clusters)) => format!("{committed}, applied it to {clusters}"),
            (None, Some(clusters)) => format!("applied {name} to {clusters}"),
            (Some(committed), None) => committed,
            (None, None) => format!("read {name}"),
        };
        Ok(Outcome { drift: sessions.clusters.drift(), ..Outcome::done(&message) })
    }

    /// Applies to the clusters that have failed and whose turn it is; the others are only compared, at the interval.
    fn retry(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        members: &Members<'_>,
        name: &str,
    ) -> Result<Outcome, RoundError> {
        self.note_inventory(state, members.session);
        let accepted = state.record.accepted.clone().unwrap_or_default();
        let (cache, pending) = (state.cache(), accepted.pending.unwrap_or_default());
        let mut ended = match &self.spec.apply {
            Some(apply) => self.until_revised(&cache, &accepted.tip, &mut sessions.resume, |interrupt| {
                let members = Members { interrupt, ..members.clone() };
                members.update(apply, &pending, self.spec.wait(apply), &mut sessions.clusters).map(drop)
            }),
            None => Ok(()),
        };
        let (tracker, status) = (&mut sessions.clusters, &mut state.record.status);
        if self.looks_for_drift() && tracker.compares(self.spec.interval.0) {
            ended = ended.and(members.drift_in_turn(tracker, status).1);
        }
        ended.and_then(|()| members.end(tracker, status))?;
        let done = Outcome::done(&format!("every cluster is at {name}"));
        Ok(Outcome { drift: tracker.drift(), ..done })
    }

    /// Notes which clusters are not at the revision yet.
    fn note_failing(state: &mut SyncState<'_>, sessions: &SessionCache) -> RoundEvent {
        let failing: BTreeSet<String> = sessions.clusters.causes().map(|(name, _)| name.clone()).collect();
        let event = if failing.is_empty() { RoundEvent::Interrupted } else { RoundEvent::ClustersFailed };
        if let Some(accepted) = &mut state.record.accepted {
            accepted.pending = (!failing.is_empty()).then_some(failing);
        }
        event
    }

    /// Notes that all clusters are at the revision. Former revisions are forgotten when that is recorded.
    fn finish(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        PolledSource { opened, name, .. }: &PolledSource,
    ) -> Result<(), RoundError> {
        let is_staged = self.rollout().is_some();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.repository = self.repo(opened).as_ref().map(RepoRef::to_string);
            for cluster in state.record.clusters.values_mut() {
                (cluster.revision, cluster.stale) = (Some(accepted.tip.clone()), false);
                cluster.former = cluster.former.take().filter(|_| !is_staged);
            }
        }
        state.record.status.last_applied_revision = Some(name.clone());
        if is_staged {
            (state.record.rollout, state.record.status.rollout) = (None, None);
            sessions.formers.clear();
            state.save()?;
            state.forget_formers(&BTreeSet::new())?;
        }
        Ok(())
    }

    /// The session over what was carried out last.
    pub(crate) fn accepted(
        &self,
        state: &SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
    ) -> Result<Session, RoundError> {
        let session = if let Some(session) = sessions.accepted(opened) {
            session
        } else {
            let (limit, destination) = (self.apply_limit(), self.destination());
            Self::prepare(sessions, opened, state.memory()?.as_ref(), limit, destination)?
        };
        sessions.clusters.keep(&selected_names(self.spec, &session).collect());
        Ok(session)
    }
}

/// The names of the clusters of a session.
pub(crate) fn names(session: &Session) -> impl Iterator<Item = &str> {
    session.clusters().iter().map(|cluster| cluster.name.as_ref())
}

/// The outcome of a round in which nothing has changed.
pub(crate) fn unchanged(state: &SyncState<'_>) -> Outcome {
    let at = state.record.status.last_applied_revision.as_deref().unwrap_or("the source");
    let message = state.record.status.condition("Ready").filter(|ready| ready.status == "True");
    Outcome::done(&message.map_or_else(|| format!("everything is at {at}"), |ready| ready.message.clone()))
}
