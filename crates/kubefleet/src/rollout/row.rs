//! A placement's row for one cluster (a binding) as a rollout sees it.
//!
//! Facts: only conditions of the row's generation count. What cannot tell whether it is available counts
//! as ready after a while.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use federate_kubernetes::ClusterName;
use federate_kubernetes::selector::null_default;

/// What has been decided about a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum State {
    /// Picked, but nothing is released to it yet.
    #[default]
    Scheduled,
    /// Resources are released to it.
    Bound,
    /// No longer picked.
    Unscheduled,
}

/// Which resources a cluster is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resources {
    /// The newest.
    Latest,
    /// Earlier ones, or none.
    #[default]
    Old,
}

/// A row.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its cluster.
    pub cluster: ClusterName,
    /// What has been decided.
    pub state: State,
    /// Which resources the cluster is to have.
    #[serde(default)]
    pub resources: Resources,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// Its generation.
    #[serde(default)]
    pub generation: i64,
    /// What is reported of it.
    #[serde(default, deserialize_with = "null_default")]
    pub conditions: Vec<Condition>,
}

/// What is reported of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The generation it is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
}

/// Whether a row is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// It is not, and when it will be is not known.
    NotReady,
    /// It is in so long.
    In(SignedDuration),
}

/// Whether one of a row's conditions, asked for by type, has a status and reason that waiting does not mend.
pub(crate) fn failed<'c>(condition: impl Fn(&'static str) -> Option<(&'c str, &'c str)>) -> bool {
    const PENDING: [&str; 4] =
        ["OverriddenPending", "WorkNotSynchronizedYet", "ApplyPending", "ResourceNotAvailableYet"];
    let stages = ["Overridden", "WorkSynchronized", "Applied", "Available"];
    stages
        .into_iter()
        .filter_map(condition)
        .any(|(status, reason)| status == "False" && !PENDING.contains(&reason))
}

impl Row {
    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.kind == kind && c.observed_generation == self.generation)
    }

    /// Whether the cluster reports differences instead of applying.
    pub(super) fn reports_diff(&self) -> bool {
        self.condition("DiffReported").is_some()
    }

    /// Whether something went wrong that waiting does not mend.
    pub(super) fn failed(&self) -> bool {
        failed(|kind| self.condition(kind).map(|c| (&*c.status, &*c.reason)))
    }

    /// Whether it is ready; what became available without being able to tell has to be older than
    /// `cutoff`.
    pub(super) fn readiness(&self, cutoff: Timestamp) -> Readiness {
        if self.condition("DiffReported").is_some_and(|c| c.status == "True") {
            return Readiness::Ready;
        }
        let Some(available) = self.condition("Available").filter(|c| c.status == "True") else {
            return Readiness::NotReady;
        };
        if !matches!(available.reason.as_str(), "NotAllWorkAreAvailabilityTrackable" | "WorkNotTrackable") {
            return Readiness::Ready;
        }
        match available.last_transition_time {
            Some(since) if since >= cutoff => Readiness::In(since.duration_since(cutoff)),
            _ => Readiness::Ready,
        }
    }
}
