//! The command line: parses arguments, calls the library, prints results, and maps outcomes to exit codes.
//!
//! Results go to standard output, everything else to standard error.

#![cfg_attr(
    not(feature = "live"),
    allow(dead_code, reason = "arguments about clusters are parsed, and nothing connects to one")
)]

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use anstream::AutoStream;
use anstream::stream::RawStream;
use clap::error::{ContextKind, ContextValue};
use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

mod access;
mod apply;
mod builds;
mod check;
mod cluster_names;
mod clusters;
mod commit;
mod completers;
mod completions;
mod crash;
mod decryption;
mod deletions;
mod diff;
mod doctor;
mod drift;
mod exit;
mod explain;
mod filter;
mod findings_page;
mod import;
mod init;
mod man;
mod members;
mod migrate;
mod output;
mod page;
mod plan;
mod progress;
mod release;
mod render;
mod revision;
mod scenario;
mod selection;
#[cfg_attr(not(feature = "live"), path = "cli/no_servers.rs")]
mod servers;
mod settings;
mod snapshot;
mod snapshot_args;
mod vendor;
mod watch;
mod whatif;
mod wrapping;

pub use crash::exit_on_panic;
use exit::CommandError;
pub use exit::Exit;
use federate_kubernetes::display_text::{escape_json, escape_styled, escape_text};

/// Render per-cluster Kubernetes manifests by running the multi-cluster scheduler offline
///
/// A repo is a folder of templates (plain manifests), a cluster inventory, placement policies and override
/// policies, in the dialect of Karmada, KubeAdmiral, KubeFleet, KubeFed or Open Cluster Management. federate decides
/// what each cluster receives as the control plane would, but without a control plane.
#[derive(Debug, Parser)]
#[command(name = "federate", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    color: ColorChoice,

    #[command(flatten)]
    builds: builds::BuildArgs,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  federate check examples/repo                            # errors and likely mistakes
  federate plan examples/repo                             # where each object is placed
  federate explain deployment/worker examples/repo        # why it is placed there
  federate diff examples/repo --from main                 # what a change causes
  federate whatif examples/repo --each cluster            # what the loss of a cluster causes
  federate render examples/repo --out out                 # the manifests of every cluster
  federate commit examples/repo --branch rendered --push  # publish the manifests with git
  federate apply examples/repo --dry-run=server           # what applying would do

Exit codes: 0 nothing to report · 1 findings or differences · 2 error";

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitCommand),
    Check(check::CheckCommand),
    Plan(plan::PlanCommand),
    Clusters(clusters::ClustersCommand),
    Explain(explain::ExplainCommand),
    Diff(diff::DiffCommand),
    #[command(name = "whatif")]
    WhatIf(whatif::WhatIfCommand),
    Render(render::RenderCommand),
    Commit(commit::CommitCommand),
    Apply(apply::ApplyCommand),
    Drift(drift::DriftCommand),
    Import(import::ImportCommand),
    Migrate(migrate::MigrateCommand),
    Snapshot(snapshot::SnapshotCommand),
    Vendor(vendor::VendorCommand),
    #[command(flatten)]
    Servers(servers::ServerCommand),
    Doctor(doctor::DoctorCommand),
    Completions(completions::CompletionsCommand),
    Man(man::ManCommand),
}

