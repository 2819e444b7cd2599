//! Computes the git objects of a rendered tree without a repository, on all cores.

use git2::{ObjectType, Oid};
use rayon::prelude::*;
use sha1::{Digest, Sha1};

use super::Error;
use crate::paths::PLACEMENTS;
use crate::tree::{NamespaceFolders, OutputFile, OutputTree};

/// A git tree to write.
#[derive(Debug)]
pub(super) struct GitTree {
    pub(super) id: Oid,
    pub(super) bytes: Vec<u8>,
}

/// A namespace's folder.
pub(super) struct NamespaceTree<'t> {
    pub(super) name: &'t str,
    pub(super) node: GitTree,
    /// Sorted by name.
    pub(super) files: &'t [OutputFile],
}

/// A cluster's folder.
pub(super) struct ClusterTree<'t> {
    pub(super) name: &'t str,
    pub(super) node: GitTree,
    pub(super) namespaces: Vec<NamespaceTree<'t>>,
}

/// The desired content of a branch.
pub(super) struct DesiredTree<'t> {
    pub(super) placements: &'t str,
    pub(super) placements_id: Oid,
    /// The texts of all distinct files, by number.
    pub(super) texts: Vec<&'t str>,
    /// The ids of their blobs.
    pub(super) blobs: Vec<Oid>,
    /// Sorted by name.
    pub(super) clusters: Vec<ClusterTree<'t>>,
    pub(super) root: GitTree,
}

impl<'t> DesiredTree<'t> {
    pub(super) fn from_tree(tree: &'t OutputTree) -> Result<Self, Error> {
        let texts: Vec<&str> = tree.distinct().iter().map(OutputFile::text).collect();
        let blobs: Vec<Oid> = texts
            .par_iter()
            .map(|text| compute_object_id(ObjectType::Blob, text.as_bytes()))
            .collect::<Result<_, _>>()?;
        let clusters: Vec<_> = tree.files().iter().collect();
        let clusters: Vec<ClusterTree<'_>> = clusters
            .into_par_iter()
            .map(|(name, files)| build_cluster(name, files, &blobs))
            .collect::<Result<_, _>>()?;
        let placements_id = compute_object_id(ObjectType::Blob, tree.placements().as_bytes())?;
        let folders = clusters.iter().map(|cluster| (cluster.name, cluster.node.id));
        let root = build_node(folders, std::iter::once((PLACEMENTS, placements_id)))?;
        Ok(Self { placements: tree.placements(), placements_id, texts, blobs, clusters, root })
    }

    /// The id of the tree.
    pub(super) fn id(&self) -> Oid {
        self.root.id
    }
}

fn build_cluster<'t>(
    name: &'t str,
    files: &'t NamespaceFolders<OutputFile>,
    blobs: &[Oid],
) -> Result<ClusterTree<'t>, Error> {
    let namespaces: Vec<NamespaceTree<'_>> = files
        .iter()
        .map(|(name, files)| {
            let entries = files.iter().filter_map(|file| Some((file.name(), *blobs.get(file.number())?)));
            Ok(NamespaceTree { name, node: build_node(std::iter::empty(), entries)?, files })
        })
        .collect::<Result<_, Error>>()?;
    let node = build_node(namespaces.iter().map(|n| (n.name, n.node.id)), std::iter::empty())?;
    Ok(ClusterTree { name, node, namespaces })
}

/// The tree of some folders and files. Git sorts folders as if their names ended in a slash.
fn build_node<'n>(
    folders: impl Iterator<Item = (&'n str, Oid)>,
    files: impl Iterator<Item = (&'n str, Oid)>,
) -> Result<GitTree, Error> {
    let folders = folders.map(|(name, id)| (format!("{name}/"), id));
    let mut entries: Vec<(String, Oid)> =
        folders.chain(files.map(|(name, id)| (name.to_owned(), id))).collect();
    entries.sort();
    let mut bytes = Vec::with_capacity(entries.iter().map(|(name, _)| name.len() + 28).sum());
    for (name, id) in &entries {
        let (mode, name) = match name.strip_suffix('/') {
            Some(name) => ("40000 ", name),
            None => ("100644 ", name.as_str()),
        };
        bytes.extend_from_slice(mode.as_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(id.as_bytes());
    }
    Ok(GitTree { id: compute_object_id(ObjectType::Tree, &bytes)?, bytes })
}

/// The id of a blob that consists of `parts`.
pub(super) fn compute_blob_id<'p>(parts: impl Iterator<Item = &'p str> + Clone) -> Result<Oid, Error> {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", parts.clone().map(str::len).sum::<usize>()));
    for part in parts {
        hash.update(part);
    }
    Ok(Oid::from_bytes(&hash.finalize())?)
}

/// The id of an object.
fn compute_object_id(kind: ObjectType, bytes: &[u8]) -> Result<Oid, Error> {
    let mut hash = Sha1::new();
    hash.update(kind.str().as_bytes());
    hash.update(format!(" {}\0", bytes.len()).as_bytes());
    hash.update(bytes);
    Ok(Oid::from_bytes(&hash.finalize())?)
}
