//! Runs the `git` program for what only it does correctly: credentials, proxies, SSH configuration, the
//! user's hooks, signing. Arguments never pass through a shell. `isolation` sets its environment.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use federate_kubernetes::display_text::shorten_line;
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
    /// It needs more memory, or writes a larger file, than it may, or prints more than is read.
    #[error("`git {what}` was stopped: the remote makes it {does}, the limit")]
    TooLarge {
        /// The subcommand.
        what: String,
        /// What it does.
        does: String,
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

/// The most bytes that are read of what git prints.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// What a call of `git` may use that talks to a server which an untrusted source chose. The limits are those of each of its
/// processes, by the kernel; other systems than Linux have only that of the output.
#[derive(Clone, Copy, Debug)]
pub struct GitLimits {
    /// The bytes of memory.
    pub memory: u64,
    /// The bytes of a file that is written.
    pub file: u64,
}

/// A call of `git` in a repository.
pub struct GitCommand<'r> {
    repository: &'r Repository,
    what: String,
    settings: Vec<String>,
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    input: Vec<u8>,
    timeout: Option<Duration>,
    limits: Option<GitLimits>,
    hides_remote: bool,
}

impl<'r> GitCommand<'r> {
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
            limits: None,
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
    pub fn override_config(mut self, key: &str, value: &str) -> Self {
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
    pub fn with_input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Stops it, with all its child processes, after this time. It then runs in its own process group, so
    /// Ctrl-C does not end it.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Limits what its processes may use.
    #[must_use]
    pub fn with_limits(mut self, limits: GitLimits) -> Self {
        self.limits = Some(limits);
        // Fewer threads, which hold less; larger objects are not held in memory at all.
        self.override_config("pack.threads", "2")
            .override_config("core.bigFileThreshold", "32m")
            .override_config("core.deltaBaseCacheLimit", "32m")
    }

    /// Runs it and returns its standard output.
    pub fn run(self) -> Result<String, Error> {
        self.run_with_messages().map(|(output, _)| output)
    }

    /// Runs it and returns its standard output, and what it wrote to standard error.
    pub(super) fn run_with_messages(self) -> Result<(String, String), Error> {
        let mut command = self.limits.map_or_else(|| Command::new("git"), GitLimits::limit_git);
        let isolation = Isolation::prepare_command(self.repository, &mut command)?;
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.arg(&self.what).args(&self.arguments).envs(self.variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.timeout.is_some() {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let watchdog =
            self.timeout.and_then(|timeout| Some((timeout, Watchdog::watch_child(&child, timeout)?)));
        let Printed { status, stdout, stderr, cut } = read_output(child, &self.input)?;
        if let Some((timeout, watchdog)) = watchdog
            && watchdog.has_stopped()
        {
            return Err(Error::Late { what: self.what, timeout });
        }
        if cut {
            let does = format!("print more than {} MiB", MAX_OUTPUT_BYTES >> 20);
            return Err(Error::TooLarge { what: self.what, does });
        }
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if status.success() {
            return Ok((stdout, stderr));
        }
        drop(isolation);
        if let Some(does) = self.limits.and_then(|limits| limits.describe_exceeded(status, &stderr)) {
            return Err(Error::TooLarge { what: self.what, does });
        }
        let mut said = stderr + &stdout;
        if self.hides_remote {
            said = said.lines().filter(|line| !line.starts_with("remote:")).collect::<Vec<_>>().join("\n");
        }
        let said = without_credentials(&said);
        Err(Error::Failed { what: self.what, said: last_lines(&said), code: status.code() })
    }
}

impl GitLimits {
    /// A command that runs git within the limits. A shell sets them before it becomes git: whatever sets them later
    /// may be too late for a process that git has started by then.
    #[cfg(target_os = "linux")]
    fn limit_git(self) -> Command {
        // The units of a shell are 1024 bytes of memory and 512 bytes of a file.
        let (memory, file) = (self.memory >> 10, self.file >> 9);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("ulimit -d {memory}; ulimit -f {file}; exec \"$0\" \"$@\"")).arg("git");
        command
    }

    #[cfg(not(target_os = "linux"))]
    fn limit_git(self) -> Command {
        Command::new("git")
    }

    /// What a call that failed has exceeded.
    fn describe_exceeded(self, status: ExitStatus, said: &str) -> Option<String> {
        let signal = Signal::XFSZ.as_raw();
        // A shell says by its exit code that a signal has ended its child.
        let is_ended = status.signal() == Some(signal) || status.code() == Some(128 + signal);
        let too_large = [format!("died of signal {signal}"), "File too large".to_owned()];
        if is_ended || too_large.iter().any(|text| said.contains(text)) {
            return Some(format!("write a file of more than {} MiB", self.file >> 20));
        }
        let no_memory =
            ["Out of memory", "out of memory", "malloc failed", "Cannot allocate memory", "mmap failed"];
        no_memory
            .iter()
            .any(|text| said.contains(text))
            .then(|| format!("use more than {} MiB of memory", self.memory >> 20))
    }
}

/// What a process has printed until it ended.
struct Printed {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Whether it was stopped because it printed too much.
    cut: bool,
}

/// Writes the input of a process and reads what it prints; it is stopped where that is too much.
fn read_output(mut child: Child, input: &[u8]) -> io::Result<Printed> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = std::thread::scope(|scope| {
        let stderr = scope.spawn(move || read_limited(stderr));
        let stdout = scope.spawn(move || read_limited(stdout));
        if let Some(mut stdin) = stdin {
            // A program that ends before reading all its input reports the reason itself.
            let _ = stdin.write_all(input);
        }
        let joined =
            [stdout, stderr].map(|read| read.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        let [stdout, stderr] = joined;
        (stdout, stderr)
    });
    // With its pipes closed, a program that prints more ends; one that does not is stopped by the time limit.
    let (stdout, stderr, status) = (stdout?, stderr?, child.wait()?);
    let cut = [&stdout, &stderr].iter().any(|text| text.len() as u64 > MAX_OUTPUT_BYTES);
    Ok(Printed { status, stdout, stderr, cut })
}

fn read_limited(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut text)?;
    }
    Ok(text)
}

