//! The clusters of a repo: those that are not ready, the inventory as a table, and one cluster in full.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::Serialize;

use super::cluster_names::join_clusters;
use super::table::{TextStyle, format_count, write_section};
use federate_dialect::Placement;
use federate_kubernetes::cluster::NotReady;
use federate_kubernetes::display_text::escape_line;
use federate_kubernetes::{ClusterName, ObjectRef};

/// What a plan places on a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// The number of objects.
    pub objects: usize,
    /// The number of replicas of those that have replicas.
    pub replicas: i64,
}

impl ClusterLoad {
    /// Adds an object.
    pub fn add_object(&mut self, replicas: Option<i64>) {
        self.objects += 1;
        self.replicas = self.replicas.saturating_add(replicas.unwrap_or(0).max(0));
    }
}

impl std::fmt::Display for ClusterLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let replicas = format_count(usize::try_from(self.replicas).unwrap_or(0), "replica");
        write!(f, "{}, {replicas}", format_count(self.objects, "object"))
    }
}

/// A cluster that is not ready, with what is placed there.
#[derive(Clone, Debug)]
pub struct UnreadyCluster {
    /// The cluster.
    pub cluster: ClusterName,
    /// Since when, and why.
    pub not_ready: NotReady,
    /// What the plan places there.
    pub load: ClusterLoad,
    /// What the previous plan places there.
    pub previous: ClusterLoad,
}

/// How many clusters that are not ready have a line of their own.
const MAX_UNREADY_LINES: usize = 10;

/// A line for each cluster that is not ready, those with the most replicas first. Many share a last line.
pub fn unready_lines(unready: &[UnreadyCluster]) -> String {
    let mut sorted: Vec<&UnreadyCluster> = unready.iter().collect();
    sorted.sort_by_key(|one| {
        (Reverse((one.load.replicas.max(one.previous.replicas), one.load.objects)), &one.cluster)
    });
    let own_line = if sorted.len() > MAX_UNREADY_LINES + 1 { MAX_UNREADY_LINES } else { sorted.len() };
    let (shown, more) = sorted.split_at(own_line);
    let mut out = String::new();
    for UnreadyCluster { cluster, not_ready, load, previous } in shown {
        let placed = if load.objects == 0 {
            "nothing is placed there".to_owned()
        } else {
            format!("{load} placed there")
        };
        let before =
            if previous.objects > load.objects { format!(", {previous} before") } else { String::new() };
        let _ = writeln!(out, "warning: cluster {cluster} is {not_ready}: {placed}{before}");
    }
    if !more.is_empty() {
        let names: Vec<&str> = more.iter().map(|one| one.cluster.as_ref()).collect();
        let names = join_clusters(&names, &[], false);
        let number = format_count(more.len(), "more cluster");
        let _ = writeln!(out, "warning: {number} are not ready: {names}; `federate clusters` lists them");
    }
    out
}

/// The inventory, for scripts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterList {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `ClusterList`.
    pub kind: &'static str,
    /// The snapshot that the status of the clusters comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotAge>,
    /// The clusters, sorted by name.
    pub clusters: Vec<ClusterRow>,
}

/// When a snapshot was taken.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotAge {
    /// The folder, or REV:PATH.
    pub path: String,
    /// The time at which it was taken, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// Its age in seconds; negative if it was taken later than the time of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The members that could not be read when it was taken, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
}

impl std::fmt::Display for SnapshotAge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "snapshot {}: ", self.path)?;
        match (&self.taken, self.age_seconds) {
            (Some(taken), Some(age)) if age >= 0 => write!(f, "taken at {taken}, {} ago", age_in_words(age))?,
            (Some(taken), Some(age)) => write!(f, "taken at {taken}, {}", age_in_words(age))?,
            (Some(taken), None) => write!(f, "taken at {taken}")?,
            (None, _) => f.write_str("it does not say when it was taken")?,
        }
        if !self.failed.is_empty() {
            let names: Vec<&str> = self.failed.keys().map(String::as_str).collect();
            write!(f, "; these clusters could not be read: {}", join_clusters(&names, &[], false))?;
        }
        writeln!(f)
    }
}

