//! The report of a migration: a document for scripts, a text for a terminal, and Markdown for a pull request.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::plan::API_VERSION;
use federate_kubernetes::display_text::escape_text;
use federate_kubernetes::{ObjectRef, finding};
use federate_report::diff::format_values;
use federate_report::escape::{escape_prose, format_code};
use federate_report::table::{TextStyle, format_count};

use crate::{
    Migration, Mode, ObjectDifference, ObjectProof, Proof, Reason, ReasonCount, Stress, StressExample,
    Target, UnequalRule, Verdict,
};

/// The most objects that a text shows.
const MAX_SHOWN_OBJECTS: usize = 30;

/// The most lines that a text shows of objects that are equal now.
const MAX_EQUAL_LINES: usize = 4;

/// The most objects that such a line names.
const MAX_NAMED_OBJECTS: usize = 3;

/// The most rules, and the most fields, that a text shows of an object.
const MAX_SHOWN_LINES: usize = 8;

/// How many rules about the repo as a whole are shown each on its line if they have one reason.
const MAX_ALIKE: usize = 2;

/// What to do about a difference that nothing explains.
const FAULT: &str = "This is a fault of federate, not of the repo: please report it with the output of the same command with \
                     `-o json`, in which values of Secrets are digests. `--mode freeze` may be a way around it";

/// A migration and its proof, for scripts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationReport {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Migration`.
    pub kind: &'static str,
    /// The control planes whose policies the repo has.
    pub from: Vec<String>,
    /// What it is written for.
    pub to: &'static str,
    /// How rules are written: `idiomatic` or `freeze`.
    pub mode: &'static str,
    /// The worst verdict about an object.
    pub verdict: Verdict,
    /// The verdict in a sentence.
    pub summary: String,
    /// The number of objects with each verdict.
    pub counts: ProofCounts,
    /// The reasons of unequal rules, in the order of the list of reasons.
    pub reasons: Vec<ReasonRow>,
    /// The objects that are not placed by equal rules, the worst first.
    pub objects: Vec<ObjectRow>,
    /// The unequal rules that concern the repo as a whole.
    pub repo: Vec<RuleRow>,
    /// What differs in random states, if they were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stress: Option<Stress>,
    /// The files that differ from those of the old repo.
    pub files: Vec<FileRow>,
}

/// The number of objects with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProofCounts {
    /// Placed by equal rules.
    pub equal: usize,
    /// The same now, by another rule.
    pub equal_now: usize,
    /// Different for a reason.
    pub different: usize,
    /// Different without a reason.
    pub unexplained: usize,
}

/// A reason, and how many objects it concerns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReasonRow {
    /// The reason.
    pub reason: Reason,
    /// What it means.
    pub meaning: &'static str,
    /// The number of objects with an unequal rule for this reason.
    pub objects: usize,
    /// The number of objects that differ because of it. Each object counts once.
    pub different: usize,
}

/// An object that is not placed by equal rules.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// The object by the old control plane.
    pub object: ObjectRef,
    /// The object by the new control plane, if it has another name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed: Option<ObjectRef>,
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that the new control plane does not have.
    pub rules: Vec<RuleRow>,
    /// What differs.
    pub differences: Vec<ObjectDifference>,
}

/// A rule that the new control plane does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRow {
    /// The reason.
    pub reason: Reason,
    /// What is unequal, with the values.
    pub detail: String,
    /// The file with the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the object in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The field of the object, as a JSON pointer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pointer: String,
}

/// A file that differs from that of the old repo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileRow {
    /// The path below the repo's root.
    pub path: String,
    /// Whether it is new, changed or deleted.
    pub change: FileChangeKind,
}

/// What a migration does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileChangeKind {
    /// The old repo has no such file.
    Created,
    /// It has another content.
    Changed,
    /// The new repo has no such file.
    Deleted,
}

/// What a report is about, besides the proof.
#[derive(Clone, Debug)]
pub struct ReportSubject<'r> {
    /// The control planes whose policies the old repo has.
    pub from: BTreeSet<&'static str>,
    /// What the new repo is written for.
    pub target: Target,
    /// How rules are written.
    pub mode: Mode,
    /// The migration.
    pub migration: &'r Migration,
    /// The files that differ.
    pub files: Vec<FileRow>,
}

