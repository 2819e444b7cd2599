//! The effect of a scenario, for a terminal and for scripts.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::Serialize;

use super::diff::{Diff, text};
use super::table::{TextStyle, counted};
use federate_dialect::plan::API_VERSION;
use federate_engine::change::Changes;
use federate_engine::whatif::{FreeResource, Loss, Stage};
use federate_kubernetes::{ObjectRef, finding};

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
    pub timeline: &'a [Stage],
    /// Numbers of replicas.
    pub replicas: Replicas,
    /// The tightest resource of each cluster at the end, the tightest first.
    #[serde(skip_serializing_if = "<[FreeResource]>::is_empty")]
    pub capacity: &'a [FreeResource],
    /// Objects that lose or regain replicas.
    pub losses: &'a [Loss],
    /// Placements that change.
    #[serde(flatten)]
    pub changes: &'a Changes,
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
    pub rows: Vec<Row>,
}

/// The effect of losing one unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The cluster, zone, region or provider that is lost.
    pub lose: String,
    /// Its clusters.
    pub clusters: Vec<String>,
    /// The number of objects whose clusters or replicas change.
    pub moved: usize,
    /// Numbers of replicas.
    pub replicas: Replicas,
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
    pub fn text(&self) -> String {
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
pub struct Replicas {
    /// Replicas that no longer run where they ran.
    pub lost: i64,
    /// Replicas that run where they did not run before.
    pub regained: i64,
    /// Replicas that are lost and not regained, by object.
    pub missing: i64,
}

impl Replicas {
    /// The sums over these objects.
    pub fn of(losses: &[Loss]) -> Self {
        Self {
            lost: losses.iter().map(|loss| loss.lost).sum(),
            regained: losses.iter().map(|loss| loss.regained).sum(),
            missing: losses.iter().map(Loss::missing).sum(),
        }
    }
}

impl<'a> WhatIf<'a> {
    /// The effect of the events.
    pub fn new(
        scenario: &'a [String],
        (timeline, capacity): (&'a [Stage], &'a [FreeResource]),
        changes: &'a Changes,
        losses: &'a [Loss],
    ) -> Self {
        let replicas = Replicas::of(losses);
        let (api_version, kind) = (API_VERSION, "WhatIf");
        Self { api_version, kind, scenario, timeline, replicas, capacity, losses, changes }
    }

    /// The effect as Markdown, for a comment on a pull request.
    pub fn markdown(&self) -> String {
        let style = TextStyle { width: None, color: false, full: false, quiet: false };
        let nowhere = self.losses.iter().filter(|loss| loss.nowhere).count();
        let head = sentence(self.replicas, nowhere);
        format!("**What if: {}**\n\n{head}\n\n```text\n{}```\n", self.scenario.join(", "), self.text(style))
    }

    /// The effect as text: the diff, then the lost replicas.
    pub fn text(&self, style: TextStyle) -> String {
        let later = self.scenario.join(", ");
        let diff = Diff::new("today", &later, self.changes);
        let mut out = if self.changes.is_empty() {
            let lost = counted(usize::try_from(self.replicas.lost).unwrap_or(0), "replica");
            match self.replicas.lost {
                0 => format!("{later}: nothing changes\n"),
                1 => format!("{later}: nothing moves, and {lost} is lost\n"),
                _ => format!("{later}: nothing moves, and {lost} are lost\n"),
            }
        } else {
            text::text(&diff, text::Detail::Fields, style)
        };
        self.stages(&mut out, style);
        if self.losses.is_empty() {
            return out;
        }
        let _ = writeln!(out, "\n{}", style.bold("Replicas"));
        let most = if style.full { usize::MAX } else { LOSSES };
        let rows: Vec<[String; 5]> = self.losses.iter().take(most).map(loss_cells).collect();
        table(&mut out, ["OBJECT", "LOST", "REGAINED", "LEFT", ""], &rows, style);
        if let Some(more) = self.losses.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "… and {more} more (-v shows all)");
        }
        self.capacity_table(&mut out, style);
        let nowhere = self.losses.iter().filter(|loss| loss.nowhere).count();
        let _ = writeln!(out, "\n{}", style.bold(&sentence(self.replicas, nowhere)));
        out
    }

    fn stages(&self, out: &mut String, style: TextStyle) {
        let _ = writeln!(out, "\n{}", style.bold("Timeline"));
        for stage in self.timeline {
            let at = format!("t+{}", duration(stage.seconds));
            let effect = effect(stage);
            for (row, text) in stage.events.iter().map(String::as_str).chain([effect.as_str()]).enumerate() {
                let _ = writeln!(out, "  {:<8} {text}", if row == 0 { at.as_str() } else { "" });
            }
        }
    }

    /// The clusters with the least free resources.
    fn capacity_table(&self, out: &mut String, style: TextStyle) {
        if self.capacity.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", style.bold("Free after that"));
        let most = if style.full { usize::MAX } else { MOST_CLUSTERS };
        let cells = |resource: &FreeResource| {
            let free = format!("{} of {}", resource.free, resource.allocatable);
            [
                resource.cluster.clone(),
                resource.resource.clone(),
                free,
                format!("{} %", resource.percent),
                String::new(),
            ]
        };
        let rows: Vec<[String; 5]> = self.capacity.iter().take(most).map(cells).collect();
        table(out, ["CLUSTER", "LEAST FREE", "FREE", "", ""], &rows, style);
        if let Some(more) = self.capacity.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "… and {more} more (-v shows all)");
        }
    }
}