/// A cluster of the inventory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// The name.
    pub name: String,
    /// The inventory object.
    pub object: ObjectRef,
    /// Its place, as `file:line`.
    pub origin: String,
    /// Whether it is ready. One whose inventory object has no status counts as ready, unless `--strict-inventory` is
    /// given.
    pub ready: bool,
    /// Since when it is not ready, if the inventory says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it is being deleted.
    pub leaving: bool,
    /// The version of Kubernetes, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The cloud provider; empty if unknown.
    pub provider: String,
    /// The region; empty if unknown.
    pub region: String,
    /// The zones.
    pub zones: Vec<String>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The taints, as `KEY[=VALUE]:EFFECT`.
    pub taints: Vec<String>,
    /// The resources that it offers or that the plan requests.
    pub resources: Vec<ClusterResource>,
    /// The number of objects that the plan places there.
    pub objects: usize,
    /// The number of their replicas.
    pub replicas: i64,
}

/// A resource of a cluster.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResource {
    /// Its name, such as `cpu`.
    pub resource: String,
    /// The allocatable amount, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<String>,
    /// The amount that the cluster reports as free, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<String>,
    /// The amount that the plan requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The amount that is free with the plan, if known; negative if the plan requests more than there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

impl ClusterList {
    /// The inventory as a table; with every resource and label if it is `wide`.
    pub fn format_text(&self, wide: bool, style: TextStyle) -> String {
        let age = self.snapshot.as_ref().and_then(|snapshot| snapshot.age_seconds).map(age_in_words);
        let taken = self.snapshot.as_ref().map(|_| age.unwrap_or_else(|| "unknown".to_owned()));
        let mut head = vec![
            "CLUSTER", "READY", "SINCE", "VERSION", "REGION", "FREE", "ASKED", "OBJECTS", "REPLICAS",
            "TAINTS",
        ];
        if taken.is_some() {
            head.push("SNAPSHOT");
        }
        if wide {
            head.extend(["ZONES", "PROVIDER", "LABELS", "WHY"]);
        }
        let mut rows = vec![head.into_iter().map(ToOwned::to_owned).collect()];
        for row in &self.clusters {
            let mut cells = vec![
                row.name.clone(),
                row.readiness_word().to_owned(),
                or_dash(row.since.as_deref().unwrap_or_default()),
                or_dash(row.version.as_deref().unwrap_or_default()),
                or_dash(&row.region),
                or_dash(&row.format_free(wide)),
                or_dash(&row.format_asked(wide)),
                row.objects.to_string(),
                row.replicas.to_string(),
                or_dash(&row.taints.join(", ")),
            ];
            cells.extend(taken.clone());
            if wide {
                let labels: Vec<String> =
                    row.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                cells.push(or_dash(&row.zones.join(", ")));
                cells.push(or_dash(&row.provider));
                cells.push(or_dash(&labels.join(", ")));
                cells.push(or_dash(row.why.as_deref().unwrap_or_default()));
            }
            rows.push(cells);
        }
        let mut widths: Vec<usize> = Vec::new();
        for cells in &rows {
            widths.resize(cells.len(), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut out = String::new();
        for (at, cells) in rows.iter().enumerate() {
            let cells: Vec<String> =
                cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            let line = cells.join("  ").trim_end().to_owned();
            let row = at.checked_sub(1).and_then(|at| self.clusters.get(at));
            let line = match row {
                None => style.paint_bold(&line),
                Some(row) if row.ready => line,
                Some(_) => style.paint_text(AnsiColor::Red, &line),
            };
            let _ = writeln!(out, "{line}");
        }
        if !style.quiet {
            let _ = writeln!(out, "\n{}", style.paint_bold(&self.format_summary()));
        }
        out
    }

    fn format_summary(&self) -> String {
        let unready = self.clusters.iter().filter(|row| !row.ready).count();
        let mut text = format_count(self.clusters.len(), "cluster");
        if unready > 0 {
            let _ = write!(text, ", {unready} not ready");
        }
        if let Some(SnapshotAge { path, taken, failed, .. }) = &self.snapshot {
            let taken = taken.as_deref().unwrap_or("an unknown time");
            let _ = write!(text, "; status of the snapshot {path}, taken at {taken}");
            if !failed.is_empty() {
                let names: Vec<&str> = failed.keys().map(String::as_str).collect();
                let _ = write!(text, ", which could not read {}", join_clusters(&names, &[], false));
            }
        }
        text
    }
}

/// The resources that a narrow table shows.
const MAIN_RESOURCES: [&str; 2] = ["cpu", "memory"];

impl ClusterRow {
    fn readiness_word(&self) -> &'static str {
        match (self.ready, self.leaving) {
            (true, false) => "yes",
            (true, true) => "leaving",
            (false, _) => "no",
        }
    }

    fn shown_resources(&self, wide: bool) -> impl Iterator<Item = &ClusterResource> {
        self.resources.iter().filter(move |one| wide || MAIN_RESOURCES.contains(&one.resource.as_str()))
    }

    fn format_free(&self, wide: bool) -> String {
        self.shown_resources(wide)
            .filter_map(|one| {
                Some(format!("{} {} of {}", one.resource, one.free.as_ref()?, one.allocatable.as_ref()?))
            })
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn format_asked(&self, wide: bool) -> String {
        self.shown_resources(wide)
            .filter_map(|one| Some(format!("{} {}", one.resource, one.asked.as_ref()?)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn or_dash(text: &str) -> String {
    let text = escape_line(text);
    if text.is_empty() { "-".to_owned() } else { text }
}

/// An age in its two largest units: `3h 20m`, `2d 4h`.
pub fn age_in_words(seconds: i64) -> String {
    if seconds < 0 {
        return format!("{} in the future", age_in_words(seconds.saturating_neg()));
    }
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, 0) => format!("{hours}h"),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, 0, _) => format!("{days}d"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// A cluster, with what is placed there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCluster {
    /// The cluster.
    #[serde(flatten)]
    pub cluster: ClusterRow,
    /// Whether each policy that places anything chooses the cluster.
    pub policies: Vec<PolicyOfCluster>,
    /// What is placed there.
    pub placements: Vec<Placement>,
}

/// What a policy places on a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyOfCluster {
    /// The policy.
    pub policy: ObjectRef,
    /// The number of objects that it places there.
    pub objects: usize,
    /// The number of their replicas.
    pub replicas: i64,
    /// The filter that refuses the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
    /// The reason, in words.
    pub why: String,
}

/// A cluster in full, as text. `table` is the plan of what is placed there.
pub fn explained_cluster(explained: &ExplainedCluster, table: &str, style: TextStyle) -> String {
    let row = &explained.cluster;
    let mut out = format!("cluster {} ({}, {})\n", row.name, row.object, row.origin);
    let since = row.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let mut status = match (&row.why, row.leaving) {
        (Some(why), _) => {
            vec![style.paint_text(AnsiColor::Red, &format!("not ready{since}: {}", or_dash(why)))]
        }
        (None, true) => vec!["ready, and being deleted".to_owned()],
        (None, false) => vec!["ready".to_owned()],
    };
    let places =
        [("provider", row.provider.clone()), ("region", row.region.clone()), ("zones", row.zones.join(", "))];
    let version = ("Kubernetes", row.version.clone().unwrap_or_default());
    for (name, value) in std::iter::once(version).chain(places).filter(|(_, value)| !value.is_empty()) {
        status.push(format!("{name} {}", or_dash(&value)));
    }
    write_section(&mut out, "Status", &status);
    write_section(
        &mut out,
        "Labels",
        &row.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
    );
    write_section(&mut out, "Taints", &row.taints);
    write_section(&mut out, "Resources", &row.resources.iter().map(resource_in_words).collect::<Vec<_>>());
    write_section(&mut out, "Policies", &explained.policies.iter().map(policy_in_words).collect::<Vec<_>>());
    if explained.placements.is_empty() {
        write_section(&mut out, "Objects", &["nothing is placed there".to_owned()]);
    } else {
        let load = ClusterLoad { objects: row.objects, replicas: row.replicas };
        let _ = writeln!(out, "\nObjects ({load})");
        out.push_str(table);
    }
    out
}

fn resource_in_words(one: &ClusterResource) -> String {
    let parts = [
        one.free.as_ref().zip(one.allocatable.as_ref()).map(|(free, of)| format!("{free} of {of} free")),
        one.asked.as_ref().map(|asked| format!("the plan requests {asked}")),
        one.left.as_ref().map(|left| format!("{left} left with it")),
    ];
    format!("{}: {}", one.resource, parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn policy_in_words(one: &PolicyOfCluster) -> String {
    let (policy, load) = (&one.policy, ClusterLoad { objects: one.objects, replicas: one.replicas });
    match &one.refused_by {
        _ if one.objects > 0 => format!("✓ {policy}: {load}"),
        Some(filter) => format!("  {policy}: {filter}: {}", one.why),
        None => format!("  {policy}: not chosen: {}", one.why),
    }
}
