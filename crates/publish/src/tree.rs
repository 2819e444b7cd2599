//! The rendered tree, laid out as files: the input of all publishers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::paths::{ObjectPath, cluster_folder};
use federate_dialect::Plan;
use federate_engine::Manifest;
use federate_kubernetes::{ClusterName, ObjectRef};

/// A rendered tree: the plan and the files of every cluster.
#[derive(Debug)]
pub struct OutputTree {
    placements: String,
    files: ClusterFolders<OutputFile>,
    /// The distinct files, by number.
    distinct: Vec<OutputFile>,
}

/// Two manifests with the same file in the same cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{first} ({}) and {second} ({}) would both be written to {path}: keep one of them, or send them to \
     different clusters", first.api_version, second.api_version
)]
pub struct PathCollision {
    /// The path below the tree's root.
    pub path: String,
    /// The first object.
    pub first: ObjectRef,
    /// The second object.
    pub second: ObjectRef,
}

/// Files by cluster folder and namespace folder, sorted by file name within a folder.
pub(super) type ClusterFolders<T> = BTreeMap<Arc<str>, NamespaceFolders<T>>;

/// The files of a cluster by namespace folder.
pub(super) type NamespaceFolders<T> = BTreeMap<Arc<str>, Vec<T>>;

/// A file to write; clusters with the same content share it.
#[derive(Clone, Debug)]
pub(super) struct OutputFile(Arc<FileContent>);

#[derive(Debug)]
struct FileContent {
    place: ObjectPath,
    manifest: Manifest,
    number: usize,
}

impl OutputFile {
    pub(super) fn name(&self) -> &str {
        &self.0.place.file
    }

    pub(super) fn text(&self) -> &str {
        &self.0.manifest.text
    }

    /// Its index in [`OutputTree::distinct`].
    pub(super) fn number(&self) -> usize {
        self.0.number
    }

    fn object(&self) -> &ObjectRef {
        &self.0.manifest.object
    }
}

impl OutputTree {
    /// Lays out manifests with `placements`, the text of the plan.
    pub fn new(placements: String, manifests: Vec<Manifest>) -> Result<Self, Box<PathCollision>> {
        let mut placed: Vec<_> =
            manifests.into_par_iter().map(|m| (ObjectPath::from_object(&m.object), m)).collect();
        placed.par_sort_by(|a, b| a.0.cmp(&b.0));
        let distinct: Vec<OutputFile> = placed
            .into_iter()
            .enumerate()
            .map(|(number, (place, manifest))| OutputFile(Arc::new(FileContent { place, manifest, number })))
            .collect();
        let files = lay_out(&distinct, |file| (&file.0.place, file.0.manifest.clusters.iter(), file.clone()));
        match find_collision(&files) {
            Some(collision) => Err(Box::new(collision)),
            None => Ok(Self { placements, files, distinct }),
        }
    }

    /// The part for one cluster or the hub, with the text of its own plan.
    #[must_use]
    pub fn for_cluster(&self, cluster: &str, placements: String) -> Self {
        let files = self.files.get_key_value(&*cluster_folder(cluster));
        let files = files.map(|(folder, files)| (Arc::clone(folder), files.clone())).into_iter().collect();
        Self { placements, files, distinct: self.distinct.clone() }
    }

    /// The text of the plan.
    pub fn placements(&self) -> &str {
        &self.placements
    }

    /// The distinct files except the plan, by number.
    pub(super) fn distinct(&self) -> &[OutputFile] {
        &self.distinct
    }

    /// All files except the plan.
    pub(super) fn files(&self) -> &ClusterFolders<OutputFile> {
        &self.files
    }
}

