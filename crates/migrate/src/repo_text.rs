//! The files of a repo with what a migration changes in them: values, whole documents, new documents and new files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::ImportEdit;
use federate_kubernetes::{ObjectRef, Origin};
use federate_repo::Repo;
use federate_yaml::edit::{self, ValueEdit};
use federate_yaml::{TextRange, read_stream, split_texts};
use rayon::prelude::*;
use serde_json::Value;

use crate::FileEdit;
use crate::error::MigrationProblem;
use crate::template_text::{self, OuterDocument};

/// The files of a repo with changes.
pub(crate) struct RepoText<'r> {
    repo: &'r Repo,
    files: BTreeMap<Arc<str>, FileChanges>,
    /// The files that were read, each once.
    parsed: BTreeMap<Arc<str>, ParsedFile>,
    moves: Vec<FileMove>,
}

/// A file that gets another path.
struct FileMove {
    from: Arc<str>,
    to: Arc<str>,
}

/// A file that was read.
#[derive(Default)]
struct ParsedFile {
    ranges: Vec<TextRange>,
    documents: BTreeMap<u32, Value>,
}

impl ParsedFile {
    fn parse(bytes: &[u8]) -> Self {
        let documents = read_stream(bytes).documents.into_iter();
        let documents = documents.map(|document| (document.index, document.value)).collect();
        Self { ranges: split_texts(bytes), documents }
    }

    /// The bytes around a document.
    fn find_range(&self, document: u32) -> Option<&TextRange> {
        let at = self.ranges.partition_point(|range| range.documents.end <= document);
        self.ranges.get(at).filter(|range| range.documents.contains(&document))
    }
}

/// What changes in a file.
#[derive(Default)]
struct FileChanges {
    /// Values of documents that stay.
    values: Vec<ValueEdit>,
    /// The texts in place of documents; none removes the document.
    documents: BTreeMap<u32, Vec<String>>,
    /// What takes the place of items of lists, by document and item; `None` removes the item.
    items: BTreeMap<u32, BTreeMap<u32, Option<Value>>>,
    /// Documents behind the others.
    added: Vec<String>,
    /// Whether nothing stays that was in it.
    is_removed: bool,
}

/// An object that is cut out of another one.
pub(crate) struct CutObject<'o> {
    /// Its place in the other object.
    pub pointer: &'o str,
    /// The object.
    pub body: &'o Value,
    /// What changes in it afterwards.
    pub edits: &'o [ImportEdit],
}

impl<'r> RepoText<'r> {
    /// The files of a repo without changes.
    pub(crate) fn new(repo: &'r Repo) -> Self {
        Self { repo, files: BTreeMap::new(), parsed: BTreeMap::new(), moves: Vec::new() }
    }

    /// Reads files, on all cores.
    pub(crate) fn read_files(&mut self, files: &BTreeSet<Arc<str>>) {
        let parse =
            |file: &Arc<str>| self.repo.texts.get(file).map(|bytes| (file.clone(), ParsedFile::parse(bytes)));
        let parsed: Vec<(Arc<str>, ParsedFile)> = files.par_iter().filter_map(parse).collect();
        self.parsed.extend(parsed);
    }

    /// Why the text of an object cannot be changed, if it cannot.
    pub(crate) fn find_obstacle(&mut self, object: &ObjectRef, origin: &Origin) -> Option<MigrationProblem> {
        let problem = |why: &'static str, help: &'static str| MigrationProblem {
            object: Some(object.clone()),
            origin: Some(origin.clone()),
            message: format!("{object} cannot be changed in its file: {why}"),
            help: help.to_owned(),
        };
        if !self.repo.texts.contains_key(&origin.file) {
            return Some(problem("its file is not in the repo", "migrate the repo that contains the file"));
        }
        if is_template_file(&origin.file) {
            return Some(problem("a template makes it", "write the object as a plain file"));
        }
        if !self.is_written(object, origin) {
            return Some(problem(
                "a build makes it out of this file",
                "write the object as a plain file, or migrate the build's output: `federate render` writes it",
            ));
        }
        None
    }

