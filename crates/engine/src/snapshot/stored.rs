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
use federate_kubernetes::{Finding, Live, Object, Severity};
use federate_repo::source::{Entry, EntryKind, Source};
use federate_repo::{Claimed, Claims, File, Role};

use super::{CLUSTERS, Captured, DESCRIPTION, Digest, Error, OBSERVED, PLACEMENTS};
use crate::previous;

/// A snapshot that was read from a folder.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The time at which it was taken, if known.
    pub taken: Option<Timestamp>,
    /// The clusters that could not be read when it was taken, each with the reason.
    pub failed: BTreeMap<String, String>,
    /// The versions of Kubernetes in the clusters, as far as they were read.
    pub kubernetes: BTreeMap<String, String>,
    /// The scopes of the custom resources that the clusters serve, by `Kind.group`.
    pub scopes: BTreeMap<String, Scope>,
    /// The inventory objects.
    pub clusters: Vec<Claimed>,
    /// The placements that the control planes have recorded.
    pub plan: Plan,
    /// The objects that ran in the members.
    pub observed: Live,
    /// The texts of the files with inventory objects, for quoting lines in messages.
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

impl Stored {
    /// Reads a snapshot; `name` is the folder's name in messages.
    ///
    /// # Errors
    ///
    /// A message for the user if the folder does not contain a snapshot.
    pub fn read(dialects: Dialects, source: &dyn Source, name: &str) -> Result<Self, String> {
        let name = name.trim_end_matches('/');
        let described = described(source)?;
        let Described { taken, failed, kubernetes, scopes, digest: recorded_digest, .. } = described;
        let mut stored = Self { taken, failed, kubernetes, scopes, ..Self::default() };
        let files = files(source, "").map_err(|(path, why)| format!("{path}: {why}"))?;
        let mut digest = Digest::default();
        for (path, bytes) in files.iter().filter(|(path, _)| *path != DESCRIPTION) {
            digest.add(path, bytes);
        }
        if digest.finish() != recorded_digest {
            stored.findings.push(changed(&format!("{name}/{DESCRIPTION}").into()));
        }
        if let Some(bytes) = files.get(PLACEMENTS) {
            stored.plan = previous::read_own(bytes).map_err(|why| format!("{PLACEMENTS}: {why}"))?;
        }
        let inventory: Vec<File> = files
            .into_iter()
            .filter(|(path, _)| path.starts_with(CLUSTERS))
            .map(|(path, bytes)| File { path: format!("{name}/{path}").into(), bytes: bytes.into() })
            .collect();
        stored.add_inventory(dialects, &inventory);
        let (observed, findings) = federate_repo::live(&Subfolder(source), &format!("{name}/{OBSERVED}"));
        stored.observed = observed;
        stored.findings.extend(findings);
        Ok(stored)
    }

    /// The state that was just read from control planes, whose clusters and placements decide.
    ///
    /// # Errors
    ///
    /// If the placements of a control plane cannot be read.
    pub fn of(dialects: Dialects, captured: &Captured) -> Result<Self, Error> {
        let plan = super::memory(dialects, &captured.objects, &mut BTreeMap::new())?;
        let mut stored = Self { taken: captured.taken, plan, ..Self::default() };
        stored.claim(dialects, captured.objects.iter().cloned());
        Ok(stored)
    }

    fn add_inventory(&mut self, dialects: Dialects, files: &[File]) {
        let (objects, findings) = federate_repo::objects_of(files, &dialects);
        self.findings.extend(findings);
        self.claim(dialects, objects.into_iter());
        self.texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
    }
}

impl Stored {
    /// Takes the inventory objects.
    fn claim(&mut self, dialects: Dialects, objects: impl Iterator<Item = Object>) {
        for object in objects {
            if let Some((dialect, Role::Inventory)) = dialects.role(&object.id.api_version, &object.id.kind) {
                self.clusters.push(Claimed { dialect, role: Role::Inventory, object });
            }
        }
    }
}

fn described(source: &dyn Source) -> Result<Described, String> {
    let bytes = source.read(DESCRIPTION).map_err(|_| {
        format!("it has no {DESCRIPTION}; `federate snapshot --out DIR` writes a folder with one")
    })?;
    let mut stream = federate_yaml::read(&bytes);
    if let Some(error) = stream.errors.first() {
        return Err(format!("{DESCRIPTION}:{}:{}: {}", error.at.line, error.at.column, error.message));
    }
    let value = stream.documents.pop().map(|document| document.value).unwrap_or_default();
    let described: Described = serde_path_to_error::deserialize(value)
        .map_err(|e| format!("{DESCRIPTION}: `{}`: {}", e.path(), e.inner()))?;
    if described.kind != "Snapshot" {
        return Err(format!("{DESCRIPTION}: its kind is `{}`, not `Snapshot`", described.kind));
    }
    Ok(described)
}

/// All files below a folder, by path. Links are not followed.
fn files(source: &dyn Source, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, (String, String)> {
    let mut all = BTreeMap::new();
    for Entry { name, kind } in source.list(folder).map_err(|why| (folder.to_owned(), why))? {
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match kind {
            EntryKind::Folder => all.extend(files(source, &path)?),
            EntryKind::File => {
                let bytes = source.read(&path).map_err(|why| (path.clone(), why))?;
                all.insert(path, bytes);
            }
            _ => {}
        }
    }
    Ok(all)
}

fn changed(file: &Arc<str>) -> Finding {
    let message = "the snapshot was changed after it was taken: its files do not match the digest";
    Finding::in_file(Severity::Warning, "snapshot-changed", file, None, message)
        .help("take it again with `federate snapshot`, so that it shows what runs")
}

/// The folder with the observed objects of a snapshot; empty if there is none.
struct Subfolder<'s>(&'s dyn Source);

impl Source for Subfolder<'_> {
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String> {
        match folder {
            "" => {
                let root = self.0.list("")?;
                let exists = root.iter().any(|e| e.name == OBSERVED && e.kind == EntryKind::Folder);
                if exists { self.0.list(OBSERVED) } else { Ok(Vec::new()) }
            }
            folder => self.0.list(&format!("{OBSERVED}/{folder}")),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.read(&format!("{OBSERVED}/{path}"))
    }
}
