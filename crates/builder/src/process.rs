//! Runs a program over copied files, with limits of time and output.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::confinement::{self, Confiner};
use crate::inputs::BuildInputs;
use crate::program::Program;
use crate::scratch::{ScratchShare, find_scratch_folder};

/// The longest time that a program may take.
const MAX_TIME: Duration = Duration::from_secs(30);

/// The most bytes that a program may write.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// How many bytes of a program's messages are read.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;

/// How many bytes of a message are shown.
const MAX_SHOWN_CHARS: usize = 1000;

/// How long a program may take to end after a signal to end.
const MAX_ENDING_TIME: Duration = Duration::from_secs(6);

/// How often an ending program is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A folder with the files of a build. It is deleted at the end.
pub(crate) struct BuildFolder {
    // Dropped before its share of the space.
    folder: TempDir,
    _share: ScratchShare,
    /// The path without links, as programs show it.
    real: PathBuf,
}

/// Why a program gave nothing.
#[derive(Debug)]
pub(crate) enum ProcessError {
    /// It could not be started.
    Start(String),
    /// It took too long.
    Time,
    /// All programs of the run took too long together.
    RunTime(Duration),
    /// It wrote too much.
    Output,
    /// It asked for more memory than it may have.
    Memory,
    /// It failed, with this message.
    Failed(String),
}

impl ProcessError {
    /// The code of the finding.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Time | Self::RunTime(_) | Self::Output | Self::Memory => "build-limit",
            Self::Start(_) | Self::Failed(_) => "build-failed",
        }
    }

    pub(crate) fn describe_failure(&self, program: &str) -> String {
        match self {
            Self::Start(why) => format!("`{program}` cannot be started: {why}"),
            Self::Time => format!("`{program}` takes longer than {} seconds", MAX_TIME.as_secs()),
            Self::RunTime(limit) => {
                format!("the builds of the run take longer than {} seconds together", limit.as_secs())
            }
            Self::Output => format!("`{program}` writes more than {} MiB", MAX_OUTPUT_BYTES >> 20),
            Self::Memory => {
                format!("`{program}` needs more memory than {} MiB", confinement::MAX_MEMORY_BYTES >> 20)
            }
            Self::Failed(message) => message.clone(),
        }
    }
}

/// The time that the programs of a run take together. It begins with the first program of a batch.
pub(crate) struct RunTime {
    limit: Duration,
    /// What earlier batches took.
    taken: Duration,
    start: OnceLock<Instant>,
}

/// How long a program may take.
#[derive(Clone, Copy)]
pub(crate) struct TimeLimit {
    deadline: Instant,
    /// The limit of the run, if that is what ends first.
    run: Option<Duration>,
}

impl RunTime {
    pub(crate) fn new(limit: Duration, taken: Duration) -> Self {
        Self { limit, taken, start: OnceLock::new() }
    }

    /// The limit of a program that starts now.
    pub(crate) fn start_program(&self) -> Result<TimeLimit, ProcessError> {
        let now = Instant::now();
        let start = *self.start.get_or_init(|| now);
        let end = start + self.limit.saturating_sub(self.taken);
        if end <= now {
            return Err(ProcessError::RunTime(self.limit));
        }
        let own = now + MAX_TIME;
        let is_run = end < own;
        Ok(TimeLimit { deadline: own.min(end), run: is_run.then_some(self.limit) })
    }

    /// The time since the first program of the batch has started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.get().map_or(Duration::ZERO, Instant::elapsed)
    }
}

impl TimeLimit {
    /// The limit of a program that starts now and belongs to no run.
    pub(crate) fn of_program() -> Self {
        Self::after(MAX_TIME)
    }

    /// The limit of a program that starts now and may take this time.
    pub(crate) fn after(time: Duration) -> Self {
        Self { deadline: Instant::now() + time, run: None }
    }

    /// Why a program is ended when its time has passed.
    fn to_error(self) -> ProcessError {
        self.run.map_or(ProcessError::Time, ProcessError::RunTime)
    }
}

impl BuildFolder {
    /// Copies files to a new folder.
    pub(crate) fn new(inputs: &BuildInputs) -> io::Result<Self> {
        let share = ScratchShare::take(inputs);
        let folder = tempfile::Builder::new().prefix("federate-build-").tempdir_in(find_scratch_folder())?;
        let real = fs::canonicalize(folder.path())?;
        let own = Self { folder, _share: share, real };
        for below in ["files", "home", "path", "extra"] {
            fs::create_dir(own.real.join(below))?;
        }
        for (path, bytes) in &inputs.files {
            let path = own.path_of(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, bytes)?;
        }
        Ok(own)
    }

    /// The path of a file or folder of the repo.
    pub(crate) fn path_of(&self, path: &str) -> PathBuf {
        let files = self.real.join("files");
        if path.is_empty() { files } else { files.join(path) }
    }

