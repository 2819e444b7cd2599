//! What programs build from files of a repo: the jobs, and their results. The crate `federate-builder` runs the programs; this
//! crate knows none of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use federate_kubernetes::sops::{EncryptedFile, SopsFormat};

use federate_file_tree::FileTree;

pub use federate_gitops::{
    ChartParameter, HookRendering, KustomizationRules, PostRendering, is_packaged_chart, strip_chart_version,
};

/// Builds objects from files.
pub trait Builder: Send + Sync {
    /// Runs the jobs, which are all different. The results are in the same order. `taken` is the time of the jobs of the run so far,
    /// to which the builder adds that of these jobs.
    fn build(
        &self,
        tree: &dyn FileTree,
        jobs: &[BuildJob],
        taken: &BuildTime,
    ) -> Vec<Result<BuildOutput, BuildError>>;
}

/// The time that the programs of a run have taken together.
#[derive(Debug, Default)]
pub struct BuildTime(Mutex<Duration>);

impl BuildTime {
    /// The time so far.
    pub fn duration(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what further programs have taken.
    pub fn add(&self, taken: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += taken;
    }
}

/// Decrypts files of a repo.
pub trait Decryptor: Send + Sync {
    /// The text of a file that SOPS encrypted, in clear and in a format. The error has none of its values.
    fn decrypt_file(&self, file: &EncryptedFile, output: SopsFormat) -> Result<Vec<u8>, BuildError>;
}

/// Something to build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuildJob {
    /// A kustomization.
    Kustomization(Box<KustomizationJob>),
    /// A chart.
    Chart(Box<ChartJob>),
}

/// A kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KustomizationJob {
    /// Its folder.
    pub folder: String,
    /// Whether it may use all files of the repo.
    pub is_unrestricted: bool,
    /// Fields to add to it, as JSON; empty for none. Lists are appended, images and replicas by their names. `addLabels` and
    /// `addAnnotations` add to its common labels and annotations.
    pub edits: String,
    /// By whose rules it is changed and built.
    pub rules: KustomizationRules,
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
    /// Whether the values files stand in place of the chart's own, which is left out.
    pub replaces_values: bool,
    /// Values that win over the files, as JSON; empty for none.
    pub set: String,
    /// Values that win over all others.
    pub parameters: Vec<ChartParameter>,
    /// The version of Kubernetes, if known.
    pub kubernetes: Option<String>,
    /// The API versions that the cluster serves, with and without a kind; empty if unknown.
    pub apis: Arc<[String]>,
    /// Whether the folder `crds` is left out.
    pub skips_crds: bool,
    /// Whether hooks are left out.
    pub drops_hooks: bool,
    /// Whether values are not compared with the chart's schema.
    pub skips_schema: bool,
    /// What is changed in the rendered manifests.
    pub post_rendering: PostRendering,
}

/// What a job gave.
#[derive(Clone, Debug)]
pub struct BuildOutput {
    /// The documents.
    pub text: Arc<[u8]>,
    /// The files that it was built from, sorted.
    pub inputs: Arc<[InputFile]>,
    /// What is worth knowing about it.
    pub warnings: Vec<BuildWarning>,
    /// Whether the annotations with the origins of objects belong to them, because the kustomization asks for them itself.
    pub keeps_origins: bool,
}

/// A file that something was built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// The path.
    pub path: String,
    /// A digest of the content.
    pub digest: [u8; 32],
    /// The content, if SOPS encrypted it.
    pub encrypted: Option<Arc<[u8]>>,
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
            Self::Kustomization(job) => &job.folder,
            Self::Chart(job) => &job.path,
        }
    }
}