/// The process groups that run, which do not end with this process.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn lock_groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops every `git` with a time limit that runs, with all that it has started, for a process that is about to end.
pub fn stop_all() {
    for group in lock_groups().iter() {
        // One that has just ended does not exist any more.
        let _ = rustix::process::kill_process_group(*group, Signal::KILL);
    }
}

/// Kills a process group unless it ends within a time limit.
struct Watchdog {
    done: Sender<()>,
    stopped: JoinHandle<bool>,
}

impl Watchdog {
    fn watch_child(child: &Child, timeout: Duration) -> Option<Self> {
        let group = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
        let (done, ended) = mpsc::channel();
        lock_groups().push(group);
        let stopped = std::thread::spawn(move || {
            let late = ended.recv_timeout(timeout).is_err();
            lock_groups().retain(|other| *other != group);
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

/// The most characters that are shown of a line that git has printed, which may be the remote's.
const MAX_LINE_CHARACTERS: usize = 400;

/// The last lines, joined into one.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default();
    last.iter().map(|line| shorten_line(line, MAX_LINE_CHARACTERS)).collect::<Vec<_>>().join("; ")
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
        let git = GitCommand::new(&repository, "nap").override_config("alias.nap", "!sleep 60 && true");
        let error = git.with_timeout(Duration::from_millis(300)).run().unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
        let in_time =
            GitCommand::new(&repository, "version").with_timeout(Duration::from_mins(1)).run().unwrap();
        assert!(in_time.starts_with("git version"), "{in_time}");
    }

    #[test]
    fn a_failure_says_what_git_said() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::init(dir.path()).unwrap();
        let error = GitCommand::new(&repository, "rev-parse").arg("--verify").arg("none").run().unwrap_err();
        assert_eq!(error.to_string(), "`git rev-parse` failed: fatal: Needed a single revision");
    }

    /// Serves an advertisement of references that does not end, and returns its address.
    #[cfg(target_os = "linux")]
    fn serve_endless_references() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/r.git", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let _ = stream.read(&mut [0; 4096]);
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n\
                                001e# service=git-upload-pack\n0000";
                    let mut text = head.to_owned();
                    let mut number = 0_u64;
                    while stream.write_all(text.as_bytes()).is_ok() {
                        text.clear();
                        for _ in 0..1000 {
                            let line = format!("{:040x} refs/heads/b{number:060}\n", 1);
                            text.push_str(&format!("{:04x}{line}", line.len() + 4));
                            number += 1;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn servers_that_do_not_end_are_left() {
        const LIMITS: GitLimits = GitLimits { memory: 64 << 20, file: 1 << 20 };
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::init(dir.path()).unwrap();
        let git = |what: &str| {
            let git =
                GitCommand::new(&repository, what).with_limits(LIMITS).with_timeout(Duration::from_mins(2));
            git.override_config("protocol.version", "0")
        };
        let shown = git("show-limits").override_config("alias.show-limits", "!ulimit -d; ulimit -f").run();
        assert_eq!(shown.unwrap(), "65536\n2048\n");
        let address = serve_endless_references();
        let error = git("ls-remote").arg("--heads").arg("--").arg(address).run().unwrap_err();
        let said = error.to_string();
        assert!(said.contains("the remote makes it use more than 64 MiB of memory"), "{said}");

        let written = "!head -c 9000000 /dev/zero > \"$GIT_WORK_TREE/large\"";
        let error = git("write").override_config("alias.write", written).run().unwrap_err().to_string();
        assert!(error.contains("write a file of more than 1 MiB"), "{error}");

        let error = git("endless").override_config("alias.endless", "!yes").run().unwrap_err().to_string();
        assert!(error.contains("print more than 64 MiB"), "{error}");
    }
}
