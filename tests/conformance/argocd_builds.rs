//! What Argo CD builds of an `Application`, and Flux of a `Kustomization` or a `HelmRelease`: files in memory are read and built as for
//! every command, with the programs of this machine. Where `helm` or `kustomize` is missing, the cases cannot be run.
//!
//! Tests of charts are not compared: they are in the output of Helm, but neither controller applies them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use federate_builder::{BuildCache, Confiner, ProgramBuilder, ProgramPaths};
use federate_kubernetes::ObjectRef;
use federate_repo::file_tree::{EntryKind, FileTree, TreeEntry, TreeError};
use federate_repo::{Builds, ReadOptions, Role, build_sources, read_files};
use serde_json::Value;

use crate::diff::compare;

/// The file with the objects of a case.
const OBJECTS: &str = "objects.yaml";

/// The files of a case.
struct CaseFiles(BTreeMap<String, String>);

impl FileTree for CaseFiles {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut entries: BTreeMap<String, EntryKind> = BTreeMap::new();
        for path in self.0.keys().filter_map(|path| path.strip_prefix(&below)) {
            match path.split_once('/') {
                Some((folder, _)) => entries.insert(folder.to_owned(), EntryKind::Folder),
                None => entries.insert(path.to_owned(), EntryKind::File),
            };
        }
        if entries.is_empty() && !folder.is_empty() {
            return Err(TreeError::NotFound);
        }
        Ok(entries.into_iter().map(|(name, kind)| TreeEntry { name, kind }).collect())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or(TreeError::NotFound)
    }
}

/// Compares what is built with the recorded results.
pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let mut files = BTreeMap::new();
    let mut objects = String::new();
    for file in case["files"].as_array().ok_or("no files")? {
        match (file["path"].as_str(), file["text"].as_str()) {
            (Some(path), Some(text)) => drop(files.insert(path.to_owned(), text.to_owned())),
            _ => objects += &format!("---\n{file}\n"),
        }
    }
    // The objects are read beside the files, but are not among those that are built.
    let tree = CaseFiles(files.clone());
    let kind = if objects.contains("argoproj.io/") { "argocd" } else { "flux" };
    files.insert(OBJECTS.to_owned(), objects);
    files.insert("federate.yaml".to_owned(), format!("sources: [{{{kind}: {OBJECTS}}}]\n"));
    let no_role = |_: &str, _: &str| -> Option<(&'static str, Role)> { None };
    let repo = read_files(&CaseFiles(files), &ReadOptions::default());
    let builds = build_sources(&repo, &tree, builder()?, &no_role, &|_| Vec::new(), &|_, _| None);
    for result in case["expect"]["results"].as_array().ok_or("no results")? {
        compare_result(result, &builds)?;
    }
    Ok(())
}

/// What of the programs that build PATH lacks.
pub(crate) fn find_missing_program() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_program = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let missing = [&["helm"][..], &["kustomize", "kubectl"]]
        .into_iter()
        .find(|names| !names.iter().any(has_program))?;
    Some(format!("PATH has no {}", missing.join(" or ")))
}

/// The programs of this machine. Nothing is kept from run to run. The error names a program that is missing.
fn builder() -> Result<&'static ProgramBuilder, String> {
    static BUILDER: OnceLock<Result<ProgramBuilder, String>> = OnceLock::new();
    let builder = BUILDER.get_or_init(|| {
        let folders = std::env::var_os("PATH").map(|paths| std::env::split_paths(&paths).collect());
        let paths = ProgramPaths { folders: folders.unwrap_or_default(), ..ProgramPaths::default() };
        match find_missing_program() {
            Some(missing) => Err(format!("the case cannot be run: {missing}")),
            None => Ok(ProgramBuilder::new(paths, BuildCache::in_memory(), Confiner::default())),
        }
    });
    builder.as_ref().map_err(Clone::clone)
}

fn compare_result(result: &Value, builds: &Builds) -> Result<(), String> {
    let (kind, name) = (&result["object"]["kind"], &result["object"]["name"]);
    let is_same = |found: &ObjectRef| *kind == *found.kind && *name == *found.name;
    let errors = builds.findings().iter().filter(|finding| finding.is_error());
    let errors: Vec<&str> = errors
        .filter(|finding| finding.object.as_ref().is_none_or(is_same))
        .map(|finding| finding.message.as_str())
        .collect();
    let sources = match result["sources"].as_array() {
        Some(sources) => sources.clone(),
        None => vec![result.clone()],
    };
    if let Some(failed) = sources.iter().find(|source| !source["error"].is_null()) {
        return if errors.is_empty() {
            Err(format!("built, but upstream fails: {}", failed["error"]))
        } else {
            Ok(())
        };
    }
    if !errors.is_empty() {
        return Err(format!("not built: {}", errors.join("\n")));
    }
    let mut expected = BTreeMap::new();
    for manifest in sources.iter().flat_map(|source| source["manifests"].as_array().into_iter().flatten()) {
        if !is_test(manifest) {
            expected.insert(identity_of(manifest), manifest.clone());
        }
    }
    let built = builds.list_objects();
    let built = built.iter().filter(|built| built.described_by.is_some_and(is_same));
    let found: BTreeMap<String, Value> = built
        .flat_map(|built| built.objects)
        .map(|object| (identity_of(&object.body), object.body.clone()))
        .collect();
    compare(&Value::Array(expected.into_values().collect()), &Value::Array(found.into_values().collect()))
}

/// Whether Helm runs an object only as a test.
fn is_test(manifest: &Value) -> bool {
    manifest["metadata"]["annotations"]["helm.sh/hook"]
        .as_str()
        .is_some_and(|hooks| hooks.starts_with("test"))
}

fn identity_of(manifest: &Value) -> String {
    let metadata = &manifest["metadata"];
    let parts = [
        &manifest["apiVersion"],
        &manifest["kind"],
        &metadata["namespace"],
        &metadata["name"],
        &metadata["generateName"],
    ];
    parts.map(Value::to_string).join(" ")
}
