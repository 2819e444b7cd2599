//! The `federate` command: one call, one exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    federate::cli::run(std::env::args_os()).into()
}
