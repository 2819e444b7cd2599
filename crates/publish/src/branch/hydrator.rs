//! The files that Argo CD's source hydrator writes: per cluster a stream of manifests with metadata and a README, and
//! metadata about the rendered commit at the root. GitOps Promoter reads the metadata. Files of others on the branch stay,
//! unless they are in the folder of a cluster.
//!
//! ```text
//! placements.yaml          the plan: the previous plan of the next run, and which folders are federate's
//! hydrator.metadata        the rendered commit
//! .gitattributes
//! m1/manifest.yaml         all objects of cluster m1
//! m1/hydrator.metadata
//! m1/README.md
//! ```
//!
//! Facts: Argo CD's source hydrator (names and keys of the files; metadata and README change only with the manifests), and
//! "Building a Custom Hydrator" in the documentation of GitOps Promoter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git2::{Oid, Repository, Tree};
use rayon::prelude::*;

use super::objects::compute_blob_id;
use super::{BranchContent, Error};
use crate::paths::{HYDRATOR_METADATA, PLACEMENTS, cluster_folder};
use crate::summary::{ClusterSummary, Summary};
use crate::tree::{NamespaceFolders, OutputFile, OutputTree};

mod documents;
mod dry_commit;
mod metadata;
mod trailers;

pub(super) use documents::split_documents;
pub use dry_commit::DryCommit;

/// The stream of a cluster's manifests.
pub(super) const MANIFEST: &str = "manifest.yaml";

/// The description of a cluster's folder.
const README: &str = "README.md";

/// The file that marks generated ones.
const GIT_ATTRIBUTES: &str = ".gitattributes";

/// The files of a cluster.
const CLUSTER_FILES: [&str; 3] = [MANIFEST, HYDRATOR_METADATA, README];

/// Collapses generated files in reviews.
const GIT_ATTRIBUTES_TEXT: &str =
    "**/README.md linguist-generated=true\n**/hydrator.metadata linguist-generated=true\n";

/// The mode of files in git trees.
const FILE_MODE: i32 = 0o100_644;

/// The mode of folders in git trees.
const FOLDER_MODE: i32 = 0o040_000;

/// An entry of the branch's folder.
#[derive(Clone, Copy)]
struct OldEntry {
    id: Oid,
    is_folder: bool,
}

/// Writes what was rendered from `source`, with the objects that the repository does not have. Returns the tree of the new
/// commit, and what it changes; if nothing differs, writes nothing and returns the base's tree. `only` is the cluster whose branch
/// it is; `None` for all. The plan on the branch of the hub names clusters whose folders are on other branches.
pub fn write_hydrated_tree(
    repository: &Repository,
    base: &BranchContent,
    tree: &OutputTree,
    only: Option<&str>,
    source: &DryCommit,
) -> Result<(Oid, Summary), Error> {
    let before = base.tree().map(|tree| repository.find_tree(tree)).transpose()?;
    let old = before.as_ref().map(list_entries).unwrap_or_default();
    let clusters: Vec<(&Arc<str>, &NamespaceFolders<OutputFile>)> = tree.files().iter().collect();
    let ids: Vec<Oid> = clusters
        .par_iter()
        .map(|(_, files)| compute_blob_id(documents::stream_parts(files)))
        .collect::<Result<_, _>>()?;
    let owned: BTreeSet<String> = base
        .previous_plan()
        .into_iter()
        .flat_map(|plan| plan.affected_clusters())
        .filter(|name| only.is_none_or(|only| only == &***name))
        .map(|name| cluster_folder(name))
        .collect();
    let mut writer = TreeWriter { repository, base, owned: &owned, foreign: Vec::new() };
    let mut builder = repository.treebuilder(before.as_ref())?;
    let mut summary = Summary::default();
    for ((folder, files), id) in clusters.iter().zip(ids) {
        let there = writer.list_cluster(folder, old.get(&***folder).copied())?;
        if there.get(MANIFEST) != Some(&id) {
            writer.check_stream(folder);
        }
        let mut changes = ClusterSummary { cluster: folder.to_string(), ..ClusterSummary::default() };
        if there.get(MANIFEST) == Some(&id) {
            changes.unchanged = files.values().map(Vec::len).sum();
        } else {
            let text: String = documents::stream_parts(files).collect();
            let old =
                there.get(MANIFEST).map(|_| base.read_text(repository, &format!("{folder}/{MANIFEST}")));
            documents::compare_streams(&old.flatten().unwrap_or_default(), &text, &mut changes);
            // Objects are written once it is certain that nothing is refused.
            if writer.foreign.is_empty() {
                builder.insert(&***folder, writer.write_cluster(folder, &text, source)?, FOLDER_MODE)?;
            }
        }
        summary.clusters.push(changes);
    }
    for folder in owned.iter().filter(|folder| !tree.files().contains_key(folder.as_str())) {
        let Some(entry) = old.get(folder).copied() else { continue };
        writer.list_cluster(folder, Some(entry))?;
        writer.check_stream(folder);
        let mut changes = ClusterSummary { cluster: folder.clone(), ..ClusterSummary::default() };
        let stream = base.read_text(repository, &format!("{folder}/{MANIFEST}")).unwrap_or_default();
        documents::compare_streams(&stream, "", &mut changes);
        builder.remove(folder)?;
        summary.clusters.push(changes);
    }
    writer.check_root(&old);
    if !writer.foreign.is_empty() {
        writer.foreign.sort();
        let plan = base.previous_plan().is_some();
        return Err(Error::NotOwned { name: base.name().clone(), foreign: writer.foreign, plan });
    }
    summary.clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let plan = repository.blob(tree.placements().as_bytes())?;
    summary.plan_written = old.get(PLACEMENTS).is_none_or(|entry| entry.id != plan);
    if summary.is_unchanged()
        && old.contains_key(HYDRATOR_METADATA)
        && let Some(root) = base.root()
    {
        return Ok((root, summary));
    }
    builder.insert(PLACEMENTS, plan, FILE_MODE)?;
    let text = metadata::format_root(source)?;
    builder.insert(HYDRATOR_METADATA, repository.blob(text.as_bytes())?, FILE_MODE)?;
    // The attributes of others stay: without federate's, reviews only show more.
    if !old.contains_key(GIT_ATTRIBUTES) {
        builder.insert(GIT_ATTRIBUTES, repository.blob(GIT_ATTRIBUTES_TEXT.as_bytes())?, FILE_MODE)?;
    }
    let root = base.folder().replace_tree_in(repository, base.root(), builder.write()?)?;
    Ok((root, summary))
}

