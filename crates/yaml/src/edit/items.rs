//! Edits the items of lists.

use super::plan::EditPlan;
use super::tree::{NodeKind, TextNode};
use super::{Editor, LineLayout, Remainder, lines, new_text};
use granit_parser::ScalarStyle;
use serde_json::Value;

impl Editor<'_> {
    /// Edits the items of a list.
    pub(super) fn edit_sequence(
        &mut self,
        flow: bool,
        items: &[TextNode],
        values: &[Value],
        changes: &[(String, EditPlan)],
    ) -> Option<Remainder> {
        let mut gone = vec![false; items.len()];
        for (step, plan) in changes {
            let Ok(at) = step.parse::<usize>() else { continue };
            let (Some(item), Some(value)) = (items.get(at), values.get(at)) else { continue };
            let Some(after) = plan.apply_to(Some(value), "").ok()? else {
                *gone.get_mut(at)? = true;
                continue;
            };
            let layout = LineLayout { column: item.column.saturating_sub(2) };
            let left = match plan {
                _ if after == *value => Remainder::Some,
                EditPlan::Within(_) => self.edit_value(item, value, plan, Some(layout))?,
                _ => Remainder::Nothing,
            };
            if left == Remainder::Nothing {
                self.item_value(item, &after)?;
            }
        }
        if gone.iter().all(|gone| *gone) {
            return Some(Remainder::Nothing);
        }
        if flow {
            let spans: Vec<_> = items.iter().map(|item| item.span.clone()).collect();
            self.remove_from_flow(&spans, &gone)?;
        } else if gone.contains(&true) {
            self.remove_items(items, &gone)?;
        }
        Some(Remainder::Some)
    }

    /// Replaces an item by a value on one line.
    fn item_value(&mut self, item: &TextNode, value: &Value) -> Option<()> {
        let block = matches!(item.kind, NodeKind::Scalar(ScalarStyle::Literal | ScalarStyle::Folded));
        if block || item.adorned || item.span.is_empty() {
            return None;
        }
        self.replace_range(item.span.clone(), new_text::format_flow(value, self.json));
        Some(())
    }

    fn remove_items(&mut self, items: &[TextNode], gone: &[bool]) -> Option<()> {
        let mut floor = 0;
        for (item, gone) in items.iter().zip(gone) {
            let dash = self.find_dash(item)?;
            let end = item.span.end.max(dash);
            if *gone {
                if !lines::is_first_on_line(self.text, dash) {
                    return None;
                }
                let column = dash - lines::line_start(self.text, dash);
                let range = lines::find_entry_lines(self.text, dash..end, column, floor);
                self.replace_range(range, "");
            }
            floor = lines::next_line(self.text, end);
        }
        Some(())
    }

    /// The position of an item's dash: before the item on its line, or else on the nearest line above that is
    /// not a comment.
    fn find_dash(&self, item: &TextNode) -> Option<usize> {
        if item.adorned {
            return None;
        }
        let mut end = item.span.start;
        loop {
            let line = lines::line_start(self.text, end);
            let before = self.text.get(line..end)?;
            let text = before.split_once(" #").map_or(before, |(text, _)| text).trim_end();
            if text.ends_with('-') {
                return Some(line + text.len() - 1);
            }
            if !text.is_empty() && !text.trim_start().starts_with('#') {
                return None;
            }
            end = line.checked_sub(1)?;
        }
    }
}
