//! The rounds of one Sync, in a thread of its own: at its interval, when something happens, and sooner after a failure.
//! Between rounds, the clusters in which something has changed are compared.

use std::sync::mpsc::RecvTimeoutError;
use std::thread::Scope;
use std::time::{Duration, Instant};

use federate_kubernetes::finding::join_names;
use federate_live::Interrupt;
use federate_repo::EmptySource;
use federate_session::{Session, SessionOptions};
use federate_sync_api::SyncSpec;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::stage::{DeletionEvent, RoundStart, SyncStage, finish_deletion};
use federate_sync_api::status::SyncReason;

use crate::SessionCache;
use crate::environment::Environment;
use crate::hub::{self, EventType, HubClient};
use crate::member_clusters::change_queue::ChangedClusters;
use crate::member_clusters::comparison;
use crate::member_clusters::tracker;
use crate::member_clusters::watches::MemberWatches;
use crate::notifications;
use crate::reconciliation::{self, SyncOutcome};
use crate::registry::{SyncRegistry, Wake, WakeReceiver, WakeSender};
use crate::run;
use crate::state::{StateStore, SyncState};
use crate::sync_files::ValidSync;
use crate::telemetry::Telemetry;

/// Pauses differ by up to this share, so that many Syncs do not ask a server at the same moment.
const JITTER_PERCENT: u64 = 10;
/// Editors write a file in several steps: a round begins when nothing has happened for this long.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A round begins after this long even if files go on changing.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);
/// A comparison begins this long after the first change in a cluster: one command often changes several objects.
const COMPARISON_DELAY: Duration = Duration::from_millis(200);

/// How soon a Sync is looked at again whose objects are still being deleted.
const DELETION_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How soon clusters are compared again if the state could not be read.
const STATE_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The threads of all Syncs.
pub(crate) struct SyncWorkers<'scope, 'env> {
    pub(crate) scope: &'scope Scope<'scope, 'env>,
    pub(crate) shared: WorkerContext<'env>,
}

/// What all threads share.
#[derive(Clone, Copy)]
pub(crate) struct WorkerContext<'l> {
    pub(crate) states: &'l dyn StateStore,
    pub(crate) env: &'l Environment<'l>,
    pub(crate) telemetry: &'l Telemetry,
    pub(crate) registry: &'l SyncRegistry,
    /// The API server that holds the Syncs, if one does.
    pub(crate) hub: Option<&'l HubClient>,
}

impl SyncWorkers<'_, '_> {
    /// Makes these the Syncs that are run. `invalid` names those that exist and cannot be run.
    pub(crate) fn set_syncs(&self, syncs: Vec<ValidSync>, invalid: impl Iterator<Item = String>) {
        let names = syncs.iter().map(|loaded| loaded.sync.metadata.full_name());
        self.shared.telemetry.metrics.expect_syncs(names, invalid);
        for (name, (waker, wakes)) in self.shared.registry.set_syncs(syncs) {
            let worker = SyncWorker { name, shared: self.shared };
            self.scope.spawn(move || worker.run_loop(waker, &wakes));
        }
    }
}

/// The rounds of one Sync.
struct SyncWorker<'l> {
    name: String,
    shared: WorkerContext<'l>,
}

/// How a round ended, `None` if the Sync is suspended; and what is recorded then, if that is known.
type ReconcileEnd = (Option<SyncOutcome>, Option<SyncRecord>);

/// What a thread remembers of its Sync.
struct WorkerState {
    sessions: SessionCache,
    /// Whether something waits for the round to end.
    interrupt: Interrupt,
    watches: MemberWatches,
    /// The outcome that was reported last, if any was; a round that is suspended has none.
    #[expect(clippy::option_option, reason = "nothing was reported, or that there is no outcome")]
    reported: Option<Option<SyncOutcome>>,
    /// The last request for a round.
    requested: Option<String>,
    /// How many rounds in a row have failed.
    failures: u32,
}

