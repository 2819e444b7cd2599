//! The rounds of one Sync, in a thread of its own: at its interval, when something happens, and sooner after a failure.
//! Between rounds, the clusters in which something has changed are compared.

use std::sync::mpsc::RecvTimeoutError;
use std::thread::Scope;
use std::time::{Duration, Instant};

use federate_kubernetes::finding::list;
use federate_live::Interrupt;
use federate_repo::EmptySource;
use federate_session::{Options, Session};
use federate_sync_api::Spec;
use federate_sync_api::record::Record;
use federate_sync_api::stage::{RoundEffect, RoundEvent};
use federate_sync_api::status::{Reason, Status};
use jiff::Timestamp;

use crate::SessionCache;
use crate::board::{SyncRegistry, Wake, Waker, Wakes};
use crate::environment::Environment;
use crate::hub::{self, Hub};
use crate::members::change_queue::ChangedClusters;
use crate::members::comparison;
use crate::members::tracker;
use crate::members::watches::MemberWatches;
use crate::notify;
use crate::read::Loaded;
use crate::round::{self, Outcome};
use crate::run;
use crate::state::{StateStore, SyncState};
use crate::telemetry::Telemetry;

/// Pauses differ by up to this share, so that many Syncs do not ask a server at the same moment.
const JITTER_PERCENT: u64 = 10;
/// Editors write a file in several steps: a round begins when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(100);
/// A round begins after this long even if files go on changing.
const PATIENCE: Duration = Duration::from_secs(2);
/// A comparison begins this long after the first change in a cluster: one command often changes several objects.
const GATHER: Duration = Duration::from_millis(200);

/// How soon a Sync is looked at again whose objects are still being deleted.
const LOOK: Duration = Duration::from_secs(2);

/// How soon clusters are compared again if the state could not be read.
const REREAD: Duration = Duration::from_secs(5);

/// The threads of all Syncs.
pub(crate) struct Workers<'scope, 'env> {
    pub(crate) scope: &'scope Scope<'scope, 'env>,
    pub(crate) world: Shared<'env>,
}

/// What all threads share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'l> {
    pub(crate) states: &'l dyn StateStore,
    pub(crate) env: &'l Environment<'l>,
    pub(crate) telemetry: &'l Telemetry,
    pub(crate) board: &'l SyncRegistry,
    /// The API server that holds the Syncs, if one does.
    pub(crate) hub: Option<&'l Hub>,
}

impl Workers<'_, '_> {
    /// Makes these the Syncs that are run.
    pub(crate) fn set(&self, syncs: Vec<Loaded>) {
        self.world.telemetry.metrics.expect(syncs.iter().map(|loaded| loaded.sync.metadata.full_name()));
        for (name, (waker, wakes)) in self.world.board.set(syncs) {
            let lane = Lane { name, shared: self.world };
            self.scope.spawn(move || lane.run(waker, &wakes));
        }
    }
}

/// The rounds of one Sync.
struct Lane<'l> {
    name: String,
    shared: Shared<'l>,
}

/// How a round ended, `None` if the Sync is suspended; and what is recorded then, if that is known.
type Ended = (Option<Outcome>, Option<Record>);

/// What a thread remembers of its Sync.
struct Memory {
    sessions: SessionCache,
    /// Whether something waits for the round to end.
    interrupt: Interrupt,
    watches: MemberWatches,
    /// The outcome that was reported last, if any was; a round that is suspended has none.
    #[expect(clippy::option_option, reason = "nothing was reported, or that there is no outcome")]
    reported: Option<Option<Outcome>>,
    /// The last request for a round.
    requested: Option<String>,
    /// How many rounds in a row have failed.
    failures: u32,
}

