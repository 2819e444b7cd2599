//! Decrypts files with the program `sops`.
//!
//! The files may be a stranger's, and name any key service. The program runs confined like those that build: without network,
//! with a cleared environment, and with the keys of age and PGP only. Its messages are not shown: they may quote values.
//!
//! Facts: sops' documentation of `SOPS_AGE_KEY`, `SOPS_AGE_KEY_FILE` and `SOPS_GPG_EXEC`; `gpg` looks for keys in `GNUPGHOME`,
//! and its agent, which ends with the namespace of the program, writes there.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use federate_kubernetes::sops::{EncryptedFile, SopsFormat, UnreadableFile};
use federate_repo::build::{BuildError, Decryptor};

use crate::confinement::Confiner;
use crate::inputs::BuildInputs;
use crate::process::{BuildFolder, ProcessError, TimeLimit};
use crate::program::{ProgramPaths, Tool};

/// The name of an encrypted file in the folder of the program, before its extension.
const FILE_NAME: &str = "encrypted";

/// Where keys are, from the environment.
#[derive(Clone, Debug, Default)]
pub struct DecryptionKeys {
    /// Keys of age: `SOPS_AGE_KEY`, and what is in the file that `SOPS_AGE_KEY_FILE` names.
    age: String,
    /// The folder of PGP's keys: `GNUPGHOME`.
    gnupg: Option<OsString>,
}

impl DecryptionKeys {
    /// Reads the environment. The error names the file that cannot be read.
    pub fn from_environment() -> Result<Self, String> {
        let mut age = std::env::var("SOPS_AGE_KEY").unwrap_or_default();
        if let Some(path) = std::env::var_os("SOPS_AGE_KEY_FILE").filter(|path| !path.is_empty()) {
            let text = fs::read_to_string(&path).map_err(|why| {
                format!(
                    "the file of SOPS_AGE_KEY_FILE, {}, cannot be read: {why}",
                    PathBuf::from(&path).display()
                )
            })?;
            if !age.is_empty() {
                age.push('\n');
            }
            age.push_str(&text);
        }
        Ok(Self { age, gnupg: std::env::var_os("GNUPGHOME").filter(|folder| !folder.is_empty()) })
    }
}

/// Decrypts with `sops`.
pub struct SopsDecryptor {
    paths: ProgramPaths,
    keys: DecryptionKeys,
    confiner: Confiner,
}

impl SopsDecryptor {
    /// Decrypts with these keys.
    pub fn new(paths: ProgramPaths, keys: DecryptionKeys, confiner: Confiner) -> Self {
        Self { paths, keys, confiner }
    }

    fn list_variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = Vec::new();
        if !self.keys.age.is_empty() {
            variables.push(("SOPS_AGE_KEY", OsString::from(&self.keys.age)));
        }
        if let (Some(folder), Some(gpg)) = (&self.keys.gnupg, self.paths.find_in_folders("gpg")) {
            variables.extend([("GNUPGHOME", folder.clone()), ("SOPS_GPG_EXEC", gpg.into_os_string())]);
        }
        variables
    }
}

impl Decryptor for SopsDecryptor {
    fn decrypt_file(&self, file: &EncryptedFile, output: SopsFormat) -> Result<Vec<u8>, BuildError> {
        if let Some(obstacle) = file.find_obstacle() {
            return Err(refuse_file(obstacle));
        }
        let program = self.paths.find_program(Tool::Sops)?;
        let input = file.text_format().name();
        let name = format!("{FILE_NAME}.{input}");
        let inputs = BuildInputs::from_file(&name, file.to_text().as_bytes());
        let folder = BuildFolder::new(&inputs).map_err(|why| {
            crate::error_of_run(&format!("the file cannot be copied to a temporary folder: {why}"))
        })?;
        let mut args: Vec<OsString> = vec!["--decrypt".into()];
        args.extend(["--input-type", input, "--output-type", output.name()].map(OsString::from));
        args.push(folder.path_of(&name).into());
        let run = folder.run_program(
            &self.confiner,
            &program,
            &args,
            &self.list_variables(),
            TimeLimit::of_program(),
        );
        run.map_err(|error| explain_error(&error))
    }
}

/// Why a file is not given to `sops`.
fn refuse_file(obstacle: UnreadableFile) -> BuildError {
    let (why, help) = match obstacle {
        UnreadableFile::OnlyServices => (
            "it names no key of age or PGP, and key services are never asked",
            "encrypt it for a key of age or PGP as well (`sops updatekeys`)",
        ),
        UnreadableFile::MayNameServices => (
            "it may name a key service, and key services are never asked",
            "encrypt it for keys of age or PGP only, or write it in another format than `.ini`",
        ),
        UnreadableFile::ChosenByComments => (
            "comments choose what is encrypted, which federate does not read",
            "choose it by keys (`encrypted_regex`)",
        ),
    };
    BuildError { code: "build-failed", why: why.to_owned(), help: Some(help.to_owned()), place: None }
}

/// What an error of sops means, without its words.
fn explain_error(error: &ProcessError) -> BuildError {
    let (why, help) = match error {
        ProcessError::Failed(message) if message.contains("data key") => (
            "none of the given keys decrypts it".to_owned(),
            "set SOPS_AGE_KEY, SOPS_AGE_KEY_FILE or GNUPGHOME to a key that the file is encrypted for (`sops updatekeys` adds \
             one); key services are never asked",
        ),
        ProcessError::Failed(message) if message.contains("MAC mismatch") => (
            "its MAC does not match, so that it was changed after it was encrypted".to_owned(),
            "restore the file, or edit it with `sops edit`",
        ),
        ProcessError::Failed(_) => (
            "sops fails, and its message is not shown, because it may quote values".to_owned(),
            "run `sops --decrypt` on the file to see the message",
        ),
        other => (other.describe_failure("sops"), "encrypt less in one file"),
    };
    BuildError { code: error.code(), why, help: Some(help.to_owned()), place: None }
}
