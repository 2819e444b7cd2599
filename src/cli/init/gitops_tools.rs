//! Whether another tool reads the folder into which `federate init` writes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::NewFile;
use federate_dialects::DIALECTS;
use federate_kubernetes::Object;
use federate_repo::{ReadOptions, load_repo};
use federate_source::WorkTree;
use federate_source::git::GitLocation;

/// The files by which a folder is one of kustomize, or of Helm.
const TOOL_FILES: [(&str, &str); 4] = [
    ("kustomization.yaml", "kustomize"),
    ("kustomization.yml", "kustomize"),
    ("Kustomization", "kustomize"),
    ("Chart.yaml", "Helm"),
];

/// What tools do with the new files of the repo, one sentence for each tool.
pub(super) fn collect_notes(repo: &Path, new: &[NewFile]) -> Vec<String> {
    let names: Vec<String> =
        new.iter().filter_map(|file| Some(file.path.file_name()?.to_string_lossy().into_owned())).collect();
    let Some(folder) = new.first().and_then(|file| file.path.parent()) else { return Vec::new() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut notes = Vec::new();
    notes.extend(built_by(folder, &names));
    notes.extend(applied_by(repo, folder, &names));
    notes
}

/// The note about the nearest folder around the files that kustomize or Helm builds.
fn built_by(folder: &Path, names: &[String]) -> Option<String> {
    let location = GitLocation::discover_around(folder).ok().and_then(|location| location.work_tree);
    let folder = std::fs::canonicalize(folder).ok()?;
    // Outside of git, only the folder itself.
    let last = location.unwrap_or_else(|| folder.clone());
    let around = folder.ancestors().take_while(|parent| parent.starts_with(&last));
    let mut marks = around.flat_map(|parent| TOOL_FILES.map(|(mark, tool)| (parent.join(mark), tool)));
    let (mark, tool) = marks.find(|(mark, _)| mark.is_file())?;
    let mark = relative_path(&mark);
    Some(format!(
        "{tool} builds the folder of {mark}: keep {} out of what it builds (they are read by federate anyway)",
        names.join(", ")
    ))
}

/// A path relative to the current folder, where it is below it.
fn relative_path(path: &Path) -> String {
    let here = std::env::current_dir().and_then(std::fs::canonicalize).unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

/// A folder that a tool applies to a cluster.
struct AppliedFolder {
    /// The object that says so.
    by: String,
    /// The folder, from the root of the git repository.
    folder: String,
    is_flux: bool,
}

/// The notes about objects of Flux and Argo CD in the git repository whose folder contains the files.
fn applied_by(repo: &Path, folder: &Path, names: &[String]) -> Vec<String> {
    let location = GitLocation::discover_around(folder).ok();
    let (root, prefix) = match location.and_then(|location| Some((location.work_tree?, location.prefix))) {
        Some((root, prefix)) => (root, prefix),
        None => (PathBuf::from(repo), String::new()),
    };
    let Ok(tree) = WorkTree::open(&root) else { return Vec::new() };
    let loaded = load_repo(&tree, &ReadOptions::default(), &DIALECTS);
    let objects = loaded.repo.templates.iter().map(|template| &template.object);
    objects
        .flat_map(applied_folders)
        .filter(|applied| {
            let rest = prefix.strip_prefix(applied.folder.as_str());
            applied.folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
        .map(|applied| {
            let from =
                prefix.strip_prefix(applied.folder.as_str()).unwrap_or_default().trim_start_matches('/');
            let paths: Vec<String> = names
                .iter()
                .map(|name| if from.is_empty() { name.clone() } else { format!("{from}/{name}") })
                .collect();
            let how = if applied.is_flux {
                let lines: Vec<String> =
                    names.iter().map(|name| format!("/{}", join_path(&prefix, name))).collect();
                format!("list {} in .sourceignore at the root of the repository", lines.join(", "))
            } else {
                format!("set `spec.source.directory.exclude: '{{{}}}'` in it", paths.join(","))
            };
            format!("{} applies this folder to a cluster, with {}: {how}", applied.by, names.join(", "))
        })
        .collect()
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{}/{name}", folder.trim_end_matches('/')) }
}

/// The folders that an object lets a tool apply.
fn applied_folders(object: &Object) -> Vec<AppliedFolder> {
    let is_flux = object.id.group() == "kustomize.toolkit.fluxcd.io" && object.id.kind == "Kustomization";
    let is_argo = object.id.group() == "argoproj.io";
    let spec = object.body.get("spec");
    let paths: Vec<&Value> = match object.id.kind.as_str() {
        _ if is_flux => spec.and_then(|spec| spec.get("path")).into_iter().collect(),
        "Application" if is_argo => spec.map(source_paths).unwrap_or_default(),
        "ApplicationSet" if is_argo => {
            spec.and_then(|spec| spec.pointer("/template/spec")).map(source_paths).unwrap_or_default()
        }
        _ => return Vec::new(),
    };
    // Flux applies the root where no path is given.
    let root = (is_flux && paths.is_empty()).then_some("");
    let paths = paths.into_iter().filter_map(Value::as_str).filter(|path| !path.contains("{{")).chain(root);
    let by = format!("{} ({}:{})", object.id, object.origin.file, object.origin.line);
    paths
        .filter_map(|path| federate_repo::normalize_path(path.trim_start_matches('/')).ok())
        .map(|folder| AppliedFolder { by: by.clone(), folder, is_flux })
        .collect()
}

/// The paths of the sources of an Application.
fn source_paths(spec: &Value) -> Vec<&Value> {
    let several = spec.get("sources").and_then(Value::as_array).into_iter().flatten();
    spec.get("source").into_iter().chain(several).filter_map(|source| source.get("path")).collect()
}
