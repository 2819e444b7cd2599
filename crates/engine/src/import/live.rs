//! Imports live objects into a repo: removes server-side fields, adds the dialect's labels and annotations, and
//! chooses a file for each object.
//!
//! Objects that the repo already has are changed only on request. Their files are then edited in place, with as few
//! changes as possible.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::defaults::{remove_defaults, stored_object};
use super::repo_layout::RepoLayout;
use federate_apiserver_model::ResourceKind;
use federate_dialect::import::{ImportEdit, ImportOutcome, Importer, ObjectImportOptions, apply_edits};
use federate_dialect::{Dialects, clean};
use federate_kubernetes::pointer::escape;
use federate_kubernetes::{Finding, Object, ObjectRef, Severity};
use federate_repo::{Repo, RepoFile};

/// The options for importing live objects.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The policy and the clusters for the objects.
    pub import: ObjectImportOptions,
    /// Whether fields are left out that a server would set to the same defaults again.
    pub minimal: bool,
    /// Whether objects that the repo already has are updated to the live objects.
    pub update: bool,
}

/// The result of importing live objects.
#[derive(Debug, Default)]
pub struct LiveImportResult {
    /// The imported objects, in the given order.
    pub objects: Vec<ImportedLiveObject>,
    /// The files to write, by path.
    pub files: BTreeMap<String, NewFile>,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The whole text.
    pub text: Vec<u8>,
    /// Whether the file must not exist yet.
    pub is_new: bool,
}

/// The result of importing one object.
#[derive(Clone, Debug)]
pub struct ImportedLiveObject {
    /// The object's identity in its cluster.
    pub live: ObjectRef,
    /// The edits that were made to the live object.
    pub edits: Vec<ImportEdit>,
    /// The objects for the repo: the object itself, or the objects that wrap it.
    pub made: Vec<NewObject>,
}

/// An object for the repo.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// The identity of the object.
    pub id: ObjectRef,
    /// The whole manifest.
    pub body: Value,
    /// The path of its file in the repo.
    pub file: String,
    /// The change to that file.
    pub change: FileChange,
}

/// The change that an import makes to an object in the repo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// The object gets a new file.
    Created,
    /// The object is edited in its file.
    Updated,
    /// The repo has the object with the same values.
    Unchanged,
    /// The repo has the object with other values, and keeps them.
    Kept,
}

impl FileChange {
    /// The name of the change in output.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
        }
    }
}

/// Imports live objects into a repo. `exists` returns whether a file exists, whatever it contains.
pub fn import_live(
    live: &[(Object, ResourceKind)],
    importer: &Importer,
    options: &ImportOptions,
    repo: &Repo,
    exists: &dyn Fn(&str) -> bool,
) -> LiveImportResult {
    let layout = RepoLayout::new(repo, exists);
    let mut import = LiveImport { repo, importer, layout, options, result: LiveImportResult::default() };
    for (object, kind) in live {
        import.import_object(object, kind);
    }
    import.result
}

struct LiveImport<'t> {
    repo: &'t Repo,
    importer: &'t Importer,
    layout: RepoLayout<'t>,
    options: &'t ImportOptions,
    result: LiveImportResult,
}

