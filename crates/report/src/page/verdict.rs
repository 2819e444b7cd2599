//! The verdict on placements: what matters, what must be decided, what was edited.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::document::{PageDocument, PageMode, PageObject, PageScenario};
use super::effects::EditEffects;
use super::frame::{
    PageContent, PageFrame, PageTile, escape_html, format_object_link, write_card, write_list,
};
use super::scripts::PageView;
use super::unit_losses::write_worst_losses;
use crate::diff::VerdictFlag;
use crate::diff::edits::{EditGroup, EditGroups};
use crate::diff::lost_policies::describe_lost_policy;
use crate::diff::setting_changes::SettingLine;
use crate::table::format_count;
use crate::whatif::{format_duration, format_effect, format_sentence};
use federate_engine::change::{CauseRole, ObjectChangeKind, SettingChange};
use federate_kubernetes::finding::join_names;
use federate_kubernetes::{ObjectRef, Severity};

/// How many objects that must be decided are shown; a button shows the others in the matrix.
const MAX_DECISIONS: usize = 60;

/// How many clusters that leave the inventory are named.
const MAX_LEAVING: usize = 60;

/// How many clusters are named where an object stays.
const MAX_NAMED_CLUSTERS: usize = 5;

/// How many edits are shown.
const MAX_EDITS: usize = 30;

/// How many fields of an edit are shown.
const MAX_FIELDS: usize = 4;

impl PageContent for PageDocument<'_> {
    fn frame(&self) -> PageFrame<'_> {
        PageFrame {
            view: PageView::Placements,
            command: command_name(self.mode),
            from: self.from,
            to: self.to,
            sentence: &self.verdict.sentence,
            tiles: build_tiles(self),
            sections: shown_sections(self),
            data_source: "-o json",
        }
    }

    fn write_cards(&self, out: &mut String) {
        let edits = EditGroups::new(if self.mode == PageMode::Diff { self.causes } else { &[] });
        let effects = EditEffects::collect(self, &edits);
        let mut rows: Vec<_> = edits.groups.iter().zip(&effects).collect();
        rows.sort_by_key(|(_, effects)| effects.compute_rank());
        let shown = rows.iter().take(MAX_EDITS).flat_map(|(_, effects)| effects.unplaced_objects());
        let explained: BTreeSet<&ObjectRef> = shown.map(|object| object.object).collect();
        out.push_str(
            "<section class=\"card\" id=\"fleet\" aria-labelledby=\"fleet-title\" hidden><h2 id=\"fleet-title\">The fleet</h2><div class=\"body\"></div></section>\n",
        );
        out.push_str("<div class=\"cards\">\n");
        match &self.losses {
            Some(losses) => write_worst_losses(out, self, losses),
            None => write_decisions(out, self, &explained),
        }
        if self.mode == PageMode::Diff {
            write_edits(out, self, rows);
        }
        if let Some(scenario) = &self.scenario {
            write_timeline(out, scenario);
        }
        out.push_str("</div>\n");
        write_totals(out, self);
    }
}

/// The sections that the script fills, in order.
fn shown_sections(document: &PageDocument<'_>) -> Vec<(&'static str, &'static str)> {
    let lost = if document.losses.as_ref().is_some_and(|losses| losses.pairs) {
        "If two are lost"
    } else {
        "If one is lost"
    };
    let all = [
        ("losses", lost),
        ("matrix", "Where it runs"),
        ("moves", "Moves"),
        ("values", "Changed values"),
        ("capacity", "Capacity"),
        ("findings", "Findings"),
    ];
    let knows_capacity = document.scenario.as_ref().is_some_and(|scenario| !scenario.capacity.is_empty());
    let shown = all.into_iter().filter(|(id, _)| match document.mode {
        _ if *id == "losses" => document.losses.is_some(),
        PageMode::Diff => true,
        PageMode::Plan => !matches!(*id, "moves" | "values"),
        PageMode::Whatif => matches!(*id, "matrix" | "moves") || (*id == "capacity" && knows_capacity),
    });
    shown.collect()
}

fn command_name(mode: PageMode) -> &'static str {
    match mode {
        PageMode::Plan => "federate plan",
        PageMode::Diff => "federate diff",
        PageMode::Whatif => "federate whatif",
    }
}

