//! Sources that objects of Flux and Argo CD describe: what is built, for which clusters, and what their controllers change
//! afterwards.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use federate_file_tree::{CachedTree, EntryKind, FileTree, is_folder};
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, Severity};

use crate::flux::substitution::{Variables, substitute_variables};

/// The names of kustomizations.
pub const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The key of objects, as label or annotation, whose variables Flux leaves alone (`disabled`).
const SUBSTITUTE_KEY: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// What an object of Flux or Argo CD describes.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// What is built of it.
    pub sources: Vec<DescribedSource>,
    /// What is worth knowing about it, such as fields without effect here, or Applications that Argo CD leaves out.
    pub notes: Vec<Note>,
}

/// Something that is worth knowing about an object, which can be built anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// The code of its finding.
    pub code: &'static str,
    /// Where in the object.
    pub pointer: String,
    /// What it is, in a sentence without its first capital and its last full stop.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// A source that an object describes.
#[derive(Clone, Debug)]
pub struct DescribedSource {
    /// The folder or packaged chart.
    pub path: String,
    /// What is built of it.
    pub job: DescribedJob,
    /// The clusters that receive what is built; `None` for all.
    pub clusters: Option<BTreeSet<ClusterName>>,
    /// The namespace of objects without one.
    pub namespace: Option<String>,
    /// What the controller changes in what was built.
    pub changes: BuildChanges,
}

/// What is built.
#[derive(Clone, Debug)]
pub enum DescribedJob {
    /// A kustomization, or the files of a folder without one.
    Kustomization {
        /// The fields that are added to it.
        edits: Map<String, Value>,
        /// What stands for the kustomization in a folder without one.
        generation: FileGeneration,
    },
    /// A chart.
    Chart(DescribedChart),
}

/// A chart with its values.
#[derive(Clone, Debug, Default)]
pub struct DescribedChart {
    /// The name of the release.
    pub release: String,
    /// The namespace of the release.
    pub namespace: String,
    /// Values files of the repo; one that ends in `?` may be missing.
    pub values: Vec<String>,
    /// Values that win over those of the files.
    pub set: Map<String, Value>,
    /// Whether the folder `crds` is left out.
    pub skips_crds: bool,
    /// Whether the values files stand in place of the chart's own.
    pub replaces_values: bool,
}

/// What a controller changes after the build.
#[derive(Clone, Debug, Default)]
pub struct BuildChanges {
    /// Labels of every object.
    pub labels: Map<String, Value>,
    /// Annotations of every object.
    pub annotations: Map<String, Value>,
    /// The variables; `None` if there are none to substitute.
    pub variables: Option<Variables>,
}

/// What is wrong about an object that describes a source.
#[derive(Debug)]
pub struct DescriptionError {
    /// Where in the object.
    pub pointer: String,
    /// What is wrong, in a sentence without its first capital and its last full stop.
    pub why: String,
    /// What to do.
    pub help: Option<String>,
}

impl DescriptionError {
    /// An error about what is at a pointer.
    pub fn new(pointer: &str, why: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), why: why.into(), help: None }
    }

    /// Says what to do.
    #[must_use]
    pub fn with_help(self, help: &str) -> Self {
        Self { help: Some(help.to_owned()), ..self }
    }

    /// The finding about an object.
    pub fn into_finding(self, object: &Object) -> Finding {
        let message = format!("{} cannot be built: {}", object.id, self.why);
        let finding = Finding::error("build-failed", object, message).with_pointer(self.pointer.as_str());
        Finding { help: self.help, ..finding }
    }
}

impl Note {
    /// The finding about an object.
    pub fn into_finding(self, object: &Object) -> Finding {
        let finding = Finding::error(self.code, object, self.message).with_pointer(self.pointer.as_str());
        Finding { severity: self.severity, help: self.help, ..finding }
    }
}

