//! The Applications that Argo CD generates of an `ApplicationSet`, and those that it leaves out.

use std::collections::{BTreeMap, BTreeSet};

use federate_file_tree::{CachedTree, EntryKind, FileTree, TreeEntry, TreeError};
use federate_gitops::{
    ArgoReader, ArgoSettings, GeneratedApplications, GenerationUsage, OmissionReason, VendoredSources,
};
use federate_kubernetes::Object;
use serde_json::{Map, Value, json};

use crate::diff::compare;

/// Compares the sets of a case, with each dialect of globs that it was recorded with.
pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let files = case["files"].as_array().expect("files");
    let tree = CaseTree::new(files);
    let objects: Vec<Object> = files
        .iter()
        .filter(|file| file.get("kind").is_some())
        .map(|file| Object::from_manifest(file.clone(), "set.yaml"))
        .collect();
    for expected in case["expect"]["results"].as_array().expect("results") {
        let is_set = |object: &&Object| {
            object.id.kind == "ApplicationSet" && object.id.name == expected["object"]["name"]
        };
        let set = objects.iter().find(is_set).expect("the set of the result");
        compare(&describe_expected(expected), &generate(set, &objects, &tree, false))?;
        if let Some(globbing) = expected.get("withNewFileGlobbing") {
            compare(&describe_expected(globbing), &generate(set, &objects, &tree, true))
                .map_err(|difference| format!("with the new globbing of files:\n{difference}"))?;
        }
    }
    Ok(())
}

fn generate(set: &Object, objects: &[Object], tree: &CaseTree, new_file_globbing: bool) -> Value {
    let tree = CachedTree::new(tree);
    let mut projects = BTreeSet::new();
    collect_projects(&set.body, &mut projects);
    let settings = ArgoSettings { cluster: None, new_file_globbing, projects: Some(projects) };
    let usage = GenerationUsage::default();
    let vendored = VendoredSources::new(&tree);
    match ArgoReader::new(&tree, &[], objects, &settings, &usage, &vendored).generate_applications(set) {
        Ok(generated) => describe_generated(&generated),
        Err(error) => {
            assert!(!error.why.is_empty(), "an error has a reason");
            json!("error")
        }
    }
}

/// The projects that exist: when the cases were recorded, all whose names do not begin with `missing`.
fn collect_projects(value: &Value, projects: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if !text.starts_with("missing") => drop(projects.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| collect_projects(item, projects)),
        Value::Object(map) => map.values().for_each(|value| collect_projects(value, projects)),
        _ => {}
    }
}

fn describe_expected(expected: &Value) -> Value {
    if expected.get("error").is_some() {
        return json!("error");
    }
    json!({
        "applications": expected["applications"],
        "invalid": expected.get("invalid").cloned().unwrap_or_else(|| json!({})),
    })
}

fn describe_generated(generated: &GeneratedApplications) -> Value {
    let applications: Vec<Value> = generated.applications.iter().map(describe_application).collect();
    let invalid: Map<String, Value> = generated
        .omitted
        .iter()
        .map(|omitted| {
            let reason = match omitted.reason {
                OmissionReason::NoName => "NoName",
                OmissionReason::DuplicateName => "DuplicateName",
                OmissionReason::NoProject => "NoProject",
                OmissionReason::Destination => "Destination",
            };
            (omitted.name.clone(), reason.into())
        })
        .collect();
    json!({"applications": applications, "invalid": invalid})
}

/// An Application as it was recorded: fields of its metadata, its project, and the rest of its spec.
fn describe_application(application: &Object) -> Value {
    let mut described = Map::new();
    for key in ["name", "labels", "annotations", "finalizers"] {
        described
            .extend(application.value_at(&["metadata", key]).map(|value| (key.to_owned(), value.clone())));
    }
    let mut spec = application.body["spec"].as_object().cloned().unwrap_or_default();
    let project = spec.shift_remove("project").unwrap_or_default();
    if project != "" {
        described.insert("project".to_owned(), project);
    }
    described.insert("spec".to_owned(), spec.into());
    described.into()
}

/// The files of a case, and one for its objects.
struct CaseTree {
    files: BTreeMap<String, String>,
}

impl CaseTree {
    fn new(files: &[Value]) -> Self {
        let texts = files.iter().filter_map(|file| Some((file["path"].as_str()?, file["text"].as_str()?)));
        Self { files: texts.map(|(path, text)| (path.to_owned(), text.to_owned())).collect() }
    }
}

impl FileTree for CaseTree {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        let entries: BTreeMap<&str, EntryKind> = below
            .map(|path| match path.split_once('/') {
                Some((name, _)) => (name, EntryKind::Folder),
                None => (path, EntryKind::File),
            })
            .collect();
        Ok(entries.into_iter().map(|(name, kind)| TreeEntry { name: name.to_owned(), kind }).collect())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.files.get(path).map(|text| text.clone().into_bytes()).ok_or(TreeError::NotFound)
    }
}
