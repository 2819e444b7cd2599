//! What a plan requests of each cluster, as a table.

use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::table::TextStyle;
use federate_engine::capacity::PlannedUsage;

const COLUMN_TITLES: [&str; 5] = ["CLUSTER", "RESOURCE", "REQUESTED", "LEFT", "ALLOCATABLE"];

/// One line per cluster and resource. Empty without any.
pub fn format_table(all: &[PlannedUsage], style: TextStyle) -> String {
    if all.is_empty() {
        return String::new();
    }
    let cells = |usage: &PlannedUsage| {
        let unknown = || ("unknown".to_owned(), "unknown".to_owned());
        let (left, of) = usage.left.clone().unwrap_or_else(unknown);
        [usage.cluster.clone(), usage.resource.clone(), usage.requested.clone(), left, of]
    };
    let rows: Vec<[String; 5]> = all.iter().map(cells).collect();
    let widths: [usize; 5] = std::array::from_fn(|at| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([COLUMN_TITLES[at].len()]).max().unwrap_or(0)
    });
    let line = |[cluster, resource, requested, left, of]: [&str; 5]| {
        let [first, second, third, fourth, fifth] = widths;
        format!("{cluster:first$}  {resource:second$}  {requested:>third$}  {left:>fourth$}  {of:>fifth$}")
    };
    let mut out = format!("{}\n", style.paint_bold(&line(COLUMN_TITLES)));
    for (row, usage) in rows.iter().zip(all) {
        let text = line(row.each_ref().map(String::as_str));
        let _ =
            writeln!(out, "{}", if usage.exceeded { style.paint_text(AnsiColor::Red, &text) } else { text });
    }
    out
}
