//! An explanation for a terminal: the policy, the arithmetic, every cluster, the overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::cluster_names::{ClusterCell, join_clusters};
use super::table::{TextStyle, format_count, write_section};
use federate_dialect::rollout::RolloutExplanation;
use federate_dialect::{ClusterVerdict, DeletionProgress, DeletionState, Explanation, OverrideChange};
use federate_kubernetes::{ClusterName, ObjectRef, Origin};

/// What the overrides changed for some clusters, or why nothing is sent to them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestOverrides {
    /// The clusters, which receive the same manifest.
    pub clusters: Vec<ClusterName>,
    /// The rules that applied, in order.
    pub overrides: Vec<OverrideChange>,
    /// The fields that each of them changed, in the notation of `federate diff`.
    #[serde(skip)]
    pub fields: Vec<Vec<String>>,
    /// Why nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A policy, with what it places or changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPolicy {
    /// The policy.
    pub policy: ObjectRef,
    /// Its place, as `file:line`.
    pub origin: String,
    /// Whether it overrides manifests instead of placing objects.
    #[serde(skip)]
    pub overrides: bool,
    /// The objects that it places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<ObjectRef>,
    /// The manifests that it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedManifest>,
    /// How it is rolled out, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutExplanation>,
    /// The same in sentences.
    #[serde(skip)]
    pub rollout_steps: Vec<String>,
}

/// A manifest that an override policy changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedManifest {
    /// The object.
    pub object: ObjectRef,
    /// The clusters that receive the manifest.
    pub clusters: Vec<ClusterName>,
    /// The changed fields, in the notation of `federate diff`.
    pub paths: Vec<String>,
}

/// A policy with its effect, as text. `table` is the plan of the objects that it places, `inventory` all clusters.
pub fn format_policy(
    explained: &ExplainedPolicy,
    table: &str,
    inventory: &[&str],
    style: TextStyle,
) -> String {
    let mut out = format!("{} ({})", explained.policy, explained.origin);
    if explained.overrides {
        if explained.changed.is_empty() {
            return out + " changes no manifest\n";
        }
        let objects: BTreeSet<&ObjectRef> = explained.changed.iter().map(|changed| &changed.object).collect();
        out.push_str(&format!(" overrides {}\n\n", format_count(objects.len(), "object")));
        for changed in &explained.changed {
            let names: Vec<&str> = changed.clusters.iter().map(AsRef::as_ref).collect();
            let names = join_clusters(&names, inventory, style.full);
            let _ = writeln!(out, "  {} in {names}: {}", changed.object, format_paths(&changed.paths));
        }
        return out;
    }
    match explained.placed.len() {
        0 => out + " places no object of the repo\n",
        number => {
            out.push_str(&format!(" places {}\n\n", format_count(number, "object")));
            out.push_str(table);
            write_section(&mut out, "Rollout", &explained.rollout_steps);
            out
        }
    }
}

fn format_paths(paths: &[String]) -> String {
    if paths.is_empty() { "changes nothing".to_owned() } else { paths.join(", ") }
}

/// An object that is placed nowhere, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnplacedExplanation {
    /// The object.
    pub object: ObjectRef,
    /// Its place, as `file:line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// What is wrong, with the remedy.
    pub reasons: Vec<String>,
    /// What keeps it from each policy, the nearest first.
    pub policies: Vec<String>,
}

/// Why an object is placed nowhere, as text.
pub fn format_unplaced(unplaced: &UnplacedExplanation) -> String {
    let origin = unplaced.origin.as_ref().map(|origin| format!(" ({origin})")).unwrap_or_default();
    let mut out = format!("{}{origin} is placed on no cluster\n", unplaced.object);
    write_section(&mut out, "Why", &unplaced.reasons);
    write_section(&mut out, "Policies", &unplaced.policies);
    out
}

