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
use federate_sync_api::record::Accepted;
use federate_sync_api::rollout::Rollout;
use federate_sync_api::status::{Branch, Reason};
use federate_sync_api::{Apply, DriftMode, Spec, WindowState};

use crate::environment::Environment;
use crate::members::Members;
use crate::observed::Observed;
use crate::opened::{Opened, SessionCache};
pub use crate::outcome::Outcome;
pub(crate) use crate::outcome::{RoundError, plain};
use crate::page::count_clusters;
use crate::polled::PolledSource;
use crate::read::Loaded;
use crate::rollout::carry_out::Target;
use crate::rollout::policies::awaiting;
use crate::selection::selected_names;
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

/// Puts a round off until another Sync is ready.
pub fn waits(state: &mut SyncState<'_>, on: &str) -> Outcome {
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
    fn work(&self, state: &mut SyncState<'_>, sessions: &mut SessionCache) -> Result<Outcome, RoundError> {
        let Some(polled) = self.poll(state, sessions)? else { return Ok(unchanged(state)) };
        let PolledSource { opened, tip, branches, name, .. } = &polled;
        self.observe(state, sessions, opened)?;
        state.record.status.last_attempted_revision = Some(name.clone());
        let accepted = state.record.accepted.as_ref();
        if let Some(accepted) = accepted.filter(|accepted| accepted.is_for(tip, branches.as_ref())) {
            let done = accepted.done;
            if self.moves(state, sessions, opened)? {
                tracing::info!(sync = self.name(), "the status of the clusters has changed");
            } else if done {
                return self.drift(state, sessions, opened);
            }
        }
        let inventory = sessions.inventory();
        let accepted = state.record.accepted.as_ref();
        let accepted = accepted.filter(|accepted| {
            accepted.is_for(tip, branches.as_ref()) && accepted.inventory.as_ref() == inventory
        });
        let (known, pending) = (accepted.is_some(), accepted.and_then(|accepted| accepted.pending.clone()));
        let rolls = state.record.rollout.as_ref().is_some_and(|progress| !progress.restarts);
        if let Some(rollout) = self.rollout().filter(|_| rolls && known) {
            return self.go_on(state, sessions, rollout, &polled);
        }
        if known && self.rolls_policies(state) {
            return self.go_on_with_policies(state, sessions, &polled);
        }
        if !self.may_change(name) {
            return self.await_window(state, sessions, &polled, pending.as_ref());
        }
        if let Some(pending) = pending {
            return self.retry(state, sessions, opened, &pending, name);
        }
        sessions.clusters.forget();
        tracing::info!(sync = self.name(), revision = name, "carrying out a new revision");
        state.record.status.begin(&format!("carrying out {name}"), Timestamp::now());
        state.save()?;
        self.carry_out(state, sessions, &polled)
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

    /// Goes on with a rollout that is under way.
    fn go_on(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        (rollout, apply): (&Rollout, &Apply),
        PolledSource { opened, name, .. }: &PolledSource,
    ) -> Result<Outcome, RoundError> {
        let session = self.accepted(state, sessions, opened)?;
        let repo = self.repo(opened);
        let target = Target { rollout, apply, session: &session, repo: repo.clone(), name };
        let ended = self.roll_out(state, sessions, &target);
        sessions.put_accepted(opened, session, repo);
        ended
    }

    /// Brings branches and clusters to a revision.
    fn carry_out(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        polled: &PolledSource,
    ) -> Result<Outcome, RoundError> {
        let PolledSource { opened, tip, name, .. } = polled;
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
        let before = state.record.accepted.as_ref();
        let changed = self.changed(sessions.before.take(), (&session, repo.as_ref()), before);
        self.note_inventory(state, &session);
        self.accept(state, &session, polled, (branches, kept.as_ref(), sessions.observed.as_ref()))?;
        sessions.clusters.keep(&selected_names(self.spec, &session).collect());
        let mut said =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        if let Some((rollout, apply)) = self.rollout().filter(|_| state.record.rollout.is_some()) {
            let target = Target { rollout, apply, session: &session, repo: repo.clone(), name };
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
            let members = self.members(&session, repo.clone(), state);
            let members = Members { objects: changed.as_ref(), ..members };
            let cache = state.cache();
            let (backoffs, status) = (&mut sessions.clusters, &mut state.record.status);
            self.until_revised(&cache, tip, &mut sessions.resume, |interrupt| {
                Members { interrupt, ..members }.apply(apply, None, backoffs, status)
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
        Self::done(state, repo.as_ref(), name);
        if self.rollout().is_some() {
            sessions.formers.clear();
            state.forget_formers(&BTreeSet::new())?;
        }
        let message = said.unwrap_or_else(|| format!("read {name}"));
        Ok(Outcome { drift: sessions.clusters.drift(), ..Outcome::done(&message) })
    }

    /// Notes a revision, what it renders and its plan, before the first cluster is changed.
    fn accept(
        &self,
        state: &mut SyncState<'_>,
        session: &Session,
        PolledSource { tip, .. }: &PolledSource,
        (branches, kept, observed): (Vec<Branch>, Option<&Plan>, Option<&Observed>),
    ) -> Result<(), RoundError> {
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
        let goes_on = before.as_ref().is_some_and(|before| !before.done && before.is_for(tip, None));
        let earlier = if goes_on { state.record.status.replicas_moved } else { 0 };
        state.record.status.replicas_moved = earlier + usize::try_from(moved).unwrap_or_default();
        state.record.status.branches.clone_from(&branches);
        state.record.accepted = Some(Accepted {
            tip: tip.clone(),
            branches: branches.into_iter().map(|branch| (branch.branch, branch.commit)).collect(),
            done: false,
            pending: None,
            // The repository changes when all clusters are at the revision.
            repository: before.and_then(|accepted| accepted.repository),
            rendering,
            inventory: observed.map(|observed| observed.digest.clone()),
        });
        Ok(state.save()?)
    }

    /// Notes that all clusters are at the revision.
    pub(crate) fn done(state: &mut SyncState<'_>, repo: Option<&RepoRef>, name: &str) {
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
        let failing: BTreeSet<String> = sessions.clusters.causes().map(|(name, _)| name.clone()).collect();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.pending = (!failing.is_empty()).then_some(failing);
        }
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

    /// Applies to the clusters that have failed and whose turn it is; the others are only compared, at the interval.
    fn retry(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
        pending: &BTreeSet<String>,
        name: &str,
    ) -> Result<Outcome, RoundError> {
        let session = self.accepted(state, sessions, opened)?;
        self.must_lead()?;
        self.note_inventory(state, &session);
        let repo = self.repo(opened);
        let backoffs = &mut sessions.clusters;
        let (cache, tip) =
            (state.cache(), state.record.accepted.as_ref().map_or("", |accepted| &accepted.tip));
        let mut ended = match &self.spec.apply {
            Some(apply) => self.until_revised(&cache, tip, &mut sessions.resume, |interrupt| {
                let members = Members { interrupt, ..self.members(&session, repo.clone(), state) };
                members.update(apply, pending, self.spec.wait(apply), backoffs).map(drop)
            }),
            None => Ok(()),
        };
        let members = self.members(&session, repo.clone(), state);
        let status = &mut state.record.status;
        if self.looks_for_drift() && backoffs.compares(self.spec.interval.0) {
            ended = ended.and(members.drift_in_turn(backoffs, status).1);
        }
        ended = ended.and_then(|()| members.end(backoffs, status));
        sessions.put_accepted(opened, session, repo.clone());
        Self::note_pending(state, sessions);
        ended?;
        Self::done(state, repo.as_ref(), name);
        let done = Outcome::done(&format!("every cluster is at {name}"));
        Ok(Outcome { drift: sessions.clusters.drift(), ..done })
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
