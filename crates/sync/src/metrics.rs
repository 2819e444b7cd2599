//! The metrics for Prometheus: how reconciliations end and how long they take, comparisons and contentions, and clusters by
//! state.
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
use federate_sync_api::status::{CountedState, OrphanCounts, SyncStatus};

use crate::counters::MetricCounters;
use crate::outcome::SyncOutcome;

type Labels = Vec<(&'static str, String)>;
type Seconds = Gauge<f64, AtomicU64>;

/// The metrics of all Syncs, and whether each has been through a reconciliation.
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
    contentions: Family<Labels, Counter>,
    answers: Family<Labels, Counter>,
    git: Family<Labels, Counter>,
    artifacts: Family<Labels, Counter>,
    drift: Family<Labels, Counter>,
    revision: Family<Labels, Gauge>,
    queue: Family<Labels, Gauge>,
    leader: Gauge,
    /// By Sync: the revision that is shown.
    revisions: Mutex<BTreeMap<String, String>>,
    /// The Syncs that exist. Only these have gauges.
    phases: Mutex<BTreeMap<String, SyncPhase>>,
}

/// What is known of a Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncPhase {
    /// No reconciliation of it has ended yet.
    Expected,
    /// A reconciliation of it has ended.
    Seen,
    /// Its spec is invalid, so that it is not run.
    Invalid,
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
            contentions: Family::default(),
            answers: Family::default(),
            git: Family::default(),
            artifacts: Family::default(),
            drift: Family::default(),
            revision: Family::default(),
            queue: Family::default(),
            leader: Gauge::default(),
            revisions: Mutex::default(),
            phases: Mutex::default(),
        };
        metrics.register_all();
        metrics
    }
}

impl SyncPhase {
    /// Whether the Sync is run.
    fn is_run(self) -> bool {
        self != Self::Invalid
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
        let contentions = "Objects that another client changes again each time that they are put back";
        registry.register("fights", contentions, self.contentions.clone());
        let answers = "Answers of the hub and of member clusters by status code; 0 where there was none";
        registry.register("api_requests", answers, self.answers.clone());
        registry.register("git_operations", "Git commands that talk to a remote", self.git.clone());
        let artifacts = "Polls of registries, and pushes that moved a tag";
        registry.register("registry_operations", artifacts, self.artifacts.clone());
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
        self.with_phases(|phases| {
            if phases.get(name).is_some_and(|phase| phase.is_run()) {
                let clusters = i64::try_from(clusters).unwrap_or(i64::MAX);
                self.queue.get_or_create(&label_sync(name)).set(clusters);
            }
        });
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
        for (operation, number) in counts.registry {
            self.artifacts.get_or_create(&vec![("operation", operation.to_owned())]).inc_by(number);
        }
        for ((sync, kind), number) in counts.drift {
            self.drift.get_or_create(&vec![("sync", sync), ("kind", kind.to_owned())]).inc_by(number);
        }
    }

    /// Shows a revision of a Sync in place of the one before.
    fn set_revision(&self, name: &str, revision: &str) {
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(former) = revisions.insert(name.to_owned(), revision.to_owned()) {
            self.revision.remove(&label_sync_with(name, "revision", &former));
        }
        self.revision.get_or_create(&label_sync_with(name, "revision", revision)).set(1);
    }

