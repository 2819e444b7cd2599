//! A diff as a comment on a pull request: deletions first, then numbers and the other changes, with details
//! folded, within the size limit of comments.
//!
//! Facts: GitHub Flavored Markdown; a comment on GitHub holds at most 65,536 characters. All text from the
//! repo is escaped (`escape`), so that it cannot add markup or mention people.

use std::fmt::Write as _;

use super::groups::{Entry, Move, Tally, entries, moves, not_shown, restarts, tallies};
use super::{Diff, Named, PRUNED, UNMATCHED, headline, objects, share, side, signed, unmatched, values};
use crate::findings::Row as FoundRow;
use crate::table::counted;
use federate_engine::change::{ObjectChangeKind, PathChange, PlacementChangeKind};
use federate_kubernetes::{ClusterName, ObjectRef, Severity};

mod escape;
mod size_budget;

use escape::{address, code, fenced, html, sentence};
use size_budget::{Row, Section};

/// The largest size of a comment in bytes, which is at least its number of characters.
pub const LONGEST: usize = 59_000;

/// How many names of a list are shown.
const NAMES: usize = 3;

/// The part of all manifests, in percent, beyond which their deletion is an alert.
const DELETED_PERCENT: usize = 30;

/// How many rows a table of clusters or fields has.
const LINES: usize = 40;

/// The marker by which a bot finds its own comment.
pub const MARK: &str = "<!-- federate diff -->";

/// Where the files of a repo are found.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The repo's folder, from the root of its git repository; empty for the root itself.
    pub prefix: String,
    /// The address of the root, to which the path of a file and `#L<line>` are added.
    pub url: Option<String>,
}

impl Files {
    /// The place of a finding as code, from the root of the repository, with a link where there is an address.
    fn place(&self, row: &FoundRow, link: bool) -> Option<String> {
        let place = row.place()?;
        let path = |file: &str| match self.prefix.as_str() {
            "" => file.to_owned(),
            prefix => format!("{}/{file}", prefix.trim_end_matches('/')),
        };
        let shown = code(&path(&place));
        let Some(url) = self.url.as_ref().filter(|_| link) else { return Some(shown) };
        let line = row.line.map(|line| format!("#L{line}")).unwrap_or_default();
        let address = format!("{}/{}{line}", url.trim_end_matches('/'), address(&path(row.file.as_ref()?)));
        Some(format!("[{shown}]({address})"))
    }
}

/// The diff as a comment. `all` is the command that prints what had to be left out.
pub fn markdown(diff: &Diff<'_>, files: &Files, all: &str) -> String {
    let sides = format!("{} → {}", code(&side(diff.from)), code(&side(diff.to)));
    let comment = Comment { diff };
    let mut sections = Vec::new();
    let mut head = if diff.changes.is_empty() {
        format!(
            "{MARK}\n### federate: no changes\n\n{sides}: both revisions render the same manifests for every cluster.\n"
        )
    } else {
        sections.extend(PRUNED.map(|(title, left)| comment.pruned(title, left)));
        sections.push(Section::new("Totals", "", vec![Row::line(comment.summary())]));
        sections.extend([comment.moves(), comment.entries(), comment.unmatched()]);
        format!("{MARK}\n### federate: {}\n\n{sides}\n{}", headline(diff), comment.caution())
    };
    // Links lead to the later side, which does not have the places of what is no longer found.
    sections.extend([findings("New findings", &diff.findings, files, true)]);
    sections.extend([findings("Resolved findings", &diff.resolved, files, false)]);
    head.push_str(&size_budget::fit(sections, LONGEST.saturating_sub(head.len()), all));
    head
}

struct Comment<'r> {
    diff: &'r Diff<'r>,
}

/// A number of things, with `is` or `are`.
fn counted_are(number: usize, what: &str) -> String {
    format!("{} {}", counted(number, what), if number == 1 { "is" } else { "are" })
}

/// Objects as code; if there are many, the first names.
fn named(names: &Named) -> String {
    names.join(code)
}

