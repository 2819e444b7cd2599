//! The memory allocator of the command and of its benches, for programs that name this crate. Objects consist of many
//! small allocations, which all cores make and free.
//!
//! It is not part of the command's own crate, because release builds do not optimize that one, and every allocation
//! passes through here.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
