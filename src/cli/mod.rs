//! The command line: arguments to calls, results to streams, outcomes to exit codes.
//!
//! Standard output carries the result, standard error everything else.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use clap::{CommandFactory, Parser, Subcommand};

use federate_report::table::Look;

mod access;
mod apply;
mod check;
mod commit;
mod completions;
mod diff;
mod drift;
mod exit;
mod explain;
mod import;
#[cfg(feature = "live")]
mod install;
mod members;
mod plan;
mod release;
mod render;
mod revision;
mod settings;
mod snapshot;
#[cfg(feature = "live")]
mod sync;
mod whatif;

pub use exit::Exit;
use exit::Fault;

/// Render per-cluster Kubernetes manifests by running the multi-cluster scheduler offline.
///
/// A repo is a folder of templates (plain manifests), a cluster inventory, placement policies and
/// override policies, in the dialects of Karmada, KubeAdmiral, KubeFleet and KubeFed. federate
/// decides what each cluster receives exactly as the control plane would, without one.
#[derive(Debug, Parser)]
#[command(name = "federate", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  federate plan                          who goes where in this folder, and why not
  federate render --out out              write every cluster's manifests below out/
  federate explain deployment/web -n shop
  federate diff --from main              what a change causes in the clusters
  federate whatif --each cluster         what the loss of each cluster would cause
  federate commit --branch rendered --push
                                         put the result on a branch
  federate apply --dry-run=client        what applying to the clusters would do
  federate check -o json                 every finding, for scripts
  federate import -f web.yaml --policy web -i
                                         make templates of live objects
  federate sync --once -f sync.yaml --state state
                                         bring branches and clusters to what a repository renders

Exit codes: 0 done, nothing to report · 1 done, with findings or differences · 2 error";

#[derive(Debug, Subcommand)]
enum Command {
    Render(render::Render),
    Commit(commit::Commit),
    Plan(plan::Plan),
    Diff(diff::Diff),
    Apply(apply::Apply),
    Drift(drift::Drift),
    Explain(explain::Explain),
    #[command(name = "whatif")]
    WhatIf(whatif::WhatIf),
    Check(check::Check),
    Import(import::Import),
    Snapshot(snapshot::Snapshot),
    #[cfg(feature = "live")]
    Sync(sync::Sync),
    #[cfg(feature = "live")]
    Install(install::Install),
    Completions(completions::Completions),
}

/// Runs the command line.
pub fn run(args: impl Iterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Error } else { Exit::Clean };
            // Nothing can be said when even this cannot be printed.
            let _ = error.print();
            return exit;
        }
    };
    let outcome = match cli.command {
        Command::Render(command) => command.run(),
        Command::Commit(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Diff(command) => command.run(),
        Command::Apply(command) => command.run(),
        Command::Drift(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::WhatIf(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Snapshot(command) => command.run(),
        #[cfg(feature = "live")]
        Command::Sync(command) => command.run(),
        #[cfg(feature = "live")]
        Command::Install(command) => command.run(),
        Command::Completions(command) => command.run(&mut Cli::command()),
    };
    match outcome {
        Ok(exit) => exit,
        Err(Fault::BrokenPipe) => Exit::Clean,
        Err(Fault::Failed(message)) => {
            say(&format!("error: {message}\n"));
            Exit::Error
        }
    }
}

/// Writes the result.
fn print(text: &str) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes the result as JSON or YAML.
fn print_value<T: serde::Serialize>(value: &T, format: settings::Format) -> Result<(), Fault> {
    if format == settings::Format::Json {
        let mut out = io::BufWriter::new(io::stdout().lock());
        serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        return Ok(out.flush()?);
    }
    let value = serde_json::to_value(value).map_err(|e| Fault::Failed(e.to_string()))?;
    let mut text = String::new();
    federate_yaml::write(&value, &mut text);
    print(&text)
}

/// Writes to standard error; a closed one is nobody's fault.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// How tables look on standard output.
fn look(full: bool) -> Look {
    let terminal = io::stdout().is_terminal();
    let width = terminal_size::terminal_size().filter(|_| terminal).map_or(120, |(w, _)| usize::from(w.0));
    Look { width: width.max(60), styled: styled(&io::stdout()), full }
}

/// Colour only on terminals, and not when `NO_COLOR` is set.
fn styled(stream: &impl IsTerminal) -> bool {
    let asked_not = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    stream.is_terminal() && !asked_not && !dumb
}
