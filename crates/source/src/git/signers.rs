//! The keys of the allowed signers, as the programs that verify signatures read them.
//!
//! A signature must be good when it is read. git asks ssh-keygen whether a key was good at the time that the committer or the
//! tagger wrote down, which whoever has an expired key can choose. So ssh-keygen runs without that time.
//!
//! A list has lines of OpenSSH's allowed signers, blocks of armored `OpenPGP` public keys, or both. ssh-keygen gets a file
//! without the blocks, and gpg a keyring of nothing but them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::leftovers;
use super::openpgp::{self, Keyring};
use super::verify_error::VerifyError;

/// Whose signatures count.
#[derive(Clone, Copy, Debug)]
pub enum AllowedSigners<'s> {
    /// Those in the file that the user's git configuration names.
    Configured,
    /// Those in a file.
    File(&'s Path),
    /// Those in texts, by the names that the texts have in messages.
    Texts(&'s BTreeMap<String, Vec<u8>>),
}

impl<'s> From<Option<&'s Path>> for AllowedSigners<'s> {
    fn from(file: Option<&'s Path>) -> Self {
        file.map_or(Self::Configured, Self::File)
    }
}

/// The keys; the files exist as long as this does.
#[derive(Debug)]
pub(super) struct KeyFiles {
    /// A file with lines of allowed signers.
    pub(super) ssh: PathBuf,
    /// The `OpenPGP` keys, if there are any.
    pub(super) openpgp: Option<Keyring>,
    folder: TempDir,
}

/// Runs ssh-keygen at the present time. `PROGRAM` is replaced by its name, in quotes.
const SSH_PROGRAM: &str = "#!/bin/sh
for argument do
  shift
  case $argument in
    -Overify-time=*) ;;
    *) set -- \"$@\" \"$argument\" ;;
  esac
done
exec PROGRAM \"$@\"
";

impl KeyFiles {
    /// The keys in a file.
    pub(super) fn from_file(file: &Path, text: &[u8]) -> Result<Self, VerifyError> {
        let name = format!("the allowed signers {}", file.display());
        let mut keys = Self::from_named_texts([(&*name, text)])?;
        if keys.openpgp.is_none() {
            // Messages of ssh-keygen name the file.
            file.clone_into(&mut keys.ssh);
        }
        Ok(keys)
    }

    /// The keys in texts.
    pub(super) fn from_texts(texts: &BTreeMap<String, Vec<u8>>) -> Result<Self, VerifyError> {
        Self::from_named_texts(texts.iter().map(|(name, text)| (&**name, &**text)))
    }

    fn from_named_texts<'t>(
        texts: impl IntoIterator<Item = (&'t str, &'t [u8])>,
    ) -> Result<Self, VerifyError> {
        let folder = leftovers::create_folder()?;
        let (mut lines, mut blocks) = (Vec::new(), Vec::new());
        for (name, text) in texts {
            let (rest, found) = openpgp::split_key_blocks(name, text)?;
            lines.extend_from_slice(&rest);
            blocks.extend(found);
        }
        let ssh = folder.path().join("allowed_signers");
        fs::write(&ssh, lines)?;
        let openpgp = Keyring::import_blocks(&folder.path().join("gnupg"), &blocks)?;
        Ok(Self { ssh, openpgp, folder })
    }

    /// A program that verifies signatures with this ssh-keygen, at the present time.
    pub(super) fn ssh_program(&self, ssh_keygen: &str) -> io::Result<PathBuf> {
        let path = self.folder.path().join("ssh-keygen");
        let quoted = format!("'{}'", ssh_keygen.replace('\'', r"'\''"));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        file.write_all(SSH_PROGRAM.replace("PROGRAM", &quoted).as_bytes())?;
        Ok(path)
    }
}
