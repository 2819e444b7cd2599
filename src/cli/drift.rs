//! `federate drift`

use clap::{Args, ValueEnum};

use super::access::AccessArgs;
use super::members::{DryRun, Inventoried, Members, PruneArgs, Reader, Servers};
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value};
use federate_engine::actions::{Action, ActionKind, Actions};
use federate_report::actions;
use federate_session::Purpose;

/// Show differences between live and rendered objects, with who changed them and when
///
/// Compares the rendered objects with the live ones, field by field. Defaults, and fields that other controllers own
/// (replicas under an autoscaler, sidecars, status), are not drift; objects that are missing, or that are no longer
/// rendered, are. `drift.ignore` in federate.yaml excludes more, by kind, name, path and field manager.
///
/// Clusters are reached as by `apply`, and only read; with --observed DIR no cluster is reached. A cluster that
/// cannot be read is reported, the others are compared, and the exit code is 2.
///
/// With --correct, exactly the reported fields are set to their rendered values; all others keep their values and
/// owners. Missing objects are created. Objects that are no longer rendered are deleted as by `apply`, within
/// --prune-limit, --prune-kinds and --no-prune. Objects that are not managed are reported and left alone: `apply`
/// adopts them. The exit code is then 0 when everything is corrected, 1 when something is left, and 2 when something
/// failed.
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

    /// Correct the drift, and nothing else
    #[arg(long, conflicts_with = "full")]
    correct: bool,

    /// Decide by the newest plan that `apply --remember` has kept in the clusters
    #[arg(long)]
    remember: bool,

    #[command(flatten)]
    prune: PruneArgs,

    /// Also report fields that are not rendered: defaults, status, replicas under an autoscaler, additions by
    /// webhooks and users
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
            remember: self.remember,
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
            return failed("options about pruning need --correct: without it nothing is deleted");
        }
        match (self.args.observed_folder(), self.correct) {
            (Some(_), true) => failed(
                "--observed reaches no cluster, so that nothing can be corrected: remove --observed or --correct",
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
