//! A diff for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::groups::{Entry, Move, entries, entries_in_full, moves, not_shown};
use super::{Diff, PRUNED, UNMATCHED, headline, objects, share, side, unmatched, values, visible, word};
use crate::findings::Row;
use crate::table::{TextStyle, counted};
use federate_engine::change::{ObjectChangeKind, PathChange, PlacementChangeKind, Pruned};
use federate_kubernetes::{ClusterName, ObjectRef, Severity};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The changed fields, without manifests.
    Fields,
    /// Also the manifests, as unified diffs.
    Manifests,
}

/// How many names of a list are shown, unless all are to be shown.
const NAMES: usize = 8;

/// The diff as text; one sentence if nothing differs.
pub fn text(diff: &Diff<'_>, detail: Detail, style: TextStyle) -> String {
    let report = Report { diff, detail, style };
    let mut out = String::new();
    let (from, to) = (side(diff.from), side(diff.to));
    let summary = if diff.changes.is_empty() {
        format!("{from} and {to} render the same")
    } else {
        style.bold(&format!("{from} → {to}: {}", headline(diff)))
    };
    if !style.quiet {
        let _ = writeln!(out, "{summary}");
    }
    report.clusters(&mut out);
    report.pruned(&mut out);
    report.moves(&mut out);
    report.entries(&mut out);
    report.unmatched(&mut out);
    report.findings(&mut out);
    out
}

struct Report<'r> {
    diff: &'r Diff<'r>,
    detail: Detail,
    style: TextStyle,
}