/// The full explanation of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedObject {
    /// The place of its template, as `file:line`.
    pub origin: String,
    /// The objects of Flux and Argo CD whose source it is from, each after the one that builds it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub built_by: Vec<Vec<ObjectRef>>,
    /// The decision.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What the overrides changed.
    pub manifests: Vec<ManifestOverrides>,
    /// The facts of the snapshot that decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// The clusters that are not ready, with since when and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_ready: BTreeMap<ClusterName, String>,
}

/// A fact of the snapshot without which the object would be placed otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// `placement`, `taint`, `condition`, `api`, `capacity` or `property`.
    pub kind: &'static str,
    /// The cluster that it is about; `None` for an earlier placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// The fact.
    pub fact: String,
    /// The clusters without it, with their replicas.
    pub without: Vec<String>,
}

impl ExplainedObject {
    /// Combines a decision with the overrides of its manifests.
    pub fn new(origin: &Origin, explanation: Explanation, manifests: Vec<ManifestOverrides>) -> Self {
        Self {
            origin: origin.to_string(),
            built_by: Vec::new(),
            explanation,
            manifests,
            facts: Vec::new(),
            not_ready: BTreeMap::new(),
        }
    }
}

/// The explanation as text. `inventory` has the names of all clusters.
pub fn format_explanation(explained: &ExplainedObject, inventory: &[&str], style: TextStyle) -> String {
    let e = &explained.explanation;
    let by = if e.placement.has_destination { "its source" } else { e.dialect };
    let mut out = format!("{} ({}), placed by {by}\n", e.placement.object, explained.origin);
    write_section(&mut out, "Built by", &format_chains(&explained.built_by));
    write_section(&mut out, "Policy", &e.policy);
    write_section(&mut out, "Decision", &e.steps);
    // The last step may say the same.
    if let Some(why) = &e.placement.unschedulable
        && !e.steps.last().is_some_and(|step| step.ends_with(&why.message))
    {
        write_section(&mut out, &why.reason, std::slice::from_ref(&why.message));
    }
    if let Some(progress) = e.deletion_progress {
        write_section(&mut out, "Deletion", &[format_deletion(progress)]);
    }
    write_clusters(&mut out, explained, inventory, style);
    let lines: Vec<String> =
        explained.manifests.iter().flat_map(|changed| format_overrides(changed, inventory, style)).collect();
    write_section(&mut out, "Overrides", &lines);
    let facts: Vec<String> = explained.facts.iter().map(|fact| format_fact(fact, inventory, style)).collect();
    write_section(&mut out, "Facts of the snapshot that decided", &facts);
    out
}

/// The most rows of objects through which an object is built.
const MAX_CHAINS: usize = 5;

fn format_chains(chains: &[Vec<ObjectRef>]) -> Vec<String> {
    let shown = chains.iter().take(MAX_CHAINS);
    let mut lines: Vec<String> =
        shown.map(|chain| chain.iter().map(ToString::to_string).collect::<Vec<_>>().join(" → ")).collect();
    if chains.len() > MAX_CHAINS {
        lines.push(format!("and {} more", chains.len() - MAX_CHAINS));
    }
    lines
}

fn format_fact(fact: &Fact, inventory: &[&str], style: TextStyle) -> String {
    let about = fact.cluster.as_ref().map(|cluster| format!("{cluster}: ")).unwrap_or_default();
    let without = match fact.without.as_slice() {
        [] => "no cluster".to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            join_clusters(&names, inventory, style.full)
        }
    };
    let otherwise = match fact.kind {
        "condition" => "if it was ready",
        "api" => "if it served every kind",
        "capacity" => "if they were unlimited",
        "property" => "without them",
        _ => "without it",
    };
    format!("{about}{}; {otherwise}: {without}", fact.fact)
}

