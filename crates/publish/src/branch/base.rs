//! The content of a branch before it is written: commit, trees, and the previous plan.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use git2::{Oid, Repository};

use super::hydrator::{MANIFEST, split_documents};
use super::{BranchFolder, BranchLocation, Error, FileLayout};
use crate::paths::{ObjectPath, PLACEMENTS, cluster_folder};
use federate_dialect::Plan;
use federate_engine::previous;
use federate_kubernetes::ObjectRef;

/// The commit on which the next one of a branch is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchTip {
    /// The commit.
    pub commit: Oid,
    /// Whether the branch itself exists. If not, the commit is that of the branch from which it starts.
    pub exists: bool,
}

/// The content of a branch; empty if it does not exist yet.
#[derive(Debug)]
pub struct BranchContent {
    name: BranchLocation,
    folder: BranchFolder,
    layout: FileLayout,
    tip: Option<BranchTip>,
    /// The documents of each cluster's stream that has been read, by the paths of their objects.
    documents: RefCell<BTreeMap<String, BTreeMap<String, Arc<str>>>>,
    root: Option<Oid>,
    tree: Option<Oid>,
    plan: Option<Plan>,
}

impl BranchContent {
    /// Reads the `folder` of `branch` at its `tip`. A folder with files but without a plan of federate is
    /// refused, unless the layout leaves the files of others alone.
    pub fn read_folder(
        repository: &Repository,
        branch: &str,
        folder: &BranchFolder,
        layout: FileLayout,
        tip: Option<BranchTip>,
    ) -> Result<Self, Error> {
        let name = BranchLocation { branch: branch.to_owned(), folder: folder.to_path() };
        let mut base = Self {
            name,
            folder: folder.clone(),
            layout,
            tip,
            documents: RefCell::default(),
            root: None,
            tree: None,
            plan: None,
        };
        let Some(BranchTip { commit, .. }) = tip else { return Ok(base) };
        let root = repository.find_commit(commit)?.tree_id();
        base.root = Some(root);
        let Some(oid) = folder.find_tree_in(repository, root)? else { return Ok(base) };
        base.tree = Some(oid);
        let tree = repository.find_tree(oid)?;
        let Ok(entry) = tree.get_path(Path::new(PLACEMENTS)) else {
            let mut foreign: Vec<String> =
                tree.iter().map(|e| String::from_utf8_lossy(e.name_bytes()).into_owned()).collect();
            foreign.sort();
            if foreign.is_empty() || layout == FileLayout::Hydrator {
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
        self.tip.map(|tip| tip.commit)
    }

    /// The commit, if the branch itself exists.
    pub(super) fn own_commit(&self) -> Option<Oid> {
        self.tip.filter(|tip| tip.exists).map(|tip| tip.commit)
    }

    /// The previous manifest of an object for a cluster.
    pub fn read_previous_manifest(
        &self,
        repository: &Repository,
        object: &ObjectRef,
        cluster: &str,
    ) -> Option<Arc<str>> {
        let place = ObjectPath::from_object(object);
        let path = format!("{}/{}", place.namespace, place.file);
        if self.layout == FileLayout::Plain {
            return Some(self.read_text(repository, &format!("{}/{path}", cluster_folder(cluster)))?.into());
        }
        if let Some(documents) = self.documents.borrow().get(cluster) {
            return documents.get(&path).cloned();
        }
        let stream = self.read_text(repository, &format!("{}/{MANIFEST}", cluster_folder(cluster)));
        let stream = stream.unwrap_or_default();
        let documents = split_documents(&stream).map(|(path, text)| (path.to_owned(), text.into()));
        let documents: BTreeMap<String, Arc<str>> = documents.collect();
        let found = documents.get(&path).cloned();
        self.documents.borrow_mut().insert(cluster.to_owned(), documents);
        found
    }

    /// The text of a file of the folder.
    pub(super) fn read_text(&self, repository: &Repository, path: &str) -> Option<String> {
        let tree = repository.find_tree(self.tree?).ok()?;
        let entry = tree.get_path(Path::new(path)).ok()?;
        let blob = repository.find_blob(entry.id()).ok()?;
        Some(std::str::from_utf8(blob.content()).ok()?.to_owned())
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
