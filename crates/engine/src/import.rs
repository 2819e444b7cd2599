//! Taking files of live objects in: each object by the dialect's rules, each file's text with as little
//! change as possible.

use serde_json::Value;

use federate_dialect::Dialects;
use federate_dialect::import::{self, Import, Imported, Importer};
use federate_kubernetes::{Finding, Object, ObjectRef, Origin, Severity};
use federate_repo::File;
use federate_yaml::edit;

#[cfg(test)]
mod fields;
pub mod live;
mod minimal;
mod place;

/// What became of files.
#[derive(Debug, Default)]
pub struct Taken {
    /// In the order in which they were given; of files with errors what could be done.
    pub files: Vec<TakenFile>,
    /// What went wrong or is worth knowing.
    pub findings: Vec<Finding>,
}

/// What became of one file.
#[derive(Debug)]
pub struct TakenFile {
    /// The file's text with its objects changed in place; as it was if they become other objects.
    pub text: Vec<u8>,
    /// What became of its objects, in their order.
    pub objects: Vec<TakenObject>,
}

/// What became of one object.
#[derive(Debug)]
pub struct TakenObject {
    /// The object.
    pub object: ObjectRef,
    /// Where it was written.
    pub origin: Origin,
    /// What it became.
    pub imported: Imported,
}

/// The importer of a dialect; `Err` names those that there are.
pub fn importer(dialects: Dialects, dialect: &str) -> Result<Importer, Vec<&'static str>> {
    let importers = || dialects.iter().filter_map(|d| Some((d.name(), d.importer()?)));
    let found = importers().find(|(name, _)| *name == dialect);
    found.map(|(_, importer)| importer).ok_or_else(|| importers().map(|(name, _)| name).collect())
}

/// Takes in all objects of some files.
pub fn import(files: &[File], importer: &Importer, wish: &Import) -> Taken {
    let mut taken = Taken::default();
    for file in files {
        let (objects, findings) = federate_repo::objects(file);
        if objects.is_empty() && findings.is_empty() {
            taken.findings.push(no_objects(file));
        }
        taken.findings.extend(findings);
        let mut done = Vec::new();
        for object in objects {
            match (importer.take)(&object, wish) {
                Ok(imported) => {
                    done.push(TakenObject { object: object.id.clone(), origin: object.origin, imported });
                }
                Err(findings) => taken.findings.extend(findings),
            }
        }
        let text = edited(file, &done, &mut taken.findings);
        taken.files.push(TakenFile { text, objects: done });
    }
    taken
}

fn no_objects(file: &File) -> Finding {
    let message = "there is no Kubernetes object in this file: none of its documents has apiVersion and kind";
    Finding::in_file(Severity::Error, "no-objects", &file.path, None, message)
        .help("give files that `kubectl get -o yaml` printed")
}

/// The file's text with its objects changed in place.
fn edited(file: &File, objects: &[TakenObject], findings: &mut Vec<Finding>) -> Vec<u8> {
    let edits: Vec<edit::Edit> = objects.iter().flat_map(edits).collect();
    match edit::edit(&file.bytes, &edits) {
        Ok(edited) => {
            findings.extend(edited.rewritten.iter().filter_map(|index| rewritten(file, objects, *index)));
            edited.text
        }
        Err(error) => {
            let message = format!("this file cannot be changed: {error}");
            findings.push(Finding::in_file(Severity::Error, "not-changed", &file.path, None, message));
            file.bytes.to_vec()
        }
    }
}

/// An object's edits as edits of its file.
fn edits(taken: &TakenObject) -> Vec<edit::Edit> {
    let Imported::Edits(edits) = &taken.imported else { return Vec::new() };
    let item = taken.origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
    let edit = |edit: &import::Edit| edit::Edit {
        document: taken.origin.document,
        pointer: format!("{item}{}", edit.pointer),
        value: edit.value.clone(),
    };
    edits.iter().map(edit).collect()
}

fn rewritten(file: &File, objects: &[TakenObject], document: u32) -> Option<Finding> {
    let taken = objects.iter().find(|taken| taken.origin.document == document)?;
    let message = "this document was written anew, without its comments: its style (aliases, tags, …) leaves no \
                   room for the changes";
    let object = Object { id: taken.object.clone(), body: Value::Null, origin: taken.origin.clone() };
    let finding = Finding::warning("rewritten", &object, message);
    Some(finding.help(format!("compare the result with {}", file.path)))
}
