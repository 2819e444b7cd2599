//! The status of a `Sync`: conditions, revisions and counts, for kstatus and for people.
//!
//! Facts: the API conventions of Kubernetes (conditions), kstatus (`Ready`; `Reconciling` and `Stalled` only while
//! they are true), the reasons of Flux's `GitRepository` and `Kustomization`, the cluster states of Rancher Fleet.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::managed_scope::ManagedScope;

/// Reconciliations that the history keeps.
const MAX_HISTORY_ENTRIES: usize = 10;
/// Revisions that were carried out, and stay in the history although reconciliations after them fail.
const MIN_SUCCEEDED_REVISIONS: usize = 3;
/// Failing clusters that are shown with their messages.
pub const MAX_FAILING_CLUSTERS: usize = 5;

/// The status of a `Sync`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncStatus {
    /// The generation of the spec that was read.
    pub observed_generation: i64,
    /// `Ready`, `Reconciling`, `Stalled`.
    pub conditions: Vec<SyncCondition>,
    /// The revision that was attempted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// The revision that branches and clusters are at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// The last value of the annotation `federate.dev/requestedAt` that a round has followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The revision that the attempted one does not build on, where the source's branch was rewritten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<String>,
    /// The branches that were committed to, and the commits that they are at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<BranchStatus>,
    /// The plan that was pushed to a registry, with the artifacts of clusters beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactStatus>,
    /// How many clusters are in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterCounts>,
    /// The rollout that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// The first clusters that fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<FailingCluster>,
    /// What drifted in clusters and is left so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// The maintenance windows, if the Sync has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowStatus>,
    /// How many objects could not be placed.
    pub unschedulable: usize,
    /// How many replicas the last revision, or the last status of clusters, that was carried out has moved from clusters
    /// to others.
    pub replicas_moved: usize,
    /// What is left behind in clusters.
    #[serde(skip_serializing_if = "OrphanCounts::is_empty")]
    pub orphans: OrphanCounts,
    /// The clusters in which the Sync manages objects. Deletion goes by it.
    #[serde(rename = "inventory", skip_serializing_if = "Option::is_none")]
    pub managed_scope: Option<ManagedScope>,
    /// The last rounds that did something, the latest first, with the last three revisions that were carried out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
}

/// A condition, as every Kubernetes API has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncCondition {
    /// `Ready`, `Reconciling` or `Stalled`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, in one word.
    pub reason: String,
    /// The message.
    pub message: String,
    /// When `status` changed last.
    #[schemars(with = "String")]
    pub last_transition_time: Timestamp,
    /// The generation of the spec that was read.
    pub observed_generation: i64,
}

/// A branch that was committed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BranchStatus {
    /// The branch.
    pub branch: String,
    /// The commit that it is at.
    pub commit: String,
}

/// An artifact that was pushed to a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactStatus {
    /// The artifact with its tag.
    pub url: String,
    /// The digest of its manifest.
    pub digest: String,
}

/// What is left behind in clusters, all clusters together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OrphanCounts {
    /// Objects of the Sync that are no longer rendered, and stay.
    pub objects: usize,
    /// Other `ApplySet`s of the same folder of the repository, which are no longer applied.
    pub apply_sets: usize,
    /// The clusters that have left the inventory, or `spec.clusters`, while they have objects of the Sync.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
}

impl OrphanCounts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How many clusters are in which state; the names are those of Rancher Fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCounts {
    /// Everything is as rendered.
    pub ready: usize,
    /// Something was changed in the cluster.
    pub modified: usize,
    /// Something differs from what is rendered, and is left so.
    pub out_of_sync: usize,
    /// Everything was applied, but something is not healthy, or not yet. This is looked at where a round waits for
    /// health (`apply.wait`), and in rollouts.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_ready: usize,
    /// Something could not be applied.
    pub err_applied: usize,
    /// A rollout is updating the cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_applied: usize,
    /// A rollout has not reached the cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: usize,
}