impl DescribedSource {
    /// The clusters among these that receive what is built.
    pub fn select_clusters<'c>(&self, clusters: &'c [Cluster]) -> Vec<&'c Cluster> {
        let receives =
            |cluster: &&Cluster| self.clusters.as_ref().is_none_or(|names| names.contains(&cluster.name));
        clusters.iter().filter(receives).collect()
    }
}

/// The most bytes of the objects of a source together, after their variables are substituted: as many as a program may print.
const MAX_SUBSTITUTED_BYTES: usize = 64 << 20;

impl BuildChanges {
    /// Changes what was built.
    pub fn change_objects(&self, objects: Vec<Object>) -> Result<Vec<Object>, String> {
        let mut substituted = 0;
        objects.into_iter().map(|object| self.change_object(object, &mut substituted)).collect()
    }

    /// Changes an object. `substituted` counts the bytes of those in which variables were substituted.
    fn change_object(&self, mut object: Object, substituted: &mut usize) -> Result<Object, String> {
        let is_disabled =
            [object.label(SUBSTITUTE_KEY), object.annotation(SUBSTITUTE_KEY)].contains(&Some("disabled"));
        if let Some(variables) = self.variables.as_ref().filter(|_| !is_disabled) {
            let mut text = String::new();
            federate_yaml::write_as_go(&object.body, &mut text);
            if text.contains("${") {
                let explain = |why: String| format!("the variables of {}: {why}", object.id);
                let text = substitute_variables(&text, variables).map_err(explain)?;
                *substituted += text.len();
                if *substituted > MAX_SUBSTITUTED_BYTES {
                    let most = MAX_SUBSTITUTED_BYTES >> 20;
                    return Err(format!(
                        "the objects are larger than {most} MiB together with their variables"
                    ));
                }
                let body = federate_yaml::read_as_go(&text).map_err(|error| explain(error.to_string()))?;
                let origin = object.origin.clone();
                object = Object { origin, ..Object::from_manifest(body, "") };
            }
        }
        for (key, values) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            for (name, value) in values.iter().filter_map(|(name, value)| Some((name, value.as_str()?))) {
                if key == "labels" {
                    object.set_label(name, value);
                } else {
                    object.set_annotation(name, value);
                }
            }
        }
        Ok(object)
    }
}

/// What a folder of the repo holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderContent {
    Chart,
    Kustomization,
    Files,
}

/// What a folder holds; `None` if there is no such folder.
pub(crate) fn inspect_folder(tree: &CachedTree<'_>, folder: &str) -> Option<FolderContent> {
    let entries = Some(folder)
        .filter(|folder| is_folder(tree, folder))
        .and_then(|folder| tree.list_folder(folder).ok())?;
    let names: BTreeSet<&str> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::File)
        .map(|entry| entry.name.as_str())
        .collect();
    Some(if names.contains("Chart.yaml") {
        FolderContent::Chart
    } else if KUSTOMIZATIONS.iter().any(|name| names.contains(name)) {
        FolderContent::Kustomization
    } else {
        FolderContent::Files
    })
}

/// The strings of a list.
pub(crate) fn list_texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A map, which may be missing.
pub(crate) fn read_map(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Which files a generated kustomization lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileGeneration {
    /// None: a folder without a kustomization is an error.
    Never,
    /// The YAML and JSON files in the folder.
    Files,
    /// The YAML and JSON files in the folder and below it.
    AllFiles,
    /// The YAML files in the folder and below it; a folder below with a kustomization counts as one resource.
    Tree,
}

/// Whether a path is that of a packaged chart.
pub fn is_packaged_chart(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "tgz")
}

/// The path of a packaged chart, whose file is named `NAME-VERSION.tgz`, without the version and the extension.
pub fn strip_chart_version(path: &str) -> &str {
    let path = path.strip_suffix(".tgz").unwrap_or(path);
    let name = path.rfind('/').map_or(0, |at| at + 1);
    let mut hyphens = path.match_indices('-').map(|(at, _)| at).filter(|at| *at > name);
    let version = hyphens
        .find(|at| path.get(at + 1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    version.and_then(|at| path.get(..at)).unwrap_or(path)
}
