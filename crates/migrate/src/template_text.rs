//! Cuts an object out of the text of another one that contains it: its comments, the order of its keys and its style
//! stay.

use federate_dialect::import::ImportEdit;
use federate_yaml::edit::{self, ValueEdit};
use federate_yaml::{Positions, read_stream, write_document};
use serde_json::{Map, Value, json};

use crate::difference;

/// A document from which objects are cut out. It is parsed once.
pub(crate) struct OuterDocument<'d> {
    lines: Vec<&'d str>,
    /// The comments with which it begins.
    comments: String,
    positions: Positions<'d>,
}

impl<'d> OuterDocument<'d> {
    /// The document of a text.
    pub(crate) fn new(text: &'d str) -> Self {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let above = lines.iter().take_while(|line| is_blank_or_comment(line));
        let comments = above.skip_while(|line| line.trim().is_empty()).copied().collect();
        Self { lines, comments, positions: Positions::new(text.as_bytes()) }
    }

    /// The comments with which the document begins.
    pub(crate) fn comments(&self) -> &str {
        &self.comments
    }

    /// The text of the object that stands at `pointer`, as an object of its own with the content `body`. What cannot be cut
    /// out is written from scratch.
    pub(crate) fn cut_template(&self, pointer: &str, body: &Value) -> String {
        let cut = self.find_block(pointer).and_then(|block| {
            let text = join_identity(&block, body)?;
            apply_difference(&text, body)
        });
        cut.filter(|text| read_only_document(text).as_ref() == Some(body)).unwrap_or_else(|| {
            let mut text = String::new();
            write_document(body, &mut text);
            text
        })
    }

    /// The lines of the value at a pointer, without its indentation. `None` if it does not stand on lines of its own.
    fn find_block(&self, pointer: &str) -> Option<String> {
        let (at, lines) = (self.positions.locate_value(0, pointer)?, &self.lines);
        let (line, column) = (usize::try_from(at.line).ok()? - 1, usize::try_from(at.column).ok()? - 1);
        let first = *lines.get(line)?;
        let is_item = pointer.rsplit('/').next()?.parse::<usize>().is_ok();
        let (mut block, from, indentation) = if is_item {
            // The first key stands behind the dash.
            (format!("{}\n", first.get(column..)?.trim_end()), line + 1, column)
        } else {
            let after_key = first.get(column..)?.split_once(':')?.1.trim();
            if !after_key.is_empty() && !after_key.starts_with('#') {
                return None;
            }
            let mut content = lines.get(line + 1..)?.iter().filter(|line| !is_blank_or_comment(line));
            let indentation = indentation_of(content.next()?);
            if indentation <= column {
                return None;
            }
            (String::new(), line + 1, indentation)
        };
        let key_column = if is_item { column.checked_sub(1)? } else { column };
        let below = lines.get(from..)?;
        let end = below
            .iter()
            .position(|line| !line.trim().is_empty() && indentation_of(line) <= key_column)
            .unwrap_or(below.len());
        for line in below.get(..end)? {
            let spaces = indentation_of(line).min(indentation);
            block.push_str(line.get(spaces..).unwrap_or("\n"));
        }
        let length = block.trim_end().len();
        block.truncate(length);
        block.push('\n');
        Some(block.replace("\r\n", "\n"))
    }
}

/// A text after edits of its only document.
pub(crate) fn edit_text(text: &str, edits: &[ImportEdit]) -> Option<String> {
    if edits.is_empty() {
        return Some(text.to_owned());
    }
    let edits: Vec<ValueEdit> = edits
        .iter()
        .map(|edit| ValueEdit { document: 0, pointer: edit.pointer.clone(), value: edit.value.clone() })
        .collect();
    String::from_utf8(edit::apply_edits(text.as_bytes(), &edits).ok()?.text).ok()
}

/// The value of a text with one document.
fn read_only_document(text: &str) -> Option<Value> {
    let stream = read_stream(text.as_bytes());
    match (stream.documents.as_slice(), stream.errors.is_empty()) {
        ([document], true) => Some(document.value.clone()),
        _ => None,
    }
}

/// Edits a text so that it has this content.
fn apply_difference(text: &str, body: &Value) -> Option<String> {
    let own = read_only_document(text)?;
    edit_text(text, &difference::to_edits(difference::compute_patch(&own, body)))
}

