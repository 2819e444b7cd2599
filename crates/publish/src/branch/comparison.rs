//! Compares a branch with the tree that it will hold. Trees with equal ids are not compared further.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git2::{ObjectType, Oid, Repository};

use super::objects::{ClusterTree, DesiredTree, NamespaceTree};
use super::{BranchContent, Error};
use crate::paths::PLACEMENTS;
use crate::summary::{ClusterSummary, Summary};
use crate::tree::{ClusterFolders, NamespaceFolders, list_plan_files};

/// An object to write.
pub(super) struct UnwrittenObject<'w> {
    pub(super) kind: ObjectType,
    pub(super) id: Oid,
    pub(super) bytes: &'w [u8],
}

/// An entry of an existing tree.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OldEntry {
    id: Oid,
    folder: bool,
    /// A regular file, as federate writes it.
    file: bool,
}

/// The changes to the branch's folder, and the objects that may have to be written.
pub(super) fn compare_trees<'w>(
    repository: &Repository,
    base: &BranchContent,
    desired: &'w DesiredTree<'_>,
) -> Result<(Summary, Vec<UnwrittenObject<'w>>), Error> {
    let mut walk = Walk { repository, desired, foreign: Vec::new(), new: Vec::new(), seen: BTreeSet::new() };
    // The previous plan is only read if something differs.
    let differs = base.tree() != Some(desired.root.id);
    let owned = base.previous_plan().filter(|_| differs).map(list_plan_files).unwrap_or_default();
    let (clusters, plan_written) = walk.compare_root(base.tree(), &owned)?;
    if !walk.foreign.is_empty() {
        walk.foreign.sort();
        let plan = base.previous_plan().is_some();
        return Err(Error::NotOwned { name: base.name().clone(), foreign: walk.foreign, plan });
    }
    Ok((Summary { clusters, plan_written }, walk.new))
}

struct Walk<'r, 'w, 't> {
    repository: &'r Repository,
    desired: &'w DesiredTree<'t>,
    foreign: Vec<String>,
    new: Vec<UnwrittenObject<'w>>,
    seen: BTreeSet<Oid>,
}

impl<'w> Walk<'_, 'w, '_> {
    fn compare_root(
        &mut self,
        old: Option<Oid>,
        owned: &ClusterFolders<Arc<str>>,
    ) -> Result<(Vec<ClusterSummary>, bool), Error> {
        let desired = self.desired;
        let mut there = self.list_tree(old.filter(|old| *old != desired.root.id))?;
        let same = old == Some(desired.root.id);
        if !same {
            self.add_new_object(ObjectType::Tree, desired.root.id, &desired.root.bytes);
        }
        let plan = there.remove(PLACEMENTS).map(|entry| entry.id);
        let plan_written = !same && plan != Some(desired.placements_id);
        if plan_written {
            self.add_new_object(ObjectType::Blob, desired.placements_id, desired.placements.as_bytes());
        }
        let mut summaries = Vec::new();
        for cluster in &desired.clusters {
            let old = if same {
                Some(cluster.node.id)
            } else {
                self.expect_folder(there.remove(cluster.name), cluster.name)
            };
            summaries.push(self.compare_cluster(cluster, old, owned.get(cluster.name))?);
        }
        for (name, entry) in there {
            match owned.get(name.as_str()).filter(|_| entry.folder) {
                Some(owned) => {
                    let mut summary = ClusterSummary { cluster: name, ..ClusterSummary::default() };
                    self.remove_cluster(&mut summary, entry.id, owned)?;
                    summaries.push(summary);
                }
                None => self.foreign.push(name),
            }
        }
        summaries.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        Ok((summaries, plan_written))
    }

    fn compare_cluster(
        &mut self,
        cluster: &'w ClusterTree<'_>,
        old: Option<Oid>,
        owned: Option<&NamespaceFolders<Arc<str>>>,
    ) -> Result<ClusterSummary, Error> {
        let mut summary = ClusterSummary { cluster: cluster.name.to_owned(), ..ClusterSummary::default() };
        if old == Some(cluster.node.id) {
            summary.unchanged = cluster.namespaces.iter().map(|namespace| namespace.files.len()).sum();
            return Ok(summary);
        }
        self.add_new_object(ObjectType::Tree, cluster.node.id, &cluster.node.bytes);
        let mut there = self.list_tree(old)?;
        for namespace in &cluster.namespaces {
            let path = format!("{}/{}", cluster.name, namespace.name);
            let old = self.expect_folder(there.remove(namespace.name), &path);
            let owned = owned.and_then(|owned| owned.get(namespace.name)).map_or(&[][..], Vec::as_slice);
            self.compare_namespace(&mut summary, &path, namespace, old, owned)?;
        }
        for (name, entry) in there {
            let path = format!("{}/{name}", cluster.name);
            let owned = owned.and_then(|owned| owned.get(name.as_str()));
            match owned.filter(|_| entry.folder) {
                Some(owned) => self.remove_namespace(&mut summary, &path, entry.id, owned)?,
                None => self.foreign.push(path),
            }
        }
        Ok(summary)
    }

