//! The common steps of `apply` and `drift`: load and render the repo, read the live objects from a dump or
//! from API servers, and decide the actions.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;

use super::access::AccessArgs;
use super::decryption::DecryptionArgs;
use super::diff::digest_key;
use super::progress as progress_line;
use super::servers::{EarlyReads, Surveyed};
use super::settings::RepoArgs;
use super::{CommandError, Exit, print_notice};
use federate_engine::deletions::PruneLimit;
use federate_kubernetes::ClusterName;
use federate_kubernetes::display_text::escape_line;
use federate_reconcile::cluster::PruneOptions;
use federate_reconcile::{ActionKind, Actions, ApplySet, DryRunStrategy, RepoRef};
use federate_report::actions as report;
use federate_session::{Destination, Purpose, ReconcileOptions, Reconciler, Session};

/// Arguments about the `ApplySet` that tracks managed objects.
#[derive(Debug, Args)]
#[command(next_help_heading = "ApplySet and prune options")]
pub(super) struct ApplySetArgs {
    /// The parent `ConfigMap` of the `ApplySet` that tracks managed objects in each cluster
    ///
    /// By default it is in the namespace `default` and named after the git remote `origin`, the folder and --path;
    /// without a remote and --path it is `default/federate`.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_applyset, hide_short_help = true)]
    applyset: Option<ApplySet>,
}

impl ApplySetArgs {
    /// The `ApplySet` named with `--applyset`, or the default one of the repo.
    pub(super) fn choose_applyset(&self, repo: Option<&RepoRef>, paths: &[String]) -> ApplySet {
        if let Some(set) = &self.applyset {
            return set.clone();
        }
        let name = match (repo, paths) {
            (Some(repo), _) => repo.set_name(),
            (None, []) => "federate".to_owned(),
            (None, paths) => RepoRef::default().narrowed_to(paths).set_name(),
        };
        ApplySet { namespace: "default".to_owned(), name }
    }
}

/// Parses NAMESPACE/NAME, the name of an `ApplySet`'s parent.
pub(super) fn parse_applyset(text: &str) -> Result<ApplySet, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ApplySet { namespace: namespace.to_owned(), name: name.to_owned() })
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
    pub(super) fn is_given(&self) -> bool {
        self.no_prune || self.prune_limit.is_some() || !self.prune_kinds.is_empty()
    }

    fn prune_options(&self) -> Option<PruneOptions> {
        let limit = self.prune_limit.map_or_else(PruneLimit::default, PruneLimit::new);
        (!self.no_prune).then(|| PruneOptions { kinds: self.prune_kinds.clone(), limit })
    }
}

/// A run over member clusters.
pub(super) struct MemberRun<'m> {
    pub(super) args: &'m RepoArgs,
    pub(super) apply_set: &'m ApplySetArgs,
    /// The `ApplySet` whose members are taken over.
    pub(super) moved: Option<&'m ApplySet>,
    /// Whether the plan is read from the clusters, and kept there by an apply.
    pub(super) remember: bool,
    pub(super) prune: &'m PruneArgs,
    /// What decrypts objects, where the command may decrypt.
    pub(super) decryption: Option<&'m DecryptionArgs>,
    pub(super) purpose: Purpose,
    /// Whether fields that people have added stay.
    pub(super) no_take_over: bool,
    /// Whether actions include the resulting objects.
    pub(super) results: bool,
    pub(super) source: LiveSource<'m>,
}

/// Where live objects are read from.
pub(super) enum LiveSource<'m> {
    /// The folder given with `--observed`.
    Dump,
    /// The API servers, which are also written to where the command allows it.
    Servers(ServerAccess<'m>),
}

/// How API servers are used.
pub(super) struct ServerAccess<'s> {
    pub(super) access: &'s AccessArgs,
    /// Whether writes are made, and where a dry run is decided.
    pub(super) dry_run: DryRunStrategy,
    /// How long to wait until every object is healthy.
    pub(super) wait: Option<Duration>,
    /// Whether only permissions are checked.
    pub(super) check_access: bool,
    /// Whether to hide progress.
    pub(super) quiet: bool,
}

/// The result of a run.
pub(super) struct MemberRunResult {
    /// The actions, and the clusters they are for.
    pub(super) actions: Actions,
    /// The regions of the clusters in the inventory.
    pub(super) regions: BTreeMap<ClusterName, String>,
    /// Whether anything failed; the errors are already reported.
    pub(super) failed: bool,
}

impl MemberRunResult {
    /// `Exit::Error` if anything failed.
    pub(super) fn exit_code(&self) -> Exit {
        if self.failed { Exit::Error } else { Exit::Clean }
    }
}