    /// Writes a file that is not one of the repo.
    pub(crate) fn write_extra(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.real.join("extra").join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// Runs a program, confined by `confiner`, with further variables. Returns what it writes.
    pub(crate) fn run_program(
        &self,
        confiner: &Confiner,
        program: &Program,
        args: &[OsString],
        variables: &[(&'static str, OsString)],
        limit: TimeLimit,
    ) -> Result<Vec<u8>, ProcessError> {
        let mut command = match &confiner.executable {
            Some(confiner) => {
                let mut command = Command::new(confiner);
                command.arg(confinement::CONFINE_ARGUMENT).arg(self.folder.path()).arg(&program.path);
                command
            }
            None => Command::new(&program.path),
        };
        command.args(args).env_clear().envs(self.list_variables());
        if confiner.is_required {
            command.env(confinement::REQUIRED_VARIABLE, "true");
        }
        command.envs(variables.iter().cloned()).current_dir(self.real.join("files"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|e| ProcessError::Start(e.to_string()))?;
        let ended = wait_for(child, limit)?;
        if ended.status.success() {
            return Ok(ended.output);
        }
        if has_no_memory(&ended.messages) {
            return Err(ProcessError::Memory);
        }
        Err(ProcessError::Failed(self.shorten_message(&ended)))
    }

    /// The environment of the program.
    fn list_variables(&self) -> Vec<(&'static str, OsString)> {
        let home = self.real.join("home").into_os_string();
        let homes = [
            "HOME",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "HELM_PLUGINS",
            "KUSTOMIZE_PLUGIN_HOME",
            "TMPDIR",
        ];
        let mut variables: Vec<_> = homes.into_iter().map(|name| (name, home.clone())).collect();
        // Nothing listens there: what has no network namespace of its own fails at once.
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"];
        variables.extend(proxies.map(|name| (name, "http://127.0.0.1:9".into())));
        variables.extend([
            ("PATH", self.real.join("path").into_os_string()),
            ("KUBECONFIG", self.real.join("home/none").into_os_string()),
            ("GOMEMLIMIT", "768MiB".into()),
            ("TZ", "UTC".into()),
        ]);
        variables
    }

    /// The message of a program that failed, without the paths of the copy.
    fn shorten_message(&self, ended: &Ended) -> String {
        let folder = format!("{}/files/", self.real.display());
        let text = String::from_utf8_lossy(&ended.messages).replace(&folder, "");
        let text = text.trim();
        let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
        let shown = if shown.len() < text.len() { format!("{shown} …") } else { shown };
        if shown.is_empty() { format!("it ended with {}", ended.status) } else { shown }
    }
}

/// Whether the last words of a program are those of the runtime of Go without memory, with a trace of its stack.
fn has_no_memory(messages: &[u8]) -> bool {
    let text = String::from_utf8_lossy(messages);
    text.lines().any(|line| {
        let words = line.trim_start_matches("fatal error: ").trim_start_matches("runtime: ");
        words.len() < line.len()
            && (words.contains("out of memory") || words.contains("cannot allocate memory"))
    })
}

/// A program that has ended by itself.
pub(crate) struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    messages: Vec<u8>,
}

impl Ended {
    /// What it has written. The error of one that failed is what it said.
    pub(crate) fn into_output(self, program: &str) -> Result<Vec<u8>, String> {
        if self.status.success() {
            return Ok(self.output);
        }
        if has_no_memory(&self.messages) {
            return Err(ProcessError::Memory.describe_failure(program));
        }
        let said = String::from_utf8_lossy(&self.messages).trim().to_owned();
        Err(if said.is_empty() { format!("`{program}` ended with {}", self.status) } else { said })
    }
}

/// What a pipe gave: whether it is that of the output.
struct PipeContent {
    is_output: bool,
    bytes: Vec<u8>,
}

/// Reads what a program writes until it ends. A program that takes too long or writes too much is ended, with all processes of
/// its group.
pub(crate) fn wait_for(mut child: Child, limit: TimeLimit) -> Result<Ended, ProcessError> {
    let deadline = limit.deadline;
    let (sender, receiver) = mpsc::channel();
    let output = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let messages = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for (pipe, is_output, limit) in
        [(output, true, MAX_OUTPUT_BYTES + 1), (messages, false, MAX_MESSAGE_BYTES)]
    {
        let (Some(mut pipe), sender) = (pipe, sender.clone()) else { continue };
        // The threads are not joined: a process that left the group could keep the pipe open.
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // An error ends what there is to read.
            let _ = pipe.by_ref().take(limit).read_to_end(&mut bytes);
            if !is_output {
                let _ = io::copy(&mut pipe, &mut io::sink());
            }
            let _ = sender.send(PipeContent { is_output, bytes });
        });
    }
    drop(sender);
    let (mut output, mut messages) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok(PipeContent { is_output: true, bytes }) => output = bytes,
            Ok(PipeContent { is_output: false, bytes }) => messages = bytes,
            Err(RecvTimeoutError::Timeout) => return Err(end_group(&mut child, limit.to_error())),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if output.len() as u64 > MAX_OUTPUT_BYTES {
            return Err(end_group(&mut child, ProcessError::Output));
        }
    }
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(Ended { status, output, messages }),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Ok(None) => return Err(end_group(&mut child, limit.to_error())),
            Err(e) => return Err(end_group(&mut child, ProcessError::Start(e.to_string()))),
        }
    }
}

/// Ends a program with all processes of its group. First, its supervisor may end what has left the group.
fn end_group(child: &mut Child, error: ProcessError) -> ProcessError {
    if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let deadline = Instant::now() + MAX_ENDING_TIME;
        let _ = kill_process(id, Signal::TERM);
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
        let _ = kill_process_group(id, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    error
}

/// The name of an argument as text, for comparisons.
pub(crate) fn is_argument(given: Option<&OsStr>, name: &str) -> bool {
    given.is_some_and(|given| given == name)
}