struct TreeWriter<'w> {
    repository: &'w Repository,
    base: &'w BranchContent,
    /// The folders of the branch that the previous plan accounts for.
    owned: &'w BTreeSet<String>,
    /// The files in the way, which federate did not write.
    foreign: Vec<String>,
}

impl TreeWriter<'_> {
    /// The files of a cluster's folder; notes those that federate did not write.
    fn list_cluster(
        &mut self,
        folder: &str,
        entry: Option<OldEntry>,
    ) -> Result<BTreeMap<String, Oid>, Error> {
        let Some(entry) = entry else { return Ok(BTreeMap::new()) };
        if !entry.is_folder {
            self.foreign.push(folder.to_owned());
            return Ok(BTreeMap::new());
        }
        let is_owned = self.owned.contains(folder);
        let entries = list_entries(&self.repository.find_tree(entry.id)?);
        for (name, entry) in &entries {
            if entry.is_folder || !is_owned || !CLUSTER_FILES.contains(&name.as_str()) {
                self.foreign.push(format!("{folder}/{name}"));
            }
        }
        Ok(entries.into_iter().map(|(name, entry)| (name, entry.id)).collect())
    }

    /// Refuses a stream with documents that are not known: what they hold would neither count as deleted nor be kept.
    fn check_stream(&mut self, folder: &str) {
        let path = format!("{folder}/{MANIFEST}");
        let stream = self.base.read_text(self.repository, &path).unwrap_or_default();
        if self.owned.contains(folder) && documents::has_unknown_documents(&stream) {
            self.foreign.push(path);
        }
    }

    /// Refuses what would be replaced at the root: the metadata of another hydrator, which would go on writing it.
    fn check_root(&mut self, old: &BTreeMap<String, OldEntry>) {
        let has_plan = self.base.previous_plan().is_some();
        let metadata = old.get(HYDRATOR_METADATA);
        if metadata.is_some_and(|entry| entry.is_folder || !has_plan) {
            self.foreign.push(HYDRATOR_METADATA.to_owned());
        }
    }

    fn write_cluster(&self, folder: &str, manifests: &str, source: &DryCommit) -> Result<Oid, Error> {
        let mut builder = self.repository.treebuilder(None)?;
        let metadata = metadata::format_cluster(source, folder)?;
        let readme = metadata::format_readme(source, folder);
        for (name, text) in CLUSTER_FILES.into_iter().zip([manifests, metadata.as_str(), readme.as_str()]) {
            builder.insert(name, self.repository.blob(text.as_bytes())?, FILE_MODE)?;
        }
        Ok(builder.write()?)
    }
}

fn list_entries(tree: &Tree<'_>) -> BTreeMap<String, OldEntry> {
    tree.iter()
        .map(|entry| {
            let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
            (name, OldEntry { id: entry.id(), is_folder: entry.filemode() == FOLDER_MODE })
        })
        .collect()
}
