//! Exit codes, and the errors that end a command.

use std::process::ExitCode;
use std::{fmt, io};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success, nothing to report.
    Clean = 0,
    /// Success, with findings or differences.
    Findings = 1,
    /// An error: some or all of the work was not done.
    Error = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub(super) enum CommandError {
    /// The reader of the output closed the pipe, which is not an error.
    BrokenPipe,
    /// The command failed; the message is for the user.
    Failed(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BrokenPipe => "the reader of the output closed the pipe",
            Self::Failed(message) => message,
        })
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Failed(error.to_string())
        }
    }
}
