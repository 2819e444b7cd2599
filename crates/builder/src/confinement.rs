//! Confines a program before it starts: limits, no network, no processes that outlive it, and no files but its own.
//!
//! A process can only give up rights by itself, between its start and that of the program. So the executable of federate starts
//! itself with [`CONFINE_ARGUMENT`]: it enters new namespaces, starts itself once more inside of them, sets limits, restricts access
//! to files (Landlock), and becomes the program. Where the system has no user namespaces or no Landlock, that step is left out.
//!
//! ```text
//! federate ──► supervisor ──► program ──► what it starts
//!          ◄── ends when federate ends; ends everything below it
//! ```
//!
//! The process in between supervises: when the program ends, or federate does, it ends what is left of it. A process namespace
//! ends with its first process; elsewhere, processes whose parents have ended become children of the supervisor.
//!
//! What a system gives is found by a process that confines itself in the same way and says what it got ([`Confiner::probe`]).
//!
//! Facts: `namespaces(7)`, `user_namespaces(7)`, `pid_namespaces(7)`, `PR_SET_PDEATHSIG(2const)`, `PR_SET_CHILD_SUBREAPER(2const)`,
//! `setrlimit(2)`, the kernel's documentation of Landlock.

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::is_argument;

/// The first argument of the process that confines: a folder, a program and its arguments follow.
pub const CONFINE_ARGUMENT: &str = "__confine";

/// The first argument of the process within the namespaces.
const INNER_ARGUMENT: &str = "__confined";

/// The first argument of that process where the system has no namespaces.
const ALONE_ARGUMENT: &str = "__confined-alone";

/// The first argument of a process that says what it can confine.
const PROBE_ARGUMENT: &str = "__confinement";

/// Set for the processes that confine, if they must start nothing that is not confined.
pub(crate) const REQUIRED_VARIABLE: &str = "FEDERATE_CONFINEMENT_REQUIRED";

/// The exit code if the program cannot be started.
const START_FAILED_CODE: i32 = 126;

/// The version of Landlock's interface from which on it closes the network (TCP).
const LANDLOCK_NETWORK: u32 = 4;

/// The most bytes that a program may allocate, on Linux.
pub(crate) const MAX_MEMORY_BYTES: u64 = 1 << 30;

/// The most seconds of a core that it may take.
#[cfg(target_os = "linux")]
const MAX_SECONDS: u64 = 60;

/// The largest file that it may write.
#[cfg(target_os = "linux")]
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The most processes and threads that it may have.
#[cfg(target_os = "linux")]
const MAX_PROCESSES: u64 = 256;

/// What confines programs on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Whether a program gets namespaces of its own: of users, processes and the network.
    pub has_namespaces: bool,
    /// The version of Landlock's interface; 0 without it.
    pub landlock: u32,
    /// Whether a filter of system calls (seccomp) applies to federate itself, as in most containers.
    pub has_seccomp: bool,
}

impl Confinement {
    /// Whether programs reach no server.
    pub fn closes_network(self) -> bool {
        self.has_namespaces || self.landlock >= LANDLOCK_NETWORK
    }

    /// Whether programs read no file but their own and those of the system.
    pub fn closes_files(self) -> bool {
        self.landlock > 0
    }

    /// Whether programs reach neither servers nor files.
    pub fn is_complete(self) -> bool {
        self.closes_network() && self.closes_files()
    }

    /// What programs could do on this machine beyond what they are asked to, as the end of a sentence; `None` for nothing.
    pub fn describe_gap(self) -> Option<&'static str> {
        match (self.closes_network(), self.closes_files()) {
            (true, true) => None,
            (false, false) => Some("they could reach the network and read the files of this user"),
            (false, true) => Some("they could reach the network"),
            (true, false) => Some("they could read the files of this user"),
        }
    }

    /// Reads what a process has said ([`fmt::Display`]).
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let has_namespaces = words.next()?.parse().ok()?;
        let landlock = words.next()?.parse().ok()?;
        Some(Self { has_namespaces, landlock, has_seccomp: words.next()?.parse().ok()? })
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.has_namespaces, self.landlock, self.has_seccomp)
    }
}

/// Confines programs before they start.
#[derive(Clone, Debug, Default)]
pub struct Confiner {
    /// The executable that calls [`run_if_asked`] first; without it, programs have no limits but time and output.
    pub executable: Option<PathBuf>,
    /// Whether a program must not start where it is not confined.
    pub is_required: bool,
}

