//! Cuts a comment to the size limit, the least important first: manifests, tables of fields, lists of names, tables of values,
//! then whole rows. The comment says what was cut.

use crate::escape::format_code;
use crate::table::format_count;

/// The largest size of a comment in bytes, which is at least its number of characters. A comment on GitHub holds at most 65,536
/// characters, and others may add to it.
pub const MAX_COMMENT_BYTES: usize = 59_000;

/// How much a row matters to a reader. The last is cut first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Importance {
    /// What has failed, or what the whole is about.
    Summary,
    /// What is deleted.
    Deletion,
    /// What runs nowhere.
    Nowhere,
    /// Why something changes.
    Cause,
    /// Whether it fits.
    Capacity,
    /// What is placed otherwise.
    Move,
    /// Whose pods restart.
    Restart,
    /// What is found to be wrong.
    Finding,
    /// Which values change.
    Value,
    /// What has only a technical reason, or is as it should be.
    Detail,
}

/// A titled section of a comment.
pub(crate) struct Section {
    title: &'static str,
    intro: String,
    rows: Vec<SectionRow>,
}

/// An entry of a section.
pub(crate) struct SectionRow {
    /// How much it matters.
    pub(crate) importance: Importance,
    /// The visible part. HTML if details are folded below it, complete Markdown otherwise.
    pub(crate) line: String,
    /// A table that is not folded.
    pub(crate) open: String,
    /// The names in full.
    pub(crate) lists: String,
    /// The changed fields.
    pub(crate) table: String,
    /// The manifests.
    pub(crate) diff: String,
    /// Whether the row is complete Markdown.
    pub(crate) is_plain: bool,
}

/// Bytes reserved for the note about what was left out.
const NOTE_BYTES: usize = 1_000;

/// The size in bytes to which a table that is not folded is shortened.
const MIN_TABLE_BYTES: usize = 1_500;

/// The details of entries, in the order in which they are dropped.
const DETAILS: [(&str, Part); 3] = [
    ("the manifests of", |row| &mut row.diff),
    ("the fields of", |row| &mut row.table),
    ("the full names of", |row| &mut row.lists),
];

/// Accesses one kind of detail of an entry.
type Part = fn(&mut SectionRow) -> &mut String;

impl Section {
    pub(crate) fn new(title: &'static str, intro: impl Into<String>, rows: Vec<SectionRow>) -> Self {
        Self { title, intro: intro.into(), rows }
    }

    fn render_text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let rows: String = self.rows.iter().map(SectionRow::render_text).collect();
        // The first row need not begin with an empty line.
        let rows = if self.intro.is_empty() { rows.trim_start_matches('\n') } else { &rows };
        match self.title {
            "" => format!("\n{}{rows}", self.intro),
            title => format!("\n#### {title}\n\n{}{rows}", self.intro),
        }
    }

    fn len(&self) -> usize {
        if self.rows.is_empty() {
            return 0;
        }
        self.title.len() + 8 + self.intro.len() + self.rows.iter().map(SectionRow::len).sum::<usize>()
    }
}

impl SectionRow {
    /// A row without details, in Markdown.
    pub(crate) fn without_details(importance: Importance, line: String) -> Self {
        Self { is_plain: true, ..Self::with_details(importance, line) }
    }

    /// A row whose details are folded below a line of HTML.
    pub(crate) fn with_details(importance: Importance, line: String) -> Self {
        let [open, lists, table, diff] = [const { String::new() }; 4];
        Self { importance, line, open, lists, table, diff, is_plain: false }
    }

    fn render_text(&self) -> String {
        if self.is_plain {
            return self.line.clone();
        }
        let Self { line, open, lists, table, diff, .. } = self;
        if !open.is_empty() {
            let details = if lists.is_empty() && diff.is_empty() {
                String::new()
            } else {
                let what = if diff.is_empty() { "details" } else { "all names, and one manifest" };
                format!("<details><summary>{what}</summary>\n\n{lists}{diff}\n</details>\n")
            };
            return format!("\n{line}\n\n{open}{details}");
        }
        if [lists, table, diff].iter().all(|part| part.is_empty()) {
            return format!("- {line}\n");
        }
        format!("<details><summary>{line}</summary>\n\n{lists}{table}{diff}\n</details>\n")
    }

    fn len(&self) -> usize {
        // At least the length of `text`, whose markup is shorter.
        self.line.len() + self.open.len() + self.lists.len() + self.table.len() + self.diff.len() + 96
    }
}

/// The sections within `budget` bytes. `all` is the command that prints what was left out.
pub(crate) fn fit_sections(mut sections: Vec<Section>, budget: usize, all: &str) -> String {
    let mut length: usize = sections.iter().map(Section::len).sum();
    let mut gone: Vec<String> = Vec::new();
    if length > budget {
        let budget = budget.saturating_sub(NOTE_BYTES);
        for (what, part) in DETAILS {
            let dropped = drop_largest(&mut sections, &mut length, budget, part);
            if dropped > 0 {
                gone.push(format!("{what} {}", format_count(dropped, "change")));
            }
        }
        let shortened = shorten_tables(&mut sections, &mut length, budget);
        if shortened > 0 {
            gone.push(format!("{} of tables of values", format_count(shortened, "line")));
        }
        gone.extend(drop_rows(&mut sections, &mut length, budget));
    }
    let mut out: String = sections.iter().map(Section::render_text).collect();
    if !gone.is_empty() {
        out.push_str(&format!(
            "\n---\nLeft out to fit the size limit of comments: {}. To see everything: {}\n",
            gone.join(", "),
            format_code(all)
        ));
    }
    out
}

