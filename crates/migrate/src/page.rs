//! The page of a migration: the verdict, the objects with what differs, the random states, and the runbook as text.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::plan::API_VERSION;
use federate_report::page::{
    PageContent, PageFrame, PageTile, PageView, escape_html, format_link, write_card,
};
use federate_report::table::format_count;

use crate::report::{describe_difference, describe_example};
use crate::{MigrationReport, ObjectRow, Verdict};

/// How many objects and reasons a card shows before the others are folded.
const MAX_SHOWN: usize = 20;

/// Everything that the page of a migration shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationPage<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `MigrationPage`.
    pub kind: &'static str,
    /// The repo.
    pub name: &'a str,
    /// What `federate migrate -o json` prints.
    pub report: &'a MigrationReport,
    /// The sections of the runbook.
    pub runbook: Vec<RunbookSection<'a>>,
    /// The control planes that are left.
    #[serde(skip)]
    from: String,
}

/// A section of a runbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunbookSection<'a> {
    /// The heading.
    pub title: &'a str,
    /// The rest, as Markdown.
    pub text: &'a str,
}

impl<'a> MigrationPage<'a> {
    /// The page of a report and its runbook.
    pub fn new(name: &'a str, report: &'a MigrationReport, runbook: &'a str) -> Self {
        let from = if report.from.is_empty() { "plain".to_owned() } else { report.from.join(", ") };
        let sections = runbook.split("\n## ").enumerate().map(|(at, section)| {
            let (title, text) = section.split_once('\n').unwrap_or((section, ""));
            let title = if at == 0 { "Before you begin" } else { title };
            RunbookSection { title, text: text.trim() }
        });
        let runbook = sections.filter(|section| !section.text.is_empty()).collect();
        Self { api_version: API_VERSION, kind: "MigrationPage", name, report, runbook, from }
    }

    /// The objects that differ, each with the first of its differences.
    fn list_differing(&self) -> Vec<String> {
        let differing = self.report.objects.iter().filter(|row| row.verdict >= Verdict::Different);
        differing.map(describe_object).collect()
    }

    /// The reasons, each with its meaning and how many objects it concerns.
    fn list_reasons(&self) -> Vec<String> {
        let rows = self.report.reasons.iter().map(|row| {
            let objects = format_count(row.objects, "object");
            let differ = match row.different {
                0 => String::new(),
                different => format!(", {different} of them different"),
            };
            format!(
                "<span class=\"tag\">{}</span> {} <span class=\"effect\">{objects}{differ}</span>",
                row.reason.name(),
                escape_html(row.meaning)
            )
        });
        rows.collect()
    }
}

/// An object that differs in a line.
fn describe_object(row: &ObjectRow) -> String {
    let object = row.object.to_string();
    let fragment = object.replacen(' ', "/", 1);
    let (class, sign) = match row.verdict {
        Verdict::Unexplained => (" class=\"bad\"", "✕"),
        _ => ("", "≠"),
    };
    let mut text = format!("<b{class}>{sign} {}</b>", format_link(&fragment, &object));
    if let Some(first) = row.differences.first() {
        let _ = write!(text, " {}", escape_html(&describe_difference(first)));
        if row.differences.len() > 1 {
            let _ = write!(text, " <span class=\"effect\">and {} more</span>", row.differences.len() - 1);
        }
    }
    text
}

impl PageContent for MigrationPage<'_> {
    fn frame(&self) -> PageFrame<'_> {
        let counts = self.report.counts;
        let mut sections = vec![("objects", "Objects")];
        if self.report.stress.is_some() {
            sections.push(("states", "Random states"));
        }
        sections.extend([("files", "Files"), ("runbook", "Runbook")]);
        PageFrame {
            view: PageView::Migration,
            command: "federate migrate",
            from: Some(&self.from),
            to: self.report.to,
            sentence: &self.report.summary,
            tiles: vec![
                PageTile::new_bad("unexplained", "✕", "Unexplained", counts.unexplained),
                PageTile::new("different", "≠", "Different", counts.different),
                PageTile::new("equal-now", "≈", "Equal now", counts.equal_now),
            ],
            sections,
            data_source: "federate migrate -o json",
        }
    }

    fn write_cards(&self, out: &mut String) {
        out.push_str("<div class=\"cards\">\n");
        write_card(out, "differing", "What differs", &self.list_differing(), MAX_SHOWN, "Nothing.");
        let none = "Every object is placed by equal rules.";
        write_card(out, "reasons", "Why it is not the same rule", &self.list_reasons(), MAX_SHOWN, none);
        let fault = self.report.stress.as_ref().and_then(|stress| stress.unexplained.as_ref());
        if let Some(example) = fault {
            let example = [format!("<b class=\"bad\">✕</b> {}", escape_html(&describe_example(example)))];
            write_card(out, "fault", "A random state that no reason explains", &example, MAX_SHOWN, "");
        }
        out.push_str("</div>\n");
        let _ = writeln!(
            out,
            "<p class=\"totals muted\">{} placed by equal rules · {} of <code>{}</code> {}</p>",
            format_count(self.report.counts.equal, "object"),
            format_count(self.report.files.len(), "file"),
            escape_html(self.name),
            if self.report.files.len() == 1 { "differs" } else { "differ" }
        );
    }
}
