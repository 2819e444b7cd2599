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

/// Apply what is rendered to the member clusters
///
/// Every cluster is read, everything is decided, and only what differs is applied: server-side, in order
/// (namespaces and definitions first, webhooks last). Objects that run already are taken over where their
/// policies or --adopt say so; fields that others own are left to them. What federate applied and what is
/// no longer wanted is deleted. A cluster that fails or cannot be reached holds up no other.
///
/// A cluster is reached by the kubeconfig's context of its name, or the one that `contexts` in federate.yaml
/// names. With --observed DIR no cluster is reached: --dry-run=client then shows what would be done.
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

    /// Show what would be done, and do nothing: decided here, or also tried on the API servers
    #[arg(long, value_enum, value_name = "WHERE")]
    dry_run: Option<Try>,

    /// Take over objects that are there already [default: what their policies say]
    #[arg(long, value_enum, value_name = "WHEN")]
    adopt: Option<Adopt>,

    /// Take objects from other tools, too
    #[arg(long)]
    force: bool,

    /// Delete and create anew what cannot be changed, such as a Job's template, a binding's `roleRef`, or an
    /// immutable `ConfigMap` (Jobs, `ConfigMaps`, Secrets, bindings; `StatefulSets`, whose pods stay)
    #[arg(long)]
    replace: bool,

    /// Take over the objects of another `ApplySet`, which is gone afterwards; with the name of this one, confirm
    /// that the repo has moved
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = inventory)]
    move_from: Option<Inventory>,

    #[command(flatten)]
    prune: PruneArgs,

    /// Wait that long until everything is healthy (30s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,

    /// Only ask the clusters whether they allow what apply needs, and list what they do not
    #[arg(long, conflicts_with_all = ["dry_run", "wait"])]
    check_access: bool,

    /// How to print what was done
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

/// Where a dry run is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Try {
    /// Nothing is sent.
    Client,
    /// API servers judge everything and store nothing.
    Server,
}

/// When objects that are there already are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Adopt {
    /// They are left.
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
            let all = "every cluster allows what apply needs\n";
            return print(if done.failed { "" } else { all }).map(|()| done.exit());
        }
        self.show(&done.actions)?;
        Ok(done.exit())
    }

    fn reader(&self) -> Result<Reader<'_>, Fault> {
        match (self.args.observed_folder(), self.dry_run) {
            (Some(_), Some(Try::Client)) => Ok(Reader::Dump),
            (Some(_), _) => Err(Fault::Failed(
                "--observed reaches no cluster, so that only --dry-run=client can be done with it".to_owned(),
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
