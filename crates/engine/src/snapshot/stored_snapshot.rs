//! Reads a snapshot from the folder that [`snapshot`](super::snapshot()) describes.
//!
//! The folder is input like any other: its objects are parsed and validated like those of a repo. The digest in the
//! description shows accidental changes only; it is not a signature.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use federate_dialect::{Dialects, Plan};
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Finding, LiveObjects, Object, Severity};
use federate_repo::file_tree::{EntryKind, FileTree, TreeEntry, TreeError};
use federate_repo::{ClaimedObject, Claims, RepoFile, Role};

use super::{
    CLUSTERS_FOLDER, DESCRIPTION_FILE, Digest, Error, OBSERVED_FOLDER, PLACEMENTS_FILE, RECORDED_FOLDER,
    SnapshotInput, recorded,
};
use crate::previous;

/// A snapshot that was read from a folder.
#[derive(Clone, Debug, Default)]
pub struct StoredSnapshot {
    /// The time at which it was taken, if known.
    pub taken: Option<Timestamp>,
    /// The clusters that could not be read when it was taken, each with the reason.
    pub failed: BTreeMap<String, String>,
    /// The versions of Kubernetes in the clusters, as far as they were read.
    pub kubernetes: BTreeMap<String, String>,
    /// The scopes of the custom resources that the clusters serve, by `Kind.group`.
    pub scopes: BTreeMap<String, Scope>,
    /// The inventory objects.
    pub clusters: Vec<ClaimedObject>,
    /// Further objects of control planes.
    pub recorded: Vec<ClaimedObject>,
    /// The placements that the control planes have recorded.
    pub plan: Plan,
    /// The objects that ran in the members.
    pub observed: LiveObjects,
    /// The texts of the files with objects of control planes, for quoting lines in messages.
    pub texts: BTreeMap<Arc<str>, Arc<[u8]>>,
    /// Findings about the snapshot.
    pub findings: Vec<Finding>,
}

/// What is read of the description.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    kind: String,
    taken: Option<Timestamp>,
    #[serde(default)]
    failed: BTreeMap<String, String>,
    #[serde(default)]
    kubernetes: BTreeMap<String, String>,
    #[serde(default)]
    scopes: BTreeMap<String, Scope>,
    #[serde(default)]
    digest: String,
}

impl StoredSnapshot {
    /// Reads a snapshot; `name` is the folder's name in messages.
    ///
    /// # Errors
    ///
    /// A message for the user if the folder does not contain a snapshot.
    pub fn read_folder(dialects: Dialects, source: &dyn FileTree, name: &str) -> Result<Self, String> {
        let name = name.trim_end_matches('/');
        let described = read_description(source)?;
        let Described { taken, failed, kubernetes, scopes, digest: recorded_digest, .. } = described;
        let mut stored = Self { taken, failed, kubernetes, scopes, ..Self::default() };
        let files = read_files(source, "").map_err(|error| error.to_string())?;
        let mut digest = Digest::default();
        for (path, bytes) in files.iter().filter(|(path, _)| *path != DESCRIPTION_FILE) {
            digest.add_file(path, bytes);
        }
        if digest.finish() != recorded_digest {
            stored.findings.push(report_changed(&format!("{name}/{DESCRIPTION_FILE}").into()));
        }
        if let Some(bytes) = files.get(PLACEMENTS_FILE) {
            stored.plan = previous::read_own(bytes).map_err(|why| format!("{PLACEMENTS_FILE}: {why}"))?;
        }
        let inventory: Vec<RepoFile> = files
            .into_iter()
            .filter(|(path, _)| {
                [CLUSTERS_FOLDER, RECORDED_FOLDER].iter().any(|folder| path.starts_with(folder))
            })
            .map(|(path, bytes)| RepoFile { path: format!("{name}/{path}").into(), bytes: bytes.into() })
            .collect();
        stored.add_inventory(dialects, &inventory);
        let (observed, findings) =
            federate_repo::read_live_objects(&Subfolder(source), &format!("{name}/{OBSERVED_FOLDER}"));
        stored.observed = observed;
        stored.findings.extend(findings);
        Ok(stored)
    }

