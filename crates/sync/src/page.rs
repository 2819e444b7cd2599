//! What the page of the loop shows: the status of each Sync, and what is known of each of its clusters that is not ready. The
//! status of a `Sync` object only has room for the first failing clusters.
//!
//! `/` is for people, `/syncs` is the same as JSON. Messages name objects of all namespaces, so the page has an address
//! of its own. It requires no authentication, so differences have no values there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use federate_report::page::{PageHost, format_page};
use federate_sync_api::NamespacedName;
use federate_sync_api::managed_scope::ManagedScope;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::{CountedState, SyncStatus};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::member_clusters::cluster_counts::rollout_states;
use crate::member_clusters::tracker::{ClusterTracker, DriftedObject};
use crate::sync_files::ValidSync;

mod document;

pub use document::{SyncCounts, SyncFlag, SyncPage, SyncRow, SyncVerdict};

/// How many seconds the page waits before it asks for itself again.
const POLL_SECONDS: u32 = 10;

/// What is shown of all Syncs.
#[derive(Default)]
pub(crate) struct StatusPage(Mutex<BTreeMap<String, SyncDetails>>);

/// What is shown of a Sync.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncDetails {
    /// Its name and namespace.
    metadata: NamespacedName,
    /// Whether it is suspended.
    suspended: bool,
    /// When its object was created, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    created: Option<Timestamp>,
    /// Its status.
    status: SyncStatus,
    /// The clusters that are not ready, or in which something is left behind.
    clusters: Vec<ClusterDetails>,
    /// The names of the others.
    ready_clusters: Vec<String>,
    /// The objects that another client changes again and again.
    contentions: Vec<String>,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDetails {
    /// Its name.
    name: String,
    /// Its state, as the counts of the status name it.
    state: &'static str,
    /// Why it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// How many attempts in a row have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    retry_at: Option<Timestamp>,
    /// How many objects drifted, and are left so.
    #[serde(skip_serializing_if = "Option::is_none")]
    drifted: Option<usize>,
    /// The first object that drifted, with its fields and who changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<String>,
    /// The first objects that drifted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drifted_objects: Vec<DriftedObject>,
    /// How many objects are no longer rendered, and stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    orphans: Option<usize>,
    /// The revision that it has, if clusters are updated in stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

impl StatusPage {
    fn with_syncs<T>(&self, run: impl FnOnce(&mut BTreeMap<String, SyncDetails>) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows what is known after a reconciliation, or after a comparison. Without a record, what was shown stays.
    pub(crate) fn update_sync(
        &self,
        valid_sync: &ValidSync,
        record: Option<&SyncRecord>,
        tracker: &ClusterTracker,
    ) {
        let sync = &valid_sync.object;
        let name = sync.full_name();
        let contentions = tracker.contentions.frozen_objects(Instant::now()).into_values().collect();
        self.with_syncs(|syncs| {
            let before = syncs.remove(&name);
            let (status, clusters) = match (record, before) {
                (Some(record), _) => (record.status.clone(), collect_clusters(record, tracker)),
                (None, Some(before)) => (before.status, before.clusters),
                (None, None) => Default::default(),
            };
            let shown: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let present = status.managed_scope.iter().flat_map(ManagedScope::present_clusters);
            let ready =
                present.map(|cluster| cluster.name.clone()).filter(|name| !shown.contains(name.as_str()));
            let ready_clusters = ready.collect();
            let details = SyncDetails {
                metadata: sync.metadata.clone(),
                suspended: sync.spec.suspend,
                created: sync.server_metadata.created.parse().ok(),
                status,
                clusters,
                ready_clusters,
                contentions,
            };
            syncs.insert(name, details);
        });
    }

    /// A Sync is gone.
    pub(crate) fn remove_sync(&self, name: &str) {
        self.with_syncs(|syncs| syncs.remove(name));
    }

    /// All of it as JSON, which ends with a line break.
    pub(crate) fn to_json(&self) -> String {
        self.with_syncs(|syncs| {
            let all: Vec<&SyncDetails> = syncs.values().collect();
            serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
        })
    }

    /// All of it as a page.
    pub(crate) fn to_html(&self) -> std::io::Result<String> {
        let syncs = self.with_syncs(|syncs| syncs.values().cloned().collect());
        format_page(&SyncPage::new(syncs, Timestamp::now()), PageHost::Polled { seconds: POLL_SECONDS })
    }
}

/// The clusters that are not ready, or in which something is left behind, by name.
fn collect_clusters(record: &SyncRecord, tracker: &ClusterTracker) -> Vec<ClusterDetails> {
    let mut all: BTreeMap<String, ClusterDetails> = BTreeMap::new();
    for (name, state) in rollout_states(record) {
        let cluster = cluster_entry(&mut all, name);
        cluster.state = state.name();
        if let Some(known) = record.clusters.get(name) {
            cluster.message = known.failed.clone().or_else(|| known.unhealthy.clone());
            cluster.revision.clone_from(&known.revision);
        }
    }
    for (name, drifted) in tracker.drifted_clusters() {
        let cluster = cluster_entry(&mut all, name);
        (cluster.state, cluster.drifted) = (CountedState::Modified.name(), Some(drifted.objects));
        cluster.drift = Some(drifted.first.clone());
        cluster.drifted_objects.clone_from(&drifted.shown);
    }
    for (name, orphans) in tracker.orphans_by_cluster().filter(|(_, orphans)| orphans.objects > 0) {
        cluster_entry(&mut all, name).orphans = Some(orphans.objects);
    }
    let (now, instant) = (Timestamp::now(), Instant::now());
    for (name, failing) in tracker.failing_clusters() {
        let cluster = cluster_entry(&mut all, name);
        cluster.state = failing.cause.kind.counted_state().name();
        cluster.message = Some(failing.cause.message.clone());
        cluster.failures = Some(failing.failures);
        cluster.retry_at = now.checked_add(failing.due.saturating_duration_since(instant)).ok();
    }
    all.into_values().collect()
}

/// The entry of a cluster, which is ready unless more is known.
fn cluster_entry<'d>(all: &'d mut BTreeMap<String, ClusterDetails>, name: &str) -> &'d mut ClusterDetails {
    all.entry(name.to_owned()).or_insert_with(|| ClusterDetails {
        name: name.to_owned(),
        state: CountedState::Ready.name(),
        ..ClusterDetails::default()
    })
}