/// Runs the command line.
pub fn run(args: impl Iterator<Item = OsString>) -> Exit {
    // Answers shells that ask for the values of a word, and ends then.
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let args = cluster_names::repeat_option(args);
    let is_option = |arg: &&OsString| arg.as_encoded_bytes().starts_with(b"-");
    let writes_folder = args.iter().skip(1).find(|arg| !is_option(arg)).is_some_and(|arg| arg == "render");
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(mut error) => {
            if writes_folder {
                suggest_out(&mut error);
            }
            return print_usage(&error);
        }
    };
    choose_color(cli.color);
    cli.builds.choose();
    let outcome = match cli.command {
        Command::Init(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Clusters(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Diff(command) => command.run(),
        Command::WhatIf(command) => command.run(),
        Command::Render(command) => command.run(),
        Command::Commit(command) => command.run(),
        Command::Apply(command) => command.run(),
        Command::Drift(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Migrate(command) => command.run(),
        Command::Snapshot(command) => command.run(),
        Command::Vendor(command) => command.run(),
        Command::Servers(command) => servers::run_command(command),
        Command::Doctor(command) => command.run(),
        Command::Completions(command) => command.run(&mut Cli::command()),
        Command::Man(command) => command.run(Cli::command()),
    };
    match outcome {
        Ok(exit) => exit,
        Err(CommandError::BrokenPipe) => Exit::Clean,
        Err(CommandError::Failed(message)) => {
            print_notice(&format!("error: {}\n", escape_text(&message)));
            Exit::Error
        }
    }
}

/// Suggests `--out` where the value of `--output` is none of its formats, and is like none.
fn suggest_out(error: &mut clap::Error) {
    let text_of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let value = text_of(ContextKind::InvalidValue).to_owned();
    let is_output = text_of(ContextKind::InvalidArg).contains("--output") && !value.is_empty();
    if is_output && error.get(ContextKind::SuggestedValue).is_none() {
        let tip =
            format!("'--output' is a format; did you mean '--out {value}', the folder for the manifests?");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Prints help to standard output, and what is wrong with arguments to standard error, where they may be quoted.
fn print_usage(error: &clap::Error) -> Exit {
    let rendered = error.render();
    let is_help = !error.use_stderr();
    let is_colored = if is_help { use_color(&io::stdout()) } else { use_color(&io::stderr()) };
    let text = if is_colored {
        escape_styled(&rendered.ansi().to_string())
    } else {
        escape_text(&rendered.to_string())
    };
    // If printing fails, there is no other way to report it.
    let _ = if is_help {
        io::stdout().write_all(text.as_bytes())
    } else {
        io::stderr().write_all(text.as_bytes())
    };
    if is_help { Exit::Clean } else { Exit::Error }
}

/// Text for people as it goes to a stream: whatever repos, servers, remotes and arguments say can be seen, and on a terminal, lines
/// fit the width.
fn format_shown(text: &str, stream: &(impl RawStream + IsTerminal + AsFd)) -> String {
    let text = if use_color(stream) { escape_styled(text) } else { escape_text(text) };
    match terminal_width(stream) {
        Some(width) => wrapping::wrap_text(&text, width),
        None => text,
    }
}

/// Prints a result for people to standard output: on a terminal, its lines fit the width.
fn print_text(text: &str) -> Result<(), CommandError> {
    let text = format_shown(text, &io::stdout());
    progress::stop_line();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The width of the terminal to which a stream goes, if it goes to one.
fn terminal_width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = terminal_size::terminal_size_of(stream).filter(|_| stream.is_terminal());
    size.map(|(columns, _)| usize::from(columns.0))
}

/// Prints a result for scripts or files to standard output: as it is, unless that is a terminal.
fn print_unchanged(text: &str) -> Result<(), CommandError> {
    print_to(|out| out.write_all(text.as_bytes()), escape_text)
}

/// Prints the result as JSON or YAML.
fn print_value<T: serde::Serialize>(value: &T, format: settings::OutputFormat) -> Result<(), CommandError> {
    if format == settings::OutputFormat::Json {
        let write = |out: &mut dyn io::Write| {
            serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
            out.write_all(b"\n")
        };
        return print_to(write, escape_json);
    }
    let value = serde_json::to_value(value).map_err(|e| CommandError::Failed(e.to_string()))?;
    let mut text = String::new();
    federate_yaml::write_document(&value, &mut text);
    print_unchanged(&text)
}

/// Prints what `write` writes, as it comes; to a terminal, what `escape` makes of it.
fn print_to(
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    escape: fn(&str) -> String,
) -> Result<(), CommandError> {
    progress::stop_line();
    let mut out = io::BufWriter::new(io::stdout().lock());
    if out.get_ref().is_terminal() {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        out.write_all(escape(&String::from_utf8_lossy(&bytes)).as_bytes())?;
    } else {
        write(&mut out)?;
    }
    Ok(out.flush()?)
}

/// Prints to standard error, and ignores that it may be closed.
fn print_notice(text: &str) {
    progress::stop_line();
    let _ = io::stderr().lock().write_all(format_shown(text, &io::stderr()).as_bytes());
}

/// Makes the choice of `--color` that of all streams.
fn choose_color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Whether to use colour on this stream: only on terminals, unless `--color`, `NO_COLOR` or
/// `CLICOLOR_FORCE` say otherwise.
fn use_color(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// A folder in the user's cache, if the environment names one.
fn cache_folder(name: &str) -> Option<PathBuf> {
    let [cache, home] = ["XDG_CACHE_HOME", "HOME"]
        .map(|variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute()));
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")))?;
    Some(cache.join("federate").join(name))
}
