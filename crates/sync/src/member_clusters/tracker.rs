//! What a Sync knows of its clusters from one reconciliation to the next: which of them fail, and when each is tried again;
//! which of them drifted; which objects another client contends. A cluster that fails is retried on its own and delays no
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_kubernetes::ObjectRef;
pub(crate) use federate_kubernetes::finding::format_count;
use federate_reconcile::{Action, ActionKind, Orphans};
use federate_sync_api::SyncSpec;
use federate_sync_api::status::{CountedState, DriftStatus, OrphanCounts, SyncReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::member_clusters::contention::ContentionTracker;
use crate::outcome::ReconcileError;

/// What a Sync knows of its clusters.
#[derive(Debug, Default)]
pub(crate) struct ClusterTracker {
    failing: BTreeMap<String, ClusterFailure>,
    /// The clusters that drifted.
    drifted: BTreeMap<String, ClusterDrift>,
    /// The objects that were put back lately.
    pub(crate) contentions: ContentionTracker,
    /// When clusters were last compared with what is rendered.
    compared: Option<Instant>,
    /// The clusters that were as they are rendered when everything in them was compared, and are watched since.
    clean: BTreeSet<String>,
    /// Whether it is time to find out what watches have missed.
    relist_due: bool,
    /// What is left behind in clusters.
    orphans: BTreeMap<String, Orphans>,
}

/// What drifted in a cluster and is left so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterDrift {
    /// How many objects.
    pub(crate) objects: usize,
    /// The first of them, with its fields and who changed them.
    pub(crate) first: String,
    /// When that was, as far as it is known.
    #[serde(default)]
    pub(crate) changed: Option<String>,
    /// The first objects, for the page of the loop. They are not kept when the process ends.
    #[serde(skip)]
    pub(crate) shown: Vec<DriftedObject>,
}

/// An object that drifted, without the values of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DriftedObject {
    /// The object.
    object: ObjectRef,
    /// What would put it back: `create`, `update` or `delete`; or why it stays: `conflict`, `skip`.
    action: ActionKind,
    /// Whether that restarts its pods.
    restarts_pods: bool,
    /// The first fields that differ.
    fields: Vec<DriftedField>,
    /// Why it is left as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A field that drifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DriftedField {
    /// The field.
    path: String,
    /// The manager that wrote it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    manager: Option<String>,
    /// The time of that write, in RFC 3339 notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

/// How many objects of a cluster, and fields of an object, the page of the loop has.
const MAX_SHOWN_OBJECTS: usize = 20;

impl DriftedObject {
    /// The first of what is left as it is in a cluster.
    pub(crate) fn first_of(left: &[&Action]) -> Vec<Self> {
        left.iter().take(MAX_SHOWN_OBJECTS).map(|action| Self::from_action(action)).collect()
    }

    fn from_action(action: &Action) -> Self {
        let fields = action.diffs.iter().take(MAX_SHOWN_OBJECTS).map(|diff| DriftedField {
            path: diff.path.clone(),
            manager: diff.manager.clone(),
            time: diff.time.clone(),
        });
        Self {
            object: action.object.clone(),
            action: action.action,
            restarts_pods: action.restarts_pods,
            fields: fields.collect(),
            reason: action.reason.clone(),
        }
    }
}

/// A cluster that fails.
#[derive(Debug)]
pub(crate) struct ClusterFailure {
    /// How many attempts in a row have failed.
    pub(crate) failures: u32,
    /// When it is tried again.
    pub(crate) due: Instant,
    /// Why the last attempt failed.
    pub(crate) cause: FailureCause,
}

/// Why a cluster fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailureCause {
    /// How it fails.
    pub(crate) kind: FailureKind,
    /// The message of the first failure.
    pub(crate) message: String,
}

/// How a cluster fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FailureKind {
    /// It cannot be reached.
    Unreachable,
    /// Something failed.
    Failed,
    /// Something was skipped.
    Skipped,
    /// Everything was applied, but something is not healthy yet.
    Unhealthy,
    /// A hook has not ended yet, and what follows it is not applied before.
    AwaitingHook,
}

impl FailureKind {
    /// The state of the cluster, as the status counts it.
    pub(crate) fn counted_state(self) -> CountedState {
        match self {
            Self::Unreachable | Self::Failed => CountedState::ErrApplied,
            Self::Skipped => CountedState::OutOfSync,
            Self::Unhealthy => CountedState::NotReady,
            Self::AwaitingHook => CountedState::WaitApplied,
        }
    }
}

/// How long failures of a cluster are waited after.
#[derive(Clone, Copy)]
pub(crate) struct RetryPauses {
    /// After the first failure; each further one takes twice as long.
    pub(crate) first: Duration,
    /// At most.
    pub(crate) max: Duration,
}

impl RetryPauses {
    /// Those that a Sync asks for.
    pub(crate) fn from_spec(spec: &SyncSpec) -> Self {
        Self { first: spec.retry_interval(), max: spec.interval.0 }
    }
}

impl ClusterTracker {
    /// Whether a cluster may be tried now.
    pub(crate) fn is_due(&self, cluster: &str, now: Instant) -> bool {
        self.failing.get(cluster).is_none_or(|failing| failing.due <= now)
    }

