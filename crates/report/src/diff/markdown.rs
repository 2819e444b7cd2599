//! A diff as a comment on a pull request: deletions first, then numbers and the other changes, with details
//! folded, within the size limit of comments.
//!
//! Facts: GitHub Flavored Markdown; a comment on GitHub holds at most 65,536 characters. All text from the
//! repo is escaped (`escape`), so that it cannot add markup or mention people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::cluster_sets::ClusterSets;
use super::edits::{EditGroup, Edits, without_effect};
use super::fit::{Fit, Receiver};
use super::groups::{
    Entry, Move, MoveSummary, Tally, entries, moves, not_shown, restarts, summarize_moves, tallies,
};
use super::verdict::VerdictFlag;
use super::{
    Diff, Named, PRUNED, UNMATCHED, headline, objects, share, side, signed, unmatched, values, word,
};
use crate::escape::{address, code, fenced, html, sentence};
use crate::findings::Row as FoundRow;
use crate::size_budget::{self, Importance, MAX_COMMENT, Row, Section};
use crate::table::counted;
use federate_engine::change::{CauseRole, ObjectChange, ObjectChangeKind, PathChange, PlacementChangeKind};
use federate_kubernetes::{ClusterName, ObjectRef, Severity};

/// How many names of a list are shown.
const NAMES: usize = 3;

/// How many names an alert has.
const ALERT_NAMES: usize = 10;

/// The part of all manifests, in percent, beyond which their deletion is an alert.
const DELETED_PERCENT: usize = 30;

/// How many rows a table of clusters or fields has.
const LINES: usize = 40;

/// How many clusters with different changes are shown one by one.
const MAX_CLUSTER_ROWS: usize = 14;

/// How many fields of an edit are shown.
const MAX_FIELDS: usize = 6;

/// How many edits of templates are shown. Their values are also shown with the manifests.
const MAX_TEMPLATE_EDITS: usize = 10;

/// How many of the tightest resources are shown.
const MAX_RECEIVERS: usize = 6;

/// The marker by which a bot finds its own comment.
pub const MARK: &str = "<!-- federate diff -->";

/// Where the files of a repo are found, and how its deletions are confirmed.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The repo's folder, from the root of its git repository; empty for the root itself.
    pub prefix: String,
    /// The address of the root, to which the path of a file and `#L<line>` are added.
    pub url: Option<String>,
    /// The label of the pull request that confirms deletions.
    pub prune_label: Option<String>,
}

impl Files {
    /// A line of a file as code, from the root of the repository, with a link where there is an address.
    fn place(&self, file: &str, line: Option<u32>, link: bool) -> String {
        let path = match self.prefix.as_str() {
            "" => file.to_owned(),
            prefix => format!("{}/{file}", prefix.trim_end_matches('/')),
        };
        let shown = code(&line.map_or(path.clone(), |line| format!("{path}:{line}")));
        let Some(url) = self.url.as_ref().filter(|_| link) else { return shown };
        let line = line.map(|line| format!("#L{line}")).unwrap_or_default();
        format!("[{shown}]({}/{}{line})", url.trim_end_matches('/'), address(&path))
    }

    /// How the deletions beyond the limit are confirmed.
    fn confirmation(&self) -> String {
        let label = self.prune_label.as_deref().map(|label| format!("the label {} or ", code(label)));
        format!("{}`--prune-limit 100` confirms it", label.unwrap_or_default())
    }
}

/// The diff as a comment. `all` is the command that prints what had to be left out.
pub fn markdown(diff: &Diff<'_>, files: &Files, all: &str) -> String {
    let sides = format!("{} → {}", code(&side(diff.from)), code(&side(diff.to)));
    let sets = ClusterSets::new(&diff.inventory);
    let comment = Comment { diff, files, sets, edits: Edits::new(&diff.changes.causes) };
    let mut sections = Vec::new();
    let mut head = if diff.changes.is_empty() {
        format!(
            "{MARK}\n### federate: no changes\n\n{sides}: both revisions render the same manifests for every cluster.\n"
        )
    } else {
        sections.extend(PRUNED.map(|(title, left)| comment.pruned(title, left)));
        sections.extend([comment.edits(), comment.fit()]);
        let totals = vec![Row::line(Importance::Summary, comment.summary())];
        sections.push(Section::new("Totals", "", totals));
        sections.extend(comment.moves());
        sections.extend([comment.entries(), comment.unmatched()]);
        let sentence = &diff.verdict.sentence;
        format!("{MARK}\n### federate: {}\n\n{sides}: {sentence}\n{}", headline(diff), comment.caution())
    };
    // Links lead to the later side, which does not have the places of what is no longer found.
    sections.push(findings("New findings", &diff.findings, files, true));
    sections.push(findings("Resolved findings", &diff.resolved, files, false));
    sections.push(comment.ineffective_edits());
    head.push_str(&size_budget::fit(sections, MAX_COMMENT.saturating_sub(head.len()), all));
    head
}