impl Confiner {
    /// Confines with this executable, which calls [`run_if_asked`] first.
    pub fn from_current_executable(is_required: bool) -> Self {
        Self { executable: std::env::current_exe().ok(), is_required }
    }

    /// What a program would be confined by.
    pub fn probe(&self) -> Confinement {
        let Some(executable) = &self.executable else { return Confinement::default() };
        let mut command = Command::new(executable);
        command.arg(PROBE_ARGUMENT).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().map(|output| output.stdout).unwrap_or_default();
        Confinement::parse(&String::from_utf8_lossy(&output)).unwrap_or_default()
    }
}

/// Confines and starts a program if the arguments of this process ask for that, and returns the exit code then. To be called
/// before anything else, as it needs a process with one thread.
pub fn run_if_asked() -> Option<i32> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    if is_argument(first.as_deref(), PROBE_ARGUMENT) {
        let written = write!(std::io::stdout(), "{}", system::probe());
        return Some(if written.is_ok() { 0 } else { START_FAILED_CODE });
    }
    let asked_for = [CONFINE_ARGUMENT, INNER_ARGUMENT, ALONE_ARGUMENT]
        .into_iter()
        .find(|argument| is_argument(first.as_deref(), argument))?;
    let (is_supervisor, has_namespaces) = (asked_for == CONFINE_ARGUMENT, asked_for == INNER_ARGUMENT);
    let rest: Vec<OsString> = args.collect();
    let [folder, program, args @ ..] = rest.as_slice() else { return Some(START_FAILED_CODE) };
    if is_supervisor && let Some(code) = system::supervise_program(&rest) {
        return Some(code);
    }
    let confinement = system::restrict(Path::new(folder), Path::new(program), has_namespaces);
    let is_required = std::env::var_os(REQUIRED_VARIABLE).is_some();
    if let Some(gap) = confinement.describe_gap().filter(|_| is_required) {
        let _ = writeln!(std::io::stderr(), "it was not started, because it is not confined: {gap}");
        return Some(START_FAILED_CODE);
    }
    // It only returns if the program cannot be started.
    let _ = Command::new(program).args(args).exec();
    Some(START_FAILED_CODE)
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::OsString;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::{Duration, Instant};

    use landlock::{
        ABI, Access, AccessFs, AccessNet, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetError, RulesetStatus,
    };
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::prctl;
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::{Pid, getgid, getuid};

    use super::{
        ALONE_ARGUMENT, Confinement, INNER_ARGUMENT, MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_PROCESSES,
        MAX_SECONDS, START_FAILED_CODE,
    };

    /// Folders of libraries and settings of the system, for programs that are not one file.
    const SYSTEM_PATHS: [&str; 7] =
        ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"];

    /// How long processes are ended that are left of a program.
    const MAX_ENDING_TIME: Duration = Duration::from_secs(5);

    /// Runs this program again, in new namespaces where the system has them, and ends everything that is left of it, also if federate
    /// has ended. Returns the exit code; `None` if this program cannot be found.
    pub(super) fn supervise_program(args: &[OsString]) -> Option<i32> {
        let own = fs::read_link("/proc/self/exe").ok()?;
        let awaited: SigSet = [Signal::SIGTERM, Signal::SIGCHLD].into_iter().collect();
        awaited.thread_block().ok()?;
        // If federate is killed, this process receives a signal, and ends what it has started.
        let _ = prctl::set_pdeathsig(Signal::SIGTERM);
        let _ = prctl::set_child_subreaper(true);
        let argument = if enter_namespaces() { INNER_ARGUMENT } else { ALONE_ARGUMENT };
        let Ok(program) = Command::new(own).arg(argument).args(args).spawn() else {
            return Some(START_FAILED_CODE);
        };
        let program = Pid::from_raw(i32::try_from(program.id()).ok()?);
        let code = wait_for_end(&awaited, program);
        end_children();
        Some(code)
    }

    /// Enters new namespaces. Returns whether the system has them.
    fn enter_namespaces() -> bool {
        let (user, group) = (getuid(), getgid());
        let flags = CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS;
        if unshare(flags).is_err() {
            return false;
        }
        // Without them, the user has no name in the namespace, which does no harm.
        let _ = fs::write("/proc/self/setgroups", "deny");
        let _ = fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
        let _ = fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
        true
    }

    /// Waits until a program has ended, or kills it when this process is to end. Returns the exit code.
    fn wait_for_end(awaited: &SigSet, program: Pid) -> i32 {
        loop {
            if matches!(awaited.wait(), Ok(Signal::SIGTERM) | Err(_)) {
                let _ = kill(program, Signal::SIGKILL);
            }
            // Several signals may have become one.
            loop {
                match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                    Ok(WaitStatus::Exited(ended, code)) if ended == program => return code,
                    Ok(WaitStatus::Signaled(ended, signal, _)) if ended == program => {
                        return 128 + signal as i32;
                    }
                    Ok(WaitStatus::StillAlive) => break,
                    Ok(_) => {}
                    Err(_) => return START_FAILED_CODE,
                }
            }
        }
    }

    /// Kills the children of this process, and what becomes its child when its parent ends, until there is none.
    fn end_children() {
        let deadline = Instant::now() + MAX_ENDING_TIME;
        while Instant::now() < deadline {
            let listed = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
            let children: Vec<i32> = listed.split_whitespace().filter_map(|id| id.parse().ok()).collect();
            if children.is_empty() {
                return;
            }
            for child in children {
                let _ = kill(Pid::from_raw(child), Signal::SIGKILL);
                let _ = waitpid(Pid::from_raw(child), None);
            }
        }
    }

    /// Confines this process as if it were a program. Returns what the system has given.
    pub(super) fn probe() -> Confinement {
        // Afterwards, it would be the filter of the namespace.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        let has_seccomp = seccomp.is_some_and(|mode| mode.trim() != "0");
        let has_namespaces = enter_namespaces();
        let root = Path::new("/");
        Confinement { has_seccomp, ..restrict(root, root, has_namespaces) }
    }

    /// Restricts this process, and so the program that it becomes. Returns what the system has given.
    pub(super) fn restrict(folder: &Path, program: &Path, has_namespaces: bool) -> Confinement {
        let _ = prctl::set_pdeathsig(Signal::SIGKILL);
        let _ = SigSet::all().thread_unblock();
        let _ = prctl::set_no_new_privs();
        let limits = [
            (Resource::RLIMIT_CPU, MAX_SECONDS),
            (Resource::RLIMIT_DATA, MAX_MEMORY_BYTES),
            (Resource::RLIMIT_FSIZE, MAX_FILE_BYTES),
            (Resource::RLIMIT_CORE, 0),
        ];
        for (resource, limit) in limits {
            let _ = setrlimit(resource, limit, limit);
        }
        // Outside of a namespace, it would count all processes of the user.
        if has_namespaces {
            let _ = setrlimit(Resource::RLIMIT_NPROC, MAX_PROCESSES, MAX_PROCESSES);
        }
        // A system without Landlock has no such restriction.
        let landlock = restrict_files(folder, program).unwrap_or_default();
        Confinement { has_namespaces, landlock, has_seccomp: false }
    }

    /// Returns the version of Landlock's interface that restricts this process; 0 for none.
    fn restrict_files(folder: &Path, program: &Path) -> Result<u32, RulesetError> {
        let abi = ABI::V5;
        let all = AccessFs::from_all(abi);
        let mut rules = Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?
            .create()?;
        let reads = AccessFs::from_read(abi);
        let programs = fs::canonicalize(program).ok();
        let paths = SYSTEM_PATHS.iter().map(Path::new).chain([program]).chain(programs.as_deref());
        for path in paths {
            if let Ok(opened) = PathFd::new(path) {
                rules = rules.add_rule(PathBeneath::new(opened, reads))?;
            }
        }
        // Set by federate for programs that need keys of PGP, and never otherwise.
        let keys = std::env::var_os("GNUPGHOME").map(PathBuf::from);
        let keys = keys.iter().map(|folder| (folder.as_path(), all));
        for (path, access) in
            [(folder, all), (Path::new("/dev/null"), AccessFs::from_file(abi))].into_iter().chain(keys)
        {
            if let Ok(opened) = PathFd::new(path) {
                rules = rules.add_rule(PathBeneath::new(opened, access))?;
            }
        }
        let status = rules.restrict_self()?;
        Ok(match status.landlock {
            LandlockStatus::Available { effective_abi, .. }
                if status.ruleset != RulesetStatus::NotEnforced =>
            {
                effective_abi.to_string().parse().unwrap_or_default()
            }
            _ => 0,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::OsString;
    use std::path::Path;

    use super::Confinement;

    /// Other systems confine nothing.
    pub(super) fn probe() -> Confinement {
        Confinement::default()
    }

    /// Other systems have neither namespaces nor signals to processes whose parent ends.
    pub(super) fn supervise_program(_: &[OsString]) -> Option<i32> {
        None
    }

    /// Other systems have neither Landlock nor these limits.
    pub(super) fn restrict(_: &Path, _: &Path, _: bool) -> Confinement {
        Confinement::default()
    }
}
