//! The metrics for Prometheus: how rounds end and how long they take, comparisons and fights, and clusters by state.
//!
//! Facts: the naming conventions of Prometheus; its text format is written by `prometheus-client`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use federate_live::ServerRole;
use federate_sync_api::status::SyncStatus;

use crate::counters::MetricCounters;
use crate::reconciliation::SyncOutcome;

type Labels = Vec<(&'static str, String)>;
type Seconds = Gauge<f64, AtomicU64>;

/// The metrics of all Syncs, and whether each has been through a round.
pub(crate) struct Metrics {
    registry: Registry,
    rounds: Family<Labels, Counter>,
    duration: Family<Labels, Histogram, fn() -> Histogram>,
    ready: Family<Labels, Gauge>,
    succeeded: Family<Labels, Seconds>,
    clusters: Family<Labels, Gauge>,
    unschedulable: Family<Labels, Gauge>,
    moved: Family<Labels, Gauge>,
    orphans: Family<Labels, Gauge>,
    comparisons: Family<Labels, Counter>,
    fights: Family<Labels, Counter>,
    answers: Family<Labels, Counter>,
    git: Family<Labels, Counter>,
    drift: Family<Labels, Counter>,
    revision: Family<Labels, Gauge>,
    queue: Family<Labels, Gauge>,
    leader: Gauge,
    /// By Sync: the revision that is shown.
    revisions: Mutex<BTreeMap<String, String>>,
    /// By Sync: whether a round of it has ended.
    seen: Mutex<BTreeMap<String, bool>>,
}

fn new_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 4.0, 9))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("federate_sync"),
            rounds: Family::default(),
            duration: Family::new_with_constructor(new_histogram),
            ready: Family::default(),
            succeeded: Family::default(),
            clusters: Family::default(),
            unschedulable: Family::default(),
            moved: Family::default(),
            orphans: Family::default(),
            comparisons: Family::default(),
            fights: Family::default(),
            answers: Family::default(),
            git: Family::default(),
            drift: Family::default(),
            revision: Family::default(),
            queue: Family::default(),
            leader: Gauge::default(),
            revisions: Mutex::default(),
            seen: Mutex::default(),
        };
        metrics.register_all();
        metrics
    }
}

impl Metrics {
    fn register_all(&mut self) {
        let Self { registry, rounds, duration, ready, succeeded, clusters, unschedulable, .. } = self;
        registry.register("rounds", "Rounds by the reason that they ended with", rounds.clone());
        registry.register_with_unit(
            "round_duration",
            "How long rounds take",
            Unit::Seconds,
            duration.clone(),
        );
        registry.register("ready", "Whether the last round succeeded", ready.clone());
        registry.register_with_unit(
            "last_success_timestamp",
            "When the last round that succeeded ended",
            Unit::Seconds,
            succeeded.clone(),
        );
        registry.register("clusters", "Clusters by state", clusters.clone());
        registry.register("unschedulable_objects", "Objects that could not be placed", unschedulable.clone());
        let moved = "Replicas that the last round which carried something out has moved to other clusters";
        registry.register("replicas_moved", moved, self.moved.clone());
        let orphans = "What is left behind in clusters: objects that are no longer rendered and stay, and ApplySets \
                       that are no longer applied";
        registry.register("orphans", orphans, self.orphans.clone());
        let comparisons = "Comparisons of clusters because the watch has seen a change";
        registry.register("comparisons", comparisons, self.comparisons.clone());
        let fights = "Objects that another client changes again each time that they are put back";
        registry.register("fights", fights, self.fights.clone());
        let answers = "Answers of the hub and of member clusters by status code; 0 where there was none";
        registry.register("api_requests", answers, self.answers.clone());
        registry.register("git_operations", "Git commands that talk to a remote", self.git.clone());
        let drift = "Objects that differ from what is rendered, by kind, each time that they are compared";
        registry.register("drifted_objects", drift, self.drift.clone());
        let revision = "The revision that branches and clusters are at";
        registry.register("revision_info", revision, self.revision.clone());
        let queue = "Clusters that wait for their next attempt";
        registry.register("queue_depth", queue, self.queue.clone());
        registry.register("leader", "Whether this process leads, or works alone", self.leader.clone());
    }

