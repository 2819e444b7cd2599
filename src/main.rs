//! The `federate` command: one call, one exit code.

use std::process::ExitCode;

// Objects are many small pieces, made and dropped by all cores.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    federate::cli::run(std::env::args_os()).into()
}
