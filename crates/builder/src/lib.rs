//! Builds kustomizations and charts with the programs `kustomize`, `kubectl` and `helm`.
//!
//! The files of a repo may be a stranger's. A program gets a copy of exactly the files that a build names, without links, in a
//! folder of its own; what is remote or outside of the repo is refused before anything starts. It runs with a cleared
//! environment, limits, and where the system has them, without network and without access to other files ([`confinement`]).
//! What it gives is kept by a digest of everything that it depends on ([`BuildCache`]), so that nothing is built twice.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use rayon::prelude::*;

use federate_repo::FileTree;
use federate_repo::build::{BuildError, BuildJob, BuildOutput, BuildTime, Builder};

mod cache;
mod chart;
mod ciphertext;
pub mod confinement;
mod inputs;
mod kustomization;
mod network;
mod nondeterminism;
mod post_render;
mod process;
mod program;
mod scratch;
mod sops;

pub use cache::BuildCache;
pub use confinement::{Confinement, Confiner};
pub use inputs::{PackedFile, list_kustomization_files, unpack_chart};
pub use network::NetworkedProgram;
pub use program::{Program, ProgramPaths, Tool};
pub use sops::{DecryptionKeys, SopsDecryptor};

use inputs::BuildInputs;
use process::{ProcessError, RunTime, TimeLimit};

/// How long the programs of a run may take together by default: the time that passes while at least one of them runs.
pub const DEFAULT_RUN_TIME: Duration = Duration::from_mins(10);

/// What to do if the programs of a run take longer.
const RUN_TIME_HELP: &str =
    "run it again: what was built is in the cache, and takes no time; or allow more with `--build-time`";

/// Builds with the programs of this machine.
pub struct ProgramBuilder {
    paths: ProgramPaths,
    cache: BuildCache,
    confiner: Confiner,
    run_time: Duration,
    /// Called once with a sentence if programs are not confined.
    notice: fn(&str),
    /// Called with how many builds are done, of how many.
    progress: fn(usize, usize),
    /// What this machine confines programs by, and whether that was said if it is little.
    confinement: OnceLock<Confinement>,
    noticed: Once,
    /// The programs that were searched.
    found: Mutex<BTreeMap<Tool, Result<Program, BuildError>>>,
}

impl ProgramBuilder {
    /// Builds with these programs.
    pub fn new(paths: ProgramPaths, cache: BuildCache, confiner: Confiner) -> Self {
        Self {
            paths,
            cache,
            confiner,
            run_time: DEFAULT_RUN_TIME,
            notice: |_| {},
            progress: |_, _| {},
            confinement: OnceLock::new(),
            noticed: Once::new(),
            found: Mutex::default(),
        }
    }

    /// Calls this once, with a sentence, before a program starts that is not confined.
    #[must_use]
    pub fn with_notice(self, notice: fn(&str)) -> Self {
        Self { notice, ..self }
    }

    /// Calls this before and after each build of a run, from any thread, with how many are done, of how many.
    #[must_use]
    pub fn with_progress(self, progress: fn(usize, usize)) -> Self {
        Self { progress, ..self }
    }

    /// Lets the programs of a run take this time together.
    #[must_use]
    pub fn with_run_time(self, run_time: Duration) -> Self {
        Self { run_time, ..self }
    }

    /// Refuses to start a program, or says so, where programs are not confined.
    fn check_confinement(&self) -> Result<(), BuildError> {
        let confinement = self.confinement.get_or_init(|| self.confiner.probe());
        let Some(gap) = confinement.describe_gap() else { return Ok(()) };
        if self.confiner.is_required {
            return Err(BuildError {
                code: "build-unconfined",
                why: format!("this system does not confine the programs that build, so that {gap}"),
                help: Some(
                    "run `federate doctor` to see what the system lacks; if you trust the repo, set \
                     FEDERATE_REQUIRE_CONFINEMENT=false"
                        .to_owned(),
                ),
                place: None,
            });
        }
        self.noticed.call_once(|| {
            (self.notice)(&format!(
                "this system does not confine the programs that build, so that {gap}: `federate doctor` shows what it lacks, \
                 and `--require-confinement` refuses to build"
            ));
        });
        Ok(())
    }

