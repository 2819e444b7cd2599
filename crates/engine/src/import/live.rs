//! Taking live objects in: cleaned, marked by the dialect's rules, each with its place in the repo.
//!
//! Nothing that the repo has is changed unless that is asked for; then what runs goes into the text that
//! is there, with as little change as possible.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::minimal::{minimal, stored};
use super::place::RepoLayout;
use federate_apiserver::Kind;
use federate_dialect::import::{Edit, Import, Imported, Importer, apply};
use federate_dialect::{Dialects, clean};
use federate_kubernetes::patch::escape;
use federate_kubernetes::{Finding, Object, ObjectRef, Severity};
use federate_repo::{File, Repo};

/// How live objects are to be taken in.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// By what, and where.
    pub import: Import,
    /// Whether what a server would fill in again is left out.
    pub minimal: bool,
    /// Whether objects that the repo has become what runs.
    pub update: bool,
}

/// What became of live objects.
#[derive(Debug, Default)]
pub struct Taken {
    /// In the order in which they were given.
    pub objects: Vec<TakenObject>,
    /// The files to be written, by their paths.
    pub files: BTreeMap<String, NewFile>,
    /// What went wrong or is worth knowing.
    pub findings: Vec<Finding>,
}

/// What a file is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// All of it.
    pub text: Vec<u8>,
    /// Whether there must be no such file yet.
    pub is_new: bool,
}

/// What became of one object.
#[derive(Clone, Debug)]
pub struct TakenObject {
    /// As it is called in its cluster.
    pub live: ObjectRef,
    /// What of the live object was left out, and what was added to it.
    pub edits: Vec<Edit>,
    /// What it became: itself, or what holds it.
    pub made: Vec<NewObject>,
}

/// An object for the repo.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// What it is called.
    pub id: ObjectRef,
    /// All of it.
    pub body: Value,
    /// Where it is written.
    pub file: String,
    /// What is done there.
    pub change: FileChange,
}

/// What is done about an object in the repo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It gets a file of its own.
    Created,
    /// It is changed where it stands.
    Updated,
    /// It says the same already.
    Unchanged,
    /// It says something else, and is left so.
    Kept,
}

impl FileChange {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
        }
    }
}

/// Takes live objects into a repo. `exists` tells whether there is a file, whatever it holds.
pub fn take(
    live: &[(Object, Kind)],
    importer: &Importer,
    wish: &ImportOptions,
    repo: &Repo,
    exists: &dyn Fn(&str) -> bool,
) -> Taken {
    let places = RepoLayout::of(repo, exists);
    let mut taking = Taking { repo, importer, places, wish, taken: Taken::default() };
    for (object, kind) in live {
        taking.take(object, kind);
    }
    taking.taken
}

struct Taking<'t> {
    repo: &'t Repo,
    importer: &'t Importer,
    places: RepoLayout<'t>,
    wish: &'t ImportOptions,
    taken: Taken,
}