/// The state of a cluster, as [`ClusterCounts`] counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedState {
    /// `ready`
    #[default]
    Ready,
    /// `notReady`
    NotReady,
    /// `modified`
    Modified,
    /// `outOfSync`
    OutOfSync,
    /// `errApplied`
    ErrApplied,
    /// `waitApplied`
    WaitApplied,
    /// `pending`
    Pending,
}

impl CountedState {
    /// All states, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Ready,
        Self::NotReady,
        Self::Modified,
        Self::OutOfSync,
        Self::ErrApplied,
        Self::WaitApplied,
        Self::Pending,
    ];

    /// The name of the state: the field of [`ClusterCounts`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "notReady",
            Self::Modified => "modified",
            Self::OutOfSync => "outOfSync",
            Self::ErrApplied => "errApplied",
            Self::WaitApplied => "waitApplied",
            Self::Pending => "pending",
        }
    }
}

impl ClusterCounts {
    /// The counts of so many clusters that are all ready.
    pub fn all_ready(total: usize) -> Self {
        Self { ready: total, ..Self::default() }
    }

    /// Counts as many clusters as before by these states, of those that are not ready.
    pub fn recount(&mut self, not_ready: impl ExactSizeIterator<Item = CountedState>) {
        *self = Self::all_ready(self.total().saturating_sub(not_ready.len()));
        for state in not_ready {
            *self.count_mut(state) += 1;
        }
    }

    /// The number of clusters in all states together.
    pub fn total(self) -> usize {
        CountedState::ALL.map(|state| self.count(state)).iter().sum()
    }

    /// How many clusters are in a state.
    pub fn count(mut self, state: CountedState) -> usize {
        *self.count_mut(state)
    }

    fn count_mut(&mut self, state: CountedState) -> &mut usize {
        match state {
            CountedState::Ready => &mut self.ready,
            CountedState::NotReady => &mut self.not_ready,
            CountedState::Modified => &mut self.modified,
            CountedState::OutOfSync => &mut self.out_of_sync,
            CountedState::ErrApplied => &mut self.err_applied,
            CountedState::WaitApplied => &mut self.wait_applied,
            CountedState::Pending => &mut self.pending,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// The revision that is rolled out: a commit, or a tag object.
    pub revision: String,
    /// The object of the repo that asks for it, if the Sync does not: an update run, or a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The stage that it is at.
    pub stage: String,
    /// How many clusters are at the revision.
    pub updated: usize,
    /// The value of `federate.dev/approve` that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
}

/// What drifted in clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftStatus {
    /// How many objects.
    pub objects: usize,
    /// In how many clusters.
    pub clusters: usize,
    /// The first of them, with its fields, who changed them, and its cluster.
    pub first: String,
    /// When it was changed last, if its managed fields say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// Whether the Sync may change clusters now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowStatus {
    /// Whether a window is open.
    pub open: bool,
    /// When it closes, if that is within the next weeks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub closes: Option<Timestamp>,
    /// When the next one opens, while none is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub opens: Option<Timestamp>,
    /// The revision that waits for a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}

/// A cluster that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailingCluster {
    /// Its name.
    pub name: String,
    /// The message.
    pub message: String,
}

/// A round that did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// When it ended.
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// The revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The reason of `Ready`.
    pub reason: String,
    /// The message of `Ready`.
    pub message: String,
}

/// Why a reconciliation ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncReason {
    /// Everything is as rendered.
    ReconciliationSucceeded,
    /// Something could not be committed or applied; it is retried.
    ReconciliationFailed,
    /// The source cannot be reached or read; it is retried.
    GitOperationFailed,
    /// The registry cannot be reached, or does not take artifacts; it is retried.
    PushFailed,
    /// The registry does not accept the credentials, or there are none; it is retried.
    AuthenticationFailed,
    /// The revision has no valid signature.
    VerificationError,
    /// The repo has errors.
    BuildFailed,
    /// More would be deleted than `pruneLimit` allows.
    PruneFailed,
    /// The state folder, or the memory on the hub, cannot be used.
    StateFailed,
    /// The spec is invalid.
    InvalidSpec,
    /// A Sync that this one depends on is not ready.
    DependencyNotReady,
    /// A reconciliation or a rollout is under way.
    Progressing,
    /// A cluster failed during a rollout.
    RolloutHalted,
    /// A rollout was aborted.
    RolloutAborted,
}

