//! Findings as a person reads them (the line to blame is shown) and as machines do.

use std::collections::BTreeMap;

use annotate_snippets::{AnnotationKind, Element, Level, Origin as Place, Renderer, Snippet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::quote;
use federate_dialect::Dialects;
use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::Repo;
use federate_yaml::Position;

/// Findings shown in full; the rest is counted.
pub const SHOWN: usize = 20;

/// Bytes that are read again to find the places of findings; beyond, an object's first line stands for them.
const SEARCH: usize = 64 << 20;

/// A finding for machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `error` or `warning`.
    pub severity: Severity,
    /// The stable short name.
    pub code: &'static str,
    /// Path below the repo's root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// What is wrong, and why.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Row {
    /// `file:line`, as far as it is known.
    pub fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(self.line.map_or(file.clone(), |line| format!("{file}:{line}")))
    }
}

/// Brings findings into the order in which they are shown: errors first, then by place.
pub fn sort(findings: &mut Vec<Finding>) {
    findings.sort();
    findings.dedup();
}

/// The findings for machines.
pub fn rows(repo: &Repo, findings: &[Finding]) -> Vec<Row> {
    let mut search = SEARCH;
    let row = |finding: &Finding| {
        let at = position(repo, finding, &mut search);
        Row {
            severity: finding.severity,
            code: finding.code,
            file: finding.origin.as_ref().map(|o| o.file.to_string()),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
            object: finding.object.clone(),
            message: finding.message.clone(),
            help: finding.help.clone(),
        }
    };
    findings.iter().map(row).collect()
}

/// The findings for a person, with the lines that they are about where these may be quoted: files whose kinds
/// are known to Kubernetes or to one of `dialects`. It is the first [`SHOWN`] in full, the others counted by name.
pub fn text(repo: &Repo, findings: &[Finding], dialects: Dialects, styled: bool) -> String {
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    let mut search = SEARCH;
    for finding in findings.iter().take(SHOWN) {
        out.push_str(&one(repo, finding, dialects, &renderer, &mut search));
        out.push_str("\n\n");
    }
    let mut more: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    for finding in findings.iter().skip(SHOWN) {
        *more.entry((finding.severity, finding.code)).or_default() += 1;
    }
    if !more.is_empty() {
        let counts: Vec<String> = more.iter().map(|((_, code), n)| format!("{n} {code}")).collect();
        out.push_str(&format!(
            "… and more: {} (all of them: `federate check -o json`)\n\n",
            counts.join(", ")
        ));
    }
    out
}

/// Where a finding is; `search` is how many bytes may still be read again for that.
fn position(repo: &Repo, finding: &Finding, search: &mut usize) -> Option<Position> {
    let origin = finding.origin.as_ref()?;
    if origin.line == 0 {
        return None;
    }
    if let Some(column) = finding.column {
        return Some(Position { line: origin.line, column });
    }
    let size = repo.texts.get(&origin.file).map_or(0, |text| text.len());
    let Some(rest) = search.checked_sub(size) else {
        return Some(Position { line: origin.line, column: 1 });
    };
    *search = rest;
    let at = repo.locate(origin, &finding.pointer);
    let within = finding.text_line.and_then(|line| line_within(repo, &origin.file, at, line));
    Some(within.unwrap_or(at))
}

/// The place of a line of a text, where each of its lines has one of its own: in a literal block.
fn line_within(repo: &Repo, file: &str, at: Position, line: u32) -> Option<Position> {
    let mut lines = repo.texts.get(file)?.split(|b| *b == b'\n').skip(at.line.checked_sub(1)? as usize);
    let head = String::from_utf8_lossy(lines.next()?);
    let text: String = head.chars().skip(at.column.checked_sub(1)? as usize).collect();
    // The place is that of the value, or of its key.
    let value = text.split_once(": ").map_or(text.as_str(), |(_, value)| value);
    if !value.trim_start().starts_with('|') {
        return None;
    }
    let found = lines.nth(line.checked_sub(1)? as usize)?;
    let column = found.iter().take_while(|b| b.is_ascii_whitespace()).count();
    Some(Position { line: at.line + line, column: u32::try_from(column).ok()? + 1 })
}

fn one(
    repo: &Repo,
    finding: &Finding,
    dialects: Dialects,
    renderer: &Renderer,
    search: &mut usize,
) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        level.primary_title(&finding.message).id(finding.code).elements(Vec::<Element<'_>>::new());
    if let Some(origin) = &finding.origin {
        let at = position(repo, finding, search);
        let line =
            at.and_then(|at| quote::line(&origin.file, repo.texts.get(&origin.file)?, at.line, dialects));
        group = match (at, line) {
            (Some(at), Some(line)) => group.element(snippet(&origin.file, at, line)),
            (Some(at), None) => group.element(
                Place::path(origin.file.as_ref()).line(at.line as usize).char_column(at.column as usize),
            ),
            (None, _) => group.element(Place::path(origin.file.as_ref())),
        };
    }
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// The line itself, from the column to its end marked.
fn snippet(file: &str, at: Position, line: String) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let column = at.column.saturating_sub(1) as usize;
    let start = line.char_indices().nth(column).map_or(line.len(), |(byte, _)| byte);
    let end = line.trim_end().len().max(start);
    Snippet::source(line)
        .line_start(at.line as usize)
        .path(file)
        .annotation(AnnotationKind::Primary.span(start..end))
}
