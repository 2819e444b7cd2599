//! The effect of a scenario, for a terminal and for scripts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::diff::{Diff, VerdictFlag, text};
use super::table::{TextStyle, count_with_verb, format_count, write_table};
use federate_dialect::plan::API_VERSION;
use federate_engine::change::RenderingChanges;
use federate_kubernetes::{ObjectRef, finding};
use federate_whatif::{FreeResource, ReplicaLoss, TimelineStage, UnmovedScenario};

/// The effect of a scenario, for scripts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `WhatIf`.
    pub kind: &'static str,
    /// The events, as given on the command line.
    pub scenario: &'a [String],
    /// What happens when.
    pub timeline: &'a [TimelineStage],
    /// Numbers of replicas.
    pub replicas: ReplicaTotals,
    /// The tightest resource of each cluster at the end, the tightest first.
    #[serde(skip_serializing_if = "<[FreeResource]>::is_empty")]
    pub capacity: &'a [FreeResource],
    /// Objects that lose or gain replicas, the worst first: what runs nowhere, then what misses most replicas.
    pub losses: Vec<&'a ReplicaLoss>,
    /// Why nothing moves, if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmoved: Option<&'a UnmovedScenario>,
    /// Placements that change.
    #[serde(flatten)]
    pub changes: &'a RenderingChanges,
}

/// The effect of losing each unit, for scripts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfEach<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `WhatIfEach`.
    pub kind: &'static str,
    /// What is lost: `cluster`, `zone`, `region` or `provider`.
    pub each: &'static str,
    /// Whether two of them are lost together.
    pub pairs: bool,
    /// The events that happen before, as given on the command line.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub scenario: &'a [String],
    /// One row per unit, the worst first.
    pub rows: Vec<UnitLoss>,
    /// Why nothing moves, if nothing moves whatever is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmoved: Option<&'a UnmovedScenario>,
}

/// The effect of losing one unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitLoss {
    /// The cluster, zone, region or provider that is lost.
    pub lose: String,
    /// Its clusters.
    pub clusters: Vec<String>,
    /// The number of objects whose clusters or replicas change.
    pub moved: usize,
    /// Numbers of replicas.
    pub replicas: ReplicaTotals,
    /// Objects that no longer run in any cluster.
    pub nowhere: Vec<ObjectRef>,
    /// Objects that become unschedulable.
    pub unschedulable: Vec<ObjectRef>,
    /// The tightest resource of the remaining clusters, if their free resources are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tightest: Option<FreeResource>,
}

/// Whether the expectations of scenarios hold, for scripts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioResults {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `ScenarioResults`.
    pub kind: &'static str,
    /// One result per scenario.
    pub results: Vec<ScenarioResult>,
}

/// Whether the expectations of a scenario hold.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioResult {
    /// The scenario.
    pub name: String,
    /// The expectations that do not hold, one sentence each.
    pub violations: Vec<String>,
}

impl ScenarioResults {
    /// The results as text.
    pub fn format_text(&self) -> String {
        let mut out = String::new();
        for ScenarioResult { name, violations } in &self.results {
            if violations.is_empty() {
                let _ = writeln!(out, "✓ {name}");
            } else {
                let _ = writeln!(out, "✗ {name}");
            }
            for violation in violations {
                let _ = writeln!(out, "    {violation}");
            }
        }
        out
    }
}

/// Numbers of replicas over all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaTotals {
    /// Replicas that no longer run where they ran.
    pub lost: i64,
    /// Lost replicas that run in other clusters instead.
    pub regained: i64,
    /// Replicas that run in addition to those before.
    #[serde(skip_serializing_if = "is_zero")]
    pub added: i64,
    /// Replicas that are lost and not regained, by object.
    pub missing: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl ReplicaTotals {
    /// The sums over these objects.
    pub fn from_losses(losses: &[ReplicaLoss]) -> Self {
        Self {
            lost: losses.iter().map(|loss| loss.lost).sum(),
            regained: losses.iter().map(|loss| loss.regained).sum(),
            added: losses.iter().map(|loss| loss.added).sum(),
            missing: losses.iter().map(ReplicaLoss::missing_replicas).sum(),
        }
    }
}

/// What a scenario does, as the command line and programs have it.
#[derive(Clone, Copy)]
pub struct ScenarioEffect<'a> {
    /// What happens when.
    pub timeline: &'a [TimelineStage],
    /// The tightest resource of each cluster at the end.
    pub capacity: &'a [FreeResource],
    /// Placements that change.
    pub changes: &'a RenderingChanges,
    /// Objects that lose or gain replicas.
    pub losses: &'a [ReplicaLoss],
    /// Why nothing moves, if nothing does.
    pub unmoved: Option<&'a UnmovedScenario>,
}