impl SyncReason {
    /// The word in conditions.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReconciliationSucceeded => "ReconciliationSucceeded",
            Self::ReconciliationFailed => "ReconciliationFailed",
            Self::GitOperationFailed => "GitOperationFailed",
            Self::PushFailed => "PushFailed",
            Self::AuthenticationFailed => "AuthenticationFailed",
            Self::VerificationError => "VerificationError",
            Self::BuildFailed => "BuildFailed",
            Self::PruneFailed => "PruneFailed",
            Self::StateFailed => "StateFailed",
            Self::InvalidSpec => "InvalidSpec",
            Self::DependencyNotReady => "DependencyNotReady",
            Self::Progressing => "Progressing",
            Self::RolloutHalted => "RolloutHalted",
            Self::RolloutAborted => "RolloutAborted",
        }
    }

    /// Whether only a new revision or another spec helps.
    pub fn is_stalled(self) -> bool {
        matches!(
            self,
            Self::VerificationError
                | Self::BuildFailed
                | Self::PruneFailed
                | Self::StateFailed
                | Self::InvalidSpec
                | Self::RolloutAborted
        )
    }
}

/// The part of a revision, such as `main@sha1:…`, that names the commit.
pub fn find_commit(revision: &str) -> &str {
    revision.rsplit(':').next().unwrap_or(revision)
}

impl SyncStatus {
    /// Reads the status of an object; what is no status is an empty one.
    pub fn parse(status: &Value) -> Self {
        Self::deserialize(status).unwrap_or_default()
    }

    /// The status as JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Notes that a revision is being carried out.
    pub fn set_progressing(&mut self, message: &str, now: Timestamp) {
        self.set_condition("Ready", "Unknown", SyncReason::Progressing, message, now);
        self.set_condition("Reconciling", "True", SyncReason::Progressing, message, now);
    }

    /// Notes how a reconciliation has ended: a revision may still be under way.
    pub fn set_outcome(&mut self, reason: SyncReason, message: &str, now: Timestamp) {
        if reason == SyncReason::Progressing {
            self.remove_condition("Stalled");
            return self.set_progressing(message, now);
        }
        let ready = reason == SyncReason::ReconciliationSucceeded;
        self.set_condition("Ready", if ready { "True" } else { "False" }, reason, message, now);
        self.remove_condition("Reconciling");
        if reason.is_stalled() {
            self.set_condition("Stalled", "True", reason, message, now);
        } else {
            self.remove_condition("Stalled");
        }
    }

    /// Adds an entry to the history, unless it equals the latest one.
    pub fn record_history(&mut self, reason: SyncReason, message: &str, now: Timestamp) {
        if reason == SyncReason::Progressing {
            return;
        }
        let entry = HistoryEntry {
            time: now,
            revision: self.last_attempted_revision.clone(),
            reason: reason.name().to_owned(),
            message: message.to_owned(),
        };
        let same = self.history.first().filter(|last| {
            (&last.revision, &last.reason, &last.message) == (&entry.revision, &entry.reason, &entry.message)
        });
        if same.is_none() {
            self.history.insert(0, entry);
            self.shorten_history();
        }
    }

    /// Removes the oldest reconciliations, but not the last ones that carried different revisions out: people return to them.
    fn shorten_history(&mut self) {
        let mut succeeded: Vec<&str> = Vec::new();
        let mut kept = Vec::new();
        for entry in &self.history {
            let revision = entry.revision.as_deref().unwrap_or_default();
            let is_success = entry.reason == SyncReason::ReconciliationSucceeded.name();
            let is_new =
                is_success && !succeeded.contains(&revision) && succeeded.len() < MIN_SUCCEEDED_REVISIONS;
            if is_new {
                succeeded.push(revision);
            }
            kept.push(is_new);
        }
        while self.history.len() > MAX_HISTORY_ENTRIES
            && let Some(oldest) = kept.iter().rposition(|is_kept| !is_kept)
        {
            self.history.remove(oldest);
            kept.remove(oldest);
        }
    }