fn build_tiles(document: &PageDocument<'_>) -> Vec<PageTile> {
    if document.losses.is_some() {
        return Vec::new();
    }
    let counts = &document.verdict.counts;
    let deleted = document.verdict.with_flag(VerdictFlag::Deleted).count();
    let deleted_detail = if counts.deleted_manifests == 0 {
        String::new()
    } else {
        format!(
            "{}, {}",
            format_count(counts.deleted_manifests, "manifest"),
            format_count(counts.deleted_from_clusters, "cluster")
        )
    };
    let mut tiles = vec![
        PageTile { bad: true, ..new_tile(VerdictFlag::RunsNowhere, counts.runs_nowhere) },
        PageTile { bad: true, ..new_tile(VerdictFlag::LosesPolicy, counts.loses_policy) },
        PageTile { bad: true, ..new_tile(VerdictFlag::DoesNotFit, counts.does_not_fit) },
    ];
    if document.mode != PageMode::Plan {
        let (replicas, pods) = (counts.moved_replicas, counts.restarted_pods);
        tiles.extend([
            PageTile { detail: deleted_detail, ..new_tile(VerdictFlag::Deleted, deleted) },
            PageTile {
                detail: format_amount(replicas, "replica"),
                ..new_tile(VerdictFlag::Moves, counts.moves)
            },
            PageTile {
                detail: format_amount(pods, "pod"),
                ..new_tile(VerdictFlag::Restarts, counts.restarts)
            },
            new_tile(VerdictFlag::Scaled, counts.scaled),
            new_tile(VerdictFlag::Added, counts.added),
            new_tile(VerdictFlag::Fields, counts.fields),
        ]);
    }
    // What does not happen is not worth a place.
    tiles.retain(|tile| tile.number > 0);
    tiles
}

fn new_tile(flag: VerdictFlag, number: usize) -> PageTile {
    let terms = flag.terms();
    PageTile::new(terms.name, terms.sign, terms.label, number)
}

/// A number of things; empty for none.
fn format_amount(number: i64, noun: &str) -> String {
    match usize::try_from(number) {
        Ok(0) | Err(_) => String::new(),
        Ok(number) => format_count(number, noun),
    }
}

/// What a reader must decide: settings that act in clusters, objects that lose their policy, run nowhere or do not fit, clusters
/// that leave, deletions beyond the limit. Objects in `explained` are shown beside the edits that cause it.
fn write_decisions(out: &mut String, document: &PageDocument<'_>, explained: &BTreeSet<&ObjectRef>) {
    let mut items: Vec<String> = Vec::new();
    if let Some(guard) = document.deletion_guard {
        items.push(format!(
            "<b class=\"bad\">! Publishing is refused</b> {}",
            escape_html(&guard.to_string())
        ));
    }
    items.extend(document.settings.iter().take(MAX_DECISIONS).map(format_setting));
    let more = document.settings.len().saturating_sub(MAX_DECISIONS);
    if more > 0 {
        items.push(format!(
            "<b class=\"bad\">! {}</b> that act in clusters",
            format_count(more, "more setting")
        ));
    }
    let is_unplaced =
        |object: &&PageObject<'_>| UNPLACED_FLAGS.iter().any(|flag| object.flags.contains(flag));
    // What nearly matches a policy that is lost is said here alone.
    let is_explained = |object: &PageObject<'_>| {
        !object.flags.contains(&VerdictFlag::LosesPolicy) && explained.contains(object.object)
    };
    let mut unplaced = document.objects.iter().filter(is_unplaced).filter(|object| !is_explained(object));
    items.extend(unplaced.by_ref().take(MAX_DECISIONS).map(format_unplaced));
    let more = unplaced.count();
    if more > 0 {
        items.push(format!(
            "<button type=\"button\" class=\"link\" data-flags=\"losesPolicy runsNowhere doesNotFit\">{}, in the matrix</button>",
            format_count(more, "more object")
        ));
    }
    let leaving = document.clusters.iter().filter(|one| one.presence == super::ClusterPresence::Leaves);
    let names: Vec<&str> = leaving.map(|cluster| &*cluster.row.name).collect();
    for name in names.iter().take(MAX_LEAVING) {
        items.push(format!("<b>− {}</b> leaves the inventory", escape_html(name)));
    }
    if names.len() > MAX_LEAVING {
        let more = format_count(names.len() - MAX_LEAVING, "more cluster");
        items.push(format!("<b>− {more}</b> leaving the inventory"));
    }
    let errors = document.findings.iter().filter(|row| row.severity == Severity::Error).count();
    if errors > 0 {
        items.push(format!(
            "<b class=\"bad\">! <a href=\"#findings\">{}</a></b>",
            format_count(errors, "error")
        ));
    }
    if !items.is_empty() || document.mode != PageMode::Diff {
        write_card(out, "decide", "To decide", &items, usize::MAX, "Nothing stands out.");
    }
}

