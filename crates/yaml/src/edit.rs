//! Edits single values of YAML and JSON files and preserves the rest: comments, order, quotes, indentation,
//! line endings.
//!
//! The parser returns the position of every value, from which the changes to the text are computed. Then the
//! text is parsed again: if a document does not have exactly the expected value (which aliases and merge keys
//! can cause), it is written from scratch instead, and reported as rewritten.

mod block;
mod error;
mod flow;
mod items;
mod lines;
mod mapping_changes;
mod new_text;
mod plan;
mod tree;

use super::pointer::unescape;
use super::stream::{self, Chunk};
use super::{Stream, json, repair};
pub use error::Error;
use plan::EditPlan;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// An edit of one value in a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueEdit {
    /// The document, counted as in [`Document::index`](super::Document::index).
    pub document: u32,
    /// The value, as a JSON pointer into the parsed document.
    pub pointer: String,
    /// The new value, whether the value existed or not; `None` removes it. Missing parent mappings are
    /// created.
    pub value: Option<Value>,
}

/// The text after edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditedText {
    /// The text.
    pub text: Vec<u8>,
    /// Documents whose style did not allow an edit in place: they were rewritten and lost their comments.
    pub rewritten: Vec<u32>,
}

/// Applies edits; the last edit of a value takes effect.
pub fn apply_edits(bytes: &[u8], edits: &[ValueEdit]) -> Result<EditedText, Error> {
    let mut plans: BTreeMap<u32, EditPlan> = BTreeMap::new();
    for edit in edits {
        let steps: Vec<String> =
            edit.pointer.split('/').skip(1).map(|step| unescape(step).into_owned()).collect();
        plans.entry(edit.document).or_insert_with(EditPlan::no_change).add_edit(&steps, edit.value.as_ref());
    }
    let mut edited = EditedText::default();
    let (mut next, mut copied) = (0, 0);
    for chunk in stream::split_chunks(bytes) {
        let first = next;
        let mut before = Stream::default();
        stream::read_chunk(&chunk, &mut next, &mut before);
        let own: BTreeMap<u32, EditPlan> = plans.extract_if(first..next, |_, _| true).collect();
        if own.is_empty() {
            continue;
        }
        if let (Some(index), false) = (own.keys().next(), before.errors.is_empty()) {
            return Err(Error::NoDocument(*index));
        }
        let end = chunk.start + chunk.bytes.len();
        edited.text.extend_from_slice(bytes.get(copied..chunk.start).unwrap_or_default());
        let text = one_chunk(&chunk, first..next, &before, &own, &mut edited.rewritten)?;
        edited.text.extend_from_slice(text.as_bytes());
        copied = end;
    }
    if let Some(index) = plans.keys().next() {
        return Err(Error::NoDocument(*index));
    }
    edited.text.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    Ok(edited)
}

/// The text of a chunk after the edits of its documents, whose indices in the stream are `documents`.
fn one_chunk(
    chunk: &Chunk<'_>,
    documents: Range<u32>,
    before: &Stream,
    plans: &BTreeMap<u32, EditPlan>,
    lost: &mut Vec<u32>,
) -> Result<String, Error> {
    let mut values = Vec::new();
    let mut after: Vec<Value> = Vec::new();
    for index in documents.clone() {
        let value = before.documents.iter().find(|d| d.index == index).map(|d| &d.value);
        values.push(value);
        after.push(match (plans.get(&index), value) {
            (Some(_), None) => return Err(Error::NoDocument(index)),
            (Some(plan), value) => plan.apply_to(value, "")?.unwrap_or_default(),
            (None, value) => value.cloned().unwrap_or_default(),
        });
    }
    let Ok(text) = stream::decode_text(chunk) else { return Err(Error::NoDocument(documents.start)) };
    let mut edited = text.to_owned();
    // From last to first, so that earlier positions stay valid.
    for (nth, (index, value)) in documents.clone().zip(values).enumerate().rev() {
        let (Some(plan), Some(value)) = (plans.get(&index), value) else { continue };
        if let Some(next) = one_document(&edited, nth, value, plan) {
            edited = next;
        }
    }
    if has_documents(&edited, text, &after) {
        return Ok(edited);
    }
    lost.extend(documents);
    Ok(rewrite_documents(text, &after))
}

