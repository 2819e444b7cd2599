//! The frame that all pages share: the bar, the verdict with its tiles, and the sections that the script fills. It needs no script.

use std::fmt::Write as _;

use serde::Serialize;

use super::PageHost;
use super::scripts::PageView;
use crate::diff::format_side;
use crate::table::format_count;
use federate_kubernetes::ObjectRef;
use federate_kubernetes::display_text::escape_text;

/// What a page shows within the frame, and the data that its script draws.
pub trait PageContent: Serialize {
    /// What the frame says of it.
    fn frame(&self) -> PageFrame<'_>;

    /// Writes the cards below the tiles, and what follows them in the verdict.
    fn write_cards(&self, out: &mut String);
}

/// What the frame of a page says.
#[derive(Clone, Debug)]
pub struct PageFrame<'a> {
    /// The kind of the page.
    pub view: PageView,
    /// The command whose result the page is.
    pub command: &'static str,
    /// The earlier of two sides.
    pub from: Option<&'a str>,
    /// The only or the later side.
    pub to: &'a str,
    /// What matters, in one sentence.
    pub sentence: &'a str,
    /// The numbers of the verdict.
    pub tiles: Vec<PageTile>,
    /// The ids and the titles of the sections that the script fills, in order.
    pub sections: Vec<(&'static str, &'static str)>,
    /// Where those who read the page without scripts find the same data, as words that follow "The same data: ".
    pub data_source: &'static str,
}

/// A number of the verdict, which shows only what it counts.
#[derive(Clone, Debug)]
pub struct PageTile {
    /// The flag of what it counts.
    pub flag: &'static str,
    /// A sign for the flag.
    pub sign: &'static str,
    /// What it counts.
    pub label: &'static str,
    /// The number.
    pub number: usize,
    /// What the number amounts to; empty if there is nothing to add.
    pub detail: String,
    /// Whether any number but 0 is bad.
    pub bad: bool,
}

impl PageTile {
    /// A tile without a detail.
    pub fn new(flag: &'static str, sign: &'static str, label: &'static str, number: usize) -> Self {
        Self { flag, sign, label, number, detail: String::new(), bad: false }
    }

    /// A tile whose number should be 0.
    pub fn new_bad(flag: &'static str, sign: &'static str, label: &'static str, number: usize) -> Self {
        Self { bad: true, ..Self::new(flag, sign, label, number) }
    }
}

/// The title of a page.
pub(super) fn format_title(frame: &PageFrame<'_>) -> String {
    let to = escape_html(&format_side(frame.to));
    match frame.from {
        Some(from) => format!("{}: {} → {to}", frame.command, escape_html(&format_side(from))),
        None => format!("{}: {to}", frame.command),
    }
}

