//! The content of a branch before it is written: commit, trees, and the previous plan.

use std::path::Path;
use std::sync::Arc;

use git2::{Oid, Repository};

use super::{BranchFolder, BranchLocation, Error};
use crate::paths::{ObjectPath, PLACEMENTS, cluster_folder};
use federate_dialect::Plan;
use federate_engine::previous;
use federate_kubernetes::ObjectRef;

/// The content of a branch; empty if it does not exist yet.
#[derive(Debug)]
pub struct BranchContent {
    name: BranchLocation,
    folder: BranchFolder,
    commit: Option<Oid>,
    root: Option<Oid>,
    tree: Option<Oid>,
    plan: Option<Plan>,
}

impl BranchContent {
    /// Reads the `folder` of `branch` in `commit`. A folder with files but without a plan of federate is
    /// refused.
    pub fn read_folder(
        repository: &Repository,
        branch: &str,
        folder: &BranchFolder,
        commit: Option<Oid>,
    ) -> Result<Self, Error> {
        let name = BranchLocation { branch: branch.to_owned(), folder: folder.to_path() };
        let mut base = Self { name, folder: folder.clone(), commit, root: None, tree: None, plan: None };
        let Some(commit) = commit else { return Ok(base) };
        let root = repository.find_commit(commit)?.tree_id();
        base.root = Some(root);
        let Some(oid) = folder.find_tree_in(repository, root)? else { return Ok(base) };
        base.tree = Some(oid);
        let tree = repository.find_tree(oid)?;
        let Ok(entry) = tree.get_path(Path::new(PLACEMENTS)) else {
            let mut foreign: Vec<String> =
                tree.iter().map(|e| String::from_utf8_lossy(e.name_bytes()).into_owned()).collect();
            foreign.sort();
            if foreign.is_empty() {
                return Ok(base);
            }
            return Err(Error::NotOwned { name: base.name, foreign, plan: false });
        };
        let blob = entry.to_object(repository)?.peel_to_blob()?;
        match previous::read_own(blob.content()) {
            Ok(plan) => base.plan = Some(plan),
            Err(e) => return Err(Error::NotAPlan { name: base.name, why: e.to_string() }),
        }
        Ok(base)
    }

    /// The plan of the previous run.
    pub fn previous_plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The commit.
    pub fn commit(&self) -> Option<Oid> {
        self.commit
    }

    /// The previous manifest of an object for a cluster.
    pub fn read_previous_manifest(
        &self,
        repository: &Repository,
        object: &ObjectRef,
        cluster: &str,
    ) -> Option<Arc<str>> {
        let place = ObjectPath::of_object(object);
        let path = format!("{}/{}/{}", cluster_folder(cluster), place.namespace, place.file);
        let tree = repository.find_tree(self.tree?).ok()?;
        let entry = tree.get_path(Path::new(&path)).ok()?;
        let blob = repository.find_blob(entry.id()).ok()?;
        Some(std::str::from_utf8(blob.content()).ok()?.into())
    }

    /// The branch and folder, for messages.
    pub fn name(&self) -> &BranchLocation {
        &self.name
    }

    /// The folder to write.
    pub(super) fn folder(&self) -> &BranchFolder {
        &self.folder
    }

    /// The commit's tree.
    pub fn root(&self) -> Option<Oid> {
        self.root
    }

    /// The folder's tree.
    pub(super) fn tree(&self) -> Option<Oid> {
        self.tree
    }
}