/// The names of all files that a plan accounts for; federate wrote no others.
pub(super) fn list_plan_files(plan: &Plan) -> ClusterFolders<Arc<str>> {
    let placed = plan.placements.par_iter().map(|row| (ObjectPath::from_object(&row.object), row));
    let mut placed: Vec<_> = placed.collect();
    placed.par_sort_by(|a, b| a.0.cmp(&b.0));
    lay_out(&placed, |(place, row)| {
        let clusters = row.clusters.iter().map(|cluster| &cluster.name).chain(&row.withdrawn);
        (place, clusters, Arc::clone(&place.file))
    })
}

/// The number of rows that are laid out at a time.
const ROWS_PER_PART: usize = 512;

/// Sorts rows, which are in the order of their paths, into folders. `parts` reads a row: its path, its clusters, and
/// what is laid out.
fn lay_out<'a, R, T, C>(
    rows: &'a [R],
    parts: impl Fn(&'a R) -> (&'a ObjectPath, C, T) + Sync,
) -> ClusterFolders<T>
where
    R: Sync,
    T: Clone + Send,
    C: Iterator<Item = &'a ClusterName>,
{
    let laid: Vec<ByCluster<'a, T>> = rows
        .par_chunks(ROWS_PER_PART)
        .map(|rows| {
            let mut by_cluster: ByCluster<'a, T> = BTreeMap::new();
            for (place, clusters, file) in rows.iter().map(&parts) {
                for cluster in clusters {
                    let namespaces = by_cluster.entry(cluster).or_default();
                    match namespaces.get_mut(&place.namespace) {
                        Some(files) => files.push(file.clone()),
                        None => drop(namespaces.insert(Arc::clone(&place.namespace), vec![file.clone()])),
                    }
                }
            }
            by_cluster
        })
        .collect();
    let mut all: ByCluster<'a, T> = BTreeMap::new();
    for (cluster, namespaces) in laid.into_iter().flatten() {
        let merged = all.entry(cluster).or_default();
        for (namespace, files) in namespaces {
            merged.entry(namespace).or_default().extend(files);
        }
    }
    all.into_iter().map(|(name, files)| (cluster_folder(name).into(), files)).collect()
}

type ByCluster<'a, T> = BTreeMap<&'a str, NamespaceFolders<T>>;

fn find_collision(folders: &ClusterFolders<OutputFile>) -> Option<PathCollision> {
    for (cluster, namespaces) in folders {
        for (namespace, files) in namespaces {
            let Some((first, second)) =
                files.iter().zip(files.iter().skip(1)).find(|(a, b)| a.name() == b.name())
            else {
                continue;
            };
            return Some(PathCollision {
                path: format!("{cluster}/{namespace}/{}", first.name()),
                first: first.object().clone(),
                second: second.object().clone(),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(api_version: &str, kind: &str, clusters: &[&str]) -> Manifest {
        let object = ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        let clusters = clusters.iter().map(|&c| c.into()).collect();
        Manifest { object, clusters, text: "a: 1\n".into(), value: None, changes: Vec::new() }
    }

    #[test]
    fn two_objects_for_one_file_are_named() {
        let two = |a: Manifest, b: Manifest| OutputTree::new(String::new(), vec![a, b]).map(drop);
        let kinds = two(manifest("e.org/v1", "Foo", &["m1", "m2"]), manifest("e.org/v1", "FOO", &["m2"]));
        let message = kinds.unwrap_err().to_string();
        assert!(message.contains("FOO shop/web"), "{message}");
        assert!(message.contains("m2/shop/foo.e.org_web.yaml"), "{message}");
        let versions = two(manifest("e.org/v1", "Foo", &["m1"]), manifest("e.org/v2", "Foo", &["m1"]));
        assert!(versions.unwrap_err().to_string().contains("e.org/v2"));
    }

    #[test]
    fn variants_of_one_object_for_different_clusters_do_not_collide() {
        let manifests = vec![manifest("v1", "Foo", &["m1"]), manifest("v1", "Foo", &["m2"])];
        let tree = OutputTree::new(String::new(), manifests).unwrap();
        assert_eq!(tree.files().keys().map(|k| &**k).collect::<Vec<_>>(), ["m1", "m2"]);
    }
}
