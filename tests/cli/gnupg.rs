//! `OpenPGP` keys that exist as long as a test: in a home folder of gpg with a short path, because the path of its
//! agent's socket is bounded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A time at which keys are made that have expired since.
const LONG_AGO: &str = "--faked-system-time=20200101T000000";

/// A home folder of gpg.
pub(crate) struct Gnupg(TempDir);

impl Gnupg {
    pub(crate) fn new() -> Self {
        let gnupg = Self(tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap());
        for (name, more) in [("gpg", ""), ("gpg-long-ago", LONG_AGO)] {
            let path = gnupg.home().join(name);
            fs::write(
                &path,
                format!("#!/bin/sh\nexec gpg --homedir {} {more} \"$@\"\n", gnupg.home().display()),
            )
            .unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        gnupg
    }

    pub(crate) fn home(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(self.home().join(program));
        command.args(["--batch", "--yes", "--quiet", "--pinentry-mode=loopback", "--passphrase="]);
        let ran = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    fn generate(&self, program: &str, name: &str, expires: &str) {
        let user = format!("{name} <{name}@example.com>");
        self.run(program, &["--quick-generate-key", &user, "ed25519", "sign", expires]);
    }

    /// Makes a key.
    pub(crate) fn key(&self, name: &str) {
        self.generate("gpg", name, "never");
    }

    /// Makes a key for which files can be encrypted. Returns its fingerprint.
    #[cfg_attr(test, allow(dead_code, reason = "shared with tests that only sign"))]
    pub(crate) fn encryption_key(&self, name: &str) -> String {
        let user = format!("{name} <{name}@example.com>");
        self.run("gpg", &["--quick-generate-key", &user, "future-default", "default", "never"]);
        self.fingerprint(name)
    }

    fn fingerprint(&self, name: &str) -> String {
        let listed = self.run("gpg", &["--with-colons", "--list-keys", &format!("{name}@example.com")]);
        listed.lines().find_map(|line| line.strip_prefix("fpr:")?.split(':').nth(8)).unwrap().to_owned()
    }

    /// Ends the agent of this home folder.
    #[cfg_attr(test, allow(dead_code, reason = "shared with tests that only sign"))]
    pub(crate) fn end_agent(&self) {
        let mut command = Command::new("gpgconf");
        let ended = command.arg("--homedir").arg(self.home()).args(["--kill", "gpg-agent"]).status();
        assert!(ended.unwrap().success());
    }

    /// Makes a key that has expired.
    pub(crate) fn expired(&self, name: &str) {
        self.generate("gpg-long-ago", name, "2d");
    }

    /// Revokes a key.
    pub(crate) fn revoke(&self, name: &str) {
        let key = self.fingerprint(name);
        let kept = self.home().join(format!("openpgp-revocs.d/{key}.rev"));
        // A colon keeps it from being used by mistake.
        let text = fs::read_to_string(kept).unwrap().replace(":-----BEGIN", "-----BEGIN");
        let file = self.home().join("revocation");
        fs::write(&file, text).unwrap();
        self.run("gpg", &["--import", &file.display().to_string()]);
    }

    /// The public key, armored.
    pub(crate) fn public(&self, name: &str) -> String {
        self.run("gpg", &["--armor", "--export", &format!("{name}@example.com")])
    }

    /// The private key, armored.
    pub(crate) fn private(&self, name: &str) -> String {
        self.run("gpg", &["--armor", "--export-secret-keys", &format!("{name}@example.com")])
    }

    fn settings(&self, name: &str, program: &str) -> String {
        let program: PathBuf = self.home().join(program);
        format!("-c gpg.program={} -c user.signingkey={name}@example.com", program.display())
    }

    /// Arguments of git with which it signs by a key.
    pub(crate) fn signing(&self, name: &str) -> String {
        self.settings(name, "gpg")
    }

    /// The same, at the time at which keys that have expired were valid.
    pub(crate) fn signing_long_ago(&self, name: &str) -> String {
        self.settings(name, "gpg-long-ago")
    }
}

impl Drop for Gnupg {
    fn drop(&mut self) {
        // The agent that signed for this home folder.
        let end =
            Command::new("gpgconf").arg("--homedir").arg(self.home()).args(["--kill", "gpg-agent"]).status();
        drop(end);
    }
}
