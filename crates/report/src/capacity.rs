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
    let mut rows = vec![COLUMN_TITLES.map(ToOwned::to_owned)];
    for usage in all {
        let (left, of) = usage.left.clone().unwrap_or_else(|| ("unknown".to_owned(), "unknown".to_owned()));
        rows.push([usage.cluster.clone(), usage.resource.clone(), usage.requested.clone(), left, of]);
    }
    let [first, second, third, fourth, fifth]: [usize; 5] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let mut out = String::new();
    for (at, [cluster, resource, requested, left, of]) in rows.iter().enumerate() {
        let text = format!(
            "{cluster:first$}  {resource:second$}  {requested:>third$}  {left:>fourth$}  {of:>fifth$}"
        );
        let exceeded = at.checked_sub(1).and_then(|at| all.get(at)).map(|usage| usage.exceeded);
        let text = match exceeded {
            None => style.paint_bold(&text),
            Some(true) => style.paint_text(AnsiColor::Red, &text),
            Some(false) => text,
        };
        let _ = writeln!(out, "{text}");
    }
    out
}
