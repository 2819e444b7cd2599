//! `federate sync diff` and `federate sync tree`: questions about a Sync that its clusters answer.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use clap::Args;

use super::target::SyncTarget;
use super::to_command_error;
use crate::cli::access::ContextArgs;
use crate::cli::builds::shared_builder;
use crate::cli::decryption::DecryptionArgs;
use crate::cli::diff::digest_key;
use crate::cli::settings::OutputFormat;
use crate::cli::{CommandError, Exit, print_notice, print_text, print_value, terminal_width, use_color};
use federate_dialects::DIALECTS;
use federate_http_client::AddressPolicy;
use federate_live::Access;
use federate_report::table::TextStyle;
use federate_report::{actions, drift};
use federate_session::Session;
use federate_sync::counters::MetricCounters;
use federate_sync::credentials::{GitCredentials, SecretData};
use federate_sync::environment::{
    CredentialsError, Environment, MemberAccess, RECONCILIATION_ALLOWANCE, SyncServices,
};
use federate_sync::hub::{HubClient, HubStates, Tenancy};
use federate_sync::inspection::{SyncTree, TreeCluster, TreeHealth, diff_sync, read_tree};
use federate_sync::sync_files::ValidSync;

/// The Sync that is asked about, and how its clusters are reached.
#[derive(Debug, Args)]
struct InspectArgs {
    #[command(flatten)]
    target: SyncTarget,

    /// Reach member clusters by the contexts of this kubeconfig, not by the credentials that the Sync names
    #[arg(long, value_name = "FILE")]
    member_kubeconfig: Option<PathBuf>,

    #[command(flatten)]
    contexts: ContextArgs,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    /// Let the Sync name servers on this machine: loopback, link-local and its own addresses
    #[arg(long, hide_short_help = true)]
    allow_local_addresses: bool,

    #[command(flatten)]
    decryption: DecryptionArgs,
}

/// Show what the next round would change in the clusters
///
/// Reads the newest revision of the source, and compares each cluster with what it renders: what a new commit changes, and what
/// drifted. Nothing is changed. Source and clusters are reached by the Secrets that the Sync names, which you need the right to
/// read, as the ServiceAccount that it names.
///
/// Exit codes: 0 no differences · 1 differences · 2 error
#[derive(Debug, Args)]
pub(super) struct SyncDiffCommand {
    /// Compare with this commit (its full hash), such as one to roll back to
    #[arg(long, value_name = "COMMIT")]
    revision: Option<String>,

    #[command(flatten)]
    args: InspectArgs,
}

/// Show the objects in each cluster, and whether they are healthy
///
/// Health is what `apply --wait` and rollouts wait for. In a rollout, each cluster has the objects of its own revision. Source
/// and clusters are reached by the Secrets that the Sync names, which you need the right to read, as the ServiceAccount that it
/// names.
///
/// Exit codes: 0 everything is healthy · 1 something is not · 2 error
#[derive(Debug, Args)]
pub(super) struct TreeCommand {
    #[command(flatten)]
    args: InspectArgs,
}

/// The context of a question: the Secrets beside the Sync.
struct InspectContext<'i> {
    hub: Arc<HubClient>,
    args: &'i InspectArgs,
    tenancy: Tenancy,
}

impl SyncServices for InspectContext<'_> {
    fn member_access(
        &self,
        valid_sync: &ValidSync,
        session: &Session,
    ) -> Result<MemberAccess, CredentialsError> {
        let has_hub = valid_sync.object.spec.hub.is_some() && self.args.member_kubeconfig.is_none();
        let contexts = session.member_contexts(&self.args.contexts.repo_contexts(), has_hub);
        if let Some(file) = &self.args.member_kubeconfig {
            let access = Access { kubeconfig: Some(file.clone()), contexts, ..Access::default() };
            return Ok(MemberAccess { access, files: Vec::new() });
        }
        let hub = &self.args.target.hub;
        let base = Access { kubeconfig: hub.kubeconfig.clone(), contexts, ..Access::default() };
        self.hub.member_access(valid_sync, session, base, hub.context.as_deref(), &self.tenancy)
    }

    fn source_credentials(&self, valid_sync: &ValidSync) -> Result<GitCredentials, CredentialsError> {
        self.hub.source_credentials(valid_sync, &self.tenancy)
    }

    fn address_policy(&self) -> AddressPolicy {
        self.tenancy.address_policy()
    }

    fn read_secret(&self, valid_sync: &ValidSync, name: &str) -> Result<SecretData, CredentialsError> {
        self.hub.read_secret(valid_sync, name, &self.tenancy)
    }

    fn allowed_signers(&self, valid_sync: &ValidSync) -> Result<Option<SecretData>, CredentialsError> {
        self.hub.allowed_signers(valid_sync, &self.tenancy)
    }
}