/// The most characters of a comment on GitHub.
const MAX_COMMENT_CHARACTERS: usize = 65_536;

/// What a comment keeps free for its frame and for what it says about cuts.
const COMMENT_FRAME_CHARACTERS: usize = 4_096;

/// A part of the report.
struct Section {
    /// The less, the more important. Sections are printed in their own order.
    rank: u8,
    text: String,
}

impl<'a> WhatIf<'a> {
    /// The effect of the events.
    pub fn new(scenario: &'a [String], effect: ScenarioEffect<'a>) -> Self {
        let ScenarioEffect { timeline, capacity, changes, losses, unmoved } = effect;
        let replicas = ReplicaTotals::from_losses(losses);
        let mut losses: Vec<&ReplicaLoss> = losses.iter().collect();
        losses
            .sort_by_key(|loss| (Reverse((loss.nowhere, loss.missing_replicas(), loss.lost)), &loss.object));
        let (api_version, kind) = (API_VERSION, "WhatIf");
        Self { api_version, kind, scenario, timeline, replicas, capacity, losses, unmoved, changes }
    }

    /// The effect as Markdown, for a comment on a pull request. The least important sections are cut first; what runs
    /// nowhere comes first and is cut last.
    pub fn format_markdown(&self) -> String {
        let style = TextStyle { width: None, color: false, full: true, quiet: false };
        let title = truncate_text(&self.scenario.join(", "), COMMENT_FRAME_CHARACTERS / 4);
        let head = format!("**What if: {title}**\n\n{}", self.format_sentence());
        let sections =
            fit_sections(self.build_sections(style), MAX_COMMENT_CHARACTERS - COMMENT_FRAME_CHARACTERS);
        format!("{head}\n\n```text\n{}```\n", without_fences(&sections))
    }

    /// The effect as text: what runs nowhere, the diff, the timeline, the lost replicas, the free resources.
    pub fn format_text(&self, style: TextStyle) -> String {
        self.build_sections(style).into_iter().map(|section| section.text).collect()
    }

    fn build_sections(&self, style: TextStyle) -> Vec<Section> {
        let mut sections = vec![
            Section { rank: 0, text: self.nowhere_table(style) },
            Section { rank: 4, text: self.format_moves(style) },
            Section { rank: 3, text: self.format_stages(style) },
        ];
        if !self.losses.is_empty() {
            sections.push(Section { rank: 1, text: self.loss_table(style) });
        }
        sections.push(Section { rank: 2, text: self.capacity_table(style) });
        if !self.losses.is_empty() {
            sections.push(Section {
                rank: 0,
                text: format!("\n{}\n", style.paint_bold(&self.format_sentence())),
            });
        }
        sections
    }

    /// The headline of a page: what changes, as `changes` says it, or what is lost although nothing moves.
    pub fn format_headline(&self, changes: &str) -> String {
        let effect = if self.changes.is_empty() && !self.losses.is_empty() {
            format!("{}{}; nothing moves.", self.format_worst(), format_sentence(self.replicas, 0))
        } else {
            let mut characters = changes.chars();
            characters.next().into_iter().flat_map(char::to_lowercase).chain(characters).collect()
        };
        format!("After “{}”: {effect}", self.scenario.join(", "))
    }

    /// The worst object that runs nowhere, and how many others do; empty if none does.
    fn format_worst(&self) -> String {
        let nowhere: Vec<&ReplicaLoss> = self.losses.iter().copied().filter(|loss| loss.nowhere).collect();
        match nowhere.as_slice() {
            [] => String::new(),
            [loss] => format!("{} runs nowhere; ", loss.object),
            [worst, more @ ..] => {
                format!("{} and {} run nowhere; ", worst.object, format_count(more.len(), "more object"))
            }
        }
    }

    fn format_sentence(&self) -> String {
        format_sentence(self.replicas, self.losses.iter().filter(|loss| loss.nowhere).count())
    }

    /// The objects that run nowhere. None is left out.
    fn nowhere_table(&self, style: TextStyle) -> String {
        let rows: Vec<[String; 3]> =
            self.losses.iter().filter(|loss| loss.nowhere).map(|loss| nowhere_cells(loss)).collect();
        if rows.is_empty() {
            return String::new();
        }
        let mut out = format!("{}\n", style.paint_bold("Runs nowhere"));
        write_table(&mut out, ["OBJECT", "LOST", ""], &rows, style);
        out.push('\n');
        out
    }

