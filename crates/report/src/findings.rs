//! Findings for people, with the quoted line, and for scripts.

use std::collections::{BTreeMap, BTreeSet};

use annotate_snippets::{AnnotationKind, Element, Level, Origin as Place, Renderer, Snippet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::finding_groups::FindingGroup;
use crate::quote::LineQuoter;
use crate::table::format_count;
use federate_dialect::Dialects;
use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::{Locator, Repo};
use federate_yaml::Position;

/// The page of the book that explains every finding, with a section for each code.
pub const FINDINGS_PAGE_URL: &str =
    "https://github.com/federate-dev/federate/blob/main/docs/reference/findings.md";

/// How many findings are shown in full; the others are counted.
pub const MAX_FINDINGS: usize = 20;

/// How many bytes are parsed again to find the places of findings. Beyond it, findings point to the first
/// line of their object.
const MAX_PARSED_BYTES: usize = 64 << 20;

/// A finding for scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingRow {
    /// `error` or `warning`.
    pub severity: Severity,
    /// The stable code.
    pub code: &'static str,
    /// The path below the repo's root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The object concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// What is wrong, and why.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The address of the section of the book that explains the finding.
    pub page: String,
}

impl FindingRow {
    /// `file:line`, as far as it is known.
    pub fn format_place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(self.line.map_or(file.clone(), |line| format!("{file}:{line}")))
    }
}

/// A finding with the line that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotedFinding {
    /// The finding.
    #[serde(flatten)]
    pub row: FindingRow,
    /// The line; left out where it could hold a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The part of the address that names the finding on its page.
    pub link: String,
}

/// Sorts findings into the order in which they are shown: errors first, causes before what follows from them, then by
/// place.
pub fn sort_findings(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| {
        let order = (a.severity, distance_from_cause(a.code), a);
        order.cmp(&(b.severity, distance_from_cause(b.code), b))
    });
    findings.dedup();
}

/// How far a finding is from its cause: what the repo lacks, what is written wrong, what has no effect, what is not placed.
fn distance_from_cause(code: &str) -> u8 {
    match code {
        "unmatched" | "unschedulable" => 3,
        "no-effect" | "unknown-reference" | "unused-override" | "unused-policy" => 2,
        _ if is_about_repo(code) => 0,
        _ => 1,
    }
}

/// Whether findings with this code follow from others, rather than being their cause.
pub(crate) fn is_consequence(code: &str) -> bool {
    distance_from_cause(code) > 1
}

/// The findings for a page, each with its line, and a link that no other has.
pub fn build_quoted_rows(repo: &Repo, findings: &[Finding], dialects: Dialects) -> Vec<QuotedFinding> {
    let mut quoter = LineQuoter::new(repo, dialects);
    let mut links: BTreeMap<String, usize> = BTreeMap::new();
    let mut rows = Vec::with_capacity(findings.len());
    for row in build_rows(repo, findings) {
        let place = row.file.as_deref().zip(row.line);
        let quote = place.and_then(|(file, line)| quoter.quote_line(file, line));
        let place = row.format_place();
        let link = place.map_or_else(|| row.code.to_owned(), |place| format!("{}/{place}", row.code));
        let number = links.entry(link.clone()).or_default();
        *number += 1;
        let link = if *number == 1 { link } else { format!("{link}/{number}") };
        rows.push(QuotedFinding { row, quote, link });
    }
    rows
}

/// The findings for scripts.
pub fn build_rows(repo: &Repo, findings: &[Finding]) -> Vec<FindingRow> {
    let mut search = Search::new(repo);
    findings
        .iter()
        .map(|finding| {
            let at = search.find_position(finding);
            FindingRow {
                severity: finding.severity,
                code: finding.code,
                file: finding.origin.as_ref().map(|o| o.file.to_string()),
                line: at.map(|at| at.line),
                column: at.map(|at| at.column),
                object: finding.object.clone(),
                message: finding.message.clone(),
                help: finding.help.clone(),
                page: page_url(finding.code),
            }
        })
        .collect()
}

/// Whether findings with this code are about everything that is placed: what a repo lacks, so that nothing can be placed, and by
/// whose rules it is placed.
pub fn is_about_repo(code: &str) -> bool {
    matches!(code, "empty-repo" | "no-inventory" | "no-policies" | "unknown-release")
}

