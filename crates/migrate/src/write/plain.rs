//! Writes a repo that no control plane reads: the objects stay in their folders, each with a kustomization, and each
//! cluster has an overlay over the folders with objects for it.
//!
//! An overlay deletes what its folders have for other clusters, and patches what differs in its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_kubernetes::{ClusterName, ObjectRef};
use serde_json::{Value, json};

use super::write_operation;
use crate::intent::{ManifestOperation, OverrideIntent};
use crate::rendering::build_mapping;

/// The name of a kustomization.
pub(crate) const KUSTOMIZATION: &str = "kustomization.yaml";

/// The most patches that overlays may have together.
const MAX_PATCHES: usize = 200_000;

/// An object in a file, with its clusters.
pub(crate) struct PlacedInFile {
    /// The object.
    pub object: ObjectRef,
    /// Its file.
    pub file: Arc<str>,
    /// The clusters that receive it.
    pub clusters: BTreeSet<ClusterName>,
}

/// What overlays are written for.
pub(crate) struct OverlayInput<'i> {
    /// Every object in the files that overlays use.
    pub objects: &'i [PlacedInFile],
    /// What differs between clusters.
    pub overrides: &'i [OverrideIntent],
    /// All clusters.
    pub clusters: &'i [ClusterName],
    /// The folder of the overlays.
    pub folder: &'i str,
    /// The name of the overlay for other clusters, which is empty.
    pub rest: &'i str,
}

/// A file of the new side.
pub(crate) struct WrittenFile {
    /// Its path.
    pub path: Arc<str>,
    /// Its document.
    pub value: Value,
}

/// Writes the kustomizations of folders and of clusters. `None` if there would be too many patches.
pub(crate) fn write_overlays(input: &OverlayInput<'_>) -> Option<Vec<WrittenFile>> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut contents: BTreeMap<&str, Vec<&PlacedInFile>> = BTreeMap::new();
    for placed in input.objects {
        let (folder, name) = placed.file.rsplit_once('/').unwrap_or(("", &placed.file));
        folders.entry(folder).or_default().insert(name);
        contents.entry(folder).or_default().push(placed);
    }
    let mut files: Vec<WrittenFile> = folders
        .iter()
        .map(|(folder, names)| WrittenFile {
            path: format!("{folder}/{KUSTOMIZATION}").into(),
            value: write_kustomization(&json!(names), Vec::new()),
        })
        .collect();
    let patches = collect_patches(input.overrides);
    let mut used: BTreeMap<&ClusterName, BTreeSet<&str>> = BTreeMap::new();
    for placed in input.objects {
        let (folder, _) = placed.file.rsplit_once('/').unwrap_or(("", &placed.file));
        for cluster in &placed.clusters {
            used.entry(cluster).or_default().insert(folder);
        }
    }
    let up = "../".repeat(input.folder.split('/').count() + 1);
    let mut count = 0;
    for cluster in input.clusters {
        let folders = used.get(cluster).cloned().unwrap_or_default();
        let mut written = OverlayPatches::new();
        for placed in folders.iter().filter_map(|folder| contents.get(folder)).flatten() {
            let is_placed = placed.clusters.contains(cluster);
            let operations = patches.get(&placed.object).and_then(|own| own.get(cluster)).copied();
            if !is_placed || operations.is_some() {
                count += 1;
                let operations = operations.filter(|_| is_placed).map(write_operations).unwrap_or_default();
                let ObjectRef { api_version, kind, namespace, name } = &placed.object;
                let namespace = namespace.as_deref();
                let key = PatchKey { is_placed, api_version, kind, namespace, operations };
                written.entry(key).or_default().push(name);
            }
        }
        if count > MAX_PATCHES {
            return None;
        }
        let resources: Vec<String> = folders.iter().map(|folder| format!("{up}{folder}")).collect();
        files.push(WrittenFile {
            path: format!("{}/{cluster}/{KUSTOMIZATION}", input.folder).into(),
            value: write_kustomization(&json!(resources), write_patches(&written)),
        });
    }
    files.push(WrittenFile {
        path: format!("{}/{}/{KUSTOMIZATION}", input.folder, input.rest).into(),
        value: write_kustomization(&json!([]), Vec::new()),
    });
    Some(files)
}

