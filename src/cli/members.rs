//! The common steps of `apply` and `drift`: load and render the repo, read the live objects from a dump or
//! from API servers, and decide the actions.

use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::access::AccessArgs;
use super::diff::digest_key;
use super::progress as progress_line;
use super::settings::RepoArgs;
use super::{Exit, Fault, print, say};
use federate_engine::actions::cluster::Prune;
use federate_engine::actions::{Action, ActionKind, Actions, Inventory, RepoRef};
use federate_engine::deletions::PruneLimit;
use federate_report::actions as report;
use federate_session::{Purpose, ReconcileOptions, Reconciler, Session};
use federate_source::TracedSource;

#[cfg(feature = "live")]
mod progress;
#[cfg(feature = "live")]
mod repeat;
#[cfg(feature = "live")]
mod servers;
#[cfg(not(feature = "live"))]
mod unconnected;

#[cfg(feature = "live")]
use federate_live::EarlyReads;
#[cfg(feature = "live")]
use federate_session::Surveyed;
#[cfg(feature = "live")]
use repeat::{Recording, Repeat};
#[cfg(not(feature = "live"))]
use unconnected::{EarlyReads, Recording, Repeat, Surveyed};

/// Arguments about the `ApplySet` that tracks managed objects.
#[derive(Debug, Args)]
#[command(next_help_heading = "ApplySet and prune options")]
pub(super) struct ApplySetArgs {
    /// The parent `ConfigMap` of the `ApplySet` that tracks managed objects in each cluster
    ///
    /// By default it is in the namespace `default` and named after the git remote `origin` and the folder;
    /// without a remote it is `default/federate`.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_applyset, hide_short_help = true)]
    applyset: Option<Inventory>,
}

impl ApplySetArgs {
    /// The `ApplySet` named with `--applyset`, or the default one of the repo.
    pub(super) fn inventory(&self, repo: Option<&RepoRef>) -> Inventory {
        let of_repo = || Inventory {
            namespace: "default".to_owned(),
            name: repo.map_or_else(|| "federate".to_owned(), RepoRef::set_name),
        };
        self.applyset.clone().unwrap_or_else(of_repo)
    }
}

/// Parses NAMESPACE/NAME, the name of an `ApplySet`'s parent.
pub(super) fn parse_applyset(text: &str) -> Result<Inventory, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Inventory { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("write it as NAMESPACE/NAME"),
    }
}

/// Arguments about pruning.
#[derive(Debug, Args)]
#[command(next_help_heading = "ApplySet and prune options")]
pub(super) struct PruneArgs {
    /// Leave a cluster unchanged if pruning would delete more than this share of its managed objects
    /// [default: 30]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100), hide_short_help = true)]
    prune_limit: Option<u8>,

    /// Also prune objects of these kinds, which may hold data that cannot be recreated
    #[arg(long, value_name = "KIND", value_delimiter = ',', hide_short_help = true)]
    prune_kinds: Vec<String>,

    /// Delete nothing
    #[arg(long, conflicts_with_all = ["prune_kinds", "prune_limit"])]
    no_prune: bool,
}

impl PruneArgs {
    /// Whether any prune flag is set.
    pub(super) fn any(&self) -> bool {
        self.no_prune || self.prune_limit.is_some() || !self.prune_kinds.is_empty()
    }

    fn prune(&self) -> Option<Prune> {
        let limit = self.prune_limit.map_or_else(PruneLimit::default, PruneLimit::new);
        (!self.no_prune).then(|| Prune { kinds: self.prune_kinds.clone(), limit })
    }
}

/// A run over member clusters.
pub(super) struct Members<'m> {
    pub(super) args: &'m RepoArgs,
    pub(super) inventory: &'m ApplySetArgs,
    /// The `ApplySet` whose members are taken over.
    pub(super) moved: Option<&'m Inventory>,
    /// Whether the plan is read from the clusters, and kept there by an apply.
    pub(super) remember: bool,
    pub(super) prune: &'m PruneArgs,
    pub(super) purpose: Purpose,
    /// Whether fields that people have added stay.
    pub(super) no_take_over: bool,
    /// Whether actions include the resulting objects.
    pub(super) results: bool,
    pub(super) reader: Reader<'m>,
}

