//! `federate drift`

use clap::{Args, ValueEnum};

use super::access::AccessArgs;
use super::members::{DryRun, Inventoried, Members, PruneArgs, Reader, Servers};
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value};
use federate_engine::actions::{Action, ActionKind, Actions};
use federate_report::actions;
use federate_session::Purpose;

/// Say what runs otherwise than it is rendered, who changed it, and when
///
/// Compares what the repo renders with what runs in the member clusters, field by field. What servers
/// fill in and what other controllers own (replicas under an autoscaler, sidecars, status) is no drift;
/// objects that are missing, or there though no longer wanted, are. `drift.ignore` in federate.yaml
/// leaves out more, by kind, name, path and field manager.
///
/// Clusters are reached as `apply` reaches them, and only read; with --observed DIR none is reached. A cluster
/// that cannot be read is told, the others are compared, and the exit code is 2.
///
/// With --correct exactly what is told is put back: the fields that drifted, with the values that are
/// rendered; all others stay as they are, and with whom they are. What is missing is created. What is no
/// longer wanted is deleted as `apply` would, within --prune-limit, --prune-kinds and --no-prune. Objects
/// that are not ours are told and left: `apply` takes them over. The exit code is then 0 when everything
/// was put back, 1 when something was left as it is, and 2 when something failed.
///
/// Example: federate drift deploy --observed dump -o markdown
#[derive(Debug, Args)]
pub(super) struct Drift {
    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    inventory: Inventoried,

    #[command(flatten)]
    access: AccessArgs,

    /// Put back what drifted, and nothing else
    #[arg(long, conflicts_with = "full")]
    correct: bool,

    #[command(flatten)]
    prune: PruneArgs,

    /// Also tell of everything that nobody rendered: defaults, status, replicas under an autoscaler, what
    /// webhooks and people have added
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
        let members = Members {
            args: &self.args,
            inventory: &self.inventory,
            moved: None,
            prune: &self.prune,
            purpose: Purpose::Drift { full: self.full, correct: self.correct },
            results: matches!(self.output, Output::Json | Output::Yaml),
            reader: self.reader()?,
        };
        let Some(done) = members.run()? else { return Ok(Exit::Error) };
        self.show(&done.actions)?;
        Ok(match done.exit() {
            Exit::Clean if self.remains(&done.actions.actions) => Exit::Findings,
            exit => exit,
        })
    }

    fn reader(&self) -> Result<Reader<'_>, Fault> {
        let failed = |why: &str| Err(Fault::Failed(why.to_owned()));
        if self.prune.any() && !self.correct {
            return failed("nothing is deleted without --correct, so that there is nothing to prune");
        }
        match (self.args.observed_folder(), self.correct) {
            (Some(_), true) => failed(
                "--observed is a dump and reaches no cluster, so that nothing can be put back: leave out --observed, or --correct",
            ),
            (Some(_), false) => Ok(Reader::Dump),
            (None, correct) => Ok(Reader::Servers(Servers {
                access: &self.access,
                dry_run: (!correct).then_some(DryRun::Client),
                wait: None,
                check_access: false,
                quiet: self.args.quiet,
            })),
        }
    }

    /// Whether there is drift when the run is over.
    fn remains(&self, actions: &[Action]) -> bool {
        let stays = |action: &Action| matches!(action.action, ActionKind::Skip | ActionKind::Conflict);
        !actions.is_empty() && (!self.correct || actions.iter().any(stays))
    }

    fn show(&self, drifted: &Actions) -> Result<(), Fault> {
        match self.output {
            Output::Table if drifted.actions.is_empty() => print(&actions::no_drift(drifted)),
            Output::Table => print(&actions::table(drifted, look(self.args.verbose))),
            Output::Markdown => print(&actions::markdown(drifted)),
            Output::Junit => print(&actions::junit(drifted)),
            Output::Json => print_value(drifted, Format::Json),
            Output::Yaml => print_value(drifted, Format::Yaml),
        }
    }
}