    /// A condition.
    pub fn find_condition(&self, name: &str) -> Option<&SyncCondition> {
        self.conditions.iter().find(|condition| condition.r#type == name)
    }

    /// Whether the Sync is ready.
    pub fn is_ready(&self) -> bool {
        self.find_condition("Ready").is_some_and(|ready| ready.status == "True")
    }

    fn remove_condition(&mut self, name: &str) {
        self.conditions.retain(|condition| condition.r#type != name);
    }

    fn set_condition(&mut self, name: &str, status: &str, reason: SyncReason, message: &str, now: Timestamp) {
        let observed_generation = self.observed_generation;
        let since =
            self.find_condition(name).filter(|c| c.status == status).map_or(now, |c| c.last_transition_time);
        let condition = SyncCondition {
            r#type: name.to_owned(),
            status: status.to_owned(),
            reason: reason.name().to_owned(),
            message: message.to_owned(),
            last_transition_time: since,
            observed_generation,
        };
        match self.conditions.iter_mut().find(|condition| condition.r#type == name) {
            Some(there) => *there = condition,
            None => self.conditions.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn conditions_exist_only_while_they_are_true_and_keep_their_time() {
        let mut status = SyncStatus::default();
        status.set_progressing("reading", at(1));
        assert_eq!(status.find_condition("Reconciling").unwrap().status, "True");
        status.set_outcome(SyncReason::BuildFailed, "web.yaml:3: no", at(2));
        let names: Vec<&str> = status.conditions.iter().map(|c| &*c.r#type).collect();
        assert_eq!(names, ["Ready", "Stalled"]);
        status.set_progressing("reading", at(3));
        status.set_outcome(SyncReason::BuildFailed, "web.yaml:4: no", at(4));
        let stalled = status.find_condition("Stalled").unwrap();
        assert_eq!((stalled.last_transition_time, &*stalled.message), (at(2), "web.yaml:4: no"));
        status.set_outcome(SyncReason::ReconciliationSucceeded, "applied", at(5));
        assert!(status.is_ready() && status.find_condition("Stalled").is_none());
    }

    #[test]
    fn the_history_is_bounded_and_does_not_repeat() {
        let mut status = SyncStatus::default();
        for second in 0..30 {
            status.record_history(
                SyncReason::GitOperationFailed,
                &format!("attempt {}", second / 2),
                at(second),
            );
        }
        assert_eq!(status.history.len(), MAX_HISTORY_ENTRIES);
        assert_eq!(status.history[0].message, "attempt 14");
        assert_eq!(status.history[1].message, "attempt 13");
    }

    #[test]
    fn failures_do_not_push_the_revisions_out_that_people_return_to() {
        let mut status = SyncStatus::default();
        for revision in 1..=5 {
            status.last_attempted_revision = Some(format!("main@sha1:{revision}"));
            for _ in 0..2 {
                status.record_history(SyncReason::ReconciliationSucceeded, "applied", at(revision));
                status.record_history(SyncReason::GitOperationFailed, "away", at(revision));
            }
        }
        for second in 10..40 {
            let attempt = format!("attempt {second}");
            status.record_history(SyncReason::GitOperationFailed, &attempt, at(second));
        }
        assert_eq!(status.history.len(), MAX_HISTORY_ENTRIES);
        let succeeded = status.history.iter().filter(|entry| entry.reason == "ReconciliationSucceeded");
        let revisions: Vec<&str> = succeeded.filter_map(|entry| entry.revision.as_deref()).collect();
        assert_eq!(revisions, ["main@sha1:5", "main@sha1:4", "main@sha1:3"]);
        assert_eq!(status.history[0].message, "attempt 39");
    }
}
