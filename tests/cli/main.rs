//! The binary as users run it, with arguments, streams, exit codes and real folders.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

#[cfg_attr(test, allow(dead_code, reason = "shared with the tests of clusters"))]
mod git_http;
mod sandbox;

mod adoption;
mod builds;
mod built_output;
mod changed_sources;
mod chart_server;
mod check;
mod cluster_profiles;
mod clusters;
mod commit;
mod confinement;
mod deletions;
mod described_sources;
mod dialects;
mod diff;
mod disk;
mod drift;
mod escapes;
mod examples;
mod explain;
mod followers;
mod gnupg;
mod habits;
mod help;
mod hostile_git;
mod hostile_repo;
mod hostile_work;
mod import;
mod init;
#[cfg(feature = "lua")]
mod interpreter;
mod karmada;
mod kinds;
mod kubeadmiral;
mod kubefed;
mod kubefleet;
mod leaks;
#[cfg(feature = "live")]
mod mcp;
mod migrate;
mod missing_files;
mod mistakes;
mod ocm;
mod openpgp;
mod paths;
mod plan;
mod processes;
mod pruning;
#[cfg(feature = "live")]
mod push;
#[cfg(feature = "live")]
mod registry;
mod render;
mod revision;
#[cfg(feature = "live")]
mod serve;
mod snapshot;
mod source_trees;
mod sources;
#[cfg(feature = "live")]
mod sync;
#[cfg(feature = "live")]
mod sync_loop;
mod sync_push;
mod terminal;
#[cfg(feature = "live")]
mod vendor;
mod versions;
mod watch;
mod whatif;