    fn compare_namespace(
        &mut self,
        summary: &mut ClusterSummary,
        path: &str,
        namespace: &'w NamespaceTree<'_>,
        old: Option<Oid>,
        owned: &[Arc<str>],
    ) -> Result<(), Error> {
        if old == Some(namespace.node.id) {
            summary.unchanged += namespace.files.len();
            return Ok(());
        }
        let desired = self.desired;
        self.add_new_object(ObjectType::Tree, namespace.node.id, &namespace.node.bytes);
        let mut there = self.list_tree(old)?;
        for file in namespace.files {
            let (Some(id), Some(text)) = (desired.blobs.get(file.number()), desired.texts.get(file.number()))
            else {
                continue;
            };
            let before = there.remove(file.name());
            match before {
                Some(entry) if entry.id == *id && entry.file => summary.unchanged += 1,
                Some(entry) if entry.file && is_owned(owned, file.name()) => {
                    summary.updated.push(format!("{path}/{}", file.name()));
                }
                Some(_) => self.foreign.push(format!("{path}/{}", file.name())),
                None => summary.created.push(format!("{path}/{}", file.name())),
            }
            if before.is_none_or(|entry| entry.id != *id) {
                self.add_new_object(ObjectType::Blob, *id, text.as_bytes());
            }
        }
        self.classify_rest(summary, path, there, owned);
        Ok(())
    }

    /// A cluster that no longer receives anything.
    fn remove_cluster(
        &mut self,
        summary: &mut ClusterSummary,
        tree: Oid,
        owned: &NamespaceFolders<Arc<str>>,
    ) -> Result<(), Error> {
        for (name, entry) in self.list_tree(Some(tree))? {
            let path = format!("{}/{name}", summary.cluster);
            match owned.get(name.as_str()).filter(|_| entry.folder) {
                Some(owned) => self.remove_namespace(summary, &path, entry.id, owned)?,
                None => self.foreign.push(path),
            }
        }
        Ok(())
    }

    /// A namespace that is now empty.
    fn remove_namespace(
        &mut self,
        summary: &mut ClusterSummary,
        path: &str,
        tree: Oid,
        owned: &[Arc<str>],
    ) -> Result<(), Error> {
        let there = self.list_tree(Some(tree))?;
        self.classify_rest(summary, path, there, owned);
        Ok(())
    }

    /// Files that are no longer rendered: those that federate wrote are removed, others are foreign.
    fn classify_rest(
        &mut self,
        summary: &mut ClusterSummary,
        path: &str,
        there: BTreeMap<String, OldEntry>,
        owned: &[Arc<str>],
    ) {
        for (name, entry) in there {
            let file = format!("{path}/{name}");
            let owned_file = entry.file && is_owned(owned, &name);
            if owned_file { summary.removed.push(file) } else { self.foreign.push(file) }
        }
    }

    /// The tree of an entry that is expected to be a folder.
    fn expect_folder(&mut self, entry: Option<OldEntry>, path: &str) -> Option<Oid> {
        let entry = entry?;
        if !entry.folder {
            self.foreign.push(path.to_owned());
        }
        entry.folder.then_some(entry.id)
    }

    fn list_tree(&self, tree: Option<Oid>) -> Result<BTreeMap<String, OldEntry>, Error> {
        let Some(tree) = tree else { return Ok(BTreeMap::new()) };
        let tree = self.repository.find_tree(tree)?;
        Ok(tree
            .iter()
            .map(|entry| {
                let (folder, file) = (entry.filemode() == 0o040_000, entry.filemode() == 0o100_644);
                (
                    String::from_utf8_lossy(entry.name_bytes()).into_owned(),
                    OldEntry { id: entry.id(), folder, file },
                )
            })
            .collect())
    }

    fn add_new_object(&mut self, kind: ObjectType, id: Oid, bytes: &'w [u8]) {
        if self.seen.insert(id) {
            self.new.push(UnwrittenObject { kind, id, bytes });
        }
    }
}

fn is_owned(owned: &[Arc<str>], name: &str) -> bool {
    owned.binary_search_by(|file| (**file).cmp(name)).is_ok()
}