impl MemberRun<'_> {
    /// Decides the actions for every cluster, and performs them where API servers are used. The run ends before where
    /// errors in the repo stop it, which are reported.
    pub(super) fn run(&self) -> Result<ControlFlow<Exit, MemberRunResult>, CommandError> {
        let repo = self.args.repo_ref();
        let mut session = ManuallyDrop::new(self.args.open_session(None, None)?);
        session.keep_manifest_values();
        if let Some(decryptor) = self.decryption.map(DecryptionArgs::open_decryptor).transpose()?.flatten() {
            session.decrypt_with(decryptor);
        }
        let apply_set = self.apply_set.choose_applyset(repo.as_ref(), &self.args.selected_paths());
        let surveyed = match &self.source {
            LiveSource::Dump if self.remember => {
                return Err(CommandError::Failed(DUMPS_REMEMBER_NOTHING.to_owned()));
            }
            LiveSource::Dump => None,
            LiveSource::Servers(servers) => {
                Some(servers.survey_clusters(self.args, &mut session, &apply_set, self.remember)?)
            }
        };
        // The API servers list while this plans.
        let early = match &self.source {
            LiveSource::Dump => None,
            LiveSource::Servers(servers) => self.read_early(servers, &session, &apply_set),
        };
        self.show_phase("planning");
        let writes = !matches!(self.purpose, Purpose::Drift { correct: false, .. });
        let destination = if writes { Destination::Clusters } else { Destination::Files };
        session.render();
        let findings = session.findings_for(destination);
        self.args.say_cluster_notices(&session)?;
        self.args.report_findings(&session, &findings);
        let incomplete = federate_engine::any_error(&findings);
        if incomplete && !self.args.keep_going {
            print_notice(stop_message(self.purpose));
            return Ok(ControlFlow::Break(Exit::Error));
        }
        let key = digest_key()?;
        let options = ReconcileOptions::new(self.purpose, &apply_set, &key)
            .with_prune(self.prune.prune_options())
            .with_results(self.results)
            .with_clusters(&self.args.clusters)
            .with_no_take_over(self.no_take_over);
        let reconciler =
            Reconciler::new(&session, &options).with_repo(repo).with_moved_from(self.moved.cloned());
        // Like the session, it is freed by the end of the process.
        let reconciler = ManuallyDrop::new(reconciler);
        let (actions, dry_run) = self.carry_out(&session, &reconciler, surveyed.as_ref(), early.as_ref())?;
        let everything = !dry_run && matches!(self.purpose, Purpose::Apply { .. });
        let errors = report::format_errors(&actions, everything);
        print_lines("error", &errors);
        print_lines("warning", &report::format_notes(&actions));
        let failed = incomplete || !errors.is_empty() || (dry_run && self.has_conflicts(&actions));
        let regions =
            session.clusters().iter().map(|cluster| (cluster.name.clone(), cluster.region.clone())).collect();
        Ok(ControlFlow::Continue(MemberRunResult { actions, regions, failed }))
    }

    /// Decides the actions, and performs them where writes are made. Returns whether none are.
    fn carry_out(
        &self,
        session: &Session,
        reconciler: &Reconciler<'_>,
        surveyed: Option<&Surveyed>,
        early: Option<&EarlyReads>,
    ) -> Result<(Actions, bool), CommandError> {
        Ok(match &self.source {
            LiveSource::Dump => {
                // Drift names them with the results.
                if !matches!(self.purpose, Purpose::Drift { .. }) {
                    print_lines("warning", &without_dump(&reconciler.unobserved_clusters()));
                }
                if reconciler.compares_no_secrets() {
                    print_lines("warning", &[SECRETS_NOT_COMPARED.to_owned()]);
                }
                self.show_phase("comparing with the dump");
                (reconciler.decide_observed(), true)
            }
            LiveSource::Servers(servers) => {
                let remember = surveyed.filter(|_| self.remember);
                let without_previous = !self.remember && !self.args.names_previous();
                let actions =
                    servers.apply_or_compare(session, reconciler, remember, without_previous, early)?;
                (actions, !servers.dry_run.writes())
            }
        })
    }

    /// Whether applying would fail because an object differs and is not adopted. The table shows it.
    fn has_conflicts(&self, actions: &Actions) -> bool {
        matches!(self.purpose, Purpose::Apply { .. })
            && actions.actions.iter().any(|one| one.action == ActionKind::Conflict && !one.diffs.is_empty())
    }

    /// Shows what the command does, also after warnings were printed.
    fn show_phase(&self, phase: &'static str) {
        if !self.args.quiet {
            progress_line::start_line(phase);
        }
    }
}

/// The warning about clusters that nothing is known about, so that silence does not mean that they are as rendered.
fn without_dump(clusters: &[&str]) -> Vec<String> {
    if clusters.is_empty() {
        return Vec::new();
    }
    let names = federate_report::cluster_names::join_clusters(clusters, &[], false);
    vec![format!(
        "no dump of {names}: nothing is decided about them; add a folder with the name of each cluster (an empty one \
         means that it has no objects)"
    )]
}

/// The warning about Secrets whose values are not compared.
pub(super) const SECRETS_NOT_COMPARED: &str = "values of Secrets are not compared: the snapshot has keyed digests of them, and \
     FEDERATE_DIGEST_KEY is not set; use the key with which the snapshot was taken";

/// Why `--remember` and `--observed` exclude each other.
const DUMPS_REMEMBER_NOTHING: &str =
    "--remember keeps the plan in the clusters, and --observed connects to none: leave out one of them";

fn stop_message(purpose: Purpose) -> &'static str {
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

/// Prints errors or warnings to standard error, one per line.
pub(super) fn print_lines(word: &str, lines: &[String]) {
    for line in lines {
        print_notice(&format!("{word}: {}\n", escape_line(line)));
    }
}
