//! Making a comment fit: the largest details go first, then the tables of fields, then the names, then rows
//! from the end of the longest section. What went is said.

use crate::table::counted;

/// A part of the comment with a title.
pub(super) struct Section {
    title: &'static str,
    intro: String,
    rows: Vec<Row>,
}

/// One entry of a section.
#[derive(Default)]
pub(super) struct Row {
    /// What is always seen. In HTML if anything is folded below it, otherwise complete Markdown.
    pub(super) line: String,
    /// The names in full.
    pub(super) lists: String,
    /// The fields.
    pub(super) table: String,
    /// The manifests.
    pub(super) diff: String,
    /// Whether it is complete Markdown by itself.
    pub(super) plain: bool,
}

/// Bytes kept free for the words about what was left out.
const NOTE: usize = 1_000;

/// Details of entries, in the order in which they are given up.
const DETAILS: [(&str, Part); 3] = [
    ("the manifests of", |row| &mut row.diff),
    ("the fields of", |row| &mut row.table),
    ("the full names of", |row| &mut row.lists),
];

/// One of the details of an entry.
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
    /// A row with nothing folded, in Markdown.
    pub(super) fn line(line: String) -> Self {
        Self { line, plain: true, ..Self::default() }
    }

    fn text(&self) -> String {
        if self.plain {
            return self.line.clone();
        }
        let Self { line, lists, table, diff, .. } = self;
        if [lists, table, diff].iter().all(|part| part.is_empty()) {
            return format!("- {line}\n");
        }
        format!("<details><summary>{line}</summary>\n\n{lists}{table}{diff}\n</details>\n")
    }

    fn len(&self) -> usize {
        // Never less than `text`, whose frame is shorter than that.
        self.line.len() + self.lists.len() + self.table.len() + self.diff.len() + 48
    }
}

/// The sections within `room` bytes. `all` is the command that shows what had to go.
pub(super) fn fit(mut sections: Vec<Section>, room: usize, all: &str) -> String {
    let mut length: usize = sections.iter().map(Section::len).sum();
    let mut gone: Vec<String> = Vec::new();
    if length > room {
        let room = room.saturating_sub(NOTE);
        for (what, part) in DETAILS {
            let dropped = drop_largest(&mut sections, &mut length, room, part);
            if dropped > 0 {
                gone.push(format!("{what} {}", counted(dropped, "change")));
            }
        }
        gone.extend(drop_rows(&mut sections, &mut length, room));
    }
    let mut out: String = sections.iter().map(Section::text).collect();
    if !gone.is_empty() {
        out.push_str(&format!(
            "\n---\nLeft out, because a comment can hold no more: {}. All of it: {}\n",
            gone.join(", "),
            super::escape::code(all)
        ));
    }
    out
}

/// Empties one part of the rows, the largest first, until the rest fits; how many were.
fn drop_largest(sections: &mut [Section], length: &mut usize, room: usize, part: Part) -> usize {
    let mut parts: Vec<&mut String> =
        sections.iter_mut().flat_map(|s| &mut s.rows).map(part).filter(|part| !part.is_empty()).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let mut dropped = 0;
    for part in parts {
        if *length <= room {
            break;
        }
        *length -= part.len();
        part.clear();
        dropped += 1;
    }
    dropped
}

/// Takes rows from the end of the longest section until the rest fits.
fn drop_rows(sections: &mut [Section], length: &mut usize, room: usize) -> Vec<String> {
    let totals: Vec<usize> = sections.iter().map(|section| section.rows.len()).collect();
    let mut lengths: Vec<usize> = sections.iter().map(|s| s.rows.iter().map(Row::len).sum()).collect();
    while *length > room {
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
