//! Changes to flow collections (`{a: b}`, `[a, b]`), which is all that JSON has.

use super::changed::Changed;
use super::tree::{Entry, Node};
use super::{Editor, Left, fresh, lines};
use serde_json::Value;
use std::ops::Range;

impl Editor<'_> {
    /// Changes a flow mapping.
    pub(super) fn flow_mapping(
        &mut self,
        node: &Node,
        entries: &[Entry],
        mut changed: Changed<'_>,
    ) -> Option<Left> {
        // `[a: b]` has a mapping without braces.
        if !self.text.get(node.span.clone())?.starts_with('{') {
            return None;
        }
        if changed.leaves_nothing() {
            return Some(Left::Nothing);
        }
        for (at, inner) in std::mem::take(&mut changed.within) {
            let entry = entries.get(at)?;
            if self.value(&entry.value, inner.before, inner.plan, None)? == Left::Nothing {
                changed.becomes.push((at, inner.after));
            }
        }
        for (at, value) in &changed.becomes {
            self.flow_value(entries.get(*at)?, value)?;
        }
        let spans: Vec<_> = entries.iter().map(|entry| entry.span.start..entry.end()).collect();
        self.remove_from_flow(&spans, &changed.gone)?;
        for (before, key, value) in changed.placed(entries) {
            let last = changed.staying().next_back()?;
            self.insert_in_flow(entries, before, last, key, value)?;
        }
        Some(Left::Some)
    }

    fn flow_value(&mut self, entry: &Entry, value: &Value) -> Option<()> {
        if entry.value.adorned {
            return None;
        }
        let text = fresh::flow(value, self.json || entry.quoted);
        match entry.colon {
            Some(colon) if !entry.has_text() => self.replace(colon..colon, format!(" {text}")),
            None if !entry.has_text() => self.replace(entry.span.end..entry.span.end, format!(": {text}")),
            _ => self.replace(entry.value.span.clone(), text),
        }
        Some(())
    }

    /// Removes parts of a flow collection with the commas that they no longer need; at least one stays.
    pub(super) fn remove_from_flow(&mut self, spans: &[Range<usize>], gone: &[bool]) -> Option<()> {
        let last = gone.iter().rposition(|gone| !gone)?;
        for (at, pair) in spans.windows(2).enumerate().take(last) {
            if let ([span, next], true) = (pair, *gone.get(at)?) {
                self.replace(span.start..next.start, "");
            }
        }
        if last + 1 < spans.len() {
            self.replace(spans.get(last)?.end..spans.last()?.end, "");
        }
        Some(())
    }

    fn insert_in_flow(
        &mut self,
        entries: &[Entry],
        before: Option<usize>,
        last: usize,
        key: &str,
        value: &Value,
    ) -> Option<()> {
        let near = entries.get(before.unwrap_or(last))?;
        let json = self.json || near.quoted;
        let tight = near.colon.is_some_and(|colon| near.has_text() && near.value.span.start == colon);
        let key = if json { fresh::quoted(key) } else { fresh::text(key) };
        let colon = if json && tight { ":" } else { ": " };
        let entry = format!("{key}{colon}{}", fresh::flow(value, json));
        let line = lines::start(self.text, near.span.start);
        let between = if lines::leads(self.text, near.span.start) && line > 0 {
            format!("{}{}", self.eol, self.text.get(line..near.span.start)?)
        } else if json && tight {
            String::new()
        } else {
            " ".to_owned()
        };
        match before {
            Some(_) => self.replace(near.span.start..near.span.start, format!("{entry},{between}")),
            None => self.replace(near.end()..near.end(), format!(",{between}{entry}")),
        }
        Some(())
    }
}
