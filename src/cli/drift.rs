//! `federate drift`

use clap::{Args, ValueEnum};

use super::members::{Inventoried, Members};
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value};
use crate::actions::drift::drift;
use crate::actions::{Actions, Adopt, cluster::Prune};
use crate::report::actions;

/// Say what runs otherwise than it is rendered, who changed it, and when
///
/// Compares what the repo renders with what runs in the member clusters, field by field. What servers
/// fill in and what other controllers own (replicas under an autoscaler, sidecars, status) is no drift;
/// objects that are missing, or there though no longer wanted, are. `drift.ignore` in federate.yaml
/// leaves out more, by kind, name, path and field manager.
///
/// Example: federate drift deploy --live dump -o markdown
#[derive(Debug, Args)]
pub(super) struct Drift {
    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    inventory: Inventoried,

    /// Also tell of fields that other controllers may change, such as replicas under an autoscaler
    #[arg(long)]
    full: bool,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
}

/// How drift is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal.
    Table,
    /// For machines.
    Json,
    /// For machines and people.
    Yaml,
    /// For a comment or a summary.
    Markdown,
    /// For a test report.
    Junit,
}

impl Drift {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let prune = Prune { kinds: Vec::new(), limit: 100 };
        let members = Members { args: &self.args, inventory: &self.inventory, prune: Some(&prune) };
        let decided = members.offline(Some(Adopt::Always), true)?;
        let Some((decisions, loaded)) = decided else { return Ok(Exit::Error) };
        let drifted = drift(decisions, &loaded.settings.live, &loaded.repo.config.drift.ignore, self.full);
        match self.output {
            Output::Table => print(&actions::table(&drifted, look(self.args.verbose)))?,
            Output::Markdown => print(&actions::markdown(&drifted))?,
            Output::Junit => print(&actions::junit(&drifted))?,
            Output::Json => print_value(&Actions::of(drifted.clone()), Format::Json)?,
            Output::Yaml => print_value(&Actions::of(drifted.clone()), Format::Yaml)?,
        }
        Ok(if drifted.is_empty() { Exit::Clean } else { Exit::Findings })
    }
}
