//! Reads the files that a build needs, and nothing else, from a repo. What is remote, outside of the repo or behind a link is
//! refused, with its line.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use federate_gitops::VendoredSources;
use federate_repo::FileTree;
use federate_repo::build::{BuildError, BuildJob, BuildWarning, ChartParameter, InputFile, KustomizationJob};
use federate_repo::file_tree::EntryKind;

use crate::ciphertext::{find_encrypted_text, refuse_encrypted_values, remove_sops_variables};
use crate::program::Tool;

mod chart;
mod edits;
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
    /// Whether the kustomization asks for the origins of objects itself.
    pub(crate) keeps_origins: bool,
    bytes: usize,
}

/// What the inputs of a job depend on: jobs with the same key have the same inputs.
pub(crate) fn key_of(job: &BuildJob) -> (Tool, &str, Vec<String>) {
    let values = match job {
        BuildJob::Kustomization(job) => vec![job.edits.clone(), format!("{:?}", job.rules)],
        BuildJob::Chart(chart) => {
            let own = if chart.replaces_values { "without" } else { "with" };
            let of_parameters = chart.parameters.iter().filter_map(|parameter| match parameter {
                ChartParameter::File { name, file } => Some(format!("{name}={file}")),
                ChartParameter::Typed(_) | ChartParameter::Text(_) => None,
            });
            let values = chart.values.iter().cloned();
            std::iter::once(own.to_owned()).chain(values).chain(of_parameters).collect()
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
        rules: federate_repo::build::KustomizationRules::Kustomize,
    }));
    let inputs = BuildInputs::read_job(source, &job)?;
    Ok(inputs.listed.iter().map(|file| file.path.clone()).collect())
}

impl BuildInputs {
    /// One file.
    pub(crate) fn from_file(path: &str, bytes: &[u8]) -> Self {
        Self { files: [(path.to_owned(), bytes.to_vec())].into(), ..Self::default() }
    }

    /// Files that are none of the repo.
    pub(crate) fn from_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { files, ..Self::default() }
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
                reader.prepare_kustomization(folder, job)?;
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