fn format_deletion(progress: DeletionProgress) -> String {
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

/// How many clusters with equal verdicts are shown one by one.
const MAX_EQUAL_CLUSTERS: usize = 4;

/// The indentation of the names of clusters that share a row.
const CLUSTER_LIST_INDENT: usize = 6;

/// One row for each cluster; many clusters that differ in nothing but their names share one.
fn write_clusters(out: &mut String, explained: &ExplainedObject, inventory: &[&str], style: TextStyle) {
    let rows = explained.explanation.clusters.as_slice();
    let mut alike: BTreeMap<_, Vec<(usize, &ClusterVerdict)>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let not_ready = explained.not_ready.get(&row.cluster);
        let verdict = (row.chosen, row.refused_by, row.replicas, row.score, &row.why, not_ready);
        alike.entry(verdict).or_default().push((at, row));
    }
    // The chosen clusters come first.
    let mut lines: BTreeMap<(bool, usize), (ClusterCell, &ClusterVerdict)> = BTreeMap::new();
    for same in alike.into_values() {
        let names: Vec<&str> = same.iter().map(|(_, row)| row.cluster.as_ref()).collect();
        if let Some((at, first)) = same.first()
            && !style.full
            && same.len() > MAX_EQUAL_CLUSTERS
        {
            let cell = ClusterCell::new(&names, inventory, 0, CLUSTER_LIST_INDENT, style);
            lines.insert((!first.chosen, *at), (cell, first));
            continue;
        }
        for ((at, row), name) in same.into_iter().zip(names) {
            lines.insert((!row.chosen, at), (ClusterCell::from_name(name), row));
        }
    }
    let scored = rows.iter().any(|row| row.score.is_some_and(|score| score != 0));
    let counted = rows.iter().any(|row| row.replicas.is_some());
    let wide = lines.values().map(|(cell, _)| cell.text.chars().count()).max().unwrap_or(0).max(7);
    let replicas = if counted { "  REPLICAS" } else { "" };
    let score = if scored { "  SCORE" } else { "" };
    let _ = writeln!(out, "\nClusters\n    {:wide$}{replicas}{score}  WHY", "CLUSTER");
    for (ClusterCell { text: name, below }, row) in lines.values() {
        let mark = if row.chosen { "✓" } else { " " };
        let score = row.score.filter(|_| row.refused_by.is_none());
        let [replicas, score] =
            [row.replicas, score].map(|number| number.map_or("-".to_owned(), |number| number.to_string()));
        let replicas = if counted { format!("  {replicas:>8}") } else { String::new() };
        let score = if scored { format!("  {score:>5}") } else { String::new() };
        let why = match row.refused_by {
            Some(filter) => format!("{filter}: {}", row.why),
            None => row.why.clone(),
        };
        let why = match (explained.not_ready.get(&row.cluster), why.as_str()) {
            (Some(not_ready), "") => not_ready.clone(),
            (Some(not_ready), _) => format!("{why}; {not_ready}"),
            (None, _) => why,
        };
        let line = format!("  {mark} {name:wide$}{replicas}{score}  {why}");
        let line = line.trim_end();
        let _ = writeln!(out, "{}", if row.chosen { style.paint_chosen(line) } else { line.to_owned() });
        for line in below {
            let _ = writeln!(out, "{:CLUSTER_LIST_INDENT$}{line}", "");
        }
    }
    if scored {
        let _ = writeln!(
            out,
            "\nClusters with a higher SCORE are preferred where not all eligible ones are needed."
        );
    }
}

fn format_overrides(changed: &ManifestOverrides, inventory: &[&str], style: TextStyle) -> Vec<String> {
    let names: Vec<&str> = changed.clusters.iter().map(AsRef::as_ref).collect();
    let names = join_clusters(&names, inventory, style.full);
    if let Some(failed) = &changed.failed {
        return vec![format!("{names}: {failed}")];
    }
    changed
        .overrides
        .iter()
        .zip(&changed.fields)
        .map(|(change, fields)| {
            let fields = if fields.is_empty() { "nothing".to_owned() } else { fields.join(", ") };
            format!("{names}: {} ({}) changed {fields}", change.policy, change.origin)
        })
        .collect()
}
