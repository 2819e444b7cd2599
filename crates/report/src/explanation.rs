//! An explanation for a terminal: the policy, the arithmetic, every cluster, the overrides.

use std::fmt::Write as _;

use serde::Serialize;

use super::table::TextStyle;
use federate_dialect::{ClusterVerdict, DeletionProgress, DeletionState, Explanation, OverrideChange};
use federate_kubernetes::{ClusterName, Origin, finding};

/// What the overrides changed for some clusters, or why nothing is sent to them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// The clusters, which receive the same manifest.
    pub clusters: Vec<ClusterName>,
    /// The rules that applied, in order.
    pub overrides: Vec<OverrideChange>,
    /// Why nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The full explanation of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The place of its template, as `file:line`.
    pub origin: String,
    /// The decision.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What the overrides changed.
    pub manifests: Vec<Changed>,
    /// The facts of the snapshot that decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

/// A fact of the snapshot without which the object would be placed otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// `placement`, `taint`, `condition`, `api` or `capacity`.
    pub kind: &'static str,
    /// The cluster that it is about; `None` for an earlier placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// The fact.
    pub fact: String,
    /// The clusters without it, with their replicas.
    pub without: Vec<String>,
}

impl Explained {
    /// Combines a decision with the overrides of its manifests, and the facts of a snapshot that decided.
    pub fn new(origin: &Origin, explanation: Explanation, manifests: Vec<Changed>, facts: Vec<Fact>) -> Self {
        Self { origin: origin.to_string(), explanation, manifests, facts }
    }
}

/// The explanation as text.
pub fn text(explained: &Explained, style: TextStyle) -> String {
    let e = &explained.explanation;
    let mut out = format!("{} ({}), placed by {}\n", e.placement.object, explained.origin, e.dialect);
    section(&mut out, "Policy", &e.policy);
    section(&mut out, "Decision", &e.steps);
    if let Some(unschedulable) = &e.placement.unschedulable {
        section(&mut out, &unschedulable.reason, std::slice::from_ref(&unschedulable.message));
    }
    if let Some(progress) = e.deletion_progress {
        section(&mut out, "Deletion", &[deletion(progress)]);
    }
    clusters(&mut out, &e.clusters, style);
    let lines: Vec<String> = explained.manifests.iter().flat_map(changed).collect();
    section(&mut out, "Overrides", &lines);
    let facts: Vec<String> = explained.facts.iter().map(fact).collect();
    section(&mut out, "Facts of the snapshot that decided", &facts);
    out
}

fn section(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}

fn fact(fact: &Fact) -> String {
    let about = fact.cluster.as_ref().map(|cluster| format!("{cluster}: ")).unwrap_or_default();
    let without = match fact.without.as_slice() {
        [] => "no cluster".to_owned(),
        names => finding::list(&names.iter().map(String::as_str).collect::<Vec<_>>(), 8),
    };
    format!("{about}{}; without it: {without}", fact.fact)
}

fn deletion(progress: DeletionProgress) -> String {
    let members = match progress.state {
        DeletionState::Done => "nothing is left to do in the clusters",
        DeletionState::Waiting => "waiting for objects in the clusters to go",
        DeletionState::Failed => {
            "it cannot continue: a cluster is not ready, or the deletion options cannot be read"
        }
    };
    let finalizer =
        if progress.finalizer_removed { "the finalizer is removed" } else { "the finalizer stays" };
    format!("{members}; {finalizer}")
}

fn clusters(out: &mut String, rows: &[ClusterVerdict], style: TextStyle) {
    let wide = rows.iter().map(|r| r.cluster.chars().count()).max().unwrap_or(0).max(7);
    let _ = writeln!(out, "\nClusters\n    {:wide$}  REPLICAS  SCORE  WHY", "CLUSTER");
    for row in rows {
        let mark = if row.chosen { "✓" } else { " " };
        let number = |n: Option<i64>| n.map_or("-".to_owned(), |n| n.to_string());
        let why = match row.refused_by {
            Some(filter) => format!("{filter}: {}", row.why),
            None => row.why.clone(),
        };
        let line = format!(
            "  {mark} {:wide$}  {:>8}  {:>5}  {why}",
            row.cluster,
            number(row.replicas),
            number(row.score)
        );
        let _ = writeln!(out, "{}", if row.chosen { style.chosen(&line) } else { line });
    }
}

fn changed(changed: &Changed) -> Vec<String> {
    let names: Vec<&str> = changed.clusters.iter().map(AsRef::as_ref).collect();
    let names = finding::list(&names, 8);
    if let Some(failed) = &changed.failed {
        return vec![format!("{names}: {failed}")];
    }
    let line = |o: &OverrideChange| {
        let paths = if o.paths.is_empty() { "nothing".to_owned() } else { o.paths.join(", ") };
        format!("{names}: {} ({}) changed {paths}", o.policy, o.origin)
    };
    changed.overrides.iter().map(line).collect()
}
