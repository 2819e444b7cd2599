//! Runs the `git` program for what only it does correctly: credentials, proxies, SSH configuration, the
//! user's hooks, signing. Arguments never pass through a shell. `isolation` sets its environment.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use git2::Repository;
use rustix::process::{Pid, Signal};

use super::isolation::Isolation;

/// Why a call of `git` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    #[error("cannot run `git`: {0}; it is needed for fetching, pushing and signatures")]
    Start(#[from] io::Error),
    /// The time limit was reached.
    #[error("`git {what}` did not finish within {} s", .timeout.as_secs())]
    Late {
        /// The subcommand.
        what: String,
        /// The time limit.
        timeout: Duration,
    },
    /// git failed.
    #[error("`git {what}` failed: {said}")]
    Failed {
        /// The subcommand.
        what: String,
        /// The end of its error output, without credentials.
        said: String,
        /// The exit code, unless it was killed.
        code: Option<i32>,
    },
}

/// A call of `git` in a repository.
pub struct Git<'r> {
    repository: &'r Repository,
    what: String,
    settings: Vec<String>,
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    input: Vec<u8>,
    timeout: Option<Duration>,
    hides_remote: bool,
}

impl<'r> Git<'r> {
    /// Prepares `git WHAT` in a repository.
    pub fn new(repository: &'r Repository, what: &str) -> Self {
        Self {
            repository,
            what: what.to_owned(),
            settings: Vec::new(),
            arguments: Vec::new(),
            variables: Vec::new(),
            input: Vec::new(),
            timeout: None,
            hides_remote: false,
        }
    }

    /// Leaves out of errors what the remote says, so that who only chooses its address cannot read the answers of a server.
    #[must_use]
    pub fn hide_remote_text(mut self) -> Self {
        self.hides_remote = true;
        self
    }

    /// Overrides a key of git's configuration.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.settings.push([key, value].join("="));
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
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets its standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Stops it, with all its child processes, after this time. It then runs in its own process group, so
    /// Ctrl-C does not end it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs it and returns its standard output.
    pub fn run(self) -> Result<String, Error> {
        self.outputs().map(|(output, _)| output)
    }

    /// Runs it and returns its standard output, and what it wrote to standard error.
    pub(super) fn outputs(self) -> Result<(String, String), Error> {
        let mut command = Command::new("git");
        let isolation = Isolation::prepare_command(self.repository, &mut command)?;
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.arg(&self.what).args(&self.arguments).envs(self.variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.timeout.is_some() {
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        let watchdog = self.timeout.and_then(|timeout| Some((timeout, Watchdog::start(&child, timeout)?)));
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends before reading all its input reports the reason itself.
            let _ = stdin.write_all(&self.input);
        }
        let Output { status, stdout, stderr } = child.wait_with_output()?;
        if let Some((timeout, watchdog)) = watchdog
            && watchdog.has_stopped()
        {
            return Err(Error::Late { what: self.what, timeout });
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if status.success() {
            return Ok((text(&stdout), text(&stderr)));
        }
        drop(isolation);
        let mut said = text(&stderr) + &text(&stdout);
        if self.hides_remote {
            said = said.lines().filter(|line| !line.starts_with("remote:")).collect::<Vec<_>>().join("\n");
        }
        let said = without_credentials(&said);
        Err(Error::Failed { what: self.what, said: last_lines(&said), code: status.code() })
    }
}

/// Kills a process group unless it ends within a time limit.
struct Watchdog {
    done: Sender<()>,
    stopped: JoinHandle<bool>,
}

impl Watchdog {
    fn start(child: &Child, timeout: Duration) -> Option<Self> {
        let group = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
        let (done, ended) = mpsc::channel();
        let stopped = std::thread::spawn(move || {
            let late = ended.recv_timeout(timeout).is_err();
            // A group that has just ended does not exist any more.
            late && rustix::process::kill_process_group(group, Signal::KILL).is_ok()
        });
        Some(Self { done, stopped })
    }

    fn has_stopped(self) -> bool {
        // If the limit was reached, the receiver is gone.
        let _ = self.done.send(());
        self.stopped.join().unwrap_or(false)
    }
}

/// The last lines, joined into one.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}

/// Removes from URLs what is between `://` and `@`, and what follows `?` or `#`.
pub fn without_credentials(said: &str) -> String {
    let mut parts = said.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"')).unwrap_or(part.len());
        let (address, rest) = part.split_at(end);
        let host = address.find(['/', '?', '#']).unwrap_or(address.len());
        // A password may contain a slash, which seems to end the host: then the last `@` counts.
        let (host, path) = address.split_at(host);
        let port = host.rsplit_once(':').map(|(_, port)| port);
        let odd = port.is_some_and(|port| !port.bytes().all(|b| b.is_ascii_digit()) && !port.ends_with(']'));
        let from = match host.rfind('@') {
            Some(at) => at + 1,
            None if odd => host.len() + path.rfind('@').map_or(0, |at| at + 1),
            None => 0,
        };
        let address = address.get(from..).unwrap_or_default();
        let open = address.find(['?', '#']).unwrap_or(address.len());
        clean.push_str("://");
        clean.push_str(address.get(..open).unwrap_or_default());
        clean.push_str(if open < address.len() { "?…" } else { "" });
        clean.push_str(rest);
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
        for (address, clean) in [
            ("https://h/r.git?private_token=s3cret&x=1: no", "https://h/r.git?… no"),
            ("'https://h:8443/@scope/r#token=s3cret'", "'https://h:8443/@scope/r?…'"),
            ("https://user:a/s3cret@h/r", "https://h/r"),
            ("https://user:s3@cret@[::1]:80/r", "https://[::1]:80/r"),
            ("ssh://[::1]/r", "ssh://[::1]/r"),
        ] {
            assert_eq!(without_credentials(address), clean);
        }
    }

    #[test]
    fn what_never_ends_is_stopped_with_all_that_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::init(dir.path()).unwrap();
        let started = std::time::Instant::now();
        // The shell that git starts, and its children, keep the pipes open.
        let git = Git::new(&repository, "nap").config("alias.nap", "!sleep 60 && true");
        let error = git.timeout(Duration::from_millis(300)).run().unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
        let in_time = Git::new(&repository, "version").timeout(Duration::from_mins(1)).run().unwrap();
        assert!(in_time.starts_with("git version"), "{in_time}");
    }

    #[test]
    fn a_failure_says_what_git_said() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::init(dir.path()).unwrap();
        let error = Git::new(&repository, "rev-parse").arg("--verify").arg("none").run().unwrap_err();
        assert_eq!(error.to_string(), "`git rev-parse` failed: fatal: Needed a single revision");
    }
}
