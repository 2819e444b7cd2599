//! What sources were built from, by which two revisions are compared.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_kubernetes::{ClusterName, ObjectRef};

use super::BuiltVariant;
use crate::build::{InputFile, is_packaged_chart, strip_chart_version};

/// A source of a repo, with the files that it was built from.
#[derive(Clone, Debug, Default)]
pub struct SourceRecord {
    /// The folder or packaged chart.
    pub path: String,
    /// Whether it is a chart.
    pub is_chart: bool,
    /// Its index in `sources` of the configuration; `None` if the configuration does not describe it.
    pub config_index: Option<usize>,
    /// The name of the release, if it is given.
    pub release: Option<String>,
    /// The object of Flux or Argo CD that describes it.
    pub described_by: Option<ObjectRef>,
    /// The objects through which that object was built, from the first one; none if it is written so in a file.
    pub chain: Vec<ObjectRef>,
    /// Where what is built is applied, if the object that describes it says so: an Application, or an object of Flux with `kubeConfig`.
    pub destination: Option<SourceDestination>,
    /// What was built; nothing if the source cannot be built.
    pub builds: Vec<SourceBuild>,
    /// The objects that were built.
    pub objects: BTreeSet<ObjectRef>,
}

/// Where the controller of an object applies what the object describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDestination {
    /// The name of the Application, which an `ApplicationSet` may generate, or of the object of Flux.
    pub name: String,
    /// The clusters; `None` for the one in which Argo CD runs, if it is not known which one that is.
    pub clusters: Option<BTreeSet<ClusterName>>,
}

/// The files that a source was built from for some clusters.
#[derive(Clone, Debug)]
pub struct SourceBuild {
    /// The clusters, sorted; none if it is for all.
    pub clusters: Vec<ClusterName>,
    /// The files, sorted by path. Builds of the same files share the list.
    pub files: Arc<[InputFile]>,
}

impl SourceRecord {
    /// The path, without the version and the extension of a packaged chart.
    pub fn unversioned_path(&self) -> &str {
        if is_packaged_chart(&self.path) { strip_chart_version(&self.path) } else { &self.path }
    }

    /// Adds what was built for some clusters.
    pub(crate) fn add_variant(&mut self, variant: &BuiltVariant) {
        self.builds.push(SourceBuild { clusters: variant.clusters.clone(), files: variant.inputs.clone() });
        for object in &variant.objects {
            if !self.objects.contains(&object.id) {
                self.objects.insert(object.id.clone());
            }
        }
    }
}