/// How many warnings there are of each code, in one line. `command` shows them in full.
pub fn fold_warnings(warnings: &[&Finding], command: &str) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for warning in warnings {
        *counts.entry(warning.code).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(code, count)| (distance_from_cause(code), std::cmp::Reverse(*count), *code));
    let counts: Vec<String> = counts.iter().map(|(code, count)| format!("{count} {code}")).collect();
    format!("{}: {}; `{command}` shows them\n", format_count(warnings.len(), "warning"), counts.join(", "))
}

/// The findings for people. Lines are quoted if no credential can be in them: from files whose kinds all are
/// known to Kubernetes or to one of `dialects`. `MAX_FINDINGS` findings are shown in full, the others are counted by code.
pub fn format_text(repo: &Repo, findings: &[Finding], dialects: Dialects, color: bool) -> String {
    text_of_first(repo, findings, dialects, color, MAX_FINDINGS)
}

/// The same with `most` findings in full. Findings with one cause are one, with the number of the other places, which are
/// listed if all findings are to be shown.
pub fn text_of_first(
    repo: &Repo,
    findings: &[Finding],
    dialects: Dialects,
    color: bool,
    most: usize,
) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    let mut search = Search::new(repo);
    let mut quoter = LineQuoter::new(repo, dialects);
    let groups = FindingGroup::group_findings(repo, findings, is_consequence);
    let shown = choose_groups(&groups, most);
    let mut more: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        let FindingGroup { first, others } = group;
        if shown.contains(&index) {
            let places = describe_others(group, most == usize::MAX, &mut search);
            out.push_str(&format_finding(first, places.as_deref(), &renderer, &mut search, &mut quoter));
            out.push_str("\n\n");
        } else {
            *more.entry((first.severity, first.code)).or_default() += 1 + others.len();
        }
    }
    if !more.is_empty() {
        let counts: Vec<String> = more.iter().map(|((_, code), n)| format!("{n} {code}")).collect();
        out.push_str(&format!("… and more: {} (to see all: federate check -v)\n\n", counts.join(", ")));
    }
    if !findings.is_empty() {
        out.push_str("More about each code: federate check --explain CODE\n\n");
    }
    out
}

/// How many other places of a finding are named, unless all are to be named.
const MAX_PLACES: usize = 3;

/// Where else the finding of a group is: the places, or else the objects or messages where these are all that differs. All are
/// listed if they are to be `full`.
fn describe_others(group: &FindingGroup<'_>, full: bool, search: &mut Search<'_>) -> Option<String> {
    let mut place_of = |finding: &Finding| {
        let file = &finding.origin.as_ref()?.file;
        Some(
            search
                .find_position(finding)
                .map_or(file.to_string(), |at| format!("{file}:{}:{}", at.line, at.column)),
        )
    };
    let first = group.first;
    let own_place = place_of(first);
    let all: BTreeSet<(Option<String>, Option<&ObjectRef>, &str)> = group
        .others
        .iter()
        .map(|finding| (place_of(finding), finding.object.as_ref(), finding.message.as_str()))
        .filter(|(place, object, message)| {
            (place, *object, *message) != (&own_place, first.object.as_ref(), &*first.message)
        })
        .collect();
    let differ_in_place = all.iter().any(|(place, ..)| *place != own_place);
    let differ_in_object = all.iter().any(|(_, object, _)| *object != first.object.as_ref());
    let noun = match (differ_in_place, differ_in_object) {
        (true, _) => "more place",
        (false, true) => "more object",
        (false, false) => "more",
    };
    let name = |(place, object, message): &(Option<String>, Option<&ObjectRef>, &str)| {
        let place = place.clone().filter(|_| differ_in_place);
        let object = object.filter(|_| full || !differ_in_place).map(ToString::to_string);
        match (place, object) {
            (Some(place), Some(object)) => format!("{place} ({object})"),
            (Some(text), None) | (None, Some(text)) if differ_in_place || differ_in_object => text,
            _ => (*message).to_owned(),
        }
    };
    let is_shown = |(place, ..): &&(Option<String>, Option<&ObjectRef>, &str)| {
        full || !differ_in_place || *place != own_place
    };
    let mut names: Vec<String> = all.iter().filter(is_shown).map(name).collect();
    names.dedup();
    match names.len() {
        0 => None,
        count if count > MAX_PLACES && !full => {
            Some(format!("and {} (-v lists them)", format_count(count, noun)))
        }
        _ if names.iter().all(|name| name.len() < 60) && !full => Some(format!("also {}", names.join(", "))),
        _ => Some(format!("also\n{}", names.join("\n"))),
    }
}

