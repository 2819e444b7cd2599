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
//! Facts: `namespaces(7)`, `user_namespaces(7)`, `pid_namespaces(7)`, `PR_SET_PDEATHSIG(2const)`, `PR_SET_CHILD_SUBREAPER(2const)`,
//! `setrlimit(2)`, the kernel's documentation of Landlock.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::process::is_argument;

/// The first argument of the process that confines: a folder, a program and its arguments follow.
pub const CONFINE_ARGUMENT: &str = "__confine";

/// The first argument of the process within the namespaces.
const INNER_ARGUMENT: &str = "__confined";

/// The first argument of that process where the system has no namespaces.
const ALONE_ARGUMENT: &str = "__confined-alone";

/// The exit code if the program cannot be started.
const START_FAILED_CODE: i32 = 126;

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

/// Confines and starts a program if the arguments of this process ask for that, and returns the exit code then. To be called
/// before anything else, as it needs a process with one thread.
pub fn run_if_asked() -> Option<i32> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    let asked_for = [CONFINE_ARGUMENT, INNER_ARGUMENT, ALONE_ARGUMENT]
        .into_iter()
        .find(|argument| is_argument(first.as_deref(), argument))?;
    let (is_supervisor, has_namespaces) = (asked_for == CONFINE_ARGUMENT, asked_for == INNER_ARGUMENT);
    let rest: Vec<OsString> = args.collect();
    let [folder, program, args @ ..] = rest.as_slice() else { return Some(START_FAILED_CODE) };
    if is_supervisor && let Some(code) = system::supervise_program(&rest) {
        return Some(code);
    }
    system::restrict(Path::new(folder), Path::new(program), has_namespaces);
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
        ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetError,
    };
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::prctl;
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::{Pid, getgid, getuid};

    use super::{
        ALONE_ARGUMENT, INNER_ARGUMENT, MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_PROCESSES, MAX_SECONDS,
        START_FAILED_CODE,
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
        // If federate is killed, this process is told, and ends what it has started.
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

    /// Restricts this process, and so the program that it becomes.
    pub(super) fn restrict(folder: &Path, program: &Path, has_namespaces: bool) {
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
        let _ = restrict_files(folder, program);
    }

    fn restrict_files(folder: &Path, program: &Path) -> Result<(), RulesetError> {
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
        rules.restrict_self().map(drop)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::OsString;
    use std::path::Path;

    /// Other systems have neither namespaces nor processes that are told when their parent ends.
    pub(super) fn supervise_program(_: &[OsString]) -> Option<i32> {
        None
    }

    /// Other systems have neither Landlock nor these limits.
    pub(super) fn restrict(_: &Path, _: &Path, _: bool) {}
}
