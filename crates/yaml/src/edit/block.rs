//! Edits block mappings, whose entries have their own lines.

use super::mapping_changes::MappingChanges;
use super::tree::{MappingEntry, NodeKind, TextNode};
use super::{Editor, LineLayout, Remainder, lines, new_text};
use granit_parser::ScalarStyle;
use serde_json::Value;

impl Editor<'_> {
    /// Edits a block mapping.
    pub(super) fn block_mapping(
        &mut self,
        node: &TextNode,
        entries: &[MappingEntry],
        mut changed: MappingChanges<'_>,
        layout: Option<LineLayout>,
    ) -> Option<Remainder> {
        if changed.is_empty_after() {
            return Some(Remainder::Nothing);
        }
        let column = node.column;
        let step = indentation_step(entries, column, layout);
        for (at, inner) in std::mem::take(&mut changed.within) {
            let entry = entries.get(at)?;
            let left =
                self.edit_value(&entry.value, inner.before, inner.plan, Some(LineLayout { column }))?;
            if left == Remainder::Nothing {
                changed.becomes.push((at, inner.after));
            }
        }
        for (at, value) in &changed.becomes {
            self.block_value(entries.get(*at)?, value, column, step)?;
        }
        let root = layout.is_none();
        self.remove_entries(entries, &changed, column, root)?;
        for (before, key, value) in changed.place_new_entries(entries) {
            self.insert_entry(
                entries,
                &changed,
                before,
                &new_text::format_entry(key, value, step),
                column,
                root,
            )?;
        }
        Some(Remainder::Some)
    }

    fn remove_entries(
        &mut self,
        entries: &[MappingEntry],
        changed: &MappingChanges<'_>,
        column: usize,
        root: bool,
    ) -> Option<()> {
        let first = changed.remaining_indices().next()?;
        let compact = !lines::is_first_on_line(self.text, entries.first()?.span.start);
        let from = if compact && first > 0 {
            self.remove_compact(entries, first)?;
            first
        } else {
            0
        };
        for (at, entry) in entries.iter().enumerate().skip(from) {
            if *changed.gone.get(at)? {
                let range = self.entry_lines(entries, at, entry, column, root)?;
                self.replace_range(range, "");
            }
        }
        Some(())
    }

    /// Removes the entries before the first remaining one; the first entry follows the dash of a list item.
    /// The remaining entry takes its place, unless it has comments.
    fn remove_compact(&mut self, entries: &[MappingEntry], first: usize) -> Option<()> {
        let start = entries.first()?.span.start;
        let stays = entries.get(first)?.span.start;
        let end = entries.get(first - 1)?.end_offset();
        let next = lines::next_line(self.text, end);
        let range = if self.text.get(next..stays)?.trim().is_empty() {
            start..stays
        } else {
            let text = self.text.get(..start)?.trim_end_matches(' ');
            text.len()..next - self.line_break(next).len()
        };
        self.replace_range(range, "");
        Some(())
    }

    /// The line break that ends before `at`.
    fn line_break(&self, at: usize) -> &'static str {
        match self.text.get(..at) {
            Some(before) if before.ends_with("\r\n") => "\r\n",
            Some(before) if before.ends_with('\n') => "\n",
            _ => "",
        }
    }

    /// The lines of entry `at`, with its comments. Comments above the first key of a document belong to the
    /// document.
    fn entry_lines(
        &self,
        entries: &[MappingEntry],
        at: usize,
        entry: &MappingEntry,
        column: usize,
        root: bool,
    ) -> Option<std::ops::Range<usize>> {
        if !lines::is_first_on_line(self.text, entry.span.start) {
            return None;
        }
        let floor = match at.checked_sub(1) {
            Some(previous) => lines::next_line(self.text, entries.get(previous)?.end_offset()),
            None if root => entry.span.start,
            None => 0,
        };
        Some(lines::find_entry_lines(self.text, entry.span.start..entry.end_offset(), column, floor))
    }

    /// Inserts the lines of an entry, after the remaining entry before it, or before the first.
    fn insert_entry(
        &mut self,
        entries: &[MappingEntry],
        changed: &MappingChanges<'_>,
        before: Option<usize>,
        new_text: &str,
        column: usize,
        root: bool,
    ) -> Option<()> {
        let mut new = String::new();
        new_text::indent_lines(new_text, column, &mut new);
        let previous = changed.remaining_indices().rev().find(|at| before.is_none_or(|before| *at < before));
        let Some(previous) = previous else {
            let first = changed.remaining_indices().next()?;
            return self.insert_first(entries, first, &new, column, root);
        };
        let entry = entries.get(previous)?;
        // The first entry of an item has no lines of its own, but its last line ends like any other.
        let end = lines::find_entry_lines(
            self.text,
            entry.span.start..entry.end_offset(),
            column,
            entry.span.start,
        )
        .end;
        self.new_lines(end, &new);
        Some(())
    }

    fn insert_first(
        &mut self,
        entries: &[MappingEntry],
        first: usize,
        new: &str,
        column: usize,
        root: bool,
    ) -> Option<()> {
        let entry = entries.get(first)?;
        if lines::is_first_on_line(self.text, entry.span.start) {
            let at = self.entry_lines(entries, first, entry, column, root)?.start;
            self.new_lines(at, new);
            return Some(());
        }
        let new = format!("{}{}", new.trim_start_matches(' '), " ".repeat(column));
        let new = new.replace('\n', self.eol);
        self.replace_range(entry.span.start..entry.span.start, new);
        Some(())
    }

    /// Inserts whole lines at the start of a line, or after a last line without a line break.
    fn new_lines(&mut self, at: usize, new: &str) {
        let unfinished = at > 0 && !self.text.get(..at).is_some_and(|before| before.ends_with('\n'));
        let new = if unfinished { format!("\n{}", new.trim_end_matches('\n')) } else { new.to_owned() };
        self.replace_range(at..at, new.replace('\n', self.eol));
    }

    /// Replaces the value of an entry.
    fn block_value(&mut self, entry: &MappingEntry, value: &Value, column: usize, step: usize) -> Option<()> {
        if entry.value.adorned {
            return None;
        }
        let new_text = new_text::format_entry(entry.key.as_deref()?, value, step);
        let empty = new_text::format_entry(entry.key.as_deref()?, &Value::Null, step);
        let after_colon = new_text.get(empty.len() - " null\n".len()..)?;
        let (line, more) = after_colon.split_once('\n')?;
        let colon = entry.colon?;
        let old = &entry.value;
        let inline = entry.has_text() && !self.text.get(colon..old.span.end)?.contains('\n');
        if inline && more.is_empty() {
            let text = match (&old.kind, value) {
                (NodeKind::Scalar(ScalarStyle::DoubleQuoted), Value::String(string)) => {
                    new_text::quote_string(string)
                }
                _ => line.trim_start().to_owned(),
            };
            self.replace_range(old.span.clone(), text);
            return Some(());
        }
        let mut new = String::new();
        new_text::indent_lines(more, column, &mut new);
        let header = lines::next_line(self.text, colon);
        if entry.has_text() && old.span.end >= header {
            // The header of a block scalar is on the line of its key; a collection has no header.
            let said = match old.kind {
                NodeKind::Scalar(_) => header - self.line_break(header).len(),
                _ => colon,
            };
            self.replace_range(colon..said, line);
            let lines =
                lines::find_entry_lines(self.text, entry.span.start..old.span.end, column, entry.span.start);
            self.replace_range(header..lines.end, new.replace('\n', self.eol));
            return Some(());
        }
        self.replace_range(colon..if entry.has_text() { old.span.end } else { colon }, line);
        if !new.is_empty() {
            self.new_lines(header, &new);
        }
        Some(())
    }
}

/// The additional indentation of nested mappings.
fn indentation_step(entries: &[MappingEntry], column: usize, layout: Option<LineLayout>) -> usize {
    let inner = entries.iter().find_map(|entry| match &entry.value.kind {
        NodeKind::Mapping { flow: false, .. } => entry.value.column.checked_sub(column),
        _ => None,
    });
    let outer = layout.and_then(|layout| column.checked_sub(layout.column));
    inner.or(outer).filter(|step| *step > 0).unwrap_or(2)
}
