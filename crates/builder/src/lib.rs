//! Builds kustomizations and charts with the programs `kustomize`, `kubectl` and `helm`.
//!
//! The files of a repo may be a stranger's. A program gets a copy of exactly the files that a build names, without links, in a
//! folder of its own; what is remote or outside of the repo is refused before anything starts. It runs with a cleared
//! environment, limits, and where the system has them, without network and without access to other files ([`confinement`]).
//! What it gives is kept by a digest of everything that it depends on ([`BuildCache`]), so that nothing is built twice.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use federate_repo::FileTree;
use federate_repo::build::{BuildError, BuildJob, BuildOutput, Builder};

mod cache;
mod chart;
mod ciphertext;
pub mod confinement;
mod inputs;
mod kustomization;
mod nondeterminism;
mod process;
mod program;
mod scratch;
mod sops;

pub use cache::BuildCache;
pub use program::{Program, ProgramPaths, Tool};
pub use sops::{DecryptionKeys, SopsDecryptor};

use inputs::BuildInputs;

/// Builds with the programs of this machine.
pub struct ProgramBuilder {
    paths: ProgramPaths,
    cache: BuildCache,
    /// The program that confines others: see [`confinement`].
    confiner: Option<PathBuf>,
    /// The inputs of charts, which several jobs share, by path.
    found: Mutex<BTreeMap<Tool, Result<Program, BuildError>>>,
}

impl ProgramBuilder {
    /// Builds with these programs. `confiner` is the executable that calls [`confinement::run_if_asked`] first; without it,
    /// programs have no limits but time and output.
    pub fn new(paths: ProgramPaths, cache: BuildCache, confiner: Option<PathBuf>) -> Self {
        Self { paths, cache, confiner, found: Mutex::default() }
    }

    fn find_program(&self, tool: Tool) -> Result<Program, BuildError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(tool).or_insert_with(|| self.paths.find_program(tool)).clone()
    }

    fn build_job(
        &self,
        job: &BuildJob,
        inputs: &Result<Arc<BuildInputs>, BuildError>,
    ) -> Result<BuildOutput, BuildError> {
        let inputs = inputs.as_ref().map_err(Clone::clone)?;
        let tool = Tool::from_job(job);
        let program = self.find_program(tool)?;
        let key = program.compute_key(job, inputs);
        let built = if let Some(built) = self.cache.get(&key) {
            built
        } else {
            let first = self.run_program(&program, job, inputs)?;
            let places = nondeterminism::find_places(inputs);
            // What draws random values or asks for the time gives something else each time.
            let differs = !places.is_empty() && self.run_program(&program, job, inputs)? != first;
            let built = cache::CachedBuild { text: first.into(), differs };
            self.cache.store_build(&key, &built);
            built
        };
        let mut warnings = inputs.list_warnings(job);
        warnings.extend(nondeterminism::list_warnings(job, inputs, built.differs));
        Ok(BuildOutput { text: built.text, inputs: inputs.listed.clone(), warnings })
    }

    fn run_program(
        &self,
        program: &Program,
        job: &BuildJob,
        inputs: &BuildInputs,
    ) -> Result<Vec<u8>, BuildError> {
        let folder = process::BuildFolder::new(inputs).map_err(|why| {
            error_of_run(&format!("the files cannot be copied to a temporary folder: {why}"))
        })?;
        let args = match job {
            BuildJob::Kustomization(job) => kustomization::list_arguments(program, &folder, job),
            BuildJob::Chart(chart) => chart::list_arguments(&folder, chart, inputs)
                .map_err(|why| error_of_run(&format!("the values cannot be written: {why}")))?,
        };
        folder.run_program(self.confiner.as_deref(), program, &args, &[]).map_err(|error| match job {
            BuildJob::Kustomization(_) => kustomization::explain_error(program, job, &error),
            BuildJob::Chart(chart) => chart::explain_error(program, chart, &error),
        })
    }
}

impl Builder for ProgramBuilder {
    fn build(&self, source: &dyn FileTree, jobs: &[BuildJob]) -> Vec<Result<BuildOutput, BuildError>> {
        // Jobs for different clusters mostly have the same chart.
        let paths: BTreeMap<(Tool, &str, Vec<String>), &BuildJob> =
            jobs.iter().map(|job| (inputs::key_of(job), job)).collect();
        let read: BTreeMap<_, Result<Arc<BuildInputs>, BuildError>> = paths
            .into_par_iter()
            .map(|(key, job)| (key, BuildInputs::read_job(source, job).map(Arc::new)))
            .collect();
        jobs.par_iter()
            .map(|job| match read.get(&inputs::key_of(job)) {
                Some(inputs) => self.build_job(job, inputs),
                None => Err(error_of_run("its files were not read")),
            })
            .collect()
    }
}

/// An error that no file of the repo causes.
fn error_of_run(why: &str) -> BuildError {
    BuildError { code: "build-failed", why: why.to_owned(), help: None, place: None }
}
