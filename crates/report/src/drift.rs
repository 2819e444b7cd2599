//! Drift as a table, as Markdown, and as `JUnit` XML: what was rendered, what is live, and who has changed it and when.
//! Equal changes in several clusters are one entry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::action_groups::{ActionGroup, describe_outcome};
use super::actions::{
    ActionRow, PREDICTED_NOTE, failed_clusters, format_value, name_clusters, run_clusters, write_rows,
};
use super::annotations::escape_xml;
use super::cluster_names::join_clusters;
use super::escape::escape_prose;
use super::size_budget::{self as budget, Importance, MAX_COMMENT_BYTES, Section};
use super::table::{TextStyle, format_count};
use federate_kubernetes::display_text::escape_line;
use federate_reconcile::{Action, ActionKind, ActionOutcome, Actions, FieldDiff, Writer};

/// How many clusters that could not be read a comment has lines about.
const MAX_NAMES: usize = 10;

/// The sentence for no drift, which names the clusters that could not be looked at.
pub fn no_drift(actions: &Actions) -> String {
    let unread: Vec<&str> = failed_clusters(actions).map(|(name, _)| name.as_ref()).collect();
    let read = actions.clusters.len() - unread.len();
    let unknown = name_clusters(&unread, &run_clusters(actions));
    match (unread.is_empty(), read) {
        (true, _) => "no drift\n".to_owned(),
        (false, 0) => format!("unknown: no cluster could be read ({unknown})\n"),
        (false, _) => {
            let read = format_count(read, "cluster");
            format!("no drift in the {read} that could be read; unknown in {unknown}\n")
        }
    }
}

/// Drift as a table: one row for each object and equal change, with the fields below it.
pub fn format_table(actions: &Actions, style: TextStyle) -> String {
    if actions.actions.is_empty() {
        return no_drift(actions);
    }
    let mut rows: Vec<ActionRow<'_>> = Vec::new();
    for group in ActionGroup::group_actions(&actions.actions) {
        let (clusters, name) = (group.cluster_names(), escape_line(&group.first.object.to_string()));
        rows.push(ActionRow { action: group.first, clusters, name, fields: field_lines(&group, actions) });
    }
    let mut out = write_rows(&rows, actions, style);
    let _ = writeln!(out, "{}", style.paint_bold(&format_summary(actions)));
    for line in format_counts(actions) {
        let _ = writeln!(out, "{}", escape_line(&line));
    }
    out
}

/// How many objects have drifted, and in how many clusters.
pub(crate) fn format_summary(actions: &Actions) -> String {
    let clusters: BTreeSet<_> = actions.actions.iter().map(|action| &action.cluster).collect();
    let restarts = actions.actions.iter().filter(|action| action.restarts_pods).count();
    let failed = actions.actions.iter().filter(|action| action.outcome == ActionOutcome::Failed).count();
    let mut text = format!(
        "{} drifted in {}",
        format_count(actions.actions.len(), "object"),
        format_count(clusters.len(), "cluster")
    );
    if actions.actions.iter().any(|action| action.outcome == ActionOutcome::Done) {
        let done = actions.actions.iter().filter(|action| action.outcome == ActionOutcome::Done).count();
        let _ = write!(text, ", {done} corrected");
    }
    if restarts > 0 {
        let _ = write!(text, ", {restarts} with pods that restart where it is corrected");
    }
    if failed > 0 {
        let _ = write!(text, ", {failed} failed");
    }
    let unread = failed_clusters(actions).count();
    if unread > 0 {
        let _ = write!(text, "; {} could not be read", format_count(unread, "cluster"));
    }
    if actions.clusters.iter().any(|cluster| cluster.predicted) {
        text.push_str(PREDICTED_NOTE);
    }
    text
}