/// The flags of objects that must be decided.
const UNPLACED_FLAGS: [VerdictFlag; 3] =
    [VerdictFlag::RunsNowhere, VerdictFlag::LosesPolicy, VerdictFlag::DoesNotFit];

/// A setting that acts on more than what is rendered.
fn format_setting(setting: &SettingChange) -> String {
    let SettingLine { key, from, to, place } = SettingLine::new(setting);
    format!(
        "<b class=\"bad\">! {}</b> <del>{}</del> → <ins>{}</ins> <span class=\"muted\">{}: decides {}</span>",
        escape_html(&key),
        escape_html(&from),
        escape_html(&to),
        escape_html(&place),
        escape_html(setting.decides)
    )
}

/// An object that no policy selects any more, runs nowhere or does not fit, and why.
fn format_unplaced(object: &PageObject<'_>) -> String {
    if let Some(lost) = object.lost_policy {
        let what = describe_lost_policy(1, lost, |names| {
            let names: Vec<&str> = names.iter().map(|name| &***name).collect();
            join_names(&names, MAX_NAMED_CLUSTERS)
        });
        return format!(
            "<b class=\"bad\">§ {}</b> {}: <span class=\"muted\">{}</span>",
            format_object_link(object.object),
            escape_html(&what),
            escape_html(&lost.why)
        );
    }
    let nowhere = object.flags.contains(&VerdictFlag::RunsNowhere);
    let terms = if nowhere { VerdictFlag::RunsNowhere } else { VerdictFlag::DoesNotFit }.terms();
    format!(
        "<b class=\"bad\">{} {}</b> {}{}",
        terms.sign,
        format_object_link(object.object),
        terms.words[0],
        format_reason(object)
    )
}

fn format_reason(object: &PageObject<'_>) -> String {
    if object.after.is_none() {
        return ": <span class=\"muted\">no policy selects it</span>".to_owned();
    }
    object.unschedulable.to.map_or(String::new(), |why| {
        let words = if why.message.is_empty() { &why.reason } else { &why.message };
        format!(": <span class=\"muted\">{}</span>", escape_html(words))
    })
}

