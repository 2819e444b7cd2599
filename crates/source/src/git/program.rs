//! The `git` program, for what only it does right: credentials, proxies, SSH configuration, hooks of
//! the user, signing. Arguments never pass a shell.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Why a call of `git` failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error("cannot run `git`: {0}; it is needed for fetching, pushing and signatures")]
    Start(#[from] io::Error),
    /// It ended with an error.
    #[error("`git {what}` failed: {said}")]
    Failed {
        /// The subcommand.
        what: String,
        /// The end of what it said, without credentials.
        said: String,
        /// Its exit code, if it was not killed.
        code: Option<i32>,
    },
}

/// A call of `git` in a repository.
#[derive(Debug)]
pub struct Git {
    /// With the arguments that stand before the subcommand.
    command: Command,
    what: String,
    arguments: Vec<OsString>,
    input: Vec<u8>,
}

impl Git {
    /// `git WHAT` in the repository whose own folder is `git_dir`.
    pub fn new(git_dir: &Path, what: &str) -> Self {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(git_dir);
        // Messages are read by us; and nobody sits there to answer a question.
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        // A hook that runs this program sets these for another repository or a half-made index.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"] {
            command.env_remove(name);
        }
        Self { command, what: what.to_owned(), arguments: Vec::new(), input: Vec::new() }
    }

    /// Overrides a key of git's configuration.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.command.arg("-c").arg([key, value].join("="));
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.arguments.push(arg.as_ref().to_owned());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// What it reads on its standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Runs it and gives its standard output.
    pub fn run(mut self) -> Result<String, Error> {
        self.command.arg(&self.what).args(&self.arguments);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends before it has read everything says itself why.
            let _ = stdin.write_all(&self.input);
        }
        let Output { status, stdout, stderr } = child.wait_with_output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if status.success() {
            return Ok(text(&stdout));
        }
        let said = without_credentials(&(text(&stderr) + &text(&stdout)));
        Err(Error::Failed { what: self.what, said: end_of(&said), code: status.code() })
    }
}

/// The last lines, on one line.
fn end_of(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}

/// What stands between `://` and `@` in addresses is left out.
pub fn without_credentials(said: &str) -> String {
    let mut parts = said.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let address =
            part.find(|c: char| c.is_whitespace() || matches!(c, '/' | '\'' | '"')).unwrap_or(part.len());
        let host = part[..address].rfind('@').map_or(0, |at| at + 1);
        clean.push_str("://");
        clean.push_str(&part[host..]);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out() {
        let said = "fatal: unable to access 'https://user:s3cret@example.com/r.git/': no\nssh://git@h:22/x";
        let clean = without_credentials(said);
        assert_eq!(clean, "fatal: unable to access 'https://example.com/r.git/': no\nssh://h:22/x");
        assert_eq!(without_credentials("a@b ://c"), "a@b ://c");
    }

    #[test]
    fn a_failure_says_what_git_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = Git::new(dir.path(), "rev-parse").arg("HEAD").run().unwrap_err().to_string();
        assert!(error.starts_with("`git rev-parse` failed: fatal: not a git repository"), "{error}");
    }
}