    /// Notes whether a cluster fails, and when it is retried.
    pub(crate) fn record_attempt(&mut self, cluster: &str, cause: Option<FailureCause>, pauses: RetryPauses) {
        let Some(cause) = cause else { return drop(self.failing.remove(cluster)) };
        self.clean.remove(cluster);
        let failures = self.failing.get(cluster).map_or(0, |failing| failing.failures) + 1;
        let due = Instant::now() + compute_backoff(pauses.first, pauses.max, failures);
        self.failing.insert(cluster.to_owned(), ClusterFailure { failures, due, cause });
    }

    /// Forgets clusters that are no longer in the inventory.
    pub(crate) fn retain_clusters(&mut self, known: &BTreeSet<&str>) {
        self.failing.retain(|cluster, _| known.contains(cluster.as_str()));
        self.drifted.retain(|cluster, _| known.contains(cluster.as_str()));
        self.orphans.retain(|cluster, _| known.contains(cluster.as_str()));
    }

    /// Notes what is left behind in a cluster.
    pub(crate) fn note_orphans(&mut self, cluster: &str, orphans: Orphans) {
        self.orphans.insert(cluster.to_owned(), orphans);
    }

    /// What is left behind in each cluster, as far as that was looked at.
    pub(crate) fn orphans_by_cluster(&self) -> impl Iterator<Item = (&String, Orphans)> {
        self.orphans.iter().map(|(cluster, orphans)| (cluster, *orphans))
    }

    /// Counts what is left behind in all clusters.
    pub(crate) fn count_orphans(&self, counts: &mut OrphanCounts) {
        counts.objects = self.orphans.values().map(|orphans| orphans.objects).sum();
        counts.apply_sets = self.orphans.values().map(|orphans| orphans.apply_sets).sum();
    }

    /// Notes what drifted in a cluster; `None` if nothing did.
    pub(crate) fn note_drift(&mut self, cluster: &str, drifted: Option<ClusterDrift>) {
        match drifted {
            Some(drifted) => {
                self.clean.remove(cluster);
                self.drifted.insert(cluster.to_owned(), drifted);
            }
            None => drop(self.drifted.remove(cluster)),
        }
    }

    /// When the first object that drifted was changed, as far as that is known.
    pub(crate) fn drift_time(&self) -> Option<&str> {
        self.drifted.first_key_value()?.1.changed.as_deref()
    }

    /// All that drifted, in a sentence. It says nothing of time: the same drift has the same sentence.
    pub(crate) fn describe_drift(&self) -> Option<String> {
        let (cluster, ClusterDrift { first, .. }) = self.drifted.first_key_value()?;
        let objects: usize = self.drifted.values().map(|drifted| drifted.objects).sum();
        let (objects, clusters) =
            (format_count(objects, "object"), format_count(self.drifted.len(), "cluster"));
        Some(format!("{objects} in {clusters} drifted: {first} in {cluster}"))
    }

    /// All that drifted, for the status.
    pub(crate) fn summarize_drift(&self) -> Option<DriftStatus> {
        let (cluster, ClusterDrift { first, changed, .. }) = self.drifted.first_key_value()?;
        let objects = self.drifted.values().map(|drifted| drifted.objects).sum();
        let (first, changed) = (format!("{first} in {cluster}"), changed.clone());
        Some(DriftStatus { objects, clusters: self.drifted.len(), first, changed })
    }

    /// What drifted in each cluster that drifted.
    pub(crate) fn drifted_clusters(&self) -> impl Iterator<Item = (&String, &ClusterDrift)> {
        self.drifted.iter()
    }

    /// The clusters that fail.
    pub(crate) fn failing_clusters(&self) -> impl Iterator<Item = (&String, &ClusterFailure)> {
        self.failing.iter()
    }

    /// The clusters that fail, and why.
    pub(crate) fn failure_causes(&self) -> impl Iterator<Item = (&String, &FailureCause)> {
        self.failing.iter().map(|(cluster, failing)| (cluster, &failing.cause))
    }