/// The number of changed fields by manager, and of objects by cluster.
fn format_counts(actions: &Actions) -> Vec<String> {
    let (mut managers, mut clusters) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for action in &actions.actions {
        *clusters.entry(&action.cluster).or_default() += 1;
        for diff in &action.diffs {
            let manager = match (&diff.manager, diff.writer) {
                (Some(manager), _) => manager.as_str(),
                (None, Some(Writer::Server)) => "the API server",
                (None, _) => "unknown, because the field was removed",
            };
            *managers.entry(manager).or_default() += 1;
        }
    }
    let mut lines = Vec::new();
    for (title, counts, noun) in [("changed by", managers, "field"), ("in", clusters, "object")] {
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let texts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} ({})", format_count(*count, noun))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        if !texts.is_empty() {
            lines.push(format!("{title}: {}", join_clusters(&texts, &[], false)));
        }
    }
    lines
}

/// The lines about the fields of a group. A report of all fields has them under who wrote them.
fn field_lines(group: &ActionGroup<'_>, actions: &Actions) -> Vec<String> {
    let mut fields = Vec::new();
    for (place, diff) in group.first.diffs.iter().enumerate() {
        fields.push((diff.writer, escape_line(&format_field(diff, group.time_range(place)))));
    }
    if !is_full(actions) {
        return fields.into_iter().map(|(_, line)| line).collect();
    }
    let mut lines = Vec::new();
    for (writer, title) in WRITERS {
        let mut own = fields.iter().filter(|(by, _)| *by == writer).peekable();
        if own.peek().is_some() {
            lines.push(format!("{title}:"));
        }
        lines.extend(own.map(|(_, line)| format!("  {line}")));
    }
    lines
}

/// Who wrote a field, and how a report of all fields calls them.
const WRITERS: [(Option<Writer>, &str); 5] = [
    (Some(Writer::Person), "people"),
    (None, "removed"),
    (Some(Writer::Federate), "federate"),
    (Some(Writer::Controller), "controllers"),
    (Some(Writer::Server), "defaults and the API server"),
];

/// Whether the report has fields that are unchanged.
fn is_full(actions: &Actions) -> bool {
    actions
        .actions
        .iter()
        .flat_map(|action| &action.diffs)
        .any(|diff| diff.writer == Some(Writer::Server) && diff.desired.is_none())
}

/// What was rendered, what is live, and who has changed it.
fn format_field(diff: &FieldDiff, times: Option<(&str, &str)>) -> String {
    let change = match (&diff.desired, &diff.live) {
        (None, live) => format!("not rendered → live {}", format_value(live.as_ref())),
        (desired, None) => format!("rendered {} → not there", format_value(desired.as_ref())),
        (desired, live) => {
            format!("rendered {} → live {}", format_value(desired.as_ref()), format_value(live.as_ref()))
        }
    };
    let verb = if diff.desired.is_none() { "added" } else { "changed" };
    let who = match (&diff.manager, times) {
        (Some(manager), Some((first, last))) if first == last => format!(", {verb} by {manager} at {first}"),
        (Some(manager), Some((first, last))) => format!(", {verb} by {manager} from {first} to {last}"),
        (Some(manager), None) => format!(", {verb} by {manager}"),
        _ => String::new(),
    };
    format!("{}: {change}{who}", diff.path)
}

/// Drift as Markdown that fits a comment.
pub fn format_markdown(actions: &Actions) -> String {
    let head = match actions.actions.len() {
        0 => format!("### federate: {}\n", escape_prose(no_drift(actions).trim_end())),
        drifted => format!("### federate: {} drifted\n", format_count(drifted, "object")),
    };
    let mut sections = Vec::new();
    let mut summary: Vec<String> = failed_clusters(actions)
        .take(MAX_NAMES)
        .map(|(name, error)| format!("{} could not be read: {}", escape_prose(name), escape_prose(error)))
        .collect();
    let unread = failed_clusters(actions).count();
    if unread > MAX_NAMES {
        summary.push(format!("{} more could not be read", format_count(unread - MAX_NAMES, "cluster")));
    }
    if !actions.actions.is_empty() {
        summary.extend(format_counts(actions).iter().map(|line| escape_prose(line)));
    }
    let summary = summary
        .iter()
        .map(|line| budget::SectionRow::without_details(Importance::Summary, format!("{line}\n\n")))
        .collect();
    sections.push(Section::new("", "", summary));
    let table =
        "| cluster | object | field | rendered | live | changed by | when |\n|---|---|---|---|---|---|---|\n";
    let inventory = run_clusters(actions);
    let rows = ActionGroup::group_actions(&actions.actions)
        .iter()
        .map(|group| {
            let clusters = name_clusters(&group.cluster_names(), &inventory);
            budget::SectionRow::without_details(importance(group), group_rows(group, &clusters))
        })
        .collect();
    sections.push(Section::new("Drift", table, rows));
    let shown =
        budget::fit_sections(sections, MAX_COMMENT_BYTES.saturating_sub(head.len()), "federate drift -v");
    format!("{head}{}", shown.trim_end_matches('\n')) + if shown.is_empty() { "" } else { "\n" }
}

