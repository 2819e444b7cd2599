//! A diff as a comment on a pull request: deletions first, then numbers and the other changes, with details
//! folded, within the size limit of comments.
//!
//! Facts: GitHub Flavored Markdown; a comment on GitHub holds at most 65,536 characters. All text from the
//! repo is escaped (`escape`), so that it cannot add markup or mention people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::cluster_sets::ClusterSetNames;
use super::destinations::group_destinations;
use super::edits::{EditGroup, EditGroups, without_effect};
use super::fit::{CapacityFit, Receiver};
use super::groups::{
    ClusterTally, ManifestChanges, MoveSummary, PlacementMove, group_entries, group_moves, not_shown,
    restarted_workloads, summarize_moves, tally_clusters,
};
use super::lost_policies::{LostObjects, describe_lost_policy, group_lost_policies};
use super::setting_changes::SettingLine;
use super::verdict::VerdictFlag;
use super::{
    DESTINATIONS_TITLE, Diff, Named, PRUNED_TITLES, UNMATCHED_TITLE, format_headline, format_manifest_counts,
    format_share, format_side, format_signed, format_values, name_objects, placement_word, to_signed,
    unmatched_changes,
};
use crate::escape::{encode_path, escape_prose, fence_diff, format_code, format_html_code};
use crate::findings::FindingRow as FoundRow;
use crate::size_budget::{self, Importance, MAX_COMMENT_BYTES, Section, SectionRow};
use crate::table::{count_with_verb, format_count};
use federate_engine::change::{CauseRole, ChangeCause, ObjectChangeKind, PathChange, PlacementChangeKind};
use federate_kubernetes::{ClusterName, ObjectRef, Severity};

/// How many names of a list are shown.
const MAX_NAMES: usize = 3;

/// How many names an alert has.
const MAX_ALERT_NAMES: usize = 10;

/// The part of all manifests, in percent, beyond which their deletion is an alert.
const ALERT_DELETED_PERCENT: usize = 30;

/// How many rows a table of clusters or fields has.
const MAX_TABLE_ROWS: usize = 40;

/// How many clusters with different changes are shown one by one.
const MAX_CLUSTER_ROWS: usize = 14;

/// How many fields of an edit are shown.
const MAX_FIELDS: usize = 6;

/// How many edits of templates are shown. Their values are also shown with the manifests.
const MAX_TEMPLATE_EDITS: usize = 10;

/// How many of the tightest resources are shown.
const MAX_RECEIVERS: usize = 6;

/// The marker by which a bot finds its own comment.
pub const COMMENT_MARKER: &str = "<!-- federate diff -->";

/// Where the files of a repo are found, and how its deletions are confirmed.
#[derive(Clone, Debug, Default)]
pub struct CommentOptions {
    /// The repo's folder, from the root of its git repository; empty for the root itself.
    pub prefix: String,
    /// The address of the root, to which the path of a file and `#L<line>` are added.
    pub url: Option<String>,
    /// The label of the pull request that confirms deletions.
    pub prune_label: Option<String>,
    /// Whether everything is listed, also where all of it is new.
    pub full: bool,
}

impl CommentOptions {
    /// A line of a file as code, from the root of the repository, with a link where there is an address.
    fn format_place(&self, file: &str, line: Option<u32>, link: bool) -> String {
        let path = match self.prefix.as_str() {
            "" => file.to_owned(),
            prefix => format!("{}/{file}", prefix.trim_end_matches('/')),
        };
        let shown = format_code(&line.map_or(path.clone(), |line| format!("{path}:{line}")));
        let Some(url) = self.url.as_ref().filter(|_| link) else { return shown };
        let line = line.map(|line| format!("#L{line}")).unwrap_or_default();
        format!("[{shown}]({}/{}{line})", url.trim_end_matches('/'), encode_path(&path))
    }

    /// How the deletions beyond the limit are confirmed.
    fn describe_confirmation(&self) -> String {
        let label = self.prune_label.as_deref().map(|label| format!("the label {} or ", format_code(label)));
        format!("{}`--prune-limit 100` confirms it", label.unwrap_or_default())
    }
}

