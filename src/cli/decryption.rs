//! `--decrypt`: what SOPS encrypted is sent to clusters in clear.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::CommandError;
use super::builds::confiner;
use federate_builder::{DecryptionKeys, ProgramPaths, SopsDecryptor};
use federate_repo::build::Decryptor;

/// The program of `--decrypt`.
const SOPS: &str = "sops";

/// Arguments about decryption.
#[derive(Debug, Args)]
pub(super) struct DecryptionArgs {
    /// Decrypt what SOPS encrypted before it is sent to clusters: `sops`, or `sops=PATH` for the program's path
    ///
    /// Keys of age come from `SOPS_AGE_KEY` and the file that `SOPS_AGE_KEY_FILE` names, keys of PGP from GNUPGHOME. Plain
    /// text is kept in memory only. Without this, `apply` and `sync` refuse objects that are encrypted.
    #[arg(long, value_name = "PROGRAM", value_parser = parse_program, hide_short_help = true)]
    decrypt: Option<SopsProgram>,
}

/// The program, with its path, if that is given.
#[derive(Clone, Debug)]
struct SopsProgram {
    path: Option<PathBuf>,
}

fn parse_program(text: &str) -> Result<SopsProgram, &'static str> {
    match text.strip_prefix(SOPS) {
        Some("") => Ok(SopsProgram { path: None }),
        Some(rest) if rest.starts_with("=/") => Ok(SopsProgram { path: Some(PathBuf::from(&rest[1..])) }),
        _ => Err("write it as `sops`, or as `sops=PATH` with an absolute path"),
    }
}

impl DecryptionArgs {
    /// What decrypts; `None` if nothing is to be decrypted.
    pub(super) fn open_decryptor(&self) -> Result<Option<Arc<dyn Decryptor>>, CommandError> {
        let Some(program) = &self.decrypt else { return Ok(None) };
        let mut paths = ProgramPaths::from_environment();
        if let Some(path) = &program.path {
            paths.sops = Some(path.clone().into_os_string());
        }
        let keys = DecryptionKeys::from_environment().map_err(CommandError::Failed)?;
        Ok(Some(Arc::new(SopsDecryptor::new(paths, keys, confiner()))))
    }
}
