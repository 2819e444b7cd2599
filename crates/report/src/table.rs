//! A plan as a table: one row per object, with its clusters and their replicas, cut to the width of the
//! terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use federate_dialect::{Placed, Placement, Plan};

/// The style of text output.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// The width of the terminal in columns.
    pub width: usize,
    /// Whether to use colour.
    pub color: bool,
    /// Whether to name every cluster, on as many lines as needed.
    pub full: bool,
}

impl TextStyle {
    /// The text in a colour.
    pub(super) fn paint(self, color: AnsiColor, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = Style::new().fg_color(Some(color.into()));
        format!("{style}{text}{style:#}")
    }

    /// The text in the colour of chosen clusters.
    pub(super) fn chosen(self, text: &str) -> String {
        self.paint(AnsiColor::Green, text)
    }

    /// The text in bold.
    pub(super) fn bold(self, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = Style::new().bold();
        format!("{style}{text}{style:#}")
    }
}

/// The smallest width of the column of clusters.
const CLUSTERS_MIN: usize = 30;

/// The plan as a table with a summary line and the releases that decided. `clusters` is the size of the
/// inventory.
pub fn plan(plan: &Plan, clusters: usize, style: TextStyle) -> String {
    let mut out = String::new();
    let rows: Vec<[String; 3]> = plan.placements.iter().map(cells).collect();
    let widest = |column: usize, head: &str| {
        rows.iter().map(|r| r[column].chars().count()).chain([head.len()]).max().unwrap_or(0)
    };
    let (object, policy, replicas) = (widest(0, "OBJECT"), widest(1, "POLICY"), widest(2, "REPLICAS"));
    let spare = style.width.saturating_sub(CLUSTERS_MIN + replicas + 6);
    let (object, policy) = share(object, policy, spare);
    let indent = object + policy + replicas + 6;
    let width = style.width.saturating_sub(indent).max(CLUSTERS_MIN);
    if !rows.is_empty() {
        let head = format!("{:object$}  {:policy$}  {:>replicas$}  CLUSTERS", "OBJECT", "POLICY", "REPLICAS");
        let _ = writeln!(out, "{}", style.bold(&head));
    }
    for (placement, [name, by, count]) in plan.placements.iter().zip(&rows) {
        let (name, by) = (cut(name, object), cut(by, policy));
        let where_to = placed(placement, clusters, width, style);
        let mut lines = where_to.into_iter();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(out, "{name:object$}  {by:policy$}  {count:>replicas$}  {first}");
        for line in lines {
            let _ = writeln!(out, "{:indent$}{line}", "");
        }
    }
    for id in &plan.unmatched {
        let name = cut(&id.to_string(), object);
        let _ = writeln!(out, "{name:object$}  {}", style.paint(AnsiColor::Yellow, "no policy matches"));
    }
    let _ = writeln!(out, "\n{}", style.bold(&(summary(plan, clusters) + &releases(plan))));
    out
}

/// The releases whose rules decided.
fn releases(plan: &Plan) -> String {
    let all: Vec<String> = plan.versions.iter().map(|(name, release)| format!("{name} {release}")).collect();
    if all.is_empty() { String::new() } else { format!(", by the rules of {}", all.join(", ")) }
}

/// A summary: how many objects are placed, and how many are not.
pub fn summary(plan: &Plan, clusters: usize) -> String {
    let placements = &plan.placements;
    let placed = placements.iter().filter(|p| !p.clusters.is_empty()).count();
    let unschedulable = placements.iter().filter(|p| p.unschedulable.is_some()).count();
    let replicas: i64 = placements.iter().flat_map(|p| &p.clusters).filter_map(|c| c.replicas).sum();
    let objects = placements.len() + plan.unmatched.len();
    format!(
        "{}, {}: {placed} placed with {}, {unschedulable} unschedulable, {} unmatched",
        counted(objects, "object"),
        counted(clusters, "cluster"),
        counted(usize::try_from(replicas).unwrap_or(0), "replica"),
        plan.unmatched.len()
    )
}

/// `1 object`, `2 objects`
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn cells(placement: &Placement) -> [String; 3] {
    let policy = match (&placement.policy, placement.required_by.first()) {
        (Some(policy), _) => policy.to_string(),
        (None, Some(by)) => match placement.required_by.len() {
            1 => format!("needed by {by}"),
            n => format!("needed by {by} and {} more", n - 1),
        },
        (None, None) => "(every cluster)".to_owned(),
    };
    let replicas: Option<i64> =
        placement.clusters.iter().filter_map(|c| c.replicas).fold(None, |sum, r| Some(sum.unwrap_or(0) + r));
    [placement.object.to_string(), policy, replicas.map_or("-".to_owned(), |r| r.to_string())]
}

/// Divides `spare` columns between two columns that need `a` and `b`.
fn share(a: usize, b: usize, spare: usize) -> (usize, usize) {
    if a + b <= spare {
        return (a, b);
    }
    let a_gets = a.min(spare.saturating_sub(b.min(spare / 2))).max(12);
    (a_gets, b.min(spare.saturating_sub(a_gets)).max(12))
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The lines in the column of clusters.
fn placed(placement: &Placement, inventory: usize, width: usize, style: TextStyle) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(unschedulable) = &placement.unschedulable {
        let words = format!("{}: {}", unschedulable.reason, unschedulable.message);
        lines.extend(wrap(&words, width).into_iter().map(|line| style.paint(AnsiColor::Red, &line)));
        if !placement.clusters.is_empty() {
            lines.push("kept from the previous plan:".to_owned());
        }
    }
    if placement.clusters.is_empty() {
        if lines.is_empty() {
            lines.push("nowhere".to_owned());
        }
        return lines;
    }
    let most = if style.full { usize::MAX } else { 2 };
    lines.extend(names(&placement.clusters, inventory, width, most));
    if !placement.suspended.is_empty() {
        let held = placement.suspended.join(" ");
        lines.push(style.paint(AnsiColor::Yellow, &cut(&format!("suspended: {held}"), width)));
    }
    lines
}

/// Cluster names with replicas, on at most `most` lines, then the number of the others. If all clusters have
/// the same replicas, their number is enough.
fn names(clusters: &[Placed], inventory: usize, width: usize, most: usize) -> Vec<String> {
    let first = clusters.first().and_then(|c| c.replicas);
    let same = clusters.len() > 1 && clusters.iter().all(|c| c.replicas == first);
    let head = match (same, first) {
        (true, Some(replicas)) => format!("{} × {replicas}", clusters.len()),
        (true, None) => clusters.len().to_string(),
        (false, _) => String::new(),
    };
    if same && clusters.len() == inventory && most != usize::MAX {
        return vec![format!("all {head}")];
    }
    let word = |c: &Placed| match c.replicas {
        Some(replicas) if !same => format!("{}:{replicas}", c.name),
        _ => c.name.to_string(),
    };
    let mut lines = vec![if head.is_empty() { head } else { format!("{head}: ") }];
    for (at, cluster) in clusters.iter().enumerate() {
        let left = clusters.len() - at;
        let tail = format!("… {left} more");
        let word = word(cluster);
        let last = lines.len() >= most;
        let Some(line) = lines.last_mut() else { break };
        let reserve = if last && left > 1 { tail.chars().count() + 1 } else { 0 };
        if line.chars().count() + word.chars().count() + reserve > width && !line.is_empty() {
            if last {
                line.push_str(&tail);
                break;
            }
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(&word);
            line.push(' ');
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines
            .last()
            .is_some_and(|l| !l.is_empty() && l.chars().count() + 1 + word.chars().count() > width);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