struct Comment<'r> {
    diff: &'r Diff<'r>,
    files: &'r Files,
    sets: ClusterSets<'r>,
    edits: Edits<'r>,
}

/// A value in a table, where `–` stands for none.
fn cell(value: &str) -> String {
    if value == "–" { value.to_owned() } else { code(value) }
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
        let set = self.diff.name_set(&self.sets, names, NAMES, code);
        set.unwrap_or_else(|| named(&self.diff.clusters(names, NAMES)))
    }

    /// The same in HTML.
    fn html_names(&self, names: &[&ClusterName]) -> String {
        let set = self.diff.name_set(&self.sets, names, NAMES, html);
        set.unwrap_or_else(|| self.diff.clusters(names, NAMES).join(html))
    }

    /// The edits of the repo that cause the changes, with the changed fields and the lines.
    fn edits(&self) -> Section {
        let numbered = self.edits.groups.len() > 1;
        let (head, line) = if numbered { ("| edit ", "|--:") } else { ("", "") };
        let head = format!(
            "{head}| changed in the repo | field | before | after | effect |\n{line}|---|---|---|---|---|\n"
        );
        let mut rows = Vec::new();
        let mut templates = 0;
        for (at, group) in self.edits.groups.iter().enumerate() {
            let is_template = group.first().is_some_and(|cause| cause.role == CauseRole::Template);
            templates += usize::from(is_template);
            if templates > MAX_TEMPLATE_EDITS && is_template {
                continue;
            }
            let number = if numbered { format!("| {} ", at + 1) } else { String::new() };
            let importance = if is_template { Importance::Restart } else { Importance::Cause };
            rows.push(Row::line(importance, self.edit(group, &number)));
        }
        if let Some(more) = templates.checked_sub(MAX_TEMPLATE_EDITS).filter(|more| *more > 0) {
            let number = if numbered { "| " } else { "" };
            let more = counted(more, "more edit");
            rows.push(Row::line(Importance::Restart, format!("{number}| … {more} of templates | | | | |\n")));
        }
        Section::new("Caused by", head, rows)
    }

    fn edit(&self, group: &EditGroup<'_>, number: &str) -> String {
        let Some(cause) = group.first() else { return String::new() };
        let is_gone = cause.kind == ObjectChangeKind::Removed;
        let place = |line: u32| self.files.place(&cause.file, Some(line).filter(|line| *line > 0), !is_gone);
        let names = match group.objects().as_slice() {
            [] => String::new(),
            [one] => format!("{} in ", code(&one.to_string())),
            many => format!("{}, {}, first in ", counted(many.len(), "object"), named(&objects(many, NAMES))),
        };
        let what = match cause.kind {
            ObjectChangeKind::Added => "*new*",
            ObjectChangeKind::Removed => "*removed*",
            ObjectChangeKind::Changed => "*only the order*",
        };
        let (mut names, mut effect, mut number) = (names, group.effect(), number.to_owned());
        let mut out = String::new();
        let fields = group.fields();
        if fields.is_empty() {
            let _ = writeln!(out, "{number}| {names}{} | {what} | | | {effect} |", place(cause.line));
        }
        let mut last_line = 0;
        for field in fields.iter().take(MAX_FIELDS) {
            let at = if field.line == last_line { String::new() } else { place(field.line) };
            last_line = field.line;
            // What templates change stands below the manifests, unless it moves something.
            let is_shown = cause.role != CauseRole::Template || group.moves > 0;
            let (from, to) = match &field.values {
                _ if !is_shown => (String::new(), String::new()),
                Some((from, to)) => (cell(from), cell(to)),
                None => ("*each its own*".to_owned(), String::new()),
            };
            let names = std::mem::take(&mut names);
            let effect = std::mem::take(&mut effect);
            let _ =
                writeln!(out, "{number}| {names}{at} | {} | {from} | {to} | {effect} |", code(field.path));
            if !number.is_empty() {
                "| ".clone_into(&mut number);
            }
        }
        if let Some(more) = fields.len().checked_sub(MAX_FIELDS).filter(|more| *more > 0) {
            let _ = writeln!(out, "{number}| | … {} | | | |", counted(more, "more field"));
        }
        out
    }

    /// The edits that change nothing in any cluster.
    fn ineffective_edits(&self) -> Section {
        let causes = without_effect(self.diff.changes);
        let name = |cause: &&&federate_engine::change::Cause| {
            let object = cause.object.as_ref().map(|object| format!("{} in ", code(&object.to_string())));
            let is_gone = cause.kind == ObjectChangeKind::Removed;
            object.unwrap_or_default() + &self.files.place(&cause.file, Some(cause.line), !is_gone)
        };
        let names: Vec<String> = causes.iter().take(ALERT_NAMES).map(|cause| name(&cause)).collect();
        let mut rows = Vec::new();
        if !names.is_empty() {
            let more = causes.len() - names.len();
            let more = if more > 0 { format!(" … (+{more})") } else { String::new() };
            let line =
                format!("Changed in the repo, without effect in any cluster: {}{more}\n", names.join(", "));
            rows.push(Row::line(Importance::Detail, line));
        }
        Section::new("", "", rows)
    }

    /// Whether what is added fits in the clusters that get it.
    fn fit(&self) -> Section {
        let fit = Fit::new(&self.diff.capacity);
        if fit.is_empty() {
            return Section::new("Does it fit", "", Vec::new());
        }
        let mut text = String::new();
        if !fit.known.is_empty() {
            let known = counted(fit.known_clusters, "cluster");
            let verdict = match fit.exceeded() {
                0 => format!("Yes, in {known} with known resources. The tightest:"),
                full => format!(
                    "**No**: {full} of {known} with known resources would be over-committed. The tightest:"
                ),
            };
            let _ = writeln!(
                text,
                "{verdict}\n\n| cluster | resource | free | asked for | then free | of |\n|---|---|--:|--:|--:|--:|"
            );
            // What does not fit is never cut.
            let shown = fit.known.iter().filter(|one| one.change.is_exceeded()).count().max(MAX_RECEIVERS);
            for receiver in fit.known.iter().take(shown) {
                let Receiver { cluster, resource, change } = receiver;
                let [before, added, after, of] = receiver.amounts();
                let after = if change.is_exceeded() { format!("**{after}**") } else { after };
                let _ = writeln!(
                    text,
                    "| {} | {} | {before} | +{added} | {after} | {of} |",
                    code(cluster),
                    code(resource)
                );
            }
        }
        if !fit.unknown.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            let names: Vec<ClusterName> = fit.unknown.iter().map(|name| (*name).into()).collect();
            let names = self.names(&names.iter().collect::<Vec<_>>());
            let _ = writeln!(
                text,
                "It is not known whether there is room in {names}: neither the inventory nor a snapshot says what is free there."
            );
        }
        Section::new("Does it fit", "", vec![Row::line(Importance::Capacity, text)])
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
        let (number, pods) = (workloads.len(), self.diff.verdict.counts.restarted_pods);
        let pods = match usize::try_from(pods).unwrap_or(0) {
            0 => String::new(),
            pods => format!("{} of {}: ", counted(pods, "pod"), counted(number, "workload")),
        };
        let mut clusters: Vec<&ClusterName> = restarts.iter().flat_map(|(_, clusters)| *clusters).collect();
        clusters.sort_unstable();
        clusters.dedup();
        format!("\nPods restart: {pods}{} in {}\n", named(&objects(&workloads, NAMES)), self.names(&clusters))
    }

    /// What is deleted, where a reviewer must not miss it: whole objects, or a large part of all manifests.
    fn caution(&self) -> String {
        let changes = self.diff.changes;
        let removed = || changes.objects.iter().filter(|change| change.kind == ObjectChangeKind::Removed);
        let manifests: usize = removed().map(|change| change.clusters.len()).sum();
        let nowhere: BTreeSet<&ObjectRef> = self.diff.verdict.with_flag(VerdictFlag::RunsNowhere).collect();
        let is_whole = |change: &&ObjectChange| !change.elsewhere && !nowhere.contains(&change.object);
        let mut whole: Vec<&ObjectRef> = removed().filter(is_whole).map(|change| &change.object).collect();
        whole.dedup();
        let before = changes.totals.from.manifests;
        let mut lines = Vec::new();
        for (flag, what) in [(VerdictFlag::RunsNowhere, "nowhere"), (VerdictFlag::DoesNotFit, "not fit")] {
            let found: Vec<&ObjectRef> = self.diff.verdict.with_flag(flag).collect();
            if !found.is_empty() {
                let verb = match (what, found.len()) {
                    ("nowhere", 1) => "runs nowhere",
                    ("nowhere", _) => "run nowhere",
                    (_, 1) => "does not fit",
                    _ => "do not fit",
                };
                let names = named(&objects(&found, ALERT_NAMES));
                lines.push(format!("{} {verb}: {names}", counted(found.len(), "object")));
            }
        }
        if !whole.is_empty() {
            let names = named(&objects(&whole, ALERT_NAMES));
            lines.push(format!("{} no longer in any cluster: {names}", counted_are(whole.len(), "object")));
        }
        if manifests * 100 > before * DELETED_PERCENT {
            let percent = manifests * 100 / before.max(1);
            lines.push(format!("{manifests} of {} deleted ({percent} %)", counted_are(before, "manifest")));
        }
        if let Some(excess) = &self.diff.deletion_guard {
            let confirmation = self.files.confirmation();
            lines.push(format!(
                "publishing this is refused: {}; {confirmation}",
                sentence(&excess.to_string())
            ));
        }
        if lines.is_empty() {
            return String::new();
        }
        format!("\n> [!CAUTION]\n> - {}\n", lines.join("\n> - "))
    }

    /// The changes in each cluster, in numbers.
    fn tallies(&self) -> String {
        let mut tallies = tallies(self.diff.changes);
        let mut title = "cluster".to_owned();
        if tallies.len() > MAX_CLUSTER_ROWS
            && let Some(grouping) = self.sets.find_grouping()
        {
            title = format!("clusters by {}", code(grouping.name()));
            tallies = group_tallies(tallies, |name| grouping.find_group(name));
        }
        let mut out =
            format!("\n| {title} | replicas | added | changed | removed |\n|---|--:|--:|--:|--:|\n");
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

    /// The changes of placements; those that are many for one reason are summarized by groups of clusters.
    fn moves(&self) -> [Section; 2] {
        let grouping = self.sets.find_grouping();
        let find_group =
            |name: &str| grouping.and_then(|by| by.find_group(name)).unwrap_or_else(|| name.to_owned());
        let (summaries, moves) = summarize_moves(moves(self.diff.changes), find_group);
        let summaries = summaries.iter().map(|summary| self.move_summary(summary)).collect();
        let head = "| object | clusters | before | after | why |\n|---|---|--:|--:|---|\n";
        let row = |moved: &Move<'_>| {
            let is_nowhere = moved.change.runs_nowhere;
            Row::line(if is_nowhere { Importance::Nowhere } else { Importance::Move }, self.moved(moved))
        };
        let rows = moves.iter().map(row).collect();
        [
            Section::new("Placement changes", head, rows),
            Section::new("Placement changes of many objects", "", summaries),
        ]
    }

    /// What many objects that are placed otherwise for one reason amount to.
    fn move_summary(&self, summary: &MoveSummary<'_>) -> Row {
        let all: Vec<&ObjectRef> =
            summary.moves.iter().flat_map(|moved| moved.objects.iter().copied()).collect();
        let Some(first) = summary.moves.first() else { return Row::line(Importance::Move, String::new()) };
        let by = first.by(|object| code(&object.to_string()));
        let line = format!("{} {}, {by}:", counted(all.len(), "object"), word(first.change));
        let mut row = Row::folded(Importance::Move, line);
        row.open.push_str("| clusters | before | after | |\n|---|--:|--:|--:|\n");
        for (group, from, to) in summary.shares.iter().take(LINES) {
            let _ = writeln!(row.open, "| {} | {from} | {to} | {} |", code(group), signed(to - from));
        }
        if let Some(more) = summary.shares.len().checked_sub(LINES).filter(|more| *more > 0) {
            let _ = writeln!(row.open, "| … {more} more | | | |");
        }
        row.open.push('\n');
        for moved in &summary.moves {
            let shift = |shift: &super::groups::Shifted<'_>| {
                format!("{} → {} in {}", share(shift.from), share(shift.to), self.names(&shift.clusters))
            };
            let shifts: Vec<String> = moved.shifts.iter().map(shift).collect();
            let _ =
                writeln!(row.lists, "- {}: {}", named(&objects(&moved.objects, NAMES)), shifts.join("; "));
        }
        row
    }

    fn moved(&self, moved: &Move<'_>) -> String {
        let by = moved.by(|object| code(&object.to_string()));
        let why = [by, self.edits.refer(&moved.change.caused_by)];
        let why: Vec<String> = why.into_iter().filter(|part| !part.is_empty()).collect();
        let mut first = (named(&objects(&moved.objects, NAMES)), why.join(", "));
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
        rows.extend(
            not_shown(self.diff.changes)
                .map(|not_shown| Row::line(Importance::Detail, format!("{gap}*{not_shown}*\n"))),
        );
        Section::new("Manifest changes", "", rows)
    }

    fn entry(&self, entry: &Entry<'_>) -> Row {
        let (all_objects, all_clusters) = (entry.objects(), entry.clusters());
        let bold = |name: &str| format!("<b>{}</b>", html(name));
        let names = objects(&all_objects, NAMES).join(bold);
        let clusters = self.html_names(&all_clusters);
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
        let edit = self.edits.refer(&entry.caused_by);
        let edit = if edit.is_empty() { edit } else { format!(" ({edit})") };
        let importance = if entry.restarts_pods { Importance::Restart } else { Importance::Value };
        let line = format!("{names} in {clusters}{}: {what}{own}{edit}", entry.note());
        Row {
            lists: self.lists(entry, &all_objects, &all_clusters),
            open: self.variations(entry),
            table: if entry.variations.is_empty() { fields(&entry.paths) } else { String::new() },
            diff: diff_block(entry),
            ..Row::folded(importance, line)
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
            let _ = writeln!(out, "- {names} in {}", self.names(clusters));
        }
        out.push('\n');
        out
    }

    fn pruned(&self, title: &'static str, left: bool) -> Section {
        let row = |group: &federate_engine::change::Pruned| {
            let clusters = self.names(&group.clusters.iter().collect::<Vec<_>>());
            let all: Vec<&ObjectRef> = group.objects.iter().collect();
            Row::line(Importance::Deletion, format!("- {clusters}: {}\n", named(&objects(&all, ALERT_NAMES))))
        };
        let groups = self.diff.changes.pruned.iter().filter(|group| group.unreachable == left);
        Section::new(title, "", groups.map(row).collect())
    }

    fn unmatched(&self) -> Section {
        let rows = unmatched(self.diff.changes);
        let rows = rows.map(|(object, what)| {
            Row::line(Importance::Finding, format!("- {}: {what}\n", code(&object.to_string())))
        });
        Section::new(UNMATCHED, "", rows.collect())
    }
}

