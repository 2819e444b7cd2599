//! Actions as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::table::{TextStyle, format_count};
use federate_kubernetes::ClusterName;
use federate_kubernetes::display_text::escape_line;
use federate_kubernetes::finding::join_names;
use federate_reconcile::cluster_errors::{MAX_SINGLE_OBJECTS, summarize_objects};
use federate_reconcile::{Action, ActionKind, ActionOutcome, Actions, FieldDiff};

/// Marks actions that were not dry-run on an API server.
pub(super) const PREDICTED_NOTE: &str = "; predicted without the API server";

/// The actions as a table: one row per object, with the fields that change below it. Similar actions share
/// one row, unless every object is to be shown.
pub fn format_table(actions: &Actions, style: TextStyle) -> String {
    let shown: Vec<&Action> = actions
        .actions
        .iter()
        .filter(|action| {
            style.full
                || action.action != ActionKind::Unchanged
                || action.reason.is_some()
                || action.outcome.is_problem()
        })
        .collect();
    let mut out = write_rows(&build_rows(&shown, style.full), actions, style);
    let _ = writeln!(out, "{}", style.paint_bold(&format_summary(actions)));
    out
}

/// The widest column of clusters. A long list of clusters does not move the other columns.
const MAX_CLUSTER_WIDTH: usize = 24;

/// Rows as a table, with their fields below them and the clusters that could not be read last.
pub(super) fn write_rows(rows: &[ActionRow<'_>], actions: &Actions, style: TextStyle) -> String {
    let mut out = String::new();
    let cluster =
        rows.iter().map(|row| row.clusters.chars().count()).max().unwrap_or(0).min(MAX_CLUSTER_WIDTH);
    let object = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for row in rows {
        let action = row.action;
        let word =
            style.paint_text(action_color(action.action), &format!("{:9}", action_word(action.action)));
        let restarts = if action.restarts_pods {
            style.paint_text(AnsiColor::Red, "  restarts its pods")
        } else {
            String::new()
        };
        let said =
            describe_outcome(action).map(|said| format!("  {}", escape_line(&said))).unwrap_or_default();
        let line = format!("{:cluster$}  {word}  {:object$}{restarts}{said}", row.clusters, row.name);
        let _ = writeln!(out, "{}", line.trim_end());
        for field in &row.fields {
            let _ = writeln!(out, "{:cluster$}             {field}", "");
        }
    }
    for (name, error) in failed_clusters(actions) {
        let word = style.paint_text(AnsiColor::Red, &format!("{:9}", "failed"));
        let _ = writeln!(out, "{:cluster$}  {word}  {}", escape_line(name), escape_line(error));
    }
    out
}

/// A row of the table: one action, or several similar ones.
pub(super) struct ActionRow<'a> {
    /// One of the actions, which stands for all.
    pub(super) action: &'a Action,
    pub(super) clusters: String,
    /// The object, or several.
    pub(super) name: String,
    /// A line for each field.
    pub(super) fields: Vec<String>,
}

fn build_rows<'a>(actions: &[&'a Action], all: bool) -> Vec<ActionRow<'a>> {
    let mut alike: BTreeMap<_, Vec<&Action>> = BTreeMap::new();
    for action in actions.iter().filter(|_| !all) {
        if let Some(key) = folding_key(action) {
            alike.entry(key).or_default().push(action);
        }
    }
    let mut rows = Vec::new();
    for action in actions {
        let name = match folding_key(action).and_then(|key| alike.get(&key)) {
            Some(same) if same.len() > MAX_SINGLE_OBJECTS => {
                if !same.first().is_some_and(|first| std::ptr::eq(*first, *action)) {
                    continue;
                }
                summarize_objects(same.iter().map(|action| &action.object))
            }
            _ => action.object.to_string(),
        };
        rows.push(ActionRow {
            action,
            clusters: escape_line(&action.cluster),
            name: escape_line(&name),
            fields: action.diffs.iter().map(format_field).collect(),
        });
    }
    rows
}

/// The cluster, the kind and the outcome of an action that may share a row with others.
fn folding_key(action: &Action) -> Option<(&ClusterName, ActionKind, String)> {
    if !action.diffs.is_empty() || action.restarts_pods {
        return None;
    }
    Some((&action.cluster, action.action, describe_outcome(action)?))
}

/// The reason, the error, or the outcome of an action.
pub(super) fn describe_outcome(action: &Action) -> Option<String> {
    match action.outcome {
        ActionOutcome::Failed => Some(format!("failed: {}", action.error.as_deref().unwrap_or_default())),
        ActionOutcome::NotTried if !matches!(action.action, ActionKind::Conflict | ActionKind::Skip) => {
            Some(format!("not tried: {}", action.reason.as_deref().unwrap_or_default()))
        }
        _ => action.reason.clone(),
    }
}

