//! Whether another tool reads the folder into which `federate init` writes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::NewFile;
use federate_dialects::DIALECTS;
use federate_kubernetes::Object;
use federate_repo::source_ignore::{DEFAULT_PATTERNS, SOURCE_IGNORE_FILE};
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

/// The file that keeps the new files of the repo out of what Flux builds; `None` if Flux builds none of them, if the repo is not the
/// root of its git repository, or if there is such a file already, which is not changed.
pub(super) fn draft_source_ignore(repo: &Path, new: &[NewFile]) -> Option<NewFile> {
    let (names, folder) = list_names(new)?;
    let (root, prefix) = find_root(repo, folder);
    let is_root = std::fs::canonicalize(repo).ok() == std::fs::canonicalize(&root).ok();
    let path = if repo == Path::new(".") { PathBuf::new() } else { repo.to_owned() };
    let path = path.join(SOURCE_IGNORE_FILE);
    let is_built = || list_applied(&root, &prefix).iter().any(|applied| applied.is_flux);
    if !is_root || std::fs::symlink_metadata(&path).is_ok() || !is_built() {
        return None;
    }
    let own = names.iter().map(|name| format!("/{}", join_path(&prefix, name)));
    let mut text = "# What federate reads, and no cluster:\n".to_owned();
    own.for_each(|line| text.push_str(&format!("{line}\n")));
    text.push_str("# What Flux leaves out where there is no such file:\n");
    for line in DEFAULT_PATTERNS {
        text.push_str(line);
        text.push('\n');
    }
    let what = "keeps these files out of what Flux applies".to_owned();
    Some(NewFile { path, what, text })
}

/// The names of the new files, and the folder in which they are.
fn list_names(new: &[NewFile]) -> Option<(Vec<String>, &Path)> {
    let folder = new.first()?.path.parent()?;
    let names = new.iter().filter_map(|file| Some(file.path.file_name()?.to_string_lossy().into_owned()));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    Some((names.collect(), folder))
}

/// What tools do with the new files of the repo, one sentence for each tool. Flux leaves them out if a file was written for it.
pub(super) fn collect_notes(repo: &Path, new: &[NewFile], flux_ignores: bool) -> Vec<String> {
    let Some((names, folder)) = list_names(new) else { return Vec::new() };
    let (root, prefix) = find_root(repo, folder);
    let mut notes = Vec::new();
    notes.extend(built_by(folder, &names));
    let applied = list_applied(&root, &prefix).into_iter();
    notes.extend(
        applied
            .filter(|applied| !(applied.is_flux && flux_ignores))
            .map(|applied| applied.describe(&prefix, &names)),
    );
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

/// The root of the git repository around a folder, and the path of the folder below it.
fn find_root(repo: &Path, folder: &Path) -> (PathBuf, String) {
    let location = GitLocation::discover_around(folder).ok();
    match location.and_then(|location| Some((location.work_tree?, location.prefix))) {
        Some((root, prefix)) => (root, prefix),
        None => (PathBuf::from(repo), String::new()),
    }
}

/// The folders that objects of Flux and Argo CD in the git repository apply, if they contain the folder below its root.
fn list_applied(root: &Path, prefix: &str) -> Vec<AppliedFolder> {
    let Ok(tree) = WorkTree::open(root) else { return Vec::new() };
    let loaded = load_repo(&tree, &ReadOptions::default(), &DIALECTS);
    let objects = loaded.repo.templates.iter().map(|template| &template.object);
    let contains = |applied: &AppliedFolder| {
        let rest = prefix.strip_prefix(applied.folder.as_str());
        applied.folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    objects.flat_map(applied_folders).filter(contains).collect()
}

impl AppliedFolder {
    /// What is applied with the files in a folder, and how to keep them out of it.
    fn describe(&self, prefix: &str, names: &[String]) -> String {
        let from = prefix.strip_prefix(self.folder.as_str()).unwrap_or_default().trim_start_matches('/');
        let how = if self.is_flux {
            let lines: Vec<String> =
                names.iter().map(|name| format!("/{}", join_path(prefix, name))).collect();
            format!("list {} in {SOURCE_IGNORE_FILE} at the root of the repository", lines.join(", "))
        } else {
            let paths: Vec<String> = names.iter().map(|name| join_path(from, name)).collect();
            format!("set `spec.source.directory.exclude: '{{{}}}'` in it", paths.join(","))
        };
        format!("{} applies this folder to a cluster, with {}: {how}", self.by, names.join(", "))
    }
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