/// The edits of the repo, each beside what follows from it.
fn write_edits(
    out: &mut String,
    document: &PageDocument<'_>,
    rows: Vec<(&EditGroup<'_>, &EditEffects<'_, '_>)>,
) {
    let format_row = |(group, effects): (&EditGroup<'_>, &EditEffects<'_, '_>)| {
        let mut text = format!("<div class=\"edit\">{}</div>\n<div class=\"follows\">", format_edit(group)?);
        effects.write_lines(&mut text, document, format_reason);
        let _ = write!(text, "<p class=\"muted\">{}</p></div>", group.format_effect());
        Some(text)
    };
    let items: Vec<String> = rows.into_iter().filter_map(format_row).collect();
    let empty = if document.settings.is_empty() && document.verdict.counts.loses_policy == 0 {
        "Nothing that changes a cluster."
    } else {
        "Nothing that changes a manifest or a placement."
    };
    write_card(out, "edits", "Why", &items, MAX_EDITS, empty);
}

/// Edits that are shown together, with the fields that they change and what that causes.
fn format_edit(group: &EditGroup<'_>) -> Option<String> {
    let cause = group.first_cause()?;
    let sign = match cause.kind {
        ObjectChangeKind::Added => "+",
        ObjectChangeKind::Changed => "~",
        ObjectChangeKind::Removed => "−",
    };
    let name = match (&cause.object, cause.sources.as_slice()) {
        (Some(object), _) => escape_html(&object.to_string()),
        (None, []) => "the configuration".to_owned(),
        (None, [source]) => escape_html(source),
        (None, [source, more @ ..]) => {
            format!("{} and {}", escape_html(source), format_count(more.len(), "more source"))
        }
    };
    let more = match group.causes.len() {
        1 => String::new(),
        _ if group.more_files() > 0 => format!(", {}", format_count(group.causes.len(), "file")),
        number => format!(
            " and {} more {}s",
            number - 1,
            escape_html(cause.object.as_ref().map_or("object", |object| &object.kind))
        ),
    };
    let mut text = format!(
        "<b>{sign} {name}{more}</b> <span class=\"tag\">{}</span> <span class=\"muted\">{}:{}</span>",
        role_name(cause.role),
        escape_html(&cause.file),
        cause.line
    );
    let fields = group.edited_fields();
    for field in fields.iter().take(MAX_FIELDS) {
        let values = field.values.as_ref().map_or(
            " <span class=\"muted\">various values</span>".to_owned(),
            |(from, to)| {
                format!(
                    "<del><span class=\"sr\">was </span>{}</del><ins><span class=\"sr\">is </span>{}</ins>",
                    escape_html(from),
                    escape_html(to)
                )
            },
        );
        let _ = write!(text, "<div class=\"field\"><code>{}</code>{values}</div>", escape_html(&field.path));
    }
    if fields.len() > MAX_FIELDS {
        let _ = write!(
            text,
            "<div class=\"field muted\">and {}</div>",
            format_count(fields.len() - MAX_FIELDS, "more field")
        );
    }
    Some(text)
}

/// What happens when in a scenario, and what it costs.
fn write_timeline(out: &mut String, scenario: &PageScenario<'_>) {
    out.push_str(
        "<section class=\"card\" aria-labelledby=\"timeline\"><h2 id=\"timeline\">What happens when</h2>\n",
    );
    let items: Vec<String> = scenario
        .timeline
        .iter()
        .map(|stage| {
            let events = stage.events.join("; ");
            let effect = format_effect(stage).unwrap_or_else(|| "nothing moves".to_owned());
            format!(
                "<b>t+{}</b> {} <span class=\"effect\">{effect}</span>",
                format_duration(stage.seconds),
                escape_html(&events)
            )
        })
        .collect();
    write_list(out, &items, MAX_DECISIONS);
    if let Some(unmoved) = scenario.unmoved {
        let text = format!("Nothing moves because {}: {}.", unmoved.summary, unmoved.help);
        let _ = writeln!(out, "<p>{}</p>", escape_html(&text));
    }
    let nowhere = scenario.losses.iter().filter(|loss| loss.nowhere).count();
    let _ =
        writeln!(out, "<p class=\"muted\">{}.</p>\n</section>", format_sentence(scenario.replicas, nowhere));
}

fn role_name(role: CauseRole) -> &'static str {
    match role {
        CauseRole::Source => "source",
        CauseRole::Policy => "policy",
        CauseRole::Override => "override",
        CauseRole::Cluster => "cluster",
        CauseRole::Other => "other",
        CauseRole::Configuration => "configuration",
        CauseRole::Bundle => "bundle",
        CauseRole::Template => "template",
    }
}

fn write_totals(out: &mut String, document: &PageDocument<'_>) {
    let (from, to) = (document.totals.from, document.totals.to);
    let mut counts = Vec::new();
    for (before, after, what) in [
        (from.clusters.to_string(), to.clusters.to_string(), "clusters"),
        (from.placed.to_string(), to.placed.to_string(), "objects placed"),
        (from.replicas.to_string(), to.replicas.to_string(), "replicas"),
        (from.manifests.to_string(), to.manifests.to_string(), "manifests"),
    ] {
        counts.push(if document.mode == PageMode::Plan || before == after {
            format!("{after} {what}")
        } else {
            format!("{before} → {after} {what}")
        });
    }
    let _ = writeln!(out, "<p class=\"totals muted\">{}</p>", counts.join(" · "));
}