/// The clusters that could not be processed, with the error.
pub(super) fn failed_clusters(actions: &Actions) -> impl Iterator<Item = (&ClusterName, &str)> {
    actions.clusters.iter().filter_map(|cluster| Some((&cluster.name, cluster.error.as_deref()?)))
}

/// One line per error; one line covers several objects that failed in the same way. Actions that were not
/// tried are errors only if `everything` was to be done.
pub fn format_errors(actions: &Actions, everything: bool) -> Vec<String> {
    let errors = actions.list_errors(everything).into_iter();
    errors.map(|error| format!("{}: {}", error.cluster, error.message)).collect()
}

/// Warnings about clusters; one line covers all clusters with the same warning.
pub fn format_notes(actions: &Actions) -> Vec<String> {
    let mut alike: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cluster in &actions.clusters {
        for note in &cluster.notes {
            alike.entry(note).or_default().push(&cluster.name);
        }
    }
    alike
        .into_iter()
        .map(|(note, clusters)| format!("{}: {note}", join_names(&clusters, MAX_SINGLE_OBJECTS)))
        .collect()
}

/// How many objects got each kind of action, with the outcomes, and in how many clusters.
pub fn format_summary(actions: &Actions) -> String {
    let mut counts: BTreeMap<ActionKind, BTreeMap<ActionOutcome, usize>> = BTreeMap::new();
    for action in &actions.actions {
        *counts.entry(action.action).or_default().entry(action.outcome).or_default() += 1;
    }
    let clusters: BTreeSet<_> = actions.actions.iter().map(|action| &action.cluster).collect();
    let restarts = actions.actions.iter().filter(|action| action.restarts_pods).count();
    let counts: Vec<String> =
        counts.iter().map(|(kind, outcomes)| format_action_count(*kind, outcomes)).collect();
    let failed = failed_clusters(actions).count();
    let failures = format!("{} failed", format_count(failed, "cluster"));
    let done = format!("{} in {}", counts.join(", "), format_count(clusters.len(), "cluster"));
    // What restarts in a cluster that failed is not known.
    let mut text = match (counts.as_slice(), failed, restarts) {
        ([], 0, _) => return "nothing to do".to_owned(),
        ([], ..) => failures,
        (_, 0, _) => format!("{done}, {restarts} with restarts of pods"),
        (_, _, 0) => format!("{done}, restarts of pods unknown; {failures}"),
        _ => format!("{done}, at least {restarts} with restarts of pods; {failures}"),
    };
    if actions.clusters.iter().any(|cluster| cluster.predicted) {
        text.push_str(PREDICTED_NOTE);
    }
    text
}

/// The number of objects with one kind of action, and how many of them failed or were not tried.
fn format_action_count(kind: ActionKind, outcomes: &BTreeMap<ActionOutcome, usize>) -> String {
    let all: usize = outcomes.values().sum();
    let failed = outcomes.get(&ActionOutcome::Failed).map(|number| format!("{number} failed"));
    // For conflicts, the word implies that nothing was tried.
    let untried = outcomes.get(&ActionOutcome::NotTried).filter(|_| kind != ActionKind::Conflict);
    let untried = untried.map(|number| format!("{number} not tried"));
    let parts: Vec<String> = failed.into_iter().chain(untried).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{all} {}{parts}", action_word(kind))
}

fn format_field(diff: &FieldDiff) -> String {
    let who = match (&diff.manager, &diff.time) {
        (Some(manager), Some(time)) => format!(" ({manager}, {time})"),
        (Some(manager), None) => format!(" ({manager})"),
        _ => String::new(),
    };
    let (live, desired) = (format_value(diff.live.as_ref()), format_value(diff.desired.as_ref()));
    escape_line(&format!("{}: {live} → {desired}{who}", diff.path))
}

pub(super) fn format_value(value: Option<&serde_json::Value>) -> String {
    let text = value.map_or_else(|| "(none)".to_owned(), ToString::to_string);
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn action_word(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Create => "create",
        ActionKind::Update => "update",
        ActionKind::Adopt => "adopt",
        ActionKind::Unchanged => "unchanged",
        ActionKind::Conflict => "conflict",
        ActionKind::Skip => "skip",
        ActionKind::Delete => "delete",
    }
}

fn action_color(kind: ActionKind) -> AnsiColor {
    match kind {
        ActionKind::Create | ActionKind::Adopt => AnsiColor::Green,
        ActionKind::Update => AnsiColor::Yellow,
        ActionKind::Delete | ActionKind::Conflict => AnsiColor::Red,
        ActionKind::Unchanged | ActionKind::Skip => AnsiColor::BrightBlack,
    }
}
