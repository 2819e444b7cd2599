//! `federate apply`

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::access::{AccessArgs, duration};
use super::members::{DryRun, Inventoried, Members, PruneArgs, Reader, Servers, inventory};
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value};
use federate_engine::actions::{self, Actions, Inventory};
use federate_report::actions as report;
use federate_session::Purpose;

/// Apply the rendered objects to the member clusters
///
/// Reads every cluster, decides, and applies the objects that differ: server-side, in order (namespaces and
/// definitions first, webhooks last). Existing objects are adopted where their policies or --adopt say so; fields
/// that others own are left alone. Managed objects that are no longer rendered are deleted. A cluster that fails or
/// cannot be reached does not delay others.
///
/// A cluster is reached by the kubeconfig's context of its name, or the one that `contexts` in federate.yaml
/// names. With --observed DIR no cluster is reached: --dry-run=client then shows the actions.
///
/// Example: federate apply deploy --dry-run=client
#[derive(Debug, Args)]
pub(super) struct Apply {
    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    inventory: Inventoried,

    #[command(flatten)]
    access: AccessArgs,

    /// Show the actions and change nothing: predicted here, or also dry-run on the API servers
    #[arg(long, value_enum, value_name = "WHERE")]
    dry_run: Option<Try>,

    /// Adopt objects that exist already [default: as their policies say]
    #[arg(long, value_enum, value_name = "WHEN")]
    adopt: Option<Adopt>,

    /// Also adopt objects of other tools
    #[arg(long)]
    force: bool,

    /// Delete objects with immutable changes and create them again, such as a Job's template, a binding's `roleRef`,
    /// or an immutable `ConfigMap` (Jobs, `ConfigMaps`, Secrets, bindings; `StatefulSets`, whose pods stay)
    #[arg(long)]
    replace: bool,

    /// Take over the objects of another `ApplySet`, whose parent is then deleted; with the name of this one, confirm
    /// that the repo has moved
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = inventory)]
    move_from: Option<Inventory>,

    /// Keep the plan in each cluster, beside the parent of the `ApplySet`, and decide by the newest one that is kept
    /// there
    ///
    /// The next apply with --remember decides by that plan as by --previous, from whatever machine it runs.
    /// --previous and --fresh take precedence over the plan that is kept.
    #[arg(long)]
    remember: bool,

    #[command(flatten)]
    prune: PruneArgs,

    /// Wait until everything is healthy, at most this long (30s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,

    /// Only check the rights that apply needs in the clusters, and list those that are missing
    #[arg(long, conflicts_with_all = ["dry_run", "wait"])]
    check_access: bool,

    /// How to print the actions
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

/// Where a dry run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Try {
    /// Nothing is sent.
    Client,
    /// API servers process everything and store nothing.
    Server,
}

/// When existing objects are adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Adopt {
    /// Never.
    Never,
    /// Where nothing changes.
    IfNoDiff,
    /// Where no pod is replaced.
    IfNoRestart,
    /// Whatever changes.
    Always,
}

impl Adopt {
    fn rule(self) -> actions::Adopt {
        match self {
            Self::Never => actions::Adopt::Never,
            Self::IfNoDiff => actions::Adopt::IfNoDiff,
            Self::IfNoRestart => actions::Adopt::IfNoRestart,
            Self::Always => actions::Adopt::Always,
        }
    }
}

impl Apply {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let members = Members {
            args: &self.args,
            inventory: &self.inventory,
            moved: self.move_from.as_ref(),
            remember: self.remember,
            prune: &self.prune,
            purpose: Purpose::Apply {
                adopt: self.adopt.map(Adopt::rule),
                force: self.force,
                replace: self.replace,
            },
            results: self.output != Format::Table,
            reader: self.reader()?,
        };
        let Some(done) = members.run()? else { return Ok(Exit::Error) };
        if self.check_access && self.output == Format::Table {
            let all = "all clusters grant the rights that apply needs\n";
            return print(if done.failed { "" } else { all }).map(|()| done.exit());
        }
        self.show(&done.actions)?;
        Ok(done.exit())
    }

    fn reader(&self) -> Result<Reader<'_>, Fault> {
        match (self.args.observed_folder(), self.dry_run) {
            (Some(_), Some(Try::Client)) => Ok(Reader::Dump),
            (Some(_), _) => Err(Fault::Failed(
                "--observed reaches no cluster; it can only be used with --dry-run=client".to_owned(),
            )),
            (None, dry_run) => Ok(Reader::Servers(Servers {
                access: &self.access,
                dry_run: dry_run.map(|dry_run| match dry_run {
                    Try::Client => DryRun::Client,
                    Try::Server => DryRun::Server,
                }),
                wait: self.wait,
                check_access: self.check_access,
                quiet: self.args.quiet,
            })),
        }
    }

    fn show(&self, actions: &Actions) -> Result<(), Fault> {
        if self.output != Format::Table {
            return print_value(actions, self.output);
        }
        print(&report::table(actions, look(self.args.verbose)))
    }
}