fn write_kustomization(resources: &Value, patches: Vec<Value>) -> Value {
    let mut value = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    if !patches.is_empty() {
        value["patches"] = patches.into();
    }
    value
}

/// The operations on each object, by cluster.
pub(crate) fn collect_patches(
    overrides: &[OverrideIntent],
) -> BTreeMap<&ObjectRef, BTreeMap<&ClusterName, &[ManifestOperation]>> {
    let mut patches: BTreeMap<&ObjectRef, BTreeMap<&ClusterName, &[ManifestOperation]>> = BTreeMap::new();
    for one in overrides {
        for rule in &one.rules {
            let own = patches.entry(&one.object).or_default();
            own.extend(rule.clusters.iter().map(|cluster| (cluster, rule.operations.as_slice())));
        }
    }
    patches
}

/// What an overlay does to objects of one kind in one namespace. Deletions come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PatchKey<'i> {
    /// Whether the cluster receives the objects.
    is_placed: bool,
    api_version: &'i str,
    kind: &'i str,
    namespace: Option<&'i str>,
    /// The text of the operations.
    operations: String,
}

/// The names of the objects that each patch of an overlay changes. kustomize takes a while for every pair of a patch and an object,
/// so that equal patches are one.
type OverlayPatches<'i> = BTreeMap<PatchKey<'i>, Vec<&'i str>>;

fn write_patches(patches: &OverlayPatches<'_>) -> Vec<Value> {
    patches.iter().map(|(key, names)| write_patch(key, names)).collect()
}

fn write_patch(key: &PatchKey<'_>, names: &[&str]) -> Value {
    let mut patch = key.operations.clone();
    if !key.is_placed {
        let metadata = build_mapping([("name", json!(names.first())), ("namespace", json!(key.namespace))]);
        patch = to_text(&json!({
            "$patch": "delete",
            "apiVersion": key.api_version,
            "kind": key.kind,
            "metadata": metadata,
        }));
        if names.len() == 1 {
            return json!({"patch": patch});
        }
    }
    let (group, version) = key.api_version.split_once('/').unwrap_or(("", key.api_version));
    // The name is a regular expression.
    let name = names.join("|").replace('.', "\\.");
    let target = build_mapping([
        ("group", json!(group)),
        ("version", json!(version)),
        ("kind", json!(key.kind)),
        ("name", json!(if names.len() == 1 { name } else { format!("({name})") })),
        ("namespace", json!(key.namespace)),
    ]);
    json!({"target": target, "patch": patch})
}

fn write_operations(operations: &[ManifestOperation]) -> String {
    to_text(&operations.iter().map(write_patch_operation).collect())
}

/// Where a value has several lines, the path follows it: kustomize trims the text of a patch, and with it the last line break of a
/// value at its end.
fn write_patch_operation(operation: &ManifestOperation) -> Value {
    let mut written = write_operation(operation);
    let has_lines = written.get("value").is_some_and(|value| value.to_string().contains("\\n"));
    if let Some(fields) = written.as_object_mut().filter(|_| has_lines)
        && let Some(path) = fields.shift_remove("path")
    {
        fields.insert("path".to_owned(), path);
    }
    written
}

fn to_text(value: &Value) -> String {
    let mut text = String::new();
    federate_yaml::write_document(value, &mut text);
    text
}

/// The settings of such a repo. Clusters without an overlay get nothing.
pub(crate) fn write_settings(folder: &str, rest: &str) -> Value {
    json!([{"kustomize": format!("{folder}/{rest}"), "perCluster": format!("{folder}/{{cluster}}")}])
}
