//! Shortens a comment to the size limit: first the largest manifests, then tables of fields, then lists of
//! names, then the last rows of the longest section. The comment says what was left out.

use crate::table::counted;

/// A titled section of the comment.
pub(super) struct Section {
    title: &'static str,
    intro: String,
    rows: Vec<Row>,
}

/// An entry of a section.
#[derive(Default)]
pub(super) struct Row {
    /// The visible part. HTML if details are folded below it, complete Markdown otherwise.
    pub(super) line: String,
    /// A table that is not folded.
    pub(super) open: String,
    /// The names in full.
    pub(super) lists: String,
    /// The changed fields.
    pub(super) table: String,
    /// The manifests.
    pub(super) diff: String,
    /// Whether the row is complete Markdown.
    pub(super) plain: bool,
}

/// Bytes reserved for the note about what was left out.
const NOTE: usize = 1_000;

/// The details of entries, in the order in which they are dropped.
const DETAILS: [(&str, Part); 3] = [
    ("the manifests of", |row| &mut row.diff),
    ("the fields of", |row| &mut row.table),
    ("the full names of", |row| &mut row.lists),
];

/// Accesses one kind of detail of an entry.
type Part = fn(&mut Row) -> &mut String;

impl Section {
    pub(super) fn new(title: &'static str, intro: &str, rows: Vec<Row>) -> Self {
        Self { title, intro: intro.to_owned(), rows }
    }

    fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let rows: String = self.rows.iter().map(Row::text).collect();
        format!("\n#### {}\n\n{}{rows}", self.title, self.intro)
    }

    fn len(&self) -> usize {
        if self.rows.is_empty() {
            return 0;
        }
        self.title.len() + 8 + self.intro.len() + self.rows.iter().map(Row::len).sum::<usize>()
    }
}

impl Row {
    /// A row without details, in Markdown.
    pub(super) fn line(line: String) -> Self {
        Self { line, plain: true, ..Self::default() }
    }

    fn text(&self) -> String {
        if self.plain {
            return self.line.clone();
        }
        let Self { line, open, lists, table, diff, .. } = self;
        if !open.is_empty() {
            let details = if lists.is_empty() && diff.is_empty() {
                String::new()
            } else {
                format!(
                    "<details><summary>all names, and one manifest</summary>\n\n{lists}{diff}\n</details>\n"
                )
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
pub(super) fn fit(mut sections: Vec<Section>, budget: usize, all: &str) -> String {
    let mut length: usize = sections.iter().map(Section::len).sum();
    let mut gone: Vec<String> = Vec::new();
    if length > budget {
        let budget = budget.saturating_sub(NOTE);
        for (what, part) in DETAILS {
            let dropped = drop_largest(&mut sections, &mut length, budget, part);
            if dropped > 0 {
                gone.push(format!("{what} {}", counted(dropped, "change")));
            }
        }
        gone.extend(drop_rows(&mut sections, &mut length, budget));
    }
    let mut out: String = sections.iter().map(Section::text).collect();
    if !gone.is_empty() {
        out.push_str(&format!(
            "\n---\nLeft out to fit the size limit of comments: {}. To see everything: {}\n",
            gone.join(", "),
            super::escape::code(all)
        ));
    }
    out
}

/// Clears one kind of detail of the largest rows until the rest fits. Returns how many were cleared.
fn drop_largest(sections: &mut [Section], length: &mut usize, budget: usize, part: Part) -> usize {
    let mut parts: Vec<&mut String> =
        sections.iter_mut().flat_map(|s| &mut s.rows).map(part).filter(|part| !part.is_empty()).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let mut dropped = 0;
    for part in parts {
        if *length <= budget {
            break;
        }
        *length -= part.len();
        part.clear();
        dropped += 1;
    }
    dropped
}

/// Removes rows from the end of the longest section until the rest fits.
fn drop_rows(sections: &mut [Section], length: &mut usize, budget: usize) -> Vec<String> {
    let totals: Vec<usize> = sections.iter().map(|section| section.rows.len()).collect();
    let mut lengths: Vec<usize> = sections.iter().map(|s| s.rows.iter().map(Row::len).sum()).collect();
    while *length > budget {
        let longest = lengths.iter_mut().zip(&mut *sections).max_by_key(|(length, _)| **length);
        let Some((part, section)) = longest else { break };
        let Some(row) = section.rows.pop() else { break };
        *length -= row.len();
        *part -= row.len();
    }
    let dropped = |(section, total): (&Section, usize)| {
        let gone = total - section.rows.len();
        (gone > 0).then(|| format!("{gone} of {total} lines of “{}”", section.title))
    };
    sections.iter().zip(totals).filter_map(dropped).collect()
}
