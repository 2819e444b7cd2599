//! Reads the files that a build needs, and nothing else, from a repo. What is remote, outside of the repo or behind a link is
//! refused, with its line.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use federate_gitops::VendoredSources;
use federate_repo::FileTree;
use federate_repo::build::{BuildError, BuildJob, BuildWarning, FileGeneration, InputFile, KustomizationJob};
use federate_repo::file_tree::EntryKind;

use crate::ciphertext::{find_encrypted_text, refuse_encrypted_values, remove_sops_variables};
use crate::program::Tool;

mod chart;
mod fields;
mod kustomization;
mod path;
mod schema;

pub use chart::{PackedFile, unpack_chart};
use kustomization::Kustomizations;

/// The most bytes that the files of a build may have together.
const MAX_BYTES: usize = 256 << 20;

/// The most files that a build may have.
const MAX_FILES: usize = 20_000;

/// The names of kustomizations.
pub(crate) const KUSTOMIZATION_NAMES: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The files of a build.
#[derive(Debug, Default)]
pub(crate) struct BuildInputs {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The links that were left out.
    links: BTreeSet<String>,
    pub(crate) digest: Vec<u8>,
    /// The files with their digests.
    pub(crate) listed: Arc<[InputFile]>,
    bytes: usize,
}

/// What the inputs of a job depend on: jobs with the same key have the same inputs.
pub(crate) fn key_of(job: &BuildJob) -> (Tool, &str, Vec<String>) {
    let values = match job {
        BuildJob::Kustomization(job) => vec![job.edits.clone(), format!("{:?}", job.generation)],
        BuildJob::Chart(chart) => {
            let own = if chart.replaces_values { "without" } else { "with" };
            std::iter::once(own.to_owned()).chain(chart.values.iter().cloned()).collect()
        }
    };
    (Tool::from_job(job), job.path(), values)
}

/// The files of the repo that the kustomization in a folder is built from, sorted. Fails as its build would.
pub fn list_kustomization_files(source: &dyn FileTree, folder: &str) -> Result<Vec<String>, BuildError> {
    let job = BuildJob::Kustomization(Box::new(KustomizationJob {
        folder: folder.to_owned(),
        is_unrestricted: false,
        edits: String::new(),
        generation: FileGeneration::Never,
    }));
    let inputs = BuildInputs::read_job(source, &job)?;
    Ok(inputs.listed.iter().map(|file| file.path.clone()).collect())
}

impl BuildInputs {
    /// One file.
    pub(crate) fn from_file(path: &str, bytes: &[u8]) -> Self {
        Self { files: [(path.to_owned(), bytes.to_vec())].into(), ..Self::default() }
    }

    /// Reads the files of a job.
    pub(crate) fn read_job(source: &dyn FileTree, job: &BuildJob) -> Result<Self, BuildError> {
        let mut reader = Reader {
            source,
            inputs: Self::default(),
            kustomizations: Kustomizations::default(),
            vendored: OnceCell::new(),
        };
        match job {
            BuildJob::Kustomization(job) => {
                let folder = job.folder.as_str();
                reader.generate_kustomization(folder, job.generation)?;
                reader.edit_kustomization(folder, &job.edits)?;
                reader.add_kustomization(folder)?;
            }
            BuildJob::Chart(chart) => {
                reader.add_chart(chart)?;
                refuse_encrypted_values(chart, &reader.inputs.files)?;
            }
        }
        let Reader { mut inputs, kustomizations, .. } = reader;
        let mut files: Vec<InputFile> = Vec::new();
        let mut sha = Sha256::new();
        for (path, bytes) in &inputs.files {
            let digest = Sha256::digest(bytes).into();
            sha.update((path.len() as u64).to_be_bytes());
            sha.update(path);
            sha.update(digest);
            files.push(InputFile { path: path.clone(), digest, encrypted: find_encrypted_text(path, bytes) });
        }
        files.retain(|file| !kustomizations.is_inline_patch(&file.path));
        inputs.listed = files.into();
        inputs.digest = sha.finalize().to_vec();
        remove_sops_variables(&mut inputs.files);
        Ok(inputs)
    }