impl SyncWorker<'_> {
    /// Does its rounds until the Sync is gone or the process ends.
    fn run_loop(&self, waker: WakeSender, wakes: &WakeReceiver) {
        let mut memory = WorkerState {
            sessions: SessionCache::new(self.shared.env),
            interrupt: wakes.to_interrupt(),
            watches: MemberWatches::new(waker),
            reported: None,
            requested: None,
            failures: 0,
        };
        while let Some(loaded) = self.shared.registry.find_desired(&self.name) {
            let mut until = self.reconcile_and_report(&loaded, &mut memory);
            self.update_watches(&loaded, &mut memory);
            loop {
                let changed = memory.watches.with_changes(|changed| changed.next_due());
                let next = until.into_iter().chain(changed).min();
                match wait_for_wake(wakes, next) {
                    Some(Wake::End) => return,
                    Some(Wake::Now) => break,
                    Some(Wake::Changed) => {}
                    None if until.is_some_and(|until| until <= Instant::now()) => break,
                    None => {
                        self.compare_changed(&loaded, &mut memory);
                        // A cluster that has failed is retried by the next round.
                        until = until.into_iter().chain(memory.sessions.clusters.next_due()).min();
                    }
                }
            }
        }
        self.shared.telemetry.page.remove_sync(&self.name);
        tracing::info!(sync = self.name, "the Sync is gone");
    }

    /// Does a round and reports it. Returns when the next one is due.
    fn reconcile_and_report(&self, loaded: &ValidSync, memory: &mut WorkerState) -> Option<Instant> {
        let WorkerContext { registry: board, telemetry: Telemetry { metrics, page }, .. } = self.shared;
        // A request for a round is about all clusters.
        let asked = loaded.sync.meta.as_ref().and_then(|meta| meta.requested_at.clone());
        if asked != memory.requested {
            memory.requested = asked;
            memory.sessions.forget_comparisons();
        }
        let begun = Instant::now();
        let (outcome, record) =
            self.reconcile_unless_suspended(loaded, &mut memory.sessions, &memory.interrupt);
        let status = record.as_ref().map(|record| &record.status);
        let revision = status.and_then(|status| status.last_attempted_revision.clone());
        if memory.reported.as_ref() != Some(&outcome) {
            run::log_outcome(&self.name, outcome.as_ref());
            if let (Some(hub), Some(outcome)) = (self.shared.hub, &outcome) {
                hub.report_outcome(loaded, outcome, revision.as_deref());
                let services = self.shared.env.services;
                let (reason, text) = (outcome.reason, outcome.message.as_str());
                notifications::send_notifications(loaded, services, reason, text, revision.as_deref());
            }
        }
        let before = memory.reported.take().flatten().and_then(|outcome| outcome.drift);
        let now = outcome.as_ref().and_then(|outcome| outcome.drift.as_ref());
        if before.as_ref() != now {
            self.report_drift(loaded, now.map(String::as_str), memory.sessions.clusters.drift_time());
        }
        self.report_contentions(loaded, memory);
        metrics.observe_round(&self.name, outcome.as_ref(), status, begun.elapsed());
        page.update_sync(loaded, record.as_ref(), &memory.sessions.clusters);
        metrics.add_counts(&self.shared.env.counters);
        if outcome.is_some() {
            metrics.set_queue_depth(&self.name, memory.sessions.clusters.failure_causes().count());
        }
        board.set_ready(&self.name, outcome.as_ref().is_some_and(SyncOutcome::is_ready));
        memory.failures =
            if outcome.as_ref().is_some_and(|o| !o.is_ready()) { memory.failures + 1 } else { 0 };
        let spec = &loaded.sync.spec;
        let pause = compute_pause(spec, outcome.as_ref(), memory.failures);
        let pause = pause.map(|pause| Instant::now() + add_jitter(pause));
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
    fn update_watches(&self, loaded: &ValidSync, memory: &mut WorkerState) {
        let spec = &loaded.sync.spec;
        let wanted = !is_idle(loaded) && spec.apply.is_some() && spec.looks_for_drift();
        if let Some(current) = memory.sessions.current_session().filter(|_| wanted) {
            let env = self.shared.env;
            if memory.watches.ensure_watching(loaded, current.revision.session, env) {
                current.clusters.forget_clean();
            } else if current.clusters.take_relist_due() {
                memory.watches.relist_objects();
            }
        } else {
            memory.watches.end_watches();
            memory.watches.with_changes(ChangedClusters::clear_waiting);
            memory.sessions.clusters.forget_clean();
        }
    }

    /// Compares the clusters in which something has changed.
    fn compare_changed(&self, loaded: &ValidSync, memory: &mut WorkerState) {
        let clusters = memory.watches.with_changes(|changed| changed.take_due(Instant::now()));
        if is_idle(loaded) {
            // A watch that was ending has reported it.
            return;
        }
        let mut state = match self.shared.states.open_state(loaded) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(sync = self.name, %error, "clusters are not compared");
                let soon = Instant::now() + STATE_RETRY_PAUSE;
                memory.watches.with_changes(|changed| {
                    for cluster in clusters.keys() {
                        changed.schedule_at(cluster, soon);
                    }
                });
                return;
            }
        };
        let sessions = &mut memory.sessions;
        let compared =
            comparison::compare_due_clusters(loaded, &mut state, sessions, self.shared.env, clusters);
        let Some((compared, drift)) = compared else { return };
        memory.watches.with_changes(|changed| {
            for (cluster, found) in &compared {
                changed.note_comparison(cluster, *found, Instant::now());
            }
        });
        let Telemetry { metrics, page } = self.shared.telemetry;
        for cluster in compared.keys() {
            metrics.count_comparison(&self.name, cluster);
        }
        metrics.set_states(&self.name, &state.record.status);
        metrics.add_counts(&self.shared.env.counters);
        page.update_sync(loaded, Some(&state.record), &memory.sessions.clusters);
        if let Some(Some(outcome)) = &mut memory.reported {
            let before = std::mem::replace(&mut outcome.drift, drift);
            if outcome.drift != before
                && let Some(drift) = &outcome.drift
            {
                tracing::warn!(sync = self.name, "{drift}");
            }
            let changed = memory.sessions.clusters.drift_time();
            if outcome.drift != before {
                self.report_drift(loaded, outcome.drift.as_deref(), changed);
            }
        }
        self.report_contentions(loaded, memory);
    }

    /// Writes an Event about what drifts now.
    fn report_drift(&self, loaded: &ValidSync, drift: Option<&str>, changed: Option<&str>) {
        let Some(hub) = self.shared.hub else { return };
        let Some(drift) = drift else {
            let message = "no object drifts any more";
            return hub.report_event(loaded, EventType::Normal, "DriftResolved", message, None);
        };
        let changed = changed.map(|time| format!("; changed at {time}")).unwrap_or_default();
        hub.report_event(loaded, EventType::Warning, "DriftDetected", &format!("{drift}{changed}"), None);
    }

    /// Reports fights, and has their clusters compared again when they are put back the next time.
    fn report_contentions(&self, loaded: &ValidSync, memory: &mut WorkerState) {
        for fight in memory.sessions.clusters.contentions.take_reports() {
            tracing::warn!(sync = self.name, "{}", fight.message);
            self.shared.telemetry.metrics.count_contention(&self.name, &fight.cluster);
            memory.watches.with_changes(|changed| changed.schedule_at(&fight.cluster, fight.until));
            if let Some(hub) = self.shared.hub {
                hub.report_event(loaded, EventType::Warning, "Fight", &fight.message, None);
            }
        }
    }

    /// The first dependency that is not ready. Those that another installation runs say so by their status.
    fn find_unready(&self, loaded: &ValidSync) -> Result<Option<String>, hub::Error> {
        for on in loaded.sync.dependency_names() {
            let name = on.full_name();
            let is_ready = match (self.shared.registry.is_ready(&name), self.shared.hub) {
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

    fn reconcile_unless_suspended(
        &self,
        loaded: &ValidSync,
        sessions: &mut SessionCache,
        interrupt: &Interrupt,
    ) -> ReconcileEnd {
        let deleting = loaded.sync.is_deleting();
        let rolled_back = if deleting { None } else { loaded.rolled_back() };
        if loaded.sync.spec.suspend && !deleting && rolled_back.is_none() {
            return (None, None);
        }
        match self.reconcile_or_delete(rolled_back.as_ref().unwrap_or(loaded), sessions, interrupt) {
            Ok((outcome, record)) => (outcome, Some(record)),
            Err(error) => (Some(SyncOutcome::from_state_error(&error)), None),
        }
    }

    fn reconcile_or_delete(
        &self,
        loaded: &ValidSync,
        sessions: &mut SessionCache,
        interrupt: &Interrupt,
    ) -> Result<(Option<SyncOutcome>, SyncRecord), crate::state::Error> {
        let deleting = loaded.sync.is_deleting();
        let WorkerContext { env, hub, .. } = self.shared;
        if let (Some(hub), false) = (hub, deleting) {
            hub.update_finalizer(&loaded.sync)?;
        }
        let mut state = self.shared.states.open_state(loaded)?;
        let unready = if deleting { None } else { self.find_unready(loaded)? };
        let outcome = match reconciliation::choose_start(loaded, &state.record, unready.as_deref()) {
            RoundStart::EndRound => None,
            RoundStart::AwaitDependency(on) => {
                Some(reconciliation::await_dependency(loaded, &mut state, sessions, env, on))
            }
            RoundStart::Poll => {
                Some(reconciliation::reconcile_sync(loaded, &mut state, sessions, env, Some(interrupt)))
            }
            RoundStart::DeleteObjects => Some(self.delete_objects(loaded, &mut state, sessions)?),
            RoundStart::Release => Some(self.release_sync(loaded)?),
        };
        if !deleting {
            self.report_left(loaded, &mut state)?;
        }
        Ok((outcome, state.record))
    }

    /// Lets a Sync go that is being deleted and leaves its objects.
    fn release_sync(&self, loaded: &ValidSync) -> Result<SyncOutcome, crate::state::Error> {
        let why = if loaded.sync.deletes_objects() { "the Sync is suspended: " } else { "" };
        if let Some(hub) = self.shared.hub {
            hub::remove_finalizer(hub, &loaded.sync.metadata)?;
        }
        Ok(SyncOutcome::for_success(&format!("{why}the objects in member clusters stay where they are")))
    }

    /// Deletes the objects of a Sync that is being deleted, and lets it go when they are gone.
    fn delete_objects(
        &self,
        loaded: &ValidSync,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<SyncOutcome, crate::state::Error> {
        let mut outcome = reconciliation::delete_managed(loaded, state, self.shared.env);
        let Some(hub) = self.shared.hub else { return Ok(outcome) };
        let event = match outcome.reason {
            SyncReason::ReconciliationSucceeded => DeletionEvent::Deleted,
            SyncReason::Progressing => DeletionEvent::Terminating,
            _ if self.lost_credentials(hub, loaded)? => DeletionEvent::CredentialsLost,
            _ => DeletionEvent::NotDeleted,
        };
        match event {
            DeletionEvent::Terminating => sessions.resume = Some(Instant::now() + DELETION_POLL_INTERVAL),
            // They went with the namespace, and do not come back.
            DeletionEvent::CredentialsLost => outcome = self.leave_objects(hub, loaded, state),
            DeletionEvent::Deleted | DeletionEvent::NotDeleted => {}
        }
        if finish_deletion(event) == SyncStage::Released {
            hub::remove_finalizer(hub, &loaded.sync.metadata)?;
        }
        Ok(outcome)
    }

    /// Reports the clusters that can never be reached again, and keep the objects of the Sync.
    fn leave_objects(&self, hub: &HubClient, loaded: &ValidSync, state: &mut SyncState<'_>) -> SyncOutcome {
        let inventory = state.record.status.inventory.take().unwrap_or_default();
        let clusters: Vec<&str> = inventory.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let message = format!(
            "the namespace was deleted with the credentials of the Sync: its objects stay in {}",
            join_names(&clusters, 20)
        );
        tracing::error!(sync = self.name, "{message}");
        hub.report_event(loaded, EventType::Warning, "ObjectsLeftBehind", &message, None);
        SyncOutcome::for_success(&message)
    }

    /// Whether clusters can never be reached again, because the namespace with the credentials is being deleted.
    fn lost_credentials(&self, hub: &HubClient, loaded: &ValidSync) -> Result<bool, hub::Error> {
        let nothing = Session::open(&EmptySource, SessionOptions::new(self.shared.env.dialects));
        let reaches = self.shared.env.services.member_access(loaded, &nothing).is_ok();
        Ok(!reaches && hub.is_terminating(&loaded.sync.metadata.namespace)?)
    }

    /// Reports the clusters that the Sync has left, and notes that: a process that is killed before reports them again.
    fn report_left(&self, loaded: &ValidSync, state: &mut SyncState<'_>) -> Result<(), crate::state::Error> {
        let clusters = state.record.status.inventory.iter().flat_map(|known| &known.clusters);
        let left = clusters.filter(|cluster| cluster.left.is_some() && !cluster.reported);
        let left: Vec<&str> = left.map(|cluster| cluster.name.as_str()).collect();
        if left.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the Sync no longer applies to {}, which still {} objects of it: `apply.pruneClusters` deletes them, and the \
             annotation federate.dev/forget gives them up",
            join_names(&left, 20),
            if left.len() == 1 { "has" } else { "have" }
        );
        tracing::warn!(sync = self.name, "{message}");
        if let Some(hub) = self.shared.hub {
            hub.report_event(loaded, EventType::Warning, "ClusterLeft", &message, None);
        }
        if let Some(inventory) = &mut state.record.status.inventory {
            inventory.note_reported();
        }
        state.save_record()
    }
}

/// Waits until something happens; `None` if nothing does until a time.
fn wait_for_wake(wakes: &WakeReceiver, until: Option<Instant>) -> Option<Wake> {
    let woken = match until {
        None => wakes.receive().map_err(|_| RecvTimeoutError::Disconnected),
        Some(until) => wakes.receive_within(until.saturating_duration_since(Instant::now())),
    };
    match woken {
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) | Ok(Wake::End) => Some(Wake::End),
        Ok(first @ (Wake::Now | Wake::Changed)) => {
            let why = gather_wakes(wakes, first);
            // In a busy fleet, changes go on and on: they do not put off what is due.
            let is_due = why == Wake::Changed && until.is_some_and(|until| until <= Instant::now());
            (!is_due).then_some(why)
        }
    }
}

/// Waits until nothing more happens for a moment.
fn gather_wakes(wakes: &WakeReceiver, mut why: Wake) -> Wake {
    let first = Instant::now();
    loop {
        let (quiet, patience) =
            if why == Wake::Now { (DEBOUNCE, MAX_DEBOUNCE) } else { (COMPARISON_DELAY, COMPARISON_DELAY) };
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
fn is_idle(loaded: &ValidSync) -> bool {
    loaded.sync.spec.suspend || loaded.sync.is_deleting()
}

/// How long until the next round; `None` if only a change of the Sync begins it. A round that failed is retried soon,
/// and then less and less often, up to the interval. A stalled Sync waits for a new revision.
fn compute_pause(spec: &SyncSpec, outcome: Option<&SyncOutcome>, failures: u32) -> Option<Duration> {
    let outcome = outcome?;
    if outcome.is_ready() || outcome.reason.is_stalled() || outcome.reason == SyncReason::Progressing {
        return Some(spec.interval.0);
    }
    Some(tracker::compute_backoff(spec.retry_interval(), spec.interval.0, failures))
}

fn add_jitter(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or_default();
    let share = u64::from(random) * JITTER_PERCENT / u64::from(u32::MAX);
    pause + pause.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::wake_channel;

    #[test]
    fn failures_are_tried_again_less_and_less_often() {
        let text = r#"{"source": {"url": "r"}, "interval": "10m", "retryInterval": "1m", "commit": {"branch": "b"}}"#;
        let spec: SyncSpec = serde_json::from_str(text).unwrap();
        let outcome = |reason| SyncOutcome { reason, message: String::new(), drift: None };
        let minutes =
            |reason, failures| compute_pause(&spec, Some(&outcome(reason)), failures).unwrap().as_secs() / 60;
        assert_eq!(minutes(SyncReason::ReconciliationSucceeded, 0), 10);
        let failed = [1, 2, 3, 4, 5, 60].map(|failures| minutes(SyncReason::GitOperationFailed, failures));
        assert_eq!(failed, [1, 2, 4, 8, 10, 10]);
        assert_eq!(minutes(SyncReason::BuildFailed, 1), 10, "only a new revision helps");
        assert_eq!(compute_pause(&spec, None, 0), None, "one that is suspended sleeps");
    }

    #[test]
    fn changes_that_go_on_put_nothing_off() {
        let (waker, wakes) = wake_channel();
        let now = Instant::now();
        waker.send(Wake::Changed);
        assert_eq!(wait_for_wake(&wakes, Some(now + Duration::from_hours(1))), Some(Wake::Changed));
        waker.send(Wake::Changed);
        assert_eq!(wait_for_wake(&wakes, Some(now)), None, "it is time");
        waker.send(Wake::Changed);
        waker.send(Wake::Now);
        assert_eq!(wait_for_wake(&wakes, Some(now)), Some(Wake::Now), "a round that is asked for begins");
    }

    #[test]
    fn pauses_differ_by_a_tenth_at_most() {
        for _ in 0..100 {
            let pause = add_jitter(Duration::from_secs(100));
            assert!((100..=110).contains(&pause.as_secs()), "{pause:?}");
        }
    }
}
