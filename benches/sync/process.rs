//! A `federate sync` under measurement: its log, its processor time, its memory.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take at most.
const PATIENCE: Duration = Duration::from_mins(30);
/// How long a process must do nothing to count as settled.
const QUIET: Duration = Duration::from_secs(3);

/// A process that ends with the benchmark.
pub(crate) struct Running {
    child: Child,
    log: std::path::PathBuf,
    /// How much of the log is old.
    read: u64,
    /// The processor time, of itself and of the programs that it ran, at the last mark.
    mark: (Duration, Duration),
    marked: Instant,
}

impl Running {
    pub(crate) fn start(folder: &Path, log: &str, arguments: &str) -> Self {
        let binary = std::env::var("FEDERATE_BENCH_BINARY");
        let binary = binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_federate").to_owned());
        let log = folder.join(log);
        let mut command = Command::new(binary);
        command.args(arguments.split_whitespace()).current_dir(folder).env("NO_COLOR", "1");
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        let child = child.spawn().unwrap();
        Self { child, log, read: 0, mark: Default::default(), marked: Instant::now() }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log has something new.
    pub(crate) fn until(&mut self, what: &str) {
        let begun = Instant::now();
        loop {
            let mut log = fs::File::open(&self.log).unwrap();
            log.seek(SeekFrom::Start(self.read)).unwrap();
            let mut text = String::new();
            log.read_to_string(&mut text).unwrap();
            if let Some(at) = text.find(what) {
                self.read += (at + what.len()) as u64;
                return;
            }
            // A line may not be complete.
            self.read += text.rfind('\n').map_or(0, |at| at as u64 + 1);
            assert!(begun.elapsed() < PATIENCE, "{what} is not in the log");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the process does nothing.
    pub(crate) fn settle(&mut self) {
        let (mut before, mut since) = (self.times(), Instant::now());
        while since.elapsed() < QUIET {
            std::thread::sleep(Duration::from_millis(200));
            let now = self.times();
            if now.0 > before.0 + Duration::from_millis(10) {
                (before, since) = (now, Instant::now());
            }
        }
    }

    /// Begins to count anew.
    pub(crate) fn mark(&mut self) {
        (self.mark, self.marked) = (self.times(), Instant::now());
        self.read = fs::metadata(&self.log).unwrap().len();
    }

    fn times(&self) -> (Duration, Duration) {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the program may have spaces; it ends with a parenthesis.
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .skip(11)
            .take(4)
            .map(|f| f.parse().unwrap())
            .collect();
        (
            Duration::from_millis(10 * (fields[0] + fields[1])),
            Duration::from_millis(10 * (fields[2] + fields[3])),
        )
    }

    /// The processor time since the mark, with that of the programs that it ran.
    pub(crate) fn processor(&self) -> Duration {
        let (own, git) = self.times();
        (own + git).saturating_sub(self.mark.0 + self.mark.1)
    }

    pub(crate) fn spent(&self) -> String {
        let (own, git) = self.times();
        let (own, git) = (own.saturating_sub(self.mark.0), git.saturating_sub(self.mark.1));
        format!(
            "{:?} since, processor time {own:?} (and git {git:?}), {}",
            self.marked.elapsed(),
            self.memory()
        )
    }

    /// The memory that the process has now, and the most that it had.
    pub(crate) fn memory(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
        };
        format!("{} MB of memory, at most {} MB", of("VmRSS"), of("VmHWM"))
    }

    /// The address at which it listens for something.
    fn find_address(&self, service: &str) -> String {
        let (text, listening) = (self.text(), format!("listening for {service}"));
        let line = text.lines().find(|line| line.contains(&listening)).unwrap();
        line.split_once("address=").unwrap().1.split_whitespace().next().unwrap().to_owned()
    }

    /// How many rounds have ended since the begin, by the metrics.
    pub(crate) fn count_rounds(&self) -> u64 {
        let mut stream = TcpStream::connect(self.find_address("metrics")).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let counts = answer.lines().filter(|line| line.starts_with("federate_sync_rounds_total{"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Posts to the webhook of the only Sync.
    pub(crate) fn hook(&self, folder: &Path) {
        let text = self.text();
        let path = text.split_once("webhooks at ").unwrap().1.lines().next().unwrap().trim().to_owned();
        let address = self.find_address("webhooks");
        let token = fs::read_to_string(folder.join("token")).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Gitlab-Token: {token}\r\nContent-Length: 0\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end. Returns what it printed.
pub(crate) fn run(folder: &Path, program: &str, arguments: &str) -> String {
    let output =
        Command::new(program).args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A number in the environment.
pub(crate) fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