impl Comment<'_> {
    fn names(&self, names: &[&ClusterName]) -> String {
        named(&self.diff.clusters(names, NAMES))
    }

    fn summary(&self) -> String {
        let (from, to) = (&self.diff.changes.totals.from, &self.diff.changes.totals.to);
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let rows = [
            ("Clusters", number(from.clusters), number(to.clusters)),
            ("Objects placed", number(from.placed), number(to.placed)),
            ("Replicas", from.replicas, to.replicas),
            ("Manifests in all clusters", number(from.manifests), number(to.manifests)),
        ];
        let mut out = "| | before | after | |\n|---|--:|--:|--:|\n".to_owned();
        for (what, from, to) in rows {
            let _ = writeln!(out, "| {what} | {from} | {to} | {} |", signed(to - from));
        }
        let clusters = &self.diff.changes.clusters;
        for (names, what) in [(&clusters.added, "Joins"), (&clusters.removed, "Leaves")] {
            if !names.is_empty() {
                let names: Vec<&ClusterName> = names.iter().collect();
                let _ = writeln!(out, "\n{what}: {}", self.names(&names));
            }
        }
        out + &self.restarts() + &self.tallies()
    }

    /// The workloads whose pods restart.
    fn restarts(&self) -> String {
        let restarts = restarts(self.diff.changes);
        if restarts.is_empty() {
            return String::new();
        }
        let mut workloads: Vec<&ObjectRef> = restarts.iter().map(|(object, _)| *object).collect();
        workloads.dedup();
        let mut clusters: Vec<&ClusterName> = restarts.iter().flat_map(|(_, clusters)| *clusters).collect();
        clusters.sort_unstable();
        clusters.dedup();
        format!("\nPods restart: {} in {}\n", named(&objects(&workloads, NAMES)), self.names(&clusters))
    }

    /// What is deleted, where a reviewer must not miss it: whole objects, or a large part of all manifests.
    fn caution(&self) -> String {
        let changes = self.diff.changes;
        let removed = || changes.objects.iter().filter(|change| change.kind == ObjectChangeKind::Removed);
        let manifests: usize = removed().map(|change| change.clusters.len()).sum();
        let mut whole: Vec<&ObjectRef> =
            removed().filter(|change| !change.elsewhere).map(|change| &change.object).collect();
        whole.dedup();
        let before = changes.totals.from.manifests;
        let mut lines = Vec::new();
        if !whole.is_empty() {
            let names = named(&objects(&whole, 10));
            lines.push(format!("{} no longer in any cluster: {names}", counted_are(whole.len(), "object")));
        }
        if manifests * 100 > before * DELETED_PERCENT {
            let percent = manifests * 100 / before.max(1);
            lines.push(format!("{manifests} of {} deleted ({percent} %)", counted_are(before, "manifest")));
        }
        if lines.is_empty() {
            return String::new();
        }
        format!("\n> [!CAUTION]\n> - {}\n", lines.join("\n> - "))
    }

    /// The changes in each cluster, in numbers.
    fn tallies(&self) -> String {
        let tallies = tallies(self.diff.changes);
        let mut out =
            "\n| cluster | replicas | added | changed | removed |\n|---|--:|--:|--:|--:|\n".to_owned();
        let count = |number: usize| if number == 0 { String::new() } else { number.to_string() };
        for (tally, names) in tallies.iter().take(LINES) {
            let Tally { replicas, added, changed, removed } = *tally;
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                self.names(names),
                signed(replicas),
                count(added),
                count(changed),
                count(removed)
            );
        }
        match tallies.len() {
            0 => String::new(),
            lines if lines > LINES => format!("{out}| … {} more | | | | |\n", lines - LINES),
            _ => out,
        }
    }

    fn moves(&self) -> Section {
        let head = "| object | clusters | before | after | why |\n|---|---|--:|--:|---|\n";
        let rows = moves(self.diff.changes).iter().map(|moved| Row::line(self.moved(moved))).collect();
        Section::new("Placement changes", head, rows)
    }

    fn moved(&self, moved: &Move<'_>) -> String {
        let mut first =
            (named(&objects(&moved.objects, NAMES)), moved.by(|object| code(&object.to_string())));
        let mut out = String::new();
        let mut row = |clusters: &str, from: &str, to: &str| {
            let (object, by) = std::mem::take(&mut first);
            let _ = writeln!(out, "| {object} | {clusters} | {from} | {to} | {by} |");
        };
        for shift in &moved.shifts {
            row(&self.names(&shift.clusters), &share(shift.from), &share(shift.to));
        }
        let change = moved.change;
        if moved.objects.len() == 1 && moved.shifts.len() > 1 && !change.replicas.is_same() {
            let total = |replicas: Option<i64>| replicas.map_or("–".to_owned(), |n| format!("**{n}**"));
            row("*together*", &total(change.replicas.from), &total(change.replicas.to));
        }
        if change.kind == PlacementChangeKind::Policy {
            row("*as before*", "", "");
        }
        if !change.unschedulable.is_same() {
            let why = |why: &Option<federate_dialect::Unschedulable>| {
                why.as_ref().map_or("–".to_owned(), |why| {
                    format!("**{}**: {}", sentence(&why.reason), sentence(&why.message))
                })
            };
            row("*unschedulable*", &why(&change.unschedulable.from), &why(&change.unschedulable.to));
        }
        for (names, what) in
            [(&change.suspended, ["sent", "held back"]), (&change.resumed, ["held back", "sent"])]
        {
            if !names.is_empty() {
                row(&self.names(&names.iter().collect::<Vec<_>>()), what[0], what[1]);
            }
        }
        out
    }

    fn entries(&self) -> Section {
        let entries = entries(self.diff.changes);
        let mut rows: Vec<Row> = entries.iter().map(|entry| self.entry(entry)).collect();
        // An empty line ends the markup of the row before.
        let gap = if rows.is_empty() { "" } else { "\n" };
        rows.extend(not_shown(self.diff.changes).map(|not_shown| Row::line(format!("{gap}*{not_shown}*\n"))));
        Section::new("Manifest changes", "", rows)
    }

    fn entry(&self, entry: &Entry<'_>) -> Row {
        let (all_objects, all_clusters) = (entry.objects(), entry.clusters());
        let bold = |name: &str| format!("<b>{}</b>", html(name));
        let names = objects(&all_objects, NAMES).join(bold);
        let clusters = self.diff.clusters(&all_clusters, NAMES).join(html);
        let what = match (entry.kind, entry.paths.as_slice()) {
            (ObjectChangeKind::Added, _) => "new".to_owned(),
            (ObjectChangeKind::Removed, _) => "removed".to_owned(),
            (ObjectChangeKind::Changed, []) => "only the order differs".to_owned(),
            (ObjectChangeKind::Changed, [only]) if entry.variations.is_empty() => {
                let (from, to) = values(only);
                format!("{}: {} → {}", html(&only.path), html(&from), html(&to))
            }
            (ObjectChangeKind::Changed, [only]) => html(&only.path),
            (ObjectChangeKind::Changed, paths) => counted(paths.len(), "field"),
        };
        let own = if entry.variations.is_empty() { "" } else { ", each with its own value" };
        let lists = self.lists(entry, &all_objects, &all_clusters);
        Row {
            line: format!("{names} in {clusters}{}: {what}{own}", entry.note()),
            lists,
            open: self.variations(entry),
            table: if entry.variations.is_empty() { fields(&entry.paths) } else { String::new() },
            diff: diff_block(entry),
            ..Row::default()
        }
    }

    /// The values of each object, where they differ.
    fn variations(&self, entry: &Entry<'_>) -> String {
        if entry.variations.is_empty() {
            return String::new();
        }
        let clusters = entry.clusters();
        let several = entry.paths.len() > 1;
        let (head, line) = if several { (" field |", "---|") } else { ("", "") };
        let mut out = format!("| object |{head} before | after |\n|---|{line}---|---|\n");
        for variation in &entry.variations {
            let mut names = named(&objects(&variation.objects, NAMES));
            if variation.is_pattern {
                names = format!("{}: {names}", counted(variation.objects.len(), "object"));
            }
            if variation.clusters != clusters {
                names = format!("{names} in {}", self.names(&variation.clusters));
            }
            for field in &variation.fields {
                let path = if several { format!(" {} |", code(field.path)) } else { String::new() };
                let names = std::mem::take(&mut names);
                let _ = writeln!(out, "| {names} |{path} {} | {} |", code(&field.from), code(&field.to));
            }
        }
        out.push('\n');
        out
    }

    /// The names that the first line leaves out.
    fn lists(&self, entry: &Entry<'_>, all_objects: &[&ObjectRef], all_clusters: &[&ClusterName]) -> String {
        let mut out = String::new();
        if entry.is_even() {
            if objects(all_objects, NAMES).more > 0 {
                let _ = writeln!(out, "Objects: {}\n", named(&objects(all_objects, usize::MAX)));
            }
            let names = self.diff.clusters(all_clusters, NAMES);
            if names.more > 0 {
                let _ = writeln!(out, "Clusters: {}\n", named(&self.diff.clusters(all_clusters, usize::MAX)));
            }
            return out;
        }
        for (clusters, names) in &entry.places {
            let names = named(&objects(names, usize::MAX));
            let _ = writeln!(out, "- {names} in {}", named(&self.diff.clusters(clusters, NAMES)));
        }
        out.push('\n');
        out
    }

    fn pruned(&self, title: &'static str, left: bool) -> Section {
        let row = |group: &federate_engine::change::Pruned| {
            let clusters = self.names(&group.clusters.iter().collect::<Vec<_>>());
            let all: Vec<&ObjectRef> = group.objects.iter().collect();
            Row::line(format!("- {clusters}: {}\n", named(&objects(&all, 10))))
        };
        let groups = self.diff.changes.pruned.iter().filter(|group| group.unreachable == left);
        Section::new(title, "", groups.map(row).collect())
    }

    fn unmatched(&self) -> Section {
        let rows = unmatched(self.diff.changes);
        let rows = rows.map(|(object, what)| Row::line(format!("- {}: {what}\n", code(&object.to_string()))));
        Section::new(UNMATCHED, "", rows.collect())
    }
}

