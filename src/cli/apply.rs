//! `federate apply`

use std::ops::ControlFlow;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::access::{AccessArgs, parse_duration};
use super::decryption::DecryptionArgs;
use super::members::{ApplySetArgs, LiveSource, MemberRun, PruneArgs, ServerAccess, parse_applyset};
use super::settings::{OutputFormat, RepoArgs};
use super::{CommandError, Exit, print_text, print_value};
use federate_reconcile::{AdoptionMode, ApplySet, DryRunStrategy};
use federate_report::actions as report;
use federate_session::Purpose;

/// Apply the rendered manifests to the member clusters
///
/// federate reads every cluster, decides what differs, and applies only that, with server-side apply and in
/// order: namespaces and CRDs first, webhooks last. It adopts running objects where their policies or --adopt
/// allow it, and leaves fields that other managers own unchanged. It prunes objects that it applied earlier
/// and that are no longer rendered. A cluster that fails does not delay the others.
///
/// A cluster is reached through the kubeconfig context with its name, or the one listed under `contexts` in
/// federate.yaml as far as --contexts-from-repo allows it. With --observed DIR and --dry-run=client, federate reads a dump and connects to no cluster.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ApplyCommand {
    /// Show what would be done without doing it: decided locally, or dry-run on the API servers
    #[arg(long, value_enum, value_name = "WHERE")]
    dry_run: Option<DryRunMode>,

    /// When to adopt objects that already exist [default: what their policies say]
    #[arg(long, value_enum, value_name = "WHEN")]
    adopt: Option<Adopt>,

    /// Also adopt objects that other tools manage (Helm, Argo CD, Flux, ApplySets)
    #[arg(long)]
    force: bool,

    /// Delete and recreate objects whose immutable fields change
    ///
    /// Applies to Jobs, ConfigMaps, Secrets, role bindings and StatefulSets. The pods of a StatefulSet keep
    /// running.
    #[arg(long)]
    replace: bool,

    /// Leave fields that people have added by hand and that are not rendered as they are
    ///
    /// By default, federate takes over fields that `kubectl` and other tools of people (`drift.people` in federate.yaml)
    /// own in managed objects, as Flux does, and removes those that are not rendered.
    #[arg(long, hide_short_help = true)]
    no_take_over: bool,

    /// Adopt the objects of another `ApplySet`, and delete that `ApplySet`
    ///
    /// With the name of the current `ApplySet`, confirms that the repo has moved to another remote or folder.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_applyset, hide_short_help = true)]
    move_from: Option<ApplySet>,

    /// Keep the plan, the scheduler's memory, in the clusters: read the newest one, and store the new one
    ///
    /// The plan is stored beside the parent of the `ApplySet` in each cluster, so that the next apply with --remember
    /// uses it like --previous, on any machine. --previous and --fresh take precedence over it.
    #[arg(long, hide_short_help = true)]
    remember: bool,

    /// Wait up to this time until every object is healthy (30s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,

    /// Only check whether the clusters grant the required permissions, and list missing ones
    #[arg(long, conflicts_with_all = ["dry_run", "wait"], hide_short_help = true)]
    check_access: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    apply_set: ApplySetArgs,

    #[command(flatten)]
    access: AccessArgs,

    #[command(flatten)]
    prune: PruneArgs,

    #[command(flatten)]
    decryption: DecryptionArgs,
}

/// Where a dry run is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DryRunMode {
    /// Decide locally; send no writes
    Client,
    /// Dry-run every write on the API servers
    Server,
}

/// When to adopt objects that already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Adopt {
    /// Never
    Never,
    /// If nothing changes
    IfNoDiff,
    /// If no pod restarts
    IfNoRestart,
    /// Whatever changes
    Always,
}

impl Adopt {
    fn to_adoption_mode(self) -> AdoptionMode {
        match self {
            Self::Never => AdoptionMode::Never,
            Self::IfNoDiff => AdoptionMode::IfNoDiff,
            Self::IfNoRestart => AdoptionMode::IfNoRestart,
            Self::Always => AdoptionMode::Always,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  federate apply examples/repo --dry-run=server
  federate apply examples/repo --cluster eu-1 eu-2
  federate apply examples/kubefed --observed examples/kubefed/live --dry-run=client";

impl ApplyCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let members = MemberRun {
            args: &self.args,
            apply_set: &self.apply_set,
            moved: self.move_from.as_ref(),
            remember: self.remember,
            prune: &self.prune,
            decryption: Some(&self.decryption),
            purpose: Purpose::Apply {
                adopt: self.adopt.map(Adopt::to_adoption_mode),
                force: self.force,
                replace: self.replace,
            },
            no_take_over: self.no_take_over,
            results: self.output != OutputFormat::Table,
            source: self.choose_source()?,
        };
        let done = match members.run()? {
            ControlFlow::Break(exit) => return Ok(exit),
            ControlFlow::Continue(done) => done,
        };
        let exit = done.exit_code();
        if self.check_access && self.output == OutputFormat::Table {
            let all = "every cluster grants the permissions that apply needs\n";
            return print_text(if done.failed { "" } else { all }).map(|()| exit);
        }
        if self.output != OutputFormat::Table {
            return print_value(&done.actions, self.output).map(|()| exit);
        }
        let table = report::format_table(&done.actions, self.args.text_style());
        print_text(&table)?;
        Ok(exit)
    }

    fn choose_source(&self) -> Result<LiveSource<'_>, CommandError> {
        match (self.args.observed_folder(), self.dry_run) {
            (_, Some(DryRunMode::Client)) if self.args.has_observed()? => Ok(LiveSource::Dump),
            (Some(_), _) => Err(CommandError::Failed(
                "--observed reads a dump and connects to no cluster: add --dry-run=client, or leave out --observed".to_owned(),
            )),
            (None, dry_run) => Ok(LiveSource::Servers(ServerAccess {
                access: &self.access,
                dry_run: match dry_run {
                    None => DryRunStrategy::None,
                    Some(DryRunMode::Client) => DryRunStrategy::Client,
                    Some(DryRunMode::Server) => DryRunStrategy::Server,
                },
                wait: self.wait,
                check_access: self.check_access,
                quiet: self.args.quiet,
            })),
        }
    }
}
