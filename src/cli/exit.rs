//! How a run ends: the three exit codes, and the two ways not to get there.

use std::process::ExitCode;
use std::{fmt, io};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, nothing to report.
    Clean = 0,
    /// Done, and there are findings or differences.
    Findings = 1,
    /// Not done, or not all of it.
    Error = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub(super) enum Fault {
    /// The reader of the output has gone, which is no error.
    BrokenPipe,
    /// It could not be done; the message is for the person at the terminal.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BrokenPipe => "the reader of the output has gone",
            Self::Failed(message) => message,
        })
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Failed(error.to_string())
        }
    }
}