/// Where live objects are read from.
pub(super) enum Reader<'m> {
    /// The folder given with `--observed`.
    Dump,
    /// The API servers, which are also written to where the command allows it.
    Servers(Servers<'m>),
}

/// How API servers are used.
#[cfg_attr(not(feature = "live"), allow(dead_code, reason = "no command connects to a cluster"))]
pub(super) struct Servers<'s> {
    pub(super) access: &'s AccessArgs,
    /// Where a dry run is decided; `None` if writes are made.
    pub(super) dry_run: Option<DryRun>,
    /// How long to wait until every object is healthy.
    pub(super) wait: Option<Duration>,
    /// Whether only permissions are checked.
    pub(super) check_access: bool,
    /// Whether to hide progress.
    pub(super) quiet: bool,
}

/// Where a dry run is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    /// Decide locally; send no writes
    Client,
    /// Dry-run every write on the API servers
    Server,
}

/// The result of a run.
pub(super) struct Done {
    /// The actions, and the clusters they are for.
    pub(super) actions: Actions,
    /// Whether anything failed; the errors are already reported.
    pub(super) failed: bool,
    /// Records the run, if it had nothing to do.
    recording: Option<Recording>,
}

impl Done {
    /// `Exit::Error` if anything failed.
    pub(super) fn exit(&self) -> Exit {
        if self.failed { Exit::Error } else { Exit::Clean }
    }

    /// Prints the result, and records the run if it had nothing to do.
    pub(super) fn print(self, result: &str) -> Result<(), Fault> {
        print(result)?;
        if let Some(recording) = self.recording {
            recording.keep(result);
        }
        Ok(())
    }
}