    /// The placements that change, or why none does.
    fn format_moves(&self, style: TextStyle) -> String {
        let later = self.scenario.join(", ");
        let diff = Diff::new("today", &later, self.changes);
        let mut out = if self.changes.is_empty() {
            let lost = format_count(usize::try_from(self.replicas.lost).unwrap_or(0), "replica");
            match (self.replicas.lost, self.losses.iter().filter(|loss| loss.nowhere).count()) {
                (0, 0) => format!("{later}: nothing changes\n"),
                (0, _) => format!("{later}: nothing moves\n"),
                (1, _) => format!("{later}: nothing moves, and {lost} is lost\n"),
                (_, _) => format!("{later}: nothing moves, and {lost} are lost\n"),
            }
        } else {
            text::format_diff(&diff, text::DiffDetail::Fields, style)
        };
        if let Some(UnmovedScenario { summary, help, .. }) = self.unmoved {
            let _ = writeln!(out, "Nothing moves because {summary}: {help}.");
        }
        out
    }

    fn format_stages(&self, style: TextStyle) -> String {
        let mut out = format!("\n{}\n", style.paint_bold("Timeline"));
        let last = self.timeline.iter().rposition(|stage| stage.moved > 0);
        for (number, stage) in self.timeline.iter().enumerate() {
            let at = format!("t+{}", format_duration(stage.seconds));
            let effect = match (format_effect(stage), self.unmoved, last) {
                (Some(effect), ..) => effect,
                (None, Some(unmoved), _) => format!("nothing moves: {}", unmoved.summary),
                (None, None, Some(last)) if number < last => "nothing moves yet".to_owned(),
                (None, None, Some(_)) => "nothing more moves".to_owned(),
                (None, None, None) => "nothing moves".to_owned(),
            };
            for (row, text) in stage.events.iter().map(String::as_str).chain([effect.as_str()]).enumerate() {
                let _ = writeln!(out, "  {:<8} {text}", if row == 0 { at.as_str() } else { "" });
            }
        }
        out
    }

    /// The objects that lose or gain replicas.
    fn loss_table(&self, style: TextStyle) -> String {
        let mut out = format!("\n{}\n", style.paint_bold("Replicas"));
        let nowhere = self.losses.iter().filter(|loss| loss.nowhere).count();
        let most = if style.full { usize::MAX } else { MAX_LOSSES.max(nowhere) };
        let rows: Vec<[String; 6]> = self.losses.iter().take(most).map(|loss| loss_cells(loss)).collect();
        let head = ["OBJECT", "LOST", "REGAINED", "ADDED", "LEFT", ""];
        if self.replicas.added > 0 {
            write_table(&mut out, head, &rows, style);
        } else {
            let rows: Vec<[String; 5]> = rows.into_iter().map(without_added).collect();
            write_table(&mut out, without_added(head), &rows, style);
        }
        if let Some(more) = self.losses.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "… and {more} more (-v shows all)");
        }
        out
    }

    /// The clusters with the least free resources.
    fn capacity_table(&self, style: TextStyle) -> String {
        if self.capacity.is_empty() {
            return String::new();
        }
        let mut out = format!("\n{}\n", style.paint_bold("Free after that"));
        let most = if style.full { usize::MAX } else { MAX_CLUSTERS };
        let rows: Vec<[String; 5]> = self
            .capacity
            .iter()
            .take(most)
            .map(|resource| {
                let free = format!("{} of {}", resource.free, resource.allocatable);
                [
                    resource.cluster.clone(),
                    resource.resource.clone(),
                    free,
                    format!("{} %", resource.percent),
                    String::new(),
                ]
            })
            .collect();
        write_table(&mut out, ["CLUSTER", "LEAST FREE", "FREE", "", ""], &rows, style);
        if let Some(more) = self.capacity.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "… and {more} more (-v shows all)");
        }
        out
    }
}

/// Cuts the sections to a number of characters, the least important first and each after a whole line, and says what is
/// cut.
fn fit_sections(mut sections: Vec<Section>, size: usize) -> String {
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|at| sections.get(*at).map(|section| section.rank));
    let mut left = size;
    for at in order {
        let Some(section) = sections.get_mut(at) else { continue };
        if section.text.chars().count() > left {
            section.text = cut_lines(&section.text, left);
        }
        left = left.saturating_sub(section.text.chars().count());
    }
    sections.into_iter().map(|section| section.text).collect()
}

