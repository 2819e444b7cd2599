//! Imports files with live objects: applies the dialect's rules to each object, and edits each file in place.

use serde_json::Value;

use federate_dialect::Dialects;
use federate_dialect::import::{ImportOutcome, Importer, ObjectImportOptions};
use federate_kubernetes::{Finding, Object, ObjectRef, Origin, Severity};
use federate_repo::RepoFile;
use federate_yaml::edit;

mod defaults;
#[cfg(test)]
mod fields;
pub mod live;
mod repo_layout;

/// The result of importing files.
#[derive(Debug, Default)]
pub struct FileImportResult {
    /// The files, in the given order. A file with errors contains the objects that could be imported.
    pub files: Vec<ImportedFile>,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
}

/// The result of importing one file.
#[derive(Debug)]
pub struct ImportedFile {
    /// The file's text with its objects edited in place. Unchanged if the objects become other objects.
    pub text: Vec<u8>,
    /// The objects of the file, in their order.
    pub objects: Vec<ImportedObject>,
}

/// The result of importing one object.
#[derive(Debug)]
pub struct ImportedObject {
    /// The identity of the object.
    pub object: ObjectRef,
    /// The location of the object in its source file.
    pub origin: Origin,
    /// The edits of the object, or the objects that replace it.
    pub imported: ImportOutcome,
}

/// Returns the importer of a dialect.
///
/// # Errors
///
/// The names of the dialects that have an importer, if this one does not.
pub fn find_importer(dialects: Dialects, dialect: &str) -> Result<Importer, Vec<&'static str>> {
    let importers: Vec<_> =
        dialects.iter().filter_map(|d| Some((d.name(), d.advice().importer()?))).collect();
    let names = importers.iter().map(|(name, _)| *name).collect();
    let found = importers.into_iter().find(|(name, _)| *name == dialect);
    found.map(|(_, importer)| importer).ok_or(names)
}

/// Imports all objects of some files.
pub fn import_files(
    files: &[RepoFile],
    importer: &Importer,
    options: &ObjectImportOptions,
) -> FileImportResult {
    let mut result = FileImportResult::default();
    for file in files {
        let (objects, findings) = federate_repo::parse_objects(file);
        if objects.is_empty() && findings.is_empty() {
            result.findings.push(no_objects(file));
        }
        result.findings.extend(findings);
        let mut imports = Vec::new();
        for object in objects {
            match (importer.import_object)(&object, options) {
                Ok(imported) => {
                    imports.push(ImportedObject {
                        object: object.id.clone(),
                        origin: object.origin,
                        imported,
                    });
                }
                Err(findings) => result.findings.extend(findings),
            }
        }
        let text = edit_file(file, &imports, &mut result.findings);
        result.files.push(ImportedFile { text, objects: imports });
    }
    result
}

fn no_objects(file: &RepoFile) -> Finding {
    let message = "there is no Kubernetes object in this file: no document has both apiVersion and kind";
    Finding::in_file(Severity::Error, "no-objects", &file.path, None, message)
        .with_help("pass files that `kubectl get -o yaml` printed")
}

/// Returns the file's text with its objects edited in place.
fn edit_file(file: &RepoFile, objects: &[ImportedObject], findings: &mut Vec<Finding>) -> Vec<u8> {
    let edits: Vec<edit::ValueEdit> = objects.iter().flat_map(file_edits).collect();
    match edit::apply_edits(&file.bytes, &edits) {
        Ok(edited) => {
            findings
                .extend(edited.rewritten.iter().filter_map(|index| warn_rewritten(file, objects, *index)));
            edited.text
        }
        Err(error) => {
            let message = format!("this file cannot be edited: {error}");
            findings.push(Finding::in_file(Severity::Error, "not-changed", &file.path, None, message));
            file.bytes.to_vec()
        }
    }
}

/// Returns the edits of an object as edits of its file.
fn file_edits(source: &ImportedObject) -> Vec<edit::ValueEdit> {
    let ImportOutcome::Edits(edits) = &source.imported else { return Vec::new() };
    let item = source.origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
    edits
        .iter()
        .map(|edit| edit::ValueEdit {
            document: source.origin.document,
            pointer: format!("{item}{}", edit.pointer),
            value: edit.value.clone(),
        })
        .collect()
}

fn warn_rewritten(file: &RepoFile, objects: &[ImportedObject], document: u32) -> Option<Finding> {
    let source = objects.iter().find(|source| source.origin.document == document)?;
    let message = "this document was rewritten without its comments: its style (aliases, tags, …) does not allow \
                   edits in place";
    let object = Object { id: source.object.clone(), body: Value::Null, origin: source.origin.clone() };
    let finding = Finding::warning("rewritten", &object, message);
    Some(finding.with_help(format!("compare the result with {}", file.path)))
}