/// How many objects are shown, unless all are to be shown.
const LOSSES: usize = 20;

/// What moves in a stage.
fn effect(stage: &Stage) -> String {
    let replicas = |number: i64| counted(usize::try_from(number).unwrap_or(0), "replica");
    let parts = [
        (stage.moved > 0).then(|| format!("{} moved", counted(stage.moved, "object"))),
        (stage.lost > 0).then(|| format!("{} lost", replicas(stage.lost))),
        (stage.regained > 0).then(|| format!("{} regained", replicas(stage.regained))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing moves".to_owned() } else { parts.join(", ") }
}

/// How many clusters are shown, unless all are to be shown.
const MOST_CLUSTERS: usize = 10;

/// A time since the start: seconds up to two minutes, then minutes.
fn duration(seconds: i64) -> String {
    if seconds < 120 || seconds % 60 != 0 { format!("{seconds}s") } else { format!("{}m", seconds / 60) }
}

/// How many objects a cell names.
const NAMES: usize = 2;

fn loss_cells(loss: &Loss) -> [String; 5] {
    let note = if loss.nowhere { "runs nowhere" } else { "" };
    let number = |n: i64| n.to_string();
    [loss.object.to_string(), number(loss.lost), number(loss.regained), number(loss.left), note.to_owned()]
}

/// The cells without that of the tightest resource.
fn without_tightest<T>([unit, moved, lost, regained, missing, _, nowhere]: [T; 7]) -> [T; 6] {
    [unit, moved, lost, regained, missing, nowhere]
}

fn tightest(resource: &FreeResource) -> String {
    format!("{} {} {} %", resource.cluster, resource.resource, resource.percent)
}

fn sentence(replicas: Replicas, nowhere: usize) -> String {
    let mut text = format!(
        "{} lost, {} regained, {} missing",
        counted(usize::try_from(replicas.lost).unwrap_or(0), "replica"),
        replicas.regained,
        replicas.missing
    );
    if nowhere > 0 {
        let verb = if nowhere == 1 { "runs" } else { "run" };
        let _ = write!(text, "; {} {verb} nowhere", counted(nowhere, "object"));
    }
    text
}

impl WhatIfEach<'_> {
    /// The effect as text: one line per unit.
    pub fn text(&self, style: TextStyle) -> String {
        let head = self.each.to_uppercase();
        let cells = |row: &Row| {
            let names: Vec<String> = row.nowhere.iter().map(ToString::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let most = if style.full { usize::MAX } else { NAMES };
            let nowhere = if names.is_empty() { String::new() } else { finding::list(&names, most) };
            [
                row.lose.clone(),
                row.moved.to_string(),
                row.replicas.lost.to_string(),
                row.replicas.regained.to_string(),
                row.replicas.missing.to_string(),
                row.tightest.as_ref().map(tightest).unwrap_or_default(),
                nowhere,
            ]
        };
        let known = self.rows.iter().any(|row| row.tightest.is_some());
        let rows: Vec<[String; 7]> = self.rows.iter().map(cells).collect();
        let mut out = String::new();
        let tightest = if known { "LEAST FREE" } else { "" };
        let head = [head.as_str(), "MOVED", "LOST", "REGAINED", "MISSING", tightest, "RUNS NOWHERE"];
        if known {
            table(&mut out, head, &rows, style);
        } else {
            let rows: Vec<[String; 6]> = rows.into_iter().map(without_tightest).collect();
            table(&mut out, without_tightest(head), &rows, style);
        }
        let safe = self.rows.iter().filter(|row| row.replicas.missing == 0 && row.nowhere.is_empty()).count();
        let all = match (self.pairs, self.rows.len()) {
            (false, number) => counted(number, self.each),
            (true, 1) => format!("1 pair of {}s", self.each),
            (true, number) => format!("{number} pairs of {}s", self.each),
        };
        let words =
            format!("{safe} of {all} can be lost without missing replicas or objects that run nowhere");
        let _ = writeln!(out, "\n{}", style.bold(&words));
        out
    }
}

/// Prints a table: the first and the last column are left-aligned, the others right-aligned.
fn table<const N: usize>(out: &mut String, head: [&str; N], rows: &[[String; N]], style: TextStyle) {
    let wide = |at: usize, head: &str| {
        rows.iter().map(|row| row[at].chars().count()).chain([head.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = head.iter().enumerate().map(|(at, head)| wide(at, head)).collect();
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let _ = match at {
                0 => write!(line, "{cell:width$}"),
                _ if at + 1 == N => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        line.trim_end().to_owned()
    };
    let _ = writeln!(out, "{}", style.bold(&line(head)));
    for row in rows {
        let text = line(row.each_ref().map(String::as_str));
        let empty = row.last().is_none_or(String::is_empty);
        let _ = writeln!(out, "{}", if empty { text } else { style.paint(AnsiColor::Red, &text) });
    }
}