impl InspectArgs {
    /// Asks something about the Sync.
    fn inspect_sync<T, E: std::error::Error + 'static>(
        &self,
        ask: impl FnOnce(&ValidSync, &HubStates, &Environment<'_>) -> Result<T, E>,
    ) -> Result<T, CommandError> {
        let (hub, sync) = self.target.connect_hub()?;
        let hub = Arc::new(hub);
        // Whoever asks decides with which credentials.
        let tenancy = Tenancy {
            trusted: [sync.namespace.clone()].into(),
            allows_local_addresses: self.allow_local_addresses,
            ..Tenancy::default()
        };
        let valid_sync = hub.load_sync(&sync, &tenancy).map_err(to_command_error)?;
        let temporary = tempfile::tempdir().map_err(to_command_error)?;
        let states = HubStates::new(hub.clone(), temporary.path().to_owned());
        let context = InspectContext { hub, args: self, tenancy };
        let env = Environment {
            dialects: DIALECTS,
            builder: Some(shared_builder()),
            decryptor: self.decryption.open_decryptor()?,
            allowance: RECONCILIATION_ALLOWANCE,
            services: &context,
            allowed_signers: None,
            digest_key: digest_key()?,
            counters: MetricCounters::default(),
        };
        ask(&valid_sync, &states, &env).map_err(to_command_error)
    }
}

fn text_style() -> TextStyle {
    let out = std::io::stdout();
    TextStyle { width: terminal_width(&out), color: use_color(&out), full: false, quiet: false }
}

impl SyncDiffCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let revision = self.revision.as_deref();
        let found =
            self.args.inspect_sync(|valid_sync, states, env| diff_sync(valid_sync, states, env, revision))?;
        let errors = actions::format_errors(&found.actions, false);
        if self.args.output == OutputFormat::Table {
            print_text(&format!("compared with {}\n", found.revision))?;
            print_text(&drift::format_table(&found.actions, text_style()))?;
        } else {
            print_value(&found.actions, self.args.output)?;
        }
        if let Some(why) = &found.refused {
            print_notice(&format!("warning: a round would not carry it out: {why}\n"));
        }
        for error in &errors {
            print_notice(&format!("error: {error}\n"));
        }
        Ok(match (errors.is_empty(), found.actions.actions.is_empty()) {
            (false, _) => Exit::Error,
            (true, false) => Exit::Findings,
            (true, true) => Exit::Clean,
        })
    }
}

impl TreeCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let tree = self.args.inspect_sync(read_tree)?;
        if self.args.output == OutputFormat::Table {
            print_text(&format_tree(&tree, use_color(&std::io::stdout())))?;
        } else {
            print_value(&tree, self.args.output)?;
        }
        Ok(match tree.is_healthy() {
            _ if tree.clusters.iter().any(|cluster| cluster.error.is_some()) => Exit::Error,
            true => Exit::Clean,
            false => Exit::Findings,
        })
    }
}

/// The objects below their clusters, with their health.
fn format_tree(tree: &SyncTree, color: bool) -> String {
    let revision = tree.revision.as_deref().unwrap_or("no revision was completed");
    let mut out = format!("{}  {revision}\n", tree.metadata.full_name());
    for (at, cluster) in tree.clusters.iter().enumerate() {
        let is_last = at + 1 == tree.clusters.len();
        // Writing to a string does not fail.
        let _ = write_cluster(&mut out, cluster, is_last, color);
    }
    out
}

fn write_cluster(out: &mut String, cluster: &TreeCluster, is_last: bool, color: bool) -> std::fmt::Result {
    let (branch, below) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
    write!(out, "{branch} {}", cluster.name)?;
    if let Some(revision) = &cluster.revision {
        write!(out, " (at {revision})")?;
    }
    match &cluster.error {
        Some(error) => writeln!(out, "  {}", paint_text(color, AnsiColor::Red, error))?,
        None => writeln!(out)?,
    }
    let names: Vec<String> = cluster.objects.iter().map(|one| one.object.to_string()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    for (at, (object, name)) in cluster.objects.iter().zip(names).enumerate() {
        let branch = if at + 1 == cluster.objects.len() { "└─" } else { "├─" };
        let (word, shade) = match object.health {
            TreeHealth::Current => ("Current", AnsiColor::Green),
            TreeHealth::InProgress => ("InProgress", AnsiColor::Yellow),
            TreeHealth::Failed => ("Failed", AnsiColor::Red),
            TreeHealth::NotFound => ("NotFound", AnsiColor::Red),
        };
        let message = object.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        writeln!(out, "{below} {branch} {name:width$}  {}{message}", paint_text(color, shade, word))?;
    }
    Ok(())
}

fn paint_text(color: bool, shade: AnsiColor, text: &str) -> String {
    if !color {
        return text.to_owned();
    }
    let style = Style::new().fg_color(Some(shade.into()));
    format!("{style}{text}{style:#}")
}