/// The indices of the groups that are shown in full. Each cause (a code with its remedy) has its first finding
/// shown before any has its second, and so has each code, so that many equal findings hide no other. After the first of each
/// cause, warnings take no place of errors.
fn choose_groups(groups: &[FindingGroup<'_>], most: usize) -> BTreeSet<usize> {
    let mut of_cause: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
    let mut of_code: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    let mut turns: Vec<(Option<Severity>, usize, usize, usize)> = Vec::with_capacity(groups.len());
    for (index, FindingGroup { first: finding, .. }) in groups.iter().enumerate() {
        let alike = of_cause.entry((finding.code, finding.help.as_deref())).or_default();
        let turn = std::mem::replace(alike, *alike + 1);
        let alike = of_code.entry((finding.code, turn)).or_default();
        let severity = (turn > 0).then_some(finding.severity);
        turns.push((severity, turn, std::mem::replace(alike, *alike + 1), index));
    }
    turns.sort_unstable();
    turns.into_iter().take(most).map(|(.., index)| index).collect()
}

/// The section of the book that explains findings with this code.
fn page_url(code: &str) -> String {
    format!("{FINDINGS_PAGE_URL}#{code}")
}

/// Searches the places of findings.
struct Search<'r> {
    repo: &'r Repo,
    locator: Locator<'r>,
    /// How many bytes may still be parsed.
    left: usize,
}

impl<'r> Search<'r> {
    fn new(repo: &'r Repo) -> Self {
        Self { repo, locator: Locator::new(repo), left: MAX_PARSED_BYTES }
    }

    /// The place of a finding.
    fn find_position(&mut self, finding: &Finding) -> Option<Position> {
        let origin = finding.origin.as_ref()?;
        if origin.line == 0 {
            return None;
        }
        if let Some(column) = finding.column {
            return Some(Position { line: origin.line, column });
        }
        let Some(left) = self.left.checked_sub(self.locator.unparsed_bytes(&origin.file)) else {
            return Some(Position { line: origin.line, column: 1 });
        };
        self.left = left;
        // The name says more about an object than its first line.
        let pointer = match finding.pointer.as_str() {
            "" if finding.object.is_some() => "/metadata/name",
            pointer => pointer,
        };
        let at = self.locator.locate_value(origin, pointer);
        let within = finding.text_line.and_then(|line| line_within(self.repo, &origin.file, at, line));
        Some(within.unwrap_or(at))
    }
}

/// The place of a line within a value; only in a literal block does each line have its own place.
fn line_within(repo: &Repo, file: &str, at: Position, line: u32) -> Option<Position> {
    let mut lines = repo.texts.get(file)?.split(|b| *b == b'\n').skip(at.line.checked_sub(1)? as usize);
    let head = String::from_utf8_lossy(lines.next()?);
    let text: String = head.chars().skip(at.column.checked_sub(1)? as usize).collect();
    // The place is that of the value or of its key.
    let value = text.split_once(": ").map_or(text.as_str(), |(_, value)| value);
    if !value.trim_start().starts_with('|') {
        return None;
    }
    let found = lines.nth(line.checked_sub(1)? as usize)?;
    let column = found.iter().take_while(|b| b.is_ascii_whitespace()).count();
    Some(Position { line: at.line + line, column: u32::try_from(column).ok()? + 1 })
}

fn format_finding(
    finding: &Finding,
    others: Option<&str>,
    renderer: &Renderer,
    search: &mut Search<'_>,
    quoter: &mut LineQuoter<'_>,
) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        level.primary_title(&finding.message).id(finding.code).elements(Vec::<Element<'_>>::new());
    if let Some(origin) = &finding.origin {
        let at = search.find_position(finding);
        let line = at.and_then(|at| quoter.quote_line(&origin.file, at.line));
        group = match (at, line) {
            (Some(at), Some(line)) => group.element(build_snippet(&origin.file, at, line)),
            (Some(at), None) => group.element(
                Place::path(origin.file.as_ref()).line(at.line as usize).char_column(at.column as usize),
            ),
            (None, _) => group.element(Place::path(origin.file.as_ref())),
        };
    }
    if let Some(others) = others {
        group = group.element(Level::NOTE.message(others));
    }
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// The quoted line, marked from the column to its end.
fn build_snippet(file: &str, at: Position, line: String) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let column = at.column.saturating_sub(1) as usize;
    let start = line.char_indices().nth(column).map_or(line.len(), |(byte, _)| byte);
    let end = line.trim_end().len().max(start);
    Snippet::source(line)
        .line_start(at.line as usize)
        .path(file)
        .annotation(AnnotationKind::Primary.span(start..end))
}