/// The first lines of a text, with a line about the others. That line may be longer than the rest of `size`.
fn cut_lines(text: &str, size: usize) -> String {
    let mut out = String::new();
    let (mut left, mut cut) = (size, 0_usize);
    for line in text.split_inclusive('\n') {
        let length = line.chars().count();
        if cut == 0 && length <= left {
            left -= length;
            out.push_str(line);
        } else {
            cut += 1;
        }
    }
    let _ = writeln!(out, "… {} cut to fit a comment; `-o table -v` shows all", format_count(cut, "line"));
    out
}

/// The start of a text.
fn truncate_text(text: &str, size: usize) -> String {
    if text.chars().count() <= size {
        return text.to_owned();
    }
    text.chars().take(size).chain(['…']).collect()
}

/// Text within a fence of Markdown, without the end of the fence.
fn without_fences(text: &str) -> String {
    text.replace("```", "'''")
}

/// How many objects are shown, unless all are to be shown or run nowhere.
const MAX_LOSSES: usize = 20;

/// What moves in a stage; `None` if nothing does.
pub(crate) fn format_effect(stage: &TimelineStage) -> Option<String> {
    let mut parts = Vec::new();
    if stage.moved > 0 {
        parts.push(format!("{} moved", format_count(stage.moved, "object")));
    }
    for (number, what) in [(stage.lost, "lost"), (stage.regained, "regained")] {
        if number > 0 {
            parts.push(format!("{} {what}", format_count(usize::try_from(number).unwrap_or(0), "replica")));
        }
    }
    if parts.is_empty() { None } else { Some(parts.join(", ")) }
}

/// How many clusters are shown, unless all are to be shown.
const MAX_CLUSTERS: usize = 10;

/// A time since the start: seconds up to two minutes, then minutes.
pub(crate) fn format_duration(seconds: i64) -> String {
    if seconds < 120 || seconds % 60 != 0 { format!("{seconds}s") } else { format!("{}m", seconds / 60) }
}

/// How many objects a cell names.
const MAX_NAMES: usize = 2;

fn loss_cells(loss: &ReplicaLoss) -> [String; 6] {
    let note = if loss.nowhere { "runs nowhere" } else { "" };
    let [lost, regained, added, left] =
        [loss.lost, loss.regained, loss.added, loss.left].map(|number| number.to_string());
    [loss.object.to_string(), lost, regained, added, left, note.to_owned()]
}

/// The cells without that of added replicas.
fn without_added<T>([object, lost, regained, _, left, note]: [T; 6]) -> [T; 5] {
    [object, lost, regained, left, note]
}

fn nowhere_cells(loss: &ReplicaLoss) -> [String; 3] {
    let lost = if loss.lost > 0 { loss.lost.to_string() } else { "-".to_owned() };
    [loss.object.to_string(), lost, "runs nowhere".to_owned()]
}

/// The cells without that of the tightest resource.
fn without_tightest<T>([unit, moved, lost, regained, missing, _, nowhere]: [T; 7]) -> [T; 6] {
    [unit, moved, lost, regained, missing, nowhere]
}

fn format_tightest(resource: &FreeResource) -> String {
    format!("{} {} {} %", resource.cluster, resource.resource, resource.percent)
}

pub(crate) fn format_sentence(replicas: ReplicaTotals, nowhere: usize) -> String {
    let mut text = String::new();
    if nowhere > 0 {
        text = count_with_verb(nowhere, "object", VerdictFlag::RunsNowhere.terms().words) + "; ";
    }
    let _ = write!(
        text,
        "{} lost, {} regained, {} missing",
        format_count(usize::try_from(replicas.lost).unwrap_or(0), "replica"),
        replicas.regained,
        replicas.missing
    );
    if replicas.added > 0 {
        let _ = write!(text, ", {} added", replicas.added);
    }
    text
}

/// How many pairs are shown, unless all are to be shown.
const MAX_PAIRS: usize = 20;

