//! Sources that objects of Flux and Argo CD describe: what is built, for which clusters, and what their controllers change
//! afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use federate_kubernetes::{Cluster, ClusterName, Finding, Object};

use super::substitution::{Variables, substitute_variables};
use super::values::expand_values;
use super::{ApiClasses, CachedTree, KUSTOMIZATIONS, SourceRecord, is_folder};
use crate::build::{BuildJob, ChartJob, FileGeneration, KustomizationJob};
use crate::file_tree::{EntryKind, FileTree};

/// The key of objects, as label or annotation, whose variables Flux leaves alone (`disabled`).
const SUBSTITUTE_KEY: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// A source that an object describes.
#[derive(Clone, Debug)]
pub(super) struct DescribedSource {
    /// The folder or packaged chart.
    pub(super) path: String,
    pub(super) job: DescribedJob,
    /// The clusters that receive what is built; `None` for all.
    pub(super) clusters: Option<BTreeSet<ClusterName>>,
    /// The namespace of objects without one.
    pub(super) namespace: Option<String>,
    pub(super) changes: BuildChanges,
}

/// What is built.
#[derive(Clone, Debug)]
pub(super) enum DescribedJob {
    /// A kustomization, or the files of a folder without one.
    Kustomization { edits: Map<String, Value>, generation: FileGeneration },
    /// A chart.
    Chart(DescribedChart),
}

/// A chart with its values.
#[derive(Clone, Debug, Default)]
pub(super) struct DescribedChart {
    pub(super) release: String,
    pub(super) namespace: String,
    /// Values files of the repo; one that ends in `?` may be missing.
    pub(super) values: Vec<String>,
    pub(super) set: Map<String, Value>,
    pub(super) skips_crds: bool,
    /// Whether the values files stand in place of the chart's own.
    pub(super) replaces_values: bool,
}

/// What a controller changes after the build.
#[derive(Clone, Debug, Default)]
pub(super) struct BuildChanges {
    pub(super) labels: Map<String, Value>,
    pub(super) annotations: Map<String, Value>,
    /// The variables; `None` if there are none to substitute.
    pub(super) variables: Option<Variables>,
}

/// What is wrong about an object that describes a source.
#[derive(Debug)]
pub(super) struct DescriptionError {
    /// Where in the object.
    pub(super) pointer: String,
    pub(super) why: String,
    pub(super) help: Option<String>,
}

impl DescriptionError {
    pub(super) fn new(pointer: &str, why: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), why: why.into(), help: None }
    }

    pub(super) fn with_help(self, help: &str) -> Self {
        Self { help: Some(help.to_owned()), ..self }
    }

    /// The finding about an object.
    pub(super) fn into_finding(self, object: &Object) -> Finding {
        let message = format!("{} cannot be built: {}", object.id, self.why);
        let finding = Finding::error("build-failed", object, message).with_pointer(self.pointer.as_str());
        Finding { help: self.help, ..finding }
    }
}

impl DescribedSource {
    /// The job for a cluster; for no cluster in particular if there are none.
    pub(super) fn job_for(
        &self,
        tree: &CachedTree<'_>,
        cluster: Option<&Cluster>,
        apis: &ApiClasses,
    ) -> Result<BuildJob, DescriptionError> {
        let chart = match &self.job {
            DescribedJob::Kustomization { edits, generation } => {
                return Ok(BuildJob::Kustomization(Box::new(KustomizationJob {
                    folder: self.path.clone(),
                    // Flux restricts no files; Argo CD does, as kustomize by itself.
                    is_unrestricted: *generation == FileGeneration::Tree,
                    edits: if edits.is_empty() {
                        String::new()
                    } else {
                        Value::Object(edits.clone()).to_string()
                    },
                    generation: *generation,
                })));
            }
            DescribedJob::Chart(chart) => chart,
        };
        let values = expand_values(tree, &chart.values).map_err(|error| DescriptionError {
            pointer: String::new(),
            why: error.why,
            help: error.help,
        })?;
        Ok(BuildJob::Chart(Box::new(ChartJob {
            path: self.path.clone(),
            release: Some(chart.release.clone()),
            namespace: chart.namespace.clone(),
            values,
            replaces_values: chart.replaces_values,
            set: if chart.set.is_empty() {
                String::new()
            } else {
                Value::Object(chart.set.clone()).to_string()
            },
            kubernetes: cluster.and_then(|cluster| cluster.kubernetes.clone()),
            apis: cluster.map_or_else(|| Arc::from([]), |cluster| apis.list_for(cluster)),
            skips_crds: chart.skips_crds,
            drops_hooks: false,
        })))
    }

    /// What is noted of the source. `object` describes it.
    pub(super) fn to_record(&self, object: &Object) -> SourceRecord {
        let release = match &self.job {
            DescribedJob::Chart(chart) => Some(chart.release.clone()),
            DescribedJob::Kustomization { .. } => None,
        };
        SourceRecord {
            path: self.path.clone(),
            is_chart: release.is_some(),
            release,
            described_by: Some(object.id.clone()),
            ..SourceRecord::default()
        }
    }

    /// The clusters among these that receive what is built.
    pub(super) fn select_clusters<'c>(&self, clusters: &'c [Cluster]) -> Vec<&'c Cluster> {
        let receives =
            |cluster: &&Cluster| self.clusters.as_ref().is_none_or(|names| names.contains(&cluster.name));
        clusters.iter().filter(receives).collect()
    }
}

/// The most bytes of the objects of a source together, after their variables are substituted: as many as a program may print.
const MAX_SUBSTITUTED_BYTES: usize = 64 << 20;

impl BuildChanges {
    /// Changes what was built.
    pub(super) fn change_objects(&self, objects: Vec<Object>) -> Result<Vec<Object>, String> {
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
pub(super) enum FolderContent {
    Chart,
    Kustomization,
    Files,
}

/// What a folder holds; `None` if there is no such folder.
pub(super) fn inspect_folder(tree: &CachedTree<'_>, folder: &str) -> Option<FolderContent> {
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
pub(super) fn list_texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A map, which may be missing.
pub(super) fn read_map(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}
