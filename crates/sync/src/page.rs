//! The status page of the loop: the status of each Sync, and what is known of each of its clusters that is not ready. The
//! status of a `Sync` object only has room for the first failing clusters.
//!
//! `/` is for people, `/syncs` is the same as JSON. Messages name objects of all namespaces, so the page has an address
//! of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use federate_sync_api::NamespacedName;
use federate_sync_api::inventory::AppliedInventory;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::{ClusterCounts, OrphanCounts, SyncStatus};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::member_clusters::tracker::{ClusterTracker, format_count};
use crate::sync_files::ValidSync;

/// What is shown of all Syncs.
#[derive(Default)]
pub(crate) struct StatusPage(Mutex<BTreeMap<String, SyncDetails>>);

/// What is shown of a Sync.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SyncDetails {
    metadata: NamespacedName,
    suspended: bool,
    /// When its object was created, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    /// Its status.
    status: SyncStatus,
    /// The clusters that are not ready, or in which something is left behind.
    clusters: Vec<ClusterDetails>,
    /// The names of the others.
    ready_clusters: Vec<String>,
    /// What is fought about.
    fights: Vec<String>,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterDetails {
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
    retry_at: Option<Timestamp>,
    /// How many objects drifted, and are left so.
    #[serde(skip_serializing_if = "Option::is_none")]
    drifted: Option<usize>,
    /// The first object that drifted, with its fields and who changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<String>,
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

    /// Shows what is known after a round, or after a comparison. Without a record, what was shown stays.
    pub(crate) fn update_sync(
        &self,
        loaded: &ValidSync,
        record: Option<&SyncRecord>,
        tracker: &ClusterTracker,
    ) {
        let sync = &loaded.sync;
        let name = sync.metadata.full_name();
        let fights = tracker.contentions.held_objects(Instant::now()).into_values().collect();
        self.with_syncs(|syncs| {
            let before = syncs.remove(&name);
            let (status, clusters) = match (record, before) {
                (Some(record), _) => (record.status.clone(), collect_clusters(record, tracker)),
                (None, Some(before)) => (before.status, before.clusters),
                (None, None) => Default::default(),
            };
            let shown: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let present = status.inventory.iter().flat_map(AppliedInventory::present_clusters);
            let ready =
                present.map(|cluster| cluster.name.clone()).filter(|name| !shown.contains(name.as_str()));
            let ready_clusters = ready.collect();
            let details = SyncDetails {
                metadata: sync.metadata.clone(),
                suspended: sync.spec.suspend,
                created: sync.meta.as_ref().and_then(|meta| meta.created.parse().ok()),
                status,
                clusters,
                ready_clusters,
                fights,
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

    /// All of it as HTML.
    pub(crate) fn to_html(&self) -> String {
        let mut page = HEAD.to_owned();
        self.with_syncs(|syncs| {
            if syncs.is_empty() {
                page += "<p>This process runs no Syncs. Another replica may lead.</p>\n";
            }
            for details in syncs.values() {
                // Writing to a string does not fail.
                let _ = details.write_html(&mut page);
            }
        });
        page
    }
}

/// The clusters that are not ready, or in which something is left behind, by name.
fn collect_clusters(record: &SyncRecord, tracker: &ClusterTracker) -> Vec<ClusterDetails> {
    let mut all: BTreeMap<String, ClusterDetails> = BTreeMap::new();
    for (name, state, revision) in rollout_states(record) {
        let known = record.clusters.get(&name);
        let why = known.and_then(|known| known.failed.clone().or_else(|| known.unhealthy.clone()));
        let cluster = cluster_entry(&mut all, &name);
        (cluster.state, cluster.revision, cluster.message) = (state, revision, why);
    }
    for (name, drifted) in tracker.drifted_clusters() {
        let cluster = cluster_entry(&mut all, name);
        (cluster.state, cluster.drifted) = ("modified", Some(drifted.objects));
        cluster.drift = Some(drifted.first.clone());
    }
    for (name, orphans) in tracker.orphans_by_cluster().filter(|(_, orphans)| orphans.objects > 0) {
        cluster_entry(&mut all, name).orphans = Some(orphans.objects);
    }
    let (now, instant) = (Timestamp::now(), Instant::now());
    for (name, failing) in tracker.failing_clusters() {
        let cluster = cluster_entry(&mut all, name);
        cluster.state = failing.cause.kind.state_name();
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
        state: "ready",
        ..ClusterDetails::default()
    })
}

/// The states of clusters that are not ready, by name. Each cluster has one.
fn cluster_states(record: &SyncRecord, tracker: &ClusterTracker) -> BTreeMap<String, &'static str> {
    let rolling = rollout_states(record).into_iter().map(|(name, state, _)| (name, state));
    let drifted = tracker.drifted_clusters().map(|(name, _)| (name.clone(), "modified"));
    let failing = tracker.failure_causes().map(|(name, cause)| (name.clone(), cause.kind.state_name()));
    rolling.chain(drifted).chain(failing).collect()
}

/// Counts each cluster once in the status, by its state after everything that is known.
pub(crate) fn count_clusters(record: &mut SyncRecord, tracker: &ClusterTracker) {
    let states = cluster_states(record, tracker);
    record.status.drift = tracker.summarize_drift();
    let Some(counts) = &mut record.status.clusters else { return };
    let total: usize = counts.state_counts().iter().map(|(_, count)| count).sum();
    let mut by_state: BTreeMap<&str, usize> = BTreeMap::new();
    for state in states.values() {
        *by_state.entry(state).or_default() += 1;
    }
    *counts = ClusterCounts {
        ready: total.saturating_sub(states.len()),
        not_ready: by_state.remove("notReady").unwrap_or(0),
        modified: by_state.remove("modified").unwrap_or(0),
        out_of_sync: by_state.remove("outOfSync").unwrap_or(0),
        err_applied: by_state.remove("errApplied").unwrap_or(0),
        wait_applied: by_state.remove("waitApplied").unwrap_or(0),
        pending: by_state.remove("pending").unwrap_or(0),
    };
}

/// The clusters that a rollout is updating or has not reached, with their states and revisions.
fn rollout_states(record: &SyncRecord) -> Vec<(String, &'static str, Option<String>)> {
    let target = record.rollout.as_ref().map(|rollout| rollout.target.as_str());
    let staged = record.clusters.iter().filter_map(|(name, cluster)| {
        let state = match (cluster.updating, cluster.applied) {
            _ if cluster.failed.is_some() => "errApplied",
            (Some(_), true) => "notReady",
            (Some(_), false) => "waitApplied",
            (None, _) if target.is_some() && cluster.revision.as_deref() != target => "pending",
            (None, _) => return None,
        };
        Some((name.clone(), state, cluster.revision.clone()))
    });
    let tip = record.accepted.as_ref().map(|accepted| accepted.tip.as_str()).unwrap_or_default();
    let placed = record.policies.values().flat_map(|rollout| &rollout.clusters);
    let placed = placed.filter_map(|(name, cluster)| {
        let state = match (cluster.is_open(), cluster.applied) {
            _ if cluster.failed.is_some() => "errApplied",
            (true, true) => "notReady",
            (true, false) => "waitApplied",
            (false, _) if cluster.revision != tip => "pending",
            (false, _) => return None,
        };
        Some((name.to_string(), state, None))
    });
    staged.chain(placed).collect()
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>federate sync</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color-scheme: light dark; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
.bad { color: #c33; }
</style>
<h1>federate sync</h1>
<p><a href=\"/syncs\">As JSON</a></p>
";

impl SyncDetails {
    fn write_html(&self, page: &mut String) -> fmt::Result {
        writeln!(page, "<h2>{}</h2>", Escaped(&self.metadata.full_name()))?;
        if self.suspended {
            writeln!(page, "<p>It is suspended.</p>")?;
        }
        if let Some(created) = self.created {
            let age = SignedDuration::from_secs(Timestamp::now().duration_since(created).as_secs());
            writeln!(page, "<p>Created: {created:.0}, {age:#} ago</p>")?;
        }
        let status = &self.status;
        for condition in &status.conditions {
            let class = if condition.reason == "ReconciliationSucceeded" { "" } else { " class=\"bad\"" };
            let (kind, value) = (&condition.r#type, &condition.status);
            let (reason, message) = (Escaped(&condition.reason), Escaped(&condition.message));
            let since = condition.last_transition_time;
            writeln!(page, "<p{class}>{kind}={value} since {since}: {reason}: {message}</p>")?;
        }
        let revisions =
            [("Attempted", &status.last_attempted_revision), ("Applied", &status.last_applied_revision)];
        for (what, revision) in revisions {
            if let Some(revision) = revision {
                writeln!(page, "<p>{what}: {}</p>", Escaped(revision))?;
            }
        }
        if let Some(rollout) = &status.rollout {
            let updated = format_count(rollout.updated, "cluster");
            writeln!(page, "<p>Rollout: stage {}, {updated} updated</p>", Escaped(&rollout.stage))?;
        }
        if let Some(window) = &status.window {
            let time = window.closes.or(window.opens).map(|time| format!("{time:.0}")).unwrap_or_default();
            let (state, change) =
                if window.open { ("open", "it closes at") } else { ("closed", "the next one opens at") };
            writeln!(page, "<p>Maintenance window: {state}; {change} {}</p>", Escaped(&time))?;
            if let Some(waiting) = &window.waiting {
                writeln!(page, "<p>Waiting for a window: {}</p>", Escaped(waiting))?;
            }
        }
        if let Some(drift) = &status.drift {
            let (objects, clusters) =
                (format_count(drift.objects, "object"), format_count(drift.clusters, "cluster"));
            let first = Escaped(&drift.first);
            let changed = drift.changed.as_ref().map(|time| format!(", changed at {time}"));
            let changed = changed.unwrap_or_default();
            let changed = Escaped(&changed);
            writeln!(page, "<p class=\"bad\">Drift: {objects} in {clusters}: {first}{changed}</p>")?;
        }
        let OrphanCounts { objects, apply_sets, clusters } = &status.orphans;
        if *objects > 0 || *apply_sets > 0 {
            let (objects, sets) = (format_count(*objects, "object"), format_count(*apply_sets, "ApplySet"));
            writeln!(page, "<p>Left behind: {objects}, {sets}</p>")?;
        }
        if !clusters.is_empty() {
            let clusters = clusters.join(", ");
            writeln!(
                page,
                "<p class=\"bad\">Clusters that have left, with objects: {}</p>",
                Escaped(&clusters)
            )?;
        }
        self.write_clusters(page)?;
        for fight in &self.fights {
            writeln!(page, "<p class=\"bad\">{}</p>", Escaped(fight))?;
        }
        self.write_history(page)
    }

    fn write_history(&self, page: &mut String) -> fmt::Result {
        if self.status.history.is_empty() {
            return Ok(());
        }
        writeln!(page, "<details><summary>History</summary>")?;
        writeln!(page, "<table><tr><th>Time<th>Revision<th>Reason<th>Message")?;
        for entry in &self.status.history {
            let (time, revision) = (entry.time, entry.revision.as_deref().unwrap_or_default());
            let (revision, reason) = (Escaped(revision), Escaped(&entry.reason));
            let message = Escaped(&entry.message);
            writeln!(page, "<tr><td>{time:.0}<td>{revision}<td>{reason}<td>{message}")?;
        }
        writeln!(page, "</table></details>")
    }

    fn write_clusters(&self, page: &mut String) -> fmt::Result {
        if let Some(counts) = &self.status.clusters {
            let states = counts.state_counts().into_iter().filter(|(_, number)| *number > 0);
            let states: Vec<String> = states.map(|(state, number)| format!("{number} {state}")).collect();
            writeln!(page, "<p>Clusters: {}</p>", states.join(", "))?;
        }
        if !self.clusters.is_empty() {
            writeln!(page, "<table><tr><th>Cluster<th>State<th>Details<th>Next attempt")?;
            for cluster in &self.clusters {
                let (name, state) = (Escaped(&cluster.name), cluster.state);
                let details = cluster.detail_lines().join("; ");
                write!(page, "<tr><td>{name}<td>{state}<td>{}<td>", Escaped(&details))?;
                if let Some(time) = cluster.retry_at {
                    write!(page, "{time:.0}")?;
                }
                writeln!(page)?;
            }
            writeln!(page, "</table>")?;
        }
        if !self.ready_clusters.is_empty() {
            let names = self.ready_clusters.join(", ");
            writeln!(page, "<details><summary>Ready clusters</summary><p>{}</p></details>", Escaped(&names))?;
        }
        if self.created.is_none() {
            return Ok(());
        }
        let (name, namespace) = (Escaped(&self.metadata.name), Escaped(&self.metadata.namespace));
        writeln!(
            page,
            "<p>Objects and their health: <code>federate sync tree {name} -n {namespace}</code></p>"
        )
    }
}

impl ClusterDetails {
    fn detail_lines(&self) -> Vec<String> {
        let failures = self.failures.filter(|failures| *failures > 1);
        let failures = failures.map(|failures| format!("{failures} failures in a row"));
        let drift = self.drifted.zip(self.drift.as_ref());
        let drift =
            drift.map(|(objects, first)| format!("{} drifted: {first}", format_count(objects, "object")));
        let orphans = self.orphans.map(|orphans| format!("{} left behind", format_count(orphans, "object")));
        let revision = self.revision.as_ref().map(|revision| format!("at {revision}"));
        self.message.clone().into_iter().chain(failures).chain(drift).chain(orphans).chain(revision).collect()
    }
}

/// A text in HTML.
struct Escaped<'t>(&'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                c => out.write_char(c)?,
            }
        }
        Ok(())
    }
}