/// The diff as a comment. `all` is the command that prints what had to be left out.
pub fn format_comment(diff: &Diff<'_>, files: &CommentOptions, all: &str) -> String {
    let sides = format!("{} → {}", format_code(&format_side(diff.from)), format_code(&format_side(diff.to)));
    let sets = ClusterSetNames::new(&diff.inventory);
    let comment = Comment { diff, files, sets, edits: EditGroups::new(&diff.changes.causes) };
    let mut sections = Vec::new();
    let is_listed = files.full || !diff.is_first;
    let mut head = if diff.changes.is_empty() {
        format!(
            "{COMMENT_MARKER}\n### federate: no changes\n\n{sides}: both revisions render the same manifests for every cluster.\n"
        )
    } else {
        sections.extend(PRUNED_TITLES.map(|(title, left)| comment.build_pruned(title, left)));
        if is_listed {
            sections.extend([comment.build_destinations(), comment.build_edits()]);
        }
        sections.push(comment.build_fit());
        let totals = vec![SectionRow::without_details(Importance::Summary, comment.format_summary())];
        sections.push(Section::new("Totals", "", totals));
        if is_listed {
            sections.extend(comment.build_moves());
            sections.push(comment.build_entries());
        }
        sections.push(comment.build_unmatched());
        let sentence = &diff.verdict.sentence;
        let manifests = format_manifest_counts(diff.changes).filter(|_| is_listed);
        let manifests = manifests.map(|counts| format!(" {counts}.")).unwrap_or_default();
        let first = (!is_listed).then(|| format!("\n\n{}", diff.describe_first(format_code)));
        format!(
            "{COMMENT_MARKER}\n### federate: {}\n\n{sides}: {sentence}{manifests}{}\n{}",
            format_title(diff),
            first.unwrap_or_default(),
            comment.format_caution()
        )
    };
    // Links lead to the later side, which does not have the places of what is no longer found.
    sections.push(build_findings("New findings", &diff.findings, files, true));
    if is_listed {
        sections.push(build_findings("Resolved findings", &diff.resolved, files, false));
        sections.push(comment.ineffective_edits());
    }
    head.push_str(&size_budget::fit_sections(sections, MAX_COMMENT_BYTES.saturating_sub(head.len()), all));
    head
}

/// The most characters of a title, without the name of the program: lists of comments and checks show about 80.
const MAX_TITLE_CHARACTERS: usize = 70;

/// What a reviewer is to see first.
fn format_title(diff: &Diff<'_>) -> String {
    let title = diff.verdict.format_title(diff.changes, MAX_TITLE_CHARACTERS).filter(|_| !diff.is_first);
    title.unwrap_or_else(|| format_headline(diff))
}

struct Comment<'r> {
    diff: &'r Diff<'r>,
    files: &'r CommentOptions,
    sets: ClusterSetNames<'r>,
    edits: EditGroups<'r>,
}

/// A value in a table, where `–` stands for none.
fn format_cell(value: &str) -> String {
    if value == "–" { value.to_owned() } else { format_code(value) }
}

/// Objects as code; if there are many, the first names.
fn format_named(names: &Named) -> String {
    names.join_with(format_code)
}