impl Members<'_> {
    /// Decides the actions for every cluster, and performs them where API servers are used. The run ends before where
    /// errors in the repo stop it, and where an earlier one has shown that there is nothing to do; both are reported.
    pub(super) fn run(&self) -> Result<ControlFlow<Exit, Done>, Fault> {
        let opened = self.args.open()?;
        let repo = self.args.repo_ref();
        let (early, recorder) = match self.repeat(opened.source(), repo.as_ref()) {
            Repeat::Same(output) => {
                say(&output.stderr);
                return print(&output.stdout).map(|()| ControlFlow::Break(Exit::Clean));
            }
            Repeat::Other { early, recorder } => (early, recorder),
        };
        let traced = TracedSource::new(opened.source());
        let mut session = self.args.last_session_of(&traced)?;
        session.keep_values();
        let inventory = self.inventory.inventory(repo.as_ref());
        let surveyed = match &self.reader {
            Reader::Dump if self.remember => return Err(Fault::Failed(DUMPS_REMEMBER_NOTHING.to_owned())),
            Reader::Dump => Surveyed::default(),
            Reader::Servers(servers) => self.survey(servers, &mut session, &inventory)?,
        };
        // The API servers list while this plans.
        let early = early.or_else(|| match &self.reader {
            Reader::Dump => None,
            Reader::Servers(servers) => self.read_early(servers, &session, &inventory),
        });
        self.working("planning");
        let findings = session.findings();
        let stderr = self.args.report_text(&session, &findings);
        say(&stderr);
        let incomplete = federate_engine::any_error(&findings);
        if incomplete && !self.args.keep_going {
            say(stopped(self.purpose));
            return Ok(ControlFlow::Break(Exit::Error));
        }
        let key = digest_key()?;
        let options = ReconcileOptions {
            purpose: self.purpose,
            inventory: &inventory,
            prune: self.prune.prune(),
            results: self.results,
            clusters: &self.args.clusters,
            only: None,
            no_take_over: self.no_take_over,
            key: &key,
        };
        let reconciler = Reconciler::new(&session, &options).of_repo(repo).moving(self.moved.cloned());
        // Like the session, it is freed by the end of the process.
        let reconciler = ManuallyDrop::new(reconciler);
        let (actions, dry_run) = self.decide(&session, &reconciler, &surveyed, early.as_ref())?;
        let everything = !dry_run && matches!(self.purpose, Purpose::Apply { .. });
        let errors = report::errors(&actions, everything);
        print_lines("error", &errors);
        print_lines("warning", &report::notes(&actions));
        let failed = incomplete || !errors.is_empty() || (dry_run && self.conflicts(&actions));
        let recorder = recorder.filter(|_| !failed);
        let recording =
            recorder.and_then(|it| it.recording(&session, traced.trace(), (&inventory, &actions), stderr));
        Ok(ControlFlow::Continue(Done { actions, failed, recording }))
    }

    /// The actions, and whether no writes were made.
    fn decide(
        &self,
        session: &Session,
        reconciler: &Reconciler<'_>,
        surveyed: &Surveyed,
        early: Option<&EarlyReads>,
    ) -> Result<(Actions, bool), Fault> {
        Ok(match &self.reader {
            Reader::Dump => {
                // Drift names them with the results.
                if !matches!(self.purpose, Purpose::Drift { .. }) {
                    print_lines("warning", &without_dump(&reconciler.unobserved()));
                }
                if reconciler.compares_no_secrets() {
                    print_lines("warning", &[SECRETS_NOT_COMPARED.to_owned()]);
                }
                self.working("comparing with the dump");
                (reconciler.observed(), true)
            }
            Reader::Servers(servers) => {
                let remember = Some(surveyed).filter(|_| self.remember);
                let memory = (remember, !self.remember && !self.args.names_memory());
                let actions = servers.reconcile(session, reconciler, memory, early)?;
                (actions, servers.dry_run.is_some())
            }
        })
    }

    /// Whether applying would fail because an object differs and is not adopted. The table shows it.
    fn conflicts(&self, actions: &Actions) -> bool {
        let differs = |one: &Action| one.action == ActionKind::Conflict && !one.diffs.is_empty();
        matches!(self.purpose, Purpose::Apply { .. }) && actions.actions.iter().any(differs)
    }

    /// Shows what the command does, also after warnings were printed.
    fn working(&self, phase: &'static str) {
        if !self.args.quiet {
            progress_line::start(phase);
        }
    }
}

/// The warning about clusters that nothing is known about, so that silence does not mean that they are as rendered.
fn without_dump(clusters: &[&str]) -> Vec<String> {
    if clusters.is_empty() {
        return Vec::new();
    }
    let names = federate_kubernetes::finding::list(clusters, 10);
    vec![format!(
        "no dump of {names}: nothing is decided about them; add a folder with the name of each cluster (an empty one \
         means that it has no objects)"
    )]
}

/// The warning about Secrets whose values are not compared.
const SECRETS_NOT_COMPARED: &str = "values of Secrets are not compared: the snapshot has keyed digests of them, and \
     FEDERATE_DIGEST_KEY is not set; use the key with which the snapshot was taken";

/// Why `--remember` and `--observed` exclude each other.
const DUMPS_REMEMBER_NOTHING: &str =
    "--remember keeps the plan in the clusters, and --observed connects to none: leave out one of them";

fn stopped(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Apply { .. } => {
            "nothing was applied; --keep-going skips the objects with errors, applies the rest and deletes nothing\n"
        }
        Purpose::Remove => "nothing was deleted\n",
        Purpose::Drift { .. } => {
            "nothing was compared; --keep-going skips the objects with errors and compares the rest\n"
        }
    }
}

/// Prints errors or warnings to standard error, without control characters: a server's answer must not
/// control the terminal.
fn print_lines(word: &str, lines: &[String]) {
    for line in lines {
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        say(&format!("{word}: {line}\n"));
    }
}
