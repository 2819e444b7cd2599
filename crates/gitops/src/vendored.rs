//! What is vendored: copies of remote charts and bases in the repo, with a lock file that says where they come from.
//!
//! A build never fetches. What names a remote chart or base is built from the copy that `federate vendor` has made, if the lock file
//! has it of that repository for that range of versions or revision, and the copy has the digest that the lock file states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use federate_file_tree::{EntryKind, FileTree, find_entry, is_folder, join_path, normalize_path};
use federate_kubernetes::hex::to_hex;

use crate::description::DescriptionError;
use crate::remote_reference::RemoteReference;

/// The folder of what is vendored.
pub const VENDOR_FOLDER: &str = "vendor";

/// The lock file.
pub const LOCK_PATH: &str = "vendor/federate.lock.yaml";

/// The command that vendors, as help.
pub const VENDOR_HELP: &str = "run `federate vendor`, and commit the folder `vendor`";

/// The most files of a vendored folder.
const MAX_FILES: usize = 20_000;

/// The most bytes of a vendored folder.
const MAX_BYTES: usize = 256 << 20;

/// The lock file of `federate vendor`: what is vendored, from where, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VendorLock {
    /// `federate.dev/v1alpha1`
    pub api_version: LockApiVersion,
    /// `VendorLock`
    pub kind: LockKind,
    /// The charts, by name, repository and requested version.
    #[serde(default)]
    pub charts: Vec<LockedSource>,
    /// The bases of kustomizations, in the same order.
    #[serde(default)]
    pub bases: Vec<LockedSource>,
}

/// The API version of lock files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LockApiVersion {
    /// The only one.
    #[default]
    #[serde(rename = "federate.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of lock files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LockKind {
    /// The only one.
    #[default]
    VendorLock,
}

/// A chart or a base that is vendored. Charts of one repository with the same version share a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedSource {
    /// The name of the chart, or that of the git repository.
    pub name: String,
    /// The address of its repository, without credentials.
    pub repository: String,
    /// The folder of a base in its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The range of versions, or the revision, that is asked for.
    pub requested: String,
    /// The version in the repo; of a base, the commit.
    pub version: String,
    /// The folder with the copy, from the root of the repo.
    pub path: String,
    /// The digest of the folder: that of the lines that `sha256sum` prints for its files, sorted by their paths in the folder.
    pub digest: String,
    /// The digest of the packaged chart as it was downloaded; of a base, the commit.
    pub archive: String,
    /// The objects and files that ask for it.
    pub used_by: Vec<String>,
}

impl Default for VendorLock {
    fn default() -> Self {
        Self {
            api_version: LockApiVersion::V1Alpha1,
            kind: LockKind::VendorLock,
            charts: Vec::new(),
            bases: Vec::new(),
        }
    }
}

impl VendorLock {
    /// Reads the lock file of a repo; an empty one if there is none. The error is the end of a sentence about the file.
    pub fn read_tree(tree: &dyn FileTree) -> Result<Self, String> {
        match find_entry(tree, LOCK_PATH) {
            None => return Ok(Self::default()),
            Some(EntryKind::File) => {}
            Some(_) => return Err("is not a file".to_owned()),
        }
        let text = tree.read_file(LOCK_PATH).map_err(|why| format!("cannot be read: {why}"))?;
        let stream = federate_yaml::read_stream(&text);
        if let Some(error) = stream.errors.first() {
            return Err(format!("is not YAML: {error}"));
        }
        let document = stream.documents.into_iter().next().map(|document| document.value);
        serde_json::from_value(document.unwrap_or_default()).map_err(|why| format!("is not valid: {why}"))
    }

    /// The entry of a chart or a base.
    pub fn find_source(&self, reference: &RemoteReference) -> Option<&LockedSource> {
        self.list_sources().find(|source| source.to_reference() == *reference)
    }

    /// All entries.
    pub fn list_sources(&self) -> impl Iterator<Item = &LockedSource> {
        self.charts.iter().chain(&self.bases)
    }
}

impl LockedSource {
    /// What was asked for.
    pub fn to_reference(&self) -> RemoteReference {
        RemoteReference {
            repository: self.repository.clone(),
            name: self.name.clone(),
            version: self.requested.clone(),
            folder: self.folder.clone(),
        }
    }