/// The rows with the least important first; among equally important ones the last first.
fn least_important_first(sections: &mut [Section]) -> Vec<&mut SectionRow> {
    let mut rows: Vec<&mut SectionRow> = sections.iter_mut().flat_map(|section| &mut section.rows).collect();
    rows.reverse();
    rows.sort_by_key(|row| std::cmp::Reverse(row.importance));
    rows
}

/// Clears one kind of detail of the least important rows, the largest first, until the rest fits. Returns how many were cleared.
fn drop_largest(sections: &mut [Section], length: &mut usize, budget: usize, part: Part) -> usize {
    let rows = sections.iter_mut().flat_map(|section| &mut section.rows);
    let mut parts: Vec<(Importance, &mut String)> = rows.map(|row| (row.importance, part(row))).collect();
    parts.sort_by_key(|(importance, part)| std::cmp::Reverse((*importance, part.len())));
    let mut dropped = 0;
    for (_, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
        if *length <= budget {
            break;
        }
        *length -= part.len();
        part.clear();
        dropped += 1;
    }
    dropped
}

/// Cuts the last lines of open tables until the rest fits. Returns the number of lines.
fn shorten_tables(sections: &mut [Section], length: &mut usize, budget: usize) -> usize {
    let mut cut = 0;
    for row in least_important_first(sections).into_iter().filter(|row| row.open.len() > MIN_TABLE_BYTES) {
        let Some(excess) = length.checked_sub(budget).filter(|excess| *excess > 0) else { break };
        let keep = row.open.len().saturating_sub(excess + 96).max(MIN_TABLE_BYTES);
        let end = row.open.char_indices().map_while(|(at, c)| (at < keep).then_some((at, c)));
        let end = end.filter(|(_, c)| *c == '\n').last().map_or(0, |(at, _)| at + 1);
        let lines = row.open.get(end..).unwrap_or_default().lines().filter(|line| !line.is_empty()).count();
        let before = row.open.len();
        row.open.truncate(end);
        row.open.push_str(&format!("\n… and {}\n", format_count(lines, "more line")));
        *length = *length + row.open.len() - before;
        cut += lines;
    }
    cut
}

/// Removes the least important rows until the rest fits. Returns what was removed, by section.
fn drop_rows(sections: &mut [Section], length: &mut usize, budget: usize) -> Vec<String> {
    let totals: Vec<usize> = sections.iter().map(|section| section.rows.len()).collect();
    let mut order: Vec<(Importance, usize, usize)> = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        order.extend(section.rows.iter().enumerate().map(|(row, content)| (content.importance, at, row)));
    }
    order.sort_unstable();
    let mut dropped: Vec<Vec<bool>> = totals.iter().map(|rows| vec![false; *rows]).collect();
    for (_, section, row) in order.into_iter().rev() {
        if *length <= budget {
            break;
        }
        let size = sections.get(section).and_then(|section| section.rows.get(row)).map_or(0, SectionRow::len);
        *length = length.saturating_sub(size);
        if let Some(dropped) = dropped.get_mut(section).and_then(|rows| rows.get_mut(row)) {
            *dropped = true;
        }
    }
    for (section, dropped) in sections.iter_mut().zip(dropped) {
        let mut dropped = dropped.into_iter();
        section.rows.retain(|_| !dropped.next().unwrap_or(false));
    }
    sections
        .iter()
        .zip(totals)
        .filter_map(|(section, total)| {
            let gone = total - section.rows.len();
            (gone > 0).then(|| format!("{gone} of {} of “{}”", format_count(total, "line"), section.title))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(importance: Importance, count: usize) -> Vec<SectionRow> {
        (0..count)
            .map(|at| {
                SectionRow::without_details(importance, format!("- {importance:?} {at} {}\n", "x".repeat(40)))
            })
            .collect()
    }

    #[test]
    fn the_least_important_rows_go_first() {
        let sections = vec![
            Section::new("Values", "", rows(Importance::Value, 20)),
            Section::new("Deleted", "", rows(Importance::Deletion, 20)),
            Section::new("Moves", "", rows(Importance::Move, 20)),
        ];
        let text = fit_sections(sections, 5_000, "federate diff");
        assert_eq!(text.matches("- Deletion").count(), 20, "{text}");
        assert!(text.contains("- Move 0 ") && !text.contains("- Move 19 "), "{text}");
        assert!(!text.contains("- Value"), "{text}");
        assert!(text.contains("20 of 20 lines of “Values”") && text.len() <= 5_000, "{text}");
    }

    #[test]
    fn a_long_table_loses_its_last_lines() {
        let open =
            (0..200).fold(String::new(), |text, at| text + &format!("| object {at} | before | after |\n"));
        let mut row = SectionRow::with_details(Importance::Value, "200 objects".to_owned());
        row.open = open;
        let text = fit_sections(vec![Section::new("Values", "", vec![row])], 4_000, "federate diff");
        assert!(text.contains("| object 0 |") && !text.contains("| object 199 |"), "{text}");
        assert!(text.contains("more lines\n") && text.contains("lines of tables of values"), "{text}");
        assert!(text.len() <= 4_000, "{}", text.len());
    }
}
