//! The differences between two lists whose order matters: the lines of two manifests, or the items of two arrays.
//!
//! Everything is compared as numbers and by one algorithm, because each further type and algorithm would be compiled once
//! more: that was a fifth of the code that is generated for this crate.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, group_diff_ops};

/// The operations that turn one list of values into the other, in order.
pub(super) fn diff_values(from: &[Value], to: &[Value]) -> Vec<DiffOp> {
    let [from, to]: [Vec<String>; 2] = [from, to].map(|items| items.iter().map(Value::to_string).collect());
    let mut numbers = Numbers::default();
    diff_operations(
        &numbers.number_texts(from.iter().map(String::as_str)),
        &numbers.number_texts(to.iter().map(String::as_str)),
    )
}

/// Lines with a sign in front of each.
pub(super) fn sign_lines<'l>(sign: &'l str, lines: impl Iterator<Item = &'l str>) -> String {
    lines.flat_map(|line| [sign, line, "\n"]).collect()
}

/// The unified diff of two texts, without file headers, with some lines of context.
pub(super) fn unified_diff(from: &str, to: &str, context: usize) -> String {
    let [old, new]: [Vec<&str>; 2] = [from, to].map(|text| text.lines().collect());
    let mut numbers = Numbers::default();
    let operations = diff_operations(
        &numbers.number_texts(old.iter().copied()),
        &numbers.number_texts(new.iter().copied()),
    );
    let mut text = String::new();
    for hunk in group_diff_ops(operations, context) {
        let [from, to] =
            [DiffOp::old_range, DiffOp::new_range].map(|range| hunk_range(hunk.iter().map(range)));
        text.push_str(&format!("@@ -{from} +{to} @@\n"));
        for operation in hunk {
            let (removed, added) = (&old[operation.old_range()], &new[operation.new_range()]);
            if let DiffOp::Equal { .. } = operation {
                text.push_str(&sign_lines(" ", removed.iter().copied()));
            } else {
                text.push_str(&sign_lines("-", removed.iter().copied()));
                text.push_str(&sign_lines("+", added.iter().copied()));
            }
        }
    }
    text
}

/// The lines of a hunk, as in its header: the first line, and how many there are unless it is one. An empty range is
/// named by the line before it.
fn hunk_range(ranges: impl Iterator<Item = Range<usize>>) -> String {
    let all = ranges.reduce(|first, last| first.start..last.end).unwrap_or_default();
    match all.len() {
        0 => format!("{},0", all.start),
        1 => format!("{}", all.start + 1),
        length => format!("{},{length}", all.start + 1),
    }
}

/// Equal texts have equal numbers.
#[derive(Default)]
struct Numbers<'t>(HashMap<&'t str, usize>);

impl<'t> Numbers<'t> {
    fn number_texts(&mut self, texts: impl Iterator<Item = &'t str>) -> Vec<usize> {
        texts
            .map(|text| {
                let next = self.0.len();
                *self.0.entry(text).or_insert(next)
            })
            .collect()
    }
}

fn diff_operations(from: &[usize], to: &[usize]) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), from, to);
    let Ok(()) = myers::diff(&mut found, from, 0..from.len(), to, 0..to.len());
    found.into_inner().into_inner().into_ops()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_shown_with_their_context() {
        let from = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let to = "a\nb\nc\nD\ne\nf\ng\nh\ni";
        let diff = "@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n@@ -8 +8,2 @@\n h\n+i\n";
        assert_eq!(unified_diff(from, to, 1), diff);
        assert_eq!(unified_diff(from, from, 1), "");
        assert_eq!(unified_diff("", "a\nb\n", 1), "@@ -0,0 +1,2 @@\n+a\n+b\n");
    }

    #[test]
    fn values_are_compared_as_a_whole() {
        let from = [json!({"a": 1}), json!([2]), json!("3")];
        let to = [json!([2]), json!("three")];
        let operations: Vec<_> =
            diff_values(&from, &to).into_iter().map(|op| (op.old_range(), op.new_range())).collect();
        assert_eq!(operations, [(0..1, 0..0), (1..2, 0..1), (2..3, 1..2)]);
    }
}
