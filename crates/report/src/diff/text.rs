//! A diff for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::changed_sources::list_sources;
use super::cluster_sets::ClusterSetNames;
use super::destinations::group_destinations;
use super::edits::{EditGroup, EditGroups, EditedField};
use super::fit::CapacityFit;
use super::groups::{ManifestChanges, PlacementMove, entries_in_full, group_entries, group_moves, not_shown};
use super::lost_policies::{LostObjects, describe_lost_policy, group_lost_policies};
use super::setting_changes::SettingLine;
use super::{
    DESTINATIONS_TITLE, Diff, LOST_TITLE, PRUNED_TITLES, SETTINGS_TITLE, UNMATCHED_TITLE, format_headline,
    format_share, format_side, format_values, name_objects, placement_word, unmatched_changes,
};
use crate::findings::FindingRow;
use crate::table::{TextStyle, format_count};
use federate_engine::change::{CauseRole, ObjectChangeKind, PathChange, PlacementChangeKind, PrunedObjects};
use federate_kubernetes::display_text::escape_text;
use federate_kubernetes::finding::count_replicas;
use federate_kubernetes::{ClusterName, ObjectRef, Severity};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffDetail {
    /// The changed fields, without manifests.
    Fields,
    /// Also the manifests, as unified diffs.
    Manifests,
}

/// How many names of a list are shown, unless all are to be shown.
const MAX_NAMES: usize = 8;

/// How many edits are shown, unless all are to be shown.
const MAX_EDITS: usize = 20;

/// How many of the tightest resources are shown, unless all are to be shown.
const MAX_RECEIVERS: usize = 6;

/// The sign of a kind of change, and its colour.
fn change_sign(kind: ObjectChangeKind) -> (char, AnsiColor) {
    match kind {
        ObjectChangeKind::Added => ('+', AnsiColor::Green),
        ObjectChangeKind::Changed => ('~', AnsiColor::Yellow),
        ObjectChangeKind::Removed => ('-', AnsiColor::Red),
    }
}

/// The place of an edit; without a line where none is known.
fn format_place(file: &str, line: u32) -> String {
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    escape_text(&format!("{file}{line}"))
}

/// Says how many items are left out.
fn write_more(out: &mut String, indent: &str, all: usize, shown: usize, what: &str) {
    if let Some(more) = all.checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(out, "{indent}… and {} (-v shows all)", format_count(more, &format!("more {what}")));
    }
}

/// The first names of a list, with the number of the others.
fn join_first(names: &[String], most: usize) -> String {
    let shown = if names.len() <= most.saturating_add(1) { names.len() } else { most };
    let more = names.len() - shown;
    let more = if more > 0 { format!(" … (+{more})") } else { String::new() };
    format!("{}{more}", names.get(..shown).unwrap_or_default().join(", "))
}

/// The diff as text; one sentence if nothing differs.
pub fn format_diff(diff: &Diff<'_>, detail: DiffDetail, style: TextStyle) -> String {
    let (sets, edits) = (ClusterSetNames::new(&diff.inventory), EditGroups::new(&diff.changes.causes));
    let report = Report { diff, detail, style, sets, edits };
    let mut out = String::new();
    let (from, to) = (format_side(diff.from), format_side(diff.to));
    let summary = if diff.changes.is_empty() {
        format!("{from} and {to} render the same")
    } else {
        style.paint_bold(&format!("{from} → {to}: {}", format_headline(diff)))
    };
    if !style.quiet {
        let _ = writeln!(out, "{summary}");
    }
    let is_listed = style.full || !diff.is_first;
    if !is_listed && !style.quiet {
        let _ = writeln!(out, "{}", diff.describe_first(str::to_owned));
    }
    report.write_settings(&mut out);
    report.write_lost_policies(&mut out);
    report.write_clusters(&mut out);
    report.write_pruned(&mut out);
    report.deletion_guard(&mut out);
    if is_listed {
        report.write_destinations(&mut out);
        report.write_sources(&mut out);
        report.write_moves(&mut out);
        report.write_entries(&mut out);
        report.write_edits(&mut out);
    }
    report.write_fit(&mut out);
    report.write_unmatched(&mut out);
    report.write_findings(&mut out);
    out
}

