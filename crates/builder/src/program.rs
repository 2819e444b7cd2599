//! Finds the programs. Their paths come from options, the environment and `PATH`, never from a repo.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use federate_repo::build::{BuildError, BuildJob};

use crate::inputs::BuildInputs;

/// What is needed to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// `kustomize`, or `kubectl`, which contains it.
    Kustomize,
    /// `helm`.
    Helm,
    /// `sops`.
    Sops,
}

impl Tool {
    pub(crate) fn from_job(job: &BuildJob) -> Self {
        match job {
            BuildJob::Kustomization(_) => Self::Kustomize,
            BuildJob::Chart(_) => Self::Helm,
        }
    }
}

/// Where programs are.
#[derive(Clone, Debug, Default)]
pub struct ProgramPaths {
    /// `kustomize` or `kubectl`; empty for none.
    pub kustomize: Option<OsString>,
    /// `helm`; empty for none.
    pub helm: Option<OsString>,
    /// `sops`; empty for none.
    pub sops: Option<OsString>,
    /// The folders in which the others are searched.
    pub folders: Vec<PathBuf>,
}

/// A program on this machine.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// What the path, size and time of the file are: it changes with the program.
    identity: String,
    /// Whether it is `kubectl`.
    pub(crate) is_kubectl: bool,
}

impl ProgramPaths {
    /// Those that the environment names: `FEDERATE_KUSTOMIZE`, `FEDERATE_HELM`, `FEDERATE_SOPS` and `PATH`.
    pub fn from_environment() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A relative folder would be one of the repo.
        let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
        Self {
            kustomize: std::env::var_os("FEDERATE_KUSTOMIZE"),
            helm: std::env::var_os("FEDERATE_HELM"),
            sops: std::env::var_os("FEDERATE_SOPS"),
            folders,
        }
    }

    /// The path of a program in the folders.
    pub(crate) fn find_in_folders(&self, name: &str) -> Option<PathBuf> {
        let candidates = self.folders.iter().map(|folder| folder.join(name));
        candidates.into_iter().find_map(|path| Program::open_executable(&path)).map(|program| program.path)
    }

    /// The path of a tool; `None` if there is none.
    pub fn find_path(&self, tool: Tool) -> Option<PathBuf> {
        self.find_program(tool).ok().map(|program| program.path)
    }

    pub(crate) fn find_program(&self, tool: Tool) -> Result<Program, BuildError> {
        let (names, given, variable): (&[&str], _, _) = match tool {
            Tool::Kustomize => (&["kustomize", "kubectl"], &self.kustomize, "FEDERATE_KUSTOMIZE"),
            Tool::Helm => (&["helm"], &self.helm, "FEDERATE_HELM"),
            Tool::Sops => (&["sops"], &self.sops, "FEDERATE_SOPS"),
        };
        if let Some(given) = given {
            if given.is_empty() {
                return Err(missing_program(
                    &format!("{variable} is empty, so federate runs no such program"),
                    tool,
                ));
            }
            let path = Path::new(given);
            return Program::open_executable(path).ok_or_else(|| {
                missing_program(
                    &format!("{} ({variable}) is not a program with an absolute path", path.display()),
                    tool,
                )
            });
        }
        let mut candidates =
            names.iter().flat_map(|name| self.folders.iter().map(move |folder| folder.join(name)));
        let found = candidates.find_map(|path| Program::open_executable(&path));
        found.ok_or_else(|| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            missing_program(&format!("there is no program {}", names.join(" or ")), tool)
        })
    }
}

fn missing_program(why: &str, tool: Tool) -> BuildError {
    let help = match tool {
        Tool::Kustomize => {
            "install `kustomize` or `kubectl`, or name it in the environment variable FEDERATE_KUSTOMIZE"
        }
        Tool::Helm => "install `helm`, or name it in the environment variable FEDERATE_HELM",
        Tool::Sops => {
            "install `sops`, or name it with `--decrypt sops=PATH` or in the environment variable FEDERATE_SOPS"
        }
    };
    BuildError { code: "missing-program", why: why.to_owned(), help: Some(help.to_owned()), place: None }
}

impl Program {
    fn open_executable(path: &Path) -> Option<Self> {
        let real = fs::canonicalize(path).ok().filter(|_| path.is_absolute())?;
        let meta = fs::metadata(&real).ok()?;
        let is_program = meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        let identity = format!("{}\0{}\0{}.{}", real.display(), meta.len(), meta.mtime(), meta.mtime_nsec());
        let is_kubectl = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kubectl"));
        is_program.then_some(Self { path: path.to_owned(), identity, is_kubectl })
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// A digest of everything that the output of a job depends on. `post` is the program that changes what this one gives.
    pub(crate) fn compute_key(&self, job: &BuildJob, inputs: &BuildInputs, post: Option<&Self>) -> String {
        let mut sha = Sha256::new();
        let job = format!("{job:?}");
        let post = post.map_or("", |program| &program.identity);
        let version = env!("CARGO_PKG_VERSION");
        for part in
            [version.as_bytes(), self.identity.as_bytes(), job.as_bytes(), &inputs.digest, post.as_bytes()]
        {
            sha.update((part.len() as u64).to_be_bytes());
            sha.update(part);
        }
        sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}
