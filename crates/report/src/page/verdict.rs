//! The part of a page that needs no script: what matters, what must be decided, what was edited.

use std::fmt::Write as _;

use super::document::{PageDocument, PageMode, PageObject, PageScenario};
use crate::diff::edits::{EditGroup, EditGroups};
use crate::diff::{VerdictFlag, escape_controls};
use crate::table::format_count;
use crate::whatif::{format_duration, format_effect, format_sentence};
use federate_engine::change::{CauseRole, ObjectChangeKind};
use federate_kubernetes::Severity;

/// How many objects that must be decided are shown; the others follow a button.
const MAX_DECISIONS: usize = 60;

/// How many edits are shown.
const MAX_EDITS: usize = 30;

/// How many fields of an edit are shown.
const MAX_FIELDS: usize = 4;

/// The title of a page.
pub(super) fn format_title(document: &PageDocument<'_>) -> String {
    let mode = mode_name(document.mode);
    match document.from {
        Some(from) => format!(
            "{mode}: {} → {}",
            escape_html(&format_side(from)),
            escape_html(&format_side(document.to))
        ),
        None => format!("{mode}: {}", escape_html(&format_side(document.to))),
    }
}

/// Writes the header, the verdict, and the empty sections that the script fills.
pub(super) fn write_body(out: &mut String, document: &PageDocument<'_>) {
    write_bar(out, document);
    out.push_str("<main id=\"main\">\n<section id=\"verdict\" aria-labelledby=\"sentence\">\n");
    let _ = writeln!(out, "<h1 id=\"sentence\">{}</h1>", escape_html(&document.verdict.sentence));
    write_tiles(out, document);
    out.push_str("<div class=\"cards\">\n");
    write_decisions(out, document);
    if document.mode == PageMode::Diff {
        write_edits(out, document);
    }
    if let Some(scenario) = &document.scenario {
        write_timeline(out, scenario);
    }
    out.push_str("</div>\n");
    write_totals(out, document);
    out.push_str("<noscript><p class=\"note\">Without scripts, this page shows the verdict only. The same data: <code>-o json</code>.</p></noscript>\n");
    out.push_str("</section>\n");
    for (id, title) in shown_sections(document) {
        let _ = writeln!(
            out,
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\" hidden><h2 id=\"{id}-title\">{title}</h2><div class=\"body\"></div></section>"
        );
    }
    out.push_str("</main>\n<aside id=\"pane\" aria-label=\"Object\" hidden></aside>\n");
    let _ = writeln!(
        out,
        "<footer><p>Written by federate {}.</p></footer>",
        escape_html(env!("CARGO_PKG_VERSION"))
    );
}

/// The sections that the script fills, in order.
fn shown_sections(document: &PageDocument<'_>) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("matrix", "Where it runs"),
        ("moves", "Moves"),
        ("values", "Changed values"),
        ("capacity", "Capacity"),
        ("findings", "Findings"),
    ];
    let knows_capacity = document.scenario.as_ref().is_some_and(|scenario| !scenario.capacity.is_empty());
    let shown = all.into_iter().filter(|(id, _)| match document.mode {
        PageMode::Diff => true,
        PageMode::Plan => !matches!(*id, "moves" | "values"),
        PageMode::Whatif => matches!(*id, "matrix" | "moves") || (*id == "capacity" && knows_capacity),
    });
    shown.collect()
}

fn mode_name(mode: PageMode) -> &'static str {
    match mode {
        PageMode::Plan => "federate plan",
        PageMode::Diff => "federate diff",
        PageMode::Whatif => "federate whatif",
    }
}

