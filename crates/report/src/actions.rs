//! Actions as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::action_groups::{ActionGroup, describe_outcome};
use super::cluster_names::{ClusterCell, find_missing, join_clusters};
use super::table::{TextStyle, format_count};
use federate_kubernetes::ClusterName;
use federate_kubernetes::display_text::escape_line;
use federate_reconcile::cluster_errors::{MAX_SINGLE_OBJECTS, summarize_objects};
use federate_reconcile::{Action, ActionKind, ActionOutcome, Actions, FieldDiff};

/// Marks actions that were not dry-run on an API server.
pub(super) const PREDICTED_NOTE: &str = "; predicted without the API server";

/// The actions as a table: one row per object and equal change, with its clusters, and with the fields that change below
/// it. Similar objects share one row, unless every object is to be shown.
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

/// The width between the columns of clusters and of objects: the word, and the space around it.
const WORD_WIDTH: usize = 13;

/// Rows as a table, with their clusters and fields below them, and the clusters that could not be read last.
pub(super) fn write_rows(rows: &[ActionRow<'_>], actions: &Actions, style: TextStyle) -> String {
    let mut out = String::new();
    let inventory = run_clusters(actions);
    let cluster = rows.iter().map(|row| name_cell(&row.clusters, &inventory, 0, style).text.chars().count());
    let cluster = cluster.max().unwrap_or(0).min(MAX_CLUSTER_WIDTH);
    let indent = cluster + WORD_WIDTH;
    let object = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for row in rows {
        let (action, cell) = (row.action, name_cell(&row.clusters, &inventory, indent, style));
        let word =
            style.paint_text(action_color(action.action), &format!("{:9}", action_word(action.action)));
        let restarts = if action.restarts_pods {
            style.paint_text(AnsiColor::Red, "  restarts its pods")
        } else {
            String::new()
        };
        let said =
            describe_outcome(action).map(|said| format!("  {}", escape_line(&said))).unwrap_or_default();
        let line = format!("{:cluster$}  {word}  {:object$}{restarts}{said}", cell.text, row.name);
        let _ = writeln!(out, "{}", line.trim_end());
        for line in cell.below.iter().chain(&row.fields) {
            let _ = writeln!(out, "{:indent$}{line}", "");
        }
    }
    let mut failed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, error) in failed_clusters(actions) {
        failed.entry(error).or_default().push(name);
    }
    for (error, names) in failed {
        let cell = name_cell(&names, &inventory, indent, style);
        let word = style.paint_text(AnsiColor::Red, &format!("{:9}", "failed"));
        let _ = writeln!(out, "{:cluster$}  {word}  {}", cell.text, escape_line(error));
        for line in &cell.below {
            let _ = writeln!(out, "{:indent$}{line}", "");
        }
    }
    out
}

/// The cell of a row, and the lines with its clusters below it.
fn name_cell(names: &[&str], inventory: &[&str], indent: usize, style: TextStyle) -> ClusterCell {
    let names: Vec<String> = names.iter().map(|name| escape_line(name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The clusters of a run may be some of the inventory, so that they are not said to be all.
    if !style.full && find_missing(&names, inventory).is_some_and(|missing| missing.is_empty()) {
        return ClusterCell::from_name(&format_count(names.len(), "cluster"));
    }
    ClusterCell::new(&names, inventory, MAX_CLUSTER_WIDTH, indent, style)
}

/// Clusters of a run in a sentence.
pub(super) fn name_clusters(names: &[&str], inventory: &[&str]) -> String {
    match find_missing(names, inventory) {
        Some(missing) if missing.is_empty() => format_count(names.len(), "cluster"),
        _ => join_clusters(names, inventory, false),
    }
}

/// The names of the clusters of a run.
pub(super) fn run_clusters(actions: &Actions) -> Vec<&str> {
    actions.clusters.iter().map(|cluster| cluster.name.as_ref()).collect()
}

/// A row of the table: one action in some clusters, or several similar ones.
pub(super) struct ActionRow<'a> {
    /// One of the actions, which stands for all.
    pub(super) action: &'a Action,
    pub(super) clusters: Vec<&'a str>,
    /// The object, or several.
    pub(super) name: String,
    /// A line for each field.
    pub(super) fields: Vec<String>,
}

fn build_rows<'a>(actions: &[&'a Action], all: bool) -> Vec<ActionRow<'a>> {
    let groups = ActionGroup::group_actions(actions.iter().copied());
    let mut alike: BTreeMap<_, Vec<&Action>> = BTreeMap::new();
    for group in groups.iter().filter(|_| !all) {
        if let Some(key) = folding_key(group) {
            alike.entry(key).or_default().push(group.first);
        }
    }
    let mut rows = Vec::new();
    for group in &groups {
        let action = group.first;
        let name = match folding_key(group).and_then(|key| alike.get(&key)) {
            Some(same) if same.len() > MAX_SINGLE_OBJECTS => {
                if !same.first().is_some_and(|first| std::ptr::eq(*first, action)) {
                    continue;
                }
                summarize_objects(same.iter().map(|action| &action.object))
            }
            _ => action.object.to_string(),
        };
        let fields = action.diffs.iter().enumerate();
        rows.push(ActionRow {
            action,
            clusters: group.cluster_names(),
            name: escape_line(&name),
            fields: fields.map(|(place, diff)| format_field(diff, group.time_range(place))).collect(),
        });
    }
    rows
}

/// The clusters, the kind and the outcome of a group that may share a row with others.
fn folding_key<'a>(group: &ActionGroup<'a>) -> Option<(Vec<&'a str>, ActionKind, String)> {
    let action = group.first;
    if !action.diffs.is_empty() || action.restarts_pods {
        return None;
    }
    Some((group.cluster_names(), action.action, describe_outcome(action)?))
}

/// The clusters that could not be processed, with the error.
pub(super) fn failed_clusters(actions: &Actions) -> impl Iterator<Item = (&ClusterName, &str)> {
    actions.clusters.iter().filter_map(|cluster| Some((&cluster.name, cluster.error.as_deref()?)))
}

/// One line per error; one line covers several objects, and several clusters, that failed in the same way. Actions that were
/// not tried are errors only if `everything` was to be done.
pub fn format_errors(actions: &Actions, everything: bool) -> Vec<String> {
    let errors = actions.list_errors(everything);
    group_messages(actions, errors.iter().map(|error| (error.message.as_str(), error.cluster.as_ref())))
}

/// Warnings about clusters; one line covers all clusters with the same warning.
pub fn format_notes(actions: &Actions) -> Vec<String> {
    let notes = actions.clusters.iter();
    let notes =
        notes.flat_map(|cluster| cluster.notes.iter().map(|note| (note.as_str(), cluster.name.as_ref())));
    group_messages(actions, notes)
}

/// Each message with its clusters, in the order of the first ones.
fn group_messages<'a>(actions: &Actions, messages: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (message, cluster) in messages {
        let place = *places.entry(message).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, clusters)) => clusters.push(cluster),
            None => groups.push((message, vec![cluster])),
        }
    }
    let inventory = run_clusters(actions);
    let lines = groups.into_iter();
    lines.map(|(message, clusters)| format!("{}: {message}", name_clusters(&clusters, &inventory))).collect()
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

/// The change of a field, with who wrote the live value, and when.
fn format_field(diff: &FieldDiff, times: Option<(&str, &str)>) -> String {
    let who = match (&diff.manager, times) {
        (Some(manager), Some((first, last))) if first == last => format!(" ({manager}, {first})"),
        (Some(manager), Some((first, last))) => format!(" ({manager}, {first} to {last})"),
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