impl RuleRow {
    fn new(rule: &UnequalRule) -> Self {
        let origin = rule.origin.as_ref();
        Self {
            reason: rule.reason,
            detail: rule.detail.clone(),
            file: origin.map(|origin| origin.file.to_string()),
            line: origin.map(|origin| origin.line).filter(|line| *line > 0),
            pointer: rule.pointer.clone(),
        }
    }

    /// Its file and line, if it stands in one.
    fn format_place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(self.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
    }
}

impl MigrationReport {
    /// The report of a proof.
    pub fn new(subject: ReportSubject<'_>, proof: &Proof, stress: Option<Stress>) -> Self {
        let counts = count_verdicts(proof);
        let mut objects: Vec<ObjectRow> = proof
            .objects
            .iter()
            .filter(|object| object.verdict != Verdict::Equal)
            .map(|object| ObjectRow {
                object: object.object.clone(),
                renamed: object.renamed.clone(),
                verdict: object.verdict,
                rules: object.rules.iter().map(RuleRow::new).collect(),
                differences: object.differences.clone(),
            })
            .collect();
        objects.sort_by(|a, b| b.verdict.cmp(&a.verdict).then_with(|| a.object.cmp(&b.object)));
        let is_fault = stress.as_ref().is_some_and(|stress| stress.unexplained.is_some());
        let differs = stress.as_ref().is_some_and(|stress| stress.differing > 0);
        let verdict = match proof.worst_verdict() {
            _ if is_fault => Verdict::Unexplained,
            verdict if differs => verdict.max(Verdict::Different),
            verdict => verdict,
        };
        let mut report = Self {
            api_version: API_VERSION,
            kind: "Migration",
            from: subject.from.into_iter().map(str::to_owned).collect(),
            to: subject.target.name(),
            mode: subject.mode.name(),
            verdict,
            summary: String::new(),
            counts,
            reasons: count_reasons(&proof.objects),
            objects,
            repo: subject.migration.unequal.iter().map(RuleRow::new).collect(),
            stress,
            files: subject.files,
        };
        report.summary = report.summarize();
        report
    }

    /// The verdict in a sentence or two.
    fn summarize(&self) -> String {
        let ProofCounts { equal, equal_now, different, unexplained } = self.counts;
        let all = equal + equal_now + different + unexplained;
        let from = if self.from.is_empty() { "plain".to_owned() } else { self.from.join(", ") };
        let mut parts = Vec::new();
        if equal == all {
            parts.push(match all {
                0 => "no object is placed on either side".to_owned(),
                1 => "the object is placed by equal rules".to_owned(),
                _ => format!("all {all} objects are placed by equal rules"),
            });
        } else {
            parts.push(format!("{equal} of {} are placed by equal rules", format_count(all, "object")));
        }
        let counted = [
            (equal_now, ["is equal now by another rule", "are equal now by other rules"]),
            (different, ["differs for a named reason", "differ for named reasons"]),
            (unexplained, ["differs without a reason", "differ without a reason"]),
        ];
        for (number, [one, several]) in counted {
            if number > 0 {
                parts.push(format!("{number} {}", if number == 1 { one } else { several }));
            }
        }
        let mut sentence = format!("{from} → {} ({}): {}.", self.to, self.mode, parts.join(", "));
        if let Some(stress) = &self.stress {
            let how = if different + unexplained > 0 { " in other ways than now" } else { "" };
            let _ = match stress.differing {
                0 => write!(sentence, " No object differs{how} in {} random states.", stress.states),
                some => {
                    write!(sentence, " Objects differ{how} in {some} of {} random states.", stress.states)
                }
            };
        }
        if self.verdict == Verdict::Unexplained {
            let _ = write!(sentence, " {FAULT}.");
        }
        sentence
    }