impl Comment<'_> {
    fn format_names(&self, names: &[&ClusterName]) -> String {
        let set = self.diff.name_set(&self.sets, names, MAX_NAMES, format_code);
        set.unwrap_or_else(|| format_named(&self.diff.name_clusters(names, MAX_NAMES)))
    }

    /// The same in HTML.
    fn html_names(&self, names: &[&ClusterName]) -> String {
        let set = self.diff.name_set(&self.sets, names, MAX_NAMES, format_html_code);
        set.unwrap_or_else(|| self.diff.name_clusters(names, MAX_NAMES).join_with(format_html_code))
    }

    /// The edits of the repo that cause the changes, with the changed fields and the lines.
    fn build_edits(&self) -> Section {
        let numbered = self.edits.groups.len() > 1;
        let (head, line) = if numbered { ("| edit ", "|--:") } else { ("", "") };
        let head = format!(
            "{head}| changed in the repo | field | before | after | effect |\n{line}|---|---|---|---|---|\n"
        );
        let mut rows = Vec::new();
        let mut templates = 0;
        for (at, group) in self.edits.groups.iter().enumerate() {
            let is_template = group.first_cause().is_some_and(|cause| cause.role == CauseRole::Template);
            templates += usize::from(is_template);
            if templates > MAX_TEMPLATE_EDITS && is_template {
                continue;
            }
            let number = if numbered { format!("| {} ", at + 1) } else { String::new() };
            let importance = if is_template { Importance::Restart } else { Importance::Cause };
            rows.push(SectionRow::without_details(importance, self.format_edit(group, &number)));
        }
        if let Some(more) = templates.checked_sub(MAX_TEMPLATE_EDITS).filter(|more| *more > 0) {
            let number = if numbered { "| " } else { "" };
            let more = format_count(more, "more edit");
            rows.push(SectionRow::without_details(
                Importance::Restart,
                format!("{number}| … {more} of templates | | | | |\n"),
            ));
        }
        Section::new("Caused by", head, rows)
    }

    fn format_edit(&self, group: &EditGroup<'_>, number: &str) -> String {
        let Some(cause) = group.first_cause() else { return String::new() };
        let link = cause.kind != ObjectChangeKind::Removed;
        let names = match group.edited_objects().as_slice() {
            [] => String::new(),
            [one] => format!("{} in ", format_code(&one.to_string())),
            many => format!(
                "{}, {}, first in ",
                format_count(many.len(), "object"),
                format_named(&name_objects(many, MAX_NAMES))
            ),
        };
        let what = match cause.kind {
            ObjectChangeKind::Added => "*new*",
            ObjectChangeKind::Removed => "*removed*",
            ObjectChangeKind::Changed if cause.role == CauseRole::Source => "*changed*",
            ObjectChangeKind::Changed => "*only the order*",
        };
        let names = format!("{}{names}", self.format_sources(cause));
        let (mut names, mut effect, mut number) = (names, group.format_effect(), number.to_owned());
        let mut out = String::new();
        let fields = group.edited_fields();
        if fields.is_empty() {
            let line = Some(cause.line).filter(|line| *line > 0);
            let mut at = self.files.format_place(&cause.file, line, link);
            if group.more_files() > 0 {
                let _ = write!(at, " and {}", format_count(group.more_files(), "more file"));
            }
            let _ = writeln!(out, "{number}| {names}{at} | {what} | | | {effect} |");
        }
        let mut last_line = 0;
        for field in fields.iter().take(MAX_FIELDS) {
            let mut at = String::new();
            if field.line != last_line {
                let line = Some(field.line).filter(|line| *line > 0);
                at = self.files.format_place(&cause.file, line, link);
            }
            last_line = field.line;
            // What templates change stands below the manifests, unless it moves something.
            let is_shown = cause.role != CauseRole::Template || group.moves > 0;
            let (from, to) = match &field.values {
                _ if !is_shown => (String::new(), String::new()),
                Some((from, to)) => (format_cell(from), format_cell(to)),
                None => ("*each its own*".to_owned(), String::new()),
            };
            let names = std::mem::take(&mut names);
            let effect = std::mem::take(&mut effect);
            let _ = writeln!(
                out,
                "{number}| {names}{at} | {} | {from} | {to} | {effect} |",
                format_code(&field.path)
            );
            if !number.is_empty() {
                "| ".clone_into(&mut number);
            }
        }
        if let Some(more) = fields.len().checked_sub(MAX_FIELDS).filter(|more| *more > 0) {
            let _ = writeln!(out, "{number}| | … {} | | | |", format_count(more, "more field"));
        }
        out
    }

    /// The sources that an edit is about, and the clusters if it is not all of them.
    fn format_sources(&self, cause: &ChangeCause) -> String {
        if cause.sources.is_empty() {
            return String::new();
        }
        let paths: Vec<&str> = cause.sources.iter().map(String::as_str).collect();
        let clusters = match cause.clusters.as_slice() {
            [] => String::new(),
            clusters => format!(" for {}", self.format_names(&clusters.iter().collect::<Vec<_>>())),
        };
        format!("{}{clusters}: ", format_named(&Named::take_first(&paths, MAX_NAMES)))
    }

    /// The edits that change nothing in any cluster.
    fn ineffective_edits(&self) -> Section {
        let causes = without_effect(self.diff.changes);
        let mut names = Vec::new();
        for cause in causes.iter().take(MAX_ALERT_NAMES) {
            let object =
                cause.object.as_ref().map(|object| format!("{} in ", format_code(&object.to_string())));
            let link = cause.kind != ObjectChangeKind::Removed;
            let line = Some(cause.line).filter(|line| *line > 0);
            let place = self.files.format_place(&cause.file, line, link);
            names.push(object.unwrap_or_default() + &place);
        }
        let mut rows = Vec::new();
        if !names.is_empty() {
            let more = causes.len() - names.len();
            let more = if more > 0 { format!(" … (+{more})") } else { String::new() };
            let line =
                format!("Changed in the repo, without effect in any cluster: {}{more}\n", names.join(", "));
            rows.push(SectionRow::without_details(Importance::Detail, line));
        }
        Section::new("", "", rows)
    }

    /// Whether what is added fits in the clusters that get it.
    fn build_fit(&self) -> Section {
        let fit = CapacityFit::new(&self.diff.capacity);
        if fit.is_empty() {
            return Section::new("Does it fit", "", Vec::new());
        }
        let mut text = String::new();
        if !fit.known.is_empty() {
            let known = format_count(fit.known_clusters, "cluster");
            let verdict = match fit.count_exceeded() {
                0 => format!("Yes, in {known} with known resources. The tightest:"),
                full => format!(
                    "**No**: {full} of {known} with known resources would be over-committed. The tightest:"
                ),
            };
            let _ = writeln!(
                text,
                "{verdict}\n\n| cluster | resource | free | requested | then free | of |\n|---|---|--:|--:|--:|--:|"
            );
            // What does not fit is never cut.
            let shown = fit.known.iter().filter(|one| one.change.is_exceeded()).count().max(MAX_RECEIVERS);
            for receiver in fit.known.iter().take(shown) {
                let Receiver { cluster, resource, change } = receiver;
                let [before, added, after, of] = receiver.format_amounts();
                let after = if change.is_exceeded() { format!("**{after}**") } else { after };
                let _ = writeln!(
                    text,
                    "| {} | {} | {before} | +{added} | {after} | {of} |",
                    format_code(cluster),
                    format_code(resource)
                );
            }
        }
        if !fit.unknown.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            let names: Vec<ClusterName> = fit.unknown.iter().map(|name| (*name).into()).collect();
            let names = self.format_names(&names.iter().collect::<Vec<_>>());
            let _ = writeln!(
                text,
                "It is not known whether there is room in {names}: neither the inventory nor a snapshot says what is free there."
            );
        }
        Section::new("Does it fit", "", vec![SectionRow::without_details(Importance::Capacity, text)])
    }

    fn format_summary(&self) -> String {
        let (from, to) = (&self.diff.changes.totals.from, &self.diff.changes.totals.to);
        let mut out = "| | before | after | |\n|---|--:|--:|--:|\n".to_owned();
        for (what, from, to) in [
            ("Clusters", to_signed(from.clusters), to_signed(to.clusters)),
            ("Objects placed", to_signed(from.placed), to_signed(to.placed)),
            ("Replicas", from.replicas, to.replicas),
            ("Manifests in all clusters", to_signed(from.manifests), to_signed(to.manifests)),
        ] {
            let _ = writeln!(out, "| {what} | {from} | {to} | {} |", format_signed(to - from));
        }
        let clusters = &self.diff.changes.clusters;
        for (names, what) in [(&clusters.added, "Joins"), (&clusters.removed, "Leaves")] {
            if !names.is_empty() {
                let names: Vec<&ClusterName> = names.iter().collect();
                let _ = writeln!(out, "\n{what}: {}", self.format_names(&names));
            }
        }
        out + &self.format_restarts() + &self.format_tallies()
    }

    /// The workloads whose pods restart.
    fn format_restarts(&self) -> String {
        let restarts = restarted_workloads(self.diff.changes);
        if restarts.is_empty() {
            return String::new();
        }
        let mut workloads: Vec<&ObjectRef> = restarts.iter().map(|(object, _)| *object).collect();
        workloads.dedup();
        let (number, pods) = (workloads.len(), self.diff.verdict.counts.restarted_pods);
        let pods = match usize::try_from(pods).unwrap_or(0) {
            0 => String::new(),
            pods => format!("{} of {}: ", format_count(pods, "pod"), format_count(number, "workload")),
        };
        let mut clusters: Vec<&ClusterName> = restarts.iter().flat_map(|(_, clusters)| *clusters).collect();
        clusters.sort_unstable();
        clusters.dedup();
        format!(
            "\nPods restart: {pods}{} in {}\n",
            format_named(&name_objects(&workloads, MAX_NAMES)),
            self.format_names(&clusters)
        )
    }

    /// What is deleted, where a reviewer must not miss it: whole objects, or a large part of all manifests.
    fn format_caution(&self) -> String {
        let changes = self.diff.changes;
        let removed = changes.objects.iter().filter(|change| change.kind == ObjectChangeKind::Removed);
        let manifests: usize = removed.clone().map(|change| change.clusters.len()).sum();
        let nowhere: BTreeSet<&ObjectRef> = self.diff.verdict.with_flag(VerdictFlag::RunsNowhere).collect();
        let mut whole: Vec<&ObjectRef> = removed
            .filter(|change| !change.elsewhere && !nowhere.contains(&change.object))
            .map(|change| &change.object)
            .collect();
        whole.dedup();
        let before = changes.totals.from.manifests;
        let mut lines = self.list_setting_lines();
        lines.extend(self.list_lost_lines());
        for (flag, what) in [(VerdictFlag::RunsNowhere, "nowhere"), (VerdictFlag::DoesNotFit, "not fit")] {
            let found: Vec<&ObjectRef> = self.diff.verdict.with_flag(flag).collect();
            if !found.is_empty() {
                let verb = match (what, found.len()) {
                    ("nowhere", 1) => "runs nowhere",
                    ("nowhere", _) => "run nowhere",
                    (_, 1) => "does not fit",
                    _ => "do not fit",
                };
                let names = format_named(&name_objects(&found, MAX_ALERT_NAMES));
                lines.push(format!("{} {verb}: {names}", format_count(found.len(), "object")));
            }
        }
        if !whole.is_empty() {
            let names = format_named(&name_objects(&whole, MAX_ALERT_NAMES));
            let objects = count_with_verb(whole.len(), "object", ["is", "are"]);
            lines.push(format!("{objects} no longer in any cluster: {names}"));
        }
        if manifests * 100 > before * ALERT_DELETED_PERCENT {
            let percent = manifests * 100 / before.max(1);
            let all = count_with_verb(before, "manifest", ["is", "are"]);
            lines.push(format!("{manifests} of {all} deleted ({percent} %)"));
        }
        if let Some(excess) = &self.diff.deletion_guard {
            let confirmation = self.files.describe_confirmation();
            lines.push(format!(
                "publishing this is refused: {}; {confirmation}",
                escape_prose(&excess.to_string())
            ));
        }
        if lines.is_empty() {
            return String::new();
        }
        format!("\n> [!CAUTION]\n> - {}\n", lines.join("\n> - "))
    }

    /// The settings that act on more than what is rendered.
    fn list_setting_lines(&self) -> Vec<String> {
        let settings = &self.diff.changes.settings;
        let mut lines: Vec<String> = Vec::new();
        for setting in settings.iter().take(MAX_ALERT_NAMES) {
            let SettingLine { key, from, to, .. } = SettingLine::new(setting);
            let place = self.files.format_place(&setting.file, Some(setting.field.line), true);
            lines.push(format!(
                "the setting {} changes: {} → {} ({place}); it decides {}",
                format_code(&key),
                format_cell(&from),
                format_cell(&to),
                setting.decides
            ));
        }
        let more = settings.len().saturating_sub(MAX_ALERT_NAMES);
        if more > 0 {
            lines.push(format!("{} that act in clusters", format_count(more, "more setting")));
        }
        lines
    }

    /// The objects that no policy selects any more.
    fn list_lost_lines(&self) -> Vec<String> {
        let groups = group_lost_policies(self.diff.changes);
        let mut lines: Vec<String> = Vec::new();
        for LostObjects { objects, lost } in groups.iter().take(MAX_ALERT_NAMES) {
            let what = describe_lost_policy(objects.len(), lost, |names| self.format_names(names));
            lines.push(format!(
                "{}: {what}. {}",
                format_named(&name_objects(objects, MAX_ALERT_NAMES)),
                escape_prose(&lost.why)
            ));
        }
        let more = groups.iter().skip(MAX_ALERT_NAMES).map(|group| group.objects.len()).sum::<usize>();
        if more > 0 {
            lines.push(format!("{} that no policy selects any more", format_count(more, "more object")));
        }
        lines
    }

    /// The changes in each cluster, in numbers.
    fn format_tallies(&self) -> String {
        let mut tallies = tally_clusters(self.diff.changes);
        let mut title = "cluster".to_owned();
        if tallies.len() > MAX_CLUSTER_ROWS
            && let Some(grouping) = self.sets.find_grouping()
        {
            title = format!("clusters by {}", format_code(grouping.name()));
            tallies = group_tallies(tallies, |name| grouping.find_group(name));
        }
        let mut out =
            format!("\n| {title} | replicas | added | changed | removed |\n|---|--:|--:|--:|--:|\n");
        for (tally, names) in tallies.iter().take(MAX_TABLE_ROWS) {
            let [added, changed, removed] = [tally.added, tally.changed, tally.removed]
                .map(|number| if number == 0 { String::new() } else { number.to_string() });
            let (names, replicas) = (self.format_names(names), format_signed(tally.replicas));
            let _ = writeln!(out, "| {names} | {replicas} | {added} | {changed} | {removed} |");
        }
        match tallies.len() {
            0 => String::new(),
            lines if lines > MAX_TABLE_ROWS => {
                format!("{out}| … {} more | | | | |\n", lines - MAX_TABLE_ROWS)
            }
            _ => out,
        }
    }

    /// The changes of placements; those that are many for one reason are summarized by groups of clusters.
    fn build_moves(&self) -> [Section; 2] {
        let grouping = self.sets.find_grouping();
        let (summaries, moves) = summarize_moves(group_moves(self.diff.changes), |name| {
            grouping.and_then(|by| by.find_group(name)).unwrap_or_else(|| name.to_owned())
        });
        let summaries = summaries.iter().map(|summary| self.move_summary(summary)).collect();
        let head = "| object | clusters | before | after | why |\n|---|---|--:|--:|---|\n";
        let rows = moves
            .iter()
            .map(|moved| {
                let is_nowhere = moved.change.runs_nowhere;
                SectionRow::without_details(
                    if is_nowhere { Importance::Nowhere } else { Importance::Move },
                    self.format_move(moved),
                )
            })
            .collect();
        [
            Section::new("Placement changes", head, rows),
            Section::new("Placement changes of many objects", "", summaries),
        ]
    }

    /// What many objects that are placed otherwise for one reason amount to.
    fn move_summary(&self, summary: &MoveSummary<'_>) -> SectionRow {
        let all: Vec<&ObjectRef> =
            summary.moves.iter().flat_map(|moved| moved.objects.iter().copied()).collect();
        let Some(first) = summary.moves.first() else {
            return SectionRow::without_details(Importance::Move, String::new());
        };
        let by = first.describe_decider(|object| format_code(&object.to_string()));
        let line = format!("{} {}, {by}:", format_count(all.len(), "object"), placement_word(first.change));
        let mut row = SectionRow::with_details(Importance::Move, line);
        row.open.push_str("| clusters | before | after | |\n|---|--:|--:|--:|\n");
        for (group, from, to) in summary.shares.iter().take(MAX_TABLE_ROWS) {
            let _ = writeln!(
                row.open,
                "| {} | {from} | {to} | {} |",
                format_code(group),
                format_signed(to - from)
            );
        }
        if let Some(more) = summary.shares.len().checked_sub(MAX_TABLE_ROWS).filter(|more| *more > 0) {
            let _ = writeln!(row.open, "| … {more} more | | | |");
        }
        row.open.push('\n');
        for moved in &summary.moves {
            let shifts: Vec<String> = moved
                .shifts
                .iter()
                .map(|shift| {
                    format!(
                        "{} → {} in {}",
                        format_share(shift.from),
                        format_share(shift.to),
                        self.format_names(&shift.clusters)
                    )
                })
                .collect();
            let _ = writeln!(
                row.lists,
                "- {}: {}",
                format_named(&name_objects(&moved.objects, MAX_NAMES)),
                shifts.join("; ")
            );
        }
        row
    }

    fn format_move(&self, moved: &PlacementMove<'_>) -> String {
        let by = moved.describe_decider(|object| format_code(&object.to_string()));
        let why = [by, self.edits.format_references(&moved.change.caused_by)];
        let why: Vec<String> = why.into_iter().filter(|part| !part.is_empty()).collect();
        let mut rows: Vec<(String, [String; 2])> = Vec::new();
        for shift in &moved.shifts {
            rows.push((self.format_names(&shift.clusters), [shift.from, shift.to].map(format_share)));
        }
        let change = moved.change;
        if moved.objects.len() == 1 && moved.shifts.len() > 1 && !change.replicas.is_same() {
            let totals = [change.replicas.from, change.replicas.to];
            let totals =
                totals.map(|number| number.map_or("–".to_owned(), |number| format!("**{number}**")));
            rows.push(("*together*".to_owned(), totals));
        }
        if change.kind == PlacementChangeKind::Policy {
            rows.push(("*as before*".to_owned(), [String::new(), String::new()]));
        }
        if !change.unschedulable.is_same() {
            let reasons = [&change.unschedulable.from, &change.unschedulable.to].map(|why| {
                why.as_ref().map_or("–".to_owned(), |why| {
                    format!("**{}**: {}", escape_prose(&why.reason), escape_prose(&why.message))
                })
            });
            rows.push(("*unschedulable*".to_owned(), reasons));
        }
        for (names, words) in
            [(&change.suspended, ["sent", "held back"]), (&change.resumed, ["held back", "sent"])]
        {
            if !names.is_empty() {
                let names = self.format_names(&names.iter().collect::<Vec<_>>());
                rows.push((names, words.map(ToOwned::to_owned)));
            }
        }
        // The first row names the objects and the reason.
        let (mut objects, mut why) = (format_named(&name_objects(&moved.objects, MAX_NAMES)), why.join(", "));
        let mut out = String::new();
        for (clusters, [from, to]) in rows {
            let _ = writeln!(out, "| {objects} | {clusters} | {from} | {to} | {why} |");
            (objects, why) = (String::new(), String::new());
        }
        out
    }

    fn build_entries(&self) -> Section {
        let entries = group_entries(self.diff.changes);
        let mut rows: Vec<SectionRow> = entries.iter().map(|entry| self.build_entry(entry)).collect();
        // An empty line ends the markup of the row before.
        let gap = if rows.is_empty() { "" } else { "\n" };
        rows.extend(not_shown(self.diff.changes).map(|not_shown| {
            SectionRow::without_details(Importance::Detail, format!("{gap}*{not_shown}*\n"))
        }));
        Section::new("Manifest changes", "", rows)
    }

    fn build_entry(&self, entry: &ManifestChanges<'_>) -> SectionRow {
        let (all_objects, all_clusters) = (entry.sorted_objects(), entry.sorted_clusters());
        let names = name_objects(&all_objects, MAX_NAMES)
            .join_with(|name| format!("<b>{}</b>", format_html_code(name)));
        let clusters = self.html_names(&all_clusters);
        let what = match (entry.kind, entry.paths.as_slice()) {
            (ObjectChangeKind::Added, _) => "new".to_owned(),
            (ObjectChangeKind::Removed, _) => "removed".to_owned(),
            (ObjectChangeKind::Changed, []) => "only the order differs".to_owned(),
            (ObjectChangeKind::Changed, [only]) if entry.variations.is_empty() => {
                let (from, to) = format_values(only);
                format!(
                    "{}: {} → {}",
                    format_html_code(&only.path),
                    format_html_code(&from),
                    format_html_code(&to)
                )
            }
            (ObjectChangeKind::Changed, [only]) => format_html_code(&only.path),
            (ObjectChangeKind::Changed, paths) => format_count(paths.len(), "field"),
        };
        let own = if entry.variations.is_empty() { "" } else { ", each with its own value" };
        let edit = self.edits.format_references(&entry.caused_by);
        let edit = if edit.is_empty() { edit } else { format!(" ({edit})") };
        let importance = if entry.restarts_pods { Importance::Restart } else { Importance::Value };
        let line = format!("{names} in {clusters}{}: {what}{own}{edit}", entry.comparison_note());
        SectionRow {
            lists: self.format_lists(entry, &all_objects, &all_clusters),
            open: self.format_variations(entry),
            table: if entry.variations.is_empty() { format_fields(&entry.paths) } else { String::new() },
            diff: diff_block(entry),
            ..SectionRow::with_details(importance, line)
        }
    }

    /// The values of each object, where they differ.
    fn format_variations(&self, entry: &ManifestChanges<'_>) -> String {
        if entry.variations.is_empty() {
            return String::new();
        }
        let clusters = entry.sorted_clusters();
        let several = entry.paths.len() > 1;
        let (head, line) = if several { (" field |", "---|") } else { ("", "") };
        let mut out = format!("| object |{head} before | after |\n|---|{line}---|---|\n");
        for variation in &entry.variations {
            let mut names = format_named(&name_objects(&variation.objects, MAX_NAMES));
            if variation.is_pattern {
                names = format!("{}: {names}", format_count(variation.objects.len(), "object"));
            }
            if variation.clusters != clusters {
                names = format!("{names} in {}", self.format_names(&variation.clusters));
            }
            for field in &variation.fields {
                let path = if several { format!(" {} |", format_code(field.path)) } else { String::new() };
                let names = std::mem::take(&mut names);
                let _ = writeln!(
                    out,
                    "| {names} |{path} {} | {} |",
                    format_code(&field.from),
                    format_code(&field.to)
                );
            }
        }
        out.push('\n');
        out
    }

    /// The names that the first line leaves out.
    fn format_lists(
        &self,
        entry: &ManifestChanges<'_>,
        all_objects: &[&ObjectRef],
        all_clusters: &[&ClusterName],
    ) -> String {
        let mut out = String::new();
        if entry.is_even() {
            if name_objects(all_objects, MAX_NAMES).more > 0 {
                let _ = writeln!(out, "Objects: {}\n", format_named(&name_objects(all_objects, usize::MAX)));
            }
            let names = self.diff.name_clusters(all_clusters, MAX_NAMES);
            if names.more > 0 {
                let _ = writeln!(
                    out,
                    "Clusters: {}\n",
                    format_named(&self.diff.name_clusters(all_clusters, usize::MAX))
                );
            }
            return out;
        }
        for (clusters, names) in &entry.places {
            let names = format_named(&name_objects(names, usize::MAX));
            let _ = writeln!(out, "- {names} in {}", self.format_names(clusters));
        }
        out.push('\n');
        out
    }

    fn build_pruned(&self, title: &'static str, left: bool) -> Section {
        let groups = self.diff.changes.pruned.iter().filter(|group| group.unreachable == left);
        Section::new(
            title,
            "",
            groups
                .map(|group| {
                    let clusters = self.format_names(&group.clusters.iter().collect::<Vec<_>>());
                    let all: Vec<&ObjectRef> = group.objects.iter().collect();
                    SectionRow::without_details(
                        Importance::Deletion,
                        format!("- {clusters}: {}\n", format_named(&name_objects(&all, MAX_ALERT_NAMES))),
                    )
                })
                .collect(),
        )
    }

    /// The Applications that appear, go, or are applied to other clusters.
    fn build_destinations(&self) -> Section {
        let groups = group_destinations(self.diff.changes);
        let rows = groups.iter().map(|group| {
            let sign = match group.kind {
                ObjectChangeKind::Added => "**+**",
                ObjectChangeKind::Changed => "**~**",
                ObjectChangeKind::Removed => "**−**",
            };
            let what = group.describe(MAX_ALERT_NAMES, format_code, |names| self.format_names(names));
            SectionRow::without_details(Importance::Cause, format!("- {sign} {what}\n"))
        });
        Section::new(DESTINATIONS_TITLE, "", rows.collect())
    }

    fn build_unmatched(&self) -> Section {
        let rows = unmatched_changes(self.diff);
        let rows = rows.into_iter().map(|(object, what)| {
            SectionRow::without_details(
                Importance::Finding,
                format!("- {}: {what}\n", format_code(&object.to_string())),
            )
        });
        Section::new(UNMATCHED_TITLE, "", rows.collect())
    }
}

