//! How kustomize is called, and what its errors mean.

use std::ffi::OsString;

use federate_repo::build::{BuildError, KustomizationJob};

use crate::process::{BuildFolder, ProcessError};
use crate::program::Program;

pub(crate) fn list_arguments(
    program: &Program,
    folder: &BuildFolder,
    job: &KustomizationJob,
) -> Vec<OsString> {
    let command = if program.is_kubectl { "kustomize" } else { "build" };
    let mut args: Vec<OsString> = vec![command.into(), folder.path_of(&job.folder).into()];
    if job.is_unrestricted {
        args.push("--load-restrictor=LoadRestrictionsNone".into());
    }
    args
}

/// What an error of kustomize means, which builds a folder.
pub(crate) fn explain_error(program: &Program, folder: &str, error: &ProcessError) -> BuildError {
    let text = error.describe_failure(&program.name());
    let mut why = text.strip_prefix("error: ").unwrap_or(&text).to_owned();
    let help = if why.contains("is not in or below") {
        Some(
            "move the file below the kustomization, or allow it: `sources: [{kustomize: FOLDER, loadRestrictor: none}]` in \
             federate.yaml"
                .replace("FOLDER", folder),
        )
    } else {
        None
    };
    if why.is_empty() {
        why = format!("{} failed without a message", program.name());
    }
    BuildError { code: error.code(), why, help, place: None }
}