    /// What it is, in messages.
    fn describe(&self) -> String {
        let kind = if self.folder.is_some() { "base" } else { "chart" };
        format!("the vendored {kind} `{}`", self.path.escape_debug())
    }

    /// Says what is wrong about the copy in the repo, as a sentence without its first capital and its last full stop.
    pub fn find_problem(&self, tree: &dyn FileTree) -> Option<String> {
        let (folder, what) = (&self.path, self.describe());
        if normalize_path(folder).as_ref() != Ok(folder) || !is_folder(tree, folder) {
            return Some(format!("{what} is missing"));
        }
        match compute_folder_digest(tree, folder) {
            Ok(digest) if digest == self.digest => None,
            Ok(_) => Some(format!("{what} was changed: its digest is not that of the lock file")),
            Err(why) => Some(format!("{what} cannot be read: {why}")),
        }
    }
}

/// The digest of a folder ([`LockedSource::digest`]).
pub fn compute_folder_digest(tree: &dyn FileTree, folder: &str) -> Result<String, String> {
    let mut files = BTreeMap::new();
    let mut bytes_left = MAX_BYTES;
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        let listed = tree.list_folder(&join_path(folder, &below)).map_err(|why| why.to_string())?;
        for entry in listed {
            let path = join_path(&below, &entry.name);
            match entry.kind {
                EntryKind::Folder => folders.push(path),
                EntryKind::File => {
                    let read = tree.read_file(&join_path(folder, &path));
                    let bytes = read.map_err(|why| format!("`{path}`: {why}"))?;
                    bytes_left = bytes_left.checked_sub(bytes.len()).ok_or("it is too large")?;
                    files.insert(path, to_hex(&Sha256::digest(&bytes)));
                }
                _ => return Err(format!("`{path}` is not a file")),
            }
            if files.len() + folders.len() > MAX_FILES {
                return Err(format!("it has more than {MAX_FILES} files"));
            }
        }
    }
    Ok(digest_lines(&files))
}

/// The digest of files, given by their paths with their own digests.
fn digest_lines(files: &BTreeMap<String, String>) -> String {
    let mut sha = Sha256::new();
    for (path, digest) in files {
        sha.update(format!("{digest}  {path}\n"));
    }
    format!("sha256:{}", to_hex(&sha.finalize()))
}

/// The charts and bases that are vendored in a repo.
pub struct VendoredSources<'t> {
    tree: &'t dyn FileTree,
    lock: Result<VendorLock, String>,
    /// What is wrong about the folders that were compared with their digests, by path and digest.
    checked: Mutex<BTreeMap<(String, String), Option<String>>>,
    /// What was looked for.
    wanted: Mutex<BTreeSet<RemoteReference>>,
}

impl<'t> VendoredSources<'t> {
    /// Reads the lock file of a repo. What is wrong about it is an error of each object that needs it.
    pub fn new(tree: &'t dyn FileTree) -> Self {
        Self { tree, lock: VendorLock::read_tree(tree), checked: Mutex::default(), wanted: Mutex::default() }
    }

    /// What was looked for since this was asked the last time.
    pub fn take_wanted(&self) -> BTreeSet<RemoteReference> {
        std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The folder with a chart or a base, which is named at `pointer`.
    pub fn find(&self, reference: &RemoteReference, pointer: &str) -> Result<String, DescriptionError> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(reference.clone());
        let refuse = |why: String| Err(DescriptionError::new(pointer, why).with_help(VENDOR_HELP));
        let lock = match &self.lock {
            Ok(lock) => lock,
            Err(why) => return refuse(format!("the lock file `{LOCK_PATH}` {why}")),
        };
        let Some(source) = lock.find_source(reference) else {
            return refuse(format!("the {reference} is not vendored, and only what is in the repo is built"));
        };
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (source.path.clone(), source.digest.clone());
        match checked.entry(key).or_insert_with(|| source.find_problem(self.tree)) {
            None => Ok(source.folder.iter().fold(source.path.clone(), |path, folder| join_path(&path, folder))),
            Some(problem) => Err(DescriptionError::new(pointer, problem.clone()).with_help(
                "run `federate vendor`, which downloads it again, and see that no ignore file keeps a part of `vendor` out of git",
            )),
        }
    }
}