fn build_findings(title: &'static str, rows: &[FoundRow], files: &CommentOptions, link: bool) -> Section {
    Section::new(
        title,
        "",
        rows.iter()
            .map(|row| {
                let severity = match row.severity {
                    Severity::Error => "**error**",
                    Severity::Warning => "warning",
                };
                let importance = match row.severity {
                    Severity::Error => Importance::Nowhere,
                    Severity::Warning if link => Importance::Finding,
                    Severity::Warning => Importance::Detail,
                };
                let place = row.file.as_ref().map(|file| files.format_place(file, row.line, link));
                let at = place.map(|at| format!(" ({at})")).unwrap_or_default();
                let help =
                    row.help.as_ref().map(|help| format!("; {}", escape_prose(help))).unwrap_or_default();
                SectionRow::without_details(
                    importance,
                    format!(
                        "- {severity} {}: {}{at}{help}\n",
                        format_code(row.code),
                        escape_prose(&row.message)
                    ),
                )
            })
            .collect(),
    )
}

/// The changed fields as a table.
fn format_fields(paths: &[&PathChange]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let mut out = "| field | before | after |\n|---|---|---|\n".to_owned();
    for path in paths.iter().take(MAX_TABLE_ROWS) {
        let (from, to) = format_values(path);
        let from = if path.from.is_some() { format_code(&from) } else { "–".to_owned() };
        let to = if path.to.is_some() { format_code(&to) } else { "–".to_owned() };
        let _ = writeln!(out, "| {} | {from} | {to} |", format_code(&path.path));
    }
    if let Some(more) = paths.len().checked_sub(MAX_TABLE_ROWS).filter(|more| *more > 0) {
        let _ = writeln!(out, "| … and {more} more | | |");
    }
    out.push('\n');
    out
}

fn diff_block(entry: &ManifestChanges<'_>) -> String {
    if entry.diff.is_empty() {
        return String::new();
    }
    let which = match (entry.sorted_objects().as_slice(), entry.variants) {
        ([first, _, ..], _) => format!("Of {}, for example:\n\n", format_code(&first.to_string())),
        (_, 1) => String::new(),
        (_, variants) => format!("One of its {variants} versions:\n\n"),
    };
    which + &fence_diff(entry.diff)
}

/// Adds the numbers of clusters in the same group. Clusters without a group stay.
fn group_tallies(
    tallies: Vec<(ClusterTally, Vec<&ClusterName>)>,
    find_group: impl Fn(&str) -> Option<String>,
) -> Vec<(ClusterTally, Vec<&ClusterName>)> {
    let mut groups: BTreeMap<String, (ClusterTally, Vec<&ClusterName>)> = BTreeMap::new();
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