impl Report<'_> {
    fn most(&self) -> usize {
        if self.style.full { usize::MAX } else { NAMES }
    }

    fn names(&self, names: &[&ClusterName]) -> String {
        if self.style.full {
            return names.iter().map(|name| visible(name)).collect::<Vec<_>>().join(", ");
        }
        self.diff.clusters(names, self.most()).join(str::to_owned)
    }

    fn objects(&self, names: &[&ObjectRef]) -> String {
        objects(names, self.most()).join(str::to_owned)
    }

    fn head(&self, out: &mut String, title: &str) {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{}", self.style.bold(title));
    }

    fn clusters(&self, out: &mut String) {
        let clusters = &self.diff.changes.clusters;
        if clusters.is_empty() {
            return;
        }
        self.head(out, "Clusters");
        for (names, sign, color) in
            [(&clusters.added, '+', AnsiColor::Green), (&clusters.removed, '-', AnsiColor::Red)]
        {
            if !names.is_empty() {
                let names: Vec<&ClusterName> = names.iter().collect();
                let _ =
                    writeln!(out, "  {}", self.style.paint(color, &format!("{sign} {}", self.names(&names))));
            }
        }
    }

    fn moves(&self, out: &mut String) {
        let moves = moves(self.diff.changes);
        if moves.is_empty() {
            return;
        }
        self.head(out, "Placement changes");
        for moved in &moves {
            self.one_move(out, moved);
        }
    }

    fn one_move(&self, out: &mut String, moved: &Move<'_>) {
        let change = moved.change;
        let (sign, color) = match change.kind {
            PlacementChangeKind::Appeared => ('+', AnsiColor::Green),
            PlacementChangeKind::Disappeared => ('-', AnsiColor::Red),
            _ => ('~', AnsiColor::Yellow),
        };
        let replicas = match (change.replicas.from, change.replicas.to) {
            _ if moved.objects.len() > 1 => String::new(),
            (Some(from), Some(to)) if from != to => format!(", {from} → {to} replicas"),
            (Some(same), Some(_)) if (1..same).contains(&change.moved()) => {
                format!(", {} of {same} replicas", change.moved())
            }
            (Some(same), _) | (None, Some(same)) => format!(", {same} replicas"),
            (None, None) => String::new(),
        };
        let sign = self.style.paint(color, &sign.to_string());
        let _ = writeln!(out, "  {sign} {} {}{replicas}", self.objects(&moved.objects), word(change));
        for shift in &moved.shifts {
            let words = format!("{} → {}", share(shift.from), share(shift.to));
            let _ = writeln!(out, "      {words:<16} {}", self.names(&shift.clusters));
        }
        let by = moved.by(|object| visible(&object.to_string()));
        if !by.is_empty() {
            let _ = writeln!(out, "      {by}");
        }
        match (&change.unschedulable.from, &change.unschedulable.to) {
            (from, Some(why)) if from.as_ref() != Some(why) => {
                let words = match why.reason.as_str() {
                    "Unschedulable" => format!("unschedulable: {}", why.message),
                    reason => format!("unschedulable: {reason}: {}", why.message),
                };
                let _ = writeln!(out, "      {}", self.style.paint(AnsiColor::Red, &visible(&words)));
            }
            (Some(why), None) => {
                let _ = writeln!(out, "      no longer unschedulable ({})", visible(&why.reason));
            }
            _ => {}
        }
        for (names, what) in [(&change.suspended, "suspended in"), (&change.resumed, "resumed in")] {
            if !names.is_empty() {
                let _ = writeln!(out, "      {what} {}", self.names(&names.iter().collect::<Vec<_>>()));
            }
        }
    }

    fn entries(&self, out: &mut String) {
        let all = if self.style.full { entries_in_full } else { entries };
        let (entries, not_shown) = (all(self.diff.changes), not_shown(self.diff.changes));
        if entries.is_empty() && not_shown.is_none() {
            return;
        }
        self.head(out, "Manifest changes");
        for entry in &entries {
            self.entry(out, entry);
        }
        if let Some(not_shown) = not_shown {
            let _ = writeln!(out, "  {not_shown}");
        }
    }

    fn entry(&self, out: &mut String, entry: &Entry<'_>) {
        let (sign, color) = match entry.kind {
            ObjectChangeKind::Added => ('+', AnsiColor::Green),
            ObjectChangeKind::Changed => ('~', AnsiColor::Yellow),
            ObjectChangeKind::Removed => ('-', AnsiColor::Red),
        };
        let sign = self.style.paint(color, &sign.to_string());
        if !entry.variations.is_empty() && !self.style.full {
            let (objects, clusters) = (counted(entry.objects().len(), "object"), entry.clusters());
            let _ = writeln!(
                out,
                "  {sign} {objects} in {}, each with its own values{}",
                self.names(&clusters),
                entry.note()
            );
            return self.variations(out, entry);
        }
        for (clusters, objects) in &entry.places {
            let _ = writeln!(
                out,
                "  {sign} {} in {}{}",
                self.objects(objects),
                self.names(clusters),
                entry.note()
            );
        }
        if entry.kind == ObjectChangeKind::Changed && entry.paths.is_empty() {
            let _ = writeln!(out, "      only the order of items or the notation");
        }
        for path in &entry.paths {
            self.path(out, path);
        }
        if self.detail == Detail::Fields {
            return;
        }
        if entry.variants > 1 {
            let _ = writeln!(out, "      one of {} different manifests:", entry.variants);
        }
        for line in visible(entry.diff).lines() {
            let painted = match line.as_bytes().first() {
                Some(b'+') => self.style.paint(AnsiColor::Green, line),
                Some(b'-') => self.style.paint(AnsiColor::Red, line),
                Some(b'@') => self.style.paint(AnsiColor::Cyan, line),
                _ => line.to_owned(),
            };
            let _ = writeln!(out, "    {painted}");
        }
    }

    /// The values of each object, as a table.
    fn variations(&self, out: &mut String, entry: &Entry<'_>) {
        let clusters = entry.clusters();
        for path in &entry.paths {
            let _ = writeln!(out, "      {}", visible(&path.path));
        }
        let several = entry.paths.len() > 1;
        let mut rows = vec![["OBJECT".to_owned(), "BEFORE".to_owned(), "AFTER".to_owned(), String::new()]];
        for variation in &entry.variations {
            let mut names = self.objects(&variation.objects);
            let mut members = String::new();
            if variation.is_pattern {
                members = format!("  ({names})");
                names = counted(variation.objects.len(), "object");
            }
            if variation.clusters != clusters {
                names = format!("{names} in {}", self.names(&variation.clusters));
            }
            for field in &variation.fields {
                let path = if several { format!("{}: ", visible(field.path)) } else { String::new() };
                let (names, members) = (std::mem::take(&mut names), std::mem::take(&mut members));
                rows.push([names, format!("{path}{}", field.from), field.to.clone(), members]);
            }
        }
        let width = |at: usize, most: usize| {
            let widths = rows.iter().filter_map(|row| Some(row.get(at)?.chars().count()));
            widths.filter(|width| *width <= most).max().unwrap_or(0)
        };
        let (object, before) = (width(0, 60), width(1, 80));
        for [name, from, to, members] in &rows {
            let from = self.style.paint(AnsiColor::Red, &format!("{from:before$}"));
            let to = self.style.paint(AnsiColor::Green, to);
            let _ = writeln!(out, "        {name:object$}  {from}  {to}{members}");
        }
    }

    fn path(&self, out: &mut String, path: &PathChange) {
        let (from, to) = values(path);
        let from = self.style.paint(AnsiColor::Red, &from);
        let to = self.style.paint(AnsiColor::Green, &to);
        let _ = writeln!(out, "      {}: {from} → {to}", visible(&path.path));
    }

    fn pruned(&self, out: &mut String) {
        for (title, left) in PRUNED {
            let groups: Vec<&Pruned> =
                self.diff.changes.pruned.iter().filter(|group| group.unreachable == left).collect();
            if groups.is_empty() {
                continue;
            }
            self.head(out, title);
            for group in groups {
                let names = self.names(&group.clusters.iter().collect::<Vec<_>>());
                let objects = self.objects(&group.objects.iter().collect::<Vec<_>>());
                let _ = writeln!(out, "  {} {names}: {objects}", self.style.paint(AnsiColor::Red, "-"));
            }
        }
    }

    fn unmatched(&self, out: &mut String) {
        let mut groups: BTreeMap<&str, Vec<&ObjectRef>> = BTreeMap::new();
        for (object, what) in unmatched(self.diff.changes) {
            groups.entry(what).or_default().push(object);
        }
        if groups.is_empty() {
            return;
        }
        self.head(out, UNMATCHED);
        for (what, objects) in groups {
            let _ = writeln!(out, "  {}: {what}", self.objects(&objects));
        }
    }

    fn findings(&self, out: &mut String) {
        for (rows, title) in
            [(&self.diff.findings, "New findings"), (&self.diff.resolved, "Resolved findings")]
        {
            if rows.is_empty() {
                continue;
            }
            self.head(out, title);
            for row in rows.iter().take(self.most()) {
                self.finding(out, row);
            }
            if let Some(more) = rows.len().checked_sub(self.most()).filter(|more| *more > 0) {
                let _ = writeln!(out, "  … and {more} more");
            }
        }
    }

    fn finding(&self, out: &mut String, row: &Row) {
        let (color, severity) = match row.severity {
            Severity::Error => (AnsiColor::Red, "error"),
            Severity::Warning => (AnsiColor::Yellow, "warning"),
        };
        let severity = self.style.paint(color, &format!("{severity}[{}]", row.code));
        let at = row.place().map(|at| format!(" ({})", visible(&at))).unwrap_or_default();
        let _ = writeln!(out, "  {severity} {}{at}", visible(&row.message));
    }
}