impl Lane<'_> {
    /// Does its rounds until the Sync is gone or the process ends.
    fn run(&self, waker: Waker, wakes: &Wakes) {
        let mut memory = Memory {
            sessions: SessionCache::new(self.shared.env.dialects, self.shared.env.builder.clone()),
            interrupt: wakes.interrupt(),
            watches: MemberWatches::new(waker),
            reported: None,
            requested: None,
            failures: 0,
        };
        while let Some(loaded) = self.shared.board.wanted(&self.name) {
            let mut until = self.do_round(&loaded, &mut memory);
            self.follow(&loaded, &mut memory);
            loop {
                let changed = memory.watches.with(|changed| changed.next());
                let next = until.into_iter().chain(changed).min();
                match sleep(wakes, next) {
                    Some(Wake::End) => return,
                    Some(Wake::Now) => break,
                    Some(Wake::Changed) => {}
                    None if until.is_some_and(|until| until <= Instant::now()) => break,
                    None => {
                        self.compare(&loaded, &mut memory);
                        // A cluster that has failed is retried by the next round.
                        until = until.into_iter().chain(memory.sessions.clusters.next_due()).min();
                    }
                }
            }
        }
        self.shared.telemetry.page.forget(&self.name);
        tracing::info!(sync = self.name, "the Sync is gone");
    }

    /// Does a round and reports it. Returns when the next one is due.
    fn do_round(&self, loaded: &Loaded, memory: &mut Memory) -> Option<Instant> {
        let Shared { board, telemetry: Telemetry { metrics, page }, .. } = self.shared;
        // A request for a round is about all clusters.
        let asked = loaded.sync.meta.as_ref().and_then(|meta| meta.requested_at.clone());
        if asked != memory.requested {
            memory.requested = asked;
            memory.sessions.forget_comparisons();
        }
        let (begun, time) = (Instant::now(), Timestamp::now());
        let (outcome, record) = self.round(loaded, &mut memory.sessions, &memory.interrupt);
        let status = record.as_ref().map(|record| &record.status);
        let revision = status.and_then(|status| status.last_attempted_revision.clone());
        if memory.reported.as_ref() != Some(&outcome) {
            run::log(&self.name, outcome.as_ref());
            if let (Some(hub), Some(outcome)) = (self.shared.hub, &outcome) {
                hub.report(loaded, outcome, revision.as_deref());
                let reason = (outcome.reason, outcome.message.as_str());
                notify::send(loaded, self.shared.env.world, reason, revision.as_deref());
            }
        }
        let before = memory.reported.take().flatten().and_then(|outcome| outcome.drift);
        self.report_drift(loaded, before.as_ref(), outcome.as_ref().and_then(|o| o.drift.as_ref()));
        self.report_left(loaded, status, time);
        self.report_fights(loaded, memory);
        metrics.observe(&self.name, outcome.as_ref(), status, begun.elapsed());
        page.show(loaded, record.as_ref(), &memory.sessions.clusters);
        metrics.count(&self.shared.env.tally);
        metrics.waiting(&self.name, memory.sessions.clusters.causes().count());
        board.note(&self.name, outcome.as_ref().is_some_and(Outcome::is_ready));
        memory.failures =
            if outcome.as_ref().is_some_and(|o| !o.is_ready()) { memory.failures + 1 } else { 0 };
        let spec = &loaded.sync.spec;
        let pause = pause(spec, outcome.as_ref(), memory.failures);
        let pause = pause.map(|pause| Instant::now() + jittered(pause));
        let (missed, due) = memory.sessions.clusters.due_after(begun);
        let until = match due.filter(|_| outcome.is_some()) {
            // A round that has not come to a cluster that was due would be followed by another one at once.
            Some(due) => Some(due.min(Instant::now() + spec.interval.0))
                .into_iter()
                .chain(pause.filter(|_| missed))
                .min(),
            None => pause,
        };
        memory.reported = Some(outcome);
        let resume = memory.sessions.resume.take();
        until.into_iter().chain(resume).min()
    }

    /// Watches the clusters, if the Sync asks for drift and they are at what is in memory.
    fn follow(&self, loaded: &Loaded, memory: &mut Memory) {
        let spec = &loaded.sync.spec;
        let wanted = !is_idle(loaded) && spec.apply.is_some() && spec.looks_for_drift();
        if let Some(current) = memory.sessions.current().filter(|_| wanted) {
            let env = self.shared.env;
            if memory.watches.follow(loaded, current.session, env) {
                current.clusters.forget_clean();
            } else if current.clusters.lists() {
                memory.watches.list();
            }
        } else {
            memory.watches.end();
            memory.watches.with(ChangedClusters::forget);
            memory.sessions.clusters.forget_clean();
        }
    }

    /// Compares the clusters in which something has changed.
    fn compare(&self, loaded: &Loaded, memory: &mut Memory) {
        let clusters = memory.watches.with(|changed| changed.take(Instant::now()));
        if is_idle(loaded) {
            // A watch that was ending has reported it.
            return;
        }
        let mut state = match self.shared.states.state(loaded) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(sync = self.name, %error, "clusters are not compared");
                let soon = Instant::now() + REREAD;
                memory.watches.with(|changed| clusters.keys().for_each(|cluster| changed.at(cluster, soon)));
                return;
            }
        };
        let sessions = &mut memory.sessions;
        let compared = comparison::compare(loaded, &mut state, sessions, self.shared.env, clusters);
        let Some((compared, drift)) = compared else { return };
        memory.watches.with(|changed| {
            for (cluster, found) in &compared {
                changed.compared(cluster, *found, Instant::now());
            }
        });
        let Telemetry { metrics, page } = self.shared.telemetry;
        for cluster in compared.keys() {
            metrics.compared(&self.name, cluster);
        }
        metrics.states(&self.name, &state.record.status);
        metrics.count(&self.shared.env.tally);
        page.show(loaded, Some(&state.record), &memory.sessions.clusters);
        if let Some(Some(outcome)) = &mut memory.reported {
            let before = std::mem::replace(&mut outcome.drift, drift);
            if outcome.drift != before
                && let Some(drift) = &outcome.drift
            {
                tracing::warn!(sync = self.name, "{drift}");
            }
            let now = outcome.drift.clone();
            self.report_drift(loaded, before.as_ref(), now.as_ref());
        }
        self.report_fights(loaded, memory);
    }

    /// Writes an Event if other objects drifted than before.
    fn report_drift(&self, loaded: &Loaded, before: Option<&String>, now: Option<&String>) {
        let Some(hub) = self.shared.hub.filter(|_| before != now) else { return };
        match now {
            Some(drift) => hub.event(loaded, ("DriftDetected", true), drift, None),
            None => hub.event(loaded, ("DriftResolved", false), "no object drifts any more", None),
        }
    }

    /// Reports fights, and has their clusters compared again when they are put back the next time.
    fn report_fights(&self, loaded: &Loaded, memory: &mut Memory) {
        for fight in memory.sessions.clusters.fights.reports() {
            tracing::warn!(sync = self.name, "{}", fight.message);
            self.shared.telemetry.metrics.fight(&self.name, &fight.cluster);
            memory.watches.with(|changed| changed.at(&fight.cluster, fight.until));
            if let Some(hub) = self.shared.hub {
                hub.event(loaded, ("Fight", true), &fight.message, None);
            }
        }
    }

    /// The first dependency that is not ready. Those that another installation runs say so by their status.
    fn find_unready(&self, loaded: &Loaded) -> Result<Option<String>, hub::Error> {
        for on in loaded.sync.dependency_names() {
            let name = on.full_name();
            let is_ready = match (self.shared.board.is_ready(&name), self.shared.hub) {
                (Some(ready), _) => ready,
                (None, Some(hub)) => hub.is_ready(&on)?,
                (None, None) => false,
            };
            if !is_ready {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    fn round(&self, loaded: &Loaded, sessions: &mut SessionCache, interrupt: &Interrupt) -> Ended {
        let deleting = loaded.sync.is_deleting();
        let rolled_back = if deleting { None } else { loaded.rolled_back() };
        if loaded.sync.spec.suspend && !deleting && rolled_back.is_none() {
            return (None, None);
        }
        match self.work(rolled_back.as_ref().unwrap_or(loaded), sessions, interrupt) {
            Ok((outcome, record)) => (outcome, Some(record)),
            Err(error) => (Some(Outcome::failed(&error)), None),
        }
    }

    fn work(
        &self,
        loaded: &Loaded,
        sessions: &mut SessionCache,
        interrupt: &Interrupt,
    ) -> Result<(Option<Outcome>, Record), crate::state::Error> {
        let deleting = loaded.sync.is_deleting();
        let Shared { env, hub, .. } = self.shared;
        if let (Some(hub), false) = (hub, deleting) {
            hub.finalizer(&loaded.sync)?;
        }
        let mut state = self.shared.states.state(loaded)?;
        let unready = if deleting { None } else { self.find_unready(loaded)? };
        let outcome = match (round::begin(loaded, &state, env, unready.is_some()), unready) {
            (RoundEffect::AwaitDependency, Some(on)) => Some(round::await_dependency(&mut state, &on)),
            (RoundEffect::Poll, _) => Some(round::run(loaded, &mut state, sessions, env, Some(interrupt))),
            (effect @ (RoundEffect::DeleteObjects | RoundEffect::Release), _) => {
                Some(self.delete(effect, loaded, &mut state, sessions)?)
            }
            _ => None,
        };
        Ok((outcome, state.record))
    }
}

impl Lane<'_> {
    /// Deletes the objects of a Sync that is being deleted, if it asks for that, and lets it go.
    fn delete(
        &self,
        first: RoundEffect,
        loaded: &Loaded,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<Outcome, crate::state::Error> {
        let sync = &loaded.sync;
        let mut outcome = match first {
            RoundEffect::DeleteObjects => round::delete(loaded, state, self.shared.env),
            _ if sync.deletes() => {
                Outcome::done("the Sync is suspended: the objects in member clusters stay where they are")
            }
            _ => Outcome::done("the objects in member clusters stay where they are"),
        };
        let Some(hub) = self.shared.hub else { return Ok(outcome) };
        let event = match outcome.reason {
            Reason::ReconciliationSucceeded => RoundEvent::Deleted,
            Reason::Progressing => RoundEvent::Terminating,
            _ if self.lost_credentials(hub, loaded)? => RoundEvent::CredentialsLost,
            _ => RoundEvent::NotDeleted,
        };
        match event {
            RoundEvent::Terminating => sessions.resume = Some(Instant::now() + LOOK),
            // They went with the namespace, and do not come back.
            RoundEvent::CredentialsLost => outcome = self.leave_objects(hub, loaded, state),
            _ => {}
        }
        if round::follow_deletion(loaded, state, self.shared.env, event) == RoundEffect::Release {
            hub::release(hub, &sync.metadata)?;
        }
        Ok(outcome)
    }

    /// Reports the clusters that can never be reached again, and keep the objects of the Sync.
    fn leave_objects(&self, hub: &Hub, loaded: &Loaded, state: &mut SyncState<'_>) -> Outcome {
        let inventory = state.record.status.inventory.take().unwrap_or_default();
        let clusters: Vec<&str> = inventory.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let message = format!(
            "the namespace was deleted with the credentials of the Sync: its objects stay in {}",
            list(&clusters, 20)
        );
        tracing::error!(sync = self.name, "{message}");
        hub.event(loaded, ("ObjectsLeftBehind", true), &message, None);
        Outcome::done(&message)
    }

    /// Whether clusters can never be reached again, because the namespace with the credentials is being deleted.
    fn lost_credentials(&self, hub: &Hub, loaded: &Loaded) -> Result<bool, hub::Error> {
        let nothing = Session::open(&EmptySource, Options::new(self.shared.env.dialects));
        let reaches = self.shared.env.world.access(loaded, &nothing).is_ok();
        Ok(!reaches && hub.is_terminating(&loaded.sync.metadata.namespace)?)
    }

    /// Reports the clusters that have left in a round that began at a time.
    fn report_left(&self, loaded: &Loaded, status: Option<&Status>, begun: Timestamp) {
        let clusters = status.and_then(|status| status.inventory.as_ref()).map(|known| &known.clusters);
        let left =
            clusters.into_iter().flatten().filter(|cluster| cluster.left.is_some_and(|at| at >= begun));
        let left: Vec<&str> = left.map(|cluster| cluster.name.as_str()).collect();
        if left.is_empty() {
            return;
        }
        let message = format!(
            "{} left the inventory and still {} objects of the Sync: `apply.pruneClusters` deletes them, and the annotation \
             federate.dev/forget gives them up",
            list(&left, 20),
            if left.len() == 1 { "has" } else { "have" }
        );
        tracing::warn!(sync = self.name, "{message}");
        if let Some(hub) = self.shared.hub {
            hub.event(loaded, ("ClusterLeft", true), &message, None);
        }
    }
}

/// Waits until something happens; `None` if nothing does until a time.
fn sleep(wakes: &Wakes, until: Option<Instant>) -> Option<Wake> {
    let woken = match until {
        None => wakes.receive().map_err(|_| RecvTimeoutError::Disconnected),
        Some(until) => wakes.receive_within(until.saturating_duration_since(Instant::now())),
    };
    match woken {
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) | Ok(Wake::End) => Some(Wake::End),
        Ok(first @ (Wake::Now | Wake::Changed)) => {
            let why = gather(wakes, first);
            // In a busy fleet, changes go on and on: they do not put off what is due.
            let is_due = why == Wake::Changed && until.is_some_and(|until| until <= Instant::now());
            (!is_due).then_some(why)
        }
    }
}

/// Waits until nothing more happens for a moment.
fn gather(wakes: &Wakes, mut why: Wake) -> Wake {
    let first = Instant::now();
    loop {
        let (quiet, patience) = if why == Wake::Now { (QUIET, PATIENCE) } else { (GATHER, GATHER) };
        let left = patience.saturating_sub(first.elapsed());
        if left.is_zero() {
            return why;
        }
        match wakes.receive_within(quiet.min(left)) {
            Ok(Wake::Changed) => {}
            Ok(Wake::Now) => why = Wake::Now,
            Err(RecvTimeoutError::Timeout) => return why,
            Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => return Wake::End,
        }
    }
}

/// Whether clusters stay as they are between rounds: a Sync that is being deleted must not put back what it has deleted.
fn is_idle(loaded: &Loaded) -> bool {
    loaded.sync.spec.suspend || loaded.sync.is_deleting()
}

/// How long until the next round; `None` if only a change of the Sync begins it. A round that failed is retried soon,
/// and then less and less often, up to the interval. A stalled Sync waits for a new revision.
fn pause(spec: &Spec, outcome: Option<&Outcome>, failures: u32) -> Option<Duration> {
    let outcome = outcome?;
    if outcome.is_ready() || outcome.reason.is_stalled() || outcome.reason == Reason::Progressing {
        return Some(spec.interval.0);
    }
    Some(tracker::wait(spec.retry_interval(), spec.interval.0, failures))
}

fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or_default();
    let share = u64::from(random) * JITTER_PERCENT / u64::from(u32::MAX);
    pause + pause.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::wake_channel;

    #[test]
    fn failures_are_tried_again_less_and_less_often() {
        let text = r#"{"source": {"url": "r"}, "interval": "10m", "retryInterval": "1m", "commit": {"branch": "b"}}"#;
        let spec: Spec = serde_json::from_str(text).unwrap();
        let outcome = |reason| Outcome { reason, message: String::new(), drift: None };
        let minutes =
            |reason, failures| pause(&spec, Some(&outcome(reason)), failures).unwrap().as_secs() / 60;
        assert_eq!(minutes(Reason::ReconciliationSucceeded, 0), 10);
        let failed = [1, 2, 3, 4, 5, 60].map(|failures| minutes(Reason::GitOperationFailed, failures));
        assert_eq!(failed, [1, 2, 4, 8, 10, 10]);
        assert_eq!(minutes(Reason::BuildFailed, 1), 10, "only a new revision helps");
        assert_eq!(pause(&spec, None, 0), None, "one that is suspended sleeps");
    }

    #[test]
    fn changes_that_go_on_put_nothing_off() {
        let (waker, wakes) = wake_channel();
        let now = Instant::now();
        waker.send(Wake::Changed);
        assert_eq!(sleep(&wakes, Some(now + Duration::from_hours(1))), Some(Wake::Changed));
        waker.send(Wake::Changed);
        assert_eq!(sleep(&wakes, Some(now)), None, "it is time");
        waker.send(Wake::Changed);
        waker.send(Wake::Now);
        assert_eq!(sleep(&wakes, Some(now)), Some(Wake::Now), "a round that is asked for begins");
    }

    #[test]
    fn pauses_differ_by_a_tenth_at_most() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(100));
            assert!((100..=110).contains(&pause.as_secs()), "{pause:?}");
        }
    }
}