/// Writes the header, the verdict, and the empty sections that the script fills.
pub(super) fn write_body(
    out: &mut String,
    frame: &PageFrame<'_>,
    content: &impl PageContent,
    host: PageHost,
) {
    write_bar(out, frame, host);
    out.push_str("<main id=\"main\">\n<section id=\"verdict\" aria-labelledby=\"sentence\">\n");
    let _ = writeln!(out, "<h1 id=\"sentence\">{}</h1>", escape_html(frame.sentence));
    write_tiles(out, &frame.tiles);
    content.write_cards(out);
    let _ = writeln!(
        out,
        "<noscript><p class=\"note\">Without scripts, this page shows the verdict only. The same data: <code>{}</code>.</p></noscript>",
        escape_html(frame.data_source)
    );
    out.push_str("</section>\n");
    for (id, title) in &frame.sections {
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

fn write_bar(out: &mut String, frame: &PageFrame<'_>, host: PageHost) {
    let _ = write!(
        out,
        "<a class=\"skip\" href=\"#main\">Skip to the result</a>\n<header class=\"bar\">\n<strong>{}</strong>",
        frame.command
    );
    let to = escape_html(&format_side(frame.to));
    let sides = match frame.from {
        Some(from) => format!(
            "{} <span aria-hidden=\"true\">→</span><span class=\"sr\"> to </span> {to}",
            escape_html(&format_side(from))
        ),
        None => to,
    };
    let _ = write!(out, "<span class=\"sides\">{sides}</span>\n<nav aria-label=\"Sections\">");
    for (id, title) in &frame.sections {
        let _ = write!(out, "<a href=\"#{id}\">{title}</a>");
    }
    out.push_str("</nav>\n");
    if let PageHost::Server { has_drift, .. } = host {
        write_pages(out, frame.view, has_drift);
    }
    out.push_str("<span id=\"tools\"></span>\n</header>\n");
}

/// Writes links to the pages of a server.
fn write_pages(out: &mut String, view: PageView, has_drift: bool) {
    out.push_str("<nav class=\"pages\" aria-label=\"Pages\">");
    let pages = [(PageView::Placements, "/", "Plan"), (PageView::Check, "/check", "Check")];
    let drift = has_drift.then_some((PageView::Drift, "/drift", "Drift"));
    for (kind, address, title) in pages.into_iter().chain(drift) {
        let current = if kind == view { " aria-current=\"page\"" } else { "" };
        let _ = write!(out, "<a href=\"{address}\"{current}>{title}</a>");
    }
    out.push_str("</nav>\n");
}

fn write_tiles(out: &mut String, tiles: &[PageTile]) {
    if tiles.is_empty() {
        return;
    }
    out.push_str("<ul class=\"tiles\" id=\"tiles\">\n");
    for PageTile { flag, sign, label, number, detail, bad } in tiles {
        let class = match (number, bad) {
            (0, _) => "zero",
            (_, true) => "bad",
            _ => "",
        };
        let _ = writeln!(
            out,
            "<li><button type=\"button\" class=\"tile {class}\" data-flag=\"{flag}\" aria-pressed=\"false\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span><span class=\"number\">{number}</span> <span class=\"label\">{label}</span><span class=\"detail\">{}</span></button></li>",
            escape_html(detail)
        );
    }
    out.push_str("</ul>\n");
}

/// Writes a card: a heading, and a list of which at most `most` items are shown at first. Items are HTML. `none` is said of an
/// empty list.
pub fn write_card(out: &mut String, id: &str, title: &str, items: &[String], most: usize, none: &str) {
    let _ = writeln!(
        out,
        "<section class=\"card\" aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>",
        escape_html(title)
    );
    if items.is_empty() {
        let _ = writeln!(out, "<p class=\"muted\">{}</p>", escape_html(none));
    } else {
        write_list(out, items, most);
    }
    out.push_str("</section>\n");
}

/// How many items of a list are folded; of more, a page says only how many there are. All are elements that a browser must read
/// before it paints anything.
const MAX_FOLDED: usize = 200;

/// Writes a list; what is beyond `most` is folded.
pub(super) fn write_list(out: &mut String, items: &[String], most: usize) {
    let (shown, more) = items.split_at(items.len().min(most));
    write_items(out, shown);
    if more.is_empty() {
        return;
    }
    let (folded, left_out) = more.split_at(more.len().min(MAX_FOLDED));
    let _ = writeln!(out, "<details><summary>{} more</summary>", more.len());
    write_items(out, folded);
    if !left_out.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"muted\">And {}, which <code>-o json</code> lists.</p>",
            format_count(left_out.len(), "more item")
        );
    }
    out.push_str("</details>\n");
}

fn write_items(out: &mut String, items: &[String]) {
    out.push_str("<ul class=\"list\">\n");
    for item in items {
        let _ = writeln!(out, "<li>{item}</li>");
    }
    out.push_str("</ul>\n");
}

/// A link within the page, to an object or another part of it, as HTML.
pub fn format_link(fragment: &str, text: &str) -> String {
    let address = crate::escape::encode_path(fragment);
    format!("<a href=\"#{}\">{}</a>", escape_html(&address), escape_html(text))
}

/// A link that opens an object, as HTML.
pub(super) fn format_object_link(object: &ObjectRef) -> String {
    format_link(&format!("{}/{}", object.kind, object.namespaced_name()), &object.to_string())
}

/// Text as HTML.
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape_text(text).chars() {
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
