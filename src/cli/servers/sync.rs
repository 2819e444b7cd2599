//! `federate sync`

mod events;
mod get;
mod history;
mod inspection;
mod listen_args;
mod objects;
mod requests;
mod table;
mod target;

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::cli::access::AccessArgs;
use crate::cli::builds::shared_builder;
use crate::cli::decryption::DecryptionArgs;
use crate::cli::diff::digest_key;
use crate::cli::servers::push::{find_docker_credentials, find_proxy};
use crate::cli::settings::OutputFormat;
use crate::cli::{CommandError, Exit, print_notice, print_text, print_value, use_color};
use federate_dialects::DIALECTS;
use federate_engine::StepAllowance;
use federate_kubernetes::display_text::{escape_json, escape_styled, escape_text};
use federate_registry::ArtifactAddress;
use federate_report::findings;
use federate_session::Session;
use federate_sync::counters::MetricCounters;
use federate_sync::environment::{
    CredentialsError, Environment, MemberAccess, RECONCILIATION_ALLOWANCE, SyncServices,
};
use federate_sync::http_server::{hook_path, start_listeners};
use federate_sync::registry_access::RegistryAccess;
use federate_sync::run::{self, SyncResult};
use federate_sync::state::StateFolder;
use federate_sync::supervisor::run_files;
use federate_sync::sync_files::{self, InvalidFiles, ValidSync};
use federate_sync::telemetry::Telemetry;

/// Watch git repositories, and keep branches, registries and clusters in sync with them
///
/// A Sync (`federate.dev/v1alpha1`) names a source and its targets: a branch or a registry, the member clusters, or both.
/// Each round polls the source. A new revision is fetched, rendered, and then committed or pushed, applied, or both. If
/// nothing has changed, federate checks the clusters for drift (`spec.drift`). federate changes nothing if
/// the source cannot be read, has errors, renders nothing, or would remove too much. Between rounds, changes in
/// clusters are reported or reverted.
///
/// With --file, Syncs are read from files, and the folder given with --state holds the status of each Sync,
/// the scheduler's memory, and a cache of the source. Only one process at a time can use it.
///
/// Without --file, federate runs the Sync objects of an API server: that of --context, or of the cluster that
/// it runs in. It writes status, memory and Events there, and reads Secrets from there. Several processes
/// elect a leader.
///
/// Without --once, federate runs each Sync at its interval until SIGTERM or SIGINT, and then finishes the
/// rounds in progress; one that only reads ends after 7 seconds. It watches files of Syncs, and folders that
/// are sources, for changes.
///
/// Exit codes with --once: 0 everything is in sync · 1 clusters differ or a rollout is not over · 2 error
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(in crate::cli) struct SyncCommand {
    #[command(subcommand)]
    request: Option<requests::SyncRequest>,

    /// Files with Sync objects
    #[arg(long = "file", short, value_name = "FILE", num_args = 1.., requires = "state")]
    files: Vec<PathBuf>,

    /// The folder for status, memory and caches
    ///
    /// Without --file, it only holds caches, by default in a temporary folder.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Reconcile each Sync once, then exit
    #[arg(long)]
    once: bool,

    /// The most steps of work that each part of a round of one Sync may take [default: by the size of its repo, at most 2000000000]
    ///
    /// A step is about a hundred machine instructions. A Sync that takes more ends with the error too-much-work.
    #[arg(long, value_name = "STEPS", hide_short_help = true)]
    work_limit: Option<u64>,

    /// The allowed signers: OpenSSH's format, armored OpenPGP keys [default: git's gpg.ssh.allowedSignersFile]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    allowed_signers: Option<PathBuf>,

    /// Output format of the results
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    /// Log format on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", hide_short_help = true)]
    log_format: LogFormat,

    /// Log errors only; with --once, print only the results
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    listen: listen_args::ListenArgs,

    #[command(flatten)]
    objects: objects::ObjectArgs,

    #[command(flatten)]
    decryption: DecryptionArgs,

    #[command(flatten)]
    access: AccessArgs,
}

/// The log formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For a terminal
    Text,
    /// For scripts: one object per line
    Json,
}

const EXAMPLES: &str = "\
Examples:
  federate sync --once -f examples/sync/sync.yaml --state state
  federate sync --context hub --namespace platform";

