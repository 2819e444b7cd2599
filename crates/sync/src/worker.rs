//! The reconciliations of one Sync, in a thread of its own: at its interval, when something happens, and sooner after a
//! failure. Between reconciliations, the clusters in which something has changed are compared.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::Scope;
use std::time::{Duration, Instant};

use federate_kubernetes::finding::join_names;
use federate_live::Interrupt;
use federate_sync_api::SyncSpec;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::SyncReason;

use crate::environment::Environment;
use crate::hub::{self, EventType, HubClient};
use crate::member_clusters::change_queue::ChangedClusters;
use crate::member_clusters::comparison;
use crate::member_clusters::tracker;
use crate::member_clusters::watches::MemberWatches;
use crate::notifications;
use crate::outcome::SyncOutcome;
use crate::plan::sessions::SyncRuntime;
use crate::reconciliation::{LoopContext, reconcile_sync};
use crate::run;
use crate::state::{SyncState, SyncStates};
use crate::sync_files::ValidSync;
use crate::sync_registry::{SyncRegistry, Wake, WakeReceiver, WakeSender};
use crate::telemetry::Telemetry;

/// Pauses differ by up to this share, so that many Syncs do not ask a server at the same moment.
const JITTER_PERCENT: u64 = 10;
/// Editors write a file in several steps: a reconciliation begins when nothing has happened for this long.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A reconciliation begins after this long even if files go on changing.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);
/// A comparison begins this long after the first change in a cluster: one command often changes several objects.
const COMPARISON_DELAY: Duration = Duration::from_millis(200);

/// How soon clusters are compared again if the state could not be read.
const STATE_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Starts the threads of Syncs.
pub(crate) struct WorkerSpawner<'scope, 'env> {
    pub(crate) scope: &'scope Scope<'scope, 'env>,
    pub(crate) shared: WorkerContext<'env>,
}

/// What all threads share.
#[derive(Clone, Copy)]
pub(crate) struct WorkerContext<'l> {
    pub(crate) states: &'l dyn SyncStates,
    pub(crate) env: &'l Environment<'l>,
    pub(crate) telemetry: &'l Telemetry,
    pub(crate) registry: &'l SyncRegistry,
    /// The API server that holds the Syncs, if one does.
    pub(crate) hub: Option<&'l HubClient>,
}

impl WorkerSpawner<'_, '_> {
    /// Makes these the Syncs that are run, each in a thread. `invalid` names those that exist and cannot be run.
    pub(crate) fn start_workers(&self, syncs: Vec<ValidSync>, invalid: impl Iterator<Item = String>) {
        let names = syncs.iter().map(|valid_sync| valid_sync.object.full_name());
        self.shared.telemetry.metrics.expect_syncs(names, invalid);
        for (name, (waker, wakes)) in self.shared.registry.set_syncs(syncs) {
            let mut worker = SyncWorker::new(name, self.shared, waker, &wakes);
            self.scope.spawn(move || worker.run_loop(&wakes));
        }
    }
}

/// The thread of one Sync, with what it remembers of it.
struct SyncWorker<'l> {
    name: String,
    shared: WorkerContext<'l>,
    runtime: SyncRuntime,
    /// Whether something waits for the reconciliation to end.
    interrupt: Interrupt,
    watches: MemberWatches,
    /// The outcome that was reported last, if any was; a reconciliation that is suspended has none.
    #[expect(clippy::option_option, reason = "nothing was reported, or that there is no outcome")]
    reported: Option<Option<SyncOutcome>>,
    /// The last request for a reconciliation.
    requested: Option<String>,
    /// How many reconciliations in a row have failed.
    failures: u32,
}

/// How a reconciliation ended, `None` if the Sync is suspended; and what is recorded then, if that is known.
type ReconcileEnd = (Option<SyncOutcome>, Option<SyncRecord>);

impl<'l> SyncWorker<'l> {
    fn new(name: String, shared: WorkerContext<'l>, waker: WakeSender, wakes: &WakeReceiver) -> Self {
        let mut runtime = SyncRuntime::new(shared.env);
        runtime.writes = wakes.writes.clone();
        Self {
            name,
            shared,
            runtime,
            interrupt: wakes.to_interrupt(),
            watches: MemberWatches::new(waker),
            reported: None,
            requested: None,
            failures: 0,
        }
    }