    fn with_phases<T>(&self, run: impl FnOnce(&mut BTreeMap<String, SyncPhase>) -> T) -> T {
        run(&mut self.phases.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// These Syncs are run from now on, and no others. An invalid one is not ready; nothing else is known of it.
    pub(crate) fn expect_syncs(
        &self,
        names: impl Iterator<Item = String>,
        invalid: impl Iterator<Item = String>,
    ) {
        self.with_phases(|phases| {
            let former = std::mem::take(phases);
            for name in names {
                let known = former.get(&name).filter(|phase| **phase != SyncPhase::Invalid);
                phases.insert(name, known.copied().unwrap_or(SyncPhase::Expected));
            }
            phases.extend(invalid.map(|name| (name, SyncPhase::Invalid)));
            for name in former.keys().filter(|name| !phases.get(*name).is_some_and(|phase| phase.is_run())) {
                self.remove_gauges(name);
            }
            for name in phases.iter().filter(|(_, phase)| !phase.is_run()).map(|(name, _)| name) {
                self.ready.get_or_create(&label_sync(name)).set(0);
            }
        });
    }

    /// Removes what is said of the state of a Sync. Counters stay.
    fn remove_gauges(&self, name: &str) {
        let own = label_sync(name);
        for family in [&self.ready, &self.unschedulable, &self.moved, &self.queue] {
            family.remove(&own);
        }
        self.succeeded.remove(&own);
        for state in CountedState::ALL {
            self.clusters.remove(&label_sync_with(name, "state", state.name()));
        }
        for (kind, _) in count_orphans(&OrphanCounts::default()) {
            self.orphans.remove(&label_sync_with(name, "kind", kind));
        }
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(revision) = revisions.remove(name) {
            self.revision.remove(&label_sync_with(name, "revision", &revision));
        }
    }

    /// A reconciliation has ended; `None` where the Sync is suspended. One that is no longer run has no state.
    pub(crate) fn observe_reconciliation(
        &self,
        name: &str,
        outcome: Option<&SyncOutcome>,
        status: Option<&SyncStatus>,
        took: Duration,
    ) {
        if let Some(outcome) = outcome {
            self.rounds.get_or_create(&label_sync_with(name, "reason", outcome.reason.name())).inc();
            self.duration.get_or_create(&label_sync(name)).observe(took.as_secs_f64());
        }
        self.with_phases(|phases| {
            let Some(phase) = phases.get_mut(name).filter(|phase| phase.is_run()) else { return };
            *phase = SyncPhase::Seen;
            let Some(outcome) = outcome else { return self.remove_gauges(name) };
            self.ready.get_or_create(&label_sync(name)).set(i64::from(outcome.is_ready()));
            if outcome.is_ready() {
                self.succeeded
                    .get_or_create(&label_sync(name))
                    .set(Timestamp::now().as_duration().as_secs_f64());
            }
            if let Some(status) = status {
                self.show_status(name, status);
            }
        });
    }

    /// A cluster was compared because the watch has seen a change in it.
    pub(crate) fn count_comparison(&self, name: &str, cluster: &str) {
        self.comparisons.get_or_create(&label_sync_with(name, "cluster", cluster)).inc();
    }

    /// A contention about an object of a cluster was noticed.
    pub(crate) fn count_contention(&self, name: &str, cluster: &str) {
        self.contentions.get_or_create(&label_sync_with(name, "cluster", cluster)).inc();
    }

    /// The states of clusters and objects have changed.
    pub(crate) fn set_states(&self, name: &str, status: &SyncStatus) {
        self.with_phases(|phases| {
            if phases.get(name).is_some_and(|phase| phase.is_run()) {
                self.show_status(name, status);
            }
        });
    }

    fn show_status(&self, name: &str, status: &SyncStatus) {
        self.unschedulable.get_or_create(&label_sync(name)).set(gauge_value(status.unschedulable));
        if let Some(revision) = &status.last_applied_revision {
            self.set_revision(name, revision);
        }
        self.moved.get_or_create(&label_sync(name)).set(gauge_value(status.replicas_moved));
        for (kind, count) in count_orphans(&status.orphans) {
            self.orphans.get_or_create(&label_sync_with(name, "kind", kind)).set(gauge_value(count));
        }
        if let Some(counts) = status.clusters {
            for state in CountedState::ALL {
                let labels = label_sync_with(name, "state", state.name());
                self.clusters.get_or_create(&labels).set(gauge_value(counts.count(state)));
            }
        }
    }

    /// The Syncs of which no reconciliation has ended yet.
    pub(crate) fn unseen_syncs(&self) -> Vec<String> {
        self.with_phases(|phases| {
            let unseen = phases.iter().filter(|(_, phase)| **phase == SyncPhase::Expected);
            unseen.map(|(name, _)| name.clone()).collect()
        })
    }

    /// The Syncs that are run.
    pub(crate) fn sync_names(&self) -> Vec<String> {
        self.with_phases(|phases| {
            let run = phases.iter().filter(|(_, phase)| phase.is_run());
            run.map(|(name, _)| name.clone()).collect()
        })
    }

    /// All of it, in the text format.
    pub(crate) fn encode_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn label_sync(name: &str) -> Labels {
    vec![("sync", name.to_owned())]
}

fn label_sync_with(name: &str, key: &'static str, value: &str) -> Labels {
    vec![("sync", name.to_owned()), (key, value.to_owned())]
}

/// A count as a gauge shows it.
fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What is left behind, by kind.
fn count_orphans(orphans: &OrphanCounts) -> [(&'static str, usize); 3] {
    [("object", orphans.objects), ("applySet", orphans.apply_sets), ("cluster", orphans.clusters.len())]
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::ObjectRef;
    use federate_reconcile::{Action, ActionKind};

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
            outcome: federate_reconcile::ActionOutcome::Planned,
            error: None,
            unhealthy: None,
            is_terminating: false,
            other_apply_set: None,
            result: None,
        }
    }

    #[test]
    fn alerts_and_dashboard_are_about_metrics_that_exist() {
        let metrics = Metrics::default();
        metrics.expect_syncs(std::iter::once("a/b".to_owned()), std::iter::empty());
        let clusters = Some(federate_sync_api::status::ClusterCounts::default());
        let status = SyncStatus { clusters, ..SyncStatus::default() };
        metrics.observe_reconciliation(
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