fn findings(title: &'static str, rows: &[FoundRow], files: &Files, link: bool) -> Section {
    let row = |row: &FoundRow| {
        let severity = match row.severity {
            Severity::Error => "**error**",
            Severity::Warning => "warning",
        };
        let importance = match row.severity {
            Severity::Error => Importance::Nowhere,
            Severity::Warning if link => Importance::Finding,
            Severity::Warning => Importance::Detail,
        };
        let place = row.file.as_ref().map(|file| files.place(file, row.line, link));
        let at = place.map(|at| format!(" ({at})")).unwrap_or_default();
        let help = row.help.as_ref().map(|help| format!("; {}", sentence(help))).unwrap_or_default();
        Row::line(
            importance,
            format!("- {severity} {}: {}{at}{help}\n", code(row.code), sentence(&row.message)),
        )
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

/// Adds the numbers of clusters in the same group. Clusters without a group stay.
fn group_tallies(
    tallies: Vec<(Tally, Vec<&ClusterName>)>,
    find_group: impl Fn(&str) -> Option<String>,
) -> Vec<(Tally, Vec<&ClusterName>)> {
    let mut groups: BTreeMap<String, (Tally, Vec<&ClusterName>)> = BTreeMap::new();
    for (tally, names) in tallies {
        for name in names {
            let (sum, members) =
                groups.entry(find_group(name).unwrap_or_else(|| name.to_string())).or_default();
            sum.replicas += tally.replicas;
            sum.added += tally.added;
            sum.changed += tally.changed;
            sum.removed += tally.removed;
            members.push(name);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for (_, members) in &mut groups {
        members.sort_unstable();
    }
    groups
}