    /// Whether an object stands in its file as it is.
    fn is_written(&mut self, object: &ObjectRef, origin: &Origin) -> bool {
        let Some(document) = self.parse_file(&origin.file).documents.get(&origin.document) else {
            return false;
        };
        let value = match origin.item {
            Some(item) => document.pointer(&format!("/items/{item}")),
            None => Some(document),
        };
        let text_at = |pointer: &str| value.and_then(|value| value.pointer(pointer)?.as_str());
        text_at("/kind") == Some(&object.kind)
            && text_at("/apiVersion") == Some(&object.api_version)
            && text_at("/metadata/name") == Some(&object.name)
    }

    fn parse_file(&mut self, file: &Arc<str>) -> &ParsedFile {
        let bytes = self.repo.texts.get(file);
        self.parsed
            .entry(file.clone())
            .or_insert_with(|| bytes.map(|bytes| ParsedFile::parse(bytes)).unwrap_or_default())
    }

    /// The text around the documents of an origin.
    fn document_text(&mut self, origin: &Origin) -> Option<&'r str> {
        let range = self.parse_file(&origin.file).find_range(origin.document)?.bytes.clone();
        std::str::from_utf8(self.repo.texts.get(&origin.file)?.get(range)?).ok()
    }

    /// Changes values of an object that stays.
    pub(crate) fn edit_object(&mut self, origin: &Origin, edits: &[ImportEdit]) {
        let item = origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
        let changes = self.files.entry(origin.file.clone()).or_default();
        changes.values.extend(edits.iter().map(|edit| ValueEdit {
            document: origin.document,
            pointer: format!("{item}{}", edit.pointer),
            value: edit.value.clone(),
        }));
    }

    /// Removes an object.
    pub(crate) fn remove_object(&mut self, origin: &Origin) {
        let changes = self.files.entry(origin.file.clone()).or_default();
        match origin.item {
            Some(item) => drop(changes.items.entry(origin.document).or_default().insert(item, None)),
            None => drop(changes.documents.entry(origin.document).or_default()),
        }
    }

    /// Removes a file with everything in it.
    pub(crate) fn remove_file(&mut self, file: &Arc<str>) {
        self.files.entry(file.clone()).or_default().is_removed = true;
    }

    /// Replaces objects by objects that they contain.
    pub(crate) fn cut_objects(&mut self, cuts: &BTreeMap<&Origin, Vec<CutObject<'_>>>) {
        let texts: Vec<&str> =
            cuts.keys().map(|origin| self.document_text(origin).unwrap_or_default()).collect();
        let cuts: Vec<(&&Origin, &Vec<CutObject<'_>>)> = cuts.iter().collect();
        let written: Vec<Vec<String>> = cuts
            .par_iter()
            .zip(texts)
            .map(|((origin, objects), text)| cut_texts(origin, text, objects))
            .collect();
        for ((origin, _), texts) in cuts.into_iter().zip(written) {
            let changes = self.files.entry(origin.file.clone()).or_default();
            if let Some(item) = origin.item {
                let mut values = texts.iter().filter_map(|text| read_first_document(text));
                changes.items.entry(origin.document).or_default().insert(item, values.next());
                changes.added.extend(texts.into_iter().skip(1));
            } else {
                changes.documents.entry(origin.document).or_default().extend(texts);
            }
        }
    }

    /// Adds a document to a file, which need not exist.
    pub(crate) fn add_document(&mut self, file: &Arc<str>, value: &Value) {
        let mut text = String::new();
        federate_yaml::write_document(value, &mut text);
        self.files.entry(file.clone()).or_default().added.push(text);
    }

    /// Adds documents in the place of an object.
    pub(crate) fn replace_object(&mut self, origin: &Origin, value: &Value) {
        let changes = self.files.entry(origin.file.clone()).or_default();
        if let Some(item) = origin.item {
            changes.items.entry(origin.document).or_default().insert(item, Some(value.clone()));
            return;
        }
        let mut text = String::new();
        federate_yaml::write_document(value, &mut text);
        changes.documents.entry(origin.document).or_default().push(text);
    }

    /// Whether a file takes further documents.
    pub(crate) fn accepts_documents(&self, file: &str) -> bool {
        let is_yaml = matches!(file.rsplit_once('.'), Some((_, "yaml" | "yml")));
        let text = self.repo.texts.get(file).and_then(|text| std::str::from_utf8(text).ok());
        is_yaml && !self.repo.build_inputs.contains(file) && text.is_none_or(|text| !is_json_text(text))
    }

    /// Moves the objects of a file to another one.
    pub(crate) fn move_file(&mut self, from: &Arc<str>, to: Arc<str>) {
        self.moves.push(FileMove { from: from.clone(), to });
    }

    /// The value of the first document of a file.
    pub(crate) fn first_document(&mut self, file: &Arc<str>) -> Option<&Value> {
        self.parse_file(file).documents.values().next()
    }

    /// Whether a file exists, or is written.
    pub(crate) fn has_file(&self, file: &str) -> bool {
        self.repo.texts.contains_key(file) || self.files.contains_key(file)
    }

    /// Whether the repo has files in a folder.
    pub(crate) fn has_folder(&self, folder: &str) -> bool {
        let mut files = self.repo.texts.keys();
        files.any(|file| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// The edits of all files, sorted by path. A file of which nothing is left is deleted.
    pub(crate) fn into_edits(self) -> Result<Vec<FileEdit>, Vec<MigrationProblem>> {
        let (mut edits, mut problems): (Vec<FileEdit>, Vec<MigrationProblem>) = (Vec::new(), Vec::new());
        let changed: Vec<_> = self
            .files
            .into_par_iter()
            .map(|(path, changes)| {
                let content = changes.apply_to(self.repo.texts.get(&path).map(AsRef::as_ref));
                (path, content)
            })
            .collect();
        for (path, content) in changed {
            match content {
                Ok(content) => {
                    if content.as_deref() != self.repo.texts.get(&path).map(AsRef::as_ref) {
                        edits.push(FileEdit { path, content: content.map(Into::into) });
                    }
                }
                Err(why) => problems.push(MigrationProblem {
                    object: None,
                    origin: Some(Origin { file: path, document: 0, item: None, line: 0 }),
                    message: format!("the file cannot be edited: {why}"),
                    help: "write it in block style, without aliases and tags".to_owned(),
                }),
            }
        }
        let mut by_path: BTreeMap<Arc<str>, Option<Arc<[u8]>>> =
            edits.into_iter().map(|edit| (edit.path, edit.content)).collect();
        for FileMove { from, to } in self.moves {
            let content = match by_path.insert(from.clone(), None) {
                Some(content) => content,
                None => self.repo.texts.get(&from).cloned(),
            };
            by_path.extend(content.map(|content| (to, Some(content))));
        }
        let edits = by_path.into_iter().map(|(path, content)| FileEdit { path, content }).collect();
        if problems.is_empty() { Ok(edits) } else { Err(problems) }
    }
}

/// The texts of objects that are cut out of a document.
fn cut_texts(origin: &Origin, text: &str, objects: &[CutObject<'_>]) -> Vec<String> {
    let item = origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
    let is_json = is_json_text(text);
    let outer = OuterDocument::new(text);
    let mut texts: Vec<String> = Vec::with_capacity(objects.len());
    for object in objects {
        let cut = if is_json {
            let mut written = String::new();
            federate_yaml::write_document(object.body, &mut written);
            written
        } else {
            outer.cut_template(&format!("{item}{}", object.pointer), object.body)
        };
        texts.push(template_text::edit_text(&cut, object.edits).unwrap_or(cut));
    }
    if let Some(first) = texts.first_mut().filter(|_| origin.item.is_none() && !is_json) {
        first.insert_str(0, outer.comments());
    }
    texts
}

/// Whether a file is rendered for each cluster.
pub(crate) fn is_template_file(file: &str) -> bool {
    matches!(file.rsplit_once('.'), Some((_, "j2")))
}

fn is_json_text(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

fn read_first_document(text: &str) -> Option<Value> {
    read_stream(text.as_bytes()).documents.into_iter().next().map(|document| document.value)
}

impl FileChanges {
    /// The file after the changes; `None` if nothing is left.
    fn apply_to(mut self, bytes: Option<&[u8]>) -> Result<Option<Vec<u8>>, edit::Error> {
        if self.is_removed {
            return Ok(None);
        }
        let bytes = bytes.unwrap_or_default();
        self.change_items(bytes);
        let gone = std::mem::take(&mut self.values);
        let kept: Vec<ValueEdit> =
            gone.into_iter().filter(|edit| !self.documents.contains_key(&edit.document)).collect();
        let edited = edit::apply_edits(bytes, &kept)?.text;
        if self.documents.is_empty() && self.added.is_empty() {
            return Ok(Some(edited));
        }
        let ranges = split_texts(&edited);
        let first = ranges.first().map_or(0, |range| range.bytes.start);
        let start = edited.get(..first).unwrap_or_default().to_vec();
        let mut texts: Vec<String> = Vec::new();
        for range in ranges {
            let text = String::from_utf8_lossy(edited.get(range.bytes.clone()).unwrap_or_default());
            if !self.documents.keys().any(|document| range.documents.contains(document)) {
                texts.push(text.into_owned());
            } else if is_json_text(&text) {
                texts.extend(self.rewrite_json(&text, range.documents));
            } else {
                texts.extend(
                    range.documents.filter_map(|document| self.documents.remove(&document)).flatten(),
                );
            }
        }
        texts.extend(self.added);
        if texts.iter().all(|text| read_stream(text.as_bytes()).documents.is_empty()) {
            return Ok(None);
        }
        texts.retain(|text| !text.trim().is_empty());
        for text in &mut texts {
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        let mut content = start;
        content.extend_from_slice(texts.join("---\n").as_bytes());
        Ok(Some(content))
    }

    /// Turns changes of items of lists into edits of values. A list without items is removed.
    fn change_items(&mut self, bytes: &[u8]) {
        if self.items.is_empty() {
            return;
        }
        let stream = read_stream(bytes);
        for (document, items) in std::mem::take(&mut self.items) {
            let value = stream.documents.iter().find(|found| found.index == document).map(|d| &d.value);
            let count = value.and_then(|value| value.get("items")?.as_array()).map_or(0, Vec::len);
            if items.values().filter(|item| item.is_none()).count() == count {
                self.documents.entry(document).or_default();
                continue;
            }
            self.values.extend(items.into_iter().map(|(item, value)| ValueEdit {
                document,
                pointer: format!("/items/{item}"),
                value,
            }));
        }
    }

    /// The text of JSON documents of which some are replaced.
    fn rewrite_json(&mut self, text: &str, indices: std::ops::Range<u32>) -> Vec<String> {
        let stream = read_stream(text.as_bytes());
        let first = indices.start;
        let mut json = String::new();
        for index in indices {
            if let Some(texts) = self.documents.remove(&index) {
                for value in texts.iter().filter_map(|text| read_first_document(text)) {
                    json.push_str(&format!("{value:#}\n"));
                }
            } else {
                let own = stream.documents.iter().find(|document| document.index == index - first);
                json.extend(own.map(|document| format!("{:#}\n", document.value)));
            }
        }
        vec![json]
    }
}

/// Folders that contain all of these files; empty for the repo's root.
pub(crate) fn common_folder(files: &BTreeSet<Arc<str>>) -> String {
    let mut folders = files.iter().map(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder));
    let Some(first) = folders.next() else { return String::new() };
    let mut common: Vec<&str> = first.split('/').filter(|step| !step.is_empty()).collect();
    for folder in folders {
        let same = common.iter().zip(folder.split('/')).take_while(|(a, b)| *a == b).count();
        common.truncate(same);
    }
    common.join("/")
}