/// How much a group matters to a reader.
fn importance(group: &ActionGroup<'_>) -> Importance {
    let action = group.first;
    match action.action {
        _ if action.outcome == ActionOutcome::Failed => Importance::Summary,
        ActionKind::Create | ActionKind::Delete => Importance::Deletion,
        _ if action.restarts_pods => Importance::Restart,
        _ if action.diffs.iter().any(|diff| diff.live.is_none()) => Importance::Finding,
        _ => match action.diffs.iter().filter_map(|diff| diff.writer).min() {
            None | Some(Writer::Person) => Importance::Finding,
            Some(Writer::Controller | Writer::Federate) => Importance::Value,
            Some(Writer::Server) => Importance::Detail,
        },
    }
}

/// The rows of the Markdown table about a group.
fn group_rows(group: &ActionGroup<'_>, clusters: &str) -> String {
    let action = group.first;
    let mut rows = Vec::new();
    if let Some(outcome) = describe_outcome(action) {
        rows.push([outcome, String::new(), String::new(), String::new(), String::new()]);
    }
    for (place, diff) in action.diffs.iter().enumerate() {
        let (desired, live) = (format_value(diff.desired.as_ref()), format_value(diff.live.as_ref()));
        let when = match group.time_range(place) {
            Some((first, last)) if first != last => format!("{first} – {last}"),
            Some((first, _)) => first.to_owned(),
            None => String::new(),
        };
        rows.push([diff.path.clone(), desired, live, diff.manager.clone().unwrap_or_default(), when]);
    }
    let (clusters, object) = (escape_prose(clusters), escape_prose(&action.object.to_string()));
    let mut out = String::new();
    for cells in rows {
        let cells = cells.map(|cell| escape_prose(&cell)).join(" | ");
        let _ = writeln!(out, "| {clusters} | {object} | {cells} |");
    }
    out
}

/// Drift as `JUnit` XML: one suite per cluster, one failed case per object.
pub fn format_junit(actions: &Actions) -> String {
    let mut suites: BTreeMap<&str, Vec<&Action>> = BTreeMap::new();
    for action in &actions.actions {
        suites.entry(&action.cluster).or_default().push(action);
    }
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"federate drift\">\n");
    for (cluster, actions) in suites {
        let count = actions.len();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{count}\" failures=\"{count}\">",
            escape_xml(cluster)
        );
        for action in actions {
            let fields = action.diffs.iter().map(|diff| {
                let time = diff.time.as_deref();
                escape_line(&format_field(diff, time.map(|time| (time, time))))
            });
            let lines: Vec<String> = action.reason.iter().cloned().chain(fields).collect();
            let _ = writeln!(
                out,
                "    <testcase classname=\"{}\" name=\"{}\">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                escape_xml(cluster),
                escape_xml(&action.object.to_string()),
                escape_xml(action.reason.as_deref().unwrap_or("differs from the rendered object")),
                escape_xml(&lines.join("\n")),
            );
        }
        out.push_str("  </testsuite>\n");
    }
    for (name, error) in failed_clusters(actions) {
        let (name, error) = (escape_xml(name), escape_xml(error));
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"1\" errors=\"1\">\n    <testcase classname=\"{name}\" name=\"cluster\">\n      \
             <error message=\"{error}\"/>\n    </testcase>\n  </testsuite>",
        );
    }
    out.push_str("</testsuites>\n");
    out
}