    /// Reconciles the Sync until it is gone or the process ends.
    fn run_loop(&mut self, wakes: &WakeReceiver) {
        while let Some(valid_sync) = self.shared.registry.find_desired(&self.name) {
            self.runtime.writes.store(true, Ordering::SeqCst);
            let mut until = self.reconcile_and_report(&valid_sync);
            self.runtime.writes.store(false, Ordering::SeqCst);
            self.update_watches(&valid_sync);
            loop {
                let changed = self.watches.with_changes(|changed| changed.next_due());
                let next = until.into_iter().chain(changed).min();
                match wait_for_wake(wakes, next) {
                    Some(Wake::End) => return,
                    Some(Wake::Reconciliation) => break,
                    Some(Wake::Comparison) => {}
                    None if until.is_some_and(|until| until <= Instant::now()) => break,
                    None => {
                        self.runtime.writes.store(true, Ordering::SeqCst);
                        self.compare_changed(&valid_sync);
                        self.runtime.writes.store(false, Ordering::SeqCst);
                        // A cluster that has failed is retried by the next reconciliation.
                        until = until.into_iter().chain(self.runtime.tracker.next_due()).min();
                    }
                }
            }
        }
        self.shared.telemetry.page.remove_sync(&self.name);
        tracing::info!(sync = self.name, "the Sync is gone");
    }

    /// Reconciles the Sync and reports the outcome. Returns when the next one is due.
    fn reconcile_and_report(&mut self, valid_sync: &ValidSync) -> Option<Instant> {
        let WorkerContext { registry, telemetry: Telemetry { metrics, page }, .. } = self.shared;
        // A request for a reconciliation is about all clusters.
        let asked = valid_sync.object.server_metadata.requested_at.clone();
        if asked != self.requested {
            self.requested = asked;
            self.runtime.forget_comparisons();
        }
        let begun = Instant::now();
        let (outcome, record) = self.reconcile_unless_suspended(valid_sync);
        let status = record.as_ref().map(|record| &record.status);
        let revision = status.and_then(|status| status.last_attempted_revision.clone());
        if self.reported.as_ref() != Some(&outcome) {
            run::log_outcome(&self.name, outcome.as_ref());
            if let (Some(hub), Some(outcome)) = (self.shared.hub, &outcome) {
                hub.report_outcome(valid_sync, outcome, revision.as_deref());
                let services = self.shared.env.services;
                let (reason, text) = (outcome.reason, outcome.message.as_str());
                notifications::send_notifications(valid_sync, services, reason, text, revision.as_deref());
            }
        }
        let before = self.reported.take().flatten().and_then(|outcome| outcome.drift);
        let now = outcome.as_ref().and_then(|outcome| outcome.drift.as_ref());
        if before.as_ref() != now {
            self.report_drift(valid_sync, now.map(String::as_str), self.runtime.tracker.drift_time());
        }
        self.report_contentions(valid_sync);
        metrics.observe_reconciliation(&self.name, outcome.as_ref(), status, begun.elapsed());
        page.update_sync(valid_sync, record.as_ref(), &self.runtime.tracker);
        metrics.add_counts(&self.shared.env.counters);
        if outcome.is_some() {
            metrics.set_queue_depth(&self.name, self.runtime.tracker.failure_causes().count());
        }
        registry.set_ready(&self.name, outcome.as_ref().is_some_and(SyncOutcome::is_ready));
        self.failures = if outcome.as_ref().is_some_and(|o| !o.is_ready()) { self.failures + 1 } else { 0 };
        let spec = &valid_sync.object.spec;
        let pause = compute_pause(spec, outcome.as_ref(), self.failures);
        let pause = pause.map(|pause| Instant::now() + add_jitter(pause));
        let (missed, due) = self.runtime.tracker.due_after(begun);
        let until = match due.filter(|_| outcome.is_some()) {
            // A reconciliation that has not come to a cluster that was due would be followed by another one at once.
            Some(due) => Some(due.min(Instant::now() + spec.interval.0))
                .into_iter()
                .chain(pause.filter(|_| missed))
                .min(),
            None => pause,
        };
        self.reported = Some(outcome);
        let resume = self.runtime.resume.take();
        until.into_iter().chain(resume).min()
    }

