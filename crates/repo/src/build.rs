//! What programs build from files of a repo: the jobs, and their results. The crate `federate-builder` runs the programs; this
//! crate knows none of them.

use std::sync::Arc;

use crate::source::Source;

/// Builds objects from files.
pub trait Builder: Send + Sync {
    /// Runs the jobs, which are all different. The results are in the same order.
    fn build(&self, source: &dyn Source, jobs: &[BuildJob]) -> Vec<Result<BuildOutput, BuildError>>;
}

/// Something to build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuildJob {
    /// A kustomization.
    Kustomization {
        /// Its folder.
        folder: String,
        /// Whether it may use all files of the repo.
        is_unrestricted: bool,
    },
    /// A chart.
    Chart(Box<ChartJob>),
}

/// A chart with its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChartJob {
    /// The folder or the packaged chart.
    pub path: String,
    /// The name of the release; that of the chart by default.
    pub release: Option<String>,
    /// The namespace of the release.
    pub namespace: String,
    /// Values files, in order.
    pub values: Vec<String>,
    /// Values that win over the files, as JSON; empty for none.
    pub set: String,
    /// The version of Kubernetes, if known.
    pub kubernetes: Option<String>,
    /// The API versions that the cluster serves, with and without a kind; empty if unknown.
    pub apis: Arc<[String]>,
    /// Whether the folder `crds` is left out.
    pub skips_crds: bool,
    /// Whether hooks are left out.
    pub drops_hooks: bool,
}

/// Whether a path is that of a packaged chart.
pub fn is_packaged_chart(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "tgz")
}

/// What a job gave.
#[derive(Clone, Debug)]
pub struct BuildOutput {
    /// The documents.
    pub text: Arc<[u8]>,
    /// The files that it was built from, sorted.
    pub inputs: Arc<[String]>,
    /// What is worth knowing about it.
    pub warnings: Vec<BuildWarning>,
}

/// Something about an output that is worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildWarning {
    /// The code of the finding.
    pub code: &'static str,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// The file, and the line from 1; 0 for the file as a whole.
    pub place: Option<(String, u32)>,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The code of the finding.
    pub code: &'static str,
    /// Why, as the end of a sentence.
    pub why: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The file, and the line from 1; 0 for the file as a whole.
    pub place: Option<(String, u32)>,
}

impl BuildJob {
    /// The folder or packaged chart.
    pub fn path(&self) -> &str {
        match self {
            Self::Kustomization { folder, .. } => folder,
            Self::Chart(job) => &job.path,
        }
    }
}