    /// Warns of links that were left out.
    pub(crate) fn list_warnings(&self, job: &BuildJob) -> Vec<BuildWarning> {
        let Some(first) = self.links.first() else { return Vec::new() };
        let more = match self.links.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!("`{}` is built without the link `{first}`{more}", job.path());
        let help = "commit the file itself in place of the link".to_owned();
        vec![BuildWarning { code: "build-link", message, help, place: Some((first.clone(), 0)) }]
    }
}

/// Where a kustomization names a file.
#[derive(Clone, Debug)]
struct Reference {
    file: String,
    line: u32,
}

struct Reader<'s> {
    source: &'s dyn FileTree,
    inputs: BuildInputs,
    kustomizations: Kustomizations,
    /// What is vendored, once something is named that is remote.
    vendored: OnceCell<VendoredSources<'s>>,
}

/// The path of an entry of a folder.
fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// An error at a place.
fn refuse_build(place: Option<&Reference>, why: String, help: Option<String>) -> BuildError {
    let place = place.map(|place| (place.file.clone(), place.line));
    BuildError { code: "build-failed", why, help, place }
}

impl Reader<'_> {
    /// Whether a path is that of a file, of the repo or generated.
    fn has_file(&self, path: &str) -> bool {
        self.inputs.files.contains_key(path) || matches!(self.kind_of(path), Some(EntryKind::File))
    }

    /// Adds a kustomization that lists the files of a folder without one.
    fn generate_kustomization(&mut self, folder: &str, generation: FileGeneration) -> Result<(), BuildError> {
        if generation == FileGeneration::Never || self.has_kustomization(folder) {
            return Ok(());
        }
        let mut resources = Vec::new();
        self.list_resources(folder, "", generation, &mut resources)?;
        let kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources});
        let [name, ..] = KUSTOMIZATION_NAMES;
        self.add_bytes(join_path(folder, name), kustomization.to_string().into_bytes())
    }

    fn has_kustomization(&self, folder: &str) -> bool {
        KUSTOMIZATION_NAMES
            .iter()
            .any(|name| matches!(self.kind_of(&join_path(folder, name)), Some(EntryKind::File)))
    }

    /// Lists the resources of a generated kustomization, relative to its folder.
    fn list_resources(
        &self,
        root: &str,
        below: &str,
        generation: FileGeneration,
        resources: &mut Vec<String>,
    ) -> Result<(), BuildError> {
        let folder = [root, below].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let entries = self.source.list_folder(&folder);
        let mut entries =
            entries.map_err(|why| refuse_build(None, format!("`{folder}` cannot be listed: {why}"), None))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let extensions: &[&str] = match generation {
            FileGeneration::Tree => &["yaml", "yml"],
            _ => &["yaml", "yml", "json"],
        };
        for entry in entries.into_iter().filter(|entry| !entry.name.starts_with('.')) {
            let path = if below.is_empty() { entry.name.clone() } else { format!("{below}/{}", entry.name) };
            match entry.kind {
                EntryKind::File => {
                    let extension = entry.name.rsplit_once('.').map_or("", |(_, extension)| extension);
                    resources.extend(extensions.contains(&extension).then_some(path));
                }
                EntryKind::Folder
                    if generation == FileGeneration::Tree
                        && self.has_kustomization(&format!("{folder}/{}", entry.name)) =>
                {
                    resources.push(path);
                }
                EntryKind::Folder if generation != FileGeneration::Files => {
                    self.list_resources(root, &path, generation, resources)?;
                }
                _ => {}
            }
            if resources.len() > MAX_FILES {
                return Err(refuse_build(None, format!("`{root}` has more than {MAX_FILES} files"), None));
            }
        }
        Ok(())
    }

    /// Adds fields to the kustomization of a folder.
    fn edit_kustomization(&mut self, folder: &str, edits: &str) -> Result<(), BuildError> {
        let Ok(Value::Object(edits)) = serde_json::from_str::<Value>(edits) else { return Ok(()) };
        let paths = KUSTOMIZATION_NAMES.map(|name| join_path(folder, name));
        let Some(path) = paths.iter().find(|path| self.has_file(path)) else { return Ok(()) };
        self.add_file(path, None)?;
        let text = self.inputs.files.get(path).cloned().unwrap_or_default();
        let stream = federate_yaml::read_stream(&text);
        let mut value =
            stream.documents.into_iter().next().map(|document| document.value).unwrap_or_default();
        if value.is_null() {
            value = json!({});
        }
        let Some(fields) = value.as_object_mut().filter(|_| stream.errors.is_empty()) else { return Ok(()) };
        for (key, edit) in edits {
            edit_field(fields, &key, edit);
        }
        self.inputs.files.insert(path.clone(), value.to_string().into_bytes());
        Ok(())
    }

    /// The kind of entry at a path; `None` if there is none.
    fn kind_of(&self, path: &str) -> Option<EntryKind> {
        if path.is_empty() { Some(EntryKind::Folder) } else { federate_repo::find_entry(self.source, path) }
    }

    fn add_file(&mut self, path: &str, place: Option<&Reference>) -> Result<(), BuildError> {
        if self.inputs.files.contains_key(path) {
            return Ok(());
        }
        match self.kind_of(path) {
            Some(EntryKind::File) => {}
            Some(EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_)) => {
                let help = "commit the file itself in place of the link".to_owned();
                return Err(refuse_build(
                    place,
                    format!("`{path}` is a link, or a link leads to it"),
                    Some(help),
                ));
            }
            Some(_) => {
                return Err(refuse_build(place, format!("`{path}` is not a file that can be read"), None));
            }
            None => return Err(refuse_build(place, format!("`{path}` is not in the repo"), None)),
        }
        let bytes = self
            .source
            .read_file(path)
            .map_err(|why| refuse_build(place, format!("`{path}` cannot be read: {why}"), None))?;
        self.add_bytes(path.to_owned(), bytes)
    }

    fn add_bytes(&mut self, path: String, bytes: Vec<u8>) -> Result<(), BuildError> {
        self.inputs.bytes += bytes.len();
        self.inputs.files.insert(path, bytes);
        if self.inputs.bytes > MAX_BYTES || self.inputs.files.len() > MAX_FILES {
            let why = format!("its files are more than {MAX_FILES}, or larger than {} MiB", MAX_BYTES >> 20);
            return Err(refuse_build(None, why, None));
        }
        Ok(())
    }

    /// Adds all files of a folder. Links are left out.
    fn add_folder(&mut self, folder: &str) -> Result<(), BuildError> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = self
                .source
                .list_folder(&folder)
                .map_err(|why| refuse_build(None, format!("`{folder}` cannot be listed: {why}"), None))?;
            for entry in entries {
                let path = join_path(&folder, &entry.name);
                match entry.kind {
                    EntryKind::Folder if entry.name == ".git" => {}
                    EntryKind::Folder => folders.push(path),
                    EntryKind::File => {
                        let read = self.source.read_file(&path);
                        let bytes = read.map_err(|why| {
                            refuse_build(None, format!("`{path}` cannot be read: {why}"), None)
                        })?;
                        self.add_bytes(path, bytes)?;
                    }
                    EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_) => {
                        self.inputs.links.insert(path);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Adds a value to a field of a kustomization: items of lists by their names or at the end, fields of maps by their keys.
fn edit_field(fields: &mut Map<String, Value>, key: &str, edit: Value) {
    match (fields.get_mut(key), edit) {
        (Some(Value::Array(items)), Value::Array(added)) => {
            let is_named = matches!(key, "images" | "replicas");
            for item in added {
                let same = items.iter_mut().find(|known| is_named && known.get("name") == item.get("name"));
                match same {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
        }
        (Some(Value::Object(map)), Value::Object(added)) => map.extend(added),
        (_, edit) => drop(fields.insert(key.to_owned(), edit)),
    }
}
