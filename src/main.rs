//! The `federate` command.

use std::process::ExitCode;

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The stack of each worker thread, the same as the main thread's: documents may be nested 512 levels deep.
const STACK_SIZE: usize = 8 << 20;

fn main() -> ExitCode {
    // Before any thread starts.
    if let Some(code) = federate_builder::confinement::run_if_asked() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    federate::cli::exit_on_panic();
    // It fails only if the pool exists already.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(STACK_SIZE).build_global();
    federate::cli::run(std::env::args_os()).into()
}
