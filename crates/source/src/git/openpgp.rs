//! `OpenPGP` keys that may sign, in a keyring of their own.
//!
//! gpg runs with a home folder that exists for one verification. Only the keys that were imported there count: no
//! keyring, configuration or trust of the user does, no key is looked up elsewhere, and gpg starts no agent, which
//! it does not need for public keys. git decides by gpg's answer: a signature must be good now, so the key must
//! neither have expired nor be revoked.
//!
//! Facts: gpg(1), doc/DETAILS of `GnuPG` (lines of `--status-fd`), git-verify-commit(1) (`--raw`), RFC 9580 (armor).

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::verify_error::VerifyError;

/// The program.
pub(super) const GPG_PROGRAM: &str = "gpg";
/// The variable that names its home folder.
pub(super) const GPG_HOME_VARIABLE: &str = "GNUPGHOME";
/// How signatures begin.
pub(super) const SIGNATURE_MARK: &str = "-----BEGIN PGP SIGNATURE-----";
/// What to do if a revision has such a signature and there are no keys.
pub(super) const NO_KEYS: &str = "it has an OpenPGP signature, and the allowed signers have no OpenPGP key: add the \
                                  signer's public key (`gpg --armor --export`)";

const PUBLIC_KEY_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const PUBLIC_KEY_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
const PRIVATE_KEY_BEGIN: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// The configuration of gpg, which takes precedence over the system's.
const GPG_CONFIGURATION: &str = "batch
no-tty
no-autostart
disable-dirmngr
no-auto-key-retrieve
no-auto-check-trustdb
# Whoever wrote the list trusts its keys.
trust-model always
";

/// An armored key, and where it is.
pub(super) struct KeyBlock {
    place: String,
    text: Vec<u8>,
}

/// Divides a text into armored public keys and everything else, in which their lines are empty.
pub(super) fn split_key_blocks(name: &str, text: &[u8]) -> Result<(Vec<u8>, Vec<KeyBlock>), VerifyError> {
    let (mut rest, mut found) = (Vec::new(), Vec::new());
    let mut open: Option<KeyBlock> = None;
    for (at, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let trimmed = line.trim_ascii();
        if trimmed == PRIVATE_KEY_BEGIN.as_bytes() {
            let why = "this is a private OpenPGP key: list the public one (`gpg --armor --export`), and replace this key \
                       if others could read it";
            return Err(VerifyError::Key { place: format!("{name}, line {at}"), why: why.to_owned() });
        }
        if open.is_none() && trimmed == PUBLIC_KEY_BEGIN.as_bytes() {
            open = Some(KeyBlock { place: format!("{name}, line {at}"), text: Vec::new() });
        }
        if let Some(block) = &mut open {
            block.text.extend_from_slice(line);
            block.text.push(b'\n');
        } else {
            rest.extend_from_slice(line);
        }
        rest.push(b'\n');
        if trimmed == PUBLIC_KEY_END.as_bytes() {
            found.extend(open.take());
        }
    }
    match open {
        Some(block) => {
            let why = "this OpenPGP key has no end: copy it again".to_owned();
            Err(VerifyError::Key { place: block.place, why })
        }
        None => Ok((rest, found)),
    }
}

/// A keyring.
#[derive(Debug)]
pub(super) struct Keyring {
    home: PathBuf,
    /// The fingerprints of its keys.
    keys: BTreeSet<String>,
}

impl Keyring {
    /// Imports keys into a new home folder of gpg; `None` if there are none.
    pub(super) fn import_blocks(home: &Path, blocks: &[KeyBlock]) -> Result<Option<Self>, VerifyError> {
        if blocks.is_empty() {
            return Ok(None);
        }
        DirBuilder::new().mode(0o700).create(home)?;
        fs::write(home.join("gpg.conf"), GPG_CONFIGURATION)?;
        let mut keyring = Self { home: home.to_owned(), keys: BTreeSet::new() };
        for block in blocks {
            keyring.import_block(block)?;
        }
        Ok(Some(keyring))
    }

    /// The home folder of gpg.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    fn import_block(&mut self, block: &KeyBlock) -> Result<(), VerifyError> {
        let mut command = Command::new(GPG_PROGRAM);
        command
            .args(["--quiet", "--status-fd=1", "--import"])
            .env(GPG_HOME_VARIABLE, &self.home)
            .env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(VerifyError::Gpg)?;
        if let Some(mut input) = child.stdin.take() {
            // A gpg that ends before it has read everything reports the reason itself.
            let _ = input.write_all(&block.text);
        }
        let output = child.wait_with_output().map_err(VerifyError::Gpg)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // What was done to the key, and its fingerprint.
        let imported =
            status_lines(&said).filter_map(|status| status.strip_prefix("IMPORT_OK ")?.split_once(' '));
        let imported: Vec<String> = imported.map(|(_, key)| key.to_owned()).collect();
        if imported.is_empty() || !output.status.success() {
            let why = "gpg cannot import this OpenPGP key: export it again (`gpg --armor --export`)";
            return Err(VerifyError::Key { place: block.place.clone(), why: why.to_owned() });
        }
        self.keys.extend(imported);
        Ok(())
    }

    /// Checks that a signature that git accepts is by a key of this keyring, by what gpg said. What ssh-keygen says is
    /// not in lines of status.
    pub(super) fn check_signer(&self, said: &str) -> Result<(), String> {
        // The last field is the fingerprint of the primary key.
        let valid = status_lines(said)
            .filter_map(|status| status.strip_prefix("VALIDSIG ")?.rsplit(' ').next().map(str::to_owned));
        let valid: Vec<String> = valid.collect();
        let by_gpg = status_lines(said).next().is_some();
        if by_gpg && (valid.is_empty() || !valid.iter().all(|key| self.keys.contains(key))) {
            return Err("the signature is by a key that is not among the allowed signers".to_owned());
        }
        Ok(())
    }
}

