//! Actions and drift: as a table, as Markdown, as `JUnit` XML.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::table::{Look, counted};
use federate_engine::actions::{Action, Deed, FieldDiff};

/// A table of what is done: a row an object, and below it the fields that change.
pub fn table(actions: &[Action], look: Look) -> String {
    let mut out = String::new();
    let shown: Vec<&Action> =
        actions.iter().filter(|action| look.full || action.action != Deed::Unchanged).collect();
    let width = |text: &dyn Fn(&Action) -> usize| shown.iter().map(|a| text(a)).max().unwrap_or(0);
    let (cluster, object) = (width(&|a| a.cluster.len()), width(&|a| a.object.to_string().len()));
    for action in &shown {
        let word = look.paint(color(action.action), &format!("{:9}", word(action.action)));
        let restarts = if action.restarts_pods {
            look.paint(AnsiColor::Red, "  restarts its pods")
        } else {
            String::new()
        };
        let reason =
            action.reason.as_ref().map(|reason| format!("  {}", visible(reason))).unwrap_or_default();
        let name = visible(&action.object.to_string());
        let line = format!("{:cluster$}  {word}  {name:object$}{restarts}{reason}", visible(&action.cluster));
        let _ = writeln!(out, "{}", line.trim_end());
        for diff in &action.diffs {
            let _ = writeln!(out, "{:cluster$}             {}", "", field(diff));
        }
    }
    let _ = writeln!(out, "{}", look.bold(&summary(actions)));
    out
}

/// How many objects of each deed there are, in how many clusters.
pub fn summary(actions: &[Action]) -> String {
    let mut counts: BTreeMap<Deed, usize> = BTreeMap::new();
    for action in actions {
        *counts.entry(action.action).or_default() += 1;
    }
    let clusters: std::collections::BTreeSet<_> = actions.iter().map(|action| &action.cluster).collect();
    let restarts = actions.iter().filter(|action| action.restarts_pods).count();
    let counts: Vec<String> = counts.iter().map(|(deed, n)| format!("{n} {}", word(*deed))).collect();
    if counts.is_empty() {
        return "nothing to do".to_owned();
    }
    let clusters = counted(clusters.len(), "cluster");
    format!("{} in {clusters}, {restarts} with restarts of pods", counts.join(", "))
}

/// Drift as Markdown.
pub fn markdown(actions: &[Action]) -> String {
    if actions.is_empty() {
        return "### federate: no drift\n".to_owned();
    }
    let mut out = format!("### federate: {} drifted\n\n", counted(actions.len(), "object"));
    out.push_str(
        "| cluster | object | field | desired | live | who | when |\n|---|---|---|---|---|---|---|\n",
    );
    for action in actions {
        let object = action.object.to_string();
        let mut row = |cells: [&str; 5]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                escaped(&action.cluster),
                escaped(&object),
                cells.join(" | ")
            );
        };
        if let Some(reason) = &action.reason {
            row([reason, "", "", "", ""]);
        }
        for diff in &action.diffs {
            let (desired, live) = (value(diff.desired.as_ref()), value(diff.live.as_ref()));
            let (manager, time) = (diff.manager.as_deref().unwrap_or(""), diff.time.as_deref().unwrap_or(""));
            row([&diff.path, &desired, &live, manager, time]);
        }
    }
    out
}

/// Drift as `JUnit` XML: a suite a cluster, a failed case an object.
pub fn junit(actions: &[Action]) -> String {
    let mut suites: BTreeMap<&str, Vec<&Action>> = BTreeMap::new();
    for action in actions {
        suites.entry(&action.cluster).or_default().push(action);
    }
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"federate drift\">\n");
    for (cluster, actions) in suites {
        let count = actions.len();
        let _ =
            writeln!(out, "  <testsuite name=\"{}\" tests=\"{count}\" failures=\"{count}\">", xml(cluster));
        for action in actions {
            let lines: Vec<String> =
                action.reason.iter().cloned().chain(action.diffs.iter().map(field)).collect();
            let _ = writeln!(
                out,
                "    <testcase classname=\"{}\" name=\"{}\">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                xml(cluster),
                xml(&action.object.to_string()),
                xml(action.reason.as_deref().unwrap_or("it differs from what is rendered")),
                xml(&lines.join("\n")),
            );
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn field(diff: &FieldDiff) -> String {
    let who = match (&diff.manager, &diff.time) {
        (Some(manager), Some(time)) => format!(" ({manager}, {time})"),
        (Some(manager), None) => format!(" ({manager})"),
        _ => String::new(),
    };
    let (live, desired) = (value(diff.live.as_ref()), value(diff.desired.as_ref()));
    visible(&format!("{}: {live} → {desired}{who}", diff.path))
}

fn value(value: Option<&serde_json::Value>) -> String {
    let text = value.map_or_else(|| "(none)".to_owned(), ToString::to_string);
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::Create => "create",
        Deed::Update => "update",
        Deed::Adopt => "adopt",
        Deed::Unchanged => "unchanged",
        Deed::Conflict => "conflict",
        Deed::Skip => "skip",
        Deed::Delete => "delete",
    }
}

fn color(deed: Deed) -> AnsiColor {
    match deed {
        Deed::Create | Deed::Adopt => AnsiColor::Green,
        Deed::Update => AnsiColor::Yellow,
        Deed::Delete | Deed::Conflict => AnsiColor::Red,
        Deed::Unchanged | Deed::Skip => AnsiColor::BrightBlack,
    }
}

/// Text of a repo or a cluster without what a terminal would obey.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("&#64;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

fn xml(text: &str) -> String {
    let clean =
        text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect::<String>();
    clean
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\n', "&#10;")
}
