//! The results of KubeFed's own command: federated objects (`federate`) and federated types (`enable`), in the
//! order of the objects.

use federate_dialect::import::{ImportOutcome, ObjectImportOptions};
use federate_engine::import::{find_importer, import_files};
use federate_repo::RepoFile;
use serde_json::{Value, json};

use crate::diff::compare;

pub(crate) fn federate(case: &Value) -> Result<(), String> {
    verify(case, &ObjectImportOptions::default())
}

pub(crate) fn enable(case: &Value) -> Result<(), String> {
    verify(case, &ObjectImportOptions { enable: true, ..ObjectImportOptions::default() })
}

fn verify(case: &Value, options: &ObjectImportOptions) -> Result<(), String> {
    let objects = case["files"].as_array().expect("a list");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let file = RepoFile { path: "objects.json".into(), bytes: list.into_bytes().into() };
    let importer =
        find_importer(federate_dialects::DIALECTS, "kubefed").map_err(|known| format!("only {known:?}"))?;
    let taken = import_files(&[file], &importer, options);
    let messages: Vec<&str> = taken.findings.iter().map(|f| f.message.as_str()).collect();
    if !messages.is_empty() {
        return Err(messages.join("\n"));
    }
    let made =
        taken.files.into_iter().flat_map(|file| file.objects).flat_map(|object| match object.imported {
            ImportOutcome::Objects(made) => made,
            ImportOutcome::Edits(_) => Vec::new(),
        });
    compare(&case["expect"], &json!({"manifests": {"hub": made.collect::<Vec<_>>()}}))
}