    /// When the next cluster is due; `None` if none fails.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.failing.values().map(|failing| failing.due).min()
    }

    /// Whether a cluster was due before a time and was not tried, and when the next one is due after it.
    pub(crate) fn due_after(&self, time: Instant) -> (bool, Option<Instant>) {
        let (later, missed): (Vec<_>, Vec<_>) =
            self.failing.values().map(|one| one.due).partition(|due| *due > time);
        (!missed.is_empty(), later.into_iter().min())
    }

    /// The clusters that fail and were due at a time.
    pub(crate) fn due_clusters(&self, time: Instant) -> BTreeSet<String> {
        let due = self.failing.iter().filter(|(_, failing)| failing.due <= time);
        due.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// Returns an error if a cluster fails.
    pub(crate) fn check_failures(&self) -> Result<(), ReconcileError> {
        let Some((cluster, ClusterFailure { cause, .. })) = self.failing.first_key_value() else {
            return Ok(());
        };
        let more = match self.failing.len() - 1 {
            0 => String::new(),
            more => format!(" (and {} more)", format_count(more, "cluster")),
        };
        let message = format!("{cluster}: {}{more}", cause.message);
        Err(ReconcileError::new(SyncReason::ReconciliationFailed, message))
    }

    /// Why a cluster fails.
    pub(crate) fn find_cause(&self, cluster: &str) -> Option<&FailureCause> {
        self.failing.get(cluster).map(|failing| &failing.cause)
    }

    /// Whether everything was applied to a cluster, but something is not healthy yet.
    pub(crate) fn is_unhealthy(&self, cluster: &str) -> bool {
        self.find_cause(cluster).is_some_and(|cause| cause.kind == FailureKind::Unhealthy)
    }

    /// Why a cluster fails, and what drifted in it.
    pub(crate) fn known_problems(&self, cluster: &str) -> (Option<FailureCause>, Option<ClusterDrift>) {
        (self.find_cause(cluster).cloned(), self.drifted.get(cluster).cloned())
    }

    /// Notes that a cluster can be reached again.
    pub(crate) fn clear_unreachable(&mut self, cluster: &str) {
        if self.find_cause(cluster).is_some_and(|cause| cause.kind == FailureKind::Unreachable) {
            self.failing.remove(cluster);
        }
    }

    /// Lets a cluster be tried again at once.
    pub(crate) fn clear_failure(&mut self, cluster: &str) {
        self.failing.remove(cluster);
    }

    /// Lets all clusters be tried again at once.
    pub(crate) fn clear_failures(&mut self) {
        self.failing.clear();
    }

    /// Lets everything in all clusters be compared at once.
    pub(crate) fn forget_comparisons(&mut self) {
        self.clear_failures();
        self.clean.clear();
        self.compared = None;
    }

    /// Notes that everything in a cluster was compared, and nothing was found.
    pub(crate) fn note_clean(&mut self, cluster: &str) {
        if self.known_problems(cluster) == (None, None) {
            self.clean.insert(cluster.to_owned());
        }
    }

    /// Watches begin: what has changed before is not known.
    pub(crate) fn forget_clean(&mut self) {
        self.clean.clear();
    }

    /// Divides clusters into those in which everything is compared at the interval, and those that are watched and had
    /// nothing to report, where it is enough to find out whether they can be reached and what watches have missed.
    pub(crate) fn take_open<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        self.relist_due = true;
        names.map(str::to_owned).partition(|name| !self.clean.contains(name))
    }

    /// Whether it is time to find out what watches have missed; if so, that counts as done.
    pub(crate) fn take_relist_due(&mut self) -> bool {
        std::mem::take(&mut self.relist_due)
    }

    /// Whether clusters are to be compared again; if so, that counts as done.
    pub(crate) fn take_comparison_due(&mut self, interval: Duration) -> bool {
        let due = self.compared.is_none_or(|compared| compared.elapsed() >= interval);
        if due {
            self.compared = Some(Instant::now());
        }
        due
    }
}

/// How long to wait after so many failures in a row.
pub(crate) fn compute_backoff(retry: Duration, max_pause: Duration, failures: u32) -> Duration {
    retry.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(max_pause.max(retry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_a_round_has_missed_are_known() {
        let mut tracker = ClusterTracker::default();
        let begun = Instant::now();
        assert_eq!(tracker.due_after(begun), (false, None));
        let cause = || Some(FailureCause { kind: FailureKind::Failed, message: "no".to_owned() });
        tracker.record_attempt("m1", cause(), RetryPauses { first: Duration::ZERO, max: Duration::ZERO });
        let late = Instant::now() + Duration::from_secs(1);
        assert_eq!(tracker.due_after(late), (true, None), "it was due, and was not tried");
        tracker.record_attempt(
            "m2",
            cause(),
            RetryPauses { first: Duration::from_mins(1), max: Duration::from_mins(1) },
        );
        let (missed, due) = tracker.due_after(late);
        assert!(missed && due.is_some_and(|due| due > late));
        assert!(!tracker.due_after(begun).0);
    }

    #[test]
    fn each_cluster_waits_on_its_own() {
        let mut tracker = ClusterTracker::default();
        let now = Instant::now();
        let cause = || Some(FailureCause { kind: FailureKind::Failed, message: "no".to_owned() });
        let pauses = RetryPauses { first: Duration::from_secs(10), max: Duration::from_mins(1) };
        tracker.record_attempt("m1", cause(), pauses);
        assert!(!tracker.is_due("m1", now) && tracker.is_due("m2", now));
        assert!(tracker.is_due("m1", now + Duration::from_secs(11)));
        tracker.record_attempt("m1", cause(), pauses);
        assert!(!tracker.is_due("m1", now + Duration::from_secs(19)));
        tracker.record_attempt("m1", None, pauses);
        assert!(tracker.is_due("m1", now) && tracker.next_due().is_none());
    }

    #[test]
    fn waits_double_up_to_the_most() {
        let seconds =
            |failures| compute_backoff(Duration::from_secs(10), Duration::from_mins(1), failures).as_secs();
        assert_eq!([1, 2, 3, 4, 99].map(seconds), [10, 20, 40, 60, 60]);
    }
}
