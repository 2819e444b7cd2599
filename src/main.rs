//! The `federate` command.

use std::process::ExitCode;

// Objects consist of many small allocations, made and freed by all cores.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    federate::cli::run(std::env::args_os()).into()
}