impl LiveImport<'_> {
    fn import_object(&mut self, live: &Object, kind: &ResourceKind) {
        let (mut object, mut edits) = clean::clean_object(live);
        if self.options.minimal {
            let defaults = remove_defaults(kind, &object.body);
            apply_edits(&defaults, &mut object.body);
            edits.extend(defaults);
        }
        let bodies = match (self.importer.import_object)(&object, &self.options.import) {
            Ok(ImportOutcome::Edits(marks)) => {
                apply_edits(&marks, &mut object.body);
                edits.extend(marks);
                vec![object.body]
            }
            Ok(ImportOutcome::Objects(made)) => made,
            Err(findings) => return self.result.findings.extend(findings),
        };
        if live.id.group().is_empty() && live.id.kind == "Secret" {
            let message = format!("the values of {} will be stored in the repo in plain text", live.id);
            let help = "everybody who can read the repo or its history can read them; consider an operator that \
                        creates the Secret from encrypted values";
            self.result.findings.push(Finding::warning("secret-in-clear", live, message).with_help(help));
        }
        let made = bodies
            .into_iter()
            .filter_map(|body| self.place_object(live, kind, federate_yaml::sort_keys(body)))
            .collect();
        self.result.objects.push(ImportedLiveObject { live: live.id.clone(), edits, made });
    }

    fn place_object(&mut self, live: &Object, kind: &ResourceKind, body: Value) -> Option<NewObject> {
        let mut text = String::new();
        federate_yaml::write_document(&body, &mut text);
        // Read the manifest as the loader will: a name that the loader refuses is refused here.
        let written = RepoFile { path: live.origin.file.clone(), bytes: text.as_bytes().into() };
        let (mut objects, refused) = federate_repo::parse_objects(&written);
        let object = objects.pop().filter(|object| refused.is_empty() && object.body == body);
        let Some(id) = object.map(|object| object.id) else {
            let why =
                refused.into_iter().next().map_or_else(|| "it is not an object".to_owned(), |f| f.message);
            let message = format!("{} cannot be written: {why}", live.id);
            self.result.findings.push(Finding::error("not-written", live, message));
            return None;
        };
        if let Some(known) = self.layout.find_object(&id) {
            return Some(self.handle_existing(known, live, kind, id, body));
        }
        match self.layout.choose_file(&id) {
            Ok(file) => {
                self.result.files.insert(file.clone(), NewFile { text: text.into_bytes(), is_new: true });
                Some(NewObject { id, body, file, change: FileChange::Created })
            }
            Err(file) => {
                let message =
                    format!("{id} would be written to {file}, but this file contains something else");
                let help = "move that file, or import the object from a file with -f";
                self.result.findings.push(Finding::error("file-exists", live, message).with_help(help));
                None
            }
        }
    }

    /// Whether an object of the repo equals the live one, except for defaults that the server sets.
    fn equal_when_stored(&self, kind: &ResourceKind, known: &Object, id: &ObjectRef, body: &Value) -> bool {
        if *id != known.id || id.kind != kind.kind {
            return false;
        }
        let (Some(known), Some(body)) = (stored_object(kind, &known.body), stored_object(kind, body)) else {
            return false;
        };
        let mut edits = Vec::new();
        collect_differences(&known, &body, "", self.options.import.dialects, &mut edits);
        edits.is_empty()
    }

    /// Handles an object that the repo already has. Fields that the control plane retains in the cluster are not
    /// differences.
    fn handle_existing(
        &mut self,
        known: &Object,
        live: &Object,
        kind: &ResourceKind,
        id: ObjectRef,
        body: Value,
    ) -> NewObject {
        let file = known.origin.file.to_string();
        let mut edits = Vec::new();
        collect_differences(&known.body, &body, "", self.options.import.dialects, &mut edits);
        if !edits.is_empty()
            && known.id == live.id
            && let Some(retained) = self.importer.retain.and_then(|retain| retain(self.repo, known, live))
        {
            edits.retain(|edit| retained.pointer(&edit.pointer) != edit.value.as_ref());
        }
        let change = if edits.is_empty() || self.equal_when_stored(kind, known, &id, &body) {
            FileChange::Unchanged
        } else if self.options.update && self.edit_in_file(known, edits) {
            FileChange::Updated
        } else {
            FileChange::Kept
        };
        if change == FileChange::Kept && !self.options.update {
            let message = format!("{id} is already in the repo, and differs from the live object");
            let help = "it stays unchanged in the repo; --update changes it to the live object";
            self.result.findings.push(Finding::warning("in-the-repo", known, message).with_help(help));
        }
        NewObject { id, body, file, change }
    }

    /// Edits an object in its file. Returns whether this is possible.
    fn edit_in_file(&mut self, known: &Object, edits: Vec<ImportEdit>) -> bool {
        let file = known.origin.file.as_ref();
        let item = known.origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
        let edits: Vec<_> = edits
            .into_iter()
            .map(|edit| federate_yaml::edit::ValueEdit {
                document: known.origin.document,
                pointer: format!("{item}{}", edit.pointer),
                value: edit.value,
            })
            .collect();
        let before = self.result.files.get(file).map(|new| new.text.as_slice());
        let before = before.or_else(|| self.repo.texts.get(file).map(AsRef::as_ref)).unwrap_or_default();
        let edited = if Path::new(file).extension().is_some_and(|e| e == "j2") {
            Err("a `.j2` template renders it, and federate does not edit templates".to_owned())
        } else {
            federate_yaml::edit::apply_edits(before, &edits).map_err(|error| error.to_string())
        };
        match edited {
            Ok(edited) => {
                if !edited.rewritten.is_empty() {
                    let message = format!("the document of {} was rewritten without its comments", known.id);
                    self.result.findings.push(Finding::warning("rewritten", known, message));
                }
                self.result.files.insert(file.to_owned(), NewFile { text: edited.text, is_new: false });
                true
            }
            Err(why) => {
                let message = format!("{} cannot be edited in {file}: {why}", known.id);
                let finding =
                    Finding::in_file(Severity::Error, "not-changed", &known.origin.file, None, message);
                self.result.findings.push(finding);
                false
            }
        }
    }
}

/// Collects the edits that change the object of the repo to the live one. Labels and annotations for control planes
/// that only the repo has stay.
fn collect_differences(
    known: &Value,
    live: &Value,
    pointer: &str,
    dialects: Dialects,
    edits: &mut Vec<ImportEdit>,
) {
    let (Value::Object(before), Value::Object(after)) = (known, live) else {
        if known != live {
            edits.push(ImportEdit { pointer: pointer.to_owned(), value: Some(live.clone()) });
        }
        return;
    };
    let is_marks = matches!(pointer, "/metadata/labels" | "/metadata/annotations");
    for (key, value) in before {
        let place = format!("{pointer}/{}", escape(key));
        match after.get(key) {
            Some(after) => collect_differences(value, after, &place, dialects, edits),
            // The labels and annotations of control planes stay.
            None if is_marks
                && key.split_once('/').is_some_and(|(domain, _)| dialects.is_own_domain(domain)) => {}
            // The mapping may contain labels or annotations that stay.
            None if value.is_object() && pointer == "/metadata" => {
                collect_differences(value, &Value::Object(serde_json::Map::new()), &place, dialects, edits);
            }
            None => edits.push(ImportEdit { pointer: place, value: None }),
        }
    }
    for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        edits.push(ImportEdit { pointer: format!("{pointer}/{}", escape(key)), value: Some(value.clone()) });
    }
}

#[cfg(test)]
mod tests;