/// A block with the identity of `body` first, and the rest of its metadata behind the name.
fn join_identity(block: &str, body: &Value) -> Option<String> {
    let own = if block.trim().is_empty() { json!({}) } else { read_only_document(block)? };
    let block = without_identity(block, &own, body)?;
    let mut identity = Map::new();
    let mut name = Map::new();
    for key in ["apiVersion", "kind"] {
        identity.insert(key.to_owned(), body.get(key)?.clone());
    }
    for key in ["name", "namespace"] {
        if let Some(value) = body.pointer(&format!("/metadata/{key}")) {
            name.insert(key.to_owned(), value.clone());
        }
    }
    let mut text = String::new();
    write_document(&Value::Object(identity), &mut text);
    let Parts { before, metadata, after } = split_metadata(&block)?;
    let step = metadata.lines().find(|line| !is_blank_or_comment(line)).map_or(2, indentation_of);
    text.push_str("metadata:\n");
    let mut names = String::new();
    write_document(&Value::Object(name), &mut names);
    for line in names.lines() {
        text.push_str(&format!("{}{line}\n", " ".repeat(step)));
    }
    text.push_str(metadata);
    text.push_str(before);
    text.push_str(after);
    Some(text)
}

/// A block without the parts that name an object, and without what `body` does not have.
fn without_identity(block: &str, own: &Value, body: &Value) -> Option<String> {
    let mut edits = Vec::new();
    for (key, value) in own.as_object()? {
        if matches!(key.as_str(), "apiVersion" | "kind") || body.get(key).is_none() {
            edits.push(ImportEdit { pointer: format!("/{key}"), value: None });
        }
        for inner in value.as_object().filter(|_| key == "metadata").into_iter().flat_map(Map::keys) {
            if matches!(inner.as_str(), "name" | "namespace")
                || body.get("metadata").and_then(|metadata| metadata.get(inner)).is_none()
            {
                edits.push(ImportEdit { pointer: format!("/metadata/{inner}"), value: None });
            }
        }
    }
    if own.as_object()?.is_empty() {
        return Some(String::new());
    }
    let all = own
        .as_object()?
        .keys()
        .all(|key| edits.iter().any(|edit| edit.pointer == format!("/{key}")) && key != "metadata");
    if all { Some(String::new()) } else { edit_text(block, &edits) }
}

/// The lines of a block around and in its metadata.
struct Parts<'b> {
    before: &'b str,
    metadata: &'b str,
    after: &'b str,
}

fn split_metadata(block: &str) -> Option<Parts<'_>> {
    let mut at = 0;
    let mut start = None;
    for line in block.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("metadata:") {
            let rest = rest.trim();
            if matches!(rest, "{}" | "null") {
                let after = block.get(at + line.len()..)?;
                return Some(Parts { before: block.get(..at)?, metadata: "", after });
            }
            if !rest.is_empty() && !rest.starts_with('#') {
                return None;
            }
            start = Some((at, at + line.len()));
        } else if let Some((before, from)) = start
            && !line.trim().is_empty()
            && indentation_of(line) == 0
        {
            let metadata = block.get(from..at)?;
            return Some(Parts { before: block.get(..before)?, metadata, after: block.get(at..)? });
        }
        at += line.len();
    }
    match start {
        Some((before, from)) => {
            Some(Parts { before: block.get(..before)?, metadata: block.get(from..)?, after: "" })
        }
        None => Some(Parts { before: block, metadata: "", after: "" }),
    }
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn indentation_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_keeps_its_comments_and_its_order() {
        let document = "\n# The shop.\nkind: FederatedDeployment\nmetadata: {name: web, namespace: shop}\nspec:\n  \
                        placement: {}\n  template: # of members\n    # Its labels.\n    metadata:\n      \
                        labels: # by team\n        app: web\n      finalizers: [a]\n    spec:\n      replicas: 2 # two\n      \
                        # why\n      paused: false\n  # below\n  overrides: []\n";
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"replicas": 2, "paused": false}});
        assert_eq!(
            OuterDocument::new(document).cut_template("/spec/template", &body),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: shop\n  labels: # by \
             team\n    app: web\n# Its labels.\nspec:\n  replicas: 2 # two\n  # why\n  paused: false\n"
        );
    }

    #[test]
    fn an_object_is_cut_out_of_a_list() {
        let document = "spec:\n  workload:\n    manifests:\n    - apiVersion: v1\n      kind: ConfigMap\n      \
                        metadata:\n        name: a\n      data: {k: v} # kept\n    - kind: Other\n";
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(
            OuterDocument::new(document).cut_template("/spec/workload/manifests/0", &body),
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {k: v} # kept\n"
        );
    }

    #[test]
    fn a_template_on_one_line_is_written_anew() {
        let document = "spec: {template: {data: {k: v}}}\n";
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(
            OuterDocument::new(document).cut_template("/spec/template", &body),
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
        );
    }
}
