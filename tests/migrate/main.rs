//! Migrations of whole repos: each object is on both sides what it was, or a rule that is named explains the difference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

mod cases;
mod comparison;
mod conformance;
mod examples;
mod files;
mod patches;
mod proof;
mod random;
mod reasons;
mod rules;
mod template_files;