    /// Watches the clusters, if the Sync asks for drift and they are at what is in memory.
    fn update_watches(&mut self, valid_sync: &ValidSync) {
        let spec = &valid_sync.object.spec;
        let wanted = !is_paused(valid_sync) && spec.apply.is_some() && spec.looks_for_drift();
        if let Some(current) = self.runtime.current_session().filter(|_| wanted) {
            let env = self.shared.env;
            if self.watches.ensure_watching(valid_sync, current.revision.session, env) {
                current.clusters.forget_clean();
            } else if current.clusters.take_relist_due() {
                self.watches.relist_objects();
            }
        } else {
            self.watches.end_watches();
            self.watches.with_changes(ChangedClusters::clear_waiting);
            self.runtime.tracker.forget_clean();
        }
    }

    /// Compares the clusters in which something has changed.
    fn compare_changed(&mut self, valid_sync: &ValidSync) {
        let clusters = self.watches.with_changes(|changed| changed.take_due(Instant::now()));
        if is_paused(valid_sync) {
            // A watch that was ending has reported it.
            return;
        }
        let mut state = match self.shared.states.open_state(valid_sync) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(sync = self.name, %error, "clusters are not compared");
                let soon = Instant::now() + STATE_RETRY_PAUSE;
                self.watches.with_changes(|changed| {
                    for cluster in clusters.keys() {
                        changed.schedule_at(cluster, soon);
                    }
                });
                return;
            }
        };
        let (runtime, env) = (&mut self.runtime, self.shared.env);
        let compared = comparison::compare_due_clusters(valid_sync, &mut state, runtime, env, clusters);
        let Some((compared, drift)) = compared else { return };
        self.watches.with_changes(|changed| {
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
        page.update_sync(valid_sync, Some(&state.record), &self.runtime.tracker);
        if let Some(Some(outcome)) = &mut self.reported {
            let before = std::mem::replace(&mut outcome.drift, drift.clone());
            if drift != before {
                if let Some(drift) = &drift {
                    tracing::warn!(sync = self.name, "{drift}");
                }
                self.report_drift(valid_sync, drift.as_deref(), self.runtime.tracker.drift_time());
            }
        }
        self.report_contentions(valid_sync);
    }

    /// Writes an Event about what drifts now.
    fn report_drift(&self, valid_sync: &ValidSync, drift: Option<&str>, changed: Option<&str>) {
        let Some(hub) = self.shared.hub else { return };
        let Some(drift) = drift else {
            let message = "no object drifts any more";
            return hub.report_event(valid_sync, EventType::Normal, "DriftResolved", message, None);
        };
        let changed = changed.map(|time| format!("; changed at {time}")).unwrap_or_default();
        hub.report_event(valid_sync, EventType::Warning, "DriftDetected", &format!("{drift}{changed}"), None);
    }

    /// Reports contentions, and has their clusters compared again when they are put back the next time.
    fn report_contentions(&mut self, valid_sync: &ValidSync) {
        for contention in self.runtime.tracker.contentions.take_reports() {
            tracing::warn!(sync = self.name, "{}", contention.message);
            self.shared.telemetry.metrics.count_contention(&self.name, &contention.cluster);
            self.watches.with_changes(|changed| changed.schedule_at(&contention.cluster, contention.until));
            if let Some(hub) = self.shared.hub {
                hub.report_event(valid_sync, EventType::Warning, "Fight", &contention.message, None);
            }
        }
    }

    /// The first dependency that is not ready. Those that another installation runs say so by their status.
    fn find_unready(&self, valid_sync: &ValidSync) -> Result<Option<String>, hub::Error> {
        for on in valid_sync.object.dependency_names() {
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

    fn reconcile_unless_suspended(&mut self, valid_sync: &ValidSync) -> ReconcileEnd {
        let deleting = valid_sync.object.is_deleting();
        let rolled_back = if deleting { None } else { valid_sync.rolled_back() };
        if valid_sync.object.spec.suspend && !deleting && rolled_back.is_none() {
            return (None, None);
        }
        match self.open_and_reconcile(rolled_back.as_ref().unwrap_or(valid_sync)) {
            Ok((outcome, record)) => (outcome, Some(record)),
            Err(error) => (Some(SyncOutcome::from_state_error(&error)), None),
        }
    }

    fn open_and_reconcile(
        &mut self,
        valid_sync: &ValidSync,
    ) -> Result<(Option<SyncOutcome>, SyncRecord), crate::state::Error> {
        let deleting = valid_sync.object.is_deleting();
        let WorkerContext { env, hub, .. } = self.shared;
        if let (Some(hub), false) = (hub, deleting) {
            hub.update_finalizer(&valid_sync.object)?;
        }
        let mut state = self.shared.states.open_state(valid_sync)?;
        let unready = if deleting { None } else { self.find_unready(valid_sync)? };
        let from_loop = Some(LoopContext { interrupt: &self.interrupt, hub });
        let outcome =
            reconcile_sync(valid_sync, &mut state, &mut self.runtime, env, unready.as_deref(), from_loop)?;
        if !deleting {
            self.report_left(valid_sync, &mut state)?;
        }
        Ok((outcome, state.record))
    }

    /// Reports the clusters that the Sync has left, and notes that: a process that is killed before reports them again.
    fn report_left(
        &self,
        valid_sync: &ValidSync,
        state: &mut SyncState<'_>,
    ) -> Result<(), crate::state::Error> {
        let clusters = state.record.status.managed_scope.iter().flat_map(|known| &known.clusters);
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
            hub.report_event(valid_sync, EventType::Warning, "ClusterLeft", &message, None);
        }
        if let Some(scope) = &mut state.record.status.managed_scope {
            scope.note_reported();
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
        Ok(first @ (Wake::Reconciliation | Wake::Comparison)) => {
            let why = gather_wakes(wakes, first);
            // In a busy fleet, changes go on and on: they do not put off what is due.
            let is_due = why == Wake::Comparison && until.is_some_and(|until| until <= Instant::now());
            (!is_due).then_some(why)
        }
    }
}

/// Waits until nothing more happens for a moment.
fn gather_wakes(wakes: &WakeReceiver, mut why: Wake) -> Wake {
    let first = Instant::now();
    loop {
        let (quiet, max_wait) = if why == Wake::Reconciliation {
            (DEBOUNCE, MAX_DEBOUNCE)
        } else {
            (COMPARISON_DELAY, COMPARISON_DELAY)
        };
        let left = max_wait.saturating_sub(first.elapsed());
        if left.is_zero() {
            return why;
        }
        match wakes.receive_within(quiet.min(left)) {
            Ok(Wake::Comparison) => {}
            Ok(Wake::Reconciliation) => why = Wake::Reconciliation,
            Err(RecvTimeoutError::Timeout) => return why,
            Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => return Wake::End,
        }
    }
}

/// Whether clusters stay as they are between reconciliations: a Sync that is being deleted must not put back what it has
/// deleted.
fn is_paused(valid_sync: &ValidSync) -> bool {
    valid_sync.object.spec.suspend || valid_sync.object.is_deleting()
}

/// How long until the next reconciliation; `None` if only a change of the Sync begins it. A reconciliation that failed is
/// retried soon, and then less and less often, up to the interval. A stalled Sync waits for a new revision.
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
    use crate::sync_registry::wake_channel;

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
        waker.send(Wake::Comparison);
        assert_eq!(wait_for_wake(&wakes, Some(now + Duration::from_hours(1))), Some(Wake::Comparison));
        waker.send(Wake::Comparison);
        assert_eq!(wait_for_wake(&wakes, Some(now)), None, "it is time");
        waker.send(Wake::Comparison);
        waker.send(Wake::Reconciliation);
        assert_eq!(
            wait_for_wake(&wakes, Some(now)),
            Some(Wake::Reconciliation),
            "one that is asked for begins"
        );
    }

    #[test]
    fn pauses_differ_by_a_tenth_at_most() {
        for _ in 0..100 {
            let pause = add_jitter(Duration::from_secs(100));
            assert!((100..=110).contains(&pause.as_secs()), "{pause:?}");
        }
    }
}