    fn find_program(&self, tool: Tool) -> Result<Program, BuildError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(tool).or_insert_with(|| self.paths.find_program(tool)).clone()
    }

    fn build_job(
        &self,
        job: &BuildJob,
        inputs: &Result<Arc<BuildInputs>, BuildError>,
        time: &RunTime,
    ) -> Result<BuildOutput, BuildError> {
        let inputs = inputs.as_ref().map_err(Clone::clone)?;
        let tool = Tool::from_job(job);
        let program = self.find_program(tool)?;
        let post_program = match job {
            BuildJob::Chart(chart) if !chart.post_rendering.kustomizations.is_empty() => {
                Some(self.find_program(Tool::Kustomize)?)
            }
            _ => None,
        };
        let programs = JobPrograms { main: program, post: post_program };
        let key = programs.main.compute_key(job, inputs, programs.post.as_ref());
        let built = if let Some(built) = self.cache.get(&key) {
            built
        } else {
            self.check_confinement()?;
            let first = self.run_programs(&programs, job, inputs, time)?;
            let places = nondeterminism::find_places(inputs);
            // What draws random values or asks for the time gives something else each time.
            let differs = !places.is_empty() && self.run_programs(&programs, job, inputs, time)? != first;
            let built = cache::CachedBuild { text: first.into(), differs };
            self.cache.store_build(&key, &built);
            built
        };
        let mut warnings = inputs.list_warnings(job);
        warnings.extend(nondeterminism::list_warnings(job, inputs, built.differs));
        Ok(BuildOutput {
            text: built.text,
            inputs: inputs.listed.clone(),
            warnings,
            keeps_origins: inputs.keeps_origins,
        })
    }

    /// Runs the program of a job, and the one that changes what it gives.
    fn run_programs(
        &self,
        programs: &JobPrograms,
        job: &BuildJob,
        inputs: &BuildInputs,
        time: &RunTime,
    ) -> Result<Vec<u8>, BuildError> {
        let output = self.run_program(&programs.main, job, inputs, time)?;
        let (BuildJob::Chart(chart), Some(program)) = (job, &programs.post) else { return Ok(output) };
        let limit = || time.start_program().map_err(|error| explain_error(program, job, &error));
        self.post_render(program, &chart.post_rendering, &output, &limit)
    }

    fn run_program(
        &self,
        program: &Program,
        job: &BuildJob,
        inputs: &BuildInputs,
        time: &RunTime,
    ) -> Result<Vec<u8>, BuildError> {
        let limit = time.start_program().map_err(|error| explain_error(program, job, &error))?;
        let folder = process::BuildFolder::new(inputs).map_err(|why| {
            error_of_run(&format!("the files cannot be copied to a temporary folder: {why}"))
        })?;
        let args = match job {
            BuildJob::Kustomization(job) => kustomization::list_arguments(program, &folder, job),
            BuildJob::Chart(chart) => chart::list_arguments(&folder, chart, inputs)
                .map_err(|why| error_of_run(&format!("the values cannot be written: {why}")))?,
        };
        let ran = self.run_in_folder(&folder, program, &args, limit);
        ran.map_err(|error| explain_error(program, job, &error))
    }

    fn run_in_folder(
        &self,
        folder: &process::BuildFolder,
        program: &Program,
        args: &[OsString],
        limit: TimeLimit,
    ) -> Result<Vec<u8>, ProcessError> {
        folder.run_program(&self.confiner, program, args, &[], limit)
    }
}

/// The programs of a job.
struct JobPrograms {
    main: Program,
    /// The kustomize that changes what a chart gives.
    post: Option<Program>,
}

fn explain_error(program: &Program, job: &BuildJob, error: &ProcessError) -> BuildError {
    let explained = match job {
        BuildJob::Kustomization(job) => kustomization::explain_error(program, &job.folder, error),
        BuildJob::Chart(chart) => chart::explain_error(program, chart, error),
    };
    match error {
        ProcessError::RunTime(_) => BuildError { help: Some(RUN_TIME_HELP.to_owned()), ..explained },
        _ => explained,
    }
}

impl Builder for ProgramBuilder {
    fn build(
        &self,
        source: &dyn FileTree,
        jobs: &[BuildJob],
        taken: &BuildTime,
    ) -> Vec<Result<BuildOutput, BuildError>> {
        // Jobs for different clusters mostly have the same chart.
        let paths: BTreeMap<(Tool, &str, Vec<String>), &BuildJob> =
            jobs.iter().map(|job| (inputs::key_of(job), job)).collect();
        let read: BTreeMap<_, Result<Arc<BuildInputs>, BuildError>> = paths
            .into_par_iter()
            .map(|(key, job)| (key, BuildInputs::read_job(source, job).map(Arc::new)))
            .collect();
        let time = RunTime::new(self.run_time, taken.duration());
        let done = AtomicUsize::new(0);
        (self.progress)(0, jobs.len());
        let built = jobs
            .par_iter()
            .map(|job| {
                let built = match read.get(&inputs::key_of(job)) {
                    Some(inputs) => self.build_job(job, inputs, &time),
                    None => Err(error_of_run("its files were not read")),
                };
                (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                built
            })
            .collect();
        taken.add(time.elapsed());
        built
    }
}

/// An error that no file of the repo causes.
fn error_of_run(why: &str) -> BuildError {
    BuildError { code: "build-failed", why: why.to_owned(), help: None, place: None }
}
