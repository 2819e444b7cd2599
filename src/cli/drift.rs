//! `federate drift`

use std::mem::ManuallyDrop;
use std::ops::ControlFlow;

use clap::{Args, ValueEnum};

use super::access::AccessArgs;
use super::filter::FilterArgs;
use super::members::{ApplySetArgs, LiveSource, MemberRun, MemberRunResult, PruneArgs, ServerAccess};
use super::settings::{OutputFormat, RepoArgs};
use super::{CommandError, Exit, page, print_text, print_value};
use federate_reconcile::{Action, ActionKind, DryRunStrategy};
use federate_report::drift as report;
use federate_report::page::PageHost;
use federate_session::Purpose;

/// Show differences between live and rendered objects, with who changed them and when
///
/// Compares each rendered object with the live object, field by field. Defaults set by API servers and fields
/// that other controllers own (replicas under an autoscaler, sidecars, status) are not drift. Missing
/// objects, and objects that are no longer rendered, are. `drift.ignore` in federate.yaml excludes more by
/// kind, name, path and field manager.
///
/// Clusters are reached as with `apply`, and only read. With --observed DIR, federate reads a dump and
/// connects to no cluster. If a cluster cannot be read, federate reports it, compares the others, and exits
/// with 2.
///
/// With --correct, federate reverts exactly the reported drift: it sets drifted fields to the rendered
/// values, creates missing objects, and deletes objects that are no longer rendered, within --prune-limit,
/// --prune-kinds and --no-prune. Objects that federate does not manage are reported and left unchanged;
/// `apply` adopts them. The exit code is 0 if all drift was corrected, 1 if some remains, and 2 if something
/// failed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct DriftCommand {
    /// Revert the drift that is found
    #[arg(long, conflicts_with = "full")]
    correct: bool,

    /// Do not report or remove fields that people have added by hand and that are not rendered
    #[arg(long, hide_short_help = true)]
    no_take_over: bool,

    /// Use the newest plan that `apply --remember` has stored in the clusters
    #[arg(long, hide_short_help = true)]
    remember: bool,

    /// Also show fields that are not rendered: defaults, status, autoscaled replicas, additions by webhooks
    /// and people
    #[arg(long)]
    full: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    apply_set: ApplySetArgs,

    #[command(flatten)]
    access: AccessArgs,

    #[command(flatten)]
    prune: PruneArgs,
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal
    Table,
    /// For scripts
    Json,
    /// For scripts and people
    Yaml,
    /// For a comment or a job summary
    Markdown,
    /// For a test report
    Junit,
    /// For a browser: one file
    Html,
}

const EXAMPLES: &str = "\
Examples:
  federate drift examples/repo
  federate drift examples/repo --correct
  federate drift examples/kubefed --cluster cluster1 --observed examples/kubefed/live -o markdown";

impl DriftCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let members = MemberRun {
            args: &self.args,
            apply_set: &self.apply_set,
            moved: None,
            remember: self.remember,
            prune: &self.prune,
            decryption: None,
            purpose: Purpose::Drift { full: self.full, correct: self.correct },
            no_take_over: self.no_take_over,
            results: matches!(self.output, Output::Json | Output::Yaml),
            source: self.choose_source()?,
        };
        if self.filter.is_given() && self.correct {
            let why =
                "-n and -l narrow what is shown, but --correct reverts all drift: leave out one of them";
            return Err(CommandError::Failed(why.to_owned()));
        }
        let mut done = match members.run()? {
            ControlFlow::Break(exit) => return Ok(exit),
            ControlFlow::Continue(done) => done,
        };
        if self.filter.is_given() {
            let session = ManuallyDrop::new(self.args.open_session(None, None)?);
            let filter = self.filter.build_filter(&[&session]);
            done.actions.actions.retain(|action| filter.shows_object(&action.object));
        }
        let exit = match done.exit_code() {
            Exit::Clean if self.has_remaining(&done.actions.actions) => Exit::Findings,
            exit => exit,
        };
        self.print_result(&done)?;
        Ok(exit)
    }

    fn choose_source(&self) -> Result<LiveSource<'_>, CommandError> {
        if self.prune.is_given() && !self.correct {
            let why = "prune flags need --correct: without it, drift deletes nothing";
            return Err(CommandError::Failed(why.to_owned()));
        }
        match (self.args.observed_folder(), self.correct) {
            (Some(_), true) => {
                let why =
                    "--observed reads a dump, so --correct has no cluster to write to: leave out one of them";
                Err(CommandError::Failed(why.to_owned()))
            }
            (_, false) if self.args.has_observed()? => Ok(LiveSource::Dump),
            (_, correct) => Ok(LiveSource::Servers(ServerAccess {
                access: &self.access,
                dry_run: if correct { DryRunStrategy::None } else { DryRunStrategy::Server },
                wait: None,
                check_access: false,
                quiet: self.args.quiet,
            })),
        }
    }

    /// Whether drift remains at the end of the run.
    fn has_remaining(&self, actions: &[Action]) -> bool {
        !actions.is_empty()
            && (!self.correct
                || actions
                    .iter()
                    .any(|action| matches!(action.action, ActionKind::Skip | ActionKind::Conflict)))
    }

    fn print_result(&self, done: &MemberRunResult) -> Result<(), CommandError> {
        let drifted = &done.actions;
        let text = match self.output {
            Output::Table => report::format_table(drifted, self.args.text_style()),
            Output::Markdown => report::format_markdown(drifted),
            Output::Junit => report::format_junit(drifted),
            Output::Html => {
                let name = self.args.repo.display().to_string();
                page::format_drift_page(&name, drifted, &done.regions, PageHost::File)?
            }
            Output::Json => return print_value(drifted, OutputFormat::Json),
            Output::Yaml => return print_value(drifted, OutputFormat::Yaml),
        };
        print_text(&text)
    }
}