struct Report<'r> {
    diff: &'r Diff<'r>,
    detail: DiffDetail,
    style: TextStyle,
    sets: ClusterSetNames<'r>,
    edits: EditGroups<'r>,
}

impl Report<'_> {
    fn max_names(&self) -> usize {
        if self.style.full { usize::MAX } else { MAX_NAMES }
    }

    fn format_names(&self, names: &[&ClusterName]) -> String {
        if self.style.full {
            return names.iter().map(|name| escape_text(name)).collect::<Vec<_>>().join(", ");
        }
        let set = self.diff.name_set(&self.sets, names, self.max_names(), escape_text);
        set.unwrap_or_else(|| self.diff.name_clusters(names, self.max_names()).join_with(str::to_owned))
    }

    /// Says that publishing the later side is refused.
    fn deletion_guard(&self, out: &mut String) {
        if let Some(excess) = &self.diff.deletion_guard {
            let words = format!("Publishing this is refused: {excess}; --prune-limit 100 confirms it");
            let _ = writeln!(out, "\n{}", self.style.paint_text(AnsiColor::Red, &escape_text(&words)));
        }
    }

    /// The sources that differ, with the changed values and what changes because of them.
    fn write_sources(&self, out: &mut String) {
        let sources = list_sources(self.diff.changes, &self.edits);
        if sources.is_empty() {
            return;
        }
        self.write_heading(out, "Changed sources");
        for source in sources.iter().take(self.max_edits()) {
            let paths: Vec<String> = source.paths.iter().map(|path| escape_text(path)).collect();
            let objects = match source.objects.as_slice() {
                [] => String::new(),
                objects => format!(": {}", self.format_objects(objects)),
            };
            let _ = writeln!(out, "  {}{objects}", join_first(&paths, self.max_names()));
            for at in source.groups.iter().take(self.max_edits()) {
                if let Some(group) = self.edits.groups.get(*at) {
                    self.write_source_edit(out, *at, group);
                }
            }
            write_more(out, "    ", source.groups.len(), self.max_edits(), "edit");
        }
        write_more(out, "  ", sources.len(), self.max_edits(), "source");
    }

    /// An edit of a source. If it is about one value, that is in the same line.
    fn write_source_edit(&self, out: &mut String, at: usize, group: &EditGroup<'_>) {
        let Some(cause) = group.first_cause() else { return };
        let names = match group.edited_objects().as_slice() {
            [] => String::new(),
            many => format!(" {}", self.format_objects(many)),
        };
        let more = match group.more_files() {
            0 => String::new(),
            more => format!(" and {}", format_count(more, "more file")),
        };
        let fields = group.edited_fields();
        let what = match (fields.as_slice(), cause.kind) {
            ([one], _) => format!(" {}", self.format_field(one)),
            ([], ObjectChangeKind::Added) => " added".to_owned(),
            ([], ObjectChangeKind::Changed) => " changed".to_owned(),
            ([], ObjectChangeKind::Removed) => " removed".to_owned(),
            _ => String::new(),
        };
        let clusters = match cause.clusters.as_slice() {
            [] => String::new(),
            clusters => format!(" (for {})", self.format_names(&clusters.iter().collect::<Vec<_>>())),
        };
        let (sign, color) = change_sign(cause.kind);
        let _ = writeln!(
            out,
            "    {} {}{}{names}{more}{what}{clusters}: {}",
            self.style.paint_text(color, &sign.to_string()),
            self.edit_number(at),
            format_place(&cause.file, cause.line),
            group.format_effect()
        );
        if fields.len() > 1 {
            for field in fields.iter().take(self.max_fields()) {
                let place = format_place(&cause.file, field.line);
                let _ = writeln!(out, "        {place} {}", self.format_field(field));
            }
            write_more(out, "        ", fields.len(), self.max_fields(), "value");
        }
    }

    /// The number of a group of edits, to which changes refer; empty where there is only one.
    fn edit_number(&self, at: usize) -> String {
        if self.edits.groups.len() > 1 { format!("{}. ", at + 1) } else { String::new() }
    }

    fn max_edits(&self) -> usize {
        if self.style.full { usize::MAX } else { MAX_EDITS }
    }

    fn max_fields(&self) -> usize {
        if self.style.full { usize::MAX } else { MAX_NAMES }
    }

    /// A field that an edit changes, with its values.
    fn format_field(&self, field: &EditedField<'_>) -> String {
        let path = escape_text(&field.path);
        match &field.values {
            Some((from, to)) => format!(
                "{path}: {} → {}",
                self.style.paint_text(AnsiColor::Red, from),
                self.style.paint_text(AnsiColor::Green, to)
            ),
            None => format!("{path}, each its own value"),
        }
    }

    /// The other edits of the repo that cause the changes, with the changed fields and the lines.
    fn write_edits(&self, out: &mut String) {
        let groups = self.edits.groups.iter().enumerate();
        let groups = groups
            .filter(|(_, group)| group.first_cause().is_some_and(|cause| cause.role != CauseRole::Source));
        let groups: Vec<(usize, &EditGroup<'_>)> = groups.collect();
        if groups.is_empty() {
            return;
        }
        self.write_heading(out, "Caused by");
        for (at, group) in groups.iter().take(self.max_edits()) {
            let Some(cause) = group.first_cause() else { continue };
            let names = match group.edited_objects().as_slice() {
                [] => String::new(),
                many => format!(" {}", self.format_objects(many)),
            };
            let (sign, color) = change_sign(cause.kind);
            let sign = self.style.paint_text(color, &sign.to_string());
            let (number, place) = (self.edit_number(*at), format_place(&cause.file, cause.line));
            let _ = writeln!(out, "  {sign} {number}{place}{names}: {}", group.format_effect());
            // What templates change stands below the manifests, unless it moves something.
            let is_shown = cause.role != CauseRole::Template || group.moves > 0 || self.style.full;
            let fields = if is_shown { group.edited_fields() } else { Vec::new() };
            for field in fields.iter().take(self.max_fields()) {
                let _ = writeln!(out, "      {}", self.format_field(field));
            }
            if let Some(more) = fields.len().checked_sub(self.max_fields()).filter(|more| *more > 0) {
                let _ = writeln!(out, "      … and {more} more");
            }
        }
        write_more(out, "  ", groups.len(), self.max_edits(), "edit");
    }

    /// Whether what is added fits in the clusters that get it.
    fn write_fit(&self, out: &mut String) {
        let fit = CapacityFit::new(&self.diff.capacity);
        if fit.is_empty() {
            return;
        }
        self.write_heading(out, "Does it fit");
        if !fit.known.is_empty() {
            let known = format_count(fit.known_clusters, "cluster");
            let verdict = match fit.count_exceeded() {
                0 => format!("yes, in {known} with known resources; the tightest:"),
                full => self.style.paint_text(
                    AnsiColor::Red,
                    &format!(
                        "no: {full} of {known} with known resources would be over-committed; the tightest:"
                    ),
                ),
            };
            let _ = writeln!(out, "  {verdict}");
            let shown = fit.known.iter().filter(|one| one.change.is_exceeded()).count().max(MAX_RECEIVERS);
            let shown = if self.style.full { usize::MAX } else { shown };
            for receiver in fit.known.iter().take(shown) {
                let [before, added, after, of] = receiver.format_amounts();
                let line = format!(
                    "{} {}: {before} free, +{added} requested, {after} of {of} left",
                    escape_text(receiver.cluster),
                    escape_text(receiver.resource)
                );
                let color =
                    if receiver.change.is_exceeded() { AnsiColor::Red } else { AnsiColor::BrightBlack };
                let _ = writeln!(out, "      {}", self.style.paint_text(color, &line));
            }
        }
        if !fit.unknown.is_empty() {
            let names: Vec<ClusterName> = fit.unknown.iter().map(|name| (*name).into()).collect();
            let names = self.format_names(&names.iter().collect::<Vec<_>>());
            let _ = writeln!(
                out,
                "  not known for {names}: neither the inventory nor a snapshot says what is free there"
            );
        }
    }

    fn format_objects(&self, names: &[&ObjectRef]) -> String {
        name_objects(names, self.max_names()).join_with(str::to_owned)
    }

    fn write_heading(&self, out: &mut String, title: &str) {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{}", self.style.paint_bold(title));
    }

    /// The settings that act on more than what is rendered, which nothing else shows.
    fn write_settings(&self, out: &mut String) {
        let settings = &self.diff.changes.settings;
        if settings.is_empty() {
            return;
        }
        self.write_heading(out, SETTINGS_TITLE);
        for setting in settings.iter().take(self.max_edits()) {
            let SettingLine { key, from, to, place } = SettingLine::new(setting);
            let _ = writeln!(
                out,
                "  {} {key}: {} → {} ({place})",
                self.style.paint_text(AnsiColor::Red, "!"),
                self.style.paint_text(AnsiColor::Red, &from),
                self.style.paint_text(AnsiColor::Green, &to),
            );
            let _ = writeln!(out, "      decides {}", setting.decides);
        }
        write_more(out, "  ", settings.len(), self.max_edits(), "setting");
    }

    /// The Applications that appear, go, or are applied to other clusters.
    fn write_destinations(&self, out: &mut String) {
        let groups = group_destinations(self.diff.changes);
        if groups.is_empty() {
            return;
        }
        self.write_heading(out, DESTINATIONS_TITLE);
        for group in groups.iter().take(self.max_edits()) {
            let (sign, color) = change_sign(group.kind);
            let what = group.describe(self.max_names(), escape_text, |names| self.format_names(names));
            let _ = writeln!(out, "  {} {what}", self.style.paint_text(color, &sign.to_string()));
        }
        write_more(out, "  ", groups.len(), self.max_edits(), "change");
    }

    /// The objects that no policy selects any more.
    fn write_lost_policies(&self, out: &mut String) {
        let groups = group_lost_policies(self.diff.changes);
        if groups.is_empty() {
            return;
        }
        self.write_heading(out, LOST_TITLE);
        for LostObjects { objects, lost } in groups.iter().take(self.max_edits()) {
            let what = describe_lost_policy(objects.len(), lost, |names| self.format_names(names));
            let _ = writeln!(
                out,
                "  {} {}: {what}",
                self.style.paint_text(AnsiColor::Red, "!"),
                self.format_objects(objects)
            );
            let _ = writeln!(out, "      {}", escape_text(&lost.why));
        }
        write_more(out, "  ", groups.len(), self.max_edits(), "reason");
    }

    fn write_clusters(&self, out: &mut String) {
        let clusters = &self.diff.changes.clusters;
        if clusters.is_empty() {
            return;
        }
        self.write_heading(out, "Clusters");
        for (names, sign, color) in
            [(&clusters.added, '+', AnsiColor::Green), (&clusters.removed, '-', AnsiColor::Red)]
        {
            if !names.is_empty() {
                let names: Vec<&ClusterName> = names.iter().collect();
                let _ = writeln!(
                    out,
                    "  {}",
                    self.style.paint_text(color, &format!("{sign} {}", self.format_names(&names)))
                );
            }
        }
    }

    fn write_moves(&self, out: &mut String) {
        let moves = group_moves(self.diff.changes);
        if moves.is_empty() {
            return;
        }
        self.write_heading(out, "Placement changes");
        for moved in &moves {
            self.one_move(out, moved);
        }
    }

    fn one_move(&self, out: &mut String, moved: &PlacementMove<'_>) {
        let change = moved.change;
        let (sign, color) = match change.kind {
            PlacementChangeKind::Appeared => ('+', AnsiColor::Green),
            PlacementChangeKind::Disappeared => ('-', AnsiColor::Red),
            _ => ('~', AnsiColor::Yellow),
        };
        let replicas = match (change.replicas.from, change.replicas.to) {
            _ if moved.objects.len() > 1 => String::new(),
            (Some(from), Some(to)) if from != to => format!(", {from} → {to} replicas"),
            (Some(same), Some(_)) if (1..same).contains(&change.moved_replicas()) => {
                format!(", {} of {same} replicas", change.moved_replicas())
            }
            (Some(same), _) | (None, Some(same)) => format!(", {}", count_replicas(same)),
            (None, None) => String::new(),
        };
        let sign = self.style.paint_text(color, &sign.to_string());
        let _ = writeln!(
            out,
            "  {sign} {} {}{replicas}",
            self.format_objects(&moved.objects),
            placement_word(change)
        );
        for shift in &moved.shifts {
            let words = format!("{} → {}", format_share(shift.from), format_share(shift.to));
            let _ = writeln!(out, "      {words:<16} {}", self.format_names(&shift.clusters));
        }
        let by = moved.describe_decider(|object| escape_text(&object.to_string()));
        let why = [by, self.edits.format_references(&change.caused_by)];
        let why: Vec<String> = why.into_iter().filter(|part| !part.is_empty()).collect();
        if !why.is_empty() {
            let _ = writeln!(out, "      {}", why.join(", "));
        }
        match (&change.unschedulable.from, &change.unschedulable.to) {
            (from, Some(why)) if from.as_ref() != Some(why) => {
                let words = match why.reason.as_str() {
                    "Unschedulable" => format!("unschedulable: {}", why.message),
                    reason => format!("unschedulable: {reason}: {}", why.message),
                };
                let _ =
                    writeln!(out, "      {}", self.style.paint_text(AnsiColor::Red, &escape_text(&words)));
            }
            (Some(why), None) => {
                let _ = writeln!(out, "      no longer unschedulable ({})", escape_text(&why.reason));
            }
            _ => {}
        }
        for (names, what) in [(&change.suspended, "suspended in"), (&change.resumed, "resumed in")] {
            if !names.is_empty() {
                let _ =
                    writeln!(out, "      {what} {}", self.format_names(&names.iter().collect::<Vec<_>>()));
            }
        }
    }

    fn write_entries(&self, out: &mut String) {
        let all = if self.style.full { entries_in_full } else { group_entries };
        let (entries, not_shown) = (all(self.diff.changes), not_shown(self.diff.changes));
        if entries.is_empty() && not_shown.is_none() {
            return;
        }
        self.write_heading(out, "Manifest changes");
        for entry in &entries {
            self.write_entry(out, entry);
        }
        if let Some(not_shown) = not_shown {
            let _ = writeln!(out, "  {not_shown}");
        }
    }

    fn write_entry(&self, out: &mut String, entry: &ManifestChanges<'_>) {
        let (sign, color) = change_sign(entry.kind);
        let sign = self.style.paint_text(color, &sign.to_string());
        if !entry.variations.is_empty() && !self.style.full {
            let (objects, clusters) =
                (format_count(entry.sorted_objects().len(), "object"), entry.sorted_clusters());
            let _ = writeln!(
                out,
                "  {sign} {objects} in {}, each with its own values{}",
                self.format_names(&clusters),
                entry.comparison_note()
            );
            return self.write_variations(out, entry);
        }
        for (clusters, objects) in &entry.places {
            let _ = writeln!(
                out,
                "  {sign} {} in {}{}",
                self.format_objects(objects),
                self.format_names(clusters),
                entry.comparison_note()
            );
        }
        if entry.kind == ObjectChangeKind::Changed && entry.paths.is_empty() {
            let _ = writeln!(out, "      only the order of items or the notation");
        }
        for path in &entry.paths {
            self.write_path(out, path);
        }
        if self.detail == DiffDetail::Fields {
            return;
        }
        if entry.variants > 1 {
            let _ = writeln!(out, "      one of {} different manifests:", entry.variants);
        }
        for line in escape_text(entry.diff).lines() {
            let painted = match line.as_bytes().first() {
                Some(b'+') => self.style.paint_text(AnsiColor::Green, line),
                Some(b'-') => self.style.paint_text(AnsiColor::Red, line),
                Some(b'@') => self.style.paint_text(AnsiColor::Cyan, line),
                _ => line.to_owned(),
            };
            let _ = writeln!(out, "    {painted}");
        }
    }

    /// The values of each object, as a table.
    fn write_variations(&self, out: &mut String, entry: &ManifestChanges<'_>) {
        let clusters = entry.sorted_clusters();
        for path in &entry.paths {
            let _ = writeln!(out, "      {}", escape_text(&path.path));
        }
        let several = entry.paths.len() > 1;
        let mut rows = vec![["OBJECT".to_owned(), "BEFORE".to_owned(), "AFTER".to_owned(), String::new()]];
        for variation in &entry.variations {
            let mut names = self.format_objects(&variation.objects);
            let mut members = String::new();
            if variation.is_pattern {
                members = format!("  ({names})");
                names = format_count(variation.objects.len(), "object");
            }
            if variation.clusters != clusters {
                names = format!("{names} in {}", self.format_names(&variation.clusters));
            }
            for field in &variation.fields {
                let path = if several { format!("{}: ", escape_text(field.path)) } else { String::new() };
                let (names, members) = (std::mem::take(&mut names), std::mem::take(&mut members));
                rows.push([names, format!("{path}{}", field.from), field.to.clone(), members]);
            }
        }
        // A few long cells do not widen their column.
        let names = rows.iter().map(|[name, ..]| name.chars().count());
        let object = names.filter(|width| *width <= 60).max().unwrap_or(0);
        let values = rows.iter().map(|[_, from, ..]| from.chars().count());
        let before = values.filter(|width| *width <= 80).max().unwrap_or(0);
        for [name, from, to, members] in &rows {
            let from = self.style.paint_text(AnsiColor::Red, &format!("{from:before$}"));
            let to = self.style.paint_text(AnsiColor::Green, to);
            let _ = writeln!(out, "        {name:object$}  {from}  {to}{members}");
        }
    }

    fn write_path(&self, out: &mut String, path: &PathChange) {
        let (from, to) = format_values(path);
        let from = self.style.paint_text(AnsiColor::Red, &from);
        let to = self.style.paint_text(AnsiColor::Green, &to);
        let _ = writeln!(out, "      {}: {from} → {to}", escape_text(&path.path));
    }

    fn write_pruned(&self, out: &mut String) {
        for (title, left) in PRUNED_TITLES {
            let groups: Vec<&PrunedObjects> =
                self.diff.changes.pruned.iter().filter(|group| group.unreachable == left).collect();
            if groups.is_empty() {
                continue;
            }
            self.write_heading(out, title);
            for group in groups {
                let names = self.format_names(&group.clusters.iter().collect::<Vec<_>>());
                let objects = self.format_objects(&group.objects.iter().collect::<Vec<_>>());
                let _ = writeln!(out, "  {} {names}: {objects}", self.style.paint_text(AnsiColor::Red, "-"));
            }
        }
    }

    fn write_unmatched(&self, out: &mut String) {
        let mut groups: BTreeMap<&str, Vec<&ObjectRef>> = BTreeMap::new();
        for (object, what) in unmatched_changes(self.diff) {
            groups.entry(what).or_default().push(object);
        }
        if groups.is_empty() {
            return;
        }
        self.write_heading(out, UNMATCHED_TITLE);
        for (what, objects) in groups {
            let _ = writeln!(out, "  {}: {what}", self.format_objects(&objects));
        }
    }

    fn write_findings(&self, out: &mut String) {
        for (rows, title) in
            [(&self.diff.findings, "New findings"), (&self.diff.resolved, "Resolved findings")]
        {
            // A side without clusters has warnings about that alone.
            let is_hidden = self.diff.is_first && !self.style.full && title == "Resolved findings";
            if rows.is_empty() || is_hidden {
                continue;
            }
            self.write_heading(out, title);
            for row in rows.iter().take(self.max_names()) {
                self.write_finding(out, row);
            }
            if let Some(more) = rows.len().checked_sub(self.max_names()).filter(|more| *more > 0) {
                let _ = writeln!(out, "  … and {more} more");
            }
        }
    }

    fn write_finding(&self, out: &mut String, row: &FindingRow) {
        let (color, severity) = match row.severity {
            Severity::Error => (AnsiColor::Red, "error"),
            Severity::Warning => (AnsiColor::Yellow, "warning"),
        };
        let severity = self.style.paint_text(color, &format!("{severity}[{}]", row.code));
        let at = row.format_place().map(|at| format!(" ({})", escape_text(&at))).unwrap_or_default();
        let _ = writeln!(out, "  {severity} {}{at}", escape_text(&row.message));
    }
}
