//! The page of `check`: what is wrong, file by file, with the line that causes it; causes stand before what follows from them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::frame::{PageContent, PageFrame, PageTile, escape_html, format_link, write_card};
use super::scripts::PageView;
use crate::findings::{QuotedFinding, is_consequence};
use crate::table::format_count;
use federate_dialect::plan::API_VERSION;
use federate_kubernetes::Severity;

/// How many causes are shown before the others are folded.
const MAX_CAUSES: usize = 20;

/// Everything that the page of `check` shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckPage<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `CheckPage`.
    pub kind: &'static str,
    /// The repo.
    pub name: &'a str,
    /// What matters.
    pub verdict: CheckVerdict,
    /// The causes: findings with the same code and remedy, in the order of their first findings.
    pub causes: Vec<FindingCause<'a>>,
    /// What `federate check -o json` prints, each with the line that it is about.
    pub findings: &'a [QuotedFinding],
}

/// How many findings there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckVerdict {
    /// One sentence.
    pub sentence: String,
    /// The number of errors.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
    /// The number of files with findings.
    pub files: usize,
}

/// Findings with the same code and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingCause<'a> {
    /// `error` or `warning`.
    pub severity: Severity,
    /// The code.
    pub code: &'a str,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
    /// How many findings.
    pub count: usize,
    /// Whether they follow from others, as a template that nothing matches does from a policy that is not read.
    pub follows: bool,
    /// The number of the first of them in `findings`.
    pub first: usize,
}

impl<'a> CheckPage<'a> {
    /// The page of findings, sorted as they are shown. `summary` is the sentence for all of them.
    pub fn new(name: &'a str, summary: &str, findings: &'a [QuotedFinding]) -> Self {
        let errors = findings.iter().filter(|one| one.row.severity == Severity::Error).count();
        let mut files: Vec<&str> = findings.iter().filter_map(|one| one.row.file.as_deref()).collect();
        files.sort_unstable();
        files.dedup();
        let mut characters = summary.trim_end().chars();
        let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
        Self {
            api_version: API_VERSION,
            kind: "CheckPage",
            name,
            verdict: CheckVerdict {
                sentence: first + characters.as_str() + ".",
                errors,
                warnings: findings.len() - errors,
                files: files.len(),
            },
            causes: group_by_cause(findings),
            findings,
        }
    }

    fn list_causes(&self, follows: bool) -> Vec<String> {
        let causes = self.causes.iter().filter(|cause| cause.follows == follows);
        causes.filter_map(|cause| self.describe_cause(cause)).collect()
    }

    /// A cause in a line: its first finding, and how many there are like it.
    fn describe_cause(&self, cause: &FindingCause<'_>) -> Option<String> {
        let first = self.findings.get(cause.first)?;
        let (class, sign) = match cause.severity {
            Severity::Error => (" class=\"bad\"", "✕"),
            Severity::Warning => ("", "!"),
        };
        let place = first.row.format_place().unwrap_or_else(|| cause.code.to_owned());
        let mut text = format!(
            "<b{class}>{sign} {}</b> <span class=\"tag\">{}</span> {}",
            format_link(&first.link, &place),
            escape_html(cause.code),
            escape_html(&first.row.message)
        );
        if cause.count > 1 {
            let _ = write!(text, " <span class=\"effect\">and {} more like it</span>", cause.count - 1);
        }
        if let Some(help) = cause.help {
            let _ = write!(text, "<div class=\"field muted\">{}</div>", escape_html(help));
        }
        Some(text)
    }
}

fn group_by_cause(findings: &[QuotedFinding]) -> Vec<FindingCause<'_>> {
    let mut causes: Vec<FindingCause<'_>> = Vec::new();
    let mut places: BTreeMap<(Severity, &str, Option<&str>), usize> = BTreeMap::new();
    for (first, finding) in findings.iter().enumerate() {
        let row = &finding.row;
        let place = *places.entry((row.severity, row.code, row.help.as_deref())).or_insert(causes.len());
        match causes.get_mut(place) {
            Some(cause) => cause.count += 1,
            None => causes.push(FindingCause {
                severity: row.severity,
                code: row.code,
                help: row.help.as_deref(),
                count: 1,
                follows: is_consequence(row.code),
                first,
            }),
        }
    }
    causes
}

impl PageContent for CheckPage<'_> {
    fn frame(&self) -> PageFrame<'_> {
        PageFrame {
            view: PageView::Check,
            command: "federate check",
            from: None,
            to: self.name,
            sentence: &self.verdict.sentence,
            tiles: vec![
                PageTile::new_bad("error", "✕", "Errors", self.verdict.errors),
                PageTile::new("warning", "!", "Warnings", self.verdict.warnings),
            ],
            sections: vec![("findings", "Findings by file")],
            data_source: "federate check -o json",
        }
    }

    fn write_cards(&self, out: &mut String) {
        out.push_str("<div class=\"cards\">\n");
        write_card(out, "causes", "What to fix", &self.list_causes(false), MAX_CAUSES, "Nothing.");
        let following = self.list_causes(true);
        if !following.is_empty() {
            write_card(out, "following", "What may follow from it", &following, MAX_CAUSES, "");
        }
        out.push_str("</div>\n");
        let _ = writeln!(
            out,
            "<p class=\"totals muted\">{} in {} · <code>federate check --explain CODE</code> says more about a code</p>",
            format_count(self.findings.len(), "finding"),
            format_count(self.verdict.files, "file")
        );
    }
}