/// The text after the edits of its document number `nth`, if they are possible in place.
fn one_document(text: &str, nth: usize, value: &Value, plan: &EditPlan) -> Option<String> {
    if plan.apply_to(Some(value), "").ok()?.as_ref() == Some(value) {
        return None;
    }
    let json = json::parse_values(text);
    let (range, nth) = match &json {
        Some(values) => {
            let start = values.get(nth)?.start;
            (start..values.get(nth + 1).map_or(text.len(), |next| next.start), 0)
        }
        None => (0..text.len(), nth),
    };
    let part = text.get(range.clone())?;
    // In a text that needs repairs for the parser, positions differ.
    if repair::insert_spaces(part)? != part {
        return None;
    }
    let root = tree::read_tree(part, nth)?;
    let mut editor =
        Editor { text: part, json: json.is_some(), eol: lines::line_ending(part), changes: Vec::new() };
    if editor.edit_value(&root, value, plan, None)? == Remainder::Nothing {
        return None;
    }
    let part = editor.apply_changes()?;
    Some(format!("{}{part}{}", text.get(..range.start)?, text.get(range.end..)?))
}

/// Whether the text of a chunk has exactly these documents, and its last line ends as before.
fn has_documents(text: &str, before: &str, documents: &[Value]) -> bool {
    let stream = stream::read_stream(text.as_bytes());
    let mut found = vec![Value::Null; documents.len()];
    for document in stream.documents {
        match found.get_mut(document.index as usize) {
            Some(place) => *place = document.value,
            None => return false,
        }
    }
    stream.errors.is_empty() && found == documents && (is_unbroken(before) || !is_unbroken(text))
}

/// Whether the last line of a text has no line break.
fn is_unbroken(text: &str) -> bool {
    !text.is_empty() && !text.ends_with('\n')
}

/// The documents written from scratch, in the format and with the line endings of the text that they replace.
fn rewrite_documents(text: &str, documents: &[Value]) -> String {
    let mut out = String::new();
    let json = json::parse_values(text).is_some();
    for (nth, document) in documents.iter().enumerate() {
        if json {
            out.push_str(&format!("{document:#}\n"));
        } else {
            out.push_str(if nth > 0 { "---\n" } else { "" });
            super::write_document(document, &mut out);
        }
    }
    out.replace('\n', lines::line_ending(text))
}

/// The layout for new lines in a value.
#[derive(Clone, Copy)]
struct LineLayout {
    /// The column of the mapping that contains the value.
    column: usize,
}

/// Collects the changes to a text.
struct Editor<'t> {
    text: &'t str,
    json: bool,
    eol: &'static str,
    /// Byte ranges and their replacements; they do not overlap.
    changes: Vec<(Range<usize>, String)>,
}

/// The rest of a collection after removals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remainder {
    /// The collection was changed in place.
    Some,
    /// Nothing is left: the parent must write the new value.
    Nothing,
}

impl Editor<'_> {
    /// Edits a value. `None` if this is not possible in place.
    fn edit_value(
        &mut self,
        node: &tree::TextNode,
        value: &Value,
        plan: &EditPlan,
        layout: Option<LineLayout>,
    ) -> Option<Remainder> {
        let EditPlan::Within(changes) = plan else { return None };
        match (&node.kind, value) {
            (tree::NodeKind::Mapping { flow, entries }, Value::Object(map)) => {
                let changed = mapping_changes::MappingChanges::compute_changes(entries, map, changes)?;
                match flow {
                    true => self.flow_mapping(node, entries, changed),
                    false => self.block_mapping(node, entries, changed, layout),
                }
            }
            (tree::NodeKind::Sequence { flow, items }, Value::Array(values)) => {
                self.edit_sequence(*flow, items, values, changes)
            }
            // Removes a value that does not exist.
            _ if plan.apply_to(Some(value), "").ok()?.as_ref() == Some(value) => Some(Remainder::Some),
            _ => None,
        }
    }

    fn replace_range(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.changes.push((range, text.into()));
    }

    /// The text with all changes; `None` if they overlap.
    fn apply_changes(mut self) -> Option<String> {
        self.changes.sort_by_key(|(range, _)| (range.start, range.end > range.start));
        let (mut out, mut copied) = (String::new(), 0);
        for (range, text) in &self.changes {
            out.push_str(self.text.get(copied..range.start)?);
            out.push_str(text);
            copied = range.end;
        }
        out.push_str(self.text.get(copied..)?);
        Some(out)
    }
}

#[cfg(test)]
mod tests;