impl Taking<'_> {
    fn take(&mut self, live: &Object, kind: &Kind) {
        let (mut object, mut edits) = clean::bare(live);
        if self.wish.minimal {
            let defaults = minimal(kind, &object.body);
            apply(&defaults, &mut object.body);
            edits.extend(defaults);
        }
        let bodies = match (self.importer.take)(&object, &self.wish.import) {
            Ok(Imported::Edits(marks)) => {
                apply(&marks, &mut object.body);
                edits.extend(marks);
                vec![object.body]
            }
            Ok(Imported::Objects(made)) => made,
            Err(findings) => return self.taken.findings.extend(findings),
        };
        if live.id.group().is_empty() && live.id.kind == "Secret" {
            let message = format!("the values of {} will lie in the repo in clear", live.id);
            let help = "whoever reads the repo, now or in its history, has them; a Secret that an operator makes \
                        from encrypted values does not have to be in git";
            self.taken.findings.push(Finding::warning("secret-in-clear", live, message).help(help));
        }
        let made = bodies
            .into_iter()
            .filter_map(|body| self.place(live, kind, federate_yaml::sorted(body)))
            .collect();
        self.taken.objects.push(TakenObject { live: live.id.clone(), edits, made });
    }

    fn place(&mut self, live: &Object, kind: &Kind, body: Value) -> Option<NewObject> {
        let mut text = String::new();
        federate_yaml::write(&body, &mut text);
        // What is written is what the loader will read; names that it refuses are refused here.
        let written = File { path: live.origin.file.clone(), bytes: text.as_bytes().into() };
        let (mut objects, refused) = federate_repo::objects(&written);
        let object = objects.pop().filter(|object| refused.is_empty() && object.body == body);
        let Some(id) = object.map(|object| object.id) else {
            let why = refused.into_iter().next().map_or_else(|| "it is no object".to_owned(), |f| f.message);
            let message = format!("{} cannot be written: {why}", live.id);
            self.taken.findings.push(Finding::error("not-written", live, message));
            return None;
        };
        if let Some(known) = self.places.known(&id) {
            return Some(self.known(known, live, kind, id, body));
        }
        match self.places.choose(&id) {
            Ok(file) => {
                self.taken.files.insert(file.clone(), NewFile { text: text.into_bytes(), is_new: true });
                Some(NewObject { id, body, file, change: FileChange::Created })
            }
            Err(file) => {
                let message = format!("{id} would be written to {file}, where something else is");
                let help = "move that file away, or take the object in by hand with -f";
                self.taken.findings.push(Finding::error("file-exists", live, message).help(help));
                None
            }
        }
    }

    /// Whether an object of the repo differs from what runs only by what the server fills in.
    fn agree(&self, kind: &Kind, known: &Object, id: &ObjectRef, body: &Value) -> bool {
        if *id != known.id || id.kind != kind.kind {
            return false;
        }
        let (Some(known), Some(body)) = (stored(kind, &known.body), stored(kind, body)) else { return false };
        let mut edits = Vec::new();
        differences(&known, &body, "", self.wish.import.dialects, &mut edits);
        edits.is_empty()
    }

    /// The repo has the object already. What the control plane retains in the cluster is not a difference.
    fn known(&mut self, known: &Object, live: &Object, kind: &Kind, id: ObjectRef, body: Value) -> NewObject {
        let file = known.origin.file.to_string();
        let mut edits = Vec::new();
        differences(&known.body, &body, "", self.wish.import.dialects, &mut edits);
        if !edits.is_empty()
            && known.id == live.id
            && let Some(retained) = self.importer.retain.and_then(|retain| retain(self.repo, known, live))
        {
            edits.retain(|edit| retained.pointer(&edit.pointer) != edit.value.as_ref());
        }
        let change = if edits.is_empty() || self.agree(kind, known, &id, &body) {
            FileChange::Unchanged
        } else if self.wish.update && self.edit(known, edits) {
            FileChange::Updated
        } else {
            FileChange::Kept
        };
        if change == FileChange::Kept && !self.wish.update {
            let message = format!("{id} is in the repo already, and says something else than what runs");
            let help = "it stays as it is; --update makes it what runs";
            self.taken.findings.push(Finding::warning("in-the-repo", known, message).help(help));
        }
        NewObject { id, body, file, change }
    }

    /// Changes an object where it stands.
    fn edit(&mut self, known: &Object, edits: Vec<Edit>) -> bool {
        let file = known.origin.file.as_ref();
        let item = known.origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
        let edit = |edit: Edit| federate_yaml::edit::Edit {
            document: known.origin.document,
            pointer: format!("{item}{}", edit.pointer),
            value: edit.value,
        };
        let edits: Vec<_> = edits.into_iter().map(edit).collect();
        let before = self.taken.files.get(file).map(|new| new.text.as_slice());
        let before = before.or_else(|| self.repo.texts.get(file).map(AsRef::as_ref)).unwrap_or_default();
        let edited = if Path::new(file).extension().is_some_and(|e| e == "j2") {
            Err("it is made by a template, which only a person can change".to_owned())
        } else {
            federate_yaml::edit::edit(before, &edits).map_err(|error| error.to_string())
        };
        match edited {
            Ok(edited) => {
                if !edited.rewritten.is_empty() {
                    let message = format!("{} was written anew, without its comments", known.id);
                    self.taken.findings.push(Finding::warning("rewritten", known, message));
                }
                self.taken.files.insert(file.to_owned(), NewFile { text: edited.text, is_new: false });
                true
            }
            Err(why) => {
                let message = format!("{} cannot be changed in {file}: {why}", known.id);
                let finding =
                    Finding::in_file(Severity::Error, "not-changed", &known.origin.file, None, message);
                self.taken.findings.push(finding);
                false
            }
        }
    }
}

/// What makes the object of the repo what runs. What the repo alone says to control planes, in labels and
/// annotations, stays.
fn differences(known: &Value, live: &Value, pointer: &str, dialects: Dialects, edits: &mut Vec<Edit>) {
    let (Value::Object(before), Value::Object(after)) = (known, live) else {
        if known != live {
            edits.push(Edit { pointer: pointer.to_owned(), value: Some(live.clone()) });
        }
        return;
    };
    let marks = matches!(pointer, "/metadata/labels" | "/metadata/annotations");
    let stays = |key: &str| marks && key.split_once('/').is_some_and(|(domain, _)| dialects.own(domain));
    for (key, value) in before {
        let place = format!("{pointer}/{}", escape(key));
        match after.get(key) {
            Some(after) => differences(value, after, &place, dialects, edits),
            None if stays(key) => {}
            // A mapping may hold such marks.
            None if value.is_object() && pointer == "/metadata" => {
                differences(value, &Value::Object(serde_json::Map::new()), &place, dialects, edits);
            }
            None => edits.push(Edit { pointer: place, value: None }),
        }
    }
    for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        edits.push(Edit { pointer: format!("{pointer}/{}", escape(key)), value: Some(value.clone()) });
    }
}

#[cfg(test)]
mod tests;
