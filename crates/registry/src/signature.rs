//! Signatures of artifacts, made by the program `cosign`, which has the keys or asks for an identity.

use std::process::{Command, Stdio};

use crate::address::ArtifactAddress;

/// The program.
const COSIGN: &str = "cosign";

/// Why there is no signature.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The program cannot be started.
    #[error("cannot run `cosign`: {0}; it signs artifacts: install it, or leave out --sign")]
    Start(#[from] std::io::Error),
    /// The program fails, and has said why.
    #[error("`cosign sign` failed for {0}: nothing was tagged")]
    Failed(String),
}

/// Signs an artifact by its digest: with `key`, a file or address that the program knows, or else by an identity, for which it
/// asks. Its messages go to standard error.
pub fn sign_artifact(
    address: &ArtifactAddress,
    digest: &str,
    key: Option<&str>,
    plain_http: bool,
) -> Result<(), SignatureError> {
    let name = format!("{}/{}@{digest}", address.host(), address.repository());
    let mut command = Command::new(COSIGN);
    command.args(["sign", "--yes"]);
    if let Some(key) = key {
        command.arg("--key").arg(key);
    }
    if plain_http {
        command.arg("--allow-http-registry");
    }
    // What it prints would be taken for results.
    let status = command.arg(&name).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(SignatureError::Failed(name)) }
}
