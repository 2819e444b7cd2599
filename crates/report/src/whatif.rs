//! What a scenario would cause: for a terminal and for machines.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::Serialize;

use super::diff::{Diff, text};
use super::table::{Look, counted};
use federate_dialect::plan::API_VERSION;
use federate_engine::change::Changes;
use federate_engine::whatif::Loss;
use federate_kubernetes::{ObjectRef, finding};

/// What a scenario causes, for machines.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `WhatIf`.
    pub kind: &'static str,
    /// The events, as they stand on the command line.
    pub scenario: &'a [String],
    /// Replicas in numbers.
    pub replicas: Replicas,
    /// Objects of which something is lost or runs elsewhere.
    pub losses: &'a [Loss],
    /// Where things run differently.
    #[serde(flatten)]
    pub changes: &'a Changes,
}

/// What the loss of each unit causes, for machines.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfEach<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `WhatIfEach`.
    pub kind: &'static str,
    /// What is lost: `cluster`, `zone`, `region` or `provider`.
    pub each: &'static str,
    /// What happens before, as it stands on the command line.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub scenario: &'a [String],
    /// One row for each unit, the worst first.
    pub rows: Vec<Row>,
}

/// What the loss of one unit causes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The cluster, zone, region or provider that is lost.
    pub lose: String,
    /// Its clusters.
    pub clusters: Vec<String>,
    /// Objects that run in other clusters, or with other replicas there.
    pub moved: usize,
    /// Replicas in numbers.
    pub replicas: Replicas,
    /// Objects that run nowhere.
    pub nowhere: Vec<ObjectRef>,
    /// Objects that could be scheduled and no longer can.
    pub unschedulable: Vec<ObjectRef>,
}

/// Replicas of all objects together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    /// Those that no longer run where they ran.
    pub lost: i64,
    /// Those that run where they did not.
    pub regained: i64,
    /// Those of each object that are lost and not regained.
    pub missing: i64,
}

impl Replicas {
    /// Of all these objects.
    pub fn of(losses: &[Loss]) -> Self {
        Self {
            lost: losses.iter().map(|loss| loss.lost).sum(),
            regained: losses.iter().map(|loss| loss.regained).sum(),
            missing: losses.iter().map(Loss::missing).sum(),
        }
    }
}

impl<'a> WhatIf<'a> {
    /// What the events cause.
    pub fn new(scenario: &'a [String], changes: &'a Changes, losses: &'a [Loss]) -> Self {
        let replicas = Replicas::of(losses);
        Self { api_version: API_VERSION, kind: "WhatIf", scenario, replicas, losses, changes }
    }

    /// As text: the difference, then what is lost.
    pub fn text(&self, look: Look) -> String {
        let later = self.scenario.join(", ");
        let diff = Diff::new("today", &later, self.changes);
        let mut out = if self.changes.is_empty() {
            format!("{later}: nothing is placed elsewhere\n")
        } else {
            text::text(&diff, text::Detail::Fields, look)
        };
        if self.losses.is_empty() {
            return out;
        }
        let _ = writeln!(out, "\n{}", look.bold("Replicas"));
        let most = if look.full { usize::MAX } else { LOSSES };
        let rows: Vec<[String; 5]> = self.losses.iter().take(most).map(loss_cells).collect();
        table(&mut out, ["OBJECT", "LOST", "REGAINED", "LEFT", ""], &rows, look);
        if let Some(more) = self.losses.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(out, "… and {more} more (-v shows all)");
        }
        let nowhere = self.losses.iter().filter(|loss| loss.nowhere).count();
        let _ = writeln!(out, "\n{}", look.bold(&sentence(self.replicas, nowhere)));
        out
    }
}

/// Objects shown, unless all are asked for.
const LOSSES: usize = 20;

/// Objects named in a cell.
const NAMES: usize = 2;

fn loss_cells(loss: &Loss) -> [String; 5] {
    let note = if loss.nowhere { "runs nowhere" } else { "" };
    let number = |n: i64| n.to_string();
    [loss.object.to_string(), number(loss.lost), number(loss.regained), number(loss.left), note.to_owned()]
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
    /// As text: one line for each unit.
    pub fn text(&self, look: Look) -> String {
        let head = self.each.to_uppercase();
        let cells = |row: &Row| {
            let names: Vec<String> = row.nowhere.iter().map(ToString::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let most = if look.full { usize::MAX } else { NAMES };
            let nowhere = if names.is_empty() { String::new() } else { finding::list(&names, most) };
            [
                row.lose.clone(),
                row.moved.to_string(),
                row.replicas.lost.to_string(),
                row.replicas.regained.to_string(),
                row.replicas.missing.to_string(),
                nowhere,
            ]
        };
        let rows: Vec<[String; 6]> = self.rows.iter().map(cells).collect();
        let mut out = String::new();
        let head = [head.as_str(), "MOVED", "LOST", "REGAINED", "MISSING", "RUNS NOWHERE"];
        table(&mut out, head, &rows, look);
        let safe = self.rows.iter().filter(|row| row.replicas.missing == 0 && row.nowhere.is_empty()).count();
        let all = counted(self.rows.len(), self.each);
        let words =
            format!("{safe} of {all} can be lost without replicas missing or objects running nowhere");
        let _ = writeln!(out, "\n{}", look.bold(&words));
        out
    }
}

/// Columns: the first and the last to the left, the others to the right.
fn table<const N: usize>(out: &mut String, head: [&str; N], rows: &[[String; N]], look: Look) {
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
    let _ = writeln!(out, "{}", look.bold(&line(head)));
    for row in rows {
        let text = line(row.each_ref().map(String::as_str));
        let empty = row.last().is_none_or(String::is_empty);
        let _ = writeln!(out, "{}", if empty { text } else { look.paint(AnsiColor::Red, &text) });
    }
}
