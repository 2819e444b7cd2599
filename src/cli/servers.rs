//! The commands and the steps of commands that connect to API servers or registries, or are servers.
//!
//! A binary without the feature `live` has `no_servers.rs` in the place of this module.

mod access;
mod drift_reader;
mod explorer;
mod import;
mod install;
mod mcp;
mod members;
mod progress;
mod push;
mod serve;
mod snapshot;
mod sync;

use clap::Subcommand;

use super::{CommandError, Exit};
pub(super) use federate_live::EarlyReads;
pub(super) use federate_session::Surveyed;
pub(super) use push::read_plan_artifact;

/// The commands that only connect to API servers or registries, or are servers.
#[derive(Debug, Subcommand)]
pub(super) enum ServerCommand {
    Push(Box<push::PushCommand>),
    Serve(Box<serve::ServeCommand>),
    Sync(Box<sync::SyncCommand>),
    Install(install::InstallCommand),
    Mcp(Box<mcp::McpCommand>),
}

/// Runs a command that connects to API servers, or is one.
pub(super) fn run_command(command: ServerCommand) -> Result<Exit, CommandError> {
    match command {
        ServerCommand::Push(command) => command.run(),
        ServerCommand::Serve(command) => command.run(),
        ServerCommand::Sync(command) => command.run(),
        ServerCommand::Install(command) => command.run(),
        ServerCommand::Mcp(command) => command.run(),
    }
}