fn write_bar(out: &mut String, document: &PageDocument<'_>) {
    let _ = write!(
        out,
        "<a class=\"skip\" href=\"#main\">Skip to the result</a>\n<header class=\"bar\">\n<strong>{}</strong>",
        mode_name(document.mode)
    );
    let sides = match document.from {
        Some(from) => format!(
            "{} <span aria-hidden=\"true\">→</span><span class=\"sr\"> to </span> {}",
            escape_html(&format_side(from)),
            escape_html(&format_side(document.to))
        ),
        None => escape_html(&format_side(document.to)),
    };
    let _ = write!(out, "<span class=\"sides\">{sides}</span>\n<nav aria-label=\"Sections\">");
    for (id, title) in shown_sections(document) {
        let _ = write!(out, "<a href=\"#{id}\">{title}</a>");
    }
    out.push_str("</nav>\n<span id=\"tools\"></span>\n</header>\n");
}

/// A number of the verdict that filters the objects.
struct Tile {
    flag: &'static str,
    sign: &'static str,
    label: &'static str,
    number: usize,
    detail: String,
    bad: bool,
}

impl Tile {
    fn new(flag: &'static str, sign: &'static str, label: &'static str, number: usize) -> Self {
        Self { flag, sign, label, number, detail: String::new(), bad: false }
    }
}

fn build_tiles(document: &PageDocument<'_>) -> Vec<Tile> {
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
        Tile::new("runsNowhere", "✕", "Run nowhere", counts.runs_nowhere),
        Tile::new("doesNotFit", "!", "Do not fit", counts.does_not_fit),
    ];
    for tile in &mut tiles {
        tile.bad = true;
    }
    if document.mode != PageMode::Plan {
        let (replicas, pods) = (counts.moved_replicas, counts.restarted_pods);
        tiles.extend([
            Tile { detail: deleted_detail, ..Tile::new("deleted", "−", "Deleted", deleted) },
            Tile {
                detail: format_amount(replicas, "replica"),
                ..Tile::new("moves", "⇄", "Move", counts.moves)
            },
            Tile {
                detail: format_amount(pods, "pod"),
                ..Tile::new("restarts", "↻", "Restart", counts.restarts)
            },
            Tile::new("scaled", "↕", "Scaled", counts.scaled),
            Tile::new("added", "+", "New", counts.added),
            Tile::new("fields", "≠", "Fields", counts.fields),
        ]);
    }
    tiles
}

/// A number of things; empty for none.
fn format_amount(number: i64, noun: &str) -> String {
    match usize::try_from(number) {
        Ok(0) | Err(_) => String::new(),
        Ok(number) => format_count(number, noun),
    }
}

fn write_tiles(out: &mut String, document: &PageDocument<'_>) {
    out.push_str("<ul class=\"tiles\" id=\"tiles\">\n");
    for Tile { flag, sign, label, number, detail, bad } in build_tiles(document) {
        let class = match (number, bad) {
            (0, _) => "zero",
            (_, true) => "bad",
            _ => "",
        };
        let _ = writeln!(
            out,
            "<li><button type=\"button\" class=\"tile {class}\" data-flag=\"{flag}\" aria-pressed=\"false\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span><span class=\"number\">{number}</span> <span class=\"label\">{label}</span><span class=\"detail\">{detail}</span></button></li>"
        );
    }
    out.push_str("</ul>\n");
}

/// What a reader must decide: objects that run nowhere or do not fit, clusters that leave, deletions beyond the limit.
fn write_decisions(out: &mut String, document: &PageDocument<'_>) {
    let mut items: Vec<String> = Vec::new();
    if let Some(guard) = document.deletion_guard {
        items.push(format!(
            "<b class=\"bad\">! Publishing is refused</b> {}",
            escape_html(&guard.to_string())
        ));
    }
    for object in &document.objects {
        let nowhere = object.flags.contains(&VerdictFlag::RunsNowhere);
        if nowhere || object.flags.contains(&VerdictFlag::DoesNotFit) {
            let (sign, words) = if nowhere { ("✕", "runs nowhere") } else { ("!", "does not fit") };
            items.push(format!(
                "<b class=\"bad\">{sign} {}</b> {words}{}",
                format_link(object),
                format_reason(object)
            ));
        }
    }
    for cluster in &document.clusters {
        if cluster.presence == super::ClusterPresence::Leaves {
            items.push(format!("<b>− {}</b> leaves the inventory", escape_html(&cluster.row.name)));
        }
    }
    let errors = document.findings.iter().filter(|row| row.severity == Severity::Error).count();
    if errors > 0 {
        items.push(format!(
            "<b class=\"bad\">! <a href=\"#findings\">{}</a></b>",
            format_count(errors, "error")
        ));
    }
    out.push_str("<section class=\"card\" aria-labelledby=\"decide\"><h2 id=\"decide\">To decide</h2>\n");
    if items.is_empty() {
        out.push_str("<p class=\"muted\">Nothing stands out.</p>\n</section>\n");
        return;
    }
    write_list(out, &items, MAX_DECISIONS);
    out.push_str("</section>\n");
}

