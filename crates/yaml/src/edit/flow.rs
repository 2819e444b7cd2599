//! Edits flow collections (`{a: b}`, `[a, b]`), which includes all collections of JSON.

use super::mapping_changes::MappingChanges;
use super::tree::{MappingEntry, TextNode};
use super::{Editor, Remainder, lines, new_text};
use serde_json::Value;
use std::ops::Range;

impl Editor<'_> {
    /// Edits a flow mapping.
    pub(super) fn flow_mapping(
        &mut self,
        node: &TextNode,
        entries: &[MappingEntry],
        mut changed: MappingChanges<'_>,
    ) -> Option<Remainder> {
        // `[a: b]` contains a mapping without braces.
        if !self.text.get(node.span.clone())?.starts_with('{') {
            return None;
        }
        if changed.is_empty_after() {
            return Some(Remainder::Nothing);
        }
        for (at, inner) in std::mem::take(&mut changed.within) {
            let entry = entries.get(at)?;
            if self.edit_value(&entry.value, inner.before, inner.plan, None)? == Remainder::Nothing {
                changed.becomes.push((at, inner.after));
            }
        }
        for (at, value) in &changed.becomes {
            self.flow_value(entries.get(*at)?, value)?;
        }
        let spans: Vec<_> = entries.iter().map(|entry| entry.span.start..entry.end_offset()).collect();
        self.remove_from_flow(&spans, &changed.gone)?;
        for (before, key, value) in changed.place_new_entries(entries) {
            let last = changed.remaining_indices().next_back()?;
            self.insert_in_flow(node, entries.get(before.unwrap_or(last))?, before.is_some(), key, value);
        }
        Some(Remainder::Some)
    }

    fn flow_value(&mut self, entry: &MappingEntry, value: &Value) -> Option<()> {
        if entry.value.adorned {
            return None;
        }
        let text = new_text::format_flow(value, self.json || entry.quoted);
        match entry.colon {
            Some(colon) if !entry.has_text() => self.replace_range(colon..colon, format!(" {text}")),
            None if !entry.has_text() => {
                self.replace_range(entry.span.end..entry.span.end, format!(": {text}"));
            }
            _ => self.replace_range(entry.value.span.clone(), text),
        }
        Some(())
    }

    /// Removes parts of a flow collection with the commas that are no longer needed; at least one part
    /// remains.
    pub(super) fn remove_from_flow(&mut self, spans: &[Range<usize>], gone: &[bool]) -> Option<()> {
        let last = gone.iter().rposition(|gone| !gone)?;
        for (at, pair) in spans.windows(2).enumerate().take(last) {
            if let ([span, next], true) = (pair, *gone.get(at)?) {
                self.replace_range(span.start..next.start, "");
            }
        }
        if last + 1 < spans.len() {
            self.replace_range(spans.get(last)?.end..spans.last()?.end, "");
        }
        Some(())
    }

    /// Inserts an entry before or after another one, on its own line if that entry has one.
    fn insert_in_flow(
        &mut self,
        node: &TextNode,
        near: &MappingEntry,
        before: bool,
        key: &str,
        value: &Value,
    ) {
        let json = self.json || near.quoted;
        let tight = near.colon.is_some_and(|colon| near.has_text() && near.value.span.start == colon);
        let margin = lines::margin_before(self.text, near.span.start);
        let (between, value) = match margin.filter(|_| lines::line_start(self.text, near.span.start) > 0) {
            Some(margin) => {
                let outer = lines::indentation_at(self.text, node.span.start);
                let step = margin.strip_prefix(outer).unwrap_or_default();
                (format!("{}{margin}", self.eol), new_text::flow_lines(value, json, margin, step, self.eol))
            }
            None => ((if json && tight { "" } else { " " }).to_owned(), new_text::format_flow(value, json)),
        };
        let key = if json { new_text::quote_string(key) } else { new_text::format_flow_string(key) };
        let colon = if json && tight { ":" } else { ": " };
        if before {
            let at = near.span.start;
            self.replace_range(at..at, format!("{key}{colon}{value},{between}"));
        } else {
            self.replace_range(
                near.end_offset()..near.end_offset(),
                format!(",{between}{key}{colon}{value}"),
            );
        }
    }
}
