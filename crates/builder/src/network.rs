//! Runs a program with the network and with the user's own configuration, for a command whose purpose that is. Nothing else in this
//! crate lets a program reach a server.
//!
//! What a server sends is a stranger's: on Linux, the program has limits of memory, of time of a core and of the files that it writes, set by
//! a shell before it becomes the program. Its time and its output are limited on every system.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use federate_repo::build::BuildError;

use crate::process::{ProcessError, TimeLimit, wait_for};
use crate::program::{Program, ProgramPaths, Tool};

/// The longest time that a program may take.
const MAX_TIME: Duration = Duration::from_mins(3);

/// The limits in the units of a shell: KiB of memory, blocks of 512 bytes of a file, seconds of a core.
#[cfg(target_os = "linux")]
const SHELL_LIMITS: &str =
    "ulimit -d 1048576; ulimit -f 131072; ulimit -t 120; ulimit -c 0; exec \"$0\" \"$@\"";

/// A program that reaches servers.
pub struct NetworkedProgram(Program);

impl NetworkedProgram {
    /// Finds a program.
    pub fn find(paths: &ProgramPaths, tool: Tool) -> Result<Self, BuildError> {
        paths.find_program(tool).map(Self)
    }

    /// Runs it in a folder. Returns what it writes; the error is what it says.
    pub fn run(&self, args: &[OsString], folder: &Path) -> Result<Vec<u8>, String> {
        let mut command = self.limit_program();
        command.args(args).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = self.0.name();
        let child = command.spawn().map_err(|why| format!("`{name}` cannot be started: {why}"))?;
        let ended = wait_for(child, TimeLimit::after(MAX_TIME)).map_err(|error| match error {
            ProcessError::Time => format!("`{name}` takes longer than {} seconds", MAX_TIME.as_secs()),
            error => error.describe_failure(&name),
        })?;
        ended.into_output(&name)
    }

    #[cfg(target_os = "linux")]
    fn limit_program(&self) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SHELL_LIMITS).arg(&self.0.path);
        command
    }

    #[cfg(not(target_os = "linux"))]
    fn limit_program(&self) -> Command {
        Command::new(&self.0.path)
    }
}