    /// The state that was just read from control planes, whose clusters and placements decide.
    ///
    /// # Errors
    ///
    /// If the placements of a control plane cannot be read.
    pub fn from_input(dialects: Dialects, captured: &SnapshotInput) -> Result<Self, Error> {
        let plan = super::read_placements(dialects, &captured.objects, &mut BTreeMap::new())?;
        let mut stored = Self { taken: captured.taken, plan, ..Self::default() };
        stored.claim_inventory(dialects, captured.objects.iter().cloned());
        stored.recorded = recorded::claim_recorded(dialects, captured.objects.iter().cloned()).collect();
        Ok(stored)
    }

    fn add_inventory(&mut self, dialects: Dialects, files: &[RepoFile]) {
        let (objects, findings) = federate_repo::objects_of(files, &dialects);
        self.findings.extend(findings);
        self.recorded = recorded::claim_recorded(dialects, objects.iter().cloned()).collect();
        self.claim_inventory(dialects, objects.into_iter());
        self.texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
    }
}

impl StoredSnapshot {
    /// Takes the inventory objects.
    fn claim_inventory(&mut self, dialects: Dialects, objects: impl Iterator<Item = Object>) {
        for object in objects {
            if let Some((dialect, Role::Inventory)) =
                dialects.role_of_kind(&object.id.api_version, &object.id.kind)
            {
                self.clusters.push(ClaimedObject { dialect, role: Role::Inventory, object });
            }
        }
    }
}

fn read_description(source: &dyn FileTree) -> Result<Described, String> {
    let bytes = source.read_file(DESCRIPTION_FILE).map_err(|_| {
        format!("it has no {DESCRIPTION_FILE}; `federate snapshot --out DIR` writes a folder with one")
    })?;
    let mut stream = federate_yaml::read_stream(&bytes);
    if let Some(error) = stream.errors.first() {
        return Err(format!("{DESCRIPTION_FILE}:{}:{}: {}", error.at.line, error.at.column, error.message));
    }
    let value = stream.documents.pop().map(|document| document.value).unwrap_or_default();
    let described: Described = serde_path_to_error::deserialize(value)
        .map_err(|e| format!("{DESCRIPTION_FILE}: `{}`: {}", e.path(), e.inner()))?;
    if described.kind != "Snapshot" {
        return Err(format!("{DESCRIPTION_FILE}: its kind is `{}`, not `Snapshot`", described.kind));
    }
    Ok(described)
}

/// A path of a snapshot that is not read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
struct UnreadablePath {
    path: String,
    why: TreeError,
}

impl UnreadablePath {
    fn new(path: &str, why: TreeError) -> Self {
        Self { path: path.to_owned(), why }
    }
}

/// All files below a folder, by path. Links are not followed.
fn read_files(source: &dyn FileTree, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, UnreadablePath> {
    let mut all = BTreeMap::new();
    for TreeEntry { name, kind } in
        source.list_folder(folder).map_err(|why| UnreadablePath::new(folder, why))?
    {
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match kind {
            EntryKind::Folder => all.extend(read_files(source, &path)?),
            EntryKind::File => {
                let bytes = source.read_file(&path).map_err(|why| UnreadablePath::new(&path, why))?;
                all.insert(path, bytes);
            }
            _ => {}
        }
    }
    Ok(all)
}

fn report_changed(file: &Arc<str>) -> Finding {
    let message = "the snapshot was changed after it was taken: its files do not match the digest";
    Finding::in_file(Severity::Warning, "snapshot-changed", file, None, message)
        .with_help("take it again with `federate snapshot`, so that it shows what runs")
}

/// The folder with the observed objects of a snapshot; empty if there is none.
struct Subfolder<'s>(&'s dyn FileTree);

impl FileTree for Subfolder<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        match folder {
            "" => {
                let root = self.0.list_folder("")?;
                let exists = root.iter().any(|e| e.name == OBSERVED_FOLDER && e.kind == EntryKind::Folder);
                if exists { self.0.list_folder(OBSERVED_FOLDER) } else { Ok(Vec::new()) }
            }
            folder => self.0.list_folder(&format!("{OBSERVED_FOLDER}/{folder}")),
        }
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.0.read_file(&format!("{OBSERVED_FOLDER}/{path}"))
    }
}