/// Writes a list; what is beyond `most` is folded.
fn write_list(out: &mut String, items: &[String], most: usize) {
    let (shown, more) = items.split_at(items.len().min(most));
    write_items(out, shown);
    if !more.is_empty() {
        let _ = writeln!(out, "<details><summary>{} more</summary>", more.len());
        write_items(out, more);
        out.push_str("</details>\n");
    }
}

fn write_items(out: &mut String, items: &[String]) {
    out.push_str("<ul class=\"list\">\n");
    for item in items {
        let _ = writeln!(out, "<li>{item}</li>");
    }
    out.push_str("</ul>\n");
}

fn format_reason(object: &PageObject<'_>) -> String {
    object.unschedulable.to.map_or(String::new(), |why| {
        let words = if why.message.is_empty() { &why.reason } else { &why.message };
        format!(": <span class=\"muted\">{}</span>", escape_html(words))
    })
}

/// The edits of the repo, with what they change.
fn write_edits(out: &mut String, document: &PageDocument<'_>) {
    out.push_str("<section class=\"card\" aria-labelledby=\"edits\"><h2 id=\"edits\">What was changed in the repo</h2>\n");
    let edits = EditGroups::new(document.causes);
    let items: Vec<String> = edits.groups.iter().filter_map(format_edit).collect();
    if items.is_empty() {
        out.push_str("<p class=\"muted\">Nothing that changes a cluster.</p>\n</section>\n");
        return;
    }
    write_list(out, &items, MAX_EDITS);
    out.push_str("</section>\n");
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
        "<b>{sign} {name}{more}</b> <span class=\"tag\">{}</span> <span class=\"muted\">{}:{}</span> <span class=\"effect\">{}</span>",
        role_name(cause.role),
        escape_html(&cause.file),
        cause.line,
        group.format_effect()
    );
    let fields = group.edited_fields();
    for field in fields.iter().take(MAX_FIELDS) {
        let values = field
            .values
            .as_ref()
            .map_or(" <span class=\"muted\">various values</span>".to_owned(), |(from, to)| {
                format!(" <del>{}</del> → <ins>{}</ins>", escape_html(from), escape_html(to))
            });
        let _ = write!(text, "<div class=\"field\"><code>{}</code>{values}</div>", escape_html(&field.path));
    }
    if fields.len() > MAX_FIELDS {
        let _ =
            write!(text, "<div class=\"field muted\">and {} more fields</div>", fields.len() - MAX_FIELDS);
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

/// A link that opens an object.
fn format_link(object: &PageObject<'_>) -> String {
    let id = object.object;
    let path = format!("{}/{}", id.kind, id.namespaced_name());
    format!("<a href=\"#{}\">{}</a>", escape_html(&encode_fragment(&path)), escape_html(&id.to_string()))
}

/// A path as a fragment of an address.
fn encode_fragment(path: &str) -> String {
    crate::escape::encode_path(path)
}

/// The name of a side; a full commit hash is abbreviated.
fn format_side(name: &str) -> String {
    crate::diff::format_side(name)
}

/// Text as HTML.
pub(super) fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape_controls(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
