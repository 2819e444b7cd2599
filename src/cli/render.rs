//! `federate render`

use clap::Args;

use super::settings::RepoArgs;
use super::{Exit, Fault};

/// Write every cluster's manifests
#[derive(Debug, Args)]
pub(super) struct Render {
    #[command(flatten)]
    args: RepoArgs,
}

impl Render {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        self.args.load(None)?;
        Ok(Exit::Clean)
    }
}