    /// Whether this process leads.
    pub(crate) fn set_leading(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// So many clusters wait for their next attempt.
    pub(crate) fn set_queue_depth(&self, name: &str, clusters: usize) {
        let labels = vec![("sync", name.to_owned())];
        self.queue.get_or_create(&labels).set(i64::try_from(clusters).unwrap_or(i64::MAX));
    }

    /// Adds what was counted.
    pub(crate) fn add_counts(&self, tally: &MetricCounters) {
        let (counts, answers) = tally.take_counts();
        for ((server, code), number) in answers {
            let server = match server {
                ServerRole::Hub => "hub",
                ServerRole::Member => "member",
            };
            let labels = vec![("server", server.to_owned()), ("code", code.to_string())];
            self.answers.get_or_create(&labels).inc_by(number);
        }
        for (operation, number) in counts.git {
            self.git.get_or_create(&vec![("operation", operation)]).inc_by(number);
        }
        for ((sync, kind), number) in counts.drift {
            self.drift.get_or_create(&vec![("sync", sync), ("kind", kind.to_owned())]).inc_by(number);
        }
    }

    /// Shows a revision of a Sync in place of the one before.
    fn set_revision(&self, name: &str, revision: &str) {
        let labels = |revision: &str| vec![("sync", name.to_owned()), ("revision", revision.to_owned())];
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(former) = revisions.insert(name.to_owned(), revision.to_owned()) {
            self.revision.remove(&labels(&former));
        }
        self.revision.get_or_create(&labels(revision)).set(1);
    }

    /// These Syncs are run from now on, and no others.
    pub(crate) fn expect_syncs(&self, names: impl Iterator<Item = String>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::take(&mut *seen);
        seen.extend(names.map(|name| (name.clone(), former.get(&name).copied().unwrap_or(false))));
    }

    /// A round has ended; `None` where the Sync is suspended.
    pub(crate) fn observe_round(
        &self,
        name: &str,
        outcome: Option<&SyncOutcome>,
        status: Option<&SyncStatus>,
        took: Duration,
    ) {
        if let Some(seen) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get_mut(name) {
            *seen = true;
        }
        let Some(outcome) = outcome else { return };
        let own = || vec![("sync", name.to_owned())];
        let with = |key, value: &str| vec![("sync", name.to_owned()), (key, value.to_owned())];
        self.rounds.get_or_create(&with("reason", outcome.reason.name())).inc();
        self.duration.get_or_create(&own()).observe(took.as_secs_f64());
        self.ready.get_or_create(&own()).set(i64::from(outcome.is_ready()));
        if outcome.is_ready() {
            self.succeeded.get_or_create(&own()).set(Timestamp::now().as_duration().as_secs_f64());
        }
        if let Some(status) = status {
            self.set_states(name, status);
        }
    }

    /// A cluster was compared because the watch has seen a change in it.
    pub(crate) fn count_comparison(&self, name: &str, cluster: &str) {
        let labels = vec![("sync", name.to_owned()), ("cluster", cluster.to_owned())];
        self.comparisons.get_or_create(&labels).inc();
    }

    /// A fight about an object of a cluster was noticed.
    pub(crate) fn count_contention(&self, name: &str, cluster: &str) {
        let labels = vec![("sync", name.to_owned()), ("cluster", cluster.to_owned())];
        self.fights.get_or_create(&labels).inc();
    }

    /// The states of clusters and objects have changed.
    pub(crate) fn set_states(&self, name: &str, status: &SyncStatus) {
        let own = || vec![("sync", name.to_owned())];
        let with = |key, value: &str| vec![("sync", name.to_owned()), (key, value.to_owned())];
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.unschedulable.get_or_create(&own()).set(gauge(status.unschedulable));
        if let Some(revision) = &status.last_applied_revision {
            self.set_revision(name, revision);
        }
        self.moved.get_or_create(&own()).set(gauge(status.replicas_moved));
        let orphans = &status.orphans;
        let counts = [
            ("object", orphans.objects),
            ("applySet", orphans.apply_sets),
            ("cluster", orphans.clusters.len()),
        ];
        for (kind, count) in counts {
            self.orphans.get_or_create(&with("kind", kind)).set(gauge(count));
        }
        if let Some(counts) = status.clusters {
            for (state, count) in counts.state_counts() {
                self.clusters.get_or_create(&with("state", state)).set(gauge(count));
            }
        }
    }

    /// The Syncs of which no round has ended yet.
    pub(crate) fn unseen_syncs(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|(_, seen)| !**seen).map(|(name, _)| name.clone()).collect()
    }

    /// The Syncs that are run.
    pub(crate) fn sync_names(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// All of it, in the text format.
    pub(crate) fn encode_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use federate_engine::actions::{Action, ActionKind};
    use federate_kubernetes::ObjectRef;

    use super::*;

    fn changed() -> Action {
        Action {
            cluster: "m1".into(),
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                namespace: None,
                name: "a".into(),
            },
            action: ActionKind::Update,
            restarts_pods: false,
            diffs: Vec::new(),
            reason: None,
            outcome: federate_engine::actions::ActionOutcome::Planned,
            error: None,
            unhealthy: false,
            result: None,
        }
    }

    #[test]
    fn alerts_and_dashboard_are_about_metrics_that_exist() {
        let metrics = Metrics::default();
        metrics.expect_syncs(std::iter::once("a/b".to_owned()));
        let clusters = Some(federate_sync_api::status::ClusterCounts::default());
        let status = SyncStatus { clusters, ..SyncStatus::default() };
        metrics.observe_round(
            "a/b",
            Some(&SyncOutcome::for_success("")),
            Some(&status),
            Duration::from_secs(1),
        );
        metrics.count_comparison("a/b", "m1");
        metrics.count_contention("a/b", "m1");
        metrics.set_queue_depth("a/b", 1);
        let tally = MetricCounters::default();
        tally.count_git_command("fetch");
        tally.answers().count_answer(ServerRole::Hub, Some(http::StatusCode::OK));
        tally.count_drift("a/b", &changed());
        metrics.add_counts(&tally);
        let text = metrics.encode_text();
        let read = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/sync/");
            std::fs::read_to_string(format!("{folder}{name}")).unwrap()
        };
        let rules = read("alerts.yaml") + &read("dashboard.json");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names: Vec<&str> =
            rules.split(|c| !is_name(c)).filter(|word| word.starts_with("federate_")).collect();
        assert!(names.len() > 3);
        assert!(text.contains("federate_sync_api_requests_total{server=\"hub\",code=\"200\"} 1"), "{text}");
        for name in names {
            assert!(text.contains(&format!("{name}{{")), "there is no {name} in {text}");
        }
    }
}