    /// The report for a terminal.
    pub fn format_text(&self, style: TextStyle) -> String {
        let color = match self.verdict {
            Verdict::Equal | Verdict::EqualNow => AnsiColor::Green,
            Verdict::Different => AnsiColor::Yellow,
            Verdict::Unexplained => AnsiColor::Red,
        };
        let mut out = format!("{}\n", style.paint_text(color, &escape_text(&self.summary)));
        self.write_reasons(&mut out, style);
        let most = if style.full { usize::MAX } else { MAX_SHOWN_OBJECTS };
        let shown = self.objects.iter().filter(|row| style.full || row.verdict != Verdict::EqualNow);
        shown.clone().take(most).for_each(|row| row.write_text(&mut out, style));
        if let Some(more) = shown.count().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "\n… and {} (-v shows all)", format_count(more, "more object"));
        }
        if !style.full {
            self.write_equal_now(&mut out);
        }
        if !self.repo.is_empty() {
            let _ = writeln!(out, "\n{}", style.paint_bold("The repo as a whole"));
            let rules: Vec<&RuleRow> = self.repo.iter().collect();
            write_rules(&mut out, &rules, 0, if style.full { usize::MAX } else { MAX_ALIKE }, style);
        }
        if let Some(stress) = &self.stress {
            write_stress(&mut out, stress, style);
        }
        out
    }

    /// The objects that are equal now, those with the same reasons in one line.
    fn write_equal_now(&self, out: &mut String) {
        let groups = self.group_equal_now();
        let more: usize = groups.iter().skip(MAX_EQUAL_LINES).map(|group| group.objects.len()).sum();
        out.push_str(if groups.is_empty() { "" } else { "\n" });
        for EqualGroup { objects, reasons } in groups.iter().take(MAX_EQUAL_LINES) {
            let names: Vec<&str> = objects.iter().map(String::as_str).collect();
            let names = finding::join_names(&names, MAX_NAMED_OBJECTS);
            let line = format!("{names}: equal-now ({})", reasons.join(", "));
            let _ = writeln!(out, "{}", escape_text(&line));
        }
        if more > 0 {
            let _ = writeln!(out, "… and {} equal now", format_count(more, "more object"));
        }
        if !groups.is_empty() {
            out.push_str("(-v shows the rules of these objects)\n");
        }
    }

    /// The objects that are equal now by their reasons, most objects first.
    fn group_equal_now(&self) -> Vec<EqualGroup> {
        let mut groups: BTreeMap<BTreeSet<Reason>, Vec<String>> = BTreeMap::new();
        for row in self.objects.iter().filter(|row| row.verdict == Verdict::EqualNow) {
            let reasons = row.rules.iter().map(|rule| rule.reason).collect();
            groups.entry(reasons).or_default().push(row.name());
        }
        let group = |(reasons, objects): (BTreeSet<Reason>, Vec<String>)| EqualGroup {
            objects,
            reasons: reasons.into_iter().map(Reason::name).collect(),
        };
        let mut groups: Vec<EqualGroup> = groups.into_iter().map(group).collect();
        groups.sort_by_key(|group| Reverse(group.objects.len()));
        groups
    }

    /// The reasons with their counts.
    fn write_reasons(&self, out: &mut String, style: TextStyle) {
        if self.reasons.is_empty() {
            return;
        }
        out.push('\n');
        // The meaning stands in the row: a table and a list of the same reasons take twice the lines.
        let width = self.reasons.iter().map(|row| row.reason.name().len()).max().unwrap_or(0);
        let head = format!("{:width$}  OBJECTS  DIFFERENT  MEANING", "REASON");
        let _ = writeln!(out, "{}", style.paint_bold(&head));
        for row in &self.reasons {
            let (name, meaning) = (row.reason.name(), row.meaning);
            let _ = writeln!(out, "{name:width$}  {:>7}  {:>9}  {meaning}", row.objects, row.different);
        }
    }

    /// The report as Markdown.
    pub fn format_markdown(&self) -> String {
        let mut out = format!("**Migration** {}\n", escape_prose(&self.summary));
        if !self.reasons.is_empty() {
            out += "\n| reason | objects | different | meaning |\n|---|---:|---:|---|\n";
            for row in &self.reasons {
                let name = format_code(row.reason.name());
                let _ = writeln!(out, "| {name} | {} | {} | {} |", row.objects, row.different, row.meaning);
            }
        }
        let differing = self.objects.iter().filter(|row| row.verdict != Verdict::EqualNow);
        differing.clone().take(MAX_SHOWN_OBJECTS).for_each(|row| row.write_markdown(&mut out));
        if let Some(more) = differing.count().checked_sub(MAX_SHOWN_OBJECTS).filter(|more| *more > 0) {
            let _ = writeln!(out, "\n… and {}", format_count(more, "more object"));
        }
        let groups = self.group_equal_now();
        out.push_str(if groups.is_empty() { "" } else { "\nEqual now, by other rules:\n\n" });
        for EqualGroup { objects, reasons } in &groups {
            let names: Vec<String> = objects.iter().map(|name| format_code(name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let names = finding::join_names(&names, MAX_SHOWN_OBJECTS);
            let reasons: Vec<String> = reasons.iter().map(|name| format_code(name)).collect();
            let _ = writeln!(out, "- {names} ({})", reasons.join(", "));
        }
        if !self.repo.is_empty() {
            out += "\nThe repo as a whole:\n\n";
            self.repo.iter().take(MAX_SHOWN_LINES).for_each(|rule| write_rule_markdown(&mut out, rule));
        }
        if let Some(stress) = &self.stress {
            let _ = writeln!(out, "\n{} random states (seed {}):\n", stress.states, stress.seed);
            for StressGroup { reasons, states, objects, example } in group_stress(stress) {
                let reasons: Vec<String> = reasons.into_iter().map(format_code).collect();
                let (states, objects) = (format_count(states, "state"), format_count(objects, "object"));
                let (names, example) = (reasons.join(", "), escape_prose(&example));
                let _ = writeln!(out, "- {names} in {states}, {objects}: {example}");
            }
            if let Some(example) = &stress.unexplained {
                let _ = writeln!(out, "- unexplained: {}", escape_prose(&describe_example(example)));
            }
        }
        out
    }
}

impl ObjectRow {
    /// Its name, and the new one if it has another.
    fn name(&self) -> String {
        let renamed = self.renamed.as_ref().map(|new| format!(" → {new}")).unwrap_or_default();
        format!("{}{renamed}", self.object)
    }

    /// The rules that lead to its differences; all of them, if it has none.
    fn decisive_rules(&self) -> Vec<&RuleRow> {
        let reasons: BTreeSet<Reason> =
            self.differences.iter().flat_map(|difference| &difference.reasons).copied().collect();
        self.rules.iter().filter(|rule| reasons.is_empty() || reasons.contains(&rule.reason)).collect()
    }

    fn write_text(&self, out: &mut String, style: TextStyle) {
        let title = escape_text(&format!("{}: {}", self.name(), self.verdict.name()));
        let title = match self.verdict {
            Verdict::Unexplained => style.paint_text(AnsiColor::Red, &title),
            _ => style.paint_bold(&title),
        };
        let _ = writeln!(out, "\n{title}");
        for difference in &self.differences {
            let _ = writeln!(out, "  {}", escape_text(&describe_difference(difference)));
            for field in difference.fields.iter().take(MAX_SHOWN_LINES) {
                let (from, to) = format_values(field);
                let _ = writeln!(out, "    {}: {from} → {to}", escape_text(&field.path));
            }
        }
        let shown = if style.full { self.rules.iter().collect() } else { self.decisive_rules() };
        write_rules(out, &shown, self.rules.len() - shown.len(), usize::MAX, style);
    }

    fn write_markdown(&self, out: &mut String) {
        let name = format_code(&self.object.to_string());
        let _ = writeln!(out, "\n{name}: {}\n", self.verdict.name());
        for difference in &self.differences {
            let _ = writeln!(out, "- {}", escape_prose(&describe_difference(difference)));
        }
        let shown = self.decisive_rules();
        shown.iter().take(MAX_SHOWN_LINES).for_each(|rule| write_rule_markdown(out, rule));
        if let Some(more) =
            self.rules.len().checked_sub(shown.len().min(MAX_SHOWN_LINES)).filter(|more| *more > 0)
        {
            let _ = writeln!(out, "- … and {}", format_count(more, "more rule"));
        }
    }
}

/// A difference in words, with its reasons.
pub(crate) fn describe_difference(difference: &ObjectDifference) -> String {
    let reasons: Vec<&str> = difference.reasons.iter().map(|reason| reason.name()).collect();
    let why = if reasons.is_empty() { "no reason explains it".to_owned() } else { reasons.join(", ") };
    format!("{} ({why})", difference.detail)
}

/// A state and what differs in it in words.
pub(crate) fn describe_example(example: &StressExample) -> String {
    let StressExample { events, object, difference } = example;
    let when = if events.is_empty() { "as it is now".to_owned() } else { events.join(", ") };
    format!("{when}: {object}: {}", difference.detail)
}

/// The rules; the first of more than `most_alike` with one reason stands for them. `hidden` are left out already.
fn write_rules(out: &mut String, rules: &[&RuleRow], mut hidden: usize, most_alike: usize, style: TextStyle) {
    let most = if style.full { usize::MAX } else { MAX_SHOWN_LINES };
    let lines = rules.chunk_by(|a, b| a.reason == b.reason).flat_map(|alike| {
        let size = if alike.len() > most_alike { alike.len() } else { 1 };
        alike.chunks(size)
    });
    for (index, alike) in lines.enumerate() {
        if index >= most {
            hidden += alike.len();
        } else if let [rule, others @ ..] = alike {
            let place = rule.format_place().map(|place| format!(" ({place})")).unwrap_or_default();
            let more = match others.len() {
                0 => String::new(),
                more => format!(", and {more} more (-v shows all)"),
            };
            let text = format!("{}: {}{place}{more}", rule.reason.name(), rule.detail);
            let _ = writeln!(out, "  {}", escape_text(&text));
        }
    }
    if hidden > 0 {
        let _ = writeln!(out, "  … and {} (-v shows all)", format_count(hidden, "more rule"));
    }
}

fn write_rule_markdown(out: &mut String, rule: &RuleRow) {
    let place = rule.format_place().map(|place| format!(" ({})", format_code(&place))).unwrap_or_default();
    let _ = writeln!(out, "- {}: {}{place}", format_code(rule.reason.name()), escape_prose(&rule.detail));
}

fn write_stress(out: &mut String, stress: &Stress, style: TextStyle) {
    let title = format!("{} random states, seed {}", stress.states, stress.seed);
    let _ = writeln!(out, "\n{}", style.paint_bold(&title));
    for StressGroup { reasons, states, objects, example } in group_stress(stress) {
        let (states, objects) = (format_count(states, "state"), format_count(objects, "object"));
        let _ = writeln!(out, "  {}: {states}, {objects}", reasons.join(", "));
        let _ = writeln!(out, "    smallest state: {}", escape_text(&example));
    }
    if let Some(example) = &stress.unexplained {
        let text = format!("  unexplained: {}", escape_text(&describe_example(example)));
        let _ = writeln!(out, "{}", style.paint_text(AnsiColor::Red, &text));
    }
    if stress.reasons.is_empty() && stress.unexplained.is_none() {
        let _ = writeln!(out, "  no object differs in other ways");
    }
}

/// Reasons that lead to the same difference in the smallest state.
struct StressGroup {
    reasons: Vec<&'static str>,
    /// The most states of one of them.
    states: usize,
    /// The most objects of one of them.
    objects: usize,
    example: String,
}

fn group_stress(stress: &Stress) -> Vec<StressGroup> {
    let mut groups: Vec<StressGroup> = Vec::new();
    for ReasonCount { reason, states, objects, example } in &stress.reasons {
        let example = describe_example(example);
        let known = groups.iter_mut().find(|group| group.example == example);
        if let Some(group) = known {
            group.reasons.push(reason.name());
            (group.states, group.objects) = (group.states.max(*states), group.objects.max(*objects));
        } else {
            let reasons = vec![reason.name()];
            groups.push(StressGroup { reasons, states: *states, objects: *objects, example });
        }
    }
    groups
}

/// Objects that are equal now, with the same reasons.
struct EqualGroup {
    objects: Vec<String>,
    reasons: Vec<&'static str>,
}

fn count_verdicts(proof: &Proof) -> ProofCounts {
    let mut counts = ProofCounts::default();
    for object in &proof.objects {
        let count = match object.verdict {
            Verdict::Equal => &mut counts.equal,
            Verdict::EqualNow => &mut counts.equal_now,
            Verdict::Different => &mut counts.different,
            Verdict::Unexplained => &mut counts.unexplained,
        };
        *count += 1;
    }
    counts
}

/// How many objects each reason concerns.
fn count_reasons(objects: &[ObjectProof]) -> Vec<ReasonRow> {
    let mut rows: BTreeMap<Reason, ReasonRow> = BTreeMap::new();
    for object in objects {
        let reasons: BTreeSet<Reason> = object.rules.iter().map(|rule| rule.reason).collect();
        let decisive = object.decisive_reason();
        for reason in reasons {
            let row = rows.entry(reason).or_insert_with(|| ReasonRow {
                reason,
                meaning: reason.meaning(),
                objects: 0,
                different: 0,
            });
            row.objects += 1;
            row.different += usize::from(decisive == Some(reason));
        }
    }
    rows.into_values().collect()
}