/// The lines of gpg's status.
fn status_lines(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.strip_prefix("[GNUPG:] "))
}

/// Why gpg does not accept a signature, and what to do; `None` if another program refused it.
pub(super) fn explain_refusal(said: &str) -> Option<String> {
    const STATUS_REASONS: [(&str, &str); 6] = [
        ("REVKEYSIG", "has been revoked: sign the revision with another key"),
        (
            "EXPKEYSIG",
            "has expired: sign the revision with another key, or extend this one and list it again",
        ),
        ("EXPSIG", "has made a signature that has expired: sign the revision again"),
        ("BADSIG", "has not signed this: the revision or its signature was changed"),
        (
            "NO_PUBKEY",
            "is not among the allowed signers: add its public key (`gpg --armor --export`) if it may sign",
        ),
        ("ERRSIG", "has made a signature that gpg cannot verify: sign the revision again"),
    ];
    // Lines are joined with semicolons.
    let mut statuses = said.split("[GNUPG:] ").skip(1).map(|status| status.split([' ', ';']));
    let words: Vec<(&str, &str)> = statuses
        .by_ref()
        .filter_map(|mut words| Some((words.next()?, words.next().unwrap_or_default())))
        .collect();
    if words.is_empty() {
        return None;
    }
    let found = STATUS_REASONS.iter().find_map(|(status, why)| {
        let (_, key) = words.iter().find(|(word, _)| word == status)?;
        Some(format!("the OpenPGP key {key} {why}"))
    });
    Some(found.unwrap_or_else(|| "gpg does not accept the signature: sign the revision again".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_separated_from_other_lines() {
        let text = format!(
            "dev ssh-ed25519 AAAA\r\n{PUBLIC_KEY_BEGIN}\r\n\r\nmDME\r\n{PUBLIC_KEY_END}\r\nops ssh-ed25519 BBBB\n"
        );
        let (rest, found) = split_key_blocks("list", text.as_bytes()).unwrap();
        assert_eq!(rest, b"dev ssh-ed25519 AAAA\r\n\n\n\n\nops ssh-ed25519 BBBB\n\n");
        assert_eq!((found.len(), &*found[0].place), (1, "list, line 2"));
        assert!(found[0].text.starts_with(PUBLIC_KEY_BEGIN.as_bytes()));
        let refused =
            |text: &str| split_key_blocks("list", text.as_bytes()).map(drop).unwrap_err().to_string();
        assert!(
            refused(&format!("\n{PUBLIC_KEY_BEGIN}\nmDME\n"))
                .starts_with("list, line 2: this OpenPGP key has no end")
        );
        assert!(refused(PRIVATE_KEY_BEGIN).starts_with("list, line 1: this is a private OpenPGP key"));
    }

    #[test]
    fn what_gpg_says_is_explained() {
        let said = "`git verify-commit` failed: [GNUPG:] NEWSIG; [GNUPG:] KEYEXPIRED 1; [GNUPG:] EXPKEYSIG AB12 dev <d@e>; \
                    [GNUPG:] VALIDSIG 00";
        assert!(explain_refusal(said).unwrap().starts_with("the OpenPGP key AB12 has expired: "));
        let said = "x; [GNUPG:] ERRSIG AB12 22 8 00 1 9 -; [GNUPG:] NO_PUBKEY AB12";
        assert!(
            explain_refusal(said)
                .unwrap()
                .starts_with("the OpenPGP key AB12 is not among the allowed signers: ")
        );
        assert_eq!(explain_refusal("`git verify-commit` failed: Could not verify signature."), None);
    }

    #[test]
    fn only_keys_of_the_keyring_count() {
        let keyring = Keyring { home: PathBuf::new(), keys: BTreeSet::from(["AB".to_owned()]) };
        keyring.check_signer("Good \"git\" signature for dev@example.com with ED25519 key").unwrap();
        keyring.check_signer("[GNUPG:] GOODSIG 1 dev\n[GNUPG:] VALIDSIG CD 2026 AB\n").unwrap();
        keyring.check_signer("[GNUPG:] GOODSIG 1 dev\n[GNUPG:] VALIDSIG CD 2026 EF\n").unwrap_err();
        keyring.check_signer("[GNUPG:] GOODSIG 1 dev\n").unwrap_err();
    }
}