fn findings(title: &'static str, rows: &[FoundRow], files: &Files, link: bool) -> Section {
    let row = |row: &FoundRow| {
        let severity = match row.severity {
            Severity::Error => "**error**",
            Severity::Warning => "warning",
        };
        let at = files.place(row, link).map(|at| format!(" ({at})")).unwrap_or_default();
        let help = row.help.as_ref().map(|help| format!("; {}", sentence(help))).unwrap_or_default();
        Row::line(format!("- {severity} {}: {}{at}{help}\n", code(row.code), sentence(&row.message)))
    };
    Section::new(title, "", rows.iter().map(row).collect())
}

/// The changed fields as a table.
fn fields(paths: &[&PathChange]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let mut out = "| field | before | after |\n|---|---|---|\n".to_owned();
    for path in paths.iter().take(LINES) {
        let (from, to) = values(path);
        let cell = |side: &Option<serde_json::Value>, text: &str| match side {
            None => "–".to_owned(),
            Some(_) => code(text),
        };
        let (from, to) = (cell(&path.from, &from), cell(&path.to, &to));
        let _ = writeln!(out, "| {} | {from} | {to} |", code(&path.path));
    }
    if let Some(more) = paths.len().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = writeln!(out, "| … and {more} more | | |");
    }
    out.push('\n');
    out
}

fn diff_block(entry: &Entry<'_>) -> String {
    if entry.diff.is_empty() {
        return String::new();
    }
    let which = match (entry.objects().as_slice(), entry.variants) {
        ([first, _, ..], _) => format!("Of {}, for example:\n\n", code(&first.to_string())),
        (_, 1) => String::new(),
        (_, variants) => format!("One of its {variants} versions:\n\n"),
    };
    which + &fenced(entry.diff)
}