impl WhatIfEach<'_> {
    /// The effect as Markdown, for a comment on a pull request. The least important lines are cut first.
    pub fn format_markdown(&self) -> String {
        let style = TextStyle { width: None, color: false, full: false, quiet: false };
        let sections =
            fit_sections(self.build_sections(style), MAX_COMMENT_CHARACTERS - COMMENT_FRAME_CHARACTERS);
        format!("{}\n\n```text\n{}```\n", self.format_summary(), without_fences(&sections))
    }

    /// The effect as text: what runs nowhere, one line per unit, the summary.
    pub fn format_text(&self, style: TextStyle) -> String {
        self.build_sections(style).into_iter().map(|section| section.text).collect()
    }

    fn build_sections(&self, style: TextStyle) -> Vec<Section> {
        let mut sections = vec![
            Section { rank: 0, text: self.nowhere_table(style) },
            Section { rank: 1, text: self.format_units(style) },
        ];
        if let Some(UnmovedScenario { summary, help, .. }) = self.unmoved {
            sections.push(Section { rank: 0, text: format!("\nNothing moves because {summary}: {help}.\n") });
        }
        sections.push(Section { rank: 0, text: format!("\n{}\n", style.paint_bold(&self.format_summary())) });
        sections
    }

    /// Each object that runs nowhere without some unit, with these units. None is left out.
    fn nowhere_table(&self, style: TextStyle) -> String {
        let mut units: BTreeMap<&ObjectRef, Vec<&str>> = BTreeMap::new();
        for row in &self.rows {
            for object in &row.nowhere {
                units.entry(object).or_default().push(&row.lose);
            }
        }
        // The rows of single units name them, as long as there are few.
        if units.is_empty() || (!self.pairs && self.rows.iter().all(|row| row.nowhere.len() <= MAX_NAMES)) {
            return String::new();
        }
        let mut objects: Vec<(&ObjectRef, Vec<&str>)> = units.into_iter().collect();
        objects.sort_by(|(a, of_a), (b, of_b)| of_b.len().cmp(&of_a.len()).then_with(|| a.cmp(b)));
        let most = if style.full { usize::MAX } else { MAX_NAMES };
        let rows: Vec<[String; 3]> = objects
            .iter()
            .map(|(object, units)| {
                let names: Vec<String> = units
                    .iter()
                    .map(|unit| if self.pairs { format!("({unit})") } else { (*unit).to_owned() })
                    .collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                [object.to_string(), units.len().to_string(), finding::join_names(&names, most)]
            })
            .collect();
        let mut out = format!("{}\n", style.paint_bold("Runs nowhere"));
        let unit = if self.pairs { "PAIRS".to_owned() } else { format!("{}S", self.each.to_uppercase()) };
        write_table(&mut out, ["OBJECT", &unit, "WITHOUT"], &rows, style);
        out.push('\n');
        out
    }

    /// One line per unit.
    fn format_units(&self, style: TextStyle) -> String {
        let head = self.each.to_uppercase();
        let known = self.rows.iter().any(|row| row.tightest.is_some());
        // Pairs grow with the square of the clusters; the worst come first.
        let most = if self.pairs && !style.full { MAX_PAIRS } else { usize::MAX };
        let most_names = if style.full { usize::MAX } else { MAX_NAMES };
        let mut rows: Vec<[String; 7]> = Vec::new();
        for row in self.rows.iter().take(most) {
            let names: Vec<String> = row.nowhere.iter().map(ToString::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let nowhere =
                if names.is_empty() { String::new() } else { finding::join_names(&names, most_names) };
            rows.push([
                row.lose.clone(),
                row.moved.to_string(),
                row.replicas.lost.to_string(),
                row.replicas.regained.to_string(),
                row.replicas.missing.to_string(),
                row.tightest.as_ref().map(format_tightest).unwrap_or_default(),
                nowhere,
            ]);
        }
        let mut out = String::new();
        let tightest = if known { "LEAST FREE" } else { "" };
        let head = [head.as_str(), "MOVED", "LOST", "REGAINED", "MISSING", tightest, "RUNS NOWHERE"];
        if known {
            write_table(&mut out, head, &rows, style);
        } else {
            let rows: Vec<[String; 6]> = rows.into_iter().map(without_tightest).collect();
            write_table(&mut out, without_tightest(head), &rows, style);
        }
        if let Some(more) = self.rows.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "… and {more} more pairs, none of them worse (-v shows all)");
        }
        out
    }

    /// The headline of a page: what the worst loss costs, and how many cost nothing.
    pub fn format_headline(&self) -> String {
        let worst = self.rows.first().filter(|row| row.replicas.missing > 0 || !row.nowhere.is_empty());
        let worst = worst.map_or(String::new(), |row| {
            format!("If {} is lost: {}. ", row.lose, format_sentence(row.replicas, row.nowhere.len()))
        });
        let before = match self.scenario {
            [] => String::new(),
            events => format!("After “{}”: ", events.join(", ")),
        };
        format!("{before}{worst}{}.", self.format_summary())
    }

    fn format_summary(&self) -> String {
        let safe = self.rows.iter().filter(|row| row.replicas.missing == 0 && row.nowhere.is_empty()).count();
        let all = match (self.pairs, self.rows.len()) {
            (false, number) => format_count(number, self.each),
            (true, 1) => format!("1 pair of {}s", self.each),
            (true, number) => format!("{number} pairs of {}s", self.each),
        };
        format!("{safe} of {all} can be lost without missing replicas or objects that run nowhere")
    }
}