impl SyncCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        if let Some(request) = &self.request {
            return request.run();
        }
        let Some(state) = self.state.as_ref().filter(|_| !self.files.is_empty()) else {
            self.init_logging();
            return self.run_objects();
        };
        let syncs = match sync_files::read_files(&self.files) {
            Ok(syncs) => syncs,
            Err(invalid) => {
                report_invalid(&invalid);
                return Ok(Exit::Error);
            }
        };
        self.init_logging();
        let state = StateFolder::open(state).map_err(to_command_error)?;
        let env = Environment {
            dialects: DIALECTS,
            builder: Some(shared_builder()),
            decryptor: self.decryption.open_decryptor()?,
            allowance: self.work_limit.map_or(RECONCILIATION_ALLOWANCE, StepAllowance::Chosen),
            services: &FileSyncServices(&self.access),
            allowed_signers: self.allowed_signers.clone(),
            digest_key: digest_key()?,
            counters: MetricCounters::default(),
        };
        if self.once { self.run_once(&syncs, &state, &env) } else { self.run_files(&syncs, &state, &env) }
    }

    fn run_files(
        &self,
        syncs: &[ValidSync],
        state: &StateFolder,
        env: &Environment<'_>,
    ) -> Result<Exit, CommandError> {
        let addresses = self.listen.listen_addresses()?;
        if let Some((_, token)) = &addresses.webhooks {
            for sync in syncs.iter().map(|valid_sync| &valid_sync.object.metadata) {
                print_notice(&format!("{}: webhooks at {}\n", sync.full_name(), hook_path(token, sync)));
            }
        }
        let telemetry = Arc::new(Telemetry::default());
        let (events, happens) = mpsc::channel();
        start_listeners(addresses, &telemetry, events.clone()).map_err(to_command_error)?;
        let watched = run_files(&self.files, state, env, &telemetry, events, &happens, report_invalid);
        Ok(if watched.inspect_err(report_invalid).is_ok() { Exit::Clean } else { Exit::Error })
    }

    fn run_once(
        &self,
        syncs: &[ValidSync],
        state: &StateFolder,
        env: &Environment<'_>,
    ) -> Result<Exit, CommandError> {
        self.print_results(&run::reconcile_once(syncs, state, env).map_err(to_command_error)?)
    }

    /// Prints the result of each Sync.
    fn print_results(&self, done: &[SyncResult]) -> Result<Exit, CommandError> {
        if self.output == OutputFormat::Table {
            print_text(&done.iter().map(format_result).collect::<String>())?;
        } else {
            let statuses: Vec<_> = done.iter().map(|done| &done.record).collect();
            print_value(&statuses, self.output)?;
        }
        Ok(done.iter().map(result_exit).max_by_key(|exit| *exit as u8).unwrap_or(Exit::Clean))
    }

    fn init_logging(&self) {
        let most = match (self.quiet, self.once) {
            (false, _) => LevelFilter::INFO,
            (true, false) => LevelFilter::ERROR,
            // The results are printed anyway.
            (true, true) => LevelFilter::OFF,
        };
        let is_colored = use_color(&std::io::stderr());
        let escape = match self.log_format {
            LogFormat::Json => escape_json,
            LogFormat::Text if is_colored => escape_styled,
            LogFormat::Text => escape_text,
        };
        let log = tracing_subscriber::fmt().with_writer(move || LogWriter { escape }).with_max_level(most);
        let log = log.with_target(false).with_span_events(FmtSpan::NONE).with_ansi(is_colored);
        match self.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().flatten_event(true).init(),
        }
    }
}

/// Writes the lines of the log to standard error, in which all that servers and repos say can be seen.
struct LogWriter {
    escape: fn(&str) -> String,
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = (self.escape)(&String::from_utf8_lossy(line));
        std::io::stderr().lock().write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The context of reconciliations of Syncs from files: clusters through the kubeconfig, the user's git configuration, and docker's
/// credentials.
struct FileSyncServices<'s>(&'s AccessArgs);

impl SyncServices for FileSyncServices<'_> {
    fn member_access(&self, _: &ValidSync, session: &Session) -> Result<MemberAccess, CredentialsError> {
        Ok(MemberAccess { access: self.0.build_access(session), files: Vec::new() })
    }

    fn registry_access(
        &self,
        _: &ValidSync,
        address: &ArtifactAddress,
    ) -> Result<RegistryAccess, CredentialsError> {
        let host = address.host();
        let remedy = format!("`docker login {host}` stores credentials");
        Ok(RegistryAccess {
            credentials: find_docker_credentials(address)?,
            proxy: find_proxy(host)?,
            remedy,
        })
    }
}

/// Reports what is wrong with the files.
fn report_invalid(invalid: &InvalidFiles) {
    print_notice(&findings::format_text(
        &invalid.repo,
        &invalid.findings,
        DIALECTS,
        use_color(&std::io::stderr()),
    ));
}

fn to_command_error(error: impl Into<Box<dyn std::error::Error>>) -> CommandError {
    CommandError::Failed(error.into().to_string())
}

fn format_result(done: &SyncResult) -> String {
    match &done.outcome {
        None => format!("{}: suspended\n", done.name),
        Some(outcome) => format!("{}: {}: {}\n", done.name, outcome.reason.name(), outcome.message),
    }
}

fn result_exit(done: &SyncResult) -> Exit {
    match &done.outcome {
        Some(outcome) if outcome.is_progressing() => Exit::Findings,
        Some(outcome) if !outcome.is_ready() => Exit::Error,
        Some(outcome) if outcome.drift.is_some() => Exit::Findings,
        _ => Exit::Clean,
    }
}
